//! The answers of hosts to signed and unsigned requests, of a log.

use std::time::SystemTime;

use wayleave_robots_txt::AccessVerdict;

use super::entry::ReportEntry;
use crate::bounded_map::BoundedMap;
use crate::edge_names::{EdgeAnswer, HostAnswers, SignedEdge, is_let_in};

/// The most hosts that are counted.
const MAX_HOSTS: usize = 20_000;
/// The most hosts of each list.
const MAX_LISTED: usize = 1000;

/// The answers in the making.
#[derive(Debug)]
pub(super) struct EdgeCounts(BoundedMap<String, HostAnswers>);

impl EdgeCounts {
    pub(super) fn new() -> Self {
        Self(BoundedMap::new(MAX_HOSTS, |answers| (answers.total(), 0)))
    }

    /// Counts a request that robots.txt allows, if a host answered it.
    pub(super) fn count(&mut self, entry: &ReportEntry<'_>, at: SystemTime) {
        let Some(host) = entry.host().filter(|_| is_counted(entry)) else {
            return;
        };
        let answer = EdgeAnswer {
            crawler: &entry.crawler,
            agent: entry.agent.as_deref(),
            purposes: &entry.purposes,
            is_signed: entry.is_signed(),
            is_refused: entry.edge.is_some(),
            at,
        };
        match self.0.find(host) {
            Some(known) => known.count(&answer),
            None => self.0.entry(host.to_owned(), HostAnswers::default).count(&answer),
        }
    }

    /// Returns the number of hosts that were left out, and the answers.
    pub(super) fn into_answers(self) -> (u64, SignedEdge) {
        (self.0.forgotten(), SignedEdge::of(self.0.entries(), MAX_LISTED))
    }
}

fn is_counted(entry: &ReportEntry<'_>) -> bool {
    let is_allowed = entry.verdict.as_ref().is_some_and(|it| *it == AccessVerdict::Allow);
    let is_path = entry.scope.is_none() && entry.from.is_none() && !entry.is_own_request();
    let is_answered = entry.edge.is_some() || is_let_in(entry.request_outcome(), entry.status);
    is_allowed && is_path && is_answered
}
