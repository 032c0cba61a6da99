//! The files of a decision log, up to the last line that was signed.

use std::fs::File;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use crate::observe::chain::Head;
use crate::observe::chain::event::Event;
use crate::observe::decisions::{contents, file_number, is_compressed, kept_head, rotated_files};

/// How often the files are listed anew if the log was rotated meanwhile.
const ATTEMPTS: usize = 20;
/// What is written is signed within 100 ms, by a process that is alive: so often it is looked whether it was, and so long apart.
const LOOKS: usize = 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// A file of the log.
#[derive(Debug)]
pub(super) struct LogFile {
    pub(super) number: u64,
    pub(super) path: PathBuf,
    file: File,
    /// How many bytes of what is in it are read.
    bytes: u64,
    /// The line that is to end it, if it does not end in its head itself.
    pub(super) head: Option<Vec<u8>>,
}

impl LogFile {
    /// Hands on every line with its number, from 1.
    pub(super) fn read(
        &self,
        take: impl FnMut(u64, &[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0))?;
        each_line(contents(file).take(self.bytes), take)
    }
}

/// Hands on every line with its number, from 1, and without its end.
///
/// # Errors
///
/// Returns why it cannot be read, or the error of `take`, which ends it.
pub(super) fn each_line(
    mut lines: impl BufRead,
    mut take: impl FnMut(u64, &[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (mut line, mut number) = (Vec::new(), 0);
    while lines.read_until(b'\n', &mut line)? > 0 {
        number += 1;
        take(number, line.strip_suffix(b"\n").unwrap_or(&line))?;
        line.clear();
    }
    Ok(())
}

/// The files of the log at `path`, the oldest first, open: what is deleted meanwhile can be read on.
///
/// # Errors
///
/// Returns an error if there is no signed log, or a file cannot be read.
pub(super) fn files(path: &Path) -> anyhow::Result<Vec<LogFile>> {
    await_signature(path);
    for _ in 0..ATTEMPTS {
        let shown = path.display();
        let line = kept_head(path).with_context(|| {
            format!("{shown} has no head beside it: has this version of wayleave written it?")
        })?;
        let Some(head) = Event::head(&line) else {
            bail!("the head beside {shown} cannot be read");
        };
        let mut paths = rotated_files(path)?;
        paths.push(path.to_owned());
        let files = paths.into_iter().filter_map(|path| {
            let number = file_number(&path)?;
            Some(open(number, path, &head, &line))
        });
        let mut files = match files.collect::<anyhow::Result<Vec<_>>>() {
            Err(error) if is_gone(&error) => continue,
            files => files?,
        };
        files.sort_by_key(|file| file.number);
        if files.last().is_some_and(|last| last.number == head.file) {
            return Ok(files);
        }
    }
    bail!(
        "the file that the head beside {} is for is not there",
        path.display()
    )
}

/// Waits until all that the log holds now is signed, so that what was just decided is found; but not for a process that is gone.
fn await_signature(path: &Path) {
    let signed = || {
        let head = Event::head(&kept_head(path).ok()?)?;
        Some((head.file, head.bytes))
    };
    let (Some((file, _)), Ok(written)) = (signed(), path.metadata()) else {
        return;
    };
    for _ in 0..LOOKS {
        match signed() {
            Some((now, Some(bytes))) if now == file && bytes < written.len() => {
                thread::sleep(BETWEEN_LOOKS);
            }
            _ => return,
        }
    }
}

/// Whether a file was deleted, or compressed, since it was listed.
fn is_gone(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::NotFound)
}

/// Opens a file, which is neither deleted nor compressed while it is open.
fn open(number: u64, path: PathBuf, head: &Head, line: &[u8]) -> anyhow::Result<LogFile> {
    let shown = path.display().to_string();
    let file = File::open(&path).with_context(|| shown.clone())?;
    // Where that is under way already, it is read to its end all the same.
    let _ = file.try_lock_shared();
    let bytes = match is_compressed(&file) {
        true => u64::MAX,
        false => file.metadata()?.len(),
    };
    let mut log = LogFile {
        number,
        path,
        file,
        bytes,
        head: None,
    };
    if number == head.file && bytes < u64::MAX && !is_ended(&log)? {
        // What is behind it is being written, and not signed yet.
        log.bytes = head.bytes.unwrap_or(bytes);
        ensure!(
            log.bytes <= bytes,
            "{shown} is shorter than what was signed of it"
        );
        log.head = Some(line.to_vec());
    }
    Ok(log)
}

/// Whether the last line is a head that ends the file.
fn is_ended(log: &LogFile) -> anyhow::Result<bool> {
    let mut file = &log.file;
    file.seek(SeekFrom::Start(log.bytes.saturating_sub(64 * 1024)))?;
    let mut end = Vec::new();
    file.read_to_end(&mut end)?;
    let end = end.strip_suffix(b"\n").unwrap_or(&end);
    let last = end.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(Event::head(last).is_some_and(|head| head.next.is_some()))
}
