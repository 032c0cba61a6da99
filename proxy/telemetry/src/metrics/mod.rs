//! All metrics. The metrics of one subject have their names, labels and help texts in its submodule, the others at the end of this
//! file; nearly all methods that count are here.
//!
//! A host, a URL or a User-Agent is never a label: labels come from closed sets (configured
//! crawlers, outcomes, reasons), so a crawl of the whole web adds no series.
//!
//! CONTRIBUTING.md ("What goes where") has the steps for a new metric.

mod connections;
mod constructors;
mod fleet;
mod organisation;
mod preferences;
mod robots;

use std::time::{Duration, SystemTime};

use anyhow::Context;
use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{
    Encoder, Histogram, IntCounter, IntCounterVec, IntGauge, Opts, Registry, TextEncoder,
};
use tokio::sync::Notify;
use wayleave_decision::{ASSERTED, Reason, RequestOutcome};
use wayleave_http_wire::edge_refusal::EdgeRefusal;
use wayleave_http_wire::http1::oddities::Oddities;
use wayleave_usage_preferences::{DocumentKind, PreferenceJudgement};

pub use self::connections::ConnectionAge;
use self::connections::ConnectionMetrics;
use self::constructors::{
    REQUEST_SECONDS, counter, counters, counters_by_result, histogram, histograms, register,
};
pub use self::fleet::FleetMetrics;
use self::organisation::OrganisationMetrics;
pub use self::robots::RobotsLookup;
use self::robots::RobotsMetrics;

/// Buckets from half a microsecond (robots.txt is cached) to ten seconds (robots.txt is fetched first).
const DECISION_SECONDS: &[f64] =
    &[5e-7, 1e-6, 2.5e-6, 5e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0];

/// The metrics of the process, served at `/metrics`.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    request_ended: Notify,
    /// The histograms in the order of [`RequestOutcome::ALL`], resolved once because every request is in one.
    request_durations: Vec<Histogram>,
    decision_duration: Histogram,
    robots: RobotsMetrics,
    fleet: FleetMetrics,
    connections: ConnectionMetrics,
    preferences: IntCounterVec,
    organisation: OrganisationMetrics,
    panics: IntCounter,
    spans: IntCounterVec,
    exported_decisions: IntCounterVec,
    signatures: IntCounterVec,
    edge_responses: IntCounterVec,
}

impl Metrics {
    /// Returns the metrics of the fleet.
    pub fn fleet(&self) -> &FleetMetrics {
        &self.fleet
    }

    /// Registers all metrics, at zero.
    ///
    /// # Errors
    ///
    /// Returns an error if two metrics have the same name, which is a bug.
    pub fn new() -> anyhow::Result<Self> {
        let registry = Registry::new();
        let durations = histograms(
            &registry,
            "request_duration_seconds",
            REQUEST_DURATION,
            "outcome",
            REQUEST_SECONDS,
        )?;
        let duration = |outcome: &RequestOutcome| durations.with_label_values(&[outcome.as_str()]);
        let metrics = Self {
            request_ended: Notify::new(),
            requests: counters(
                &registry,
                "requests_total",
                REQUESTS,
                &["crawler", "outcome", "reason"],
            )?,
            request_durations: RequestOutcome::ALL.iter().map(duration).collect(),
            decision_duration: histogram(
                &registry,
                "decision_duration_seconds",
                DECISION_DURATION,
                DECISION_SECONDS,
            )?,
            robots: RobotsMetrics::new(&registry)?,
            fleet: FleetMetrics::new(&registry)?,
            connections: ConnectionMetrics::new(&registry)?,
            preferences: preferences::register(&registry)?,
            organisation: OrganisationMetrics::new(&registry)?,
            panics: counter(&registry, "panics_total", PANICS)?,
            spans: counters_by_result(&registry, "spans_total", SPANS)?,
            exported_decisions: counters_by_result(
                &registry,
                "exported_decisions_total",
                EXPORTED_DECISIONS,
            )?,
            signatures: counters_by_result(&registry, "signatures_total", SIGNATURES)?,
            edge_responses: counters(
                &registry,
                "edge_responses_total",
                EDGE_RESPONSES,
                &["crawler", "kind"],
            )?,
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
        register(&self.registry, IntGauge::with_opts(opts)?)?.set(1);
        // It reads /proc, which other systems do not have.
        #[cfg(target_os = "linux")]
        self.registry
            .register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))
            .context("registering the process metrics")?;
        Ok(())
    }

    /// Creates the series of closed label sets, so that a rate over their first event is right.
    fn start_at_zero(&self) {
        preferences::start_at_zero(&self.preferences);
        for result in ["sent", "failed", "dropped"] {
            self.spans.with_label_values(&[result]);
            self.exported_decisions.with_label_values(&[result]);
        }
        for result in ["signed", "asked", "unanswerable", "foreign", "tunnel"] {
            self.signatures.with_label_values(&[result]);
        }
        // Reasons that only a [[crawler]] can meet.
        let is_of_crawlers =
            |reason: &Reason| matches!(reason, Reason::TokenMissing | Reason::Preference);
        let reasons = Reason::ALL.iter().copied().filter(|reason| !is_of_crawlers(reason));
        self.start_requests(ASSERTED, reasons);
        self.start_edge_responses(ASSERTED);
    }

    fn start_edge_responses(&self, crawler: &str) {
        for kind in EdgeRefusal::ALL {
            self.edge_responses.with_label_values(&[crawler, kind.as_str()]);
        }
    }

    fn start_requests(&self, crawler: &str, reasons: impl Iterator<Item = Reason>) {
        // Only the pairs that can occur.
        for reason in reasons {
            for outcome in reason.meanings().iter().flat_map(|meaning| meaning.outcomes) {
                self.requests.with_label_values(&[crawler, outcome.as_str(), reason.as_str()]);
            }
        }
    }

    /// Counts one finished exchange.
    pub fn request_finished(
        &self,
        crawler: &str,
        outcome: RequestOutcome,
        reason: Reason,
        took: Duration,
    ) {
        debug_assert!(
            reason.has_outcome(outcome),
            "{outcome:?}, {reason}: its series would not exist from the start"
        );
        self.requests.with_label_values(&[crawler, outcome.as_str(), reason.as_str()]).inc();
        self.request_durations[outcome as usize].observe(took.as_secs_f64());
        self.request_ended.notify_one();
    }

    /// Waits for a request that has been counted since this last returned. Only one task may wait.
    pub(crate) async fn request_ended(&self) {
        self.request_ended.notified().await;
    }

    /// Counts a response that turns away a request that robots.txt allows.
    pub fn edge_response(&self, crawler: &str, kind: EdgeRefusal) {
        self.edge_responses.with_label_values(&[crawler, kind.as_str()]).inc();
    }

    /// Returns the number of finished exchanges by crawler, outcome and reason.
    pub fn requests(&self) -> Vec<([String; 3], u64)> {
        let families = Collector::collect(&self.requests);
        let series = families.iter().flat_map(MetricFamily::get_metric);
        series
            .map(|series| {
                // By name: the library sorts labels.
                let label = |name: &str| {
                    series
                        .get_label()
                        .iter()
                        .find(|label| label.name() == name)
                        .map_or_else(String::new, |label| label.value().to_owned())
                };
                let total = series.get_counter().get_value();
                // The counter is an integer that the protocol carries as a float, exact up to 2^53.
                (["crawler", "outcome", "reason"].map(label), total as u64)
            })
            .collect()
    }

    /// Returns the number of open client connections.
    pub fn open_client_connections(&self) -> u64 {
        u64::try_from(self.connections.clients.get()).unwrap_or_default()
    }

    /// Records how long a decision took.
    pub fn decision(&self, took: Duration) {
        self.decision_duration.observe(took.as_secs_f64());
    }

    /// Counts one fetch of robots.txt; `result` is the `FetchResult` of the lifecycle as a word.
    pub fn robots_fetch(&self, result: &str, took: Duration) {
        self.robots.fetches.with_label_values(&[result]).inc();
        self.robots.fetch_duration.observe(took.as_secs_f64());
    }

    /// Counts one fetch of a document other than robots.txt.
    pub fn preference_fetch(&self, kind: DocumentKind, result: &str) {
        self.robots.document_fetches.with_label_values(&[kind.as_str(), result]).inc();
    }

    /// Counts one look-up of an origin's robots.txt.
    pub fn robots_lookup(&self, lookup: RobotsLookup) {
        self.robots.lookups[lookup as usize].inc();
    }

    /// Sets how many origins are in `state`: `fresh`, `stale`, `unavailable` or `unreachable`.
    pub fn robots_entries(&self, state: &str, count: usize) {
        self.robots.entries.with_label_values(&[state]).set(count.try_into().unwrap_or(i64::MAX));
    }

    /// Sets the memory held by entries, in bytes.
    pub fn robots_cache_bytes(&self, bytes: usize) {
        self.robots.cache_bytes.set(bytes.try_into().unwrap_or(i64::MAX));
    }

    /// Counts changes of robots.txt files that opened or closed URLs which were asked for: `opens`, `closes`, `both` or `neutral`.
    pub fn robots_changes(&self, effect: &str, count: u64) {
        self.robots.changes.with_label_values(&[effect]).inc_by(count);
    }

    /// Counts a failed operation of the store: `open`, `read`, `write` or `checksum`.
    pub fn store_error(&self, operation: &str) {
        self.robots.store_errors.with_label_values(&[operation]).inc();
    }

    /// Sets whether there is a parent proxy.
    pub fn upstream_proxy(&self, is_there: bool) {
        self.connections.upstream_proxy.set(is_there.into());
    }

    /// Counts a client's connection as open until the guard is dropped.
    pub fn client_connection(&self) -> OpenConnection {
        OpenConnection::of(&self.connections.clients)
    }

    /// Counts a gateway's question as in progress until the guard is dropped.
    pub fn gateway_question(&self) -> OpenConnection {
        OpenConnection::of(&self.connections.gateway_questions)
    }

    /// Counts an answer to a gateway by its protocol, `http`, `grpc` or `icap`: `allowed` or `refused`; `excess` if it has too many questions
    /// in progress; `mistake` if it asks in no way that there is; and `noted` for a notice.
    pub fn gateway_answer(&self, protocol: &str, answer: &str) {
        self.connections.gateway_answers.with_label_values(&[protocol, answer]).inc();
    }

    /// Sets the maximum number of client connections.
    pub fn client_connections_limit(&self, limit: usize) {
        self.connections.clients_limit.set(limit.try_into().unwrap_or(i64::MAX));
    }

    /// Counts a captured connection by its listener's protocol: `tls` or `http` began; `bypass`, because of the host that was dialled;
    /// `refused` before its first bytes, or because of them `not-http`; `not-redirected`; `malformed` SOCKS5; or the client took too
    /// long (`timeout`) or left before (`closed`).
    pub fn captured_connection(&self, listener: &str, result: &str) {
        self.connections.captured.with_label_values(&[listener, result]).inc();
    }

    /// Counts a connection to an origin as serving a request until the guard is dropped.
    pub fn upstream_connection(&self, age: ConnectionAge) -> OpenConnection {
        OpenConnection::of(match age {
            ConnectionAge::New => &self.connections.upstream_new,
            ConnectionAge::Reused => &self.connections.upstream_reused,
        })
    }

    /// Counts the repairs to an origin's response.
    pub fn origin_oddities(&self, oddities: Oddities) {
        for oddity in oddities.iter() {
            self.connections.origin_oddities.with_label_values(&[oddity.as_str()]).inc();
        }
    }

    /// Counts interim responses that were not forwarded.
    pub fn dropped_interim(&self, count: u64) {
        self.connections.dropped_interim.inc_by(count);
    }

    /// Counts the usage preference for each purpose.
    pub fn preferences(&self, judgement: &PreferenceJudgement) {
        for preference in &judgement.by_purpose {
            preferences::count(&self.preferences, preference);
        }
    }

    /// Counts a leaf certificate: `hit`, `minted`, `failed`, or `untrusted` by the client.
    pub fn leaf_certificate(&self, result: &str) {
        self.connections.leaf_certificates.with_label_values(&[result]).inc();
    }

    /// Counts a TLS handshake with the proxy itself: `completed`, `certificate` if the client's was refused, `failed`,
    /// `untrusted` by the client, `timeout`, or `plain` if the client did not begin one.
    pub fn client_handshake(&self, result: &str) {
        self.connections.client_handshakes.with_label_values(&[result]).inc();
    }

    /// Sets how many of the organisation's rules are active, and how many have expired.
    pub fn rules(&self, active: usize, expired: usize) {
        for (state, count) in [("active", active), ("expired", expired)] {
            self.organisation
                .rules
                .with_label_values(&[state])
                .set(count.try_into().unwrap_or(i64::MAX));
        }
    }

    /// Sets when the interception CA's certificate expires.
    pub fn ca_expiry(&self, at: SystemTime) {
        self.organisation.ca_expiry.set(unix_seconds(at));
    }

    /// Sets when the next exception expires, if there is one.
    pub fn exception_expiry(&self, at: Option<SystemTime>) {
        self.organisation.exception_expiry.set(at.map_or(0, unix_seconds));
    }

    /// Creates the series of a configured crawler, so that a rate over its first event is right. They are kept when the crawler
    /// is removed from the configuration, as counters must be.
    pub fn start_crawler_series(&self, crawler: &str) {
        // A connection that ends before its first request has no crawler, and neither has a client that is not identified.
        let has_crawler =
            |reason: &Reason| !reason.is_before_request() && *reason != Reason::Unidentified;
        let reasons = Reason::ALL.iter().copied().filter(has_crawler);
        self.start_requests(crawler, reasons);
        self.start_edge_responses(crawler);
        self.organisation.user_agent_mismatches.with_label_values(&[crawler]);
    }

    /// Counts a request of a known crawler whose `User-Agent` contains none of its tokens.
    pub fn user_agent_mismatch(&self, crawler: &str) {
        self.organisation.user_agent_mismatches.with_label_values(&[crawler]).inc();
    }

    /// Returns the number of requests of a known crawler whose `User-Agent` contained none of its tokens.
    pub fn user_agent_mismatches(&self, crawler: &str) -> u64 {
        self.organisation.user_agent_mismatches.with_label_values(&[crawler]).get()
    }

    /// Sets the use and the limit of each daily budget, given with its crawler and its name.
    pub fn budgets<'b>(&self, budgets: impl Iterator<Item = (&'b str, &'static str, u64, u64)>) {
        let OrganisationMetrics { budget_used, budget_limit, .. } = &self.organisation;
        // A reload may have removed some.
        budget_used.reset();
        budget_limit.reset();
        for (crawler, budget, used, limit) in budgets {
            let labels = [crawler, budget];
            budget_used.with_label_values(&labels).set(i64::try_from(used).unwrap_or(i64::MAX));
            budget_limit.with_label_values(&labels).set(i64::try_from(limit).unwrap_or(i64::MAX));
        }
    }

    /// Records a reload of the configuration, with its time if it succeeded.
    pub fn config_reloaded(&self, at: Option<SystemTime>) {
        self.organisation.reload_successful.set(i64::from(at.is_some()));
        // A failed reload leaves the time of the last successful one.
        if let Some(at) = at {
            self.organisation.reload_success_at.set(unix_seconds(at));
        }
    }

    /// Starts the series of a cause at zero.
    pub fn start_slow_downs(&self, cause: &str) {
        self.organisation.slow_downs.with_label_values(&[cause]);
    }

    /// Counts a slow-down by its cause.
    pub fn slow_down(&self, cause: &str) {
        self.organisation.slow_downs.with_label_values(&[cause]).inc();
    }

    /// Sets the number of paces that are slowed down.
    pub fn slowed_paces(&self, count: usize) {
        self.organisation.slowed_paces.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Records how long a request waited for a slot.
    pub fn crawl_delay_wait(&self, waited: Duration) {
        self.organisation.crawl_delay_waits.observe(waited.as_secs_f64());
    }

    /// Counts decisions that are missing in the log.
    pub fn decisions_dropped(&self, count: u64) {
        self.organisation.decisions_dropped.inc_by(count);
    }

    /// Counts alterations found in the decision log.
    pub fn decision_log_altered(&self, times: u64) {
        self.organisation.decision_log_altered.inc_by(times);
    }

    /// Sets whether the decision log's head cannot be written.
    pub fn decision_log_unsigned(&self, is_unsigned: bool) {
        self.organisation.decision_log_unsigned.set(i64::from(is_unsigned));
    }

    /// Sets the number of files beside the decision log that do not belong to it.
    pub fn decision_log_foreign_files(&self, files: usize) {
        self.organisation.decision_log_foreign_files.set(i64::try_from(files).unwrap_or(i64::MAX));
    }

    /// Counts signatures: requests that were `signed`, or sent again because the origin `asked`; requests for signatures that
    /// were `unanswerable`; clients' own signatures, which were `foreign` and removed; and each `tunnel`, which cannot be
    /// signed.
    pub fn signatures(&self, result: &str, count: u64) {
        self.signatures.with_label_values(&[result]).inc_by(count);
    }

    /// Counts a task that ended in a panic.
    pub fn panic(&self) {
        self.panics.inc();
    }

    /// Counts decisions for the collector: `sent`, `failed`, or `dropped` because the queue was full.
    pub(crate) fn exported_decisions(&self, result: &str, count: usize) {
        let counter = self.exported_decisions.with_label_values(&[result]);
        counter.inc_by(count.try_into().unwrap_or(u64::MAX));
    }

    /// Counts spans: `sent`, `failed`, or `dropped` because the queue was full.
    pub fn spans(&self, result: &str, count: usize) {
        self.spans.with_label_values(&[result]).inc_by(count.try_into().unwrap_or(u64::MAX));
    }

    /// Returns the content type and all metrics in Prometheus' text format.
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

/// Returns whole seconds since 1970, Prometheus' form of a time; 0 for anything earlier.
fn unix_seconds(at: SystemTime) -> i64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

/// Counts a connection as open, or a question as in progress, until it is dropped.
#[derive(Debug)]
pub struct OpenConnection(IntGauge);

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
const EXPORTED_DECISIONS: &str =
    "Decisions for log.otlp_endpoint, by whether they reached the collector.";
const SPANS: &str = "Spans of traces, by whether they reached the collector.";
const SIGNATURES: &str =
    "Requests of crawlers with a key, by whether they were signed, or why not.";
const EDGE_RESPONSES: &str =
    "Responses that turn away requests which robots.txt allows, by how they do.";
const PANICS: &str = "Tasks that panicked: each is a bug to report.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_series_exist_before_first_event() {
        let (_, text) = Metrics::new().unwrap().text().unwrap();
        assert!(text.contains("wayleave_robots_lookups_total{result=\"joined\"} 0"), "{text}");
        assert!(text.contains("wayleave_build_info{version="), "{text}");
    }

    #[test]
    fn every_help_text_is_a_sentence() {
        let (_, text) = Metrics::new().unwrap().text().unwrap();
        let texts = text.lines().filter_map(|line| line.strip_prefix("# HELP wayleave_"));
        for text in texts {
            let sentence = text.split_once(' ').map_or("", |(_, sentence)| sentence);
            let begins = sentence.starts_with(|c: char| c.is_ascii_uppercase() || c == '1');
            assert!(begins && sentence.ends_with('.'), "{text}");
        }
    }

    #[test]
    fn connection_is_counted_while_open() {
        let metrics = Metrics::new().unwrap();
        let open = metrics.client_connection();
        assert!(metrics.text().unwrap().1.contains("wayleave_client_connections 1"));
        drop(open);
        assert!(metrics.text().unwrap().1.contains("wayleave_client_connections 0"));
    }
}
