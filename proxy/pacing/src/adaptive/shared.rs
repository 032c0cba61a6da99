//! One node's part in a pace that a fleet finds together.
//!
//! Each node learns from the answers to its own requests, as it would alone. It proposes its finding to the engine, and takes
//! over that of another node. If both found something, the slower pace applies.

use std::time::Duration;

use wayleave_fleet::pace_turn::{PaceTurn, PaceTurnAnswer};

use super::fleet_part::PaceChange;
use super::found::FoundPace;
use super::pace::AdaptivePace;
use super::round::{FORGET_AFTER, MIN_ROUND, Round, interval};

/// The weight of one turn in the share of a node.
const SHARE_WEIGHT: f64 = 0.25;

impl AdaptivePace {
    /// Returns whether the fleet has to be asked before the next request: without a limit, once a second is enough.
    #[must_use]
    pub fn needs_turn(&self, now: Duration) -> bool {
        self.rate(now).is_some()
            || self.shared.asked_at.is_none_or(|asked_at| now.saturating_sub(asked_at) >= MIN_ROUND)
    }

    /// Returns the usual time between two requests of this node, among those of the fleet.
    #[must_use]
    pub(crate) fn own_interval(&self, now: Duration) -> Duration {
        let requests_per_own = self.shared.requests_per_own();
        self.rate(now).map_or(Duration::ZERO, |rate| interval(rate / requests_per_own))
    }

    /// Returns whether other nodes should learn of this one's finding at once.
    #[must_use]
    pub fn has_slowed_down(&self) -> bool {
        self.shared.change == PaceChange::Slower
    }

    /// Returns the question to the engine before the next request to `unit`.
    #[must_use]
    pub fn turn(&self, now: Duration, unit: String, timeout: Duration) -> PaceTurn {
        let own = |rate: Option<f64>| rate.map_or(Duration::ZERO, interval);
        let is_changed = self.shared.change != PaceChange::None;
        let proposal = is_changed.then(|| (self.found.to_string(), own(self.found.rate)));
        let interval = own(self.rate(now));
        PaceTurn {
            unit,
            version: self.shared.version,
            proposal,
            interval,
            requests: self.shared.unreported + 1,
            timeout,
            kept_for: FORGET_AFTER + 2 * interval,
            obeys_rest: false,
        }
    }

    /// Records the engine's answer to `turn`.
    pub fn record_turn(&mut self, now: Duration, turn: &PaceTurn, answer: &PaceTurnAnswer) {
        self.learn(now, turn, answer);
        if !answer.is_granted {
            return;
        }
        // A pace that is not known yet, and one that the engine forgot, is taken for this node's own.
        let is_known = (1..answer.total).contains(&self.shared.total);
        let total = if is_known { answer.total - self.shared.total } else { turn.requests };
        // Exact below 2^53.
        #[expect(clippy::cast_precision_loss)]
        let total = total as f64;
        let own = turn.requests as f64;
        let share = self.shared.requests_per_own.get_or_insert(total / own);
        *share += (total / own - *share) * SHARE_WEIGHT;
        self.sent.record(now, total);
        self.shared.total = answer.total;
        self.shared.asked_at = Some(now);
        self.shared.unreported = self.shared.unreported.saturating_sub(turn.requests - 1);
    }

    /// Takes over another node's finding.
    fn learn(&mut self, now: Duration, turn: &PaceTurn, answer: &PaceTurnAnswer) {
        let known = self.shared.version;
        self.shared.version = answer.version;
        if turn.proposal.as_ref().is_some_and(|pace| pace.0 == answer.pace) {
            // Unless it has changed again meanwhile.
            if self.found.to_string() == answer.pace {
                self.shared.change = PaceChange::None;
            }
            return;
        }
        // The engine may have lost it, or another node may write a format that this version does not read.
        let Some(found) = FoundPace::parse(&answer.pace) else {
            if known > answer.version {
                self.shared.change = PaceChange::Slower;
            }
            return;
        };
        if answer.version == known {
            return;
        }
        let is_unknown = self.shared.change == PaceChange::Slower || known > answer.version;
        if is_unknown && self.found.is_slower_than(&found) {
            self.shared.change = PaceChange::Slower;
            return;
        }
        if found.is_slower_than(&self.found) {
            self.slowed_at = Some(now);
        }
        self.round = Round::starting_at(now);
        self.found = found;
        self.shared.change = PaceChange::None;
    }

    /// Records that a request is sent now without asking the fleet, which was asked within the last second.
    pub fn record_unasked(&mut self) {
        self.shared.unreported += 1;
    }

    /// Returns the time from which the next request may be sent while the engine is away, by this node's part of the pace
    /// that `nodes` may send together.
    #[must_use]
    pub(crate) fn next_at_without_engine(&self, now: Duration, nodes: u32) -> Duration {
        let rate = self.rate(now);
        let spacing = rate.map_or(Duration::ZERO, |rate| interval(rate).saturating_mul(nodes));
        self.next_at.max(self.sent.last_at + spacing)
    }

    /// Records that a request is sent now while the engine is away.
    pub(crate) fn record_sent_without_engine(&mut self, now: Duration, nodes: u32) {
        self.sent.record(now, f64::from(nodes));
        self.shared.requests_per_own = Some(f64::from(nodes));
        // Each node finds a pace of its own meanwhile; the slowest applies.
        self.shared.change = PaceChange::Slower;
    }
}
