//! What may be done: decides about a request and collects every objection.
//!
//! ```text
//!  identify ── resolve ── rules ── consult      who asks, for what, what the organisation says, what robots.txt says
//!  preview                                      the same for a request that nobody made
//!  permit, settings, https_mode                 what they hand each other, and go by
//! ```

pub(crate) mod consult;
pub(crate) mod https_mode;
pub(crate) mod identify;
pub(crate) mod permit;
pub(crate) mod preview;
pub(crate) mod refusal;
pub(crate) mod request;
pub(crate) mod resolve;
pub(crate) mod rules;
pub(crate) mod settings;

use std::time::Instant;

use wayleave_policy::Scheme;

use self::https_mode::{Mode, Way};
use self::identify::Identified;
use self::permit::Facts;
use self::permit::Permit;
use self::refusal::Refusal;
use self::request::Request;
use self::resolve::{Asking, Resolved, Scope};
use self::settings::Settings;
use crate::flow::exchange::Flow;
use crate::http::proxy_status::ErrorType;
use crate::identity;
use crate::rules::{Action, Asked, Match, Rules};

/// Why a tunnel opens that robots.txt was not asked about.
const BYPASS: &str = "bypass";

/// What stands against a request: the first objection, where objections are only observed.
struct Objections {
    mode: identity::Mode,
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

/// The refusal of HTTPS as such: of a tunnel, of what is asked for inside one, and of an `https:` target in the open.
pub(crate) fn https_refusal(
    settings: &Settings,
    resolved: &Resolved,
    is_by_tunnel: bool,
) -> Option<Refusal> {
    let origin = resolved.target.origin();
    let is_refused = match is_by_tunnel {
        true => settings.https.way(origin.host()) == Way::Mode(Mode::Refuse),
        false => settings.https.mode == Mode::Refuse && origin.scheme() == Scheme::Https,
    };
    is_refused.then(|| Refusal {
        closes: is_by_tunnel,
        ..https_refused()
    })
}

impl Flow {
    /// TunnelPermit for a request to go on, or why it has none. `url` becomes the target's spelling.
    pub(crate) async fn judge(
        &self,
        settings: &Settings,
        asking: Asking<'_>,
        identified: &mut Identified,
        request: &Request<'_>,
        url: &mut String,
    ) -> (Facts, Result<Permit<'_>, Refusal>) {
        if let Some(refusal) = asking
            .received
            .check()
            .err()
            .and_then(refusal::head_refusal)
        {
            // Unlike a head that could not be read, it says who sent it.
            let reason = "malformed-request";
            return (Facts::default(), Err(Refusal { reason, ..refusal }));
        }
        if request.is_loop {
            return (Facts::default(), Err(Refusal::looped()));
        }
        let resolved = match asking.resolve(request) {
            Ok(resolved) => resolved,
            Err(refusal) => return (Facts::default(), Err(refusal)),
        };
        url.clear();
        asking.spell(&resolved, url);
        let is_by_tunnel = asking.connection.tunnel.is_some() || asking.unseen.is_some();
        if let Some(refusal) = https_refusal(settings, &resolved, is_by_tunnel) {
            identified.objection.get_or_insert(refusal);
        }
        let (facts, judged) = self
            .decide(settings, identified, request.method, resolved)
            .await;
        self.metrics.decision(facts.decided_in);
        (facts, judged)
    }

    /// TunnelPermit for a request to go on to its target, unless something stands against it.
    pub(crate) async fn decide(
        &self,
        settings: &Settings,
        identified: &mut Identified,
        method: &str,
        resolved: Resolved,
    ) -> (Facts, Result<Permit<'_>, Refusal>) {
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
                self.ask(
                    settings,
                    identified,
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
        let permit = reason.map(|reason| Permit {
            resolved,
            reason,
            observed: objections.observed,
            turn: None,
        });
        (facts, permit)
    }

    /// Asks the organisation's rules, then robots.txt; tells why the request may go on.
    async fn ask(
        &self,
        settings: &Settings,
        identified: &Identified,
        method: &str,
        resolved: &Resolved,
        objections: &mut Objections,
        facts: &mut Facts,
    ) -> Result<&'static str, Refusal> {
        let identity = &identified.identity;
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
                if let Some(known) = self.robots.at_hand(resolved.target.origin()) {
                    let politeness = &settings.politeness;
                    facts.delay = consult::delay(known.access(), identity);
                    facts.group = consult::group(known.access(), politeness, identity, facts.delay);
                }
                return Ok(rules::EXCEPTION);
            }
            rules::refusal(found).map_or(Ok(()), |refusal| objections.raise(refusal))?;
            if let Some(law) = behind(&settings.rules, asked, resolved.scope) {
                let refusal =
                    rules::refusal(&law).map_or(Ok(()), |refusal| objections.raise(refusal));
                facts.rule = Some(law);
                refusal?;
            }
        }
        if resolved.scope == Scope::Bypass {
            return Ok(BYPASS);
        }
        let consulted =
            consult::consult(&self.robots, &settings.politeness, identified, resolved).await;
        facts.finding = consulted.finding;
        facts.delay = consulted.delay;
        facts.group = consulted.group;
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

/// The refusal of HTTPS as such.
pub(crate) fn https_refused() -> Refusal {
    Refusal {
        is_policy: true,
        ..Refusal::new(
            403,
            "HTTPS refused",
            ErrorType::HttpRequestDenied,
            "https-refused",
            "https.mode is \"refuse\": this proxy refuses all HTTPS",
        )
    }
}
