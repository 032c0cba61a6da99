//! Compresses files that were rotated away, with gzip, which every tool for logs reads (`zcat`, `zgrep`).
//!
//! A file is there under its old name until its compressed form is on disk as a whole: whatever ends the process in between, nothing
//! is lost, and the next beginning of a file starts again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::super::files::{compressed_name, dir_of, is_compressed, rotated_files};
use super::resume;

/// The thread, while there is one.
#[derive(Debug, Default)]
pub(super) struct Compressing(Option<JoinHandle<()>>);

impl Compressing {
    /// Compresses what was rotated away from `path` before the file with the number `current`, which must have a signed head: what
    /// ended without one is completed first. Does nothing while that is under way already.
    pub(super) fn start(&mut self, path: &Path, current: u64) {
        if self.0.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        let path = path.to_owned();
        let thread = thread::Builder::new().name("decisions-gzip".to_owned());
        let started = thread.spawn(move || compress_all(&path, current));
        self.0 = started
            .inspect_err(|error| tracing::warn!(%error, "the decision log is not compressed"))
            .ok();
    }

    /// Waits until that is done.
    #[cfg(test)]
    pub(super) fn join(self) {
        self.0.map(JoinHandle::join).transpose().unwrap();
    }
}

/// Compresses what was rotated away from `path` before the file with the number `current`.
pub(super) fn compress_all(path: &Path, current: u64) {
    for file in rotated_files(path).unwrap_or_default() {
        if resume::number(&file).is_none_or(|number| number >= current) {
            continue;
        }
        if let Err(error) = compress(&file) {
            tracing::warn!(%error, file = %file.display(), "a decision log could not be compressed");
        }
    }
}

/// Replaces a file by its compressed form, unless it is one, or is being read by an export or deleted.
fn compress(path: &Path) -> io::Result<()> {
    let from = File::open(path)?;
    if is_compressed(&from) || from.try_lock().is_err() {
        return Ok(());
    }
    let part = part_of(path);
    let written = write(&from, &part);
    if written.is_err() {
        // A full disk: what is there of it is in the way.
        let _ = fs::remove_file(&part);
    }
    written?;
    fs::rename(&part, compressed_name(path))?;
    File::open(dir_of(path))?.sync_all()?;
    fs::remove_file(path)
}

/// What a compressed file is called before it is whole.
pub(super) fn part_of(path: &Path) -> PathBuf {
    let mut name = compressed_name(path).into_os_string();
    name.push(".part");
    name.into()
}

/// Writes the compressed form, which is as old as the file and as secret.
fn write(mut from: &File, to: &Path) -> io::Result<()> {
    let found = from.metadata()?;
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(found.permissions().mode() & 0o777)
        .open(to)?;
    let mut gzip = GzEncoder::new(BufWriter::new(file), Compression::default());
    io::copy(&mut from, &mut gzip)?;
    let mut whole = gzip.finish()?;
    whole.flush()?;
    let file = whole.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.set_modified(found.modified()?)?;
    file.sync_all()
}
