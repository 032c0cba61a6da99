//! One log line and one count per exchange.

use std::io::Write;
use std::net::IpAddr;
use std::time::SystemTime;

use serde::Serialize;
use wayleave_policy::ProductToken;

use super::exchange::{ASSERTED, Exchange, Identity, Outcome};
use crate::logging::{Format, Log};
use crate::metrics::Metrics;

/// What the lines are known by, also to `RUST_LOG`.
const TARGET: &str = "wayleave::decision";

/// Notes what became of an exchange.
pub(super) fn record(metrics: &Metrics, log: &Log, exchange: &Exchange) {
    let outcome = &exchange.outcome;
    let crawler = exchange.identity.as_ref().map_or(ASSERTED, Identity::label);
    let took = exchange.started.elapsed();
    metrics.request(crawler, outcome.label(), outcome.reason(), took);
    if tracing::enabled!(target: TARGET, tracing::Level::INFO) {
        append(log, &Line::new(exchange, crawler, took.as_micros()));
    }
}

/// A decision as it is logged. Written here rather than by tracing, which takes five times as long.
#[derive(Serialize)]
struct Line<'a> {
    timestamp: String,
    level: &'static str,
    target: &'static str,
    decision_id: String,
    outcome: &'static str,
    reason: &'static str,
    status: u16,
    crawler: &'a str,
    identity: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
    client: IpAddr,
    method: &'a str,
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dialect: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a str>,
    took_us: u128,
}

impl<'a> Line<'a> {
    fn new(exchange: &'a Exchange, crawler: &'a str, took_us: u128) -> Self {
        let identity = exchange.identity.as_ref();
        let refusal = match &exchange.outcome {
            Outcome::Forward { .. } => None,
            Outcome::Refuse(refusal) | Outcome::Fail(refusal) => Some(refusal),
        };
        let explanation = refusal.and_then(|refusal| refusal.explanation.as_deref());
        let tokens = identity.map_or(&[][..], Identity::tokens);
        Self {
            timestamp: humantime::format_rfc3339_micros(SystemTime::now()).to_string(),
            level: "INFO",
            target: TARGET,
            decision_id: exchange.id.to_string(),
            outcome: exchange.outcome.label(),
            reason: exchange.outcome.reason(),
            status: exchange.outcome.status(),
            crawler,
            identity: match identity {
                Some(Identity::Known(_)) => "known",
                _ => ASSERTED,
            },
            token: tokens.first().map(ProductToken::as_str),
            client: exchange.client,
            method: &exchange.method,
            url: &exchange.url,
            dialect: identity.map(|identity| identity.dialect().as_str()),
            line: explanation.and_then(|explanation| explanation.line),
            rule: explanation.and_then(|explanation| explanation.rule.as_deref()),
            details: refusal.map(|refusal| &*refusal.details),
            took_us,
        }
    }

    fn write_text(&self, to: &mut Vec<u8>) -> std::io::Result<()> {
        write!(
            to,
            "{}  INFO {TARGET}: decision_id={} outcome={} reason={} status={} crawler={} identity={}",
            self.timestamp,
            self.decision_id,
            self.outcome,
            self.reason,
            self.status,
            self.crawler,
            self.identity
        )?;
        if let Some(token) = self.token {
            write!(to, " token={token}")?;
        }
        write!(to, " client={} method={:?}", self.client, self.method)?;
        write!(to, " url={:?}", self.url)?;
        if let Some(dialect) = self.dialect {
            write!(to, " dialect={dialect}")?;
        }
        if let Some(line) = self.line {
            write!(to, " line={line}")?;
        }
        if let Some(rule) = self.rule {
            write!(to, " rule={rule:?}")?;
        }
        if let Some(details) = self.details {
            write!(to, " details={details:?}")?;
        }
        writeln!(to, " took_us={}", self.took_us)
    }
}

fn append(log: &Log, line: &Line<'_>) {
    log.lines.append(|buffer| {
        // Writing to memory does not fail, and every field can be written.
        let _ = match log.format {
            Format::Text => line.write_text(buffer),
            Format::Json => serde_json::to_writer(&mut *buffer, line)
                .map_err(Into::into)
                .and_then(|()| writeln!(buffer)),
        };
    });
}
