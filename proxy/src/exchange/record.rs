//! The start of an exchange, and its record: one decision, one count, and a trace if traces are collected.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use wayleave_decision::{
    ASSERTED, Crawler, DecisionFacts, Identity, PreferenceDecision, RuleMatch, TargetScope, Verdict,
};

use super::ExchangeServices;
use super::outcome::{ExchangeOutcome, permitted_outcome};
use crate::decide::preview::{PreviewedDecision, Reading};
use crate::decide::request::ClientConnection;
use crate::decision_log::{
    DecisionId, DecisionRecord, LogWord, MAX_USER_AGENT_BYTES, RuleRecord, UsePreference,
};
use crate::http::http1::oddities::{Oddities, Oddity};
use crate::http::received::ReceivedHead;
use crate::identity::ClientCertificate;
use crate::traces::ParentTrace;

/// One request, from its head to the end of its response.
#[derive(Debug)]
pub(crate) struct EndedExchange {
    pub(crate) id: DecisionId,
    pub(crate) started: Instant,
    pub(crate) started_at: SystemTime,
    pub(crate) client: IpAddr,
    pub(crate) peer: Option<IpAddr>,
    pub(crate) certificate: Option<Arc<ClientCertificate>>,
    pub(crate) method: String,
    pub(crate) user_agent: Option<String>,
    pub(crate) user_agent_cut: bool,
    /// The trace context that the request carries.
    pub(crate) parent: ParentTrace,
    pub(crate) known: ExchangeFacts,
    pub(crate) outcome: ExchangeOutcome,
}

/// The facts that an exchange collects for its record.
#[derive(Debug, Default)]
pub(crate) struct ExchangeFacts {
    /// The target if it was valid, else the request target as received.
    pub(crate) url: String,
    pub(crate) identity: Option<Identity>,
    /// The user name that a password proved.
    pub(crate) username: Option<Arc<str>>,
    /// The number of the configuration in effect, from 1.
    pub(crate) configuration: u64,
    pub(crate) facts: DecisionFacts,
    /// The group of robots.txt that gives an unknown client its pace, where that matters.
    pub(crate) pace_group: String,
    /// The moment at which the decision began, if there was one.
    pub(crate) decided_at: Option<Instant>,
    pub(crate) decided_in: Duration,
    /// The time spent waiting for a slot.
    pub(crate) waited: Duration,
    /// The repairs of the origin's response.
    pub(crate) oddities: Oddities,
    /// `signed` if a crawler with a key had it signed, `tunnel` where that was impossible.
    pub(crate) signature: Option<&'static str>,
    /// The size of the origin's body as far as the client got it; `None` if no origin was contacted.
    pub(crate) body_bytes: Option<u64>,
}

/// An exchange that has started.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExchangeStart<'a> {
    pub(super) id: DecisionId,
    pub(super) started: Instant,
    pub(super) started_at: SystemTime,
    pub(super) client: IpAddr,
    pub(super) peer: Option<IpAddr>,
    pub(super) certificate: Option<&'a Arc<ClientCertificate>>,
    pub(super) method: &'a str,
    pub(super) received: Option<&'a ReceivedHead>,
}

impl ExchangeStart<'_> {
    pub(super) fn end(
        self,
        known: ExchangeFacts,
        parent: ParentTrace,
        outcome: ExchangeOutcome,
    ) -> EndedExchange {
        EndedExchange {
            id: self.id,
            started: self.started,
            started_at: self.started_at,
            client: self.client,
            peer: self.peer,
            certificate: self.certificate.cloned(),
            method: self.method.to_owned(),
            user_agent: self.received.and_then(user_agent),
            user_agent_cut: self.received.is_some_and(is_user_agent_cut),
            parent,
            known,
            outcome,
        }
    }
}

/// Returns the User-Agent as text, cut to the length that is recorded.
fn user_agent(received: &ReceivedHead) -> Option<String> {
    let value = received.field("user-agent")?;
    let cut = &value[..value.len().min(MAX_USER_AGENT_BYTES)];
    Some(String::from_utf8_lossy(cut).into_owned())
}

/// Returns whether the recorded User-Agent was cut.
fn is_user_agent_cut(received: &ReceivedHead) -> bool {
    let value = received.field("user-agent");
    value.is_some_and(|value| value.len() > MAX_USER_AGENT_BYTES)
}

impl ExchangeServices {
    /// Starts an exchange, for the request `received` if there is one.
    pub(super) fn begin<'a>(
        &self,
        connection: &'a ClientConnection,
        received: Option<&'a ReceivedHead>,
    ) -> ExchangeStart<'a> {
        ExchangeStart {
            id: DecisionId::new(),
            started: Instant::now(),
            started_at: self.decider.robots.clock().now(),
            client: connection.client,
            peer: connection.peer,
            certificate: connection.certificate.as_ref(),
            method: received.map_or("-", ReceivedHead::method),
            received,
        }
    }

    pub(super) fn end(
        &self,
        begun: ExchangeStart<'_>,
        known: ExchangeFacts,
        outcome: ExchangeOutcome,
    ) -> EndedExchange {
        // Parsing the trace context is skipped for requests that have none.
        let traced = begun.received.filter(|received| received.field("traceparent").is_some());
        let parent = traced.map_or_else(ParentTrace::default, |received| {
            ParentTrace::from_fields(&received.fields())
        });
        begun.end(known, parent, outcome)
    }

    pub(super) fn record(
        &self,
        begun: ExchangeStart<'_>,
        known: ExchangeFacts,
        outcome: ExchangeOutcome,
    ) -> ExchangeOutcome {
        self.record_ended(self.end(begun, known, outcome))
    }

    /// Records an exchange and returns its outcome.
    pub(crate) fn record_ended(&self, mut exchange: EndedExchange) -> ExchangeOutcome {
        if self.is_unsigned_tunnel(&exchange) {
            exchange.known.signature = Some("tunnel");
            self.metrics.signatures("tunnel", 1);
        }
        if let Some(preferences) = &exchange.known.facts.preferences {
            self.metrics.preferences(&preferences.judgement);
        }
        let took = exchange.started.elapsed();
        let parent = exchange.parent.clone();
        let decided_at = exchange.known.decided_at;
        let decided_after = decided_at.map(|at| at.saturating_duration_since(exchange.started));
        // The pace of recording must not hold up the client: the log takes the decision and writes it on a thread of its own.
        let (mut decision, outcome) = decision(exchange, took);
        let (label, reason) = (outcome.request_outcome(), outcome.reason());
        self.metrics.request_finished(&decision.crawler, label, reason, took);
        // Masked before it leaves this function, so that neither log, traces nor API see the full address.
        decision.client = self.decisions.mask_client(decision.client);
        if let Some(traces) = &self.traces {
            traces.record_exchange(&parent, &decision, decided_after);
        }
        self.decisions.record(decision);
        outcome
    }

    /// Returns whether requests pass unsigned through an uninspected tunnel that would otherwise have been signed.
    fn is_unsigned_tunnel(&self, exchange: &EndedExchange) -> bool {
        let identity = exchange.known.identity.as_ref();
        let crawler = identity.and_then(Identity::crawler);
        let has_key = crawler.is_some_and(|crawler| crawler.signing_key.is_some());
        let is_tunnel = matches!(exchange.outcome, ExchangeOutcome::Tunnel { .. });
        is_tunnel && has_key && self.decider.settings().signer.is_enabled()
    }
}

/// Returns the decision that would be recorded for a previewed request.
pub(crate) fn preview(
    previewed: PreviewedDecision,
    at: SystemTime,
) -> (DecisionRecord, Vec<Reading>) {
    let Verdict { facts, result } = previewed.verdict;
    let outcome = match result {
        Ok(permit) => permitted_outcome(&permit, 200),
        Err(refusal) => refusal.into(),
    };
    let begun = ExchangeStart {
        id: DecisionId::new(),
        started: Instant::now(),
        started_at: at,
        client: previewed.client,
        peer: None,
        certificate: None,
        method: &previewed.method,
        received: None,
    };
    let known = ExchangeFacts {
        url: previewed.url,
        identity: Some(previewed.identity),
        configuration: previewed.configuration,
        facts,
        ..ExchangeFacts::default()
    };
    let exchange = begun.end(known, ParentTrace::default(), outcome);
    let (decision, _) = decision(exchange, Duration::ZERO);
    (decision, previewed.dialects)
}

/// Returns the decision and the outcome of an exchange that has ended.
pub(crate) fn decision(
    exchange: EndedExchange,
    took: Duration,
) -> (DecisionRecord, ExchangeOutcome) {
    let (known, outcome) = (exchange.known, exchange.outcome);
    let (facts, identity) = (known.facts, known.identity.as_ref());
    let crawler = identity.and_then(Identity::crawler);
    let tokens = identity.map(Identity::tokens).unwrap_or_default();
    let mode = identity.map(Identity::mode).unwrap_or_default();
    let certificate = exchange.certificate.as_ref();
    let said = facts.preferences.as_ref();
    let details = outcome.refusal().map(|it| it.details.clone().into_owned());
    let decision = DecisionRecord {
        id: exchange.id,
        at: exchange.started_at,
        outcome: outcome.request_outcome().as_str().into(),
        reason: outcome.reason().as_str().into(),
        status: outcome.status(),
        crawler: crawler.map_or(ASSERTED.into(), |it| LogWord::Owned(it.name.clone())),
        identity: crawler.map_or(ASSERTED, |_| "known").into(),
        proven_by: crawler.and_then(Crawler::proven_by).map(LogWord::Borrowed),
        certificate: certificate.map(|certificate| certificate.name().to_string()),
        tokens: tokens.iter().map(ToString::to_string).collect(),
        user_agent: exchange.user_agent,
        user_agent_cut: exchange.user_agent_cut,
        client: exchange.client.into(),
        peer: exchange.peer,
        method: exchange.method,
        url: known.url,
        origin: facts.origin.map(|origin| origin.to_string()),
        scope: facts.scope.and_then(TargetScope::log_word).map(LogWord::Borrowed),
        username: known.username.map(|name| name.as_ref().to_owned()),
        robots_delay_us: facts.delay.map(micros),
        trace_id: exchange.parent.trace_id(),
        policy: facts.rule.as_ref().map(policy),
        finding: facts.finding.map(Into::into),
        preferences: said
            .into_iter()
            .flat_map(PreferenceDecision::stated_preferences)
            .map(|stated| UsePreference::from(&stated))
            .collect(),
        documents: said
            .into_iter()
            .flat_map(PreferenceDecision::documents_seen)
            .map(Into::into)
            .collect(),
        reached_origin: matches!(outcome, ExchangeOutcome::Withhold(_)).then_some(true),
        would_be: outcome.would_be(),
        body_bytes: known.body_bytes,
        signature: known.signature.map(LogWord::Borrowed),
        oddities: known.oddities.iter().map(word).collect(),
        mode: mode.as_str().into(),
        configuration: known.configuration,
        details,
        decided_us: micros(known.decided_in),
        waited_us: micros(known.waited),
        took_us: micros(took),
    };
    (decision, outcome)
}

fn word(oddity: Oddity) -> LogWord {
    LogWord::Borrowed(oddity.as_str())
}

fn policy(found: &RuleMatch) -> RuleRecord {
    RuleRecord {
        number: found.number,
        action: found.rule.action.as_str().into(),
        owner: found.rule.owner.clone(),
        reason: found.rule.reason.clone(),
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
