//! Records an exchange: one decision, one count, and a trace if traces are collected.

use std::time::{Duration, Instant, SystemTime};

use super::outcome::{Begun, Exchange, Known, Outcome, passed};
use crate::decide::identify::Identity;
use crate::decide::permit::Decided;
use crate::decide::preference::Said;
use crate::decide::preview::{Previewed, Reading};
use crate::decide::resolve::Scope;
use crate::http::http1::oddities::Oddity;
use crate::observe::decisions::{Decision, DecisionId, Decisions, Policy, Word};
use crate::observe::metrics::{ASSERTED, Metrics};
use crate::observe::traces::{Parent, Traces};
use crate::rules::Match;

/// Notes what became of an exchange, and returns that.
pub(crate) fn record(
    metrics: &Metrics,
    decisions: &Decisions,
    traces: Option<&Traces>,
    exchange: Exchange,
) -> Outcome {
    let outcome = &exchange.outcome;
    let crawler = exchange
        .known
        .identity
        .as_ref()
        .map_or(ASSERTED, Identity::label);
    let took = exchange.started.elapsed();
    metrics.request(crawler, outcome.label(), outcome.reason(), took);
    if let Some(preferences) = &exchange.known.facts.preferences {
        metrics.preferences(&preferences.judgement);
    }
    let parent = exchange.parent.clone();
    let decided_at = exchange.known.facts.decided_at;
    let decided_after = decided_at.map(|at| at.saturating_duration_since(exchange.started));
    let (mut decision, outcome) = decision(exchange, took);
    decision.client = decisions.shown(decision.client);
    if let Some(traces) = traces {
        traces.exchange(&parent, &decision, decided_after);
    }
    decisions.record(decision);
    outcome
}

/// The decision that would be recorded of a request that nobody made.
pub(crate) fn preview(previewed: Previewed, at: SystemTime) -> (Decision, Vec<Reading>) {
    let Decided {
        url,
        facts,
        verdict,
    } = previewed.decided;
    let outcome = match verdict {
        Ok(permit) => passed(&permit, 200),
        Err(refusal) => Outcome::Refuse(refusal),
    };
    let begun = Begun {
        id: DecisionId::new(),
        started: Instant::now(),
        started_at: at,
        client: previewed.client,
        peer: None,
        certificate: None,
        method: &previewed.method,
        received: None,
    };
    let known = Known {
        url,
        identity: Some(previewed.identity),
        configuration: previewed.configuration,
        facts,
        ..Known::default()
    };
    let exchange = begun.end(known, Parent::default(), outcome);
    let (decision, _) = decision(exchange, Duration::ZERO);
    (decision, previewed.dialects)
}

/// The decision of an exchange that ended, and what became of it.
pub(crate) fn decision(exchange: Exchange, took: Duration) -> (Decision, Outcome) {
    let (crawler, identity, proven_by) = match &exchange.known.identity {
        Some(Identity::Known(crawler)) => {
            let name = Word::Owned(crawler.name.clone());
            (name, "known", crawler.proven_by())
        }
        _ => (Word::Borrowed(ASSERTED), ASSERTED, None),
    };
    let certificate = exchange.certificate.as_ref();
    let tokens = exchange.known.identity.as_ref().map(Identity::tokens);
    let tokens = tokens.unwrap_or_default().iter().map(ToString::to_string);
    let refusal = exchange.outcome.refusal();
    let details = refusal.map(|refusal| refusal.details.clone().into_owned());
    let would_be = match &exchange.outcome {
        Outcome::Observe { refusal, .. } => Some(refusal.status),
        _ => None,
    };
    let scope = exchange.known.facts.scope.and_then(Scope::word);
    let mode = exchange.known.identity.as_ref().map(Identity::mode);
    let said = exchange.known.facts.preferences.as_ref();
    let decision = Decision {
        id: exchange.id,
        at: exchange.started_at,
        outcome: exchange.outcome.label().into(),
        reason: exchange.outcome.reason().into(),
        status: exchange.outcome.status(),
        crawler,
        identity: identity.into(),
        proven_by: proven_by.map(Word::Borrowed),
        certificate: certificate.map(|certificate| certificate.name().to_string()),
        tokens: tokens.collect(),
        user_agent: exchange.user_agent,
        client: exchange.client.into(),
        peer: exchange.peer,
        method: exchange.method,
        url: exchange.known.url,
        origin: exchange.known.facts.origin.map(|origin| origin.to_string()),
        scope: scope.map(Word::Borrowed),
        username: exchange.known.username.map(|name| name.as_ref().to_owned()),
        robots_delay_us: exchange.known.facts.delay.map(micros),
        trace_id: exchange.parent.trace_id(),
        policy: exchange.known.facts.rule.as_ref().map(policy),
        finding: exchange.known.facts.finding,
        preferences: said.map_or_else(Vec::new, Said::each),
        documents: said.map_or_else(Vec::new, Said::documents),
        reached_origin: matches!(exchange.outcome, Outcome::Withhold(_)).then_some(true),
        would_be,
        body_bytes: exchange.known.body_bytes,
        signature: exchange.known.signature.map(Word::Borrowed),
        oddities: exchange.known.oddities.iter().map(word).collect(),
        mode: mode.unwrap_or_default().as_str().into(),
        configuration: exchange.known.configuration,
        details,
        decided_us: micros(exchange.known.facts.decided_in),
        waited_us: micros(exchange.known.waited),
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
