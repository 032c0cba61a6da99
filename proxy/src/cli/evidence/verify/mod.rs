//! `wayleave evidence verify`: checks an export, and derives each of its decisions again.
//!
//! ```text
//!  mod ─┬─ log_check   checks the lines of a log file
//!       ├─ derive      derives a decision again
//!       │   ├─ robots    from a robots.txt
//!       │   ├─ documents from other documents
//!       │   └─ settings  from a configuration
//!       ├─ materials   the documents and configurations in the export
//!       ├─ untrusted_folder  opens files of a folder that may come from anybody
//!       ├─ hashing     a reader that hashes what is read
//!       ├─ findings    what is wrong, and where
//!       └─ report      the result
//! ```

mod derive;
mod documents;
mod findings;
mod hashing;
mod log_check;
mod materials;
mod report;
mod robots;
mod settings;
#[cfg(test)]
mod tampering_tests;
mod untrusted_folder;

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use clap::Args;

use self::derive::{DecisionDeriver, DerivedCounts};
use self::findings::ExportFindings;
use self::hashing::HashingReader;
use self::log_check::LogCheck;
use self::materials::CheckedMaterials;
use self::report::VerifyReport;
use super::manifest::{self, MAX_MANIFEST_BYTES, Manifest};
use super::signed_log::each_line;
use super::warc;
use crate::cli::progress::{LINES_PER_UPDATE, ProgressLine};
use crate::cli::terminal::{pretty_json, print, unusable};
use crate::decision_log::DecisionRecord;
use crate::decision_log::chain::event::EVENT_PREFIX;
use crate::decision_log::chain::head::is_signed_by;
use crate::telemetry::digest::Sha256Digest;

/// The size of read buffers.
const BUFFER_BYTES: usize = 256 * 1024;

#[derive(Debug, Args)]
#[command(after_help = "Needs no proxy, no network and no configuration.\n\
                  Exit status: 0 every decision was derived again, 1 one comes out differently, what it rests on is missing, or a \
                  process was killed before it had signed it, 2 the evidence was altered or cannot be read.")]
pub(crate) struct VerifyArgs {
    /// What `evidence export` wrote: a folder or a .warc.gz file
    path: PathBuf,
    /// The public key to trust, as `evidence key` prints it; without, only that one key signed everything is checked
    #[arg(long, value_name = "PUBLIC", allow_hyphen_values = true)]
    key: Option<String>,
    /// Take lines that a killed process had not signed yet; they are named all the same
    #[arg(long)]
    accept_unsigned: bool,
    /// Print what it came to as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &VerifyArgs) -> ExitCode {
    match verify(arguments) {
        Ok(verified) => print_report(&verified.report(arguments.key.is_some()), arguments.json),
        Err(error) => unusable(&format!("{}: {error:#}", arguments.path.display())),
    }
}

fn print_report(report: &VerifyReport<'_>, json: bool) -> ExitCode {
    let printed = if json {
        print(&pretty_json(report))
    } else {
        print(&report.to_string())
    };
    report.failure_status().unwrap_or(printed)
}

fn verify(arguments: &VerifyArgs) -> anyhow::Result<VerifiedExport> {
    if arguments.path.is_dir() {
        let dir = &arguments.path;
        let file = untrusted_folder::open_file(dir, manifest::MANIFEST_PATH);
        let file = file.with_context(|| format!("{}:1", manifest::MANIFEST_PATH))?;
        let mut line = Vec::new();
        file.take(MAX_MANIFEST_BYTES).read_to_end(&mut line)?;
        let manifest = read_manifest(&line, None, arguments.key.as_deref())?;
        return VerifiedExport::check(dir, manifest, arguments);
    }
    let unpacked = tempfile::tempdir().context("making a temporary folder")?;
    // Read twice: the signature is at the end, and nothing is unpacked before it is checked.
    let (line, records) = warc::read::manifest(&arguments.path)?;
    let manifest = read_manifest(&line, Some(records), arguments.key.as_deref())?;
    warc::read::unpack(&arguments.path, unpacked.path(), &manifest)?;
    VerifiedExport::check(unpacked.path(), manifest, arguments)
}

/// A checked export.
struct VerifiedExport {
    manifest: Manifest,
    findings: ExportFindings,
    derived: DerivedCounts,
    lines: u64,
}

impl VerifiedExport {
    fn check(dir: &Path, manifest: Manifest, arguments: &VerifyArgs) -> anyhow::Result<Self> {
        let mut findings = ExportFindings::new(arguments.accept_unsigned);
        let materials = CheckedMaterials::check(dir, &manifest, &mut findings);
        let deriver = DecisionDeriver::new(materials);
        let mut verified = Self {
            manifest,
            findings,
            derived: DerivedCounts::default(),
            lines: 0,
        };
        verified.check_logs(dir, deriver)?;
        Ok(verified)
    }

    fn check_logs(&mut self, dir: &Path, mut deriver: DecisionDeriver) -> anyhow::Result<()> {
        let mut before = None;
        let mut decisions = 0;
        let progress = ProgressLine::open_ended("decisions");
        for listed in self.manifest.logs.clone() {
            let mut check = LogCheck::begin(&listed.path, &self.manifest.key, before);
            let file = untrusted_folder::open_file(dir, &listed.path)
                .with_context(|| listed.path.clone())?;
            // Read a little more than the manifest lists, so that the first surplus lines of a longer file are reported.
            let file = file.take(listed.bytes.saturating_add(BUFFER_BYTES as u64));
            let mut file = BufReader::with_capacity(BUFFER_BYTES, HashingReader::new(file));
            each_line(&mut file, |number, line| {
                check.check_line(number, line, &mut self.findings);
                self.lines += 1;
                if line.starts_with(EVENT_PREFIX)
                    || line.starts_with(super::stand_ins::STANDIN_PREFIX)
                {
                    return Ok(());
                }
                let Ok(decision) = serde_json::from_slice::<DecisionRecord>(line) else {
                    // A torn line. The check of the chain has reported it, unless it is explained.
                    return Ok(());
                };
                decisions += 1;
                let derived = deriver.derive(&decision, line, &mut self.derived);
                if let Err(difference) = derived {
                    let what = format!("decision {}: {difference}", decision.id);
                    self.findings
                        .add_different(&format!("{}:{number}", listed.path), &what);
                }
                if decisions % LINES_PER_UPDATE == 0 {
                    progress.set_position(decisions);
                }
                Ok(())
            })
            .with_context(|| listed.path.clone())?;
            before = Some(check.finish(&mut self.findings));
            if file.into_inner().digest() != listed.sha256 {
                let what = "is not the file that the manifest lists";
                self.findings.add_altered(&listed.path, what);
            }
        }
        if let Some(end) = before {
            let window = self.manifest.window.as_ref();
            end.check_gaps(window, &self.manifest.key, &mut self.findings);
        }
        // Lines that do not parse are skipped above, so only the count shows whether a decision disappeared.
        if decisions != self.manifest.decisions {
            let said = self.manifest.decisions;
            let what = format!("lists {said} decisions, and there are {decisions}");
            self.findings.add_altered(manifest::MANIFEST_PATH, &what);
        }
        Ok(())
    }

    fn report(&self, trusted: bool) -> VerifyReport<'_> {
        VerifyReport {
            result: self.findings.result(),
            findings: &self.findings,
            decisions: self.manifest.decisions,
            derived: self.derived,
            files: self.manifest.logs.len(),
            lines: self.lines,
            key: &self.manifest.key,
            trusted,
            exported_at: &self.manifest.made_at,
            exported_by: &self.manifest.program,
        }
    }
}

/// Parses the manifest and checks its signature. `records` is the digest of the records before it, if it is from a WARC file.
fn read_manifest(
    line: &[u8],
    records: Option<Sha256Digest>,
    trusted: Option<&str>,
) -> anyhow::Result<Manifest> {
    let name = manifest::MANIFEST_PATH;
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let unreadable = |error| anyhow!("{name}:1: cannot be read: {error}");
    // The key is in the manifest itself. It shows who signed only if it is compared with a trusted one below.
    let manifest: Manifest = serde_json::from_slice(line).map_err(unreadable)?;
    anyhow::ensure!(
        is_signed_by(line, &manifest.key),
        "{name}:1: the signature does not belong to it"
    );
    anyhow::ensure!(
        manifest.evidence == 1,
        "{name}:1: has format {}, which this version does not know",
        manifest.evidence
    );
    if let Some(trusted) = trusted {
        anyhow::ensure!(
            trusted.trim() == manifest.key,
            "{name}:1: is signed by {}, not by the key to trust",
            manifest.key
        );
    }
    anyhow::ensure!(
        records == manifest.records_sha256,
        "{name}:1: the records before it are not those that it was signed with"
    );
    Ok(manifest)
}
