//! How an exchange begins, and the record of what became of it: one decision, one count, and a trace if traces are collected.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::Exchanges;
use super::outcome::{Outcome, Sent, passed};
use crate::decide::identify::Identity;
use crate::decide::permit::{Decided, Facts};
use crate::decide::preference::Said;
use crate::decide::preview::{Previewed, Reading};
use crate::decide::request::Connection;
use crate::decide::resolve::Scope;
use crate::http::http1::oddities::{Oddities, Oddity};
use crate::http::received::Received;
use crate::identity::{ClientCertificate, Crawler};
use crate::observe::decisions::{Decision, DecisionId, MAX_USER_AGENT_BYTES, Policy, Word};
use crate::observe::metrics::ASSERTED;
use crate::observe::traces::Parent;
use crate::rules::Match;

/// One request, from its head to the end of its response.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) id: DecisionId,
    pub(crate) started: Instant,
    pub(crate) started_at: SystemTime,
    pub(crate) client: IpAddr,
    pub(crate) peer: Option<IpAddr>,
    pub(crate) certificate: Option<Arc<ClientCertificate>>,
    pub(crate) method: String,
    pub(crate) user_agent: Option<String>,
    pub(crate) user_agent_cut: bool,
    /// The trace that the request says it is part of.
    pub(crate) parent: Parent,
    pub(crate) known: Known,
    pub(crate) outcome: Outcome,
}

/// What became known of a request on its way.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// The target if it was understood, else the request target as received.
    pub(crate) url: String,
    pub(crate) identity: Option<Identity>,
    /// The user name that was proved by a password.
    pub(crate) username: Option<Arc<str>>,
    /// Which configuration it met, counted from 1.
    pub(crate) configuration: u64,
    pub(crate) facts: Facts,
    /// How long it waited for its turn.
    pub(crate) waited: Duration,
    /// What had to be mended of the origin's response.
    pub(crate) oddities: Oddities,
    /// Whether it was signed for a crawler with a key: `signed`, or `tunnel` where that could not be.
    pub(crate) signature: Option<&'static str>,
    /// How much of the origin's body its client was handed, if an origin was asked.
    pub(crate) body_bytes: Option<u64>,
}

impl Known {
    /// The same with what the origin's answer added.
    pub(super) fn and(self, sent: Sent, said: Option<Said>) -> Self {
        let preferences = said.or(self.facts.preferences);
        let facts = Facts {
            preferences,
            ..self.facts
        };
        Self {
            oddities: sent.oddities,
            body_bytes: sent.body_bytes,
            signature: sent.is_signed.then_some("signed"),
            facts,
            ..self
        }
    }
}

/// An exchange that began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun<'a> {
    pub(super) id: DecisionId,
    pub(super) started: Instant,
    pub(super) started_at: SystemTime,
    pub(super) client: IpAddr,
    pub(super) peer: Option<IpAddr>,
    pub(super) certificate: Option<&'a Arc<ClientCertificate>>,
    pub(super) method: &'a str,
    pub(super) received: Option<&'a Received>,
}

impl Begun<'_> {
    pub(super) fn end(self, known: Known, parent: Parent, outcome: Outcome) -> Exchange {
        Exchange {
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

/// What a request calls itself, as text.
fn user_agent(received: &Received) -> Option<String> {
    let value = received.field("user-agent")?;
    let cut = &value[..value.len().min(MAX_USER_AGENT_BYTES)];
    Some(String::from_utf8_lossy(cut).into_owned())
}

/// Whether that is not all of it.
fn is_user_agent_cut(received: &Received) -> bool {
    let value = received.field("user-agent");
    value.is_some_and(|value| value.len() > MAX_USER_AGENT_BYTES)
}

impl Exchanges {
    /// An exchange begins; `received`: the request, if there is one.
    pub(super) fn begin<'a>(
        &self,
        connection: &'a Connection,
        received: Option<&'a Received>,
    ) -> Begun<'a> {
        Begun {
            id: DecisionId::new(),
            started: Instant::now(),
            started_at: self.decider.robots.clock().now(),
            client: connection.client,
            peer: connection.peer,
            certificate: connection.certificate.as_ref(),
            method: received.map_or("-", Received::method),
            received,
        }
    }

    pub(super) fn end(&self, begun: Begun<'_>, known: Known, outcome: Outcome) -> Exchange {
        let traced = begun
            .received
            .filter(|received| received.field("traceparent").is_some());
        let parent = traced.map_or_else(Parent::default, |received| Parent::of(&received.fields()));
        begun.end(known, parent, outcome)
    }

    pub(super) fn record(&self, begun: Begun<'_>, known: Known, outcome: Outcome) -> Outcome {
        self.record_ended(self.end(begun, known, outcome))
    }

    /// Notes what became of an exchange, and returns that.
    pub(crate) fn record_ended(&self, mut exchange: Exchange) -> Outcome {
        if self.is_unsigned_tunnel(&exchange) {
            exchange.known.signature = Some("tunnel");
            self.metrics.signatures("tunnel", 1);
        }
        if let Some(preferences) = &exchange.known.facts.preferences {
            self.metrics.preferences(&preferences.judgement);
        }
        let took = exchange.started.elapsed();
        let parent = exchange.parent.clone();
        let decided_at = exchange.known.facts.decided_at;
        let decided_after = decided_at.map(|at| at.saturating_duration_since(exchange.started));
        let (mut decision, outcome) = decision(exchange, took);
        let (label, reason) = (outcome.label(), outcome.reason());
        self.metrics.request(&decision.crawler, label, reason, took);
        decision.client = self.decisions.shown(decision.client);
        if let Some(traces) = &self.traces {
            traces.exchange(&parent, &decision, decided_after);
        }
        self.decisions.record(decision);
        outcome
    }

    /// Whether requests pass through a tunnel unseen, and unsigned, that would have been signed.
    fn is_unsigned_tunnel(&self, exchange: &Exchange) -> bool {
        let identity = exchange.known.identity.as_ref();
        let crawler = identity.and_then(Identity::crawler);
        let has_key = crawler.is_some_and(|crawler| crawler.signing_key.is_some());
        let is_tunnel = matches!(exchange.outcome, Outcome::Tunnel { .. });
        is_tunnel && has_key && self.decider.settings().signer.signs()
    }
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
        Err(refusal) => refusal.into(),
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
    let (known, outcome) = (exchange.known, exchange.outcome);
    let (facts, identity) = (known.facts, known.identity.as_ref());
    let crawler = identity.and_then(Identity::crawler);
    let tokens = identity.map(Identity::tokens).unwrap_or_default();
    let mode = identity.map(Identity::mode).unwrap_or_default();
    let certificate = exchange.certificate.as_ref();
    let said = facts.preferences.as_ref();
    let details = outcome.refusal().map(|it| it.details.clone().into_owned());
    let decision = Decision {
        id: exchange.id,
        at: exchange.started_at,
        outcome: outcome.label().into(),
        reason: outcome.reason().into(),
        status: outcome.status(),
        crawler: crawler.map_or(ASSERTED.into(), |it| Word::Owned(it.name.clone())),
        identity: crawler.map_or(ASSERTED, |_| "known").into(),
        proven_by: crawler.and_then(Crawler::proven_by).map(Word::Borrowed),
        certificate: certificate.map(|certificate| certificate.name().to_string()),
        tokens: tokens.iter().map(ToString::to_string).collect(),
        user_agent: exchange.user_agent,
        user_agent_cut: exchange.user_agent_cut,
        client: exchange.client.into(),
        peer: exchange.peer,
        method: exchange.method,
        url: known.url,
        origin: facts.origin.map(|origin| origin.to_string()),
        scope: facts.scope.and_then(Scope::word).map(Word::Borrowed),
        username: known.username.map(|name| name.as_ref().to_owned()),
        robots_delay_us: facts.delay.map(micros),
        trace_id: exchange.parent.trace_id(),
        policy: facts.rule.as_ref().map(policy),
        finding: facts.finding,
        preferences: said.map_or_else(Vec::new, Said::each),
        documents: said.map_or_else(Vec::new, Said::documents),
        reached_origin: matches!(outcome, Outcome::Withhold(_)).then_some(true),
        would_be: outcome.would_be(),
        body_bytes: known.body_bytes,
        signature: known.signature.map(Word::Borrowed),
        oddities: known.oddities.iter().map(word).collect(),
        mode: mode.as_str().into(),
        configuration: known.configuration,
        details,
        decided_us: micros(facts.decided_in),
        waited_us: micros(known.waited),
        took_us: micros(took),
    };
    (decision, outcome)
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
