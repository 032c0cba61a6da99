//! The results.

use std::time::Duration;

use serde::Serialize;

/// One worker's counts.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The latency of each request with a response, in microseconds.
    latencies: Vec<u32>,
    pub(crate) failures: usize,
    pub(crate) first_error: Option<String>,
    pub(crate) connections: usize,
    bytes: usize,
}

impl Tally {
    pub(crate) fn answered(&mut self, took: Duration, bytes: usize) {
        let took = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        self.latencies.push(took);
        self.bytes += bytes;
    }

    pub(crate) fn failed(&mut self, error: &anyhow::Error) {
        self.failures += 1;
        self.first_error.get_or_insert_with(|| format!("{error:#}"));
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.latencies.extend(other.latencies);
        self.failures += other.failures;
        self.connections += other.connections;
        self.bytes += other.bytes;
        self.first_error = self.first_error.take().or(other.first_error);
    }
}

/// The printed measurement. Latencies in microseconds.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    requests: usize,
    seconds: f64,
    failures: usize,
    error: Option<String>,
    connections: usize,
    bytes: usize,
    p50_us: u32,
    p99_us: u32,
    max_us: u32,
}

impl Report {
    pub(crate) fn new(mut tally: Tally, took: Duration) -> Self {
        tally.latencies.sort_unstable();
        let quantile = |percent: usize| {
            let rank = tally.latencies.len() * percent / 100;
            let last = tally.latencies.len().saturating_sub(1);
            tally.latencies.get(rank.min(last)).copied().unwrap_or(0)
        };
        Self {
            requests: tally.latencies.len(),
            seconds: took.as_secs_f64(),
            failures: tally.failures,
            connections: tally.connections,
            bytes: tally.bytes,
            p50_us: quantile(50),
            p99_us: quantile(99),
            max_us: quantile(100),
            error: tally.first_error,
        }
    }
}
