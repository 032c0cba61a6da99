//! The heads of all nodes' decision logs: a node publishes its own in the fleet's engine, so that others notice if its log is cut
//! back, or disappears together with the node.
//!
//! Each node also remembers the heads of the others. It puts back a head that an engine without persistence has lost, and a
//! newer head where somebody has restored an older one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use wayleave_evidence::LogHead;
use wayleave_fleet::{Fleet, NodeHead};

use crate::DecisionLog;

/// The interval at which this node publishes its head, if it has a new one.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(1);
/// Others' heads are read once in this many of these intervals.
const ROUNDS_PER_READ: u64 = 5;

/// The heads that this node knows, by the ids of their logs.
#[derive(Debug, Default)]
pub struct LogHeads(Mutex<BTreeMap<String, NodeHead>>);

impl LogHeads {
    /// Returns all of them.
    pub fn list(&self) -> Vec<NodeHead> {
        self.lock().values().cloned().collect()
    }

    /// Remembers a head, unless a later one of its log is known, or its key was not handed over from the known head's key.
    fn note(&self, found: NodeHead) {
        let mut known = self.lock();
        let is_later = known.get(&found.head.count.log).is_none_or(|before| {
            let is_of_same_log = found.head.head.has_had_key(&before.head.head.key);
            is_of_same_log && before.head.precedes(&found.head)
        });
        if is_later {
            known.insert(found.head.count.log.clone(), found);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, NodeHead>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that publishes this node's head and reads those of others.
#[derive(Debug)]
pub struct HeadExchange {
    fleet: Fleet,
    decisions: Arc<DecisionLog>,
    known: Arc<LogHeads>,
    /// The head that this process has published last.
    published: Option<NodeHead>,
    /// The head with which the log was compared last.
    compared: Option<LogHead>,
    /// The stored values that failed verification and have been counted.
    refused: BTreeSet<Vec<u8>>,
}

impl HeadExchange {
    pub fn new(fleet: Fleet, decisions: Arc<DecisionLog>, known: Arc<LogHeads>) -> Self {
        let published = None;
        let compared = None;
        let refused = BTreeSet::new();
        Self { fleet, decisions, known, published, compared, refused }
    }

    /// Publishes and reads until the process ends. Returns at once without a fleet.
    pub async fn run(mut self) {
        if !self.fleet.is_shared() {
            return;
        }
        let mut rounds = interval(PUBLISH_INTERVAL);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for round in 0_u64.. {
            rounds.tick().await;
            self.publish().await;
            if round.is_multiple_of(ROUNDS_PER_READ) {
                self.read().await;
            }
        }
    }

    /// Publishes the newest head of this node's log, unless it is published. If that fails, the next round tries again.
    async fn publish(&mut self) {
        let (Some(newest), Some(log)) = (self.decisions.newest_head(), self.decisions.journal())
        else {
            return;
        };
        let id = &newest.count.log;
        let retention = log.config.keep;
        // A reload may have replaced the log.
        self.published.take_if(|before| before.head.count.log != *id);
        if let Some(before) = &self.published {
            // The head of an idle log is renewed, so that it is kept as long as the log.
            if before.head == newest && self.fleet.time_left(before) > retention / 2 {
                return;
            }
            let published = before.head.clone();
            if !published.precedes(&newest) && self.compare(published).await {
                return;
            }
        }
        let own = self.fleet.own_head(&newest, retention);
        let expected = self.published.as_ref().map_or(&[][..], |before| &before.stored);
        match self.fleet.replace_head(id, expected, Some(&own)).await {
            Err(_) => return,
            Ok(None) => {}
            Ok(Some(stored)) => {
                if self.compare_unless_older(&newest, &stored).await {
                    return;
                }
                let replaced = self.fleet.replace_head(id, &stored, Some(&own)).await;
                if replaced != Ok(None) {
                    return;
                }
            }
        }
        self.known.note(own.clone());
        self.published = Some(own);
    }

    /// Looks at the head that is stored in place of the one that this process published. An earlier process may have
    /// published it from a longer log. Returns whether the log has just been compared with it, in which case a newer
    /// head must be published.
    async fn compare_unless_older(&mut self, newest: &LogHead, stored: &[u8]) -> bool {
        let id = &newest.count.log;
        let found = self.fleet.verified_head(id, stored);
        let Some(found) = found.filter(|found| newest.head.has_had_key(&found.head.head.key))
        else {
            if !stored.is_empty() {
                self.fleet.note_corrupt(id);
            }
            return false;
        };
        let is_older =
            self.published.as_ref().is_some_and(|before| found.head.precedes(&before.head));
        !is_older && self.compare(found.head).await
    }

    /// Has the log compared with a published head of it. Returns false if this was the last head compared.
    async fn compare(&mut self, published: LogHead) -> bool {
        if self.compared.as_ref() == Some(&published) {
            return false;
        }
        self.decisions.compare_with(published.clone()).await;
        self.compared = Some(published);
        true
    }

    /// Reads the heads of all nodes, and puts back those that are missing or older than before.
    async fn read(&mut self) {
        let Ok(stored) = self.fleet.stored_heads().await else {
            return;
        };
        let stored: BTreeMap<_, _> = stored.into_iter().collect();
        let mut refused = BTreeSet::new();
        for (log, bytes) in &stored {
            match self.fleet.verified_head(log, bytes) {
                Some(found) if self.fleet.time_left(&found).is_zero() => {
                    // On failure, another node or the next round does it.
                    let _ = self.fleet.replace_head(log, bytes, None).await;
                }
                Some(found) => self.known.note(found),
                None => {
                    if !self.refused.contains(bytes) {
                        self.fleet.note_corrupt(log);
                    }
                    refused.insert(bytes.clone());
                }
            }
        }
        self.refused = refused;
        self.known.lock().retain(|_, head| !self.fleet.time_left(head).is_zero());
        for known in self.known.list() {
            let log = &known.head.count.log;
            let found = stored.get(log);
            if found == Some(&known.stored) {
                continue;
            }
            let expected = found.map_or(&[][..], Vec::as_slice);
            if self.fleet.replace_head(log, expected, Some(&known)).await == Ok(None) {
                let was = if found.is_some() { "older, or not by a node" } else { "missing" };
                tracing::warn!(node = %known.node, %log, "the head of a node's log in the fleet's engine was {was}; it was put back");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use ring::signature::Ed25519KeyPair;
    use wayleave_evidence::chain::{HashChain, LogCount, TreeHead, hand_over_head};

    use super::*;

    fn key(seed: u8) -> Ed25519KeyPair {
        Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()
    }

    fn signed(key: &Ed25519KeyPair) -> Vec<u8> {
        let chain = HashChain::new();
        let count = Some(LogCount::new("a".to_owned()));
        let head = TreeHead { count, ..chain.tree_head(key) };
        chain.sign_head(key, SystemTime::UNIX_EPOCH, head)
    }

    #[test]
    fn a_head_of_another_key_counts_if_the_log_was_handed_over() {
        let known = LogHeads::default();
        let note = |line: Vec<u8>| {
            let head = LogHead::parse(str::from_utf8(&line).unwrap()).unwrap();
            let node = "n".to_owned();
            let kept_until = Duration::ZERO;
            known.note(NodeHead { node, kept_until, head, stored: line.clone() });
            known.list()[0].stored == line
        };
        let old = signed(&key(1));
        assert!(note(old.clone()));
        assert!(!note(signed(&key(2))));
        assert!(note(hand_over_head(&old, &key(1), &key(2)).unwrap()));
        assert!(!note(old), "it was handed over");
    }
}
