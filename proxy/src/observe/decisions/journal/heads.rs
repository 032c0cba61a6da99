//! Where the head of a log that goes on is kept: beside the log, and a copy below `state.dir`, which whoever can only write to the
//! log does not reach.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::options::JournalOptions;
use crate::observe::chain::Head;
use crate::observe::chain::event::Event;
use crate::observe::chain::head::is_signed_by;
use crate::observe::digest::Digest;
use crate::signing::Key;

/// The head is written over the one before, in one piece: it is always this long, however many subtrees it names.
const HEAD_BYTES: usize = 8192;

/// The files that hold the head of a log.
#[derive(Clone, Debug)]
pub(crate) struct Heads {
    beside: PathBuf,
    copy: PathBuf,
}

/// A head that its own signature fits.
struct Kept {
    line: Vec<u8>,
    head: Head,
}

impl Heads {
    /// Those of the log that is written as `options` say. Each log has a copy of its own: another path is another log.
    pub(crate) fn of(options: &JournalOptions) -> Self {
        let (path, state_dir) = (&options.path, &options.state_dir);
        let mut beside = path.as_os_str().to_owned();
        beside.push(".head");
        // A directory may be moved with all that is in it.
        let name = path.strip_prefix(state_dir).unwrap_or(path);
        let mut digest = Digest::of(name.as_os_str().as_encoded_bytes()).to_string();
        digest.truncate(16);
        Self {
            beside: beside.into(),
            copy: state_dir.join(format!("evidence.{digest}.head")),
        }
    }

    /// Writes the head so far. That it could not be is told by the next that resumes.
    pub(super) fn keep(&self, line: &[u8]) {
        for path in [&self.copy, &self.beside] {
            if let Err(error) = write(path, line) {
                tracing::debug!(%error, file = %path.display(), "the decision log's head cannot be written");
            }
        }
    }

    /// Keeps the head of a log without lines, so that a key which was just made is known to have signed none.
    pub(super) fn begin(&self, line: &[u8]) -> io::Result<()> {
        write(&self.copy, line)
    }

    /// Whether there is one, whoever signed it.
    pub(super) fn is_there(&self) -> bool {
        self.beside.exists() || self.copy.exists()
    }

    /// Whether a head of any log is kept below `state.dir`.
    pub(super) fn is_any_kept(&self) -> bool {
        let dir = self.copy.parent().unwrap_or(Path::new("."));
        let mut entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.any(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with("evidence.") && name.ends_with(".head")
        })
    }

    /// The newest that this key signed.
    pub(super) fn signed_by(&self, key: &Key) -> Option<Vec<u8>> {
        let kept = [&self.copy, &self.beside].into_iter();
        let kept = kept.filter_map(|path| Kept::read(path).ok().flatten());
        let ours = kept.filter(|kept| kept.head.key == key.public());
        ours.max_by_key(Kept::position).map(|kept| kept.line)
    }

    /// The newest for readers that have no key: what somebody else signed beside the log counts for nothing against the copy.
    ///
    /// # Errors
    ///
    /// Returns an error if there is none.
    pub(crate) fn newest(&self) -> io::Result<Vec<u8>> {
        let copy = Kept::read(&self.copy).ok().flatten();
        let newer = match (copy, Kept::read(&self.beside)) {
            (Some(copy), Ok(Some(beside))) => match copy.head.key == beside.head.key {
                true if beside.position() > copy.position() => beside,
                _ => copy,
            },
            (Some(copy), _) => copy,
            (None, beside) => match beside? {
                Some(beside) => beside,
                None => return read(&self.beside),
            },
        };
        Ok(newer.line)
    }
}

impl Kept {
    fn read(path: &Path) -> io::Result<Option<Self>> {
        let line = read(path)?;
        let head = Event::head(&line).filter(|head| is_signed_by(&line, &head.key));
        Ok(head.map(|head| Self { line, head }))
    }

    fn position(&self) -> (u64, u64) {
        (self.head.file, self.head.lines)
    }
}

fn write(path: &Path, line: &[u8]) -> io::Result<()> {
    let mut padded = line.to_vec();
    padded.resize(HEAD_BYTES - 1, b' ');
    padded.push(b'\n');
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o640)
        .open(path)?
        .write_all_at(&padded, 0)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut line = fs::read(path)?;
    line.truncate(line.trim_ascii_end().len());
    Ok(line)
}
