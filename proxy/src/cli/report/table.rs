//! The report as a table for people.

use std::fmt::Write as _;

use crate::cli::expired_rules::ExpiredRule;
use crate::cli::paint::Tone;
use crate::decision_log::{LogReport, ReportRow};
use crate::telemetry::harmless::escape_controls;

/// Returns the summary of what was read, then the tables of what was found.
pub(super) fn full_report(report: &LogReport, expired: &[ExpiredRule], limit: usize) -> String {
    let mut text = read_summary(report);
    let (observed, refused): (Vec<_>, Vec<_>) =
        (report.rows.iter()).partition(|row| row.outcome == "observed");
    text += &section("Observed only: enforcement would refuse these", &observed, limit);
    text += &section("Refused", &refused, limit);
    if !expired.is_empty() {
        let title = Tone::Heading.paint("Expired rules, which no longer have any effect");
        text += &format!("\n{title}\n");
    }
    for rule in expired {
        let (number, action, at) = (rule.number, rule.action, &rule.expired_at);
        let explanation = rule.explanation();
        push_line(&mut text, &format!("  [[rule]] {number} ({action}) since {at}: {explanation}"));
    }
    text
}

/// Returns the summary of what was read: the span of time, the files, the number of lines, and those that could not be read.
pub(super) fn read_summary(report: &LogReport) -> String {
    let instant = |at| humantime::format_rfc3339_seconds(at);
    let mut text = String::new();
    let (since, until) = (instant(report.since), instant(report.until));
    push_line(&mut text, &format!("span      {since} to {until}"));
    for file in &report.files {
        let (path, lines) = (file.path.display(), file.lines);
        push_line(&mut text, &format!("read      {path}: {lines} lines"));
    }
    if report.older_files > 0 {
        let count = report.older_files;
        push_line(&mut text, &format!("older     {count} files were not read"));
    }
    if report.lines_before > 0 {
        let count = report.lines_before;
        push_line(&mut text, &format!("older     {count} lines are from before"));
    }
    for unreadable in &report.unreadable_lines {
        let (path, error) = (unreadable.path.display(), &unreadable.error);
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
    let outcomes: Vec<_> =
        report.outcomes.iter().map(|(outcome, count)| format!("{count} {outcome}")).collect();
    let found = match report.first_at.zip(report.last_at) {
        Some((first, last)) => {
            let (first, last) = (instant(first), instant(last));
            format!("{} (from {first} to {last})", outcomes.join(", "))
        }
        None => "nothing".to_owned(),
    };
    push_line(&mut text, &format!("decisions {found}"));
    text
}

fn section(title: &str, rows: &[&ReportRow], limit: usize) -> String {
    let total: u64 = rows.iter().map(|row| row.count).sum();
    let mut text = format!("\n{}\n", Tone::Heading.paint(&format!("{title}: {total}")));
    if rows.is_empty() {
        return text;
    }
    let shown = &rows[..rows.len().min(limit)];
    let cells: Vec<[String; 4]> = shown.iter().map(|row| cells(row)).collect();
    let heads = ["count", "crawler", "host", "rule"].map(str::to_owned);
    // In characters, as `format!` counts when it pads.
    let width = |column: usize| {
        let widths = cells.iter().chain([&heads]).map(|row| row[column].chars().count());
        widths.max().unwrap_or_default()
    };
    // Without the last column, whose rules may be long.
    let widths = [width(0), width(1), width(2)];
    for [count, crawler, host, rule] in [&heads].into_iter().chain(&cells) {
        let [counts, crawlers, hosts] = widths;
        push_line(
            &mut text,
            &format!("  {count:>counts$}  {crawler:<crawlers$}  {host:<hosts$}  {rule}"),
        );
    }
    let more = rows.len() - shown.len();
    if more > 0 {
        push_line(&mut text, &format!("  ... rows left out: {more}; --limit 0 shows them"));
    }
    text
}

fn cells(row: &ReportRow) -> [String; 4] {
    let rule = row.rule.as_deref().unwrap_or(&row.reason);
    [
        row.count.to_string(),
        row.crawler.clone(),
        row.host.clone().unwrap_or_else(|| "-".to_owned()),
        format!("{} {rule}", row.status),
    ]
}

/// Appends a line, with untrusted text made harmless.
fn push_line(text: &mut String, line: &str) {
    writeln!(text, "{}", escape_controls(line)).expect("writing to a String cannot fail");
}
