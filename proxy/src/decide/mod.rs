//! What may be done about a request: a decision is a value, made without sockets and without its client.
//!
//! ```text
//!  identify ── resolve ── rules ── consult ── preference      who asks, for what, what the organisation and robots.txt say
//!  documents                            what stands beside robots.txt and speaks of use
//!  preview                              the same for a request that nobody made
//!  request, permit, refusal             what goes in and comes out
//!  settings, https_mode                 what is gone by
//!  rederive                             the same by a line of the log, years later
//! ```

pub(crate) mod consult;
pub(crate) mod documents;
pub(crate) mod https;
pub(crate) mod identify;
pub(crate) mod permit;
pub(crate) mod preference;
pub(crate) mod preview;
pub(crate) mod rederive;
pub(crate) mod refusal;
pub(crate) mod request;
pub(crate) mod rules;
pub(crate) mod settings;
pub(crate) mod target;

use std::sync::Arc;
use std::time::Instant;

use wayleave_robots_txt::Scheme;

use self::consult::Consulted;
use self::https::{HttpsHandling, HttpsMode};
use self::identify::IdentifiedClient;
use self::permit::{DecidedRequest, DecisionFacts, Permit};
use self::refusal::Refusal;
use self::request::{ClientConnection, RequestView};
use self::settings::{CurrentSettings, Settings};
use self::target::{IncomingRequest, ResolvedTarget, TargetScope};
use crate::http::proxy_status::ProxyErrorType;
use crate::identity;
use crate::robots_cache::RobotsCache;
use crate::rules::{RuleAction, RuleQuery};
use crate::telemetry::metrics::Metrics;

/// Why a tunnel opens that robots.txt was not asked about.
const BYPASS: &str = "bypass";

/// Decides about requests, by the settings that hold and the robots.txt at hand.
pub(crate) struct Decider {
    settings: Arc<CurrentSettings>,
    pub(crate) robots: RobotsCache,
}

/// A request that was understood.
#[derive(Clone, Copy)]
struct Understood<'a> {
    identified: &'a IdentifiedClient,
    method: &'a str,
    resolved: &'a ResolvedTarget,
}

/// Why a request may go on, and why it would not have if that were not only observed.
struct Allowed {
    reason: &'static str,
    observed: Option<Refusal>,
}

impl Decider {
    pub(crate) fn new(settings: Arc<CurrentSettings>, robots: RobotsCache) -> Self {
        Self { settings, robots }
    }

    /// Returns the settings in effect; see [`CurrentSettings::load`].
    pub(crate) fn settings(&self) -> Arc<Settings> {
        self.settings.load()
    }

    /// Returns whether these are the settings in effect.
    pub(crate) fn is_current(&self, settings: &Settings) -> bool {
        self.settings.is_current(settings)
    }

    /// Puts other settings into effect.
    pub(crate) fn replace_settings(&self, settings: Settings) {
        self.settings.replace(settings);
    }

    /// Waits until the configuration of this number has been replaced, and returns the settings then in effect.
    pub(crate) async fn settings_after(&self, configuration: u64) -> Arc<Settings> {
        self.settings.after(configuration).await
    }

    /// Brings the metrics up to date that are counted when they are gathered.
    pub(crate) fn update_metrics(&self, metrics: &Metrics) {
        self.robots.update_metrics();
        let (rules, now) = (&self.settings().rules, self.robots.clock().now());
        let (active, expired) = rules.count(now);
        metrics.rules(active, expired.len());
        metrics.exception_expiry(rules.next_expiry(now));
    }

    /// Decides about a request of `identified`. Waits for the origin's robots.txt if it is not at hand.
    pub(crate) async fn decide(
        &self,
        settings: &Settings,
        identified: &IdentifiedClient,
        asking: IncomingRequest<'_>,
    ) -> DecidedRequest {
        let resolved = match asking.resolve() {
            Ok(resolved) => resolved,
            Err(refusal) => {
                return DecidedRequest {
                    url: asking.display_target(None),
                    facts: DecisionFacts::default(),
                    verdict: Err(refusal),
                };
            }
        };
        let url = asking.display_target(Some(&resolved));
        let understood = Understood {
            identified,
            method: asking.request.method,
            resolved: &resolved,
        };
        let judging = self.judge(settings, understood, asking.is_by_tunnel());
        let (facts, allowed) = judging.await;
        let verdict = allowed.map(|Allowed { reason, observed }| Permit {
            resolved,
            reason,
            observed,
            purposes: identified.purposes(),
        });
        DecidedRequest {
            url,
            facts,
            verdict,
        }
    }

    /// Whether a request would be let go on by these settings; what it proved when it came counts for as long as its password.
    pub(crate) async fn is_still_allowed(
        &self,
        settings: &Settings,
        connection: &ClientConnection,
        request: &RequestView<'_>,
        resolved: &ResolvedTarget,
    ) -> bool {
        let crawlers = &settings.crawlers;
        let Ok(proof) = identify::proven_before(crawlers, connection) else {
            return false;
        };
        let identified = identify::recognised(crawlers, connection, proof, request);
        let is_by_tunnel = connection.tunnel.is_some() || resolved.is_blind();
        let understood = Understood {
            identified: &identified,
            method: request.method,
            resolved,
        };
        let (_, allowed) = self.judge(settings, understood, is_by_tunnel).await;
        allowed.is_ok()
    }

    /// Hears what stands against the crawler or HTTPS as such, the organisation's rules and robots.txt; notes how long that took.
    async fn judge(
        &self,
        settings: &Settings,
        understood: Understood<'_>,
        is_by_tunnel: bool,
    ) -> (DecisionFacts, Result<Allowed, Refusal>) {
        let decided_at = Instant::now();
        let mode = understood.identified.identity.mode();
        let objection = understood.identified.objection.clone();
        let objection =
            objection.or_else(|| https_refusal(settings, understood.resolved, is_by_tunnel));
        let observed = objection.map(|refusal| refusal.enforce(mode)).transpose();
        let (facts, allowed) = match observed {
            Ok(observed) => self.ask(settings, understood, observed).await,
            Err(refusal) => (DecisionFacts::default(), Err(refusal)),
        };
        let facts = DecisionFacts {
            origin: Some(understood.resolved.target.origin().clone()),
            scope: Some(understood.resolved.scope),
            decided_at: Some(decided_at),
            decided_in: decided_at.elapsed(),
            ..facts
        };
        let spelling = is_upper_case(understood.method);
        (
            facts,
            allowed.and_then(|allowed| spelling.map(|()| allowed)),
        )
    }

    /// Asks the organisation's rules, then robots.txt. `observed`: what would have refused it by now.
    async fn ask(
        &self,
        settings: &Settings,
        understood: Understood<'_>,
        observed: Option<Refusal>,
    ) -> (DecisionFacts, Result<Allowed, Refusal>) {
        let Understood {
            identified,
            method,
            resolved,
        } = understood;
        let (identity, scope) = (&identified.identity, resolved.scope);
        let mode = identity.mode();
        let asked = RuleQuery {
            target: &resolved.target,
            method,
            crawler: identity.label(),
            purposes: identified.purposes(),
            now: self.robots.clock().now(),
        };
        let rule = rules::find(&settings.rules, asked, scope, mode);
        if let Some(found) = &rule
            && found.rule.action == RuleAction::Allow
        {
            let paced = self.pace(settings, identified, resolved);
            let reason = rules::EXCEPTION;
            return (
                DecisionFacts { rule, ..paced },
                Ok(Allowed { reason, observed }),
            );
        }
        let observed = raise(observed, rule.as_ref().and_then(rules::refusal), mode);
        let facts = DecisionFacts {
            rule,
            ..DecisionFacts::default()
        };
        match observed {
            Err(refusal) => (facts, Err(refusal)),
            Ok(observed) if scope == TargetScope::Bypass => {
                let reason = BYPASS;
                (facts, Ok(Allowed { reason, observed }))
            }
            Ok(observed) => self.ask_robots(settings, understood, facts, observed).await,
        }
    }

    /// Asks robots.txt, which the organisation's rules leave to decide.
    async fn ask_robots(
        &self,
        settings: &Settings,
        understood: Understood<'_>,
        facts: DecisionFacts,
        observed: Option<Refusal>,
    ) -> (DecisionFacts, Result<Allowed, Refusal>) {
        let Understood {
            identified,
            method,
            resolved,
        } = understood;
        let consulting = consult::consult(&self.robots, settings, identified, method, resolved);
        let Consulted {
            finding,
            reason,
            delay,
            group,
            preferences,
        } = consulting.await;
        let facts = DecisionFacts {
            finding,
            preferences,
            delay,
            group,
            ..facts
        };
        let allowed = match reason {
            Ok(reason) => Ok(Allowed { reason, observed }),
            Err(refusal) => {
                let (reason, mode) = (refusal.reason, identified.identity.mode());
                let observed = raise(observed, Some(refusal), mode);
                observed.map(|observed| Allowed { reason, observed })
            }
        };
        (facts, allowed)
    }

    /// How often an exception may be made use of: it is from what may be fetched, not from how often.
    fn pace(
        &self,
        settings: &Settings,
        identified: &IdentifiedClient,
        resolved: &ResolvedTarget,
    ) -> DecisionFacts {
        let Some(known) = self.robots.cached(resolved.target.origin()) else {
            return DecisionFacts::default();
        };
        let (access, identity) = (known.access(), &identified.identity);
        let delay = consult::delay(access, identity);
        DecisionFacts {
            delay,
            group: consult::group(access, &settings.politeness, identity, delay),
            ..DecisionFacts::default()
        }
    }
}

impl std::fmt::Debug for Decider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decider")
            .field("options", &self.settings().options)
            .finish_non_exhaustive()
    }
}

/// What is observed together with one more objection, unless that stands.
fn raise(
    observed: Option<Refusal>,
    refusal: Option<Refusal>,
    mode: identity::EnforcementMode,
) -> Result<Option<Refusal>, Refusal> {
    let tolerated = refusal.map(|refusal| refusal.enforce(mode)).transpose()?;
    Ok(observed.or(tolerated))
}

/// The refusal of HTTPS as such: of a tunnel, of what is asked for inside one, and of an `https:` target in the open.
fn https_refusal(
    settings: &Settings,
    resolved: &ResolvedTarget,
    is_by_tunnel: bool,
) -> Option<Refusal> {
    let origin = resolved.target.origin();
    let is_refused = match is_by_tunnel {
        true => settings.https.handling_of(origin.host()) == HttpsHandling::Mode(HttpsMode::Refuse),
        false => settings.https.mode == HttpsMode::Refuse && origin.scheme() == Scheme::Https,
    };
    is_refused.then(|| Refusal {
        is_policy: true,
        closes: is_by_tunnel,
        ..Refusal::new(
            403,
            "HTTPS refused",
            ProxyErrorType::HttpRequestDenied,
            "https-refused",
            "https.mode is \"refuse\": this proxy refuses all HTTPS",
        )
    })
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
