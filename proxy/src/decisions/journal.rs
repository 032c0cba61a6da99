//! The decision log: JSON lines in a file that is rotated by size and age.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context;

use super::decision::{Decision, DecisionId};

/// Lines are written together once they are this long.
const FULL_BYTES: usize = 256 * 1024;

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
pub(super) struct Journal {
    options: JournalOptions,
    waiting: Vec<u8>,
    /// `None` after a failure: it is opened anew.
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    size_bytes: u64,
    since: SystemTime,
}

impl Journal {
    /// Opens the log's file, to go on with what is in it.
    pub(super) fn open(options: JournalOptions) -> anyhow::Result<Self> {
        let open = Open::new(&options.path)
            .with_context(|| format!("opening the decision log {}", options.path.display()))?;
        let mut journal = Self {
            options,
            waiting: Vec::with_capacity(FULL_BYTES),
            open: Some(open),
        };
        journal.tidy();
        Ok(journal)
    }

    /// Adds a line to those that wait.
    pub(super) fn push(&mut self, decision: &Decision) {
        serde_json::to_writer(&mut self.waiting, decision).expect("strings and numbers serialise");
        self.waiting.push(b'\n');
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= FULL_BYTES
    }

    /// Writes the lines that wait, to a new file if it is time for one. What cannot be written is lost.
    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let written = self.write();
        self.waiting.clear();
        if written.is_err() {
            self.open = None;
        }
        written
    }

    fn write(&mut self) -> anyhow::Result<()> {
        let path = &self.options.path;
        let naming = || path.display().to_string();
        if self
            .open
            .as_ref()
            .is_some_and(|open| open.is_due(&self.options))
        {
            self.open = None;
            fs::rename(path, vacant(path)).with_context(naming)?;
            self.tidy();
        }
        let path = &self.options.path;
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(Open::new(path).with_context(|| path.display().to_string())?),
        };
        open.file
            .write_all(&self.waiting)
            .with_context(|| path.display().to_string())?;
        open.size_bytes += self.waiting.len() as u64;
        Ok(())
    }

    /// Deletes what was rotated away too long ago.
    fn tidy(&mut self) {
        let now = SystemTime::now();
        for old in rotated_files(&self.options.path) {
            let written_at = fs::metadata(&old).and_then(|metadata| metadata.modified());
            let age = written_at.ok().and_then(|at| now.duration_since(at).ok());
            if age.is_some_and(|age| age > self.options.keep)
                && let Err(error) = fs::remove_file(&old)
            {
                tracing::warn!(%error, file = %old.display(), "an old decision log stays");
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
            .create(true)
            .append(true)
            .mode(0o640)
            .open(path)?;
        let metadata = file.metadata()?;
        Ok(Self {
            file,
            size_bytes: metadata.len(),
            // File systems without a birth time start anew with each process.
            since: metadata.created().unwrap_or_else(|_| SystemTime::now()),
        })
    }

    fn is_due(&self, options: &JournalOptions) -> bool {
        let age = self.since.elapsed().unwrap_or_default();
        self.size_bytes >= options.max_size_bytes || (self.size_bytes > 0 && age >= options.max_age)
    }
}

/// A name for a file to be rotated away under, which no other has.
fn vacant(path: &Path) -> PathBuf {
    let mut now = SystemTime::now();
    loop {
        let name = rotated(path, now);
        if !name.exists() {
            return name;
        }
        now += Duration::from_millis(1);
    }
}

/// `decisions.jsonl` as `decisions.20261121T083000.123Z.jsonl`.
fn rotated(path: &Path, now: SystemTime) -> PathBuf {
    let time = humantime::format_rfc3339_millis(now).to_string();
    let time = time.replace(['-', ':'], "");
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(".");
    name.push(time);
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// The files beside `path` that were rotated away from it, in no order.
fn rotated_files(path: &Path) -> Vec<PathBuf> {
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let is_rotated = |file: &PathBuf| {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let time = name
            .strip_prefix(&*stem)
            .and_then(|rest| rest.strip_prefix('.'));
        file.extension() == path.extension()
            && time.is_some_and(|time| {
                time.ends_with('Z') && time.starts_with(|c: char| c.is_ascii_digit())
            })
    };
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(is_rotated)
        .collect()
}

/// The log's files that there are, the oldest first and the one being written last.
pub(super) fn files(path: &Path) -> Vec<PathBuf> {
    let mut files = rotated_files(path);
    files.sort();
    files.extend(path.exists().then(|| path.to_owned()));
    files
}

/// The decision with this id in the log at `path`. What cannot be read is passed over.
pub(super) fn search(path: &Path, id: DecisionId) -> Option<Decision> {
    let member = format!("\"id\":\"{id}\"");
    files(path).iter().rev().find_map(|file| {
        let lines = BufReader::new(File::open(file).ok()?).lines();
        let line = lines
            .map_while(Result::ok)
            .find(|line| line.contains(&member))?;
        serde_json::from_str(&line).ok()
    })
}

#[cfg(test)]
mod tests {
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

    fn lines(path: &Path) -> usize {
        fs::read_to_string(path).unwrap().lines().count()
    }

    #[test]
    fn a_full_file_is_rotated_and_none_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(options(dir.path())).unwrap();
        for _ in 0..10 {
            journal.push(&decision());
            journal.flush().unwrap();
        }
        let files = files(&journal.options.path);
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
            journal.push(&decision());
            journal.flush().unwrap();
        }
        assert_eq!(files(&journal.options.path), [journal.options.path.clone()]);
        assert_eq!(lines(&journal.options.path), 1);
    }

    #[test]
    fn a_decision_is_found_in_whichever_file_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(options(dir.path())).unwrap();
        let written: Vec<_> = (0..10).map(|_| decision()).collect();
        for decision in &written {
            journal.push(decision);
            journal.flush().unwrap();
        }
        for decision in written {
            let found = search(&journal.options.path, decision.id).expect("it was written");
            assert_eq!(found.id, decision.id);
        }
        assert!(search(&journal.options.path, DecisionId::new()).is_none());
    }

    #[test]
    fn an_earlier_runs_file_is_gone_on_with() {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            let mut journal = Journal::open(options(dir.path())).unwrap();
            journal.push(&decision());
            journal.flush().unwrap();
        }
        assert_eq!(lines(&options(dir.path()).path), 2);
    }
}
