//! The output of an export: a folder or a WARC file. Both hold the same files, under the same paths.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::digest::{Sha256Digest, Sha256Hasher};
use crate::exchange::{DocumentExchange, LineSubject};
use crate::manifest::{ListedFile, MANIFEST_PATH};
use crate::warc::WarcWriter;

/// Extensions of other archives. A path that ends in one is hardly meant to be a folder.
const OTHER_ARCHIVES: [&str; 12] =
    ["7z", "bz2", "gz", "rar", "tar", "tbz2", "tgz", "txz", "wacz", "xz", "zip", "zst"];

/// Checks the path of an export, which is that of a folder or a WARC file.
///
/// # Errors
///
/// Returns an error if the name is that of another kind of archive.
pub fn check_output_path(out: PathBuf) -> Result<PathBuf, String> {
    let ending = out.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    if OTHER_ARCHIVES.contains(&ending.as_str()) && !is_warc(&out) {
        return Err(format!(
            "cannot write .{ending} files: name a folder, or a file that ends in .warc.gz or .warc"
        ));
    }
    Ok(out)
}

fn is_warc(out: &Path) -> bool {
    let name = out.to_string_lossy();
    name.ends_with(".warc.gz") || name.ends_with(".warc")
}

/// An export that is being written.
#[derive(Debug)]
pub(super) struct ExportWriter {
    to: ExportTarget,
    /// The log file that is being written.
    log: Option<LogFileWriter>,
    pub(super) logs: Vec<ListedFile>,
    pub(super) files: Vec<ListedFile>,
}

#[derive(Debug)]
enum ExportTarget {
    Folder(PathBuf),
    Warc(Box<WarcWriter>),
}

#[derive(Debug)]
struct LogFileWriter {
    path: String,
    hasher: Sha256Hasher,
    bytes: u64,
    /// The file, if the export is a folder.
    file: Option<BufWriter<File>>,
}

impl ExportWriter {
    /// Begins an export: a WARC file if the name says so, else a folder, which must be new or empty.
    ///
    /// # Errors
    ///
    /// Returns an error if the file or folder cannot be created, or exists.
    pub(super) fn create(out: &Path, made_at: &str) -> anyhow::Result<Self> {
        let to = if is_warc(out) {
            ExportTarget::Warc(Box::new(WarcWriter::create(out, made_at)?))
        } else {
            fs::create_dir_all(out)?;
            // The check of an export reports files that are not in its manifest.
            let is_empty = fs::read_dir(out)?.next().is_none();
            ensure!(is_empty, "the folder is not empty");
            for dir in ["log", "bodies", "configurations"] {
                fs::create_dir(out.join(dir))?;
            }
            ExportTarget::Folder(out.to_owned())
        };
        Ok(Self { to, log: None, logs: Vec::new(), files: Vec::new() })
    }

    /// Begins a log file.
    pub(super) fn begin_log(&mut self, number: u64) -> anyhow::Result<()> {
        let path = format!("log/{number:06}.jsonl");
        let file = match &self.to {
            ExportTarget::Folder(dir) => Some(BufWriter::new(File::create_new(dir.join(&path))?)),
            ExportTarget::Warc(_) => None,
        };
        self.log = Some(LogFileWriter { path, hasher: Sha256Hasher::new(), bytes: 0, file });
        Ok(())
    }

    /// Adds a line to the log file.
    pub(super) fn add_line(
        &mut self,
        line: &[u8],
        about: Option<LineSubject<'_>>,
    ) -> anyhow::Result<()> {
        let log = self.log.as_mut().context("no file of the log was begun")?;
        log.hasher.update(line);
        log.hasher.update(b"\n");
        log.bytes += line.len() as u64 + 1;
        if let Some(file) = &mut log.file {
            file.write_all(line)?;
            file.write_all(b"\n")?;
        }
        // A WARC file has no member for the log file as a whole: each line is a record with its path.
        if let ExportTarget::Warc(warc) = &mut self.to {
            warc.write_line(&log.path, line, about)?;
        }
        Ok(())
    }

    /// Ends the log file.
    pub(super) fn end_log(&mut self) -> anyhow::Result<()> {
        let log = self.log.take().context("no file of the log was begun")?;
        if let Some(mut file) = log.file {
            file.flush()?;
        }
        self.logs.push(ListedFile {
            path: log.path,
            sha256: log.hasher.finish(),
            bytes: log.bytes,
        });
        Ok(())
    }

    /// Adds a robots.txt or another document, with the exchanges that fetched it.
    pub(super) fn add_body(
        &mut self,
        digest: Sha256Digest,
        bytes: &[u8],
        exchanges: &[&DocumentExchange],
    ) -> anyhow::Result<()> {
        let path = format!("bodies/{digest}");
        match &mut self.to {
            ExportTarget::Folder(dir) => fs::write(dir.join(&path), bytes)?,
            ExportTarget::Warc(warc) => {
                for (index, exchange) in exchanges.iter().enumerate() {
                    // Only the record that holds the bytes names the file; two would make it twice as long.
                    let path = (index == 0).then_some(path.as_str());
                    warc.write_exchange(exchange, Some((digest, bytes)), path)?;
                }
            }
        }
        self.list(path, digest, bytes);
        Ok(())
    }

    /// Adds an exchange without a document. Folders leave it out, since the decisions hold all of it.
    pub(super) fn add_exchange(&mut self, exchange: &DocumentExchange) -> anyhow::Result<()> {
        match &mut self.to {
            ExportTarget::Folder(_) => Ok(()),
            ExportTarget::Warc(warc) => warc.write_exchange(exchange, None, None),
        }
    }

    /// Adds a configuration.
    pub(super) fn add_config(&mut self, digest: Sha256Digest, text: &[u8]) -> anyhow::Result<()> {
        let path = format!("configurations/{digest}.toml");
        match &mut self.to {
            ExportTarget::Folder(dir) => fs::write(dir.join(&path), text)?,
            ExportTarget::Warc(warc) => warc.write_resource(&path, text)?,
        }
        self.list(path, digest, text);
        Ok(())
    }

    fn list(&mut self, path: String, sha256: Sha256Digest, bytes: &[u8]) {
        self.files.push(ListedFile { path, sha256, bytes: bytes.len() as u64 });
    }

    /// Returns the digest of all records so far, if the export is a WARC file.
    pub(super) fn records_sha256(&self) -> Option<Sha256Digest> {
        match &self.to {
            ExportTarget::Folder(_) => None,
            ExportTarget::Warc(warc) => Some(warc.records_sha256()),
        }
    }

    /// Adds the manifest, which ends the export.
    pub(super) fn finish(self, manifest: &[u8]) -> anyhow::Result<()> {
        match self.to {
            ExportTarget::Folder(dir) => {
                let line = [manifest, b"\n"].concat();
                Ok(fs::write(dir.join(MANIFEST_PATH), line)?)
            }
            ExportTarget::Warc(warc) => warc.finish(MANIFEST_PATH, manifest),
        }
    }
}
