//! The files of a decision log, up to the last line that was signed.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use crate::chain::TreeHead;
use crate::chain::event::LogEvent;
use crate::chain::link::previous_digest;
use crate::files::{MAX_LINE_BYTES, decompressed, file_number, is_compressed, rotated_files};
use crate::head_files::HeadFiles;
use crate::regular_file;

/// The number of times that the files are listed if the log is rotated meanwhile.
const ATTEMPTS: usize = 20;
/// The number of times that the head is read, and the time in between, until it covers the whole log. A running process signs
/// lines within 100 ms, unless it is held up.
const SIGNATURE_POLLS: usize = 150;
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A file of the log, open for reading.
#[derive(Debug)]
pub struct SignedLogFile {
    pub number: u64,
    pub path: PathBuf,
    file: File,
    /// The number of bytes that are read.
    bytes: u64,
    /// Whether it is shorter than its signed part.
    pub is_truncated: bool,
    /// The saved head, to be added as its last line if it does not end in a head.
    pub head: Option<Vec<u8>>,
}

impl SignedLogFile {
    /// Passes every line, numbered from 1, to `take`.
    pub fn read(&self, take: impl FnMut(u64, &[u8]) -> anyhow::Result<()>) -> anyhow::Result<()> {
        // Compressed files have no limit: they are complete, and their signed size is that of the uncompressed lines.
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0))?;
        each_line(decompressed(file).take(self.bytes), take)
    }

    /// Returns the number of lines after those that are read.
    fn count_lines_after(&self) -> anyhow::Result<u64> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(self.bytes.min(file.metadata()?.len())))?;
        let mut lines = 0;
        each_line(BufReader::new(file), |number, _| {
            lines = number;
            Ok(())
        })?;
        Ok(lines)
    }
}

/// Passes every line, numbered from 1 and without its line feed, to `take`.
///
/// # Errors
///
/// Returns an error if a line cannot be read or is too long, or the first error of `take`.
pub(crate) fn each_line(
    mut lines: impl BufRead,
    mut take: impl FnMut(u64, &[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (mut line, mut number) = (Vec::new(), 0);
    let mut next = |line: &mut Vec<u8>| lines.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', line);
    while next(&mut line)? > 0 {
        number += 1;
        let is_long = line.len() as u64 == MAX_LINE_BYTES && !line.ends_with(b"\n");
        ensure!(!is_long, "line {number} is too long");
        take(number, line.strip_suffix(b"\n").unwrap_or(&line))?;
        line.clear();
    }
    Ok(())
}

/// The signed files of a log, and what is missing from it.
#[derive(Debug)]
pub struct SignedLog {
    /// The files, the oldest first. They are open, so that those deleted meanwhile can still be read.
    pub files: Vec<SignedLogFile>,
    /// The newest saved head, as a line.
    pub head: String,
    /// The numbers of missing files: the one before the first, and all between the first and the one that the head is about.
    pub missing: Vec<u64>,
    /// The number of lines after the signed ones.
    pub unsigned_lines: u64,
}

impl SignedLog {
    /// Opens the log at `path`, whose newest head is also in `state_dir`. Waits some seconds if its last lines are not signed yet.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no signed log, or if a file cannot be read.
    pub fn open(path: &Path, state_dir: &Path) -> anyhow::Result<Self> {
        let heads = HeadFiles::for_log(path, state_dir);
        let is_signed = await_signature(path, &heads);
        for attempt in 1..=ATTEMPTS {
            let shown = path.display();
            let line = heads.newest().with_context(|| {
                format!("there is no head next to {shown}: did this version of wayleave write it?")
            })?;
            // Read again at each attempt, because a rotation writes a head of the next file.
            let Some(head) = LogEvent::parse_head(&line) else {
                bail!("the head next to {shown} cannot be read");
            };
            let opened: anyhow::Result<Vec<_>> = number_files(path)?
                .into_iter()
                .map(|(number, path)| open_file(number, path, &head, &line))
                .collect();
            let files = match opened {
                Err(error) if is_not_found(&error) => continue,
                files => files?,
            };
            let newest = files.last().map(|last| last.number);
            if newest == Some(head.file) || attempt == ATTEMPTS {
                return Self::from_files(files, &head, &line, is_signed);
            }
            thread::sleep(POLL_INTERVAL);
        }
        bail!("{} keeps being rotated", path.display())
    }

    fn from_files(
        mut files: Vec<SignedLogFile>,
        head: &TreeHead,
        line: &[u8],
        is_signed: bool,
    ) -> anyhow::Result<Self> {
        let mut unsigned_lines = 0;
        for file in &files {
            match file.number.cmp(&head.file) {
                Ordering::Equal if !is_signed => unsigned_lines += file.count_lines_after()?,
                Ordering::Greater => unsigned_lines += file.count_lines_after()?,
                _ => {}
            }
        }
        files.retain(|file| file.number <= head.file);
        let there: BTreeSet<u64> = files.iter().map(|file| file.number).collect();
        let Some(first) = there.first() else {
            bail!("file {} of the log was signed, but there are no files", head.file);
        };
        // Only the file directly before the first is listed: if its deletion is recorded, those before it were deleted earlier.
        let missing = first.saturating_sub(1).max(1)..=head.file;
        Ok(Self {
            missing: missing.filter(|number| !there.contains(number)).collect(),
            files,
            head: String::from_utf8_lossy(line).into_owned(),
            unsigned_lines,
        })
    }
}

/// Returns the files of the log at `path` with their numbers, sorted. A file whose first line was replaced, but that has linked
/// lines, gets the number between those of its neighbours.
fn number_files(path: &Path) -> anyhow::Result<Vec<(u64, PathBuf)>> {
    let mut paths = rotated_files(path)?;
    paths.push(path.to_owned());
    let numbers: Vec<_> = paths.iter().map(|path| file_number(path)).collect();
    let known = |at: usize| numbers.get(at).copied().flatten();
    let mut files = Vec::new();
    for (at, path) in paths.iter().enumerate() {
        let number = known(at).or_else(|| {
            let before = at.checked_sub(1).map_or(Some(0), known);
            // Without this, replacing a file's first line would hide the whole file from the export and so from the check.
            let number = match (before, known(at + 1)) {
                (Some(before), Some(after)) if before + 2 == after => before + 1,
                (None, Some(after)) => after.checked_sub(1)?,
                (Some(before), None) if at + 1 == paths.len() => before + 1,
                _ => return None,
            };
            is_linked(path).then_some(number)
        });
        files.extend(number.map(|number| (number, path.clone())));
    }
    files.sort();
    Ok(files)
}

/// Returns whether one of the first three lines of a file is linked to the line before it.
fn is_linked(path: &Path) -> bool {
    let Ok(file) = regular_file::open(path) else {
        return false;
    };
    let mut begin = decompressed(&file).take(64 * 1024);
    let mut line = Vec::new();
    for _ in 0..3 {
        line.clear();
        let read = begin.read_until(b'\n', &mut line).unwrap_or(0);
        if read > 0 && previous_digest(line.strip_suffix(b"\n").unwrap_or(&line)).is_some() {
            return true;
        }
    }
    false
}

/// Waits until everything in the log is signed, so that the latest decisions can be exported. Returns `false` if it is not
/// signed in time, as when the process that wrote it was killed.
fn await_signature(path: &Path, heads: &HeadFiles) -> bool {
    let signed = || {
        let head = LogEvent::parse_head(&heads.newest().ok()?)?;
        Some((head.file, head.bytes.unwrap_or(0)))
    };
    let (Some((file, _)), Ok(written)) = (signed(), path.metadata()) else {
        return false;
    };
    let written = (file_number(path).unwrap_or(file), written.len());
    for _ in 0..SIGNATURE_POLLS {
        if signed().is_some_and(|signed| signed >= written) {
            return true;
        }
        thread::sleep(POLL_INTERVAL);
    }
    false
}

/// Returns whether a file was deleted, or renamed by compression, after it was listed.
fn is_not_found(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::NotFound)
}

/// Opens a file and locks it, so that it is neither deleted nor compressed meanwhile.
fn open_file(
    number: u64,
    path: PathBuf,
    head: &TreeHead,
    line: &[u8],
) -> anyhow::Result<SignedLogFile> {
    let shown = path.display().to_string();
    let file = regular_file::open(&path).with_context(|| shown.clone())?;
    // If it is being deleted or compressed already, the open file can still be read to its end.
    let _ = file.try_lock_shared();
    let bytes = if is_compressed(&file) { u64::MAX } else { file.metadata()?.len() };
    let mut log = SignedLogFile { number, path, file, bytes, is_truncated: false, head: None };
    if number > head.file {
        // Nothing in it is signed.
        log.bytes = 0;
    }
    if number == head.file && bytes < u64::MAX && !ends_in_head(&log)? {
        // Later lines are still being written, and are not signed yet.
        let signed = head.bytes.unwrap_or(bytes);
        log.is_truncated = signed > bytes;
        log.bytes = signed;
        log.head = Some(line.to_vec());
    }
    Ok(log)
}

/// Returns whether the last line is a final head.
fn ends_in_head(log: &SignedLogFile) -> anyhow::Result<bool> {
    let mut file = &log.file;
    file.seek(SeekFrom::Start(log.bytes.saturating_sub(64 * 1024)))?;
    let mut end = Vec::new();
    file.read_to_end(&mut end)?;
    let lines = end.strip_suffix(b"\n").unwrap_or(&end);
    let last = (lines.rsplit(|byte| *byte == b'\n').next()).unwrap_or_default();
    Ok(LogEvent::parse_head(last).is_some_and(|head| head.next.is_some()))
}
