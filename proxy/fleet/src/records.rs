//! Records: which node fetches a robots.txt, and the result of the fetch.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::engine::{
    BudgetAnswer, BudgetReport, ClaimAnswer, EngineFailure, FetchClaim, PacingResponse,
    RecordChange, SettleAnswer, Settlement, SharedRecord, VERSION_LIMIT,
};
use super::handle::{Fleet, FleetEvent, FleetInner, lock};
use super::pace_turn::{PaceTurn, PaceTurnAnswer};

/// The pauses before asking again whether another node's fetch has ended; the last one repeats.
const CLAIM_PAUSES: [Duration; 4] = [
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
];

/// The outcome of a claim for the caller.
#[derive(Debug)]
pub enum ClaimOutcome {
    /// The fleet's record, verified.
    Known(SharedRecord),
    /// This node fetches.
    Fetch {
        /// The token to settle the fetch with. 0: the engine could not be asked.
        token: u64,
        /// The stale record, to be revalidated.
        older: Option<SharedRecord>,
    },
}

impl Fleet {
    /// Returns the fleet's record of `origin`, or decides that this node fetches. Waits while another node fetches. A record
    /// must be younger than `max_age`, counted from the call.
    pub async fn claim(
        &self,
        origin: &str,
        max_age: Option<Duration>,
        lease: Duration,
    ) -> ClaimOutcome {
        let fetch_without_lease = ClaimOutcome::Fetch { token: 0, older: None };
        let started = Instant::now();
        let mut pauses = CLAIM_PAUSES.into_iter().chain(std::iter::repeat(CLAIM_PAUSES[3]));
        let mut rejected_version = 0;
        loop {
            // A record that another node fetched while this one waited is new enough.
            let oldest = max_age.map(|age| age + started.elapsed());
            let claim =
                FetchClaim { origin: origin.to_owned(), max_age: oldest, lease, rejected_version };
            let inner = &self.inner;
            let claimed = inner.call_engine("claim", inner.engine.claim(&claim)).await;
            inner.count_claim(&claimed);
            match claimed {
                Ok(ClaimAnswer::Wait(_)) => sleep(pauses.next().unwrap_or(CLAIM_PAUSES[3])).await,
                Ok(ClaimAnswer::Known(record)) => {
                    let version = record.version;
                    if let Some(record) = inner.verified(origin, record) {
                        // The sealed age counts: the engine may claim a younger one.
                        if oldest.is_none_or(|age| record.age <= age) {
                            return ClaimOutcome::Known(record);
                        }
                        inner.count_corrupt(origin);
                    }
                    // With a wrong clock nothing can be verified, so this node must not have good records replaced.
                    if rejected_version != 0 || inner.is_clock_off() {
                        return fetch_without_lease;
                    }
                    // No node can verify it, so one of them has to replace it.
                    rejected_version = version;
                }
                Ok(ClaimAnswer::Fetch { token, older }) => {
                    // Revalidating a record that is not verified would make it valid.
                    return ClaimOutcome::Fetch {
                        token,
                        older: older.and_then(|record| inner.verified(origin, record)),
                    };
                }
                Err(_) => return fetch_without_lease,
            }
        }
    }

    /// Returns the fleet's record of an origin, verified.
    pub async fn record(&self, origin: &str) -> Option<SharedRecord> {
        let inner = &self.inner;
        let found = inner.call_engine("record", inner.engine.record(origin)).await;
        inner.verified(origin, found.ok().flatten()?)
    }

    /// Sends the result of a fetch to the fleet; later, if the engine is away.
    pub async fn settle(&self, settlement: Settlement) {
        self.inner.settle(settlement, Instant::now()).await;
    }

    /// Reports a response that changes the pace, in the background. `on_rest` gets the rest that applies to all nodes.
    pub fn report_response(
        &self,
        response: PacingResponse,
        on_rest: impl FnOnce(Duration) + Send + 'static,
    ) {
        if !self.is_shared() {
            return;
        }
        let inner = Arc::clone(&self.inner);
        tokio::spawn(async move {
            let rest = inner.call_engine("answered", inner.engine.answered(&response)).await;
            if let Ok(Some(rest)) = rest {
                on_rest(rest);
            }
        });
    }

    /// Adds this node's counts of a crawler's day; `None` if the engine is away.
    pub async fn spend(&self, report: &BudgetReport) -> Option<BudgetAnswer> {
        let inner = &self.inner;
        inner.call_engine("spend", inner.engine.spend(report)).await.ok()
    }

    /// Takes a turn at a server whose pace the nodes find together; `None` if the engine is away, or has just come back and other
    /// nodes do not know it yet.
    pub async fn take_pace_turn(&self, turn: &PaceTurn) -> Option<PaceTurnAnswer> {
        let inner = &self.inner;
        if inner.return_window_left().is_some() {
            return None;
        }
        inner.call_engine("pace", inner.engine.take_pace_turn(turn)).await.ok()
    }

    /// Returns the number of nodes that share a budget or a pace while the engine is away.
    pub fn sharing_nodes(&self) -> u64 {
        self.inner.sharing_nodes.load(Ordering::Relaxed).max(1) as u64
    }

    /// Returns how long a record that is not revalidated is kept.
    pub fn retention(&self) -> Duration {
        self.inner.settings.retention
    }

    /// Returns whether there may be other nodes.
    pub fn is_shared(&self) -> bool {
        self.inner.engine.is_shared()
    }

    /// Counts a record that could not be parsed.
    pub fn note_corrupt(&self, origin: &str) {
        self.inner.count_corrupt(origin);
    }
}

impl FleetInner {
    /// Sends a settlement whose record was fetched at `fetched_at`, or keeps it until the engine is back.
    pub(super) async fn settle(&self, settlement: Settlement, fetched_at: Instant) {
        let mut settled = self.send_settlement(&settlement, fetched_at, 0).await;
        // Sealed again: only this node can raise the version, because the seal covers it.
        if let Ok(SettleAnswer::VersionTooLow(version)) = settled {
            settled = self.send_settlement(&settlement, fetched_at, version).await;
        }
        match settled {
            Ok(settled) => {
                if let Some(metrics) = &self.metrics {
                    metrics.fleet().settled(settlement.change.as_str());
                }
                if settled != SettleAnswer::Kept {
                    let Settlement { origin, token, .. } = settlement;
                    self.notify_subscribers([FleetEvent::Superseded(origin, token)]);
                }
            }
            // Sending it again later would fail for the same reason.
            Err(EngineFailure::Full | EngineFailure::Corrupt(_)) => {}
            Err(_) => lock(&self.unsettled).push(settlement, fetched_at),
        }
    }

    /// Sends a settlement with the time since `fetched_at` added to its age, and, if it is sealed without a lease, with a
    /// version above `stored_version`.
    async fn send_settlement(
        &self,
        settlement: &Settlement,
        fetched_at: Instant,
        stored_version: u64,
    ) -> Result<SettleAnswer, EngineFailure> {
        let mut sent = settlement.clone();
        sent.record.age += fetched_at.elapsed();
        sent.fresh_for = sent.fresh_for.saturating_sub(fetched_at.elapsed());
        sent.record.version = sent.token;
        if let Some(key) = &self.settings.key
            && sent.change != RecordChange::Forgotten
        {
            let now = self.engine_time();
            if sent.token == 0 {
                // The engine cannot assign the version, because the seal covers it.
                let micros = u64::try_from(now.as_micros()).unwrap_or(VERSION_LIMIT);
                sent.record.version = micros.max(stored_version.saturating_add(1));
            }
            sent.record = key.seal(&sent.origin, sent.record, now);
        }
        self.call_engine("settle", self.engine.settle(&sent)).await
    }

    /// Returns the record if its version is sound and its seal, where there is a key, is valid.
    fn verified(&self, origin: &str, record: SharedRecord) -> Option<SharedRecord> {
        if self.is_clock_off() {
            return None;
        }
        let verified = match &self.settings.key {
            _ if record.version >= VERSION_LIMIT => None,
            None => Some(record),
            Some(key) => key.unseal(origin, &record, self.engine_time()),
        };
        if verified.is_none() {
            self.count_corrupt(origin);
        }
        verified
    }

    fn count_corrupt(&self, origin: &str) {
        tracing::warn!(%origin, "a record of the fleet is damaged, or was not written by one of its nodes: it is not used");
        if let Some(metrics) = &self.metrics {
            metrics.fleet().error("corrupt");
        }
    }

    fn count_claim(&self, claimed: &Result<ClaimAnswer, EngineFailure>) {
        let answer = match claimed {
            Ok(ClaimAnswer::Known(_)) => "known",
            Ok(ClaimAnswer::Fetch { .. }) => "fetch",
            Ok(ClaimAnswer::Wait(_)) => "wait",
            Err(_) => return,
        };
        if let Some(metrics) = &self.metrics {
            metrics.fleet().claim(answer);
        }
    }
}
