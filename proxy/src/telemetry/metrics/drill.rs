//! Metrics of the drill.

use prometheus::{IntCounterVec, Registry};

use super::constructors::counters;

const RESULTS: &str = "Drills by what must be refused, and whether it was ([drill]).";

/// Registers the results of drills.
pub(super) fn register(registry: &Registry) -> anyhow::Result<IntCounterVec> {
    counters(registry, "drill_results_total", RESULTS, &["family", "result"])
}
