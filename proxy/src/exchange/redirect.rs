//! May it go there? A redirect of a robots.txt leads where its origin pleases, and so does the URL of a licence: the
//! organisation's rules hold for them as for requests, for redirects the pace too, and the decision log has a line.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use wayleave_robots_txt::lifecycle::{FetchError, FetchErrorKind};
use wayleave_robots_txt::preferences::PurposeSet;
use wayleave_robots_txt::{DocumentKind, Target};

use super::ExchangeServices;
use super::outcome::ExchangeOutcome;
use super::record::{self, EndedExchange, ExchangeFacts, ExchangeStart};
use crate::decide::identify::Identity;
use crate::decide::permit::DecisionFacts;
use crate::decide::refusal::{self, Refusal};
use crate::decide::settings::Settings;
use crate::decide::{consult, rules};
use crate::decision_log::{DecisionId, LogWord};
use crate::http::proxy_status::ProxyErrorType;
use crate::pacing::{PacedRequest, PacingSlot};
use crate::robots_cache::{RedirectExchange, RedirectGate, RedirectRequest};
use crate::rules::RuleQuery;
use crate::telemetry::traces::ParentTrace;

/// Why such a request is made.
const REASON: &str = "robots-redirect";
const DOCUMENT: &str = "preference-document";
/// The crawler that makes it, and its product token.
const WAYLEAVE: &str = "wayleave";

impl ExchangeServices {
    /// What a fetch has to pass that is not for an origin's robots.txt itself, while this lives.
    pub(crate) fn gate(self: &Arc<Self>) -> RedirectGate {
        let exchanges = Arc::downgrade(self);
        Box::new(move |redirect, asking| {
            let exchanges = exchanges.upgrade();
            Box::pin(async move {
                match exchanges {
                    Some(exchanges) => exchanges.follow_redirect(redirect, asking).await,
                    None => Err(prohibited("the proxy stops".to_owned())),
                }
            })
        })
    }

    async fn follow_redirect(
        &self,
        redirect: RedirectRequest,
        asking: RedirectExchange<'_>,
    ) -> Result<(), FetchError> {
        let settings = self.decider.settings();
        let target = &redirect.target;
        let begun = ExchangeStart {
            id: DecisionId::new(),
            started: Instant::now(),
            started_at: self.decider.robots.clock().now(),
            client: Ipv4Addr::UNSPECIFIED.into(),
            peer: None,
            certificate: None,
            method: "GET",
            received: None,
        };
        let reason = match redirect.kind {
            DocumentKind::RobotsTxt if !redirect.is_first => REASON,
            DocumentKind::RobotsTxt
            | DocumentKind::Tdmrep
            | DocumentKind::AiTxt
            | DocumentKind::Rsl => DOCUMENT,
        };
        let (facts, turn) = self
            .admit_redirect(&settings, &redirect, begun.started_at)
            .await;
        let (outcome, passed) = match turn {
            Ok(turn) => send_redirect(turn, target, reason, asking).await,
            Err(refusal) => {
                let error = prohibited(format!("{target}: {}", refusal.details));
                (ExchangeOutcome::Refuse(refusal), Err(error))
            }
        };
        let known = ExchangeFacts {
            url: target.to_string(),
            configuration: settings.configuration,
            facts,
            ..ExchangeFacts::default()
        };
        self.record_redirect(begun.end(known, ParentTrace::default(), outcome));
        passed
    }

    /// A turn at the target's origin, unless it needs none: a robots.txt may always be asked for, and a document beside it is
    /// as seldom. Both are of one fetch with where their own origin has moved them: it could not be read if that had to wait.
    async fn admit_redirect(
        &self,
        settings: &Settings,
        redirect: &RedirectRequest,
        now: SystemTime,
    ) -> (DecisionFacts, Result<Option<PacingSlot<'_>>, Refusal>) {
        let target = &redirect.target;
        // Rules for certain crawlers or purposes say nothing of what is fetched for all.
        let asked = RuleQuery {
            target,
            method: "GET",
            crawler: "",
            purposes: PurposeSet::NONE,
            now,
        };
        let origin = target.origin();
        let facts = DecisionFacts {
            origin: Some(origin.clone()),
            rule: settings.rules.find_for_redirect(asked),
            ..DecisionFacts::default()
        };
        if let Some(refusal) = facts.rule.as_ref().and_then(rules::refusal) {
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
        let known = self.decider.robots.cached(origin);
        let asked_for = known.and_then(|known| consult::delay(known.access(), &identity));
        let delay = options.delay(asked_for);
        let visit = PacedRequest {
            target,
            client: Ipv4Addr::UNSPECIFIED.into(),
            pace: WAYLEAVE,
        };
        let turn = self.politeness.wait_for_slot(options, visit, delay).await;
        let turn = turn.map(Some);
        let turn = turn.map_err(|too_soon| refusal::too_soon(&too_soon, asked_for, origin));
        let delay = asked_for;
        (DecisionFacts { delay, ..facts }, turn)
    }

    /// A line of the log. What nobody asked for is not counted as a request.
    fn record_redirect(&self, exchange: EndedExchange) {
        let took = exchange.started.elapsed();
        let (mut decision, _) = record::decision(exchange, took);
        decision.crawler = LogWord::Borrowed(WAYLEAVE);
        decision.identity = LogWord::Borrowed("known");
        self.decisions.record(decision);
    }
}

/// Has the request sent, and notes what the origin's answer says of the next turns.
async fn send_redirect(
    turn: Option<PacingSlot<'_>>,
    target: &Target,
    reason: &'static str,
    asking: RedirectExchange<'_>,
) -> (ExchangeOutcome, Result<(), FetchError>) {
    let answered = match asking.await {
        Ok(answered) => answered,
        Err(error) => return (ExchangeOutcome::Fail(failure(&error, reason)), Err(error)),
    };
    if let Some(turn) = turn {
        turn.record_answer(target, answered.status, answered.retry_after);
    }
    let status = answered.status;
    (ExchangeOutcome::Forward { status, reason }, Ok(()))
}

fn prohibited(detail: String) -> FetchError {
    FetchError {
        kind: FetchErrorKind::RedirectProhibited,
        detail,
    }
}

fn failure(error: &FetchError, reason: &'static str) -> Refusal {
    let kind = ProxyErrorType::DestinationUnavailable;
    Refusal::new(
        502,
        kind.reason_phrase(),
        kind,
        reason,
        error.detail.clone(),
    )
}
