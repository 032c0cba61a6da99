//! New decisions for watchers, such as the admin page.
//!
//! Watchers cost an exchange nothing. While there are any, one task looks for new decisions four times a second and sends the
//! same batch to all. Text that one watcher renders is reused by the others.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, broadcast};
use tokio::time::MissedTickBehavior;
use wayleave_notation::harmless::escape_json;
use wayleave_record::DecisionRecord;

use super::recent::RecentDecisions;

const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The number of batches by which a watcher may lag before it misses some.
const MAX_LAG_BATCHES: usize = 16;

/// The channel to all watchers.
pub(super) struct LiveFeed {
    watchers: broadcast::Sender<Arc<LiveBatch>>,
    has_watcher: Notify,
    /// The number of the first decision that a new watcher wants; the largest number if none is new.
    first_wanted: AtomicUsize,
}

/// The decisions made between two polls.
struct LiveBatch {
    /// The number of the first decision.
    first: usize,
    decisions: Vec<Arc<LiveDecision>>,
}

/// A new decision and its rendered event.
pub struct LiveDecision {
    pub decision: Arc<DecisionRecord>,
    event: OnceLock<Bytes>,
}

impl LiveDecision {
    /// Returns the decision as a server-sent event, rendered once for all watchers.
    pub fn event(&self) -> &Bytes {
        self.event.get_or_init(|| to_event(&self.decision))
    }
}

/// Returns a decision as a server-sent event.
pub fn to_event(decision: &DecisionRecord) -> Bytes {
    let json = serde_json::to_vec(decision).expect("strings and numbers serialise");
    let head = format!("event: decision\nid: {}\ndata: ", decision.id);
    [head.as_bytes(), &escape_json(json), b"\n\n"].concat().into()
}

/// A subscription to decisions from some moment on.
pub struct DecisionWatch {
    batches: broadcast::Receiver<Arc<LiveBatch>>,
    /// The number of the next decision.
    next: usize,
}

/// New decisions for one watcher.
pub struct WatchedBatch {
    pub decisions: Vec<Arc<LiveDecision>>,
    /// The number of decisions before these that the watcher missed: it was too slow, or there were too many.
    pub missed: usize,
}

impl LiveFeed {
    pub(super) fn new() -> Self {
        Self {
            watchers: broadcast::Sender::new(MAX_LAG_BATCHES),
            has_watcher: Notify::new(),
            first_wanted: AtomicUsize::new(usize::MAX),
        }
    }

    pub(super) fn watch(&self, recent: &RecentDecisions) -> DecisionWatch {
        let next = recent.next_number();
        // Before it counts as a watcher: whoever sees it knows where it begins.
        self.first_wanted.fetch_min(next, Ordering::SeqCst);
        let batches = self.watchers.subscribe();
        self.has_watcher.notify_one();
        DecisionWatch { batches, next }
    }

    /// Polls for new decisions; never returns.
    pub(super) async fn run(&self, recent: &RecentDecisions) {
        let mut polls = tokio::time::interval(POLL_INTERVAL);
        // After a delay, one poll finds everything; a burst of them would find nothing more.
        polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut next = usize::MAX;
        loop {
            polls.tick().await;
            if self.watchers.receiver_count() == 0 {
                // Nothing wakes while nobody watches. Decisions until then are skipped, not kept for the next watcher.
                self.has_watcher.notified().await;
                next = usize::MAX;
                continue;
            }
            // Each watcher skips decisions that are older than itself.
            next = next.min(self.first_wanted.swap(usize::MAX, Ordering::SeqCst));
            let run = recent.since(next);
            next = run.end();
            if run.decisions.is_empty() {
                continue;
            }
            let live = |decision| Arc::new(LiveDecision { decision, event: OnceLock::new() });
            let batch = LiveBatch {
                first: run.first,
                decisions: run.decisions.into_iter().map(live).collect(),
            };
            // Fails if the last watcher has just gone.
            let _ = self.watchers.send(Arc::new(batch));
        }
    }
}

impl DecisionWatch {
    /// Waits for decisions; `None` when there will be no more.
    pub async fn next(&mut self) -> Option<WatchedBatch> {
        loop {
            let batch = match self.batches.recv().await {
                Ok(batch) => batch,
                // The numbers of the next batch show how many decisions were missed.
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return None,
            };
            // A batch may begin before this subscription did, or after decisions that were overwritten before they could be sent.
            let known = self.next.saturating_sub(batch.first);
            let missed = batch.first.saturating_sub(self.next);
            let new = batch.decisions.get(known..).unwrap_or_default();
            self.next = self.next.max(batch.first + batch.decisions.len());
            if !new.is_empty() {
                return Some(WatchedBatch { decisions: new.to_vec(), missed });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::encoded_decision::EncodedDecision;
    use super::super::tests::decision;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn watcher_gets_new_decisions_and_count_of_missed_ones() {
        let recent = RecentDecisions::new();
        let live = LiveFeed::new();
        let push =
            |count: usize| (0..count).for_each(|_| recent.push(&EncodedDecision::new(&decision())));
        push(3);
        let mut watch = live.watch(&recent);
        let watching = async {
            push(2);
            let seen = watch.next().await.unwrap();
            assert_eq!((seen.decisions.len(), seen.missed), (2, 0));
            push(10_000);
            let seen = watch.next().await.unwrap();
            assert_eq!(seen.decisions.len() + seen.missed, 10_000);
            assert!(seen.missed > 0);
            let event = String::from_utf8(seen.decisions[0].event().to_vec()).unwrap();
            assert!(event.starts_with("event: decision\nid: "), "{event}");
            assert!(event.ends_with("}\n\n") && event.lines().count() == 4, "{event}");
        };
        tokio::select! {
            () = live.run(&recent) => unreachable!("it runs for ever"),
            () = watching => {}
        }
    }
}
