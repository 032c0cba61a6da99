//! Metrics of client and upstream connections, and of repairs to the messages on them.

use prometheus::{IntCounter, IntCounterVec, IntGauge, Registry};
use wayleave_http_wire::http1::oddities::Oddity;

use super::constructors::{counter, counters, counters_by_result, gauge, gauges};

const CAPTURED_CONNECTIONS: &str =
    "Connections of clients that know no HTTP proxy, by the listener's protocol and what came.";
const CLIENT_CONNECTIONS: &str = "Open client connections.";
const CLIENT_CONNECTIONS_LIMIT: &str =
    "The most client connections that may be open: proxy.max_connections.";
const GATEWAY_QUESTIONS: &str = "Questions of other proxies that are not answered yet.";
const GATEWAY_ANSWERS: &str = "Answers to other proxies, by what the answer is.";
const CLIENT_HANDSHAKES: &str = "TLS handshakes of clients with the proxy itself.";
const LEAF_CERTIFICATES: &str =
    "Leaf certificates requested for intercepted connections, by result.";
const ORIGIN_ODDITIES: &str = "Malformed responses of origins that were repaired, by kind.";
const DROPPED_INTERIM: &str = "Interim responses of origins that were not forwarded.";
const UPSTREAM_CONNECTIONS: &str =
    "Connections to origins that are serving a request, by whether they were reused.";
const UPSTREAM_PROXY: &str = "1 if origins are reached through a parent proxy, which resolves names, so that addresses are not checked.";

/// The age of a connection to an origin: new, or one that served requests before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionAge {
    New,
    Reused,
}

/// The metrics of connections.
#[derive(Debug)]
pub(super) struct ConnectionMetrics {
    pub(super) clients: IntGauge,
    pub(super) clients_limit: IntGauge,
    pub(super) captured: IntCounterVec,
    pub(super) client_handshakes: IntCounterVec,
    pub(super) leaf_certificates: IntCounterVec,
    pub(super) upstream_new: IntGauge,
    pub(super) upstream_reused: IntGauge,
    pub(super) upstream_proxy: IntGauge,
    pub(super) gateway_questions: IntGauge,
    pub(super) gateway_answers: IntCounterVec,
    pub(super) origin_oddities: IntCounterVec,
    pub(super) dropped_interim: IntCounter,
}

impl ConnectionMetrics {
    pub(super) fn new(registry: &Registry) -> anyhow::Result<Self> {
        let upstream = gauges(registry, "upstream_connections", UPSTREAM_CONNECTIONS, "reused")?;
        let connections = Self {
            clients: gauge(registry, "client_connections", CLIENT_CONNECTIONS)?,
            clients_limit: gauge(registry, "client_connections_limit", CLIENT_CONNECTIONS_LIMIT)?,
            captured: counters(
                registry,
                "captured_connections_total",
                CAPTURED_CONNECTIONS,
                &["listener", "result"],
            )?,
            client_handshakes: counters_by_result(
                registry,
                "client_handshakes_total",
                CLIENT_HANDSHAKES,
            )?,
            leaf_certificates: counters_by_result(
                registry,
                "leaf_certificates_total",
                LEAF_CERTIFICATES,
            )?,
            // Looked up once: every request uses one of the two.
            upstream_new: upstream.with_label_values(&["false"]),
            upstream_reused: upstream.with_label_values(&["true"]),
            upstream_proxy: gauge(registry, "upstream_proxy", UPSTREAM_PROXY)?,
            gateway_questions: gauge(registry, "gateway_questions", GATEWAY_QUESTIONS)?,
            gateway_answers: counters(
                registry,
                "gateway_answers_total",
                GATEWAY_ANSWERS,
                &["protocol", "answer"],
            )?,
            origin_oddities: counters(
                registry,
                "origin_oddities_total",
                ORIGIN_ODDITIES,
                &["kind"],
            )?,
            dropped_interim: counter(registry, "interim_responses_dropped_total", DROPPED_INTERIM)?,
        };
        connections.start_at_zero();
        Ok(connections)
    }

    fn start_at_zero(&self) {
        for (listener, own_result) in
            [("socks5", "malformed"), ("redirect", "not-redirected"), ("tproxy", "not-redirected")]
        {
            for result in
                ["tls", "http", "bypass", "not-http", "refused", "timeout", "closed", own_result]
            {
                self.captured.with_label_values(&[listener, result]);
            }
        }
        for result in ["hit", "minted", "failed", "untrusted"] {
            self.leaf_certificates.with_label_values(&[result]);
        }
        for result in ["completed", "certificate", "failed", "untrusted", "timeout", "plain"] {
            self.client_handshakes.with_label_values(&[result]);
        }
        for answer in ["allowed", "refused", "excess", "mistake"] {
            for protocol in ["http", "grpc", "icap"] {
                self.gateway_answers.with_label_values(&[protocol, answer]);
            }
        }
        self.gateway_answers.with_label_values(&["http", "noted"]);
        for oddity in Oddity::ALL {
            self.origin_oddities.with_label_values(&[oddity.as_str()]);
        }
    }
}
