//! Records: which node fetches a robots.txt, and what the fetch brought.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::engine::{
    Answer, Claim, Claimed, Failure, Kind, Record, Settled, Settlement, UNSOUND_VERSION,
};
use super::handle::{Event, Fleet, Shared, lock};

/// The pauses before asking again whether another node's fetch has ended; the last one repeats.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
];

/// The outcome of a claim for the caller.
#[derive(Debug)]
pub(crate) enum Claimable {
    /// The fleet's record, verified.
    Known(Record),
    /// This node fetches.
    Fetch {
        /// The token to settle the fetch with. 0: the engine could not be asked.
        token: u64,
        /// The stale record, to be revalidated.
        older: Option<Record>,
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
    ) -> Claimable {
        let started = Instant::now();
        let mut pauses = PAUSES.into_iter().chain(std::iter::repeat(PAUSES[3]));
        let mut distrusted = 0;
        loop {
            let newer_than = newer_than.map(|age| age + started.elapsed());
            let claim = Claim {
                origin: origin.to_owned(),
                newer_than,
                lease,
                distrusted,
            };
            let shared = &self.shared;
            let claimed = shared.ask("claim", shared.engine.claim(&claim)).await;
            shared.count_claim(&claimed);
            match claimed {
                Ok(Claimed::Wait(_)) => sleep(pauses.next().unwrap_or(PAUSES[3])).await,
                Ok(Claimed::Known(record)) => {
                    let version = record.version;
                    if let Some(record) = shared.trusted(origin, record) {
                        // The sealed age counts: the engine may claim a younger one.
                        if newer_than.is_none_or(|age| record.age <= age) {
                            return Claimable::Known(record);
                        }
                        shared.corrupt(origin);
                    }
                    if distrusted != 0 || shared.is_clock_off() {
                        return Claimable::Fetch {
                            token: 0,
                            older: None,
                        };
                    }
                    // No node can verify it, so one of them has to replace it.
                    distrusted = version;
                }
                Ok(Claimed::Fetch { token, older }) => {
                    let older = older.and_then(|record| shared.trusted(origin, record));
                    return Claimable::Fetch { token, older };
                }
                Err(_) => {
                    return Claimable::Fetch {
                        token: 0,
                        older: None,
                    };
                }
            }
        }
    }

    /// Returns the fleet's record of an origin, verified.
    pub(crate) async fn record(&self, origin: &str) -> Option<Record> {
        let shared = &self.shared;
        let found = shared.ask("record", shared.engine.record(origin)).await;
        shared.trusted(origin, found.ok().flatten()?)
    }

    /// Sends the result of a fetch to the fleet; later, if the engine is away.
    pub(crate) async fn settle(&self, settlement: Settlement) {
        self.shared.settle(settlement, Instant::now()).await;
    }

    /// Reports a response that changes the pace, in the background. `heed` gets the rest that applies to all nodes.
    pub(crate) fn tell_answer(&self, answer: Answer, heed: impl FnOnce(Duration) + Send + 'static) {
        if !self.is_shared() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            let rest = shared
                .ask("answered", shared.engine.answered(&answer))
                .await;
            if let Ok(Some(rest)) = rest {
                heed(rest);
            }
        });
    }

    /// Returns how long a record that is not revalidated is kept.
    pub(crate) fn keep(&self) -> Duration {
        self.shared.options.keep
    }

    /// Returns whether there may be other nodes.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared.engine.is_shared()
    }

    /// Counts a record that could not be parsed.
    pub(crate) fn note_corrupt(&self, origin: &str) {
        self.shared.corrupt(origin);
    }
}

impl Shared {
    pub(super) async fn settle(&self, settlement: Settlement, learned: Instant) {
        let mut settled = self.tell_engine(&settlement, learned, 0).await;
        if let Ok(Settled::Behind(version)) = settled {
            settled = self.tell_engine(&settlement, learned, version).await;
        }
        match settled {
            Ok(settled) => {
                if let Some(metrics) = &self.metrics {
                    metrics.fleet().settled(settlement.kind.as_str());
                }
                if settled != Settled::Kept {
                    let Settlement { origin, token, .. } = settlement;
                    self.tell_followers([Event::Superseded(origin, token)]);
                }
            }
            // Sending it again later would fail for the same reason.
            Err(Failure::Full | Failure::Corrupt(_)) => {}
            Err(_) => lock(&self.unsettled).push(settlement, learned),
        }
    }

    /// Sends a settlement with the time since `learned` added to its age, and a version above `known` where it is sealed.
    async fn tell_engine(
        &self,
        settlement: &Settlement,
        learned: Instant,
        known: u64,
    ) -> Result<Settled, Failure> {
        let mut told = settlement.clone();
        told.record.age += learned.elapsed();
        told.fresh_for = told.fresh_for.saturating_sub(learned.elapsed());
        told.record.version = told.token;
        if let (Some(key), true) = (&self.options.key, told.kind != Kind::Forgotten) {
            let now = self.engine_time();
            if told.token == 0 {
                // The engine cannot assign the version, because the seal covers it.
                let micros = u64::try_from(now.as_micros()).unwrap_or(UNSOUND_VERSION);
                told.record.version = micros.max(known.saturating_add(1));
            }
            told.record = key.seal(&told.origin, told.record, now);
        }
        self.ask("settle", self.engine.settle(&told)).await
    }

    /// Returns the record if its version is sound and its seal, where there is a key, is valid.
    fn trusted(&self, origin: &str, record: Record) -> Option<Record> {
        if self.is_clock_off() {
            return None;
        }
        let is_sound = record.version < UNSOUND_VERSION;
        let trusted = match &self.options.key {
            _ if !is_sound => None,
            None => Some(record),
            Some(key) => key.unseal(origin, &record, self.engine_time()),
        };
        if trusted.is_none() {
            self.corrupt(origin);
        }
        trusted
    }

    fn corrupt(&self, origin: &str) {
        tracing::warn!(%origin, "a record of the fleet is not by one of its nodes, or damaged: it is not used");
        if let Some(metrics) = &self.metrics {
            metrics.fleet().error("corrupt");
        }
    }

    fn count_claim(&self, claimed: &Result<Claimed, Failure>) {
        let answer = match claimed {
            Ok(Claimed::Known(_)) => "known",
            Ok(Claimed::Fetch { .. }) => "fetch",
            Ok(Claimed::Wait(_)) => "wait",
            Err(_) => return,
        };
        if let Some(metrics) = &self.metrics {
            metrics.fleet().claim(answer);
        }
    }
}
