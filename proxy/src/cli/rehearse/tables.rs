//! The result for people, as text or as Markdown.

use bytesize::ByteSize;
use wayleave_rehearsal::{CrawlerRow, LineRow, RehearsalReport, Traffic};

use crate::cli::cells::{Cells, push_line, section};
use crate::cli::document_form::DocumentForm;
use crate::cli::paint::Tone;
use crate::cli::terminal::counted;

/// The most rows of a table.
const MAX_ROWS: usize = 30;
/// The most crawlers that are named in a cell.
const MAX_NAMES: usize = 4;

/// Formats the result for a terminal.
pub(super) fn text(report: &RehearsalReport) -> String {
    let mut text = String::new();
    for sentence in sentences(report) {
        push_line(&mut text, &sentence);
    }
    for (title, cells) in tables(report) {
        text += &section(title, &cells);
    }
    if !report.has_effect() {
        let said = if report.has_before { "Nothing changes." } else { "Nothing is shut out." };
        text += &format!("\n{}\n", Tone::Good.paint(said));
    }
    text
}

/// Formats the result in Markdown.
pub(super) fn markdown(report: &RehearsalReport) -> String {
    let form = DocumentForm::Markdown;
    let mut text = form.begin("robots.txt, rehearsed");
    for sentence in sentences(report) {
        text += &form.paragraph(&sentence);
    }
    for (title, cells) in tables(report) {
        text += &form.table(title, &cells);
    }
    text
}

fn sentences(report: &RehearsalReport) -> Vec<String> {
    let RehearsalReport { traffic, people, .. } = report;
    let of_crawlers = traffic.requests - people.requests;
    let mut sentences = vec![format!(
        "{}: {of_crawlers} by {}, {} by people and programs without a crawler's name",
        shown(*traffic),
        counted(report.crawlers.len(), "crawler"),
        people.requests
    )];
    sentences.extend(report.first_bad_line.as_ref().map(|bad| {
        let lines = counted(report.bad_lines, "line");
        format!("not read: {lines}; the first is {}:{}: {}", bad.log, bad.line, bad.why)
    }));
    sentences.push(format!("shut out: {}", shown(report.shut_out)));
    if report.has_before {
        sentences.push(format!(
            "before: {}; newly shut out: {}; newly let in: {}",
            shown(report.shut_out_before),
            shown(report.newly_shut_out),
            shown(report.newly_let_in)
        ));
    }
    sentences
}

/// Formats traffic as `3 requests (2.0 KiB)`.
fn shown(traffic: Traffic) -> String {
    format!("{} ({})", counted(traffic.requests, "request"), ByteSize(traffic.bytes))
}

/// Returns the tables that have rows, with their titles.
fn tables(report: &RehearsalReport) -> Vec<(&'static str, Cells)> {
    let tables = [
        ("Crawlers, by the names that they give", crawlers(report)),
        ("Shut out", lines(&report.lines)),
        ("Newly shut out", lines(&report.new_lines)),
        ("Newly let in, by the line of the old file", lines(&report.let_in)),
        ("Files of pages that stay allowed", lost_files(report)),
        ("Lines that do nothing, or say what is not so", findings(report)),
        ("Rules that decided about no request of this log", idle_rules(report)),
        ("Other dialects decide otherwise", otherwise(&report.crawlers)),
        ("What owners document about their crawlers", remarks(&report.crawlers)),
    ];
    tables.into_iter().filter(|(_, cells)| !cells.rows.is_empty()).collect()
}

/// Returns a table of the first rows. Heads of columns with numbers begin with a `#`.
fn cells(heads: &[&'static str], all: impl ExactSizeIterator<Item = Vec<String>>) -> Cells {
    let more = all.len().saturating_sub(MAX_ROWS);
    Cells {
        heads: heads.iter().map(|head| head.trim_start_matches('#')).collect(),
        is_number: heads.iter().map(|head| head.starts_with('#')).collect(),
        rows: all.take(MAX_ROWS).collect(),
        more,
        all_by: "--json",
    }
}

/// Returns the numbers of traffic as two cells.
fn numbers(traffic: Traffic) -> [String; 2] {
    [traffic.requests.to_string(), ByteSize(traffic.bytes).to_string()]
}

fn or_dash(text: Option<&str>) -> String {
    text.unwrap_or("-").to_owned()
}

fn crawlers(report: &RehearsalReport) -> Cells {
    let changes: &[_] = if report.has_before { &["#newly shut out", "#newly let in"] } else { &[] };
    let heads = ["crawler", "owner", "dialect", "#requests", "#bytes", "#shut out", "#bytes"];
    let row = |row: &CrawlerRow| {
        let named = [row.crawler.clone(), or_dash(row.owner), row.dialect.to_owned()];
        let changes =
            [row.newly_shut_out, row.newly_let_in].map(|traffic| traffic.requests.to_string());
        [&named[..], &numbers(row.traffic), &numbers(row.shut_out)]
            .concat()
            .into_iter()
            .chain(changes.into_iter().filter(|_| report.has_before))
            .chain([or_dash(row.group.as_deref())])
            .collect()
    };
    let heads = [&heads, changes, &["group"]].concat();
    cells(&heads, report.crawlers.iter().map(row))
}

fn lines(rows: &[LineRow]) -> Cells {
    let heads = ["#requests", "#bytes", "crawler", "group", "#line", "rule", "such as"];
    let row = |row: &LineRow| {
        let [requests, bytes] = numbers(row.traffic);
        vec![
            requests,
            bytes,
            row.crawler.clone(),
            or_dash(row.group.as_deref()),
            or_dash(row.line.map(|line| line.to_string()).as_deref()),
            row.rule.clone(),
            row.example.clone(),
        ]
    };
    cells(&heads, rows.iter().map(row))
}

fn lost_files(report: &RehearsalReport) -> Cells {
    let heads = ["#requests", "kind", "#line", "rule", "crawlers", "file", "of the page"];
    let rows = report.lost_files.iter().map(|row| {
        let named = row.crawlers.len().min(MAX_NAMES);
        let mut crawlers = row.crawlers[..named].join(", ");
        if row.crawler_count > named {
            crawlers += &format!(" and {} more", row.crawler_count - named);
        }
        vec![
            row.traffic.requests.to_string(),
            row.kind.to_owned(),
            or_dash(row.line.map(|line| line.to_string()).as_deref()),
            row.rule.clone(),
            crawlers,
            row.path.clone(),
            or_dash(row.page.as_deref()),
        ]
    });
    cells(&heads, rows)
}

fn findings(report: &RehearsalReport) -> Cells {
    // Errors first, in case not all are shown.
    let mut findings: Vec<_> = report.findings.iter().collect();
    findings.sort_by_key(|finding| (finding.severity, finding.line));
    cells(&["line"], findings.into_iter().map(|finding| vec![finding.to_string()]))
}

fn idle_rules(report: &RehearsalReport) -> Cells {
    let rows = report.idle_rules.iter().map(|rule| vec![rule.line.to_string(), rule.rule.clone()]);
    cells(&["#line", "rule"], rows)
}

fn otherwise(crawlers: &[CrawlerRow]) -> Cells {
    let heads = ["#requests", "#bytes", "crawler", "its dialect", "other", "verdict", "such as"];
    let rows = crawlers.iter().flat_map(|crawler| {
        crawler.otherwise.iter().map(|row| {
            let [requests, bytes] = numbers(row.traffic);
            let words = [&crawler.crawler, crawler.dialect, row.dialect, row.verdict, &row.example];
            [requests, bytes].into_iter().chain(words.map(str::to_owned)).collect()
        })
    });
    cells(&heads, rows.collect::<Vec<_>>().into_iter())
}

fn remarks(crawlers: &[CrawlerRow]) -> Cells {
    let rows =
        crawlers.iter().filter_map(|row| Some(vec![row.crawler.clone(), row.remark.clone()?]));
    cells(&["crawler", "remark"], rows.collect::<Vec<_>>().into_iter())
}
