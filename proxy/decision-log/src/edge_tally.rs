//! The count of refusals at the edge, by host, by crawler, and by name and signature: requests that robots.txt allows, and that
//! the origin or its bot manager turned away.

use std::time::SystemTime;

use serde::Serialize;
use utoipa::ToSchema;
use wayleave_fairness::{Holder, SharedMap};
use wayleave_notation::EdgeRefusal;
use wayleave_notation::rfc3339;
use wayleave_record::{DecisionRecord, Word};

use super::bounded_map::{BoundedMap, Weight};
use super::client_address::holder_of;
use super::edge_names::{EdgeAnswer, HostAnswers, SignedEdge};

/// The most hosts that are counted, some 2 MB. Beyond it, of the client that was the first to be turned away by most of
/// them, the host that did so longest ago is forgotten: a client that asks many hosts makes only its own be forgotten.
const MAX_HOSTS: usize = 10_000;
/// The most crawlers. They are the configuration's, so that only many reloads come near.
const MAX_CRAWLERS: usize = 10_000;

/// The property by which refusals at the edge are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeCountBy {
    Host,
    Crawler,
}

/// The number of refusals at the edge by one host, or of one crawler's requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct EdgeCount {
    /// The host, or the crawler's name.
    pub name: String,
    /// All refusals.
    pub count: u64,
    /// The number of those that answered a signed request.
    pub signed: u64,
    /// Challenges, and other refusals by a bot manager.
    pub challenge: u64,
    /// 403 and 451.
    pub forbidden: u64,
    /// 429.
    pub rate: u64,
    /// 402.
    pub payment: u64,
    /// 503.
    pub unavailable: u64,
    /// The time of the last of these requests.
    #[serde(serialize_with = "rfc3339::serialize")]
    #[schema(value_type = String, format = DateTime)]
    pub last_at: SystemTime,
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

    fn add(&mut self, kind: &Word<EdgeRefusal>, decision: &DecisionRecord) {
        let counter = match kind.known() {
            Some(EdgeRefusal::Challenge) => &mut self.challenge,
            Some(EdgeRefusal::Forbidden) => &mut self.forbidden,
            Some(EdgeRefusal::Rate) => &mut self.rate,
            Some(EdgeRefusal::Payment) => &mut self.payment,
            Some(EdgeRefusal::Unavailable) | None => &mut self.unavailable,
        };
        *counter += 1;
        self.count += 1;
        self.signed += u64::from(decision.is_signed());
        self.last_at = self.last_at.max(decision.at);
    }
}

/// The counts since the start of the process.
#[derive(Debug)]
pub(super) struct EdgeTally {
    by_host: SharedMap<String, HostCount>,
    by_crawler: BoundedMap<String, EdgeCount>,
    /// The answers of hosts, each held by the client that was the first to be answered.
    answers: SharedMap<String, HostAnswers>,
}

/// The count of a host.
#[derive(Debug)]
struct HostCount {
    /// The client that it turned away first.
    holder: Holder,
    count: EdgeCount,
}

impl Default for EdgeTally {
    fn default() -> Self {
        let by_crawler = BoundedMap::new(MAX_CRAWLERS, EdgeCount::weight);
        let (by_host, answers) = (SharedMap::new(MAX_HOSTS), SharedMap::new(MAX_HOSTS));
        Self { by_host, by_crawler, answers }
    }
}

impl EdgeTally {
    /// Counts a decision whose request was turned away.
    pub(super) fn count(&mut self, decision: &DecisionRecord) {
        let Some(kind) = &decision.edge else {
            return;
        };
        if let Some(host) = decision.host() {
            self.count_host(host, kind, decision);
        }
        let name = &*decision.crawler;
        self.by_crawler.entry(name.to_owned(), || EdgeCount::new(name)).add(kind, decision);
    }

    /// Counts an answer, by which a host let a request in or turned it away.
    pub(super) fn count_answer(&mut self, decision: &DecisionRecord, answer: &EdgeAnswer<'_>) {
        let Some(host) = decision.host() else {
            return;
        };
        match self.answers.get_mut(host) {
            // It stays as old as it is: this is done for every request.
            Some(known) => known.count(answer),
            None => {
                let mut answers = HostAnswers::default();
                answers.count(answer);
                let holder = holder_of(decision.client);
                self.answers.insert(holder, host.to_owned(), answers, |_| false);
            }
        }
    }

    /// Returns the answers to signed and unsigned requests; at most `limit` hosts are listed.
    pub(super) fn by_signature(&self, limit: usize) -> SignedEdge {
        SignedEdge::of(self.answers.iter(), limit)
    }

    fn count_host(&mut self, host: &str, kind: &Word<EdgeRefusal>, decision: &DecisionRecord) {
        let mut counted = self.by_host.remove(host).unwrap_or_else(|| HostCount {
            holder: holder_of(decision.client),
            count: EdgeCount::new(host),
        });
        counted.count.add(kind, decision);
        // Added again, so that it is its holder's newest.
        self.by_host.insert(counted.holder, host.to_owned(), counted, |_| false);
    }

    /// Returns the `limit` names with the most refusals; those with equally many are in alphabetical order.
    pub(super) fn most(&self, by: EdgeCountBy, limit: usize) -> Vec<EdgeCount> {
        let mut sorted: Vec<_> = match by {
            EdgeCountBy::Host => self.by_host.iter().map(|(_, counted)| &counted.count).collect(),
            EdgeCountBy::Crawler => self.by_crawler.values().collect(),
        };
        sorted.sort_unstable_by(|one, other| {
            (other.count.cmp(&one.count)).then_with(|| one.name.cmp(&other.name))
        });
        sorted.into_iter().take(limit).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
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

    fn of_client(last: u8, decision: DecisionRecord) -> DecisionRecord {
        DecisionRecord { client: IpAddr::from([192, 0, 2, last]).into(), ..decision }
    }

    #[test]
    fn the_hosts_refused_longest_ago_are_forgotten() {
        let mut tally = EdgeTally::default();
        let host = |number: usize| format!("{number}.test");
        for number in 0..2 * MAX_HOSTS {
            tally.count(&turned_away("rate", &host(number), 1));
            tally.count(&turned_away("rate", "again.test", 1));
            assert!(tally.by_host.len() <= MAX_HOSTS);
        }
        assert_eq!(tally.by_host.len(), MAX_HOSTS);
        assert!(tally.by_host.get(&host(2 * MAX_HOSTS - 1)).is_some());
        assert!(tally.by_host.get(&host(0)).is_none());
        let most = &tally.most(EdgeCountBy::Host, 1)[0];
        assert_eq!((most.name.as_str(), most.count), ("again.test", 2 * MAX_HOSTS as u64));
    }

    #[test]
    fn one_clients_refusals_push_out_no_others() {
        let mut tally = EdgeTally::default();
        for number in 0..100 {
            let host = format!("{number}.victim.test");
            tally.count(&of_client(1, turned_away("forbidden", &host, 1)));
        }
        for number in 0..2 * MAX_HOSTS {
            let host = format!("{number}.test");
            tally.count(&of_client(2, turned_away("forbidden", &host, 2)));
        }
        // A host of the other client that this one asks as well stays the other's.
        tally.count(&of_client(2, turned_away("forbidden", "7.victim.test", 3)));
        for number in 0..MAX_HOSTS {
            let host = format!("{number}.more.test");
            tally.count(&of_client(2, turned_away("forbidden", &host, 4)));
        }
        for number in 0..100 {
            let host = format!("{number}.victim.test");
            assert!(tally.by_host.get(&host).is_some(), "{host}");
        }
    }
}
