//! The summary at the end of `wayleave run`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use wayleave_decision_log::DecisionTally;

use crate::cli::terminal::{counted, pretty_json};

/// The most hosts that the summary names; the report has all.
const MAX_HOSTS: usize = 5;

/// Returns the summary as text: one line, and its details.
pub(super) fn text(tally: &DecisionTally) -> String {
    let DecisionTally { requests, forwarded, observed, refused, failed, tunnelled, .. } = tally;
    let requests = counted(*requests, "request");
    let mut text =
        format!("wayleave: {requests}: {forwarded} forwarded, {refused} refused, {failed} failed");
    for (count, word) in [(observed, "observed"), (tunnelled, "tunnelled")] {
        if *count > 0 {
            let _ = write!(text, ", {count} {word}");
        }
    }
    let _ = writeln!(text, "; {:.1} s waited", tally.waited.as_secs_f64());
    text + &details(tally)
}

/// Returns the summary of a run whose requests a running proxy decided: only the connections to it are known here.
pub(super) fn text_of_connections(tally: &DecisionTally) -> String {
    let connections = counted(tally.requests, "connection");
    let decided = "whose requests the running proxy decided: `wayleave report` has them";
    format!("wayleave: {connections}, {decided}\n{}", details(tally))
}

/// The report of a run whose requests a running proxy decided. It has no numbers of forwarded or refused requests, which
/// are not known here, and not zero.
#[derive(Debug, Serialize)]
struct ConnectionReport<'a> {
    /// The connections.
    requests: u64,
    failed: u64,
    tunnelled: u64,
    by_reason: &'a BTreeMap<String, u64>,
    by_host: &'a BTreeMap<String, u64>,
}

/// Returns the report in JSON. `is_decided_here` says whether a proxy of this run decided the requests.
pub(super) fn report(tally: &DecisionTally, is_decided_here: bool) -> String {
    if is_decided_here {
        return pretty_json(tally);
    }
    let DecisionTally { requests, failed, tunnelled, by_reason, by_host, .. } = tally;
    pretty_json(&ConnectionReport {
        requests: *requests,
        failed: *failed,
        tunnelled: *tunnelled,
        by_reason,
        by_host,
    })
}

/// Returns one line for the reasons and one for the hosts, if there are any.
fn details(tally: &DecisionTally) -> String {
    let mut text = String::new();
    for (title, counts) in [("reasons", &tally.by_reason), ("hosts", &tally.by_host)] {
        if !counts.is_empty() {
            let _ = writeln!(text, "  {title}: {}", most_frequent(counts));
        }
    }
    text
}

/// Returns the most frequent names with their counts, and how many more there are.
fn most_frequent(counts: &BTreeMap<String, u64>) -> String {
    let mut names: Vec<_> = counts.iter().collect();
    names.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let shown = names.iter().take(MAX_HOSTS).map(|(name, count)| format!("{name} {count}"));
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if names.len() > MAX_HOSTS {
        let _ = write!(text, ", and {} more", names.len() - MAX_HOSTS);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_summary_names_reasons_and_the_most_frequent_hosts() {
        let host = |number: u64| (format!("{number}.test"), number);
        let tally = DecisionTally {
            requests: 30,
            forwarded: 25,
            refused: 5,
            by_reason: [("rule".to_owned(), 5)].into(),
            by_host: (1..8).map(host).collect(),
            waited: Duration::from_millis(4210),
            ..DecisionTally::default()
        };
        let expected = "wayleave: 30 requests: 25 forwarded, 5 refused, 0 failed; 4.2 s waited\n  reasons: rule 5\n  \
                        hosts: 7.test 7, 6.test 6, 5.test 5, 4.test 4, 3.test 3, and 2 more\n";
        assert_eq!(text(&tally), expected);
    }

    #[test]
    fn one_request_is_not_called_requests() {
        let tally = DecisionTally { requests: 1, failed: 1, ..DecisionTally::default() };
        let expected = "wayleave: 1 request: 0 forwarded, 0 refused, 1 failed; 0.0 s waited\n";
        assert_eq!(text(&tally), expected);
    }

    #[test]
    fn a_command_without_requests_has_a_summary_of_one_line() {
        let expected = "wayleave: 0 requests: 0 forwarded, 0 refused, 0 failed; 0.0 s waited\n";
        assert_eq!(text(&DecisionTally::default()), expected);
    }
}
