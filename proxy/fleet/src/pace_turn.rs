//! Turns at a server whose pace the fleet finds together: the questions of a node, and the answers of the engine.
//!
//! The engine keeps the pace that was found last, which it does not interpret, the time between two turns, and the time of the
//! last one. A node that found another pace proposes it together with its next turn, on top of the version that it knows; of
//! two that do, the second learns the first's.

use std::time::Duration;

/// The time by which a turn may be late without slowing down those after it.
pub const LATE: Duration = Duration::from_millis(10);

/// A node's question before it sends a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaceTurn {
    /// The name of the unit that shares the pace.
    pub unit: String,
    /// The version of the pace that the node knows; 0: none.
    pub version: u64,
    /// The pace that the node found since, and the time between two turns at that pace.
    pub proposal: Option<(String, Duration)>,
    /// The shortest time since the last turn, whatever the fleet's pace.
    pub interval: Duration,
    /// The number of requests since the last question, with the one that needs a turn. 0: no turn is needed.
    pub requests: u64,
    /// The longest wait.
    pub timeout: Duration,
    /// The time for which the pace is kept without a question.
    pub kept_for: Duration,
    /// Whether no turn is granted while the whole unit rests.
    pub obeys_rest: bool,
}

/// The answer: the fleet's pace and, if it is in time, a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaceTurnAnswer {
    /// The version of the pace; 0: the engine has none.
    pub version: u64,
    /// The pace, as the node that found it wrote it.
    pub pace: String,
    /// The requests of all nodes so far.
    pub total: u64,
    /// The time until the turn.
    pub wait: Duration,
    /// Whether the turn is in time, so that it was granted.
    pub is_granted: bool,
}

/// The turns at one server, as an engine keeps them. Time is given as the time since any fixed start.
#[derive(Clone, Debug, Default)]
pub struct PaceBook {
    version: u64,
    pace: String,
    interval: Duration,
    last_at: Option<Duration>,
    total: u64,
}

impl PaceBook {
    /// Answers a node, whose turn comes after `rested_at`.
    pub fn take(&mut self, now: Duration, rested_at: Duration, turn: &PaceTurn) -> PaceTurnAnswer {
        if let Some((pace, interval)) = &turn.proposal
            && [0, turn.version].contains(&self.version)
        {
            self.version = turn.version + 1;
            (self.pace, self.interval) = (pace.clone(), *interval);
        }
        let interval = self.interval.max(turn.interval);
        let late = now.saturating_sub(interval.min(LATE));
        let due_at = self.last_at.map_or(late, |last_at| late.max(last_at + interval));
        let turn_at = if rested_at > now { due_at.max(rested_at) } else { due_at };
        let wait = turn_at.saturating_sub(now);
        let is_granted = turn.requests > 0 && wait <= turn.timeout;
        if is_granted {
            self.last_at = Some(turn_at);
            self.total += turn.requests;
        }
        let version = self.version;
        let pace = self.pace.clone();
        PaceTurnAnswer { version, pace, total: self.total, wait, is_granted }
    }
}
