//! Every metric: its name, labels and help.
//!
//! A host, a URL or a User-Agent is never a label: labels come from closed sets (configured
//! crawlers, outcomes, reasons), so a crawl of the whole web adds no series.

use std::time::{Duration, SystemTime};

use anyhow::Context;
use prometheus::core::Collector;
use prometheus::{
    Encoder, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry, TextEncoder,
};

/// From half a millisecond to a minute: a cached refusal to a slow origin.
const REQUEST_SECONDS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0,
];
/// From half a microsecond (a decision on known rules) to ten seconds (robots.txt fetched first).
const DECISION_SECONDS: &[f64] = &[
    5e-7, 1e-6, 2.5e-6, 5e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0,
];

/// How a look-up of an origin's robots.txt went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// A usable copy was at hand.
    Hit,
    /// Nothing was known; this request started the fetch.
    Miss,
    /// Nothing was known; a fetch was under way already.
    Joined,
}

impl Lookup {
    fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Joined => "joined",
        }
    }
}

/// The process's metrics, gathered at `/metrics`.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    request_duration: HistogramVec,
    decision_duration: Histogram,
    robots: RobotsMetrics,
    client_connections: IntGauge,
    upstream_connections_new: IntGauge,
    upstream_connections_reused: IntGauge,
    leaf_certificates: IntCounterVec,
    organisation: Organisation,
    panics: IntCounter,
}

/// What is kept of robots.txt files, and how.
#[derive(Debug)]
struct RobotsMetrics {
    fetches: IntCounterVec,
    fetch_duration: Histogram,
    entries: IntGaugeVec,
    cache_bytes: IntGauge,
    /// By [`Lookup`]: looked up once, because every request counts here.
    lookups: [IntCounter; 3],
    snapshot_swaps: IntCounter,
    store_errors: IntCounterVec,
}

impl RobotsMetrics {
    fn new(registry: &Registry) -> anyhow::Result<Self> {
        let lookups = counters(
            registry,
            "robots_lookups_total",
            ROBOTS_LOOKUPS,
            &["result"],
        )?;
        let metrics = Self {
            fetches: counters(
                registry,
                "robots_fetches_total",
                ROBOTS_FETCHES,
                &["result"],
            )?,
            fetch_duration: histogram(
                registry,
                "robots_fetch_duration_seconds",
                FETCH_DURATION,
                REQUEST_SECONDS,
            )?,
            entries: gauges(registry, "robots_entries", ROBOTS_ENTRIES, "state")?,
            cache_bytes: gauge(registry, "robots_cache_bytes", ROBOTS_CACHE_BYTES)?,
            lookups: [Lookup::Hit, Lookup::Miss, Lookup::Joined]
                .map(|lookup| lookups.with_label_values(&[lookup.as_str()])),
            snapshot_swaps: counter(registry, "snapshot_swaps_total", SNAPSHOT_SWAPS)?,
            store_errors: counters(registry, "store_errors_total", STORE_ERRORS, &["operation"])?,
        };
        for result in ["successful", "unavailable", "unreachable", "redirect_lost"] {
            metrics.fetches.with_label_values(&[result]);
        }
        for state in ["fresh", "stale", "unavailable", "unreachable"] {
            metrics.entries.with_label_values(&[state]);
        }
        for operation in ["open", "read", "write"] {
            metrics.store_errors.with_label_values(&[operation]);
        }
        Ok(metrics)
    }
}

impl Metrics {
    /// All metrics, at zero.
    ///
    /// # Errors
    ///
    /// Returns an error if two metrics have one name: a mistake in this file.
    pub fn new() -> anyhow::Result<Self> {
        let registry = Registry::new();
        let upstream_connections = gauges(
            &registry,
            "upstream_connections",
            UPSTREAM_CONNECTIONS,
            "reused",
        )?;
        let metrics = Self {
            requests: counters(
                &registry,
                "requests_total",
                REQUESTS,
                &["crawler", "outcome", "reason"],
            )?,
            request_duration: histograms(
                &registry,
                "request_duration_seconds",
                REQUEST_DURATION,
                "outcome",
            )?,
            decision_duration: histogram(
                &registry,
                "decision_duration_seconds",
                DECISION_DURATION,
                DECISION_SECONDS,
            )?,
            robots: RobotsMetrics::new(&registry)?,
            client_connections: gauge(&registry, "client_connections", CLIENT_CONNECTIONS)?,
            upstream_connections_new: upstream_connections.with_label_values(&["false"]),
            upstream_connections_reused: upstream_connections.with_label_values(&["true"]),
            leaf_certificates: counters(
                &registry,
                "leaf_certificates_total",
                LEAF_CERTIFICATES,
                &["result"],
            )?,
            organisation: Organisation::new(&registry)?,
            panics: counter(&registry, "panics_total", PANICS)?,
            registry,
        };
        metrics.register_process()?;
        metrics.start_at_zero();
        Ok(metrics)
    }

    fn register_process(&self) -> anyhow::Result<()> {
        let opts = Opts::new("build_info", "The running version; always 1.")
            .namespace("wayleave")
            .const_label("version", env!("CARGO_PKG_VERSION"));
        registered(&self.registry, IntGauge::with_opts(opts)?)?.set(1);
        #[cfg(target_os = "linux")]
        self.registry
            .register(Box::new(
                prometheus::process_collector::ProcessCollector::for_self(),
            ))
            .context("registering the process metrics")?;
        Ok(())
    }

    /// Series of closed label sets exist from the start, so that a rate over the first event is right.
    fn start_at_zero(&self) {
        for result in ["hit", "minted", "failed", "untrusted"] {
            self.leaf_certificates.with_label_values(&[result]);
        }
        for outcome in ["forwarded", "refused", "failed", "observed"] {
            self.request_duration.with_label_values(&[outcome]);
        }
    }

    /// Counts one finished exchange.
    pub(crate) fn request(&self, crawler: &str, outcome: &str, reason: &str, took: Duration) {
        self.requests
            .with_label_values(&[crawler, outcome, reason])
            .inc();
        self.request_duration
            .with_label_values(&[outcome])
            .observe(took.as_secs_f64());
    }

    /// Every series of finished exchanges: crawler, outcome and reason, and how many.
    pub(crate) fn requests(&self) -> Vec<([String; 3], u64)> {
        let families = self.requests.collect();
        let series = families.iter().flat_map(|family| family.get_metric());
        series
            .map(|series| {
                let label = |name: &str| {
                    let mut labels = series.get_label().iter();
                    let label = labels.find(|label| label.name() == name);
                    label.map_or_else(String::new, |label| label.value().to_owned())
                };
                let total = series.get_counter().get_value();
                (["crawler", "outcome", "reason"].map(label), total as u64)
            })
            .collect()
    }

    /// How many clients are connected.
    pub(crate) fn open_client_connections(&self) -> u64 {
        u64::try_from(self.client_connections.get()).unwrap_or_default()
    }

    /// Notes how long a decision took.
    pub(crate) fn decision(&self, took: Duration) {
        self.decision_duration.observe(took.as_secs_f64());
    }

    /// Counts one fetch of robots.txt; `result` is one of the contract's four words.
    pub(crate) fn robots_fetch(&self, result: &str, took: Duration) {
        self.robots.fetches.with_label_values(&[result]).inc();
        self.robots.fetch_duration.observe(took.as_secs_f64());
    }

    /// Counts one look-up of an origin's robots.txt.
    pub(crate) fn robots_lookup(&self, lookup: Lookup) {
        self.robots.lookups[lookup as usize].inc();
    }

    /// Sets how many origins are in `state`: `fresh`, `stale`, `unavailable` or `unreachable`.
    pub(crate) fn robots_entries(&self, state: &str, count: usize) {
        self.robots
            .entries
            .with_label_values(&[state])
            .set(count.try_into().unwrap_or(i64::MAX));
    }

    /// Sets the memory held by entries, in bytes.
    pub(crate) fn robots_cache_bytes(&self, bytes: usize) {
        self.robots
            .cache_bytes
            .set(bytes.try_into().unwrap_or(i64::MAX));
    }

    /// Counts one origin's new snapshot.
    pub(crate) fn snapshot_swap(&self) {
        self.robots.snapshot_swaps.inc();
    }

    /// Counts a failure of the store: to `open`, `read` or `write`.
    pub(crate) fn store_error(&self, operation: &str) {
        self.robots
            .store_errors
            .with_label_values(&[operation])
            .inc();
    }

    /// Counts a client's connection as open until the guard is dropped.
    pub(crate) fn client_connection(&self) -> OpenConnection {
        self.client_connections.inc();
        OpenConnection(self.client_connections.clone())
    }

    /// Counts a connection to an origin as serving a request until the guard is dropped.
    pub(crate) fn upstream_connection(&self, reused: bool) -> OpenConnection {
        let gauge = if reused {
            &self.upstream_connections_reused
        } else {
            &self.upstream_connections_new
        };
        gauge.inc();
        OpenConnection(gauge.clone())
    }

    /// Counts a leaf certificate: `hit`, `minted`, `failed`, or `untrusted` by the client.
    pub(crate) fn leaf_certificate(&self, result: &str) {
        self.leaf_certificates.with_label_values(&[result]).inc();
    }

    /// Sets how many of the organisation's rules count, and how many have expired.
    pub(crate) fn rules(&self, active: usize, expired: usize) {
        for (state, count) in [("active", active), ("expired", expired)] {
            self.organisation
                .rules
                .with_label_values(&[state])
                .set(count.try_into().unwrap_or(i64::MAX));
        }
    }

    /// Starts the series of a configured crawler, so that a rate over its first event is right.
    pub(crate) fn know_crawler(&self, crawler: &str) {
        self.organisation
            .user_agent_mismatches
            .with_label_values(&[crawler]);
    }

    /// Counts a request of a known crawler whose `User-Agent` contains none of its tokens.
    pub(crate) fn user_agent_mismatch(&self, crawler: &str) {
        self.organisation
            .user_agent_mismatches
            .with_label_values(&[crawler])
            .inc();
    }

    /// Notes that the configuration was read, and when; or that it could not be.
    pub(crate) fn config_reloaded(&self, at: Option<SystemTime>) {
        let gauges = &self.organisation;
        gauges.reload_successful.set(i64::from(at.is_some()));
        if let Some(since) = at.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok()) {
            let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
            gauges.reload_success_at.set(seconds);
        }
    }

    /// Notes how long a request waited for its turn.
    pub(crate) fn crawl_delay_wait(&self, waited: Duration) {
        let waits = &self.organisation.crawl_delay_waits;
        waits.observe(waited.as_secs_f64());
    }

    /// Counts decisions that are missing in the log.
    pub(crate) fn decisions_dropped(&self, count: u64) {
        self.organisation.decisions_dropped.inc_by(count);
    }

    /// Counts a task that ended in a panic.
    pub(crate) fn panic(&self) {
        self.panics.inc();
    }

    /// All metrics in Prometheus' text format, with its content type.
    ///
    /// # Errors
    ///
    /// Returns an error if a metric cannot be encoded.
    pub fn text(&self) -> anyhow::Result<(String, String)> {
        let encoder = TextEncoder::new();
        let mut text = Vec::new();
        encoder.encode(&self.registry.gather(), &mut text)?;
        Ok((encoder.format_type().to_owned(), String::from_utf8(text)?))
    }
}

/// What concerns the organisation more than the traffic.
#[derive(Debug)]
struct Organisation {
    user_agent_mismatches: IntCounterVec,
    rules: IntGaugeVec,
    decisions_dropped: IntCounter,
    crawl_delay_waits: Histogram,
    reload_successful: IntGauge,
    reload_success_at: IntGauge,
}

impl Organisation {
    fn new(registry: &Registry) -> anyhow::Result<Self> {
        Ok(Self {
            user_agent_mismatches: counters(
                registry,
                "user_agent_mismatches_total",
                USER_AGENT_MISMATCHES,
                &["crawler"],
            )?,
            rules: gauges(registry, "rules", RULES, "state")?,
            crawl_delay_waits: histogram(
                registry,
                "crawl_delay_waits_seconds",
                CRAWL_DELAY_WAITS,
                REQUEST_SECONDS,
            )?,
            reload_successful: gauge(registry, "config_last_reload_successful", RELOAD_SUCCESSFUL)?,
            reload_success_at: gauge(
                registry,
                "config_last_reload_success_timestamp_seconds",
                RELOAD_SUCCESS_AT,
            )?,
            decisions_dropped: counter(registry, "decisions_dropped_total", DECISIONS_DROPPED)?,
        })
    }
}

/// Counts as open for as long as it lives.
#[derive(Debug)]
pub(crate) struct OpenConnection(IntGauge);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}

const REQUESTS: &str = "Requests by what became of them and why.";
const REQUEST_DURATION: &str = "From a request's head to the end of its response.";
const DECISION_DURATION: &str =
    "From a known target to a decision, waiting for robots.txt included.";
const ROBOTS_FETCHES: &str = "Fetches of robots.txt by their access result (RFC 9309, 2.3.1).";
const FETCH_DURATION: &str = "One fetch of robots.txt, all redirects together.";
const ROBOTS_ENTRIES: &str = "Origins whose robots.txt is known, by state.";
const ROBOTS_LOOKUPS: &str = "Look-ups of an origin's robots.txt by requests.";
const ROBOTS_CACHE_BYTES: &str = "Memory held by robots.txt entries.";
const STORE_ERRORS: &str = "Operations on the store in state.dir that failed.";
const SNAPSHOT_SWAPS: &str = "Snapshots of an origin's rules that replaced what was there.";
const CLIENT_CONNECTIONS: &str = "Open connections of clients.";
const UPSTREAM_CONNECTIONS: &str =
    "Connections to origins serving a request now, by whether they were reused.";
const LEAF_CERTIFICATES: &str = "Leaf certificates asked for by intercepted connections.";
const USER_AGENT_MISMATCHES: &str =
    "Requests of known crawlers whose User-Agent contains none of their tokens.";
const RULES: &str = "The organisation's rules, by whether they count or have expired.";
const RELOAD_SUCCESSFUL: &str = "Whether the configuration was sound when it was last read.";
const RELOAD_SUCCESS_AT: &str = "When a sound configuration was last read.";
const CRAWL_DELAY_WAITS: &str = "How long requests waited for their turn at an origin.";
const DECISIONS_DROPPED: &str = "Decisions missing in the decision log: the writer was behind, or the file could not be written.";
const PANICS: &str = "Tasks that ended in a panic: each is a bug to report.";

fn histogram(
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

fn histograms(
    registry: &Registry,
    name: &str,
    help: &str,
    label: &str,
) -> anyhow::Result<HistogramVec> {
    let opts = HistogramOpts::new(name, help)
        .namespace("wayleave")
        .buckets(REQUEST_SECONDS.to_vec());
    registered(registry, HistogramVec::new(opts, &[label])?)
}

fn gauges(registry: &Registry, name: &str, help: &str, label: &str) -> anyhow::Result<IntGaugeVec> {
    registered(
        registry,
        IntGaugeVec::new(Opts::new(name, help).namespace("wayleave"), &[label])?,
    )
}

fn counter(registry: &Registry, name: &str, help: &str) -> anyhow::Result<IntCounter> {
    registered(
        registry,
        IntCounter::with_opts(Opts::new(name, help).namespace("wayleave"))?,
    )
}

fn counters(
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

fn gauge(registry: &Registry, name: &str, help: &str) -> anyhow::Result<IntGauge> {
    registered(
        registry,
        IntGauge::with_opts(Opts::new(name, help).namespace("wayleave"))?,
    )
}

fn registered<C: Collector + Clone + 'static>(
    registry: &Registry,
    collector: C,
) -> anyhow::Result<C> {
    registry
        .register(Box::new(collector.clone()))
        .context("registering a metric")?;
    Ok(collector)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_series_exist_before_the_first_event() {
        let (_, text) = Metrics::new().unwrap().text().unwrap();
        assert!(
            text.contains("wayleave_robots_lookups_total{result=\"joined\"} 0"),
            "{text}"
        );
        assert!(text.contains("wayleave_build_info{version="), "{text}");
    }

    #[test]
    fn a_connection_counts_while_it_is_open() {
        let metrics = Metrics::new().unwrap();
        let open = metrics.client_connection();
        assert!(
            metrics
                .text()
                .unwrap()
                .1
                .contains("wayleave_client_connections 1")
        );
        drop(open);
        assert!(
            metrics
                .text()
                .unwrap()
                .1
                .contains("wayleave_client_connections 0")
        );
    }
}
