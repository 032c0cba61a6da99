//! One log line and one count per exchange.

use super::exchange::{ASSERTED, Exchange, Identity, Outcome};
use crate::metrics::Metrics;

/// Notes what became of an exchange.
pub(super) fn record(metrics: &Metrics, exchange: &Exchange) {
    let outcome = &exchange.outcome;
    let crawler = exchange.identity.as_ref().map_or(ASSERTED, Identity::label);
    let took = exchange.started.elapsed();
    metrics.request(crawler, outcome.label(), outcome.reason(), took);
    log(exchange, crawler, took.as_micros());
}

fn log(exchange: &Exchange, crawler: &str, took_us: u128) {
    let outcome = &exchange.outcome;
    let identity = match &exchange.identity {
        Some(Identity::Known(_)) => "known",
        _ => ASSERTED,
    };
    let token = exchange
        .identity
        .as_ref()
        .and_then(|identity| identity.tokens().first());
    let dialect = exchange.identity.as_ref().map(Identity::dialect);
    let refusal = match outcome {
        Outcome::Forward { .. } => None,
        Outcome::Refuse(refusal) | Outcome::Fail(refusal) => Some(refusal),
    };
    let explanation = refusal.and_then(|refusal| refusal.explanation.as_deref());
    tracing::info!(
        target: "wayleave::decision",
        decision_id = %exchange.id,
        outcome = outcome.label(),
        reason = outcome.reason(),
        status = outcome.status(),
        crawler,
        identity,
        token = token.map(tracing::field::display),
        client = %exchange.client,
        method = exchange.method,
        url = exchange.url,
        dialect = dialect.map(tracing::field::display),
        line = explanation.and_then(|explanation| explanation.line),
        rule = explanation.and_then(|explanation| explanation.rule.as_deref()),
        details = refusal.map(|refusal| &*refusal.details),
        took_us,
    );
}
