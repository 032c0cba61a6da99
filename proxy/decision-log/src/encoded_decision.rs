//! The line of a decision, and the id that it is found by.

use uuid::Uuid;
use wayleave_record::{DecisionId, DecisionRecord};

/// The initial capacity for a line, which most lines fit.
const TYPICAL_LINE_BYTES: usize = 1024;

/// Makes a UUID of version 7, so that ids sort by time (RFC 9562 section 5.7).
pub fn new_decision_id() -> DecisionId {
    DecisionId::new(Uuid::now_v7())
}

/// A decision encoded as its line of the log, once for memory and file.
#[derive(Debug)]
pub(super) struct EncodedDecision {
    pub(super) id: DecisionId,
    /// The number of the configuration that decided.
    pub(super) configuration: u64,
    pub(super) line: Vec<u8>,
}

impl EncodedDecision {
    pub(super) fn new(decision: &DecisionRecord) -> Self {
        let mut line = Vec::with_capacity(TYPICAL_LINE_BYTES);
        decision.write_json(&mut line);
        line.push(b'\n');
        Self { id: decision.id, configuration: decision.configuration, line }
    }
}
