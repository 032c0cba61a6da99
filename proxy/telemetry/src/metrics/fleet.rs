//! Metrics of the fleet: calls of its engine, and changes by other nodes.

use std::time::Duration;

use prometheus::{
    Gauge, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry,
};

use super::constructors::{counter, counters, gauge, gauges, histogram, histograms, register};

const CALLS: &str = "Duration of calls to the fleet's engine, by verb.";
const ERRORS: &str =
    "Calls to the fleet's engine that failed, by kind; corrupt: records that were not used.";
const CLAIMS: &str = "Requests to the fleet before a robots.txt is fetched, by the answer.";
const SETTLED: &str =
    "Results of fetches that were shared with the fleet, by whether they changed anything.";
const TURNS: &str = "Requests for a slot in the fleet, by the answer.";
const TURN_WAIT: &str = "Time that requests waited for a slot in the fleet.";
const STATE: &str = "1 for this node's state in the fleet; all 0 for a node without one.";
const MEMBERS: &str = "Nodes of the fleet at the last beat, including this one.";
const UNSETTLED: &str = "Entries learned while the engine was unreachable and not sent to it yet.";
const CHANGES: &str = "Delay until this node read a change that another node had recorded.";
const CLOCK_OFFSET: &str = "Time by which the engine's clock is ahead of this machine's.";
const GAPS: &str = "Times that changes of other nodes were lost, counted for each partition.";
const BORN: &str = "Restarts and promotions of the engine.";

/// The states of a node that is in a fleet.
const STATES: [&str; 4] = ["up", "lost", "beats-failing", "clock-off"];
/// Buckets for calls, which take a fraction of a millisecond on a local network.
const CALL_SECONDS: &[f64] =
    &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1];
/// Buckets for the delay of changes, which are read every quarter of a second.
const CHANGE_SECONDS: &[f64] = &[0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Buckets from one round trip to `politeness.max_wait`.
const WAIT_SECONDS: &[f64] = &[0.001, 0.01, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// The metrics of the fleet.
#[derive(Debug)]
pub struct FleetMetrics {
    calls: HistogramVec,
    errors: IntCounterVec,
    claims: IntCounterVec,
    settled: IntCounterVec,
    turns: IntCounterVec,
    turn_wait: Histogram,
    state: IntGaugeVec,
    members: IntGauge,
    unsettled: IntGauge,
    changes: Histogram,
    clock_offset: Gauge,
    gaps: IntCounter,
    born: IntCounter,
}

impl FleetMetrics {
    pub(super) fn new(registry: &Registry) -> anyhow::Result<Self> {
        let metrics = Self {
            calls: histograms(
                registry,
                "fleet_call_duration_seconds",
                CALLS,
                "verb",
                CALL_SECONDS,
            )?,
            errors: counters(registry, "fleet_errors_total", ERRORS, &["kind"])?,
            claims: counters(registry, "fleet_claims_total", CLAIMS, &["answer"])?,
            settled: counters(registry, "fleet_settled_total", SETTLED, &["kind"])?,
            turns: counters(registry, "fleet_turns_total", TURNS, &["answer"])?,
            turn_wait: histogram(registry, "fleet_turn_wait_seconds", TURN_WAIT, WAIT_SECONDS)?,
            state: gauges(registry, "fleet_state", STATE, "state")?,
            members: gauge(registry, "fleet_members", MEMBERS)?,
            unsettled: gauge(registry, "fleet_unsettled", UNSETTLED)?,
            changes: histogram(registry, "fleet_change_delay_seconds", CHANGES, CHANGE_SECONDS)?,
            clock_offset: register(
                registry,
                Gauge::with_opts(
                    Opts::new("fleet_clock_offset_seconds", CLOCK_OFFSET).namespace("wayleave"),
                )?,
            )?,
            gaps: counter(registry, "fleet_log_gaps_total", GAPS)?,
            born: counter(registry, "fleet_engine_restarts_total", BORN)?,
        };
        // At zero from the start: a rate over the first event would be wrong otherwise.
        for (metric, values) in [
            (&metrics.errors, &["timeout", "connection", "full", "denied", "corrupt"][..]),
            (&metrics.claims, &["known", "fetch", "wait"]),
            (&metrics.settled, &["changed", "same", "forgotten"]),
            (&metrics.turns, &["go", "too_soon", "unknown"]),
        ] {
            for value in values {
                metric.with_label_values(&[value]);
            }
        }
        for verb in
            ["claim", "settle", "record", "take", "leave", "answered", "spend", "pace", "head"]
        {
            metrics.calls.with_label_values(&[verb]);
        }
        for state in STATES {
            metrics.state.with_label_values(&[state]);
        }
        Ok(metrics)
    }

    /// Records the duration of a call.
    pub fn call(&self, verb: &str, took: Duration) {
        self.calls.with_label_values(&[verb]).observe(took.as_secs_f64());
    }

    /// Counts a failed call.
    pub fn error(&self, kind: &str) {
        self.errors.with_label_values(&[kind]).inc();
    }

    /// Counts an answer to the question whether to fetch a robots.txt.
    pub fn claim(&self, answer: &str) {
        self.claims.with_label_values(&[answer]).inc();
    }

    /// Counts the result of a fetch that was shared with the fleet.
    pub fn settled(&self, kind: &str) {
        self.settled.with_label_values(&[kind]).inc();
    }

    /// Counts an answer to a request for a slot, and records the wait.
    pub fn turn(&self, answer: &str, waited: Duration) {
        self.turns.with_label_values(&[answer]).inc();
        self.turn_wait.observe(waited.as_secs_f64());
    }

    /// Sets the state of this node.
    pub fn state(&self, now: &str) {
        // The others are reset, so that at most one state is 1.
        for state in STATES {
            self.state.with_label_values(&[state]).set((state == now).into());
        }
    }

    /// Sets the number of nodes, and of entries not shared with the fleet yet.
    pub fn heartbeat(&self, members: usize, unsettled: usize) {
        for (gauge, count) in [(&self.members, members), (&self.unsettled, unsettled)] {
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// Records the delay of another node's change.
    pub fn change_delay(&self, delay: Duration) {
        self.changes.observe(delay.as_secs_f64());
    }

    /// Sets how far the engine's clock is ahead of this machine's, in seconds.
    pub fn clock_offset(&self, seconds: f64) {
        self.clock_offset.set(seconds);
    }

    /// Counts partitions of the change log in which changes of other nodes were lost.
    pub fn gaps(&self, partitions: usize) {
        self.gaps.inc_by(partitions as u64);
    }

    /// Counts a restart or promotion of the engine.
    pub fn engine_restarted(&self) {
        self.born.inc();
    }
}
