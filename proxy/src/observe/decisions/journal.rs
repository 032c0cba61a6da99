//! The decision log: JSON lines in a file that is rotated by size and age.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;

use super::files::{rotated_files, vacant};
use crate::clock::calendar;

/// Lines are written together once they are this long.
const FULL_BYTES: usize = 256 * 1024;
/// When a file that could not be rotated away is tried again.
const ROTATE_AGAIN: Duration = Duration::from_mins(1);

/// Where decisions are written, and for how long; part of `[log]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JournalOptions {
    /// The file that is written to. Those rotated away are beside it, the time in their names.
    pub(crate) path: PathBuf,
    /// A file this large is rotated away.
    pub(crate) max_size_bytes: u64,
    /// A file this old is rotated away.
    pub(crate) max_age: Duration,
    /// Files that were rotated away longer ago are deleted.
    pub(crate) keep: Duration,
}

/// The log's open file, and lines that wait to be written to it.
#[derive(Debug)]
pub(crate) struct Journal {
    options: JournalOptions,
    /// Rotating failed: it is not tried again before.
    rotate_after: Option<Instant>,
    waiting: Vec<u8>,
    /// `None` after a failure: it is opened anew.
    open: Option<Open>,
}

/// Lines that could not be written, and why.
#[derive(Debug)]
pub(super) struct Lost {
    pub(super) lines: u64,
    pub(super) error: anyhow::Error,
}

#[derive(Debug)]
struct Open {
    file: File,
    size_bytes: u64,
    since: SystemTime,
    /// Whether something was written. Until then a journal that this one is to replace may still write to the file.
    is_begun: bool,
}

impl Journal {
    /// Opens the log's file, to go on with what is in it.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be opened or made.
    pub(crate) fn open(options: JournalOptions) -> anyhow::Result<Self> {
        let open = Open::new(&options.path)
            .with_context(|| format!("opening the decision log {}", options.path.display()))?;
        let mut journal = Self {
            options,
            rotate_after: None,
            waiting: Vec::with_capacity(FULL_BYTES),
            open: Some(open),
        };
        journal.tidy();
        Ok(journal)
    }

    /// The file that is written to.
    pub(super) fn path(&self) -> &Path {
        &self.options.path
    }

    /// Adds a line to those that wait.
    pub(super) fn push(&mut self, line: &[u8]) {
        self.waiting.extend_from_slice(line);
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= FULL_BYTES
    }

    /// Writes the lines that wait, to a new file if it is time for one. Whether there were any.
    ///
    /// # Errors
    ///
    /// Returns those that could not be written, which are lost.
    pub(super) fn flush(&mut self) -> Result<bool, Lost> {
        if self.waiting.is_empty() {
            return Ok(false);
        }
        self.rotate();
        let written = self.write().map(|()| true).map_err(|error| Lost {
            lines: memchr::memchr_iter(b'\n', &self.waiting).count() as u64,
            error: anyhow::Error::new(error).context(self.options.path.display().to_string()),
        });
        self.waiting.clear();
        if written.is_err() {
            self.open = None;
        }
        written
    }

    /// Puts a file that is full or old aside. One that cannot be is gone on with: better too large than incomplete.
    fn rotate(&mut self) {
        let is_due = |open: &Open| open.is_due(&self.options);
        let may = self.rotate_after.is_none_or(|at| at <= Instant::now());
        if !may || !self.open.as_ref().is_some_and(is_due) {
            return;
        }
        let path = &self.options.path;
        match fs::rename(path, vacant(path)) {
            Ok(()) => {
                self.open = None;
                self.rotate_after = None;
                self.tidy();
            }
            Err(error) => {
                tracing::warn!(%error, file = %path.display(), "the decision log cannot be rotated and keeps growing");
                self.rotate_after = Some(Instant::now() + ROTATE_AGAIN);
            }
        }
    }

    /// Writes the lines that wait. After an error those still wait that are not in the file.
    fn write(&mut self) -> io::Result<()> {
        self.open.take_if(|open| !open.look());
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(Open::new(&self.options.path)?),
        };
        if !open.is_begun {
            open.begin()?;
        }
        let written = open.file.write_all(&self.waiting);
        match written {
            Ok(()) => open.size_bytes += self.waiting.len() as u64,
            // A full disk takes a part.
            Err(_) => drop(self.waiting.drain(..open.keep_whole_lines(&self.waiting))),
        }
        written
    }

    /// Deletes what was rotated away too long ago.
    fn tidy(&mut self) {
        let now = calendar();
        for old in rotated_files(&self.options.path).unwrap_or_default() {
            let written_at = fs::metadata(&old).and_then(|metadata| metadata.modified());
            let age = written_at.ok().and_then(|at| now.duration_since(at).ok());
            if age.is_some_and(|age| age > self.options.keep)
                && let Err(error) = fs::remove_file(&old)
            {
                tracing::warn!(%error, file = %old.display(), "an old decision log could not be deleted");
            }
        }
    }
}

impl Open {
    fn new(path: &Path) -> io::Result<Self> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        // What crawlers fetch is nobody else's business.
        let file = OpenOptions::new()
            .read(true)
            .create(true)
            .append(true)
            .mode(0o640)
            .open(path)?;
        let metadata = file.metadata()?;
        Ok(Self {
            file,
            size_bytes: metadata.len(),
            // File systems without a birth time start anew with each process.
            since: metadata.created().unwrap_or_else(|_| calendar()),
            is_begun: false,
        })
    }

    /// Ends a line that was cut, so that the next is one of its own.
    fn begin(&mut self) -> io::Result<()> {
        if is_cut(&mut self.file)? {
            self.file.write_all(b"\n")?;
        }
        self.size_bytes = self.file.metadata()?.len();
        self.is_begun = true;
        Ok(())
    }

    /// Cuts off the line that is there in part, because it is counted as lost; how much of `lines` stays.
    fn keep_whole_lines(&mut self, lines: &[u8]) -> usize {
        let found = self.file.metadata().map_or(0, |found| found.len());
        let arrived = usize::try_from(found.saturating_sub(self.size_bytes)).unwrap_or(0);
        let arrived = &lines[..arrived.min(lines.len())];
        let whole = memchr::memrchr(b'\n', arrived).map_or(0, |at| at + 1);
        // If that fails too, the piece is ended when the file is opened anew.
        let _ = self.file.set_len(found.min(self.size_bytes + whole as u64));
        whole
    }

    /// Looks how the file is now, which somebody may have emptied. Whether it is still there: what is written to one that
    /// somebody deleted is seen by nobody.
    fn look(&mut self) -> bool {
        let Ok(found) = self.file.metadata() else {
            return true;
        };
        self.size_bytes = found.len();
        found.nlink() > 0
    }

    fn is_due(&self, options: &JournalOptions) -> bool {
        let age = calendar().duration_since(self.since).unwrap_or_default();
        self.size_bytes >= options.max_size_bytes || (self.size_bytes > 0 && age >= options.max_age)
    }
}

/// Whether the last line has no end: whoever wrote it died meanwhile, or the disk was full.
fn is_cut(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

#[cfg(test)]
mod tests {
    use super::super::decision::{Decision, DecisionId, Recorded};
    use super::super::files::{files, search};
    use super::super::tests::decision;
    use super::*;

    fn options(dir: &Path) -> JournalOptions {
        JournalOptions {
            path: dir.join("log/decisions.jsonl"),
            max_size_bytes: 1000,
            max_age: Duration::from_secs(86_400),
            keep: Duration::from_secs(86_400),
        }
    }

    fn names(path: &Path) -> Vec<PathBuf> {
        files(path).into_iter().map(|(name, _)| name).collect()
    }

    fn lines(path: &Path) -> usize {
        fs::read_to_string(path).unwrap().lines().count()
    }

    fn push(journal: &mut Journal, decision: Decision) {
        journal.push(&Recorded::new(decision).line);
    }

    #[test]
    fn a_full_file_is_rotated_and_none_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(options(dir.path())).unwrap();
        for _ in 0..10 {
            push(&mut journal, decision());
            journal.flush().unwrap();
        }
        let files = names(&journal.options.path);
        assert!(files.len() > 2, "{files:?}");
        assert_eq!(files.iter().map(|file| lines(file)).sum::<usize>(), 10);
    }

    #[test]
    fn an_old_file_is_rotated_and_the_oldest_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let options = JournalOptions {
            max_age: Duration::ZERO,
            keep: Duration::ZERO,
            ..options(dir.path())
        };
        let mut journal = Journal::open(options).unwrap();
        for _ in 0..3 {
            push(&mut journal, decision());
            journal.flush().unwrap();
        }
        assert_eq!(names(&journal.options.path), [journal.options.path.clone()]);
        assert_eq!(lines(&journal.options.path), 1);
    }

    #[test]
    fn a_decision_is_found_in_whichever_file_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(options(dir.path())).unwrap();
        let written: Vec<_> = (0..10).map(|_| decision()).collect();
        for decision in &written {
            push(&mut journal, decision.clone());
            journal.flush().unwrap();
        }
        for decision in written {
            let found = search(&journal.options.path, decision.id).expect("it was written");
            assert_eq!(found.id, decision.id);
        }
        assert!(search(&journal.options.path, DecisionId::new()).is_none());
    }

    #[test]
    fn one_that_replaces_another_leaves_it_its_last_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = options(dir.path()).path;
        drop(Journal::open(options(dir.path())).unwrap());
        let mut other = OpenOptions::new().append(true).open(&path).unwrap();
        other.write_all(b"{\"half\":").unwrap();
        let mut journal = Journal::open(options(dir.path())).unwrap();
        other.write_all(b"true}\n").unwrap();
        push(&mut journal, decision());
        journal.flush().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("{\"half\":true}\n{"), "{text}");
    }

    #[test]
    fn a_line_that_was_cut_off_spoils_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let options = options(dir.path());
        fs::create_dir_all(options.path.parent().unwrap()).unwrap();
        fs::write(&options.path, "{\"id\":\"0193").unwrap();
        let mut journal = Journal::open(options).unwrap();
        let written = decision();
        push(&mut journal, written.clone());
        journal.flush().unwrap();
        assert_eq!(lines(journal.path()), 2);
        assert!(search(journal.path(), written.id).is_some());
    }

    #[test]
    fn a_file_that_somebody_deleted_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(options(dir.path())).unwrap();
        fs::remove_file(journal.path()).unwrap();
        push(&mut journal, decision());
        journal.flush().unwrap();
        assert_eq!(lines(journal.path()), 1);
    }

    #[test]
    fn a_file_that_somebody_emptied_is_gone_on_with() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(options(dir.path())).unwrap();
        for _ in 0..2 {
            push(&mut journal, decision());
            journal.flush().unwrap();
            let log = OpenOptions::new().write(true).open(journal.path());
            log.unwrap().set_len(0).unwrap();
        }
        push(&mut journal, decision());
        journal.flush().unwrap();
        assert_eq!(lines(journal.path()), 1);
        let open = journal.open.as_mut().unwrap();
        let line = open.size_bytes;
        open.keep_whole_lines(b"");
        assert_eq!(open.file.metadata().unwrap().len(), line);
    }

    #[test]
    fn a_file_that_cannot_be_rotated_grows_on() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(options(dir.path())).unwrap();
        let elsewhere = dir.path().join("elsewhere");
        push(&mut journal, decision());
        journal.flush().unwrap();
        // The file is written to all the same, but there is no such name to rename.
        let path = std::mem::replace(&mut journal.options.path, elsewhere);
        journal.options.max_size_bytes = 1;
        for _ in 0..3 {
            push(&mut journal, decision());
            journal.flush().unwrap();
        }
        assert_eq!(lines(&path), 4);
    }

    #[test]
    fn an_earlier_runs_file_is_gone_on_with() {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            let mut journal = Journal::open(options(dir.path())).unwrap();
            push(&mut journal, decision());
            journal.flush().unwrap();
        }
        assert_eq!(lines(&options(dir.path()).path), 2);
    }
}
