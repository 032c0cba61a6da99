//! Checks an export: its manifest, its files, the chain of its log and, with the caller's help, its decisions.
//!
//! ```text
//!  mod ─┬─ log_check   checks the lines of a log file
//!       ├─ materials   the documents and configurations in the export
//!       ├─ untrusted_folder  opens files of a folder that may come from anybody
//!       ├─ hashing     a reader that hashes the bytes that it reads
//!       └─ findings    each fault, and its place
//! ```

mod findings;
mod hashing;
mod log_check;
mod materials;
mod untrusted_folder;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, ensure};
use tempfile::TempDir;

pub use self::findings::{ExportFindings, VerifyResult};
use self::hashing::HashingReader;
pub use self::log_check::{FileEnd, LogCheck};
pub use self::materials::CheckedMaterials;
use crate::chain::event::{EVENT_PREFIX, LogEvent};
use crate::chain::head::is_signed_by;
use crate::digest::Sha256Digest;
use crate::manifest::{ListedFile, MANIFEST_PATH, MAX_MANIFEST_BYTES, Manifest};
use crate::signed_log::each_line;
use crate::stand_ins::STANDIN_PREFIX;
use crate::warc;

/// The size of read buffers.
const BUFFER_BYTES: usize = 256 * 1024;

/// The explanation for whoever passes something else, such as the decision log itself.
const NOT_AN_EXPORT: &str = "is not what `wayleave evidence export` writes, a folder or a WARC file: \
                             to check a decision log, export it, and check the export";

/// An export whose manifest has been checked.
#[derive(Debug)]
pub struct CheckedExport {
    pub manifest: Manifest,
    folder: PathBuf,
    /// The folder, if it was unpacked from a WARC file; it is deleted in the end.
    _unpacked: Option<TempDir>,
}

/// The lines of an export's log.
#[derive(Clone, Copy, Debug)]
pub struct CheckedLines {
    pub lines: u64,
    /// The number of decisions that could not be written, as the log says.
    pub lost_decisions: u64,
}

impl CheckedExport {
    /// Opens an export, a folder or a WARC file, and checks the signature of its manifest. `trusted` is the public key that must
    /// have signed it; without, any key may.
    ///
    /// # Errors
    ///
    /// Returns an error if the export cannot be read, or if its manifest is not signed by its key or not by the trusted one.
    pub fn open(path: &Path, trusted: Option<&str>) -> anyhow::Result<Self> {
        if path.is_dir() {
            let file = untrusted_folder::open_file(path, MANIFEST_PATH)
                .with_context(|| format!("{MANIFEST_PATH}:1"));
            let is_export = path.join(MANIFEST_PATH).exists();
            let file = if is_export { file? } else { file.context(NOT_AN_EXPORT)? };
            let mut line = Vec::new();
            file.take(MAX_MANIFEST_BYTES).read_to_end(&mut line)?;
            return Ok(Self {
                manifest: read_manifest(&line, None, trusted)?,
                folder: path.to_owned(),
                _unpacked: None,
            });
        }
        let unpacked = tempfile::tempdir().context("creating a temporary folder")?;
        // Read twice: the signature is at the end, and nothing is unpacked before it is checked.
        let mut file = warc::open(path)?;
        let is_warc = file.fill_buf().is_ok_and(|bytes| bytes.starts_with(b"WARC/"));
        let read = warc::read_manifest(file);
        let (line, records) = if is_warc { read? } else { read.context(NOT_AN_EXPORT)? };
        let manifest = read_manifest(&line, Some(records), trusted)?;
        warc::unpack(warc::open(path)?, unpacked.path(), &manifest)?;
        Ok(Self { manifest, folder: unpacked.path().to_owned(), _unpacked: Some(unpacked) })
    }

    /// Compares all files but those of the log with the manifest.
    pub fn check_files(&self, findings: &mut ExportFindings) -> CheckedMaterials {
        CheckedMaterials::check(&self.folder, &self.manifest, findings)
    }

    /// Checks the files of the log. Each line that is neither an event nor a stand-in is passed to `derive`, which derives the
    /// decision in it again and returns a description of each difference; `None` if the line is not a decision.
    /// Returns the number of lines, and that of decisions which could not be written, as the log says.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be read.
    pub fn check_logs(
        &self,
        findings: &mut ExportFindings,
        mut derive: impl FnMut(&[u8]) -> Option<Result<(), String>>,
    ) -> anyhow::Result<CheckedLines> {
        let keys = log_keys(&self.manifest);
        let mut before: Option<FileEnd> = None;
        let mut lines = 0;
        let mut decisions = 0;
        for listed in &self.manifest.logs {
            let mut check = LogCheck::begin(&listed.path, &keys, before);
            let mut on_line = |number: u64, line: &[u8]| {
                check.check_line(number, line, findings);
                lines += 1;
                if line.starts_with(EVENT_PREFIX) || line.starts_with(STANDIN_PREFIX) {
                    return;
                }
                // A torn line is no decision. The check of the chain has reported it, unless it is explained.
                if let Some(derived) = derive(line) {
                    decisions += 1;
                    if let Err(difference) = derived {
                        findings.add_different(&format!("{}:{number}", listed.path), &difference);
                    }
                }
            };
            let digest =
                self.read_log(listed, &mut on_line).with_context(|| listed.path.clone())?;
            before = Some(check.finish(findings));
            if digest != listed.sha256 {
                findings.add_altered(&listed.path, "differs from the file in the manifest");
            }
        }
        let mut lost = 0;
        if let Some(end) = before {
            let window = self.manifest.window.as_ref();
            lost = end.lost_decisions(window);
            end.check_gaps(window, &keys, findings);
        }
        // Lines that do not parse are skipped above, so only the count shows whether a decision disappeared.
        if decisions != self.manifest.decisions {
            let listed = self.manifest.decisions;
            let what = format!("lists {listed} decisions, but there are {decisions}");
            findings.add_altered(MANIFEST_PATH, &what);
        }
        Ok(CheckedLines { lines, lost_decisions: lost })
    }

    /// Passes the lines of a log file to `on_line`, and returns the digest of the file.
    fn read_log(
        &self,
        listed: &ListedFile,
        on_line: &mut impl FnMut(u64, &[u8]),
    ) -> anyhow::Result<Sha256Digest> {
        // Read a little more than the manifest lists, so that the first surplus lines of a longer file are reported.
        let limit = listed.bytes.saturating_add(BUFFER_BYTES as u64);
        let file = untrusted_folder::open_file(&self.folder, &listed.path)?.take(limit);
        let mut reader = BufReader::with_capacity(BUFFER_BYTES, HashingReader::new(file));
        each_line(&mut reader, |number, line| {
            on_line(number, line);
            Ok(())
        })?;
        Ok(reader.into_inner().digest())
    }
}

/// Returns the keys that signed the log, the manifest's last, and before it those that have handed the log over to the next.
fn log_keys(manifest: &Manifest) -> Vec<String> {
    let line = manifest.window.as_ref().map_or(&b""[..], |window| window.head.as_bytes());
    let head = LogEvent::parse_head(line).filter(|head| head.key == manifest.key);
    let signed = head.filter(|head| is_signed_by(line, &head.key));
    signed.map_or_else(|| vec![manifest.key.clone()], |head| head.keys())
}

/// Parses the manifest and checks its signature. `records` is the digest of the records before it, if it is from a WARC file.
fn read_manifest(
    bytes: &[u8],
    records: Option<Sha256Digest>,
    trusted: Option<&str>,
) -> anyhow::Result<Manifest> {
    let name = MANIFEST_PATH;
    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let unreadable = |error| anyhow!("{name}:1: cannot be read: {error}");
    // The key is in the manifest itself. It shows who signed only if it is compared with a trusted one below.
    let manifest: Manifest = serde_json::from_slice(line).map_err(unreadable)?;
    ensure!(is_signed_by(line, &manifest.key), "{name}:1: has an invalid signature");
    ensure!(
        manifest.evidence == 1,
        "{name}:1: has format {}, which this version does not know",
        manifest.evidence
    );
    if let Some(trusted) = trusted {
        ensure!(
            log_keys(&manifest).iter().any(|key| key == trusted.trim()),
            "{name}:1: is signed by {}, not by the trusted key",
            manifest.key
        );
    }
    ensure!(records == manifest.records_sha256, "{name}:1: does not match the records before it");
    Ok(manifest)
}
