//! Compresses rotated files with gzip, which every tool for logs reads (`zcat`, `zgrep`).
//!
//! A file keeps its old name until its compressed form is completely on disk. If the process ends in between, nothing is lost,
//! and compression starts again at the next rotation.

use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use flate2::Compression;
use wayleave_evidence::files::{compressed_name, gzip_builder, is_compressed, log_directory};
use wayleave_evidence::regular_file;

/// The compressing thread, while there is one.
#[derive(Debug, Default)]
pub(super) struct CompressionThread(Option<JoinHandle<()>>);

impl CompressionThread {
    /// Starts to compress rotated files. Does nothing if the thread is still running. All of them must end in a signed head,
    /// since nothing can be appended afterwards.
    pub(super) fn start(&mut self, files: Vec<PathBuf>) {
        if self.0.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        self.0 = thread::Builder::new()
            .name("decisions-gzip".to_owned())
            .spawn(move || compress_all(&files))
            .inspect_err(|error| tracing::warn!(%error, "the decision log is not compressed"))
            .ok();
    }

    /// Waits for the thread to end.
    #[cfg(test)]
    pub(super) fn join(self) {
        self.0.map(JoinHandle::join).transpose().unwrap();
    }
}

/// Compresses those of these files that are not compressed yet.
pub(super) fn compress_all(files: &[PathBuf]) {
    for file in files {
        if let Err(error) = compress(file) {
            tracing::warn!(%error, file = %file.display(), "a decision log could not be compressed");
        }
    }
}

/// Replaces a file by its compressed form, unless it is compressed already, or locked: being exported or deleted.
fn compress(path: &Path) -> io::Result<()> {
    let from = regular_file::open(path)?;
    if is_compressed(&from) || from.try_lock().is_err() {
        return Ok(());
    }
    let part = partial_name(path);
    let written = write_compressed(&from, &part);
    if written.is_err() {
        // On a full disk, the incomplete file would only take up space.
        let _ = fs::remove_file(&part);
    }
    written?;
    // The directory is synced before the original is deleted, so that a power failure cannot take both.
    fs::rename(&part, compressed_name(path))?;
    File::open(log_directory(path))?.sync_all()?;
    fs::remove_file(path)
}

/// Returns the name of a compressed file until it is complete.
pub(super) fn partial_name(path: &Path) -> PathBuf {
    let mut name = compressed_name(path).into_os_string();
    name.push(".part");
    name.into()
}

/// Writes the compressed form of a file, with its permissions and modification time.
fn write_compressed(mut from: &File, to: &Path) -> io::Result<()> {
    let found = from.metadata()?;
    let file = regular_file::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(found.permissions().mode() & 0o777)
        .open(to)?;
    let builder = gzip_builder(from)?;
    from.rewind()?;
    let mut gzip = builder.write(BufWriter::new(file), Compression::default());
    io::copy(&mut from, &mut gzip)?;
    let mut writer = gzip.finish()?;
    writer.flush()?;
    let file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.set_modified(found.modified()?)?;
    file.sync_all()
}
