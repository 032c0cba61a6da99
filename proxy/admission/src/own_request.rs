//! The policy for the proxy's own requests, which the robots.txt cache sends where a site leads it: by a redirect of
//! robots.txt, or by the URL of a licence. The organisation's rules apply as to requests, to redirects the pacing too, and
//! each is logged.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use wayleave_clock::Clock;
use wayleave_decision::{
    DecisionFacts, Identity, Reason, Refusal, crawl_delay, decide_own_request,
};
use wayleave_decision_log::{DecisionLog, LogWord, WAYLEAVE};
use wayleave_lifecycle::{ChosenBy, FetchError, FetchErrorKind};
use wayleave_pacing::{PacedRequest, Pacer, PacingSlot};
use wayleave_record::RecordedIdentity;
use wayleave_robots_cache::{
    Admission, AdmittedOwnRequest, CachedDocuments, OwnRequest, OwnRequestAnswer, OwnRequestPolicy,
};
use wayleave_robots_txt::{ProductToken, Target};
use wayleave_upstream::Destination;
use wayleave_usage_preferences::DocumentKind;

use crate::refusal;
use crate::settings::{CurrentSettings, Settings};
use futures_util::future::BoxFuture;

use super::outcome::ExchangeOutcome;
use super::pace::delay_of;
use super::pace_unit;
use super::record::{ExchangeRecord, RecordedUrl};

/// The address in their records: no client made them.
const NO_CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// The longest wait for a slot: half of the time that a fetch may take, so that the response still has its time.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// The policy, and the parts that it uses. It is made before the cache, and knows only the layers below.
pub struct OwnRequestRules {
    pub settings: Arc<CurrentSettings>,
    pub pacer: Arc<Pacer>,
    pub decisions: Arc<DecisionLog>,
    pub cached: CachedDocuments,
    pub clock: Clock,
}

/// A request that may be sent, and its line in the log so far, which is written at the latest when this is dropped.
struct AdmittedRequest<'a> {
    decisions: &'a DecisionLog,
    target: &'a Target,
    /// `None` once it is written.
    record: Option<ExchangeRecord>,
    reason: Reason,
    slot: Option<PacingSlot<'a>>,
}

impl OwnRequestPolicy for OwnRequestRules {
    fn admit<'a>(
        &'a self,
        own_request: &'a OwnRequest,
    ) -> BoxFuture<'a, Result<Admission<'a>, FetchError>> {
        Box::pin(async move {
            let settings = self.settings.load();
            let target = &own_request.target;
            let mut record = ExchangeRecord::without_client(
                NO_CLIENT,
                "GET".to_owned(),
                self.clock.now(),
                settings.configuration,
            );
            record.url = RecordedUrl::whole(target.to_string());
            let reason = match own_request.kind {
                DocumentKind::RobotsTxt if !own_request.is_first => Reason::RobotsRedirect,
                DocumentKind::RobotsTxt | DocumentKind::Tdmrep | DocumentKind::Rsl => {
                    Reason::PreferenceDocument
                }
            };
            let (facts, slot) = self.decide(&settings, own_request, record.started_at).await;
            record.facts = facts;
            match slot {
                Ok(slot) => {
                    let decisions = &*self.decisions;
                    let record = Some(record);
                    let admitted = AdmittedRequest { decisions, target, record, reason, slot };
                    Ok(Box::new(admitted) as Admission<'a>)
                }
                Err((kind, refusal)) => {
                    let detail = format!("{target}: {}", refusal.details);
                    log(&self.decisions, record, &ExchangeOutcome::Refuse(refusal));
                    Err(FetchError { kind, detail })
                }
            }
        })
    }
}

impl OwnRequestRules {
    /// Decides by the rules, and waits for a slot at the target's origin unless none is needed: a robots.txt may always be
    /// fetched for its own host, and a document next to it, which its own origin names, is fetched as rarely. A redirect within
    /// the origin belongs to the same fetch, which could not end if it had to wait.
    async fn decide(
        &self,
        settings: &Settings,
        own_request: &OwnRequest,
        now: SystemTime,
    ) -> (DecisionFacts, Result<Option<PacingSlot<'_>>, (FetchErrorKind, Refusal)>) {
        let target = &own_request.target;
        let origin = target.origin();
        let verdict = decide_own_request(&settings.rules, target, now);
        let facts = verdict.facts;
        if let Err(refusal) = verdict.result {
            return (facts, Err((FetchErrorKind::RedirectProhibited, refusal)));
        }
        // The pages of 1,000 origins may name as many licences at one host.
        let is_named_by_others =
            own_request.is_first && own_request.identity.chosen != ChosenBy::Crawler;
        let is_of_same_fetch = own_request.is_same_origin && !is_named_by_others;
        // Thousands of origins may redirect theirs to it.
        let is_robots_txt = own_request.is_first && target.path().as_str() == "/robots.txt";
        if is_of_same_fetch || is_robots_txt {
            return (facts, Ok(None));
        }
        // The client that waits for the fetch has caused no request to that host before, and must not be refused because another
        // one has.
        let pacing = &settings.pacing.waiting(MAX_WAIT);
        let identity = identity_of(settings, own_request);
        let crawler = identity.crawler();
        // Only a cached one: fetching it could be redirected, too, in circles (docs/design.md).
        let robots_txt = self.cached.cached(origin, &own_request.identity);
        let robots_delay = robots_txt.and_then(|cached| crawl_delay(cached.access(), &identity));
        let facts = DecisionFacts { delay: robots_delay, ..facts };
        let destination = Destination { origin, source: None, client: None, network: None };
        let unit = pace_unit::find(settings.pacing.share, &settings.upstream, destination).await;
        let request = PacedRequest {
            target,
            client: NO_CLIENT,
            // A site that sees one crawler sees one pace.
            pace: crawler
                .and_then(|crawler| crawler.tokens.first())
                .map_or(WAYLEAVE, ProductToken::as_str),
            unit: unit.as_ref(),
            keeps_turn: false,
        };
        let delay = delay_of(pacing, crawler, robots_delay);
        match self.pacer.wait_for_slot(pacing, request, delay).await {
            Ok(slot) => (facts, Ok(Some(slot))),
            // Enforced in mode "observe", too, which is about crawlers: this request is wayleave's own.
            Err(too_soon) => {
                let decisive = pacing.decisive_crawl_delay(robots_delay, delay);
                let refusal = refusal::too_soon(&too_soon, decisive, unit.as_deref(), origin);
                (facts, Err((FetchErrorKind::OwnPace, refusal)))
            }
        }
    }
}

/// Returns the crawler in whose name the request is made, or wayleave itself.
fn identity_of(settings: &Settings, own_request: &OwnRequest) -> Identity {
    let crawlers = &settings.crawlers;
    let crawler = own_request.identity.crawler.as_deref().and_then(|name| crawlers.named(name));
    crawler.map_or_else(
        || Identity::Asserted {
            claim: crawlers.claim(WAYLEAVE.as_bytes()),
            dialect: crawlers.dialect,
            mode: crawlers.mode,
        },
        Identity::Known,
    )
}

impl AdmittedOwnRequest for AdmittedRequest<'_> {
    fn finish(mut self: Box<Self>, answer: Result<OwnRequestAnswer, &FetchError>) {
        let reason = self.reason;
        let outcome = match answer {
            Ok(OwnRequestAnswer { status, retry_after }) => {
                if let Some(slot) = &self.slot {
                    slot.record_answer(self.target, status, retry_after);
                }
                ExchangeOutcome::Forward { status, reason }
            }
            Err(error) => ExchangeOutcome::Fail(Refusal::new(reason, error.detail.clone())),
        };
        self.log(&outcome);
    }
}

impl AdmittedRequest<'_> {
    fn log(&mut self, outcome: &ExchangeOutcome) {
        if let Some(record) = self.record.take() {
            log(self.decisions, record, outcome);
        }
    }
}

impl Drop for AdmittedRequest<'_> {
    fn drop(&mut self) {
        let given_up = "given up: the fetch took too long, or this proxy was stopped";
        self.log(&ExchangeOutcome::Fail(Refusal::new(self.reason, given_up)));
    }
}

/// Writes a line of the log. Nobody requested this, so it is not counted as a request.
fn log(decisions: &DecisionLog, record: ExchangeRecord, outcome: &ExchangeOutcome) {
    let took = record.started.elapsed();
    let mut decision = record.finish(outcome, took);
    // No configured crawler, but not a name that a client merely asserts either.
    decision.crawler = LogWord::Borrowed(WAYLEAVE);
    decision.identity = RecordedIdentity::Known.into();
    decisions.record(decision);
}
