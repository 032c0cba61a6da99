//! Functions that create and register metrics.

use anyhow::Context;
use prometheus::core::Collector;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry,
};

/// Buckets from half a millisecond (a refusal from the cache) to a minute (a slow origin).
pub(super) const REQUEST_SECONDS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0,
];

pub(super) fn histogram(
    registry: &Registry,
    name: &str,
    help: &str,
    buckets: &[f64],
) -> anyhow::Result<Histogram> {
    let opts = HistogramOpts::new(name, help).namespace("wayleave").buckets(buckets.to_vec());
    register(registry, Histogram::with_opts(opts)?)
}

pub(super) fn histograms(
    registry: &Registry,
    name: &str,
    help: &str,
    label: &str,
    buckets: &[f64],
) -> anyhow::Result<HistogramVec> {
    let opts = HistogramOpts::new(name, help).namespace("wayleave").buckets(buckets.to_vec());
    register(registry, HistogramVec::new(opts, &[label])?)
}

pub(super) fn gauges(
    registry: &Registry,
    name: &str,
    help: &str,
    label: &str,
) -> anyhow::Result<IntGaugeVec> {
    gauges_by(registry, name, help, &[label])
}

pub(super) fn gauges_by(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> anyhow::Result<IntGaugeVec> {
    register(registry, IntGaugeVec::new(Opts::new(name, help).namespace("wayleave"), labels)?)
}

pub(super) fn counter(registry: &Registry, name: &str, help: &str) -> anyhow::Result<IntCounter> {
    register(registry, IntCounter::with_opts(Opts::new(name, help).namespace("wayleave"))?)
}

pub(super) fn counters(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> anyhow::Result<IntCounterVec> {
    register(registry, IntCounterVec::new(Opts::new(name, help).namespace("wayleave"), labels)?)
}

/// Registers counters whose only label is `result`.
pub(super) fn counters_by_result(
    registry: &Registry,
    name: &str,
    help: &str,
) -> anyhow::Result<IntCounterVec> {
    counters(registry, name, help, &["result"])
}

pub(super) fn gauge(registry: &Registry, name: &str, help: &str) -> anyhow::Result<IntGauge> {
    register(registry, IntGauge::with_opts(Opts::new(name, help).namespace("wayleave"))?)
}

pub(super) fn register<C: Collector + Clone + 'static>(
    registry: &Registry,
    collector: C,
) -> anyhow::Result<C> {
    // The clone and the registered metric are one: they share their values.
    registry.register(Box::new(collector.clone())).context("registering a metric")?;
    Ok(collector)
}
