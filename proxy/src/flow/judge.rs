//! May it? Who asks for what, and what speaks against it.

use std::fmt::Write;
use std::time::Instant;

use wayleave_policy::Scheme;

use super::exchange::{Connection, Facts, Identity, Refusal};
use super::identify::Identified;
use super::passage::Passage;
use super::request::{Received, Request};
use super::resolve::{self, Resolved, Scope};
use super::settings::Settings;
use super::way::Flow;
use super::{connect, consult, rule};
use crate::crawlers;
use crate::https::Mode;
use crate::rules::{Action, Asked, Match, Rules};

/// Why a tunnel opens that robots.txt was not asked about.
const BYPASS: &str = "bypass";

/// What stands against a request: the first objection, where objections are only observed.
struct Objections {
    mode: crawlers::Mode,
    observed: Option<Refusal>,
}

impl Objections {
    /// Notes an objection, unless it stands.
    fn raise(&mut self, refusal: Refusal) -> Result<(), Refusal> {
        let tolerated = refusal.tolerated(self.mode)?;
        self.observed.get_or_insert(tolerated);
        Ok(())
    }
}

impl Flow {
    /// Leave for a request to go on, or why it has none. `url` becomes the target's spelling.
    pub(super) async fn judge(
        &self,
        settings: &Settings,
        connection: &Connection,
        identified: &mut Identified,
        received: &Received,
        request: &Request<'_>,
        url: &mut String,
    ) -> (Facts, Result<Passage<'_>, Refusal>) {
        if let Err(refusal) = received.check() {
            return (Facts::default(), Err(refusal));
        }
        if request.is_loop {
            return (Facts::default(), Err(Refusal::looped()));
        }
        let resolved = match resolve::resolve(connection, request) {
            Ok(resolved) => resolved,
            Err(refusal) => return (Facts::default(), Err(refusal)),
        };
        url.clear();
        write!(url, "{}", resolved.target).expect("memory takes every string");
        let is_open = connection.tunnel.is_none();
        if is_open && settings.https.mode == Mode::Refuse && is_https(&resolved) {
            identified
                .objection
                .get_or_insert_with(connect::https_refused);
        }
        let (facts, judged) = self
            .decide(settings, identified, request.method, resolved)
            .await;
        self.metrics.decision(facts.decided_in);
        (facts, judged)
    }

    /// Leave for a request to go on to its target, unless something stands against it.
    pub(super) async fn decide(
        &self,
        settings: &Settings,
        identified: &mut Identified,
        method: &str,
        resolved: Resolved,
    ) -> (Facts, Result<Passage<'_>, Refusal>) {
        let started = Instant::now();
        let mut facts = Facts {
            origin: Some(resolved.target.origin().clone()),
            decided_at: Some(started),
            ..Facts::default()
        };
        let mut objections = Objections {
            mode: identified.identity.mode(),
            observed: None,
        };
        let objection = identified.objection.take();
        let reason = match objection.map_or(Ok(()), |refusal| objections.raise(refusal)) {
            Ok(()) => {
                let identity = &identified.identity;
                self.ask(
                    settings,
                    identity,
                    method,
                    &resolved,
                    &mut objections,
                    &mut facts,
                )
                .await
            }
            Err(refusal) => Err(refusal),
        };
        facts.decided_in = started.elapsed();
        let reason = reason.and_then(|reason| is_upper_case(method).map(|()| reason));
        let passage = reason.map(|reason| Passage {
            resolved,
            reason,
            observed: objections.observed,
            turn: None,
        });
        (facts, passage)
    }

    /// Asks the organisation's rules, then robots.txt; tells why the request may go on.
    async fn ask(
        &self,
        settings: &Settings,
        identity: &Identity,
        method: &str,
        resolved: &Resolved,
        objections: &mut Objections,
        facts: &mut Facts,
    ) -> Result<&'static str, Refusal> {
        let asked = Asked {
            target: &resolved.target,
            method,
            crawler: identity.label(),
            now: self.robots.clock().now(),
        };
        facts.rule = match resolved.scope {
            Scope::RobotsTxt => None,
            Scope::Path | Scope::Server => settings.rules.find(asked),
            Scope::EveryPath => settings.rules.find_for_every_request(asked),
            Scope::Bypass => settings.rules.find_for_host(asked),
        };
        if let Some(found) = &facts.rule {
            if found.rule.action == Action::Allow {
                // The exception is from what may be fetched, not from how often.
                let known = self.robots.at_hand(resolved.target.origin());
                facts.delay = known.and_then(|known| consult::delay(known.access(), identity));
                return Ok(rule::EXCEPTION);
            }
            rule::refusal(found).map_or(Ok(()), |refusal| objections.raise(refusal))?;
            if let Some(law) = behind(&settings.rules, asked, resolved.scope) {
                let refusal =
                    rule::refusal(&law).map_or(Ok(()), |refusal| objections.raise(refusal));
                facts.rule = Some(law);
                refusal?;
            }
        }
        if resolved.scope == Scope::Bypass {
            return Ok(BYPASS);
        }
        let consulted = consult::consult(&self.robots, identity, resolved).await;
        facts.finding = consulted.finding;
        facts.delay = consulted.delay;
        match consulted.reason {
            Ok(reason) => Ok(reason),
            Err(refusal) => {
                let reason = refusal.reason;
                objections.raise(refusal).map(|()| reason)
            }
        }
    }
}

/// The rule of the law behind one that is only observed, which lifts no other.
fn behind(rules: &Rules, asked: Asked<'_>, scope: Scope) -> Option<Match> {
    let found = rules.find_beyond_refusals(asked, |found| match scope {
        Scope::RobotsTxt => false,
        Scope::Path | Scope::Server => rules.is_met(found, asked),
        Scope::EveryPath => {
            found.rule.action == Action::RefuseLegally || found.rule.is_for_every_request()
        }
        Scope::Bypass => found.rule.is_for_every_request(),
    });
    found.filter(|found| found.rule.action == Action::RefuseLegally)
}

/// Methods are compared exactly (RFC 9110 section 9.1), but not by every origin: to some `post` is `POST`, and rules that name
/// methods would be passed by it.
fn is_upper_case(method: &str) -> Result<(), Refusal> {
    if method.bytes().any(|byte| byte.is_ascii_lowercase()) {
        let details = format!("{method:?} is not an upper-case method");
        return Err(Refusal::malformed(details));
    }
    Ok(())
}

fn is_https(resolved: &Resolved) -> bool {
    resolved.target.origin().scheme() == Scheme::Https
}
