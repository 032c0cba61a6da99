//! Every metric: its name, labels and help.
//!
//! A host, a URL or a User-Agent is never a label: labels come from closed sets (configured
//! crawlers, outcomes, reasons), so a crawl of the whole web adds no series.

mod connections;
mod constructors;
mod fleet;
mod organisation;
mod preferences;
mod reasons;
mod robots;

use std::time::{Duration, SystemTime};

use anyhow::Context;
use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{
    Encoder, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry,
    TextEncoder,
};
use wayleave_robots_txt::Kind;
use wayleave_robots_txt::preferences::Judgement;

use self::connections::Connections;
use self::constructors::{
    REQUEST_SECONDS, by_result, counter, counters, histogram, histograms, registered,
};
pub use self::fleet::FleetMetrics;
use self::organisation::Organisation;
pub(crate) use self::reasons::ASSERTED;
use self::reasons::Reasons;
pub use self::robots::Lookup;
use self::robots::RobotsMetrics;
use crate::http::http1::oddities::Oddities;

/// From half a microsecond (a decision on known rules) to ten seconds (robots.txt fetched first).
const DECISION_SECONDS: &[f64] = &[
    5e-7, 1e-6, 2.5e-6, 5e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0,
];

/// The process's metrics, gathered at `/metrics`.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    request_duration: HistogramVec,
    decision_duration: Histogram,
    robots: RobotsMetrics,
    fleet: FleetMetrics,
    connections: Connections,
    preferences: IntCounterVec,
    organisation: Organisation,
    panics: IntCounter,
    spans: IntCounterVec,
    signatures: IntCounterVec,
}

impl Metrics {
    /// What the fleet counts.
    pub fn fleet(&self) -> &FleetMetrics {
        &self.fleet
    }

    /// All metrics, at zero.
    ///
    /// # Errors
    ///
    /// Returns an error if two metrics have one name: a mistake in this file.
    pub fn new() -> anyhow::Result<Self> {
        let registry = Registry::new();
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
                REQUEST_SECONDS,
            )?,
            decision_duration: histogram(
                &registry,
                "decision_duration_seconds",
                DECISION_DURATION,
                DECISION_SECONDS,
            )?,
            robots: RobotsMetrics::new(&registry)?,
            fleet: FleetMetrics::new(&registry)?,
            connections: Connections::new(&registry)?,
            preferences: preferences::register(&registry)?,
            organisation: Organisation::new(&registry)?,
            panics: counter(&registry, "panics_total", PANICS)?,
            spans: by_result(&registry, "spans_total", SPANS)?,
            signatures: by_result(&registry, "signatures_total", SIGNATURES)?,
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
        preferences::start_at_zero(&self.preferences);
        for result in ["sent", "failed", "dropped"] {
            self.spans.with_label_values(&[result]);
        }
        for result in ["signed", "asked", "unanswerable", "foreign", "tunnel"] {
            self.signatures.with_label_values(&[result]);
        }
        for outcome in reasons::OUTCOMES {
            self.request_duration.with_label_values(&[outcome]);
        }
        self.start_requests(ASSERTED, reasons::OF_CRAWLERS);
        self.start_requests(ASSERTED, reasons::OF_NOBODY);
    }

    fn start_requests(&self, crawler: &str, reasons: &Reasons) {
        for (reason, outcomes) in reasons {
            for outcome in *outcomes {
                self.requests.with_label_values(&[crawler, outcome, reason]);
            }
        }
    }

    /// Counts one finished exchange.
    pub(crate) fn request(&self, crawler: &str, outcome: &str, reason: &str, took: Duration) {
        debug_assert!(
            reasons::is_known(outcome, reason),
            "{outcome}, {reason}: its series would not exist from the start"
        );
        self.requests
            .with_label_values(&[crawler, outcome, reason])
            .inc();
        self.request_duration
            .with_label_values(&[outcome])
            .observe(took.as_secs_f64());
    }

    /// Every series of finished exchanges: crawler, outcome and reason, and how many.
    pub(crate) fn requests(&self) -> Vec<([String; 3], u64)> {
        let families = Collector::collect(&self.requests);
        let series = families.iter().flat_map(MetricFamily::get_metric);
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
        u64::try_from(self.connections.clients.get()).unwrap_or_default()
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

    /// Counts one fetch of a document beside robots.txt.
    pub(crate) fn preference_fetch(&self, kind: Kind, result: &str) {
        let labels = [kind.as_str(), result];
        let fetches = &self.robots.document_fetches;
        fetches.with_label_values(&labels).inc();
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

    /// Notes whether there is a parent proxy.
    pub(crate) fn upstream_proxy(&self, is_there: bool) {
        self.connections.upstream_proxy.set(is_there.into());
    }

    /// Counts a client's connection as open until the guard is dropped.
    pub(crate) fn client_connection(&self) -> OpenConnection {
        OpenConnection::of(&self.connections.clients)
    }

    /// Sets how many connections of clients may be open.
    pub(crate) fn client_connections_limit(&self, limit: usize) {
        let limit = limit.try_into().unwrap_or(i64::MAX);
        self.connections.clients_limit.set(limit);
    }

    /// Counts a connection to an origin as serving a request until the guard is dropped.
    pub(crate) fn upstream_connection(&self, reused: bool) -> OpenConnection {
        OpenConnection::of(match reused {
            true => &self.connections.upstream_reused,
            false => &self.connections.upstream_new,
        })
    }

    /// Counts what had to be mended of an origin's response.
    pub(crate) fn origin_oddities(&self, oddities: Oddities) {
        for oddity in oddities.iter() {
            let counters = &self.connections.origin_oddities;
            counters.with_label_values(&[oddity.as_str()]).inc();
        }
    }

    /// Counts interim responses that were not passed on.
    pub(crate) fn dropped_interim(&self, count: u64) {
        self.connections.dropped_interim.inc_by(count);
    }

    /// Counts what was said to each purpose about the use of what was asked for.
    pub(crate) fn preferences(&self, judgement: &Judgement) {
        for say in &judgement.each {
            preferences::count(&self.preferences, say);
        }
    }

    /// Counts a leaf certificate: `hit`, `minted`, `failed`, or `untrusted` by the client.
    pub(crate) fn leaf_certificate(&self, result: &str) {
        let certificates = &self.connections.leaf_certificates;
        certificates.with_label_values(&[result]).inc();
    }

    /// Counts a TLS handshake with the proxy itself: `completed`, `certificate` if the client's was refused, `failed`, `untrusted` by the client, `timeout`, or `plain` if none
    /// was begun.
    pub(crate) fn client_handshake(&self, result: &str) {
        let handshakes = &self.connections.client_handshakes;
        handshakes.with_label_values(&[result]).inc();
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

    /// Sets when the interception CA's certificate expires.
    pub(crate) fn ca_expiry(&self, at: SystemTime) {
        self.organisation.ca_expiry.set(unix_seconds(at));
    }

    /// Sets when the next exception expires, if there is one.
    pub(crate) fn exception_expiry(&self, at: Option<SystemTime>) {
        let seconds = at.map_or(0, unix_seconds);
        self.organisation.exception_expiry.set(seconds);
    }

    /// Starts the series of a configured crawler, so that a rate over its first event is right. They stay when it leaves the
    /// configuration: what was counted has been.
    pub(crate) fn know_crawler(&self, crawler: &str) {
        self.start_requests(crawler, reasons::OF_CRAWLERS);
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

    /// How many requests of a known crawler had a `User-Agent` without any of its tokens.
    pub(crate) fn user_agent_mismatches(&self, crawler: &str) -> u64 {
        let counters = &self.organisation.user_agent_mismatches;
        counters.with_label_values(&[crawler]).get()
    }

    /// Notes that the configuration was read, and when; or that it could not be.
    pub(crate) fn config_reloaded(&self, at: Option<SystemTime>) {
        let gauges = &self.organisation;
        gauges.reload_successful.set(i64::from(at.is_some()));
        if let Some(at) = at {
            gauges.reload_success_at.set(unix_seconds(at));
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

    /// Counts how often the decision log was found altered.
    pub(crate) fn decision_log_altered(&self, times: u64) {
        self.organisation.decision_log_altered.inc_by(times);
    }

    /// Counts signatures: a request `signed`, or sent again because its origin `asked`; what was asked for but `unanswerable`;
    /// those of clients that were `foreign` and removed; and tunnels, which cannot be signed.
    pub(crate) fn signatures(&self, result: &str, count: u64) {
        self.signatures.with_label_values(&[result]).inc_by(count);
    }

    /// Counts a task that ended in a panic.
    pub(crate) fn panic(&self) {
        self.panics.inc();
    }

    /// Counts spans of traces: `sent`, `failed` to be, or `dropped` because there was no room.
    pub(crate) fn spans(&self, result: &str, count: usize) {
        let count = count.try_into().unwrap_or(u64::MAX);
        self.spans.with_label_values(&[result]).inc_by(count);
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

/// Whole seconds since 1970, as Prometheus has its instants; 0 for anything earlier.
fn unix_seconds(at: SystemTime) -> i64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

/// Counts as open for as long as it lives.
#[derive(Debug)]
pub(crate) struct OpenConnection(IntGauge);

impl OpenConnection {
    fn of(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}

const REQUESTS: &str = "Finished exchanges, by outcome and reason.";
const REQUEST_DURATION: &str = "Time from a request's head to the end of its response.";
const DECISION_DURATION: &str =
    "Time to decide about a known target, waiting for robots.txt included.";
const SPANS: &str = "Spans of traces, by whether they reached the collector.";
const SIGNATURES: &str =
    "Signatures on requests of crawlers with a key, and what kept them from being signed.";
const PANICS: &str = "Tasks that panicked: each is a bug to report.";

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
