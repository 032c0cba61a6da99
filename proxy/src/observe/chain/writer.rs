//! The chain as it grows: appends lines and signs heads over them.

use std::time::SystemTime;

use super::event::{Event, What, program};
use super::head::{Head, signed};
use super::link::{NONE, linked};
use super::tree::Tree;
use crate::observe::digest::Digest;
use crate::signing::Key;

/// The state of the chain after the last line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    /// The file's number.
    pub(crate) file: u64,
    /// The digest of the last line, which may be in the previous file.
    pub(crate) last: Digest,
    pub(crate) tree: Tree,
}

impl Chain {
    /// Returns the state before the very first line.
    pub(crate) fn new() -> Self {
        Self {
            file: 1,
            last: NONE,
            tree: Tree::default(),
        }
    }

    /// Returns the state before the first line of the next file.
    pub(crate) fn next_file(&self) -> Self {
        Self {
            file: self.file + 1,
            last: self.last,
            tree: Tree::default(),
        }
    }

    /// Returns the event that begins a file.
    pub(crate) fn first_line(&self, at: SystemTime) -> Event {
        let (file, program) = (self.file, program());
        Event::new(What::File { file, program }, at)
    }

    /// Appends an object and returns it as a line, without the line feed.
    pub(crate) fn add(&mut self, object: &[u8]) -> Vec<u8> {
        let line = linked(object, self.last);
        self.take(&line);
        line
    }

    /// Appends a line that is already in the file, whatever it contains.
    pub(crate) fn take(&mut self, line: &[u8]) {
        self.last = Digest::of(line);
        self.tree.push(self.last);
    }

    /// Returns the head that ends the file, without a line feed.
    pub(crate) fn end(&self, key: &Key, at: SystemTime) -> Vec<u8> {
        let next = Some(self.file + 1);
        self.head(
            key,
            at,
            Head {
                next,
                ..self.empty_head(key)
            },
        )
    }

    /// Returns the head of a file that is still being written and holds `bytes` bytes so far. It is stored next to the file.
    pub(crate) fn so_far(&self, key: &Key, at: SystemTime, bytes: u64, stopped: bool) -> Vec<u8> {
        let (bytes, peaks) = (Some(bytes), self.tree.peaks().to_vec());
        let head = Head {
            bytes,
            peaks,
            stopped,
            ..self.empty_head(key)
        };
        self.head(key, at, head)
    }

    fn empty_head(&self, key: &Key) -> Head {
        Head {
            file: self.file,
            lines: self.tree.lines(),
            root_sha256: self.tree.root(),
            next: None,
            bytes: None,
            peaks: Vec::new(),
            stopped: false,
            key: key.public(),
        }
    }

    fn head(&self, key: &Key, at: SystemTime, head: Head) -> Vec<u8> {
        let object = Event::new(What::Head(head), at).object();
        signed(&linked(&object, self.last), key)
    }
}

#[cfg(test)]
mod tests {
    use super::super::head::is_signed_by;
    use super::super::link::previous;
    use super::*;

    #[test]
    fn head_signs_lines_and_names_key() {
        let dir = tempfile::tempdir().unwrap();
        let key = Key::create(&dir.path().join("evidence.key")).unwrap();
        let mut chain = Chain::new();
        let first = chain.add(br#"{"a":1}"#);
        let second = chain.add(br#"{"a":2}"#);
        assert_eq!(previous(&first), Some(NONE));
        assert_eq!(previous(&second), Some(Digest::of(&first)));
        let so_far = chain.so_far(&key, SystemTime::UNIX_EPOCH, 7, true);
        let end = chain.end(&key, SystemTime::UNIX_EPOCH);
        for line in [&so_far, &end] {
            assert_eq!(previous(line), Some(Digest::of(&second)));
            assert!(is_signed_by(line, &key.public()));
            let changed = String::from_utf8(line.clone()).unwrap();
            let changed = changed.replace("\"lines\":2", "\"lines\":3");
            assert!(!is_signed_by(changed.as_bytes(), &key.public()));
        }
        let other = Key::create(&dir.path().join("other.key")).unwrap();
        assert!(!is_signed_by(&end, &other.public()));
        let head = Event::read(&so_far).unwrap();
        let What::Head(head) = head.what else {
            panic!("{head:?}");
        };
        assert!(head.stopped);
        assert_eq!(head.tree(), Some(chain.tree));
    }
}
