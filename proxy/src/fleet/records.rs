//! Records: which node fetches a robots.txt, and what the fetch brought.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::engine::{
    ClaimAnswer, EngineFailure, FetchClaim, PacingResponse, RecordChange, SettleAnswer, Settlement,
    SharedRecord, VERSION_LIMIT,
};
use super::handle::{Fleet, FleetEvent, FleetInner, lock};

/// The pauses before asking again whether another node's fetch has ended; the last one repeats.
const CLAIM_PAUSES: [Duration; 4] = [
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
];

/// The outcome of a claim for the caller.
#[derive(Debug)]
pub(crate) enum ClaimOutcome {
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
    /// must be younger than `newer_than`, counted from the call.
    pub(crate) async fn claim(
        &self,
        origin: &str,
        newer_than: Option<Duration>,
        lease: Duration,
    ) -> ClaimOutcome {
        let started = Instant::now();
        let mut pauses = CLAIM_PAUSES
            .into_iter()
            .chain(std::iter::repeat(CLAIM_PAUSES[3]));
        let mut distrusted = 0;
        loop {
            let newer_than = newer_than.map(|age| age + started.elapsed());
            let claim = FetchClaim {
                origin: origin.to_owned(),
                max_age: newer_than,
                lease,
                rejected_version: distrusted,
            };
            let shared = &self.inner;
            let claimed = shared
                .call_engine("claim", shared.engine.claim(&claim))
                .await;
            shared.count_claim(&claimed);
            match claimed {
                Ok(ClaimAnswer::Wait(_)) => sleep(pauses.next().unwrap_or(CLAIM_PAUSES[3])).await,
                Ok(ClaimAnswer::Known(record)) => {
                    let version = record.version;
                    if let Some(record) = shared.verified(origin, record) {
                        // The sealed age counts: the engine may claim a younger one.
                        if newer_than.is_none_or(|age| record.age <= age) {
                            return ClaimOutcome::Known(record);
                        }
                        shared.count_corrupt(origin);
                    }
                    if distrusted != 0 || shared.is_clock_off() {
                        return ClaimOutcome::Fetch {
                            token: 0,
                            older: None,
                        };
                    }
                    // No node can verify it, so one of them has to replace it.
                    distrusted = version;
                }
                Ok(ClaimAnswer::Fetch { token, older }) => {
                    let older = older.and_then(|record| shared.verified(origin, record));
                    return ClaimOutcome::Fetch { token, older };
                }
                Err(_) => {
                    return ClaimOutcome::Fetch {
                        token: 0,
                        older: None,
                    };
                }
            }
        }
    }

    /// Returns the fleet's record of an origin, verified.
    pub(crate) async fn record(&self, origin: &str) -> Option<SharedRecord> {
        let shared = &self.inner;
        let found = shared
            .call_engine("record", shared.engine.record(origin))
            .await;
        shared.verified(origin, found.ok().flatten()?)
    }

    /// Sends the result of a fetch to the fleet; later, if the engine is away.
    pub(crate) async fn settle(&self, settlement: Settlement) {
        self.inner.settle(settlement, Instant::now()).await;
    }

    /// Reports a response that changes the pace, in the background. `heed` gets the rest that applies to all nodes.
    pub(crate) fn report_response(
        &self,
        answer: PacingResponse,
        heed: impl FnOnce(Duration) + Send + 'static,
    ) {
        if !self.is_shared() {
            return;
        }
        let shared = Arc::clone(&self.inner);
        tokio::spawn(async move {
            let rest = shared
                .call_engine("answered", shared.engine.answered(&answer))
                .await;
            if let Ok(Some(rest)) = rest {
                heed(rest);
            }
        });
    }

    /// Returns how long a record that is not revalidated is kept.
    pub(crate) fn retention(&self) -> Duration {
        self.inner.options.retention
    }

    /// Returns whether there may be other nodes.
    pub(crate) fn is_shared(&self) -> bool {
        self.inner.engine.is_shared()
    }

    /// Counts a record that could not be parsed.
    pub(crate) fn note_corrupt(&self, origin: &str) {
        self.inner.count_corrupt(origin);
    }
}

impl FleetInner {
    pub(super) async fn settle(&self, settlement: Settlement, learned: Instant) {
        let mut settled = self.send_settlement(&settlement, learned, 0).await;
        if let Ok(SettleAnswer::VersionTooLow(version)) = settled {
            settled = self.send_settlement(&settlement, learned, version).await;
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
            Err(_) => lock(&self.unsettled).push(settlement, learned),
        }
    }

    /// Sends a settlement with the time since `learned` added to its age, and a version above `known` where it is sealed.
    async fn send_settlement(
        &self,
        settlement: &Settlement,
        learned: Instant,
        known: u64,
    ) -> Result<SettleAnswer, EngineFailure> {
        let mut told = settlement.clone();
        told.record.age += learned.elapsed();
        told.fresh_for = told.fresh_for.saturating_sub(learned.elapsed());
        told.record.version = told.token;
        if let (Some(key), true) = (&self.options.key, told.change != RecordChange::Forgotten) {
            let now = self.engine_time();
            if told.token == 0 {
                // The engine cannot assign the version, because the seal covers it.
                let micros = u64::try_from(now.as_micros()).unwrap_or(VERSION_LIMIT);
                told.record.version = micros.max(known.saturating_add(1));
            }
            told.record = key.seal(&told.origin, told.record, now);
        }
        self.call_engine("settle", self.engine.settle(&told)).await
    }

    /// Returns the record if its version is sound and its seal, where there is a key, is valid.
    fn verified(&self, origin: &str, record: SharedRecord) -> Option<SharedRecord> {
        if self.is_clock_off() {
            return None;
        }
        let is_sound = record.version < VERSION_LIMIT;
        let trusted = match &self.options.key {
            _ if !is_sound => None,
            None => Some(record),
            Some(key) => key.unseal(origin, &record, self.engine_time()),
        };
        if trusted.is_none() {
            self.count_corrupt(origin);
        }
        trusted
    }

    fn count_corrupt(&self, origin: &str) {
        tracing::warn!(%origin, "a record of the fleet is not by one of its nodes, or damaged: it is not used");
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
