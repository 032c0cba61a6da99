//! The report for people at a terminal.

use wayleave_decision::RequestOutcome;
use wayleave_decision_log::{LogReport, ReportDimension, ReportRow};

use super::cells::{RowLimits, edge_changes, left_out, outcomes};
use crate::cli::cells::{Cells, push_line, section};
use crate::cli::expired_rules::ExpiredRule;
use crate::cli::paint::Tone;

/// The most files that are listed by name.
const MAX_FILES: usize = 3;

/// Returns the extent of the log, then the summary, then the first refusals unless another summary than that by crawler was
/// asked for.
pub(super) fn full_report(
    report: &LogReport,
    expired: &[ExpiredRule],
    by: Option<ReportDimension>,
    limits: RowLimits,
) -> String {
    let mut text = read_summary(report);
    let summarised_by = by.unwrap_or(ReportDimension::Crawler);
    let rows = report.summary(summarised_by);
    let title = format!("By {}: {}", summarised_by.as_str(), rows.len());
    text += &section(&title, &Cells::of_summary(rows, summarised_by, limits.summary));
    if by.is_none() {
        let (observed, refused): (Vec<_>, Vec<_>) =
            (report.rows.iter()).partition(|row| row.outcome == RequestOutcome::Observed);
        for (title, rows) in
            [("Observed only: enforcement would refuse these", observed), ("Refused", refused)]
        {
            let total = total(report, &rows);
            let cells = Cells::of_details(&rows, "rule", limits.details);
            text += &section(&format!("{title}: {total}"), &cells);
        }
        let failed: Vec<_> = report.failed.iter().collect();
        if !failed.is_empty() {
            let cells = Cells::of_details(&failed, "reason", limits.details);
            text += &section(&format!("Failed: {}", total(report, &failed)), &cells);
        }
        if !report.payments.is_empty() {
            let total: u64 = report.payments.iter().map(|row| row.count).sum();
            let title = format!("Asked for payment, which was not made: {total}");
            text += &section(&title, &Cells::of_payments(&report.payments, limits.details));
        }
        for (sentence, cells) in edge_changes(report, limits.details) {
            text += &section(&sentence, &cells);
        }
    }
    if !expired.is_empty() {
        let title = Tone::Heading.paint("Expired rules, which no longer have any effect");
        text += &format!("\n{title}\n");
    }
    for rule in expired {
        let number = rule.number;
        let action = rule.action;
        let at = &rule.expired_at;
        let explanation = rule.explanation();
        push_line(&mut text, &format!("  [[rule]] {number} ({action}) since {at}: {explanation}"));
    }
    text
}

/// Returns the number of requests with the outcome of these rows, also of those that were left out.
fn total(report: &LogReport, rows: &[&ReportRow]) -> u64 {
    let outcome = rows.first().map(|row| &row.outcome);
    outcome.and_then(|outcome| report.outcomes.get(outcome.as_str())).copied().unwrap_or_default()
}

/// Returns the extent of the log: the span of time, the files, the number of lines, and those that could not be read.
pub(super) fn read_summary(report: &LogReport) -> String {
    let instant = |at| humantime::format_rfc3339_seconds(at);
    let mut text = String::new();
    let since = instant(report.since);
    let until = instant(report.until);
    push_line(&mut text, &format!("span      {since} to {until}"));
    let (named, unnamed) = report.files.split_at(match report.files.len() {
        0..=MAX_FILES => report.files.len(),
        _ => 0,
    });
    for file in named {
        let path = file.path.display();
        let lines = file.lines;
        push_line(&mut text, &format!("read      {path}: {lines} lines"));
    }
    if let (Some(first), Some(last)) = (unnamed.first(), unnamed.last()) {
        let count = unnamed.len();
        let lines = unnamed.iter().map(|file| file.lines).sum::<u64>();
        let first = first.path.display();
        let last = last.path.display();
        push_line(&mut text, &format!("read      {count} files, {first} to {last}: {lines} lines"));
    }
    if report.older_files > 0 {
        let count = report.older_files;
        push_line(&mut text, &format!("older     {count} files were not read"));
    }
    if report.lines_before > 0 {
        let count = report.lines_before;
        push_line(&mut text, &format!("older     {count} lines are from before"));
    }
    if report.lines_after > 0 {
        let count = report.lines_after;
        push_line(&mut text, &format!("newer     {count} lines are from after"));
    }
    for unreadable in &report.unreadable_lines {
        let path = unreadable.path.display();
        let error = &unreadable.error;
        let place = match unreadable.line {
            // The file itself.
            0 => String::new(),
            line => format!("{line}:"),
        };
        push_line(&mut text, &format!("unread    {path}:{place} {error}"));
    }
    // The report lists only the first of them.
    let unnamed = report.unreadable - report.unreadable_lines.len() as u64;
    if unnamed > 0 {
        push_line(&mut text, &format!("unread    and {unnamed} more lines"));
    }
    push_line(&mut text, &format!("decisions {}", outcomes(report)));
    let left_out = left_out(report);
    if !left_out.is_empty() {
        push_line(&mut text, &format!("rare      {left_out}"));
    }
    text
}
