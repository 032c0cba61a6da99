//! Metrics as they are made: named, with help, and known to the registry.

use anyhow::Context;
use prometheus::core::Collector;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry,
};

pub(super) fn histogram(
    registry: &Registry,
    name: &str,
    help: &str,
    buckets: &[f64],
) -> anyhow::Result<Histogram> {
    let opts = HistogramOpts::new(name, help)
        .namespace("wayleave")
        .buckets(buckets.to_vec());
    registered(registry, Histogram::with_opts(opts)?)
}

pub(super) fn histograms(
    registry: &Registry,
    name: &str,
    help: &str,
    label: &str,
    buckets: &[f64],
) -> anyhow::Result<HistogramVec> {
    let opts = HistogramOpts::new(name, help)
        .namespace("wayleave")
        .buckets(buckets.to_vec());
    registered(registry, HistogramVec::new(opts, &[label])?)
}

pub(super) fn gauges(
    registry: &Registry,
    name: &str,
    help: &str,
    label: &str,
) -> anyhow::Result<IntGaugeVec> {
    registered(
        registry,
        IntGaugeVec::new(Opts::new(name, help).namespace("wayleave"), &[label])?,
    )
}

pub(super) fn counter(registry: &Registry, name: &str, help: &str) -> anyhow::Result<IntCounter> {
    registered(
        registry,
        IntCounter::with_opts(Opts::new(name, help).namespace("wayleave"))?,
    )
}

pub(super) fn counters(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> anyhow::Result<IntCounterVec> {
    registered(
        registry,
        IntCounterVec::new(Opts::new(name, help).namespace("wayleave"), labels)?,
    )
}

pub(super) fn gauge(registry: &Registry, name: &str, help: &str) -> anyhow::Result<IntGauge> {
    registered(
        registry,
        IntGauge::with_opts(Opts::new(name, help).namespace("wayleave"))?,
    )
}

pub(super) fn registered<C: Collector + Clone + 'static>(
    registry: &Registry,
    collector: C,
) -> anyhow::Result<C> {
    registry
        .register(Box::new(collector.clone()))
        .context("registering a metric")?;
    Ok(collector)
}
