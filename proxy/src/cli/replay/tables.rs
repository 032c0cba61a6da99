//! The summary of a replay for people, as text or as Markdown.

use std::fmt::Write as _;

use wayleave_audit::replay::{ChangeSummary, GroupRow, NOT_REPLAYED, ReplaySummary};
use wayleave_decision_log::crawler_in_words;
use wayleave_notation::harmless::escape_lines;

use crate::cli::terminal::counted;

/// The most groups of one kind that are shown.
const MAX_ROWS: usize = 50;

/// Returns each kind of change with its name. Unchanged decisions need no rows.
fn kinds(summary: &ReplaySummary) -> [(&'static str, &ChangeSummary); 3] {
    [
        ("newly refused", &summary.newly_refused),
        ("newly forwarded", &summary.newly_forwarded),
        ("undecidable", &summary.undecidable),
    ]
}

fn head(summary: &ReplaySummary) -> String {
    let since = summary.since.as_ref().map_or(String::new(), |since| format!(" since {since}"));
    let counts = kinds(summary).map(|(name, summary)| format!("{} {name}", summary.count));
    format!(
        "{}{since}: {}, {} unchanged",
        counted(summary.decisions, "decision"),
        counts.join(", "),
        summary.unchanged.count
    )
}

/// Formats the summary for a terminal.
pub(super) fn text(summary: &ReplaySummary) -> String {
    let mut text = head(summary) + "\n";
    for missing in &summary.missing {
        writeln!(text, "not complete: {missing}").expect("writing to a String cannot fail");
    }
    for (name, summary) in kinds(summary).into_iter().filter(|(_, summary)| summary.count > 0) {
        let rows = summary.rows();
        write!(text, "\n{name}:\n").expect("writing to a String cannot fail");
        for row in rows.iter().take(MAX_ROWS) {
            let GroupRow { crawler, host, rule, count, samples } = row;
            let crawler = crawler_in_words(crawler);
            writeln!(text, "{count:>9}  {crawler}  {host}  {rule}")
                .expect("writing to a String cannot fail");
            for sample in *samples {
                writeln!(text, "           {sample}").expect("writing to a String cannot fail");
            }
        }
        text += &left_out(rows.len());
    }
    text += "\nNot replayed:\n";
    for left_out in NOT_REPLAYED {
        writeln!(text, "- {left_out}").expect("writing to a String cannot fail");
    }
    // URLs and rules are from strangers.
    escape_lines(&text)
}

/// Formats the summary in Markdown.
pub(super) fn markdown(summary: &ReplaySummary) -> String {
    let mut text = format!("**{}**\n", head(summary));
    for missing in &summary.missing {
        write!(text, "\nNot complete: {missing}.\n").expect("writing to a String cannot fail");
    }
    for (name, summary) in kinds(summary).into_iter().filter(|(_, summary)| summary.count > 0) {
        let rows = summary.rows();
        let title = name.replacen(|c: char| c.is_ascii_lowercase(), &name[..1].to_uppercase(), 1);
        let rule = if name == "undecidable" { "not known" } else { "rule" };
        write!(text, "\n### {title}\n\n| requests | crawler | host | {rule} | such as |\n")
            .expect("writing to a String cannot fail");
        text += "| ---: | --- | --- | --- | --- |\n";
        for row in rows.iter().take(MAX_ROWS) {
            let samples: Vec<_> = row.samples.iter().map(|sample| cell(sample)).collect();
            let [crawler, host, rule] =
                [crawler_in_words(row.crawler), row.host, row.rule].map(cell);
            writeln!(
                text,
                "| {} | {crawler} | {host} | {rule} | {} |",
                row.count,
                samples.join("<br>")
            )
            .expect("writing to a String cannot fail");
        }
        text += &left_out(rows.len());
    }
    text += "\nNot replayed:\n\n";
    for left_out in NOT_REPLAYED {
        writeln!(text, "- {left_out}").expect("writing to a String cannot fail");
    }
    escape_lines(&text)
}

fn left_out(rows: usize) -> String {
    match rows.saturating_sub(MAX_ROWS) {
        0 => String::new(),
        more => format!("\n{more} more groups: --json has them\n"),
    }
}

/// Returns text as a code span in a table. URLs and rules are from strangers, and must not become markup.
fn cell(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    // Backslashes escape nothing in a code span but the bars of a table.
    let text = text.replace('`', "'").replace('|', "\\|");
    format!("`{}`", text.replace(char::is_control, " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_strangers_is_no_markup() {
        for (text, shown) in [
            ("http://a.test/x", "`http://a.test/x`"),
            ("a|b", "`a\\|b`"),
            ("`<script>`\n", "`'<script>' `"),
            ("", ""),
        ] {
            assert_eq!(cell(text), shown);
        }
    }
}
