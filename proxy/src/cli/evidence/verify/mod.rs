//! `wayleave evidence verify`: checks an export, and derives each of its decisions again (`wayleave-audit`).
//!
//! ```text
//!  mod ─┬─ published   compares the log with the head that the fleet knows
//!       └─ report      the result
//! ```

#[cfg(test)]
mod alteration_tests;
#[cfg(test)]
mod key_tests;
mod published;
mod report;
#[cfg(test)]
mod tampering_tests;
#[cfg(test)]
mod unnamed_tests;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use wayleave_audit::verify::{DecisionDeriver, DerivedCounts};
use wayleave_decision_log::DecisionRecord;
use wayleave_evidence::Manifest;
use wayleave_evidence::verify::{CheckedExport, CheckedLines, ExportFindings};

use self::report::VerifyReport;
use super::node_url::NodeUrl;
use crate::cli::progress::{LINES_PER_UPDATE, ProgressLine};
use crate::cli::terminal::{pretty_json, print, unusable};

#[derive(Debug, Args)]
#[command(
    after_help = "Needs no proxy, no network and no configuration. With --nodes it also asks running \
                  proxies how long the log was, with the token in WAYLEAVE_ADMIN_TOKEN.\n\
                  Exit status: 0 every decision was derived again, 1 one has a different result, its documents are missing, or a \
                  process was killed before it had signed it, 2 the evidence was altered or cannot be read."
)]
pub(crate) struct VerifyArgs {
    /// The output of `evidence export`: a folder or a .warc.gz file
    path: PathBuf,
    /// The public key to trust, as printed by `evidence key`; without it, any key is accepted if it signed everything
    #[arg(long, value_name = "PUBLIC", allow_hyphen_values = true)]
    key: Option<String>,
    /// Accept lines that a killed process had not signed yet; they are still listed
    #[arg(long)]
    accept_unsigned: bool,
    /// Ask the admin listeners of running proxies of the fleet, such as http://10.0.0.2:3129, whether the log was longer
    #[arg(long, value_name = "URL,...", value_delimiter = ',')]
    nodes: Vec<NodeUrl>,
    /// Print the result as JSON
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
    let printed = if json { print(&pretty_json(report)) } else { print(&report.to_string()) };
    report.failure_status().unwrap_or(printed)
}

/// A checked export, and the result of the check.
struct VerifiedExport {
    manifest: Manifest,
    findings: ExportFindings,
    derived: DerivedCounts,
    lines: CheckedLines,
}

impl VerifiedExport {
    fn report(&self, trusted: bool) -> VerifyReport<'_> {
        VerifyReport {
            result: self.findings.result(),
            findings: &self.findings,
            decisions: self.manifest.decisions,
            derived: self.derived,
            files: self.manifest.logs.len(),
            lines: self.lines.lines,
            lost: self.lines.lost_decisions,
            key: &self.manifest.key,
            trusted,
            exported_at: &self.manifest.made_at,
            exported_by: &self.manifest.program,
        }
    }
}

fn verify(arguments: &VerifyArgs) -> anyhow::Result<VerifiedExport> {
    let export = CheckedExport::open(&arguments.path, arguments.key.as_deref())?;
    let mut findings = ExportFindings::new(arguments.accept_unsigned);
    let mut deriver = DecisionDeriver::new(export.check_files(&mut findings));
    let mut derived = DerivedCounts::default();
    let progress = ProgressLine::open_ended("decisions");
    let mut decisions = 0;
    let lines = export.check_logs(&mut findings, |line| {
        let decision: DecisionRecord = serde_json::from_slice(line).ok()?;
        decisions += 1;
        if decisions % LINES_PER_UPDATE == 0 {
            progress.set_position(decisions);
        }
        let result = deriver.derive(&decision, line, &mut derived);
        Some(result.map_err(|difference| format!("decision {}: {difference}", decision.id)))
    })?;
    if !arguments.nodes.is_empty() {
        published::check(&export.manifest, &arguments.nodes, &mut findings)?;
    }
    Ok(VerifiedExport { manifest: export.manifest, findings, derived, lines })
}
