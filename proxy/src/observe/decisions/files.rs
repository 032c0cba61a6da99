//! The decision log's files: the one that is written to, those rotated away beside it, and the lines in them.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::decision::{Decision, DecisionId};
use crate::clock::calendar;

/// No line of ours is nearly as long: the head of a request is bounded.
const MAX_LINE_BYTES: u64 = 4 << 20;

/// A name for a file to be rotated away under, which no other has.
pub(super) fn vacant(path: &Path) -> PathBuf {
    let mut now = calendar();
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

/// Where the log at `path` and the files rotated away from it are.
pub(super) fn dir_of(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

/// The files beside `path` that were rotated away from it, in no order.
///
/// # Errors
///
/// Returns an error if their directory is there and cannot be listed.
pub(crate) fn rotated_files(path: &Path) -> io::Result<Vec<PathBuf>> {
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
    let entries = match fs::read_dir(dir_of(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?.map(|entry| Ok(entry?.path())),
    };
    let is_wanted = |file: &io::Result<PathBuf>| file.as_ref().map_or(true, is_rotated);
    entries.filter(is_wanted).collect()
}

/// The log's files that can be found, the oldest first and the one being written last, open or with why they are not.
pub(super) fn files(path: &Path) -> Vec<(PathBuf, io::Result<File>)> {
    // First, because it may be rotated away meanwhile: then it is met again under its other name.
    let written = File::open(path);
    let identity = |file: &File| file.metadata().map(|found| (found.dev(), found.ino())).ok();
    let is_written = |file: &io::Result<File>| match (file, &written) {
        (Ok(file), Ok(written)) => identity(file) == identity(written),
        _ => false,
    };
    let mut rotated = rotated_files(path).unwrap_or_default();
    rotated.sort();
    let rotated = rotated.into_iter().map(|name| {
        let file = File::open(&name);
        (name, file)
    });
    let mut files: Vec<_> = rotated.filter(|(_, file)| !is_written(file)).collect();
    let is_there = !matches!(&written, Err(error) if error.kind() == io::ErrorKind::NotFound);
    files.extend(is_there.then(|| (path.to_owned(), written)));
    files
}

/// A line of the log, or why it cannot be read.
pub(super) type Line<'a> = Result<&'a [u8], &'static str>;

/// Hands `take` every line of a file, until it has seen enough and returns something.
///
/// # Errors
///
/// Returns an error if the file cannot be read on.
pub(super) fn find_line<T>(
    file: File,
    mut take: impl FnMut(Line<'_>) -> Option<T>,
) -> io::Result<Option<T>> {
    let mut reader = BufReader::with_capacity(256 * 1024, file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader
            .by_ref()
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut line)?;
        let found = match line.strip_suffix(b"\n") {
            Some(line) => take(Ok(line)),
            None if read == 0 => return Ok(None),
            None if read as u64 == MAX_LINE_BYTES => {
                reader.skip_until(b'\n')?;
                take(Err("is too long"))
            }
            None => take(Err("has no end: it was cut off, or is being written")),
        };
        if found.is_some() {
            return Ok(found);
        }
    }
}

/// The decision with this id in the log at `path`. What cannot be read is passed over.
pub(super) fn search(path: &Path, id: DecisionId) -> Option<Decision> {
    let member = format!("\"id\":\"{id}\"");
    let member = memchr::memmem::Finder::new(member.as_bytes());
    let files = files(path).into_iter().rev();
    let mut found = files.filter_map(|(_, file)| {
        let decision = |line: Line<'_>| {
            let line = line.ok().filter(|line| member.find(line).is_some())?;
            serde_json::from_slice::<Decision>(line).ok()
        };
        find_line(file.ok()?, decision).ok()?
    });
    found.find(|decision| decision.id == id)
}

#[cfg(test)]
mod tests {
    use super::super::tests::decision;
    use super::*;

    #[test]
    fn what_cannot_be_read_hides_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("decisions.jsonl");
        let written = decision();
        let mut bytes = b"\xFF\xFE\n{\"id\":\n".to_vec();
        bytes.extend(std::iter::repeat_n(b'x', 5 << 20));
        bytes.push(b'\n');
        bytes.extend(serde_json::to_vec(&written).unwrap());
        bytes.extend(b"\n{\"id\":\"01");
        fs::write(&path, bytes).unwrap();
        assert!(search(&path, written.id).is_some());
        let mut seen = Vec::new();
        let file = File::open(&path).unwrap();
        let none = find_line(file, |line| {
            seen.push(line.map(<[u8]>::len));
            None::<()>
        });
        assert!(none.unwrap().is_none());
        assert_eq!(seen.len(), 5);
        assert_eq!((seen[0], seen[2]), (Ok(2), Err("is too long")));
        assert!(seen[4].is_err());
    }

    #[test]
    fn a_file_that_is_rotated_away_meanwhile_is_read_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("decisions.jsonl");
        fs::write(&path, "").unwrap();
        fs::hard_link(&path, vacant(&path)).unwrap();
        let names: Vec<_> = files(&path).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, [path]);
    }
}
