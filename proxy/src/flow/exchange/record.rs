//! Records an exchange: one decision, one count, and a trace if traces are collected.

use std::mem;
use std::time::Duration;

use super::outcome::{Exchange, Outcome};
use crate::flow::decide::identify::Identity;
use crate::http::http1::oddities::Oddity;
use crate::observe::decisions::{Decision, Decisions, Policy, Word};
use crate::observe::metrics::{ASSERTED, Metrics};
use crate::observe::traces::Traces;
use crate::rules::Match;

/// Notes what became of an exchange, and returns that.
pub(crate) fn record(
    metrics: &Metrics,
    decisions: &Decisions,
    traces: Option<&Traces>,
    mut exchange: Exchange,
) -> Outcome {
    let outcome = &exchange.outcome;
    let crawler = exchange.identity.as_ref().map_or(ASSERTED, Identity::label);
    let took = exchange.started.elapsed();
    metrics.request(crawler, outcome.label(), outcome.reason(), took);
    let parent = mem::take(&mut exchange.parent);
    let decided_at = exchange.facts.decided_at;
    let decided_after = decided_at.map(|at| at.saturating_duration_since(exchange.started));
    let (decision, outcome) = decision(exchange, took);
    if let Some(traces) = traces {
        traces.exchange(&parent, &decision, decided_after);
    }
    decisions.record(decision);
    outcome
}

/// The decision of an exchange that ended, and what became of it.
pub(crate) fn decision(exchange: Exchange, took: Duration) -> (Decision, Outcome) {
    let (crawler, identity) = match &exchange.identity {
        Some(Identity::Known(crawler)) => (Word::Owned(crawler.name.clone()), "known"),
        _ => (Word::Borrowed(ASSERTED), ASSERTED),
    };
    let tokens = exchange.identity.as_ref().map(Identity::tokens);
    let tokens = tokens.unwrap_or_default().iter().map(ToString::to_string);
    let refusal = exchange.outcome.refusal();
    let details = refusal.map(|refusal| refusal.details.clone().into_owned());
    let would_be = match &exchange.outcome {
        Outcome::Observe { refusal, .. } => Some(refusal.status),
        _ => None,
    };
    let mode = exchange.identity.as_ref().map(Identity::mode);
    let decision = Decision {
        id: exchange.id,
        at: exchange.started_at,
        outcome: exchange.outcome.label().into(),
        reason: exchange.outcome.reason().into(),
        status: exchange.outcome.status(),
        crawler,
        identity: identity.into(),
        tokens: tokens.collect(),
        client: exchange.client,
        method: exchange.method,
        url: exchange.url,
        origin: exchange.facts.origin.map(|origin| origin.to_string()),
        policy: exchange.facts.rule.as_ref().map(policy),
        finding: exchange.facts.finding,
        would_be,
        oddities: exchange.facts.oddities.iter().map(word).collect(),
        mode: mode.unwrap_or_default().as_str().into(),
        configuration: exchange.configuration,
        details,
        decided_us: micros(exchange.facts.decided_in),
        waited_us: micros(exchange.facts.waited),
        took_us: micros(took),
    };
    (decision, exchange.outcome)
}

fn word(oddity: Oddity) -> Word {
    Word::Borrowed(oddity.as_str())
}

fn policy(found: &Match) -> Policy {
    Policy {
        number: found.number,
        action: found.rule.action.as_str().into(),
        owner: found.rule.owner.clone(),
        reason: found.rule.reason.clone(),
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
