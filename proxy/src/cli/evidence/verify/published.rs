//! Compares an export with the head of its log that other nodes know: the log may have been cut back before.

use std::time::SystemTime;

use anyhow::Context;
use wayleave_evidence::verify::ExportFindings;
use wayleave_evidence::{LogHead, MANIFEST_PATH, Manifest};

use super::super::node_logs::NodeLogs;
use super::super::node_url::NodeUrl;

/// Adds a finding if a node knows a head of the log, from before the export, that the log does not have.
///
/// # Errors
///
/// Returns an error if a node does not answer, or if the log has no id.
pub(super) fn check(
    manifest: &Manifest,
    nodes: &[NodeUrl],
    findings: &mut ExportFindings,
) -> anyhow::Result<()> {
    let head = manifest.window.as_ref().and_then(|window| LogHead::parse(&window.head));
    let head =
        head.context("--nodes: the export names no log, because an earlier version made it")?;
    let mut logs = NodeLogs::default();
    for node in nodes {
        logs.ask(node).with_context(|| format!("no answer of {}", node.name()))?;
    }
    let made_at = humantime::parse_rfc3339(&manifest.made_at).unwrap_or(SystemTime::UNIX_EPOCH);
    // Later heads are of lines that were written after the export.
    let published = logs.published(&head.count.log).filter(|published| published.at <= made_at);
    if let Some(published) = published.filter(|published| !published.precedes(&head)) {
        let missing = published.missing_from(&head);
        let at = humantime::format_rfc3339_micros(published.at);
        let what = format!(
            "the log was cut back behind its head of {at}, which other nodes know: {missing} decisions are missing"
        );
        findings.add_altered(MANIFEST_PATH, &what);
    }
    Ok(())
}
