//! The decision log's files (the current one and the rotated ones next to it, compressed or not) and the lines in them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, Read};
use std::ops::Bound;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use wayleave_clock::{MAX_DRIFT, system_time};
use wayleave_evidence::files::{
    FileBegin, MAX_LINE_BYTES, compressed_name, decompressed, log_directory, rotated_files,
};
use wayleave_evidence::log_files::{ForeignFile, LogFiles, LogFilesReader};
use wayleave_evidence::{HeadFiles, regular_file};
use wayleave_record::{DecisionId, DecisionRecord};

/// Returns an unused name for a file that is to be rotated.
pub(super) fn unused_name(path: &Path) -> PathBuf {
    let mut now = system_time();
    loop {
        let name = rotated_name(path, now);
        // Renaming would silently replace a file that was rotated in the same millisecond.
        if !name.exists() && !compressed_name(&name).exists() {
            return name;
        }
        now += Duration::from_millis(1);
    }
}

/// Returns the name of a rotated file: `decisions.20261121T083000.123Z.jsonl` for `decisions.jsonl`.
fn rotated_name(path: &Path, now: SystemTime) -> PathBuf {
    let time = humantime::format_rfc3339_millis(now).to_string().replace(['-', ':'], "");
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(".");
    name.push(time);
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// Opens a rotated file, by its compressed name if it has just been compressed.
fn open_rotated(name: PathBuf) -> LogFile {
    match regular_file::open(&name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let name = compressed_name(&name);
            let file = regular_file::open(&name);
            (name, file)
        }
        file => (name, file),
    }
}

/// The location of a log: its current file, and the state directory with a copy of its head.
#[derive(Clone, Copy, Debug)]
pub struct LogPlace<'a> {
    pub path: &'a Path,
    pub state_dir: &'a Path,
}

#[cfg(test)]
impl<'a> LogPlace<'a> {
    /// Returns the place of a log whose directory is its state directory, too.
    pub(super) fn alone(path: &'a Path) -> Self {
        Self { path, state_dir: path.parent().unwrap() }
    }
}

/// The path of a file, and the file or why it cannot be opened.
pub(super) type LogFile = (PathBuf, io::Result<File>);

/// The files of a log.
#[derive(Debug, Default)]
pub struct OpenLog {
    /// The oldest first and the current one last. Each comes with the error if it cannot be opened; so does their directory if it
    /// cannot be listed.
    pub files: Vec<LogFile>,
    /// Sentences about others in their place, which are left out, and about unsigned ones.
    pub findings: Vec<String>,
}

impl OpenLog {
    /// Opens the files that belong to the log by its signatures. Without a head, all that have such names do.
    pub fn open(log: LogPlace<'_>) -> Self {
        let heads = HeadFiles::for_log(log.path, log.state_dir);
        let read = |line: Vec<u8>| LogFilesReader::default().read_by_head(log.path, &line).ok();
        match heads.newest().ok().and_then(read) {
            Some(found) => Self::of_signed(log.path, found),
            None => Self::of_unsigned(log.path),
        }
    }

    fn of_signed(path: &Path, found: LogFiles) -> Self {
        let mut log = Self::default();
        let name =
            |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for ForeignFile { path, reason } in found.foreign {
            match open_rotated(path) {
                (path, Ok(_)) => {
                    log.findings.push(format!("{} is left out: it {reason}", name(&path)));
                }
                // It may well belong to the log.
                unopened => log.files.push(unopened),
            }
        }
        log.files.extend(found.files.into_iter().map(|file| open_rotated(file.path)));
        if found.is_truncated {
            log.findings.push(format!("{} is shorter than what was signed of it", name(path)));
        }
        match found.current {
            Some(file) => log.files.push((path.to_owned(), Ok(file))),
            None => log.files.extend(unopened(path)),
        }
        log
    }

    fn of_unsigned(path: &Path) -> Self {
        // The current file is opened first: if it is rotated meanwhile, it is listed again under its new name, and left out there.
        let current = regular_file::open(path);
        // By device and inode: the name of the current file changes when it is rotated, the file does not.
        let identity = |file: &File| file.metadata().map(|found| (found.dev(), found.ino())).ok();
        let is_current = |file: &io::Result<File>| match (file, &current) {
            (Ok(file), Ok(current)) => identity(file) == identity(current),
            _ => false,
        };
        let mut files: Vec<LogFile> = match rotated_files(path) {
            Ok(rotated) => rotated.into_iter().map(open_rotated).collect(),
            Err(error) => vec![(log_directory(path).to_owned(), Err(error))],
        };
        files.retain(|(_, file)| !is_current(file));
        let is_there = !matches!(&current, Err(error) if error.kind() == io::ErrorKind::NotFound);
        files.extend(is_there.then(|| (path.to_owned(), current)));
        let is_of_log =
            |(_, file): &LogFile| file.as_ref().is_ok_and(|file| FileBegin::read(file).is_some());
        let was_signed = files.iter().any(is_of_log);
        let finding = "the log has no head: nobody can tell which files belong to it".to_owned();
        Self { findings: was_signed.then_some(finding).into_iter().collect(), files }
    }
}

/// Returns the file at the log's path if it is there and cannot be opened.
fn unopened(path: &Path) -> Option<LogFile> {
    let error = regular_file::open(path).err()?;
    (error.kind() != io::ErrorKind::NotFound).then(|| (path.to_owned(), Err(error)))
}

/// Returns for each file whether all of its decisions are surely older than `since`. Times of modification prove nothing: files
/// are copied, restored and touched. But a file of the chain ended before the next one began, which says when that was.
pub(super) fn are_older(files: &[LogFile], since: SystemTime) -> Vec<bool> {
    let begins: Vec<_> =
        files.iter().map(|(_, file)| file.as_ref().ok().and_then(FileBegin::read)).collect();
    let mut latest = SystemTime::UNIX_EPOCH;
    let mut began_at = BTreeMap::new();
    for begin in begins.iter().flatten() {
        let at = began_at.entry(begin.number).or_insert(begin.at);
        *at = begin.at.max(*at);
    }
    for at in began_at.values_mut() {
        // After the clock was set back, files begin earlier than decisions before them were made.
        latest = latest.max(*at);
        *at = latest;
    }
    let began_before = |number: u64| {
        let next = began_at.range((Bound::Excluded(number), Bound::Unbounded)).next();
        next.is_some_and(|(_, at)| *at + MAX_DRIFT < since)
    };
    let numbers = begins.iter().map(|begin| begin.as_ref().map(|begin| begin.number));
    numbers.map(|number| number.is_some_and(began_before)).collect()
}

/// The description of a last line without a line feed.
pub(super) const UNFINISHED: &str = "is incomplete: it was cut off, or is still being written";

/// A line of the log, or the reason why it cannot be read.
pub(super) type LogLine<'a> = Result<&'a [u8], &'static str>;

/// Passes the lines of a file to `take` until it returns a value, which is returned.
///
/// # Errors
///
/// Returns an error if the file cannot be read on.
pub(super) fn find_line<T>(
    file: &File,
    mut take: impl FnMut(LogLine<'_>) -> Option<T>,
) -> io::Result<Option<T>> {
    let mut reader = decompressed(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        let found = match line.strip_suffix(b"\n") {
            Some(line) => take(Ok(line)),
            None if read == 0 => return Ok(None),
            None if read as u64 == MAX_LINE_BYTES => {
                reader.skip_until(b'\n')?;
                take(Err("is too long"))
            }
            None => take(Err(UNFINISHED)),
        };
        if found.is_some() {
            return Ok(found);
        }
    }
}

/// Finds the decision with this id in a log. Lines that cannot be read are skipped.
pub fn find_decision(log: LogPlace<'_>, id: DecisionId) -> Option<DecisionRecord> {
    // A search for the text is many times faster than parsing each line. Ids are compared after parsing, since the text may also
    // occur in a URL.
    let member = format!("\"id\":\"{id}\"");
    let member = memchr::memmem::Finder::new(member.as_bytes());
    let files = OpenLog::open(log).files.into_iter().rev();
    let mut found = files.filter_map(|(_, file)| {
        let decision = |line: LogLine<'_>| {
            let line = line.ok().filter(|line| member.find(line).is_some())?;
            serde_json::from_slice::<DecisionRecord>(line).ok()
        };
        find_line(&file.ok()?, decision).ok()?
    });
    found.find(|decision| decision.id == id)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::tests::decision;
    use super::*;

    #[test]
    fn unreadable_line_does_not_hide_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("decisions.jsonl");
        let written = decision();
        let mut bytes = b"\xFF\xFE\n{\"id\":\n".to_vec();
        bytes.extend(std::iter::repeat_n(b'x', 5 << 20));
        bytes.push(b'\n');
        bytes.extend(serde_json::to_vec(&written).unwrap());
        bytes.extend(b"\n{\"id\":\"01");
        fs::write(&path, bytes).unwrap();
        assert!(find_decision(LogPlace::alone(&path), written.id).is_some());
        let mut seen = Vec::new();
        let file = File::open(&path).unwrap();
        let none = find_line(&file, |line| {
            seen.push(line.map(<[u8]>::len));
            None::<()>
        });
        assert!(none.unwrap().is_none());
        assert_eq!(seen.len(), 5);
        assert_eq!((seen[0], seen[2]), (Ok(2), Err("is too long")));
        assert!(seen[4].is_err());
    }

    #[test]
    fn file_rotated_meanwhile_is_read_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("decisions.jsonl");
        fs::write(&path, "").unwrap();
        fs::hard_link(&path, unused_name(&path)).unwrap();
        let files = OpenLog::open(LogPlace::alone(&path)).files;
        let names: Vec<_> = files.into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, [path]);
    }
}
