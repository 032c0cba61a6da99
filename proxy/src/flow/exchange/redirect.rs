//! May it go there? A redirect of a robots.txt leads where its origin pleases: the organisation's rules and the pace that
//! hold for requests hold for it, and the decision log has a line.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::SystemTime;

use wayleave_policy::Target;
use wayleave_policy::lifecycle::{FetchError, FetchErrorKind};

use super::Flow;
use super::await_delay;
use super::outcome::{Exchange, Outcome};
use super::record;
use crate::flow::decide::consult;
use crate::flow::decide::identify::Identity;
use crate::flow::decide::permit::Facts;
use crate::flow::decide::refusal::Refusal;
use crate::flow::decide::rules;
use crate::flow::decide::settings::Settings;
use crate::http::proxy_status::ErrorType;
use crate::observe::decisions::Word;
use crate::observe::traces::Parent;
use crate::politeness::Turn;
use crate::robots::{Asking, Gate, Redirect};
use crate::rules::Asked;

/// Why such a request is made.
const REASON: &str = "robots-redirect";
/// The crawler that makes it, and its product token.
const WAYLEAVE: &str = "wayleave";

impl Flow {
    /// What every redirect of a robots.txt has to pass, while this lives.
    pub(crate) fn gate(self: &Arc<Self>) -> Gate {
        let flow = Arc::downgrade(self);
        Box::new(move |redirect, asking| {
            let flow = flow.upgrade();
            Box::pin(async move {
                match flow {
                    Some(flow) => flow.follow_redirect(redirect, asking).await,
                    None => Err(prohibited("the proxy stops".to_owned())),
                }
            })
        })
    }

    async fn follow_redirect(
        &self,
        redirect: Redirect,
        asking: Asking<'_>,
    ) -> Result<(), FetchError> {
        let settings = self.settings();
        let (id, started, started_at) = self.begin();
        let target = &redirect.target;
        let mut facts = Facts {
            origin: Some(target.origin().clone()),
            ..Facts::default()
        };
        let leave = self.leave(&settings, target, started_at, &mut facts).await;
        let (outcome, passed) = match leave {
            Ok(turn) => go(turn, target, asking).await,
            Err(refusal) => {
                let error = prohibited(format!("{target}: {}", refusal.details));
                (Outcome::Refuse(refusal), Err(error))
            }
        };
        self.note_redirect(Exchange {
            id,
            started,
            started_at,
            client: Ipv4Addr::UNSPECIFIED.into(),
            method: "GET".to_owned(),
            url: target.to_string(),
            identity: None,
            configuration: settings.configuration,
            parent: Parent::default(),
            facts,
            outcome,
        });
        passed
    }

    /// A turn at the target's origin, unless it needs none: a robots.txt may always be asked for.
    async fn leave(
        &self,
        settings: &Settings,
        target: &Target,
        now: SystemTime,
        facts: &mut Facts,
    ) -> Result<Option<Turn<'_>>, Refusal> {
        // Rules for certain crawlers say nothing of what is fetched for all.
        let asked = Asked {
            target,
            method: "GET",
            crawler: "",
            now,
        };
        facts.rule = settings.rules.find_for_redirect(asked);
        if let Some(refusal) = facts.rule.as_ref().and_then(rules::refusal) {
            return Err(refusal);
        }
        if target.path() == "/robots.txt" {
            return Ok(None);
        }
        let (options, crawlers) = (&settings.politeness, &settings.crawlers);
        let identity = Identity::Asserted {
            claim: crawlers.claim(WAYLEAVE.as_bytes()),
            dialect: crawlers.dialect,
            mode: crawlers.mode,
        };
        let origin = target.origin();
        let known = self.robots.at_hand(origin);
        facts.delay = known.and_then(|known| consult::delay(known.access(), &identity));
        let delay = options.delay(facts.delay);
        let turn = self.politeness.turn(options, origin, WAYLEAVE, delay).await;
        turn.map(Some)
            .map_err(|too_soon| await_delay::refusal(&too_soon, facts.delay, origin))
    }

    /// A line of the log. What nobody asked for is not counted as a request.
    fn note_redirect(&self, exchange: Exchange) {
        let took = exchange.started.elapsed();
        let (mut decision, _) = record::decision(exchange, took);
        decision.crawler = Word::Borrowed(WAYLEAVE);
        decision.identity = Word::Borrowed("known");
        self.decisions.record(decision);
    }
}

/// Has the request sent, and notes what the origin's answer says of the next turns.
async fn go(
    turn: Option<Turn<'_>>,
    target: &Target,
    asking: Asking<'_>,
) -> (Outcome, Result<(), FetchError>) {
    let answered = match asking.await {
        Ok(answered) => answered,
        Err(error) => return (Outcome::Fail(failure(&error)), Err(error)),
    };
    if let Some(turn) = turn {
        turn.answered(target.origin(), answered.status, answered.retry_after);
    }
    let (status, reason) = (answered.status, REASON);
    (Outcome::Forward { status, reason }, Ok(()))
}

fn prohibited(detail: String) -> FetchError {
    FetchError {
        kind: FetchErrorKind::RedirectProhibited,
        detail,
    }
}

fn failure(error: &FetchError) -> Refusal {
    let kind = ErrorType::DestinationUnavailable;
    let details = format!("{}: {}", error.kind, error.detail);
    Refusal::new(502, kind.phrase(), kind, REASON, details)
}
