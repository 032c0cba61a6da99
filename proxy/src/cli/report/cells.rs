//! The content of a report, the same in all forms: the cells of its tables, and the sentences above them.

use std::time::SystemTime;

use wayleave_decision_log::{
    ComparedHost, EdgeAnswers, EdgeComparison, LogReport, PaymentRow, ReportDimension, ReportRow,
    SummaryRow, crawler_in_words,
};
use wayleave_record::PaymentScheme;

use crate::cli::cells::Cells;

/// The most rows of the tables of a report.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowLimits {
    pub(super) summary: usize,
    pub(super) details: usize,
}

impl RowLimits {
    /// Returns the limits that were asked for; without, those with which a report fits on a screen.
    pub(super) fn new(requested: Option<usize>) -> Self {
        match requested {
            None => Self { summary: 30, details: 5 },
            Some(0) => Self { summary: usize::MAX, details: usize::MAX },
            Some(limit) => Self { summary: limit, details: limit },
        }
    }
}

/// The client of requests that wayleave makes by itself, as the log has it.
const OWN_CLIENT: &str = "0.0.0.0";

/// The option that leaves out no row of a report.
const NO_LIMIT: &str = "--limit 0";

impl Cells {
    /// Returns the first rows of a summary.
    pub(super) fn of_summary(rows: &[SummaryRow], by: ReportDimension, limit: usize) -> Self {
        let shown = &rows[..rows.len().min(limit)];
        let has_owners = shown.iter().any(|row| row.owner.is_some());
        let mut heads = vec![by.as_str()];
        heads.extend(has_owners.then_some("owner"));
        let mut is_number = vec![false; heads.len()];
        heads.extend(["requests", "refused", "%", "would be refused", "%"]);
        is_number.extend([true; 5]);
        let has_waits = shown.iter().any(|row| row.would_wait > 0);
        if has_waits {
            heads.push("would wait");
            is_number.push(true);
        }
        let has_waited = shown.iter().any(|row| row.waited_seconds > 0.0);
        if has_waited {
            heads.push("waited s");
            is_number.push(true);
        }
        let has_failures = shown.iter().any(|row| row.failed > 0);
        if has_failures {
            heads.push("failed");
            is_number.push(true);
        }
        let has_costs = shown.iter().any(|row| !row.would_have_cost.is_empty());
        if has_costs {
            heads.push("would have cost");
            is_number.push(false);
        }
        heads.extend(firsts(by).map(top_head));
        is_number.extend([false; 2]);
        let optional =
            OptionalColumns { has_owners, has_waits, has_waited, has_failures, has_costs };
        let cells = shown.iter().map(|row| summary_cells(row, by, optional)).collect();
        let more = rows.len() - shown.len();
        Self { heads, is_number, rows: cells, more, all_by: NO_LIMIT }
    }

    /// Returns the first of the refusals or failures; `why` is the head of the column of their causes.
    pub(super) fn of_details(rows: &[&ReportRow], why: &'static str, limit: usize) -> Self {
        let shown = &rows[..rows.len().min(limit)];
        Self {
            heads: vec!["count", "crawler", "host", why],
            is_number: vec![true, false, false, false],
            rows: shown.iter().map(|row| detail_cells(row)).collect(),
            more: rows.len() - shown.len(),
            all_by: NO_LIMIT,
        }
    }

    /// Returns the first of the hosts that let in what they did not before, or no longer do.
    pub(super) fn of_changes(compared: &EdgeComparison, limit: usize) -> Self {
        let rows = compared.opened_hosts.iter().chain(&compared.closed_hosts);
        let share = |answers: EdgeAnswers| {
            format!("{}/{}", answers.let_in, answers.let_in + answers.refused)
        };
        let cells = |it: &ComparedHost| vec![share(it.before), share(it.after), it.host.clone()];
        let shown: Vec<_> = rows.take(limit).map(cells).collect();
        Self {
            heads: vec!["let in before", "after", "host"],
            is_number: vec![true, true, false],
            more: (compared.opened + compared.closed) as usize - shown.len(),
            all_by: NO_LIMIT,
            rows: shown,
        }
    }

    /// Returns the first of the demands for payment.
    pub(super) fn of_payments(rows: &[PaymentRow], limit: usize) -> Self {
        let shown = &rows[..rows.len().min(limit)];
        Self {
            heads: vec!["count", "crawler", "host", "would have cost"],
            is_number: vec![true, false, false, false],
            rows: shown.iter().map(payment_cells).collect(),
            more: rows.len() - shown.len(),
            all_by: NO_LIMIT,
        }
    }
}

/// The columns of a summary that are left out if no row needs them.
#[derive(Clone, Copy, Debug)]
struct OptionalColumns {
    has_owners: bool,
    has_waits: bool,
    has_waited: bool,
    has_failures: bool,
    has_costs: bool,
}

/// Returns the dimensions of which a summary names the most frequent. Rules may be long, and are last.
fn firsts(by: ReportDimension) -> [ReportDimension; 2] {
    let [one, other] = by.others();
    if one == ReportDimension::Rule { [other, one] } else { [one, other] }
}

fn top_head(of: ReportDimension) -> &'static str {
    match of {
        ReportDimension::Crawler => "top crawler",
        ReportDimension::Host => "top host",
        ReportDimension::Origin => "top origin",
        ReportDimension::Rule => "top rule",
        ReportDimension::Reason => "top reason",
        ReportDimension::Token => "top token",
        ReportDimension::UserAgent => "top user-agent",
        ReportDimension::Client => "top client",
    }
}

/// Returns the costs in all currencies.
pub(super) fn costs(row: &SummaryRow) -> String {
    let costs: Vec<_> = row.would_have_cost.iter().map(ToString::to_string).collect();
    costs.join(", ")
}

fn summary_cells(row: &SummaryRow, by: ReportDimension, optional: OptionalColumns) -> Vec<String> {
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let shown = |of: ReportDimension, name: &str| match of {
        ReportDimension::Crawler => crawler_in_words(name).to_owned(),
        ReportDimension::Client if name == OWN_CLIENT => "wayleave itself".to_owned(),
        _ => name.to_owned(),
    };
    let mut cells = vec![shown(by, &row.name)];
    cells.extend(optional.has_owners.then(|| or_dash(&row.owner)));
    cells.extend([
        row.requests.to_string(),
        row.refused.to_string(),
        percent(row.refused_share),
        row.would_be_refused.to_string(),
        percent(row.would_be_refused_share),
    ]);
    cells.extend(optional.has_waits.then(|| row.would_wait.to_string()));
    cells.extend(optional.has_waited.then(|| format!("{:.1}", row.waited_seconds)));
    cells.extend(optional.has_failures.then(|| row.failed.to_string()));
    let costs = Some(costs(row)).filter(|costs| !costs.is_empty());
    cells.extend(optional.has_costs.then(|| or_dash(&costs)));
    cells.extend(
        firsts(by).map(|of| row.first(of).map_or("-".to_owned(), |first| shown(of, first))),
    );
    cells
}

fn detail_cells(row: &ReportRow) -> Vec<String> {
    let rule = row.rule.as_deref().unwrap_or(&row.reason);
    vec![
        row.count.to_string(),
        crawler_in_words(&row.crawler).to_owned(),
        row.host.clone().unwrap_or_else(|| "-".to_owned()),
        format!("{} {rule}", row.status),
    ]
}

fn payment_cells(row: &PaymentRow) -> Vec<String> {
    let scheme = row.scheme.as_deref().unwrap_or("no known scheme");
    let cost = match (&row.would_have_cost, row.currency.as_deref()) {
        (Some(cost), Some(currency))
            if row.scheme != Some(PaymentScheme::X402.into()) || currency == "USDC" =>
        {
            format!("{cost} {currency}")
        }
        (Some(cost), Some(asset)) => format!("{cost} of the smallest unit of {asset}"),
        _ => "not stated".to_owned(),
    };
    vec![
        row.count.to_string(),
        crawler_in_words(&row.crawler).to_owned(),
        row.host.clone().unwrap_or_else(|| "-".to_owned()),
        format!("{cost} ({scheme})"),
    ]
}

/// Returns a sentence about the rows that the tables lack; empty if they have everything.
pub(super) fn left_out(report: &LogReport) -> String {
    match report.left_out {
        0 => String::new(),
        count => format!(
            "rare rows were left out {count} times, so that memory remains bounded; the totals are complete"
        ),
    }
}

/// Returns what signing, and splitting a name, changed at hosts that answered both before and after: sentences with tables.
pub(super) fn edge_changes(report: &LogReport, limit: usize) -> Vec<(String, Cells)> {
    let Some(edge) = &report.edge else {
        return Vec::new();
    };
    let compared = [("Signed", &edge.signed), ("Split", &edge.split)];
    let compared = compared.into_iter().filter(|(_, compared)| compared.hosts > 0);
    let table = |(change, compared): (&str, &EdgeComparison)| {
        (compared.sentence(change), Cells::of_changes(compared, limit))
    };
    compared.map(table).collect()
}

/// Returns the time range of the decisions, and how many there are of each outcome.
pub(super) fn outcomes(report: &LogReport) -> String {
    let instant = |at: SystemTime| humantime::format_rfc3339_seconds(at);
    let outcomes = report.outcomes.iter().map(|(outcome, count)| format!("{count} {outcome}"));
    match report.first_at.zip(report.last_at) {
        Some((first, last)) => {
            let outcomes: Vec<_> = outcomes.collect();
            format!("{} (from {} to {})", outcomes.join(", "), instant(first), instant(last))
        }
        None => "nothing".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary_row(failed: u64, would_wait: u64) -> SummaryRow {
        SummaryRow {
            name: "news".to_owned(),
            owner: None,
            requests: 8,
            refused: 0,
            refused_share: 0.0,
            would_be_refused: 0,
            would_be_refused_share: 0.0,
            would_wait,
            would_wait_seconds: would_wait as f64 * 2.5,
            waited_seconds: would_wait as f64 * 1.5,
            failed,
            first_rule: None,
            first_host: Some("shop.test".to_owned()),
            first_crawler: None,
            first_token: None,
            first_user_agent: None,
            first_client: None,
            would_have_cost: Vec::new(),
        }
    }

    #[test]
    fn requests_of_wayleave_itself_have_its_name() {
        let own = SummaryRow { name: OWN_CLIENT.to_owned(), ..summary_row(0, 0) };
        let cells = Cells::of_summary(&[own], ReportDimension::Client, 30);
        assert_eq!(cells.rows[0][0], "wayleave itself");
    }

    #[test]
    fn failures_and_waits_have_a_column_if_there_are_any() {
        let cells = |failed, would_wait| {
            Cells::of_summary(&[summary_row(failed, would_wait)], ReportDimension::Crawler, 30)
        };
        for (with, head, count) in [
            (cells(3, 0), "failed", "3"),
            (cells(3, 5), "failed", "3"),
            (cells(0, 5), "would wait", "5"),
            (cells(0, 5), "waited s", "7.5"),
        ] {
            let column = with.heads.iter().position(|found| *found == head).expect("a column");
            assert_eq!(with.rows[0][column], count);
            assert!(with.is_number[column]);
            assert_eq!([with.rows[0].len(), with.is_number.len()], [with.heads.len(); 2]);
        }
        let without = cells(0, 0);
        assert!(
            !without.heads.iter().any(|head| ["failed", "would wait", "waited s"].contains(head))
        );
        assert_eq!(without.rows[0].len(), without.heads.len());
    }
}
