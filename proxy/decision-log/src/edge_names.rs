//! The answers of hosts to the names under which requests came: by host, crawler, agent and purposes, signed or not.
//!
//! They show what signing changes, and what splitting a name that search and training share does.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::Serialize;
use utoipa::ToSchema;
use wayleave_decision::RequestOutcome;
use wayleave_notation::rfc3339;
use wayleave_record::{DecisionRecord, Word};
use wayleave_robots_txt::AccessVerdict;
use wayleave_usage_preferences::{Purpose, PurposeClass};

/// The most names that are kept of a host: beyond it the one that was idle for longest is forgotten. Each crawler has two, and more
/// after its purposes or its agent were changed.
const MAX_NAMES: usize = 64;
/// The status of a page that wants a login: neither let in nor turned away.
const UNAUTHORIZED: u16 = 401;

/// A name under which requests come, as an origin can tell it from others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
pub struct EdgeName {
    /// The crawler's configured name, or `asserted`.
    pub crawler: String,
    /// The agent in whose name the requests are signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The purposes that the crawler declares.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>, required = false)]
    pub purposes: Vec<Word<Purpose>>,
    /// Whether the requests are signed.
    pub signed: bool,
}

impl EdgeName {
    fn is_of_class(&self, class: PurposeClass) -> bool {
        let mut known = self.purposes.iter().filter_map(Word::known);
        known.any(|purpose| purpose.class() == Some(class))
    }

    /// Returns whether the name stands for training and for a class that operators of edges judge apart from it.
    fn is_mixed(&self) -> bool {
        self.is_of_class(PurposeClass::Training)
            && (self.is_of_class(PurposeClass::Search) || self.is_of_class(PurposeClass::Agent))
    }

    /// Returns whether this name may be a part of `other`, which was split.
    fn is_part_of(&self, other: &Self) -> bool {
        other.is_mixed()
            && !self.is_mixed()
            && !self.purposes.is_empty()
            && self.purposes.iter().all(|purpose| other.purposes.contains(purpose))
    }
}

/// The numbers of requests that were let in, and turned away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct EdgeAnswers {
    /// Requests that were answered, and not turned away.
    pub let_in: u64,
    /// Requests that robots.txt allows, and that were turned away.
    pub refused: u64,
}

impl EdgeAnswers {
    fn add(&mut self, other: Self) {
        self.let_in += other.let_in;
        self.refused += other.refused;
    }

    fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// One answer of a host.
#[derive(Debug)]
pub(super) struct EdgeAnswer<'a> {
    pub(super) crawler: &'a str,
    pub(super) agent: Option<&'a str>,
    pub(super) purposes: &'a [Word<Purpose>],
    pub(super) is_signed: bool,
    pub(super) is_refused: bool,
    pub(super) at: SystemTime,
}

impl<'a> EdgeAnswer<'a> {
    /// Returns the answer that a decision records: to a request for a path that robots.txt allows. `None` if there was none.
    pub(super) fn of(decision: &'a DecisionRecord) -> Option<Self> {
        if decision.scope.is_some() || decision.from.is_some() || decision.is_own_request() {
            return None;
        }
        let is_allowed = decision.finding.as_ref()?.verdict == AccessVerdict::Allow;
        let is_refused = decision.edge.is_some();
        let is_let_in = is_let_in(decision.request_outcome(), decision.status);
        (is_allowed && (is_refused || is_let_in)).then(|| Self {
            crawler: &decision.crawler,
            agent: decision.agent.as_deref(),
            purposes: &decision.purposes,
            is_signed: decision.is_signed(),
            is_refused,
            at: decision.at,
        })
    }

    fn is_of(&self, name: &EdgeName) -> bool {
        name.signed == self.is_signed
            && name.crawler == self.crawler
            && name.agent.as_deref() == self.agent
            && name.purposes == self.purposes
    }
}

/// Returns whether the origin answered a request that it did not turn away.
pub(super) fn is_let_in(outcome: Option<RequestOutcome>, status: u16) -> bool {
    let is_answered = matches!(outcome, Some(RequestOutcome::Forwarded | RequestOutcome::Observed));
    is_answered && status != UNAUTHORIZED
}

/// The answers of one host to one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct NameAnswers {
    #[serde(flatten)]
    pub name: EdgeName,
    #[serde(flatten)]
    pub answers: EdgeAnswers,
    /// The time of the first of these requests.
    #[serde(serialize_with = "rfc3339::serialize")]
    #[schema(value_type = String, format = DateTime)]
    pub first_at: SystemTime,
    /// The time of the last.
    #[serde(serialize_with = "rfc3339::serialize")]
    #[schema(value_type = String, format = DateTime)]
    pub last_at: SystemTime,
}

/// The answers of one host, by name in the order of their first request.
#[derive(Clone, Debug, Default)]
pub(super) struct HostAnswers(Vec<NameAnswers>);

impl HostAnswers {
    /// Counts an answer.
    pub(super) fn count(&mut self, answer: &EdgeAnswer<'_>) {
        let at = answer.at;
        let place = match self.0.iter().position(|known| answer.is_of(&known.name)) {
            Some(place) => place,
            None => {
                if self.0.len() == MAX_NAMES {
                    let idle = self.0.iter().enumerate().min_by_key(|(_, known)| known.last_at);
                    let idle = idle.map_or(0, |(place, _)| place);
                    self.0.remove(idle);
                }
                let name = EdgeName {
                    crawler: answer.crawler.to_owned(),
                    agent: answer.agent.map(str::to_owned),
                    purposes: answer.purposes.to_vec(),
                    signed: answer.is_signed,
                };
                let answers = EdgeAnswers::default();
                self.0.push(NameAnswers { name, answers, first_at: at, last_at: at });
                self.0.len() - 1
            }
        };
        let found = &mut self.0[place];
        let counter =
            if answer.is_refused { &mut found.answers.refused } else { &mut found.answers.let_in };
        *counter += 1;
        found.first_at = found.first_at.min(at);
        found.last_at = found.last_at.max(at);
    }

    /// Returns the number of all answers.
    pub(super) fn total(&self) -> u64 {
        self.0.iter().map(|it| it.answers.let_in + it.answers.refused).sum()
    }

    /// Returns the answers to crawlers that came both unsigned and signed: to their unsigned, and to their signed requests.
    fn by_signature(&self) -> [EdgeAnswers; 2] {
        let mut compared = [EdgeAnswers::default(); 2];
        for one in &self.0 {
            let is_compared = |other: &NameAnswers| {
                other.name.crawler == one.name.crawler && other.name.signed != one.name.signed
            };
            if self.0.iter().any(is_compared) {
                compared[usize::from(one.name.signed)].add(one.answers);
            }
        }
        compared
    }

    /// Returns the answers to names for training and for something else, and to the parts that such a name was split into.
    fn by_split(&self) -> [EdgeAnswers; 2] {
        let mut compared = [EdgeAnswers::default(); 2];
        for one in &self.0 {
            if self.0.iter().any(|other| other.name.is_part_of(&one.name)) {
                compared[0].add(one.answers);
            } else if self.0.iter().any(|other| one.name.is_part_of(&other.name)) {
                compared[1].add(one.answers);
            }
        }
        compared
    }
}

/// The answers of one host before and after a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ComparedHost {
    pub host: String,
    pub before: EdgeAnswers,
    pub after: EdgeAnswers,
}

/// The answers of hosts before and after a change, of the hosts that answered both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct EdgeComparison {
    /// The number of hosts that answered requests of both kinds.
    pub hosts: u64,
    /// The number of hosts that turned away all earlier requests, and let in some of the later ones.
    pub opened: u64,
    /// The number of hosts that let in some earlier requests, and turned away all later ones.
    pub closed: u64,
    pub before: EdgeAnswers,
    pub after: EdgeAnswers,
    /// The hosts that opened, in alphabetical order.
    pub opened_hosts: Vec<ComparedHost>,
    /// The hosts that closed.
    pub closed_hosts: Vec<ComparedHost>,
}

impl EdgeComparison {
    fn add(&mut self, host: &str, [before, after]: [EdgeAnswers; 2], limit: usize) {
        if before.is_empty() || after.is_empty() {
            return;
        }
        self.hosts += 1;
        self.before.add(before);
        self.after.add(after);
        let (count, listed) = match (before.let_in, after.let_in) {
            (0, 1..) => (&mut self.opened, &mut self.opened_hosts),
            (1.., 0) => (&mut self.closed, &mut self.closed_hosts),
            _ => return,
        };
        *count += 1;
        if listed.len() < limit {
            listed.push(ComparedHost { host: host.to_owned(), before, after });
        }
    }

    /// Returns the comparison as a sentence; `change` is a word such as `Signed`.
    pub fn sentence(&self, change: &str) -> String {
        let Self { opened, closed, hosts, .. } = self;
        let closed = match closed {
            0 => String::new(),
            count => format!("; {count} no longer let you in"),
        };
        format!("{change}: {opened} of {hosts} hosts let you in that did not before{closed}")
    }
}

/// The answers of all hosts to one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct EdgeNameCount {
    #[serde(flatten)]
    pub name: EdgeName,
    #[serde(flatten)]
    pub answers: EdgeAnswers,
    /// The number of hosts that answered.
    pub hosts: u64,
    /// The number of those that let in at least one request.
    pub hosts_let_in: u64,
}

/// The answers of one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SignedEdgeRow {
    /// The host.
    pub name: String,
    /// All refusals.
    pub count: u64,
    /// Refusals of signed requests.
    pub signed: u64,
    /// Refusals of unsigned requests.
    pub unsigned: u64,
    /// The answers by name, in the order of their first request.
    pub names: Vec<NameAnswers>,
}

/// The answers of hosts to signed and unsigned requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct SignedEdge {
    /// Unsigned against signed requests of the same crawlers.
    pub signed: EdgeComparison,
    /// Names for training and for search or `ai-input` against names with fewer of their purposes, signed or not.
    pub split: EdgeComparison,
    /// The answers of all hosts by name.
    pub names: Vec<EdgeNameCount>,
    /// The answers by host: the hosts with the most refusals first.
    pub edge: Vec<SignedEdgeRow>,
}

impl SignedEdge {
    /// Compares the answers of hosts. At most `limit` hosts are listed; all are counted.
    pub(super) fn of<'a>(
        hosts: impl Iterator<Item = (&'a String, &'a HostAnswers)>,
        limit: usize,
    ) -> Self {
        let mut edge = Self::default();
        let mut names: BTreeMap<&EdgeName, EdgeNameCount> = BTreeMap::new();
        let mut rows = Vec::new();
        let mut sorted: Vec<_> = hosts.collect();
        sorted.sort_unstable_by_key(|(host, _)| *host);
        for (host, found) in sorted {
            edge.signed.add(host, found.by_signature(), limit);
            edge.split.add(host, found.by_split(), limit);
            let mut refused = [0; 2];
            for NameAnswers { name, answers, .. } in &found.0 {
                refused[usize::from(name.signed)] += answers.refused;
                let count = names.entry(name).or_insert_with(|| EdgeNameCount {
                    name: name.clone(),
                    answers: EdgeAnswers::default(),
                    hosts: 0,
                    hosts_let_in: 0,
                });
                count.answers.add(*answers);
                count.hosts += 1;
                count.hosts_let_in += u64::from(answers.let_in > 0);
            }
            let [unsigned, signed] = refused;
            rows.push((unsigned + signed, host, found, signed));
        }
        // Stable: hosts with equally many refusals stay in alphabetical order.
        rows.sort_by_key(|row| Reverse(row.0));
        let row = |(count, host, found, signed): (u64, &String, &HostAnswers, u64)| SignedEdgeRow {
            name: host.clone(),
            count,
            signed,
            unsigned: count - signed,
            names: found.0.clone(),
        };
        edge.edge = rows.into_iter().take(limit).map(row).collect();
        edge.names = names.into_values().collect();
        edge
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tests::decision;
    use super::*;

    fn answered(edge: Option<&'static str>) -> DecisionRecord {
        let mut decision = DecisionRecord {
            outcome: "forwarded".into(),
            edge: edge.map(Into::into),
            status: 200,
            ..decision()
        };
        if let Some(finding) = &mut decision.finding {
            finding.verdict = "allow".into();
        }
        decision
    }

    #[test]
    fn only_answers_to_allowed_requests_for_paths_count() {
        let counts = |decision: &DecisionRecord| EdgeAnswer::of(decision).map(|it| it.is_refused);
        assert_eq!(counts(&answered(None)), Some(false));
        assert_eq!(counts(&answered(Some("forbidden"))), Some(true));
        let failed = DecisionRecord { outcome: "failed".into(), ..answered(Some("challenge")) };
        assert_eq!(counts(&failed), Some(true), "its head had come");
        for other in [
            decision(),
            DecisionRecord { status: 401, ..answered(None) },
            DecisionRecord { outcome: "failed".into(), ..answered(None) },
            DecisionRecord { outcome: "tunnelled".into(), ..answered(None) },
            DecisionRecord { scope: Some("robots-txt".into()), ..answered(None) },
            DecisionRecord { from: Some("copy".into()), ..answered(None) },
            DecisionRecord { finding: None, ..answered(None) },
        ] {
            assert_eq!(counts(&other), None, "{other:?}");
        }
    }

    fn count(
        host: &mut HostAnswers,
        crawler: &str,
        is_signed: bool,
        is_refused: bool,
        second: u64,
    ) {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
        let (agent, purposes) = (None, &[][..]);
        host.count(&EdgeAnswer { crawler, agent, purposes, is_signed, is_refused, at });
    }

    #[test]
    fn hosts_open_and_close_by_the_same_crawlers_requests() {
        let mut hosts: BTreeMap<String, HostAnswers> = BTreeMap::new();
        for (host, crawler, is_signed, is_refused) in [
            ("closes", "news", false, false),
            ("closes", "news", true, true),
            ("opens", "news", false, true),
            ("opens", "news", true, true),
            ("opens", "news", true, false),
            // Another crawler was let in all along.
            ("opens", "other", false, false),
            ("unsigned", "news", false, true),
            ("others", "news", false, true),
            ("others", "other", true, false),
        ] {
            count(hosts.entry(host.to_owned()).or_default(), crawler, is_signed, is_refused, 1);
        }
        let SignedEdge { signed, split, names, edge } = SignedEdge::of(hosts.iter(), 1);
        assert_eq!((signed.hosts, signed.opened, signed.closed), (2, 1, 1));
        assert_eq!(signed.before, EdgeAnswers { let_in: 1, refused: 1 });
        assert_eq!(signed.after, EdgeAnswers { let_in: 1, refused: 2 });
        let sentence =
            "Signed: 1 of 2 hosts let you in that did not before; 1 no longer let you in";
        assert_eq!(signed.sentence("Signed"), sentence);
        assert_eq!((split, names.len()), (EdgeComparison::default(), 4));
        let listed: Vec<_> = edge.iter().map(|row| (&*row.name, row.count, row.signed)).collect();
        assert_eq!(listed, [("opens", 2, 1)], "no more than were asked for");
    }

    #[test]
    fn a_host_keeps_the_newest_names() {
        let mut host = HostAnswers::default();
        for number in 0..3 * MAX_NAMES {
            count(&mut host, &format!("crawler-{number}"), false, false, number as u64);
            count(&mut host, "first-and-often", false, true, number as u64);
        }
        assert_eq!(host.0.len(), MAX_NAMES);
        let busy = host.0.iter().find(|known| known.name.crawler == "first-and-often").unwrap();
        assert_eq!(busy.answers.refused, 3 * MAX_NAMES as u64, "the names that are idle give way");
        let last = format!("crawler-{}", 3 * MAX_NAMES - 1);
        assert!(host.0.iter().any(|it| it.name.crawler == last));
    }
}
