//! The files of a decision log, up to the last line that was signed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use crate::chain::TreeHead;
use crate::chain::event::LogEvent;
use crate::chain::link::previous_digest;
use crate::digest::Sha256Digest;
use crate::files::{MAX_LINE_BYTES, decompressed, file_number, is_compressed, rotated_files};
use crate::head_files::HeadFiles;
use crate::holds::HoldFolder;
use crate::log_files::{ForeignFile, LogFilesReader};
use crate::recorded_holds::RecordedHolds;
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
    /// The saved head, to be added after its last signed line if it does not end in a head.
    pub head: Option<Vec<u8>>,
    /// The number of the first line that is not signed.
    pub unsigned_from: Option<u64>,
}

impl SignedLogFile {
    /// Passes every line, numbered from 1, to `take`.
    pub fn read(&self, take: impl FnMut(u64, &[u8]) -> anyhow::Result<()>) -> anyhow::Result<()> {
        // Compressed files have no limit: they are complete, and their size is that of the uncompressed lines.
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0))?;
        each_line(decompressed(file).take(self.bytes), take)
    }

    /// Returns whether its signed lines end with the one with which the process stopped.
    #[must_use]
    pub fn is_after_stop(&self) -> bool {
        let head = self.head.as_deref().and_then(LogEvent::parse_head);
        head.is_some_and(|head| head.stopped)
    }

    /// Returns whether a line is signed.
    #[must_use]
    pub fn is_signed(&self, number: u64) -> bool {
        self.unsigned_from.is_none_or(|from| number < from)
    }

    /// Returns the number of lines that are not signed. They are read with the others, because they may be true: nothing can be
    /// signed while the head cannot be written.
    fn count_unsigned(&self) -> anyhow::Result<u64> {
        let Some(from) = self.unsigned_from else {
            return Ok(0);
        };
        let mut last = 0;
        self.read(|number, _| {
            last = number;
            Ok(())
        })?;
        Ok((last + 1).saturating_sub(from))
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
    let mut line = Vec::new();
    let mut number = 0;
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

/// The signed files of a log, and the list of its missing parts.
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
    /// The files beside the log, and in its state directory, that do not belong there, each with the reason.
    pub foreign: Vec<String>,
}

impl SignedLog {
    /// Opens the log at `path`, whose newest head is also in `state_dir`. Waits some seconds if its last lines are not signed yet.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no signed log, or if a file cannot be read.
    pub fn open(path: &Path, state_dir: &Path) -> anyhow::Result<Self> {
        let heads = HeadFiles::for_log(path, state_dir);
        let mut foreign = Vec::new();
        if heads.is_of_another_log() {
            foreign.push(format!("the head next to {} is of another log", path.display()));
        }
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
            let numbered = number_files(path)?;
            let outsiders = LogFilesReader::default().read_by_head(path, &line)?.foreign;
            let opened: anyhow::Result<Vec<_>> = without_copies(numbered, &outsiders)
                .into_iter()
                .map(|(number, path)| open_file(number, path, &head, &line, is_signed))
                .collect();
            let files = match opened {
                Err(error) if is_not_found(&error) => continue,
                files => files?,
            };
            let newest = files.last().map(|last| last.number);
            if newest == Some(head.file) || attempt == ATTEMPTS {
                let describe =
                    |file: ForeignFile| format!("{} {}", file.path.display(), file.reason);
                foreign.extend(outsiders.into_iter().map(describe));
                let log = Self::from_files(files, &head, &line, is_signed)?;
                let truncated = log.files.iter().filter(|file| file.is_truncated);
                foreign.extend(truncated.map(|file| {
                    format!("{} is shorter than what was signed of it", file.path.display())
                }));
                foreign.extend(log.missing_last_line(&head, &line)?);
                foreign.extend(hold_findings(path, state_dir, &head, &line)?);
                return Ok(Self { foreign, ..log });
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
        if is_signed {
            // A file that was begun after the head was read.
            files.retain(|file| file.number <= head.file);
        }
        let mut unsigned_lines = 0;
        for file in &files {
            unsigned_lines += file.count_unsigned()?;
        }
        let there: BTreeSet<u64> = files.iter().map(|file| file.number).collect();
        let (Some(first), Some(last)) = (there.first(), there.last()) else {
            bail!("file {} of the log was signed, but there are no files", head.file);
        };
        // Only the file directly before the first is listed: if its deletion is recorded, those before it were deleted earlier.
        let missing = first.saturating_sub(1).max(1)..=head.file.max(*last);
        Ok(Self {
            missing: missing.filter(|number| !there.contains(number)).collect(),
            files,
            head: String::from_utf8_lossy(line).into_owned(),
            unsigned_lines,
            foreign: Vec::new(),
        })
    }

    /// Returns a description of a file that was ended without the line that was signed last: another log's file in its place.
    fn missing_last_line(&self, head: &TreeHead, line: &[u8]) -> anyhow::Result<Option<String>> {
        let file = self.files.iter().find(|file| file.number == head.file && file.head.is_none());
        let Some(file) = file.filter(|_| head.lines > 0) else {
            return Ok(None);
        };
        let last = previous_digest(line);
        let mut is_there = false;
        file.read(|number, line| {
            is_there |= number == head.lines && Some(Sha256Digest::of(line)) == last;
            Ok(())
        })?;
        let shown = file.path.display();
        Ok((!is_there).then(|| format!("{shown} does not have the line that was signed last")))
    }
}

/// Returns the faults of the holds.
fn hold_findings(
    path: &Path,
    state_dir: &Path,
    head: &TreeHead,
    line: &[u8],
) -> anyhow::Result<Vec<String>> {
    let folder = HoldFolder::in_state_dir(state_dir);
    let mut findings = match folder.read_stored(&head.key) {
        Ok(stored) => RecordedHolds::read(path, line)?.compare(&stored).findings,
        Err(error) => vec![format!("{error:#}")],
    };
    // A file that is missing could pass for one that retention deleted.
    findings.extend(folder.deletions(path, &head.key).err().map(|error| format!("{error:#}")));
    Ok(findings)
}

/// Returns one file of each number, of several the one that belongs to the log. Those that have taken the place of one are checked
/// as if they belonged to it, so that the check names their faults.
fn without_copies(
    numbered: Vec<(u64, PathBuf)>,
    outsiders: &[ForeignFile],
) -> BTreeMap<u64, PathBuf> {
    let mut files = BTreeMap::new();
    let is_outsider = |path: &Path| outsiders.iter().any(|file| file.path == path);
    let (foreign, own): (Vec<_>, Vec<_>) =
        numbered.into_iter().partition(|(_, path)| is_outsider(path));
    for (number, path) in own.into_iter().chain(foreign) {
        files.entry(number).or_insert(path);
    }
    files
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
    is_signed: bool,
) -> anyhow::Result<SignedLogFile> {
    let shown = path.display().to_string();
    let file = regular_file::open(&path).with_context(|| shown.clone())?;
    // If it is being deleted or compressed already, the open file can still be read to its end.
    let _ = file.try_lock_shared();
    let bytes = if is_compressed(&file) { u64::MAX } else { file.metadata()?.len() };
    let mut log = SignedLogFile {
        number,
        path,
        file,
        bytes,
        is_truncated: false,
        head: None,
        unsigned_from: None,
    };
    if number >= head.file && bytes < u64::MAX && !ends_in_head(&log)? {
        if number > head.file {
            log.unsigned_from = Some(1);
            return Ok(log);
        }
        let signed = head.bytes.unwrap_or(bytes);
        log.is_truncated = signed > bytes;
        log.head = Some(line.to_vec());
        if is_signed || log.is_truncated {
            // Later lines are still being written, and will be signed in a moment.
            log.bytes = signed;
        } else if signed < bytes {
            log.unsigned_from = Some(head.lines + 1);
        }
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
