//! The logs of the nodes that answer, compared with the heads that the fleet knows: decisions that a node has lost, or took
//! with it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use wayleave_decision_log::LogGap;
use wayleave_evidence::LogHead;

use super::node_url::NodeUrl;
use crate::cli::admin_client::{request_bytes, request_json};

/// The answer of `/v1/fleet`, as far as it is about logs. Earlier versions name none.
#[derive(Deserialize)]
struct FleetAnswer {
    node: Option<String>,
    #[serde(default)]
    logs: Vec<KnownLog>,
}

#[derive(Deserialize)]
struct KnownLog {
    node: String,
    head: String,
}

/// The answer of `/v1/evidence`, as far as it is about the head and the files. Earlier versions name no files.
#[derive(Deserialize)]
struct EvidenceAnswer {
    head: Option<String>,
    #[serde(default)]
    missing: Vec<LogGap>,
}

/// A node that answered.
#[derive(Debug, Default)]
pub(crate) struct AskedNode {
    /// Its name in the fleet, if it is in one.
    pub(crate) name: Option<String>,
    /// The files of its log that are missing.
    pub(crate) gaps: Vec<LogGap>,
}

/// The heads of all logs that nodes know, and the logs that they have.
#[derive(Debug, Default)]
pub(crate) struct NodeLogs {
    /// The newest published head of each log, with its node, by the log's id.
    published: BTreeMap<String, (String, LogHead)>,
    /// The heads of the logs of those that answered.
    there: BTreeMap<String, LogHead>,
    /// The names of those that answered.
    answered: BTreeSet<String>,
}

/// Decisions that no node which answered has.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct MissingDecisions {
    /// The node that had published a head of its log.
    #[serde(skip)]
    pub(crate) node: String,
    log: String,
    reason: MissingReason,
    /// The time of the last published head.
    head_at: String,
    #[serde(skip)]
    until: SystemTime,
    /// The number of decisions.
    decisions: u64,
    head: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum MissingReason {
    /// No node which answered has the log.
    NoAnswer,
    /// The node answered with another log.
    AnotherLog,
    /// The log is shorter than it was, or other lines are in it.
    CutBack,
}

impl NodeLogs {
    /// Asks a node for its log's head, and for the heads that it knows.
    ///
    /// # Errors
    ///
    /// Returns an error if it does not answer.
    pub(crate) fn ask(&mut self, node: &NodeUrl) -> anyhow::Result<AskedNode> {
        let address = node.address()?;
        let known: FleetAnswer =
            serde_json::from_value(request_json(address, "GET", "/v1/fleet")?)?;
        // Asked second, so that its log is at least as long as the head of it that is known.
        let own = request_bytes(address, "/v1/evidence")?;
        let own: Option<EvidenceAnswer> =
            own.map(|own| serde_json::from_slice(&own)).transpose().context("/v1/evidence")?;
        self.answered.extend(known.node.clone());
        for KnownLog { node, head } in known.logs {
            // A head that its log's key has not signed says nothing.
            if let Some(head) = LogHead::parse(&head) {
                self.add_published(node, head);
            }
        }
        let (head, gaps) = own.map(|own| (own.head, own.missing)).unwrap_or_default();
        let own = head.and_then(|head| LogHead::parse(&head));
        self.there.extend(own.map(|head| (head.count.log.clone(), head)));
        Ok(AskedNode { name: known.node, gaps })
    }

    fn add_published(&mut self, node: String, head: LogHead) {
        let before = self.published.get(&head.count.log);
        if before.is_none_or(|(_, before)| before.precedes(&head)) {
            self.published.insert(head.count.log.clone(), (node, head));
        }
    }

    /// Returns the last published head of a log.
    pub(super) fn published(&self, log: &str) -> Option<&LogHead> {
        self.published.get(log).map(|(_, head)| head)
    }

    /// Returns the missing decisions, by node.
    pub(crate) fn missing(&self) -> Vec<MissingDecisions> {
        let mut missing: Vec<_> = self
            .published
            .iter()
            .filter_map(|(log, (node, head))| {
                let (reason, decisions) = match self.there.get(log) {
                    Some(there) => (MissingReason::CutBack, head.missing_from(there)),
                    None if self.answered.contains(node) => {
                        (MissingReason::AnotherLog, head.count.total())
                    }
                    None => (MissingReason::NoAnswer, head.count.total()),
                };
                let is_whole = reason == MissingReason::CutBack && decisions == 0;
                (!is_whole).then(|| MissingDecisions {
                    node: node.clone(),
                    log: log.clone(),
                    reason,
                    until: head.at,
                    head_at: humantime::format_rfc3339_micros(head.at).to_string(),
                    decisions,
                    head: head.line.clone(),
                })
            })
            .collect();
        missing.sort_by(|one, other| (&one.node, &one.log).cmp(&(&other.node, &other.log)));
        missing
    }
}

impl MissingDecisions {
    /// Returns a sentence about it.
    pub(super) fn describe(&self) -> String {
        let Self { node, log, head_at, .. } = self;
        format!("node {node}: {} (log {log}, last head of {head_at})", self.phrase())
    }

    /// Returns a phrase that says how many decisions are missing, and why.
    pub(crate) fn phrase(&self) -> String {
        let what = match self.reason {
            MissingReason::NoAnswer => "no answer has its log",
            MissingReason::AnotherLog => "it answers with another log",
            MissingReason::CutBack => "its log was cut back",
        };
        format!("{what}: {} decisions are missing", self.decisions)
    }

    /// Returns the time until which these decisions were made, as far as others know. If the node is gone, it may have gone on.
    pub(crate) fn until(&self) -> Option<SystemTime> {
        (self.reason != MissingReason::NoAnswer).then_some(self.until)
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::Ed25519KeyPair;
    use wayleave_evidence::chain::{HashChain, LogCount, TreeHead};

    use super::*;

    fn head(log: &str, decisions: u64) -> LogHead {
        let key = Ed25519KeyPair::from_seed_unchecked(&[1; 32]).unwrap();
        let mut chain = HashChain::new();
        for line in 0..decisions {
            chain.append(format!("{{\"id\":{line}}}").as_bytes());
        }
        let count = LogCount { decisions, ..LogCount::new(log.to_owned()) };
        let head = TreeHead { count: Some(count), ..chain.tree_head(&key) };
        let line = chain.sign_head(&key, SystemTime::UNIX_EPOCH, head);
        LogHead::parse(str::from_utf8(&line).unwrap()).unwrap()
    }

    #[test]
    fn each_log_that_is_not_as_long_as_its_head_is_missing() {
        let mut logs = NodeLogs::default();
        for (node, log, decisions) in
            [("a", "1", 3), ("b", "2", 7), ("b", "2", 5), ("c", "3", 4), ("d", "4", 9)]
        {
            logs.add_published(node.to_owned(), head(log, decisions));
        }
        logs.answered.extend(["a", "b", "c"].map(str::to_owned));
        // A head is published a while after the log was written.
        for (log, decisions) in [("1", 6), ("2", 5), ("5", 1)] {
            logs.there.insert(log.to_owned(), head(log, decisions));
        }
        let missing: Vec<_> =
            logs.missing().into_iter().map(|missing| missing.describe()).collect();
        let last = "last head of 1970-01-01T00:00:00.000000Z)";
        assert_eq!(
            missing,
            [
                format!("node b: its log was cut back: 2 decisions are missing (log 2, {last}"),
                format!(
                    "node c: it answers with another log: 4 decisions are missing (log 3, {last}"
                ),
                format!("node d: no answer has its log: 9 decisions are missing (log 4, {last}"),
            ]
        );
    }
}
