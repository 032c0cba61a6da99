//! The policy for where the robots.txt cache goes on behalf of an origin: a redirect leads where the origin pleases, and so
//! does the URL of a licence. The organisation's rules apply as to requests, to redirects the pacing too, and each is logged.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use futures_util::future::BoxFuture;
use wayleave_decision::{DecisionFacts, Identity, Reason, Refusal, crawl_delay, decide_redirect};
use wayleave_lifecycle::{FetchError, FetchErrorKind};
use wayleave_robots_txt::Target;
use wayleave_usage_preferences::DocumentKind;

use super::outcome::ExchangeOutcome;
use super::record::{self, ExchangeFacts, ExchangeStart};
use crate::clock::Clock;
use crate::decide::refusal;
use crate::decide::settings::{CurrentSettings, Settings};
use crate::decision_log::{DecisionId, DecisionLog, LogWord};
use crate::pacing::{PacedRequest, Pacer, PacingSlot};
use crate::robots_cache::{
    Admission, AdmittedRedirect, CachedDocuments, RedirectAnswer, RedirectPolicy, RedirectRequest,
};
use crate::traces::ParentTrace;

/// The name and product token of the crawler that makes it.
const WAYLEAVE: &str = "wayleave";

/// The policy, with what it needs. It is made before the cache, and knows only what lies below.
pub(crate) struct RedirectRules {
    pub(crate) settings: Arc<CurrentSettings>,
    pub(crate) pacer: Arc<Pacer>,
    pub(crate) decisions: Arc<DecisionLog>,
    pub(crate) cached: CachedDocuments,
    pub(crate) clock: Clock,
}

/// A request that may be sent, and its line in the log so far.
struct AdmittedRequest<'a> {
    decisions: &'a DecisionLog,
    target: &'a Target,
    start: ExchangeStart<'a>,
    facts: ExchangeFacts,
    reason: Reason,
    slot: Option<PacingSlot<'a>>,
}

impl RedirectPolicy for RedirectRules {
    fn admit<'a>(
        &'a self,
        redirect: &'a RedirectRequest,
    ) -> BoxFuture<'a, Result<Admission<'a>, FetchError>> {
        Box::pin(async move {
            let settings = self.settings.load();
            let target = &redirect.target;
            let start = ExchangeStart {
                id: DecisionId::new(),
                started: Instant::now(),
                started_at: self.clock.now(),
                client: Ipv4Addr::UNSPECIFIED.into(),
                peer: None,
                certificate: None,
                method: "GET",
                received: None,
            };
            let reason = match redirect.kind {
                DocumentKind::RobotsTxt if !redirect.is_first => Reason::RobotsRedirect,
                DocumentKind::RobotsTxt
                | DocumentKind::Tdmrep
                | DocumentKind::AiTxt
                | DocumentKind::Rsl => Reason::PreferenceDocument,
            };
            let (facts, slot) = self.decide(&settings, redirect, start.started_at).await;
            let facts = ExchangeFacts {
                url: target.to_string(),
                configuration: settings.configuration,
                facts,
                ..ExchangeFacts::default()
            };
            match slot {
                Ok(slot) => Ok(Box::new(AdmittedRequest {
                    decisions: &self.decisions,
                    target,
                    start,
                    facts,
                    reason,
                    slot,
                }) as Admission<'a>),
                Err(refusal) => {
                    let error = prohibited(format!("{target}: {}", refusal.details));
                    let outcome = ExchangeOutcome::Refuse(refusal);
                    record(&self.decisions, start, facts, outcome);
                    Err(error)
                }
            }
        })
    }
}

impl RedirectRules {
    /// Decides by the rules, and waits for a slot at the target's origin unless none is needed: a robots.txt may always be
    /// fetched, and a document next to it is fetched as rarely. A redirect within the origin belongs to the same fetch, which
    /// could not end if it had to wait.
    async fn decide(
        &self,
        settings: &Settings,
        redirect: &RedirectRequest,
        now: SystemTime,
    ) -> (DecisionFacts, Result<Option<PacingSlot<'_>>, Refusal>) {
        let target = &redirect.target;
        let origin = target.origin();
        let verdict = decide_redirect(&settings.rules, target, now);
        let facts = verdict.facts;
        if let Err(refusal) = verdict.result {
            return (facts, Err(refusal));
        }
        if redirect.is_same_origin || target.path().as_str() == "/robots.txt" {
            return (facts, Ok(None));
        }
        let (options, crawlers) = (&settings.politeness, &settings.crawlers);
        let identity = Identity::Asserted {
            claim: crawlers.claim(WAYLEAVE.as_bytes()),
            dialect: crawlers.dialect,
            mode: crawlers.mode,
        };
        let known = self.cached.cached(origin);
        let robots_delay = known.and_then(|known| crawl_delay(known.access(), &identity));
        let delay = options.delay(robots_delay);
        let request = PacedRequest { target, client: Ipv4Addr::UNSPECIFIED.into(), pace: WAYLEAVE };
        let slot = self.pacer.wait_for_slot(options, request, delay).await;
        let slot = match slot {
            Ok(slot) => Ok(Some(slot)),
            Err(too_soon) => Err(refusal::too_soon(&too_soon, robots_delay, origin)),
        };
        let facts = DecisionFacts { delay: robots_delay, ..facts };
        (facts, slot)
    }
}

impl AdmittedRedirect for AdmittedRequest<'_> {
    fn finish(self: Box<Self>, answer: Result<RedirectAnswer, &FetchError>) {
        let reason = self.reason;
        let outcome = match answer {
            Ok(RedirectAnswer { status, retry_after }) => {
                if let Some(slot) = &self.slot {
                    slot.record_answer(self.target, status, retry_after);
                }
                ExchangeOutcome::Forward { status, reason }
            }
            Err(error) => ExchangeOutcome::Fail(failure(error, reason)),
        };
        record(self.decisions, self.start, self.facts, outcome);
    }
}

/// Writes a line of the log. Nobody requested this, so it is not counted as a request.
fn record(
    decisions: &DecisionLog,
    start: ExchangeStart<'_>,
    facts: ExchangeFacts,
    outcome: ExchangeOutcome,
) {
    let exchange = start.end(facts, ParentTrace::default(), outcome);
    let took = exchange.started.elapsed();
    let (mut decision, _) = record::decision(exchange, took);
    decision.crawler = LogWord::Borrowed(WAYLEAVE);
    decision.identity = LogWord::Borrowed("known");
    decisions.record(decision);
}

fn prohibited(detail: String) -> FetchError {
    FetchError { kind: FetchErrorKind::RedirectProhibited, detail }
}

fn failure(error: &FetchError, reason: Reason) -> Refusal {
    Refusal::new(reason, error.detail.clone())
}
