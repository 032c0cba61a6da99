//! The count of refusals at the edge, by host and by crawler: requests that robots.txt allows, and that the origin or its bot
//! manager turned away.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wayleave_evidence::rfc3339;

use super::bounded_map::{BoundedMap, Weight};
use super::record::DecisionRecord;

/// The most hosts that are counted, some 2 MB. Beyond it, the half that was turned away by longest ago is forgotten.
const MAX_NAMES: usize = 10_000;

/// The property by which refusals at the edge are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EdgeCountBy {
    Host,
    Crawler,
}

/// The number of refusals at the edge by one host, or of one crawler's requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct EdgeCount {
    /// The host, or the crawler's name.
    pub(crate) name: String,
    /// All refusals.
    pub(crate) count: u64,
    /// The number of those that answered a signed request.
    pub(crate) signed: u64,
    /// Challenges, and other refusals by a bot manager.
    pub(crate) challenge: u64,
    /// 403 and 451.
    pub(crate) forbidden: u64,
    /// 429.
    pub(crate) rate: u64,
    /// 402.
    pub(crate) payment: u64,
    /// 503.
    pub(crate) unavailable: u64,
    /// The time of the last of these requests.
    #[serde(serialize_with = "rfc3339::serialize")]
    #[schema(value_type = String, format = DateTime)]
    pub(crate) last_at: SystemTime,
}

impl EdgeCount {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            count: 0,
            signed: 0,
            challenge: 0,
            forbidden: 0,
            rate: 0,
            payment: 0,
            unavailable: 0,
            last_at: SystemTime::UNIX_EPOCH,
        }
    }

    /// Returns the rank by the time of the last refusal.
    fn weight(&self) -> Weight {
        let last = self.last_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        (last.as_secs(), last.subsec_nanos().into())
    }

    fn add(&mut self, kind: &str, decision: &DecisionRecord) {
        let counter = match kind {
            "challenge" => &mut self.challenge,
            "forbidden" => &mut self.forbidden,
            "rate" => &mut self.rate,
            "payment" => &mut self.payment,
            _ => &mut self.unavailable,
        };
        *counter += 1;
        self.count += 1;
        self.signed += u64::from(decision.signature.as_deref() == Some("signed"));
        self.last_at = self.last_at.max(decision.at);
    }
}

/// The counts since the start of the process.
#[derive(Debug)]
pub(super) struct EdgeTally {
    by_host: BoundedMap<String, EdgeCount>,
    by_crawler: BoundedMap<String, EdgeCount>,
}

impl Default for EdgeTally {
    fn default() -> Self {
        let empty = || BoundedMap::new(MAX_NAMES, EdgeCount::weight);
        Self { by_host: empty(), by_crawler: empty() }
    }
}

impl EdgeTally {
    /// Counts a decision whose request was turned away.
    pub(super) fn count(&mut self, decision: &DecisionRecord) {
        let Some(kind) = decision.edge.as_deref() else {
            return;
        };
        if let Some(host) = decision.host() {
            count_of(&mut self.by_host, host).add(kind, decision);
        }
        count_of(&mut self.by_crawler, &decision.crawler).add(kind, decision);
    }

    /// Returns the `limit` names with the most refusals; those with equally many are in alphabetical order.
    pub(super) fn most(&self, by: EdgeCountBy, limit: usize) -> Vec<EdgeCount> {
        let counts = match by {
            EdgeCountBy::Host => &self.by_host,
            EdgeCountBy::Crawler => &self.by_crawler,
        };
        let mut sorted: Vec<_> = counts.values().collect();
        sorted.sort_unstable_by(|one, other| {
            (other.count.cmp(&one.count)).then_with(|| one.name.cmp(&other.name))
        });
        sorted.into_iter().take(limit).cloned().collect()
    }
}

fn count_of<'a>(counts: &'a mut BoundedMap<String, EdgeCount>, name: &str) -> &'a mut EdgeCount {
    counts.entry(name.to_owned(), || EdgeCount::new(name))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tests::decision;
    use super::*;

    fn turned_away(kind: &'static str, host: &str, second: u64) -> DecisionRecord {
        DecisionRecord {
            edge: Some(kind.into()),
            origin: Some(format!("https://{host}")),
            at: SystemTime::UNIX_EPOCH + Duration::from_secs(second),
            ..decision()
        }
    }

    #[test]
    fn refusals_are_counted_by_kind_and_signature() {
        let mut tally = EdgeTally::default();
        for kind in ["challenge", "forbidden", "rate", "payment", "unavailable", "challenge"] {
            tally.count(&turned_away(kind, "a.test", 1));
        }
        let signed = Some("signed".into());
        tally.count(&DecisionRecord { signature: signed, ..turned_away("rate", "b.test", 7) });
        tally.count(&decision());
        let names = |by, limit| {
            let most = tally.most(by, limit);
            most.into_iter().map(|it| (it.name, it.count, it.signed)).collect::<Vec<_>>()
        };
        let named = |name: &str, count, signed| (name.to_owned(), count, signed);
        let (a, b) = (named("a.test", 6, 0), named("b.test", 1, 1));
        assert_eq!(names(EdgeCountBy::Host, 9), [a.clone(), b]);
        assert_eq!(names(EdgeCountBy::Host, 1), [a]);
        assert_eq!(names(EdgeCountBy::Crawler, 9), [named("news", 7, 1)]);
        let first = &tally.most(EdgeCountBy::Host, 1)[0];
        let kinds =
            (first.challenge, first.forbidden, first.rate, first.payment, first.unavailable);
        assert_eq!(kinds, (2, 1, 1, 1, 1));
    }

    #[test]
    fn the_hosts_refused_longest_ago_are_forgotten() {
        let mut tally = EdgeTally::default();
        for number in 0..3 * MAX_NAMES as u64 {
            tally.count(&turned_away("rate", &format!("{number}.test"), number));
            assert!(tally.by_host.values().count() <= MAX_NAMES);
        }
        assert!(tally.by_host.values().count() >= MAX_NAMES / 2 - 1);
        assert!(tally.by_host.find(&format!("{}.test", 3 * MAX_NAMES - 1)).is_some());
        assert!(tally.by_host.find("0.test").is_none());
    }

    #[test]
    fn hosts_of_one_instant_are_limited_too() {
        let mut tally = EdgeTally::default();
        for number in 0..MAX_NAMES + 5 {
            tally.count(&turned_away("rate", &format!("{number}.test"), 1));
        }
        assert_eq!(tally.by_host.values().count(), 5);
    }
}
