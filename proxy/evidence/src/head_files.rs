//! The files that hold the head of a log that is still being written: one next to the log, and a copy below `state.dir`, out of
//! the reach of those who can write only to the log's directory.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::chain::TreeHead;
use crate::chain::event::LogEvent;
use crate::chain::head::is_signed_by;
use crate::digest::Sha256Digest;
use crate::regular_file;

/// The size of a head file. Heads are padded to it, so that each overwrites the one before in a single write.
const HEAD_BYTES: usize = 8192;

/// The two head files of a log.
#[derive(Debug)]
pub struct HeadFiles {
    beside: HeadFile,
    copy: HeadFile,
}

/// A file for heads.
#[derive(Debug)]
struct HeadFile {
    path: PathBuf,
    /// The file that a head was saved in, and its [`file_access`] then.
    open: Option<(File, [u64; 5])>,
}

/// A head whose signature is valid for the key that it names.
#[derive(Clone)]
struct SignedHead {
    line: Vec<u8>,
    head: TreeHead,
}

impl HeadFiles {
    /// The number of the files.
    pub const COUNT: usize = 2;

    /// Returns the head files of the log at `path`. The name of the copy in `state_dir` depends on the log's path, so that each
    /// log has its own.
    pub fn for_log(path: &Path, state_dir: &Path) -> Self {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".head");
        // A relative name, so that a state directory that contains the log can be moved.
        let name = path.strip_prefix(state_dir).unwrap_or(path);
        let mut digest = Sha256Digest::of(name.as_os_str().as_encoded_bytes()).to_string();
        digest.truncate(16);
        let copy = state_dir.join(format!("evidence.{digest}.head"));
        let [beside, copy] = [beside.into(), copy].map(|path| HeadFile { path, open: None });
        Self { beside, copy }
    }

    /// Saves a head in both files. Returns the files that could not be written; the next process notices an old head, and says
    /// that later lines were not signed.
    pub fn save(&mut self, line: &[u8]) -> Vec<(&Path, io::Error)> {
        let files = [&mut self.copy, &mut self.beside].into_iter();
        files.filter_map(|file| file.save(line).err().map(|error| (&*file.path, error))).collect()
    }

    /// Saves the head of an empty log, which shows later that the new key has not signed any lines before.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be written.
    pub fn save_first(&mut self, line: &[u8]) -> io::Result<()> {
        self.copy.save(line)
    }

    /// Returns whether there is a head, valid or not.
    pub fn exists(&self) -> bool {
        self.beside.path.exists() || self.copy.path.exists()
    }

    /// Returns whether there is a copy of any log's head below `state.dir`.
    pub fn has_any_copy(&self) -> bool {
        let dir = self.copy.path.parent().unwrap_or(Path::new("."));
        fs::read_dir(dir).into_iter().flatten().flatten().any(|entry| {
            let name = entry.file_name().into_encoded_bytes();
            name.starts_with(b"evidence.") && name.ends_with(b".head")
        })
    }

    /// Returns the newest head that was signed with the key whose public half is `public`.
    pub fn newest_signed_by(&self, public: &str) -> Option<Vec<u8>> {
        let read = |file: &HeadFile| SignedHead::read(&file.path).ok().flatten();
        let signed = |file| read(file).filter(|signed: &SignedHead| signed.head.key == public);
        SignedHead::newer(signed(&self.copy), signed(&self.beside)).map(|signed| signed.line)
    }

    /// Returns whether the head next to the log belongs to another log with the same key.
    pub fn is_of_another_log(&self) -> bool {
        let read = |file: &HeadFile| SignedHead::read(&file.path).ok().flatten();
        match (read(&self.copy), read(&self.beside)) {
            (Some(copy), Some(beside)) => {
                copy.head.key == beside.head.key && !copy.is_of_same_log(&beside)
            }
            _ => false,
        }
    }

    /// Returns the newest head for readers that have no key. A head next to the log that was signed with another key than the
    /// copy is ignored.
    ///
    /// # Errors
    ///
    /// Returns an error if there is none.
    pub fn newest(&self) -> io::Result<Vec<u8>> {
        let copy = SignedHead::read(&self.copy.path).ok().flatten();
        let beside = SignedHead::read(&self.beside.path);
        if copy.is_none() && !matches!(beside, Ok(Some(_))) {
            // An invalid head is returned as well, since the check of an export reports it.
            return read(&self.beside.path);
        }
        let key = copy.as_ref().map(|copy| copy.head.key.clone());
        let is_comparable =
            |beside: &SignedHead| key.as_ref().is_none_or(|key| *key == beside.head.key);
        let beside = beside.ok().flatten().filter(is_comparable);
        let newer = SignedHead::newer(copy, beside);
        newer.map(|newer| newer.line).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl HeadFile {
    /// Writes a head over the one before, in the file that is at the path now.
    fn save(&mut self, line: &[u8]) -> io::Result<()> {
        let mut padded = line.to_vec();
        padded.resize(HEAD_BYTES - 1, b' ');
        padded.push(b'\n');
        // The file stays open: a look at its path costs less than opening it for each head. If somebody has deleted it, put
        // another in its place, or taken the right to write to it, that must show all the same.
        let found = fs::metadata(&self.path).ok().as_ref().map(file_access);
        let open = self.open.take().filter(|(_, access)| found == Some(*access));
        let (file, access) = match open {
            Some(open) => open,
            None => open_to_write(&self.path)?,
        };
        file.write_all_at(&padded, 0)?;
        self.open = Some((file, access));
        Ok(())
    }
}

fn open_to_write(path: &Path) -> io::Result<(File, [u64; 5])> {
    // Not truncated: a crash between truncating and writing would leave no head.
    let mut options = regular_file::options();
    let file = options.write(true).create(true).truncate(false).mode(0o640).open(path)?;
    let access = file_access(&file.metadata()?);
    Ok((file, access))
}

/// Returns what differs if another file is at a path, or others may write to it.
fn file_access(file: &Metadata) -> [u64; 5] {
    [file.dev(), file.ino(), file.mode().into(), file.uid().into(), file.gid().into()]
}

impl SignedHead {
    fn read(path: &Path) -> io::Result<Option<Self>> {
        let line = read(path)?;
        let head = LogEvent::parse_head(&line).filter(|head| is_signed_by(&line, &head.key));
        Ok(head.map(|head| Self { line, head }))
    }

    /// Returns the newer of two heads with the same key. If the copy could not be saved, the head next to the log is newer; but if
    /// that belongs to another log, somebody else put it there.
    fn newer(copy: Option<Self>, beside: Option<Self>) -> Option<Self> {
        let (Some(copy), Some(beside)) = (&copy, &beside) else {
            return copy.or(beside);
        };
        let is_newer = copy.is_of_same_log(beside) && beside.position() > copy.position();
        Some(if is_newer { beside.clone() } else { copy.clone() })
    }

    /// Returns whether both can be heads of one log; earlier versions did not name it.
    fn is_of_same_log(&self, other: &Self) -> bool {
        match (&self.head.count, &other.head.count) {
            (Some(count), Some(other)) => count.log == other.log,
            _ => true,
        }
    }

    fn position(&self) -> (u64, u64) {
        (self.head.file, self.head.lines)
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut line = regular_file::read(path)?;
    line.truncate(line.trim_ascii_end().len());
    Ok(line)
}

#[cfg(test)]
mod tests {
    use std::fs::{OpenOptions, Permissions};
    use std::io::{Seek as _, SeekFrom};
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::SystemTime;

    use ring::signature::Ed25519KeyPair;

    use super::*;
    use crate::chain::{HashChain, LogCount};

    fn head(log: &str, lines: u64) -> Vec<u8> {
        let key = Ed25519KeyPair::from_seed_unchecked(&[1; 32]).unwrap();
        let mut chain = HashChain::new();
        for line in 0..lines {
            chain.append(format!("{{\"line\":{line}}}").as_bytes());
        }
        let count = Some(LogCount::new(log.to_owned()));
        let head = TreeHead { count, ..chain.tree_head(&key) };
        chain.sign_head(&key, SystemTime::UNIX_EPOCH, head)
    }

    #[test]
    fn a_newer_head_of_another_log_replaces_none() {
        let dir = tempfile::tempdir().unwrap();
        let mut heads = HeadFiles::for_log(&dir.path().join("log/decisions.jsonl"), dir.path());
        fs::create_dir(dir.path().join("log")).unwrap();
        let own = head("a", 5);
        let newer = head("a", 9);
        let other = head("b", 9);
        assert!(heads.save(&own).is_empty());
        let key = LogEvent::parse_head(&own).unwrap().key;
        for (beside, expected, is_foreign) in [(&newer, &newer, false), (&other, &own, true)] {
            heads.beside.save(beside).unwrap();
            assert_eq!(heads.newest().unwrap(), *expected);
            assert_eq!(heads.newest_signed_by(&key).as_ref(), Some(expected));
            assert_eq!(heads.is_of_another_log(), is_foreign);
        }
    }

    #[test]
    fn a_head_file_that_is_replaced_or_gone_is_written_anew() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("log");
        fs::create_dir(&folder).unwrap();
        let mut heads = HeadFiles::for_log(&folder.join("decisions.jsonl"), dir.path());
        let beside = heads.beside.path.clone();
        let aside = dir.path().join("aside");
        let mut lines = 0;
        let mut save = |is_saved: bool| {
            lines += 1;
            let saved = head("a", lines);
            let failed: Vec<_> =
                heads.save(&saved).iter().map(|(path, _)| path.to_path_buf()).collect();
            assert_eq!(failed, if is_saved { vec![] } else { vec![beside.clone()] });
            assert_eq!(read(&heads.copy.path).unwrap(), saved);
            assert!(!is_saved || read(&beside).unwrap() == saved);
        };
        save(true);
        save(true);
        fs::remove_file(&beside).unwrap();
        save(true);
        // It still has a name, but another.
        fs::rename(&beside, &aside).unwrap();
        save(true);
        fs::rename(&aside, &beside).unwrap();
        save(true);
        fs::rename(&folder, &aside).unwrap();
        save(false);
        fs::create_dir(&folder).unwrap();
        save(true);
        fs::remove_file(&beside).unwrap();
        fs::create_dir(&beside).unwrap();
        save(false);
        fs::remove_dir(&beside).unwrap();
        save(true);
    }

    #[test]
    fn a_head_file_stays_open_until_its_permissions_change() {
        let dir = tempfile::tempdir().unwrap();
        let mut heads = HeadFiles::for_log(&dir.path().join("decisions.jsonl"), dir.path());
        assert!(heads.save(&head("a", 1)).is_empty());
        // A position that a file has only if it is still the same open one.
        let mark = 7;
        let open = |heads: &HeadFiles| heads.beside.open.as_ref().unwrap().0.try_clone().unwrap();
        open(&heads).seek(SeekFrom::Start(mark)).unwrap();
        assert!(heads.save(&head("a", 2)).is_empty());
        assert_eq!(open(&heads).stream_position().unwrap(), mark);
        fs::set_permissions(&heads.beside.path, Permissions::from_mode(0o440)).unwrap();
        let may_write = OpenOptions::new().write(true).open(&heads.beside.path).is_ok();
        assert_eq!(heads.save(&head("a", 3)).is_empty(), may_write, "root may");
        assert_eq!(heads.beside.open.is_some(), may_write);
        if may_write {
            assert_eq!(open(&heads).stream_position().unwrap(), 0);
        }
    }
}
