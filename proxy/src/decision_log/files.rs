//! The decision log's files (the current one and the rotated ones next to it, compressed or not) and the lines in them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use flate2::bufread::MultiGzDecoder;

use super::record::{DecisionId, DecisionRecord};
use crate::clock::system_time;

/// The longest line that is read. Lines that wayleave writes are far shorter: request heads and quoted texts are bounded.
const MAX_LINE_BYTES: u64 = 4 << 20;
/// The first bytes of a gzip file (RFC 1952 section 2.3.1). No line begins with them.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// The size of read buffers.
const BUFFER_BYTES: usize = 256 * 1024;

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

/// Returns the directory of the log at `path` and its rotated files.
pub(super) fn log_directory(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

/// Returns the name of a rotated file after its compression.
pub(super) fn compressed_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".gz");
    name.into()
}

/// Returns the rotated files of the log at `path`, sorted by name and thus by age. If a file exists both compressed and
/// uncompressed, only the latter is returned: compression was interrupted before it could be deleted.
///
/// # Errors
///
/// Returns an error if their directory is there and cannot be listed.
pub(crate) fn rotated_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(log_directory(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found: BTreeMap<OsString, PathBuf> = BTreeMap::new();
    for entry in entries {
        let file = entry?.path();
        if is_rotated(path, &file) {
            found.insert(file.as_os_str().to_owned(), file);
        } else if file.extension().is_some_and(|it| it == "gz")
            && is_rotated(path, &file.with_extension(""))
        {
            let plain = file.with_extension("").into_os_string();
            found.entry(plain).or_insert(file);
        }
    }
    // An uncompressed file that was listed after its compressed form has replaced it in the map.
    Ok(found.into_values().collect())
}

/// Returns whether the name of `file` is that of a rotated, uncompressed file of the log at `path`.
fn is_rotated(path: &Path, file: &Path) -> bool {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let time = name
        .strip_prefix(&*stem)
        .and_then(|rest| rest.strip_prefix('.'));
    let is_time =
        |time: &str| time.ends_with('Z') && time.starts_with(|c: char| c.is_ascii_digit());
    file.extension() == path.extension() && time.is_some_and(is_time)
}

/// Returns whether a file is compressed.
pub(crate) fn is_compressed(file: &File) -> bool {
    let mut begin = [0; GZIP_MAGIC.len()];
    file.read_exact_at(&mut begin, 0).is_ok() && begin == GZIP_MAGIC
}

/// Returns a reader of the decompressed contents of a file that has just been opened.
pub(crate) fn decompressed(file: &File) -> Box<dyn BufRead + '_> {
    let plain = BufReader::with_capacity(BUFFER_BYTES, file);
    if !is_compressed(file) {
        return Box::new(plain);
    }
    let unpacked = MultiGzDecoder::new(plain);
    Box::new(BufReader::with_capacity(BUFFER_BYTES, unpacked))
}

/// Opens a rotated file, by its compressed name if it has just been compressed.
fn open_rotated(name: PathBuf) -> (PathBuf, io::Result<File>) {
    match File::open(&name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let name = compressed_name(&name);
            let file = File::open(&name);
            (name, file)
        }
        file => (name, file),
    }
}

/// Opens the log's files, the oldest first and the current one last. Each comes with the error if it cannot be opened.
pub(super) fn open_log_files(path: &Path) -> Vec<(PathBuf, io::Result<File>)> {
    // The current file is opened first: if it is rotated meanwhile, it is listed again under its new name, and left out there.
    let written = File::open(path);
    // By device and inode: the name of the current file changes when it is rotated, the file does not.
    let identity = |file: &File| file.metadata().map(|found| (found.dev(), found.ino())).ok();
    let is_written = |file: &io::Result<File>| match (file, &written) {
        (Ok(file), Ok(written)) => identity(file) == identity(written),
        _ => false,
    };
    let rotated = rotated_files(path).unwrap_or_default();
    let rotated = rotated.into_iter().map(open_rotated);
    let mut files: Vec<_> = rotated.filter(|(_, file)| !is_written(file)).collect();
    let is_there = !matches!(&written, Err(error) if error.kind() == io::ErrorKind::NotFound);
    files.extend(is_there.then(|| (path.to_owned(), written)));
    files
}

/// The description of a last line without a line feed.
pub(super) const UNFINISHED: &str = "has no end: it was cut off, or is being written";

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
            None => take(Err(UNFINISHED)),
        };
        if found.is_some() {
            return Ok(found);
        }
    }
}

/// Finds the decision with this id in the log at `path`. Lines that cannot be read are skipped.
pub(super) fn find_decision(path: &Path, id: DecisionId) -> Option<DecisionRecord> {
    // A search for the text is many times faster than parsing each line. Ids are compared after parsing, since the text may also
    // occur in a URL.
    let member = format!("\"id\":\"{id}\"");
    let member = memchr::memmem::Finder::new(member.as_bytes());
    let files = open_log_files(path).into_iter().rev();
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
        assert!(find_decision(&path, written.id).is_some());
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
        let names: Vec<_> = open_log_files(&path)
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, [path]);
    }
}
