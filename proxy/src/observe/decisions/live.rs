//! New decisions for watchers, such as the admin page.
//!
//! Watchers cost an exchange nothing. While there are any, one task looks for new decisions four times a second and sends the
//! same batch to all. Text that one watcher renders is reused by the others.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::MissedTickBehavior;

use super::decision::Decision;
use super::recent::Recent;
use crate::observe::harmless::harmless_json;

const PAUSE: Duration = Duration::from_millis(250);
/// The number of batches by which a watcher may lag before it misses some.
const WAITING: usize = 16;

/// The channel to all watchers.
pub(super) struct Live {
    watchers: broadcast::Sender<Arc<Batch>>,
}

/// The decisions made between two polls.
struct Batch {
    /// The number of the first decision.
    first: usize,
    decisions: Vec<Arc<Announced>>,
}

/// A new decision and its rendered event.
pub(crate) struct Announced {
    pub(crate) decision: Arc<Decision>,
    event: OnceLock<Bytes>,
}

impl Announced {
    /// Returns the decision as a server-sent event, rendered once for all watchers.
    pub(crate) fn event(&self) -> &Bytes {
        self.event.get_or_init(|| {
            let id = self.decision.id;
            let data = serde_json::to_vec(&*self.decision);
            let data = harmless_json(data.expect("strings and numbers serialise"));
            let head = format!("event: decision\nid: {id}\ndata: ");
            [head.as_bytes(), &data, b"\n\n"].concat().into()
        })
    }
}

/// A subscription to decisions from some moment on.
pub(crate) struct Watch {
    batches: broadcast::Receiver<Arc<Batch>>,
    /// The number of the next decision.
    next: usize,
}

/// New decisions for one watcher.
pub(crate) struct Seen {
    pub(crate) decisions: Vec<Arc<Announced>>,
    /// The number of decisions before these that the watcher missed: it was too slow, or there were too many.
    pub(crate) missed: usize,
}

impl Live {
    pub(super) fn new() -> Self {
        Self {
            watchers: broadcast::Sender::new(WAITING),
        }
    }

    pub(super) fn watch(&self, recent: &Recent) -> Watch {
        Watch {
            batches: self.watchers.subscribe(),
            next: recent.next(),
        }
    }

    /// Polls for new decisions; never returns.
    pub(super) async fn run(&self, recent: &Recent) {
        let mut looks = tokio::time::interval(PAUSE);
        // After a delay, one poll finds everything; a burst of them would find nothing more.
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Starting at zero is right for those who subscribed before the first poll: each watcher skips what is older than
        // itself.
        let mut next = 0;
        loop {
            looks.tick().await;
            if self.watchers.receiver_count() == 0 {
                next = recent.next();
                continue;
            }
            let run = recent.since(next);
            next = run.end();
            if run.decisions.is_empty() {
                continue;
            }
            let announce = |decision| {
                Arc::new(Announced {
                    decision,
                    event: OnceLock::new(),
                })
            };
            let batch = Batch {
                first: run.first,
                decisions: run.decisions.into_iter().map(announce).collect(),
            };
            // Fails if the last watcher has just gone.
            let _ = self.watchers.send(Arc::new(batch));
        }
    }
}

impl Watch {
    /// Waits for decisions; `None` when there will be no more.
    pub(crate) async fn next(&mut self) -> Option<Seen> {
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
                return Some(Seen {
                    decisions: new.to_vec(),
                    missed,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::decision::Recorded;
    use super::super::tests::decision;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn watcher_gets_new_decisions_and_count_of_missed_ones() {
        let recent = Recent::new();
        let live = Live::new();
        let push = |count: usize| (0..count).for_each(|_| recent.push(&Recorded::new(&decision())));
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
            assert!(
                event.ends_with("}\n\n") && event.lines().count() == 4,
                "{event}"
            );
        };
        tokio::select! {
            () = live.run(&recent) => unreachable!("it runs for ever"),
            () = watching => {}
        }
    }
}
