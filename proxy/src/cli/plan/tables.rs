//! The summary of a plan for people, as text or as Markdown.

use wayleave_plan::{CrawlPlan, OriginPlan, PriceSource, in_words};
use wayleave_record::PaymentRecord;

use crate::cli::cells::{Cells, push_line, section};
use crate::cli::document_form::DocumentForm;

/// The most rows of a table.
const MAX_ROWS: usize = 30;
/// The most rows about hosts that are undecided: whatever is wrong is mostly wrong with all of them.
const MAX_UNDECIDED: usize = 10;

/// Formats the summary for a terminal.
pub(super) fn text(plan: &CrawlPlan, crawler: &str, notes: &[String]) -> String {
    let mut text = String::new();
    for sentence in in_words::sentences(plan, crawler, notes) {
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
    for sentence in in_words::sentences(plan, crawler, notes) {
        text += &form.paragraph(&sentence);
    }
    for (title, cells) in tables(plan) {
        text += &form.table(title, &cells);
    }
    text
}

/// Returns the tables that have rows, with their titles.
fn tables(plan: &CrawlPlan) -> Vec<(&'static str, Cells)> {
    let tables = [
        ("Hosts, the slowest first", hosts(plan)),
        ("One pace for several hosts", shared_units(plan)),
        ("Refused, by rule", refused(plan)),
        ("Undecided", undecided(plan)),
        ("Prices that are known", prices(plan)),
        ("Hosts that turned requests away at the edge", edge(plan)),
    ];
    tables.into_iter().filter(|(_, cells)| !cells.rows.is_empty()).collect()
}

/// Returns a table of the first rows. Heads of columns with numbers begin with a `#`.
fn cells(heads: &[&'static str], all: impl ExactSizeIterator<Item = Vec<String>>) -> Cells {
    first_cells(MAX_ROWS, heads, all)
}

fn first_cells(
    most: usize,
    heads: &[&'static str],
    all: impl ExactSizeIterator<Item = Vec<String>>,
) -> Cells {
    let more = all.len().saturating_sub(most);
    Cells {
        heads: heads.iter().map(|head| head.trim_start_matches('#')).collect(),
        is_number: heads.iter().map(|head| head.starts_with('#')).collect(),
        rows: all.take(most).collect(),
        more,
        all_by: "--json",
    }
}

fn hosts(plan: &CrawlPlan) -> Cells {
    let row = |origin: &OriginPlan| {
        vec![
            in_words::thousands(origin.requests()),
            in_words::shown_delay(origin.delay),
            in_words::shown_time(origin.seconds()),
            in_words::thousands(origin.refused),
            in_words::thousands(origin.undecided),
            in_words::host_label(plan, origin),
        ]
    };
    let heads = ["#requests", "#delay", "#time", "#refused", "#undecided", "host"];
    cells(&heads, in_words::slowest(plan).into_iter().map(row))
}

fn shared_units(plan: &CrawlPlan) -> Cells {
    let mut units: Vec<_> = plan.time.units.iter().filter(|unit| unit.origins > 1).collect();
    units.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    let rows = units.into_iter().map(|unit| {
        let numbers = [in_words::thousands(unit.origins), in_words::thousands(unit.requests)];
        [&numbers[..], &[in_words::shown_time(unit.seconds), unit.unit.to_string()]].concat()
    });
    cells(&["#origins", "#requests", "#time", "unit"], rows)
}

fn refused(plan: &CrawlPlan) -> Cells {
    let rows = plan.refused().into_iter();
    let rows = rows
        .map(|(rule, urls)| vec![in_words::thousands(urls.count), rule.to_owned(), urls.example]);
    cells(&["#URLs", "rule", "such as"], rows)
}

fn undecided(plan: &CrawlPlan) -> Cells {
    let origins = plan.origins.iter();
    let reasons = origins.filter_map(|origin| Some((origin, origin.undecided_because.clone()?)));
    let reasons: Vec<_> = reasons.collect();
    // Only for those that are shown: a label is looked for among all origins.
    let rows = reasons.into_iter().map(|(origin, why)| {
        vec![in_words::thousands(origin.undecided), in_words::host_label(plan, origin), why]
    });
    first_cells(MAX_UNDECIDED, &["#URLs", "host", "because"], rows)
}

fn prices(plan: &CrawlPlan) -> Cells {
    let rows = plan.prices().into_iter().map(|known| {
        let asked = match known.from {
            PriceSource::Licence => "by its licence",
            PriceSource::Log => "at least once, in the decision log",
        };
        vec![
            in_words::thousands(known.urls),
            known.host.to_owned(),
            price(known.payment),
            asked.to_owned(),
        ]
    });
    cells(&["#URLs", "host", "price", "asked for"], rows)
}

fn edge(plan: &CrawlPlan) -> Cells {
    let rows = plan.edge_hosts().into_iter().map(|(host, history)| {
        let kinds: Vec<_> =
            history.kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        let numbers = [in_words::thousands(history.refused), in_words::thousands(history.answered)];
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
