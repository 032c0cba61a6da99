//! The heads of the nodes' decision logs in the engine, which outlive the nodes.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use wayleave_evidence::LogHead;

use super::engine::EngineFailure;
use super::handle::Fleet;

/// The head of a node's log, as it is stored in the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeHead {
    /// The node that published it.
    pub node: String,
    /// The engine's time until which it is kept, since the epoch.
    pub kept_until: Duration,
    pub head: LogHead,
    /// The bytes in the engine.
    pub stored: Vec<u8>,
}

/// The content of a stored head, below its seal.
#[derive(Serialize, Deserialize)]
struct HeadRecord {
    node: String,
    /// In milliseconds since the epoch.
    kept_until: u64,
    head: String,
}

/// Returns the name under which the head of a log is sealed. No origin has such a name.
fn subject(log: &str) -> String {
    format!("head {log}")
}

impl Fleet {
    /// Returns the head of this node's log as it is stored: sealed, if there is a key.
    pub fn own_head(&self, head: &LogHead, retention: Duration) -> NodeHead {
        let node = self.inner.settings.node.clone();
        let kept_until = self.inner.engine_time().saturating_add(retention);
        let millis = u64::try_from(kept_until.as_millis()).unwrap_or(u64::MAX);
        let record = HeadRecord { node, kept_until: millis, head: head.line.clone() };
        let mut stored = serde_json::to_vec(&record).expect("strings and numbers serialise");
        if let Some(key) = &self.inner.settings.key {
            stored = key.seal_bytes(&subject(&head.count.log), &stored);
        }
        NodeHead { node: record.node, kept_until, head: head.clone(), stored }
    }

    /// Returns a stored head of a log if a node of this fleet wrote it, as far as a key can show, and its log's key signed it.
    pub fn verified_head(&self, log: &str, stored: &[u8]) -> Option<NodeHead> {
        let bytes = match &self.inner.settings.key {
            Some(key) => key.unseal_bytes(&subject(log), stored)?,
            None => stored,
        };
        let HeadRecord { node, kept_until, head } = serde_json::from_slice(bytes).ok()?;
        let head = LogHead::parse(&head).filter(|head| head.count.log == log)?;
        let kept_until = Duration::from_millis(kept_until);
        Some(NodeHead { node, kept_until, head, stored: stored.to_vec() })
    }

    /// Returns the stored heads, each with the id of its log.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine is away, which is counted.
    pub async fn stored_heads(&self) -> Result<Vec<(String, Vec<u8>)>, EngineFailure> {
        self.inner.call_engine("head", self.inner.engine.heads()).await
    }

    /// Stores a head in place of `expected`, or nothing in its place. Returns the stored head if that is another one.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine is away, which is counted.
    pub async fn replace_head(
        &self,
        log: &str,
        expected: &[u8],
        head: Option<&NodeHead>,
    ) -> Result<Option<Vec<u8>>, EngineFailure> {
        let retention = head.map_or(Duration::ZERO, |head| self.time_left(head));
        let stored = head.map_or(&[][..], |head| &head.stored);
        let call = self.inner.engine.replace_head(log, expected, stored, retention);
        self.inner.call_engine("head", call).await
    }

    /// Returns how long a head is still kept.
    pub fn time_left(&self, head: &NodeHead) -> Duration {
        head.kept_until.saturating_sub(self.inner.engine_time())
    }
}
