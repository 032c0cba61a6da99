//! Facts: who fetches, and what came of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::engine::{
    Answer, Claim, Claimed, Failure, Kind, Record, Settled, Settlement, UNSOUND_VERSION,
};
use super::handle::{Event, Fleet, Shared, lock};

/// How long to wait before asking again whether another node's fetch has ended; the last one goes on.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
];

/// What to do about an origin.
#[derive(Debug)]
pub(crate) enum Claimable {
    /// Go by this.
    Known(Record),
    /// Fetch, and settle with this token.
    Fetch {
        /// 0 if the engine could not be asked.
        token: u64,
        /// What is known, though too old to go by.
        older: Option<Record>,
    },
}

impl Fleet {
    /// Whether to fetch `origin`'s robots.txt. Waits for as long as another node does. What is known serves if it was learned
    /// later than `newer_than` ago, by now.
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
                        // The engine may say that it is newer than it is.
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
                    // Nobody can go by it, so one node replaces it.
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

    /// What the fleet knows of an origin.
    pub(crate) async fn record(&self, origin: &str) -> Option<Record> {
        let shared = &self.shared;
        let found = shared.ask("record", shared.engine.record(origin)).await;
        shared.trusted(origin, found.ok().flatten()?)
    }

    /// Tells the fleet what was learned. What cannot be told now is told later.
    pub(crate) async fn settle(&self, settlement: Settlement) {
        self.shared.settle(settlement, Instant::now()).await;
    }

    /// Tells the fleet of an answer that says how often to come; beside. `heed` takes how long the origin rests over all.
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

    /// How long what nobody confirms is kept.
    pub(crate) fn keep(&self) -> Duration {
        self.shared.options.keep
    }

    /// Whether there may be other nodes.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared.engine.is_shared()
    }

    /// A record could not be read.
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
            // There is no room for it, or it is not to be had there.
            Err(Failure::Full | Failure::Corrupt(_)) => {}
            Err(_) => lock(&self.unsettled).push(settlement, learned),
        }
    }

    /// Tells the engine what was learned, as a version beyond `known`.
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
                // The engine cannot say: what it is comes under the seal.
                let micros = u64::try_from(now.as_micros()).unwrap_or(UNSOUND_VERSION);
                told.record.version = micros.max(known.saturating_add(1));
            }
            told.record = key.seal(&told.origin, told.record, now);
        }
        self.ask("settle", self.engine.settle(&told)).await
    }

    /// The record, if it can be gone by.
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
