//! The summary of a plan for people, as text or as Markdown.

use std::time::Duration;

use wayleave_plan::{CrawlPlan, OriginPlan};
use wayleave_record::PaymentRecord;

use crate::cli::cells::{Cells, push_line, section};
use crate::cli::document_form::DocumentForm;
use crate::cli::terminal::counted;

/// The most rows of a table.
const MAX_ROWS: usize = 30;
/// The most sentences about single hosts.
const MAX_SENTENCES: usize = 5;

/// Formats the summary for a terminal.
pub(super) fn text(plan: &CrawlPlan, crawler: &str, notes: &[String]) -> String {
    let mut text = String::new();
    for sentence in sentences(plan, crawler, notes) {
        push_line(&mut text, &sentence);
    }
    for (title, cells) in tables(plan) {
        text += &section(title, &cells);
    }
    text
}

/// Formats the summary in Markdown.
pub(super) fn markdown(plan: &CrawlPlan, crawler: &str, notes: &[String]) -> String {
    let form = DocumentForm::Markdown;
    let mut text = form.begin(&format!("Plan of a crawl by {crawler}"));
    for sentence in sentences(plan, crawler, notes) {
        text += &form.paragraph(&sentence);
    }
    for (title, cells) in tables(plan) {
        text += &form.table(title, &cells);
    }
    text
}

fn sentences(plan: &CrawlPlan, crawler: &str, notes: &[String]) -> Vec<String> {
    let hosts = plan.hosts().len();
    let mut sentences = vec![
        format!(
            "{} of {} for {crawler}: {} forwarded, {} observed, {} refused, {} undecided",
            pages(plan.sum(OriginPlan::urls), "URL"),
            counted(hosts, "host"),
            thousands(plan.sum(|origin| origin.forwarded)),
            thousands(plan.sum(|origin| origin.observed)),
            thousands(plan.sum(|origin| origin.refused)),
            thousands(plan.sum(|origin| origin.undecided)),
        ),
        whole_time(plan),
    ];
    let slowest = slowest(plan).into_iter().filter(|origin| origin.seconds() > 0.0);
    sentences.extend(slowest.take(MAX_SENTENCES).map(|origin| {
        let pages = pages(origin.sent(), "page");
        let delay = shown_delay(origin.delay);
        let time = shown_time(origin.seconds());
        format!("{pages} of {} at {delay}: {time}", name(plan, origin))
    }));
    let at_once = plan.origins.iter().filter(|origin| origin.sent() > 0 && origin.delay.is_zero());
    let without_pace = at_once.clone().count();
    if without_pace > 0 {
        sentences.push(format!(
            "{} of {} without a delay: as fast as the crawler and they are, 0 h here",
            pages(at_once.map(OriginPlan::sent).sum(), "page"),
            counted(without_pace, "origin")
        ));
    }
    if let Some(share) = plan.edge_share() {
        sentences.push(format!(
            "turned requests away at the edge before, in the last 30 days: {} of {} ({:.0} %)",
            plan.edge_hosts().len(),
            counted(hosts, "host"),
            share * 100.0
        ));
    }
    if plan.prices().is_empty() {
        sentences.push("prices: none is known".to_owned());
    }
    sentences.extend(notes.iter().cloned());
    sentences
}

/// Says how long the crawl takes, and why.
fn whole_time(plan: &CrawlPlan) -> String {
    let time = shown_time(plan.time.seconds);
    let alone = shown_time(plan.time.pace_seconds);
    match plan.time.limit {
        "none" => format!("all: {time}; no pace is asked for"),
        "pace" => format!("all: {time}, hosts side by side"),
        limit => format!("all: {time}, because of {limit}; at the pace alone {alone}"),
    }
}

/// Returns the origins, those that take longest first.
fn slowest(plan: &CrawlPlan) -> Vec<&OriginPlan> {
    let mut origins: Vec<_> = plan.origins.iter().collect();
    origins.sort_by(|one, other| other.seconds().total_cmp(&one.seconds()));
    origins
}

/// Returns the tables that have rows, with their titles.
fn tables(plan: &CrawlPlan) -> Vec<(&'static str, Cells)> {
    let tables = [
        ("Hosts, the slowest first", hosts(plan)),
        ("One pace for several hosts", shared_units(plan)),
        ("Refused, by rule", refused(plan)),
        ("Prices that are known", prices(plan)),
        ("Hosts that turned requests away at the edge", edge(plan)),
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

fn hosts(plan: &CrawlPlan) -> Cells {
    let row = |origin: &OriginPlan| {
        vec![
            thousands(origin.requests()),
            shown_delay(origin.delay),
            shown_time(origin.seconds()),
            thousands(origin.refused),
            thousands(origin.undecided),
            name(plan, origin),
        ]
    };
    let heads = ["#requests", "#delay", "#time", "#refused", "#undecided", "host"];
    cells(&heads, slowest(plan).into_iter().map(row))
}

fn shared_units(plan: &CrawlPlan) -> Cells {
    let mut units: Vec<_> = plan.time.units.iter().filter(|unit| unit.origins > 1).collect();
    units.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    let rows = units.into_iter().map(|unit| {
        let numbers = [thousands(unit.origins), thousands(unit.requests)];
        [&numbers[..], &[shown_time(unit.seconds), unit.unit.to_string()]].concat()
    });
    cells(&["#origins", "#requests", "#time", "unit"], rows)
}

fn refused(plan: &CrawlPlan) -> Cells {
    let rows = plan.refused().into_iter();
    let rows = rows.map(|(rule, urls)| vec![thousands(urls.count), rule.to_owned(), urls.example]);
    cells(&["#URLs", "rule", "such as"], rows)
}

fn prices(plan: &CrawlPlan) -> Cells {
    let rows = plan.prices().into_iter().map(|known| {
        let asked = if known.from == "licence" { "by its licence" } else { "before" };
        vec![thousands(known.urls), known.host.to_owned(), price(known.payment), asked.to_owned()]
    });
    cells(&["#URLs", "host", "price", "asked for"], rows)
}

fn edge(plan: &CrawlPlan) -> Cells {
    let rows = plan.edge_hosts().into_iter().map(|(host, history)| {
        let kinds: Vec<_> =
            history.kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        let numbers = [thousands(history.refused), thousands(history.answered)];
        [&numbers[..], &[host.to_owned(), kinds.join(", ")]].concat()
    });
    cells(&["#turned away", "#of requests", "host", "how"], rows)
}

fn price(payment: &PaymentRecord) -> String {
    match (&payment.price, &payment.currency) {
        (Some(price), Some(currency)) => format!("{price} {currency} ({})", payment.scheme),
        _ => format!("not stated ({})", payment.scheme),
    }
}

/// Returns the host with its port, and the scheme if the host has several origins.
fn name(plan: &CrawlPlan, origin: &OriginPlan) -> String {
    let text = origin.origin.to_string();
    let host = origin.origin.host();
    let is_alone = plan.origins.iter().filter(|other| other.origin.host() == host).count() == 1;
    let authority = text.split_once("://").filter(|_| is_alone);
    authority.map_or(text.clone(), |(_, authority)| authority.to_owned())
}

fn pages(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", thousands(count))
}

/// Formats a number as `1,800`.
fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a delay as `10 s` or `0.5 s`.
fn shown_delay(delay: Duration) -> String {
    format!("{} s", delay.as_secs_f64())
}

/// Formats a time as `45 s`, `12 min`, `5 h`, `5.5 h` or `6.3 days`.
fn shown_time(seconds: f64) -> String {
    let [minutes, hours, days] = [60.0, 3600.0, 24.0 * 3600.0].map(|unit| seconds / unit);
    if seconds < 1.0 && seconds > 0.0 {
        "less than 1 s".to_owned()
    } else if seconds == 0.0 {
        "0 h".to_owned()
    } else if minutes < 1.0 {
        format!("{seconds:.0} s")
    } else if hours < 1.0 {
        format!("{minutes:.0} min")
    } else if days < 3.0 {
        format!("{} h", rounded(hours))
    } else {
        format!("{} days", rounded(days))
    }
}

/// Formats a number with a decimal if that says anything.
fn rounded(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_numbers_are_shown_as_people_say_them() {
        for (seconds, shown) in [
            (0.0, "0 h"),
            (0.25, "less than 1 s"),
            (45.0, "45 s"),
            (720.0, "12 min"),
            (18_000.0, "5 h"),
            (19_800.0, "5.5 h"),
            (259_199.0, "72 h"),
            (544_320.0, "6.3 days"),
            (3.0e14, "3472222222.2 days"),
        ] {
            assert_eq!(shown_time(seconds), shown);
        }
        for (count, shown) in
            [(0, "0"), (999, "999"), (1800, "1,800"), (12_345, "12,345"), (1_000_000, "1,000,000")]
        {
            assert_eq!(thousands(count), shown);
        }
        assert_eq!(shown_delay(Duration::from_millis(500)), "0.5 s");
        assert_eq!(shown_delay(Duration::from_secs(10)), "10 s");
    }
}
