//! The count of all decisions of a process that serves one command.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use wayleave_decision::RequestOutcome;
use wayleave_record::{DecisionRecord, host};

/// The most hosts that are counted by name.
const MAX_HOSTS: usize = 10_000;
/// The name under which further hosts are counted.
const OTHER_HOSTS: &str = "(others)";

/// The number of decisions, by what was decided.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DecisionTally {
    pub requests: u64,
    pub forwarded: u64,
    /// Those forwarded that would have been refused.
    pub observed: u64,
    pub refused: u64,
    pub failed: u64,
    /// The connections that were passed on uninspected.
    pub tunnelled: u64,
    /// The number of requests that were refused, observed or failed, by reason.
    pub by_reason: BTreeMap<String, u64>,
    /// The number of requests to each host.
    pub by_host: BTreeMap<String, u64>,
    /// The time that requests waited for a slot, all together.
    #[serde(rename = "waited_seconds", serialize_with = "seconds")]
    pub waited: Duration,
}

impl DecisionTally {
    /// Counts one decision.
    pub(super) fn count(&mut self, decision: &DecisionRecord) {
        self.requests += 1;
        self.waited += Duration::from_micros(decision.waited_us);
        let outcome = decision.request_outcome();
        match outcome {
            Some(RequestOutcome::Forwarded) => self.forwarded += 1,
            Some(RequestOutcome::Observed) => self.observed += 1,
            Some(RequestOutcome::Refused) => self.refused += 1,
            Some(RequestOutcome::Failed) => self.failed += 1,
            Some(RequestOutcome::Tunnelled) => self.tunnelled += 1,
            None => {}
        }
        if !decision.was_let_through() {
            *self.by_reason.entry(decision.reason.to_string()).or_default() += 1;
        }
        if let Some(host) = decision.origin.as_deref().and_then(host) {
            let has_room = self.by_host.len() < MAX_HOSTS || self.by_host.contains_key(host);
            let name = if has_room { host } else { OTHER_HOSTS };
            *self.by_host.entry(name.to_owned()).or_default() += 1;
        }
    }
}

fn seconds<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::super::tests::decision;
    use super::*;

    #[test]
    fn each_decision_is_counted_once() {
        let mut tally = DecisionTally::default();
        let refused = DecisionRecord { waited_us: 1_500_000, ..decision() };
        let forwarded = DecisionRecord {
            outcome: "forwarded".into(),
            reason: "allowed".into(),
            origin: Some("http://shop.test".to_owned()),
            ..decision()
        };
        for decision in [&refused, &refused, &forwarded] {
            tally.count(decision);
        }
        let written = serde_json::to_value(tally).unwrap();
        let expected = serde_json::json!({
            "requests": 3, "forwarded": 1, "observed": 0, "refused": 2, "failed": 0, "tunnelled": 0,
            "by_reason": { "rule": 2 },
            "by_host": { "[::1]": 2, "shop.test": 1 },
            "waited_seconds": 3.0,
        });
        assert_eq!(written, expected);
    }

    #[test]
    fn the_number_of_hosts_is_limited() {
        let mut tally = DecisionTally::default();
        for number in 0..MAX_HOSTS + 5 {
            let origin = Some(format!("http://{number}.test"));
            tally.count(&DecisionRecord { origin, ..decision() });
        }
        assert_eq!((tally.by_host.len(), tally.by_host[OTHER_HOSTS]), (MAX_HOSTS + 1, 5));
    }
}
