//! The report as a document to send: Markdown, or a page.

use wayleave_decision::RequestOutcome;
use wayleave_decision_log::{LogReport, ReportDimension};

use super::cells::{RowLimits, edge_changes, left_out, outcomes};
use crate::cli::cells::Cells;
use crate::cli::document_form::DocumentForm;
use crate::cli::expired_rules::ExpiredRule;

/// Returns the document.
pub(super) fn write(
    form: DocumentForm,
    report: &LogReport,
    expired: &[ExpiredRule],
    by: Option<ReportDimension>,
    limits: RowLimits,
) -> String {
    let instant = |at| humantime::format_rfc3339_seconds(at);
    let title = format!("wayleave, {} to {}", instant(report.since), instant(report.until));
    let mut text = form.begin(&title);
    text += &form.paragraph(&outcomes(report));
    let incomplete = match report.unreadable {
        0 => String::new(),
        count => format!("Not complete: {count} lines or files could not be read."),
    };
    for note in [left_out(report), incomplete] {
        if !note.is_empty() {
            text += &form.paragraph(&note);
        }
    }
    let summarised_by = by.unwrap_or(ReportDimension::Crawler);
    let rows = report.summary(summarised_by);
    let cells = Cells::of_summary(rows, summarised_by, limits.summary);
    text += &form.table(&format!("By {}", summarised_by.as_str()), &cells);
    if by.is_none() {
        for (title, outcome) in [
            ("Enforcement would refuse", RequestOutcome::Observed),
            ("Refused", RequestOutcome::Refused),
        ] {
            let rows = report.rows.iter().filter(|row| row.outcome == outcome);
            let rows: Vec<_> = rows.collect();
            text += &form.table(title, &Cells::of_details(&rows, "rule", limits.details));
        }
        let failed: Vec<_> = report.failed.iter().collect();
        text += &form.table("Failed", &Cells::of_details(&failed, "reason", limits.details));
        let payments = Cells::of_payments(&report.payments, limits.details);
        text += &form.table("Asked for payment, which was not made", &payments);
        for (sentence, cells) in edge_changes(report, limits.details) {
            text += &form.paragraph(&sentence);
            text += &form.table("Hosts that changed", &cells);
        }
    }
    text += &form.table("Expired rules", &expired_cells(expired));
    text += form.end();
    text
}

fn expired_cells(expired: &[ExpiredRule]) -> Cells {
    let cells = |rule: &ExpiredRule| {
        let explanation = rule.explanation();
        vec![rule.number.to_string(), rule.action.to_owned(), rule.expired_at.clone(), explanation]
    };
    Cells {
        heads: vec!["[[rule]]", "action", "since", "reason"],
        is_number: vec![true, false, false, false],
        rows: expired.iter().map(cells).collect(),
        more: 0,
        all_by: "",
    }
}
