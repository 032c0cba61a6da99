//! Waits for the crawler's turn at the origin, or refuses a request that comes too soon.

use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use futures_util::poll;
use tokio::time::Instant;
use wayleave_policy::{Origin, Reason};

use super::Exchanges;
use super::decide_in_turn::Next;
use super::outcome::Known;
use crate::decide::identify::Identity;
use crate::decide::permit::Permit;
use crate::decide::refusal::Refusal;
use crate::decide::settings::Settings;
use crate::http::proxy_status::ErrorType;
use crate::identity::Mode;
use crate::politeness::{Cause, TooSoon};

impl Exchanges {
    /// Waits for the request's turn, as far as the configuration says so; tells for how long it waited.
    pub(super) async fn await_delay(
        &self,
        settings: &Settings,
        known: &Known,
        permit: Permit,
    ) -> (Next<'_>, Duration) {
        let identity = known.identity.as_ref();
        let crawler = identity.and_then(Identity::crawler);
        let mode = identity.map(Identity::mode).unwrap_or_default();
        let options = match mode {
            Mode::Enforce => settings.politeness,
            Mode::Observe => settings.politeness.without_waiting(),
        };
        let own_delay = crawler.and_then(|crawler| crawler.default_delay);
        // It may always be asked for, so that neither waits nor makes the page behind it wait.
        let is_free = permit.reason == Reason::RobotsTxtItself.as_str();
        let facts = &known.facts;
        let delay = options.delay(facts.delay.or(own_delay));
        let own_token = crawler.and_then(|crawler| crawler.tokens.first());
        let pace = own_token.map_or(facts.group.as_str(), |token| token.as_str());
        let origin = permit.resolved.target.origin();
        let turning = async {
            match is_free {
                true => {
                    let politeness = &self.politeness;
                    politeness.turn_without_pause(&options, origin, pace).await
                }
                false => self.politeness.turn(&options, origin, pace, delay).await,
            }
        };
        let (turn, waited) = timed(pin!(turning)).await;
        let turn = turn.map_err(|too_soon| refusal(&too_soon, facts.delay, origin).tolerated(mode));
        let next = match turn {
            Ok(turn) => Next::Send(permit, Some(turn)),
            Err(Ok(tolerated)) => {
                let observed = permit.observed.or(Some(tolerated));
                Next::Send(Permit { observed, ..permit }, None)
            }
            Err(Err(refusal)) => return (Next::Refuse(refusal), waited),
        };
        if !delay.is_zero() && !is_free {
            self.metrics.crawl_delay_wait(waited);
        }
        (next, waited)
    }
}

/// What comes of it, and how long that took; zero, without a look at the clock, if it was there at once.
async fn timed<T>(mut work: Pin<&mut impl Future<Output = T>>) -> (T, Duration) {
    if let Poll::Ready(done) = poll!(&mut work) {
        return (done, Duration::ZERO);
    }
    let started = Instant::now();
    let done = work.await;
    (done, started.elapsed())
}

/// `delay`: what the origin's robots.txt asks for.
pub(crate) fn refusal(too_soon: &TooSoon, delay: Option<Duration>, origin: &Origin) -> Refusal {
    let (reason, details) = match too_soon.cause {
        Cause::CrawlDelay => {
            let delay = delay.map_or("a delay".to_owned(), |delay| {
                humantime::format_duration(delay).to_string()
            });
            (
                "crawl-delay",
                format!("the origin asks for {delay} between this crawler's requests"),
            )
        }
        Cause::FleetLost => (
            "crawl-delay",
            "the origin asks for a delay between requests, and the fleet's engine, which knows of those of other nodes, is away"
                .to_owned(),
        ),
        Cause::TurnEnded => (
            "crawl-delay",
            "this node of the fleet stood still, or lost the fleet's engine, until another one may have had the turn of this request".to_owned(),
        ),
        Cause::OriginRests => (
            "origin-rests",
            "the origin asked for fewer requests".to_owned(),
        ),
        Cause::Concurrency => (
            "concurrency",
            "politeness.max_concurrent_per_origin requests of this crawler to the origin are in progress".to_owned(),
        ),
    };
    let is_by_robots_txt =
        matches!(too_soon.cause, Cause::CrawlDelay | Cause::FleetLost) && delay.is_some();
    Refusal {
        is_policy: true,
        robots_url: is_by_robots_txt.then(|| origin.robots_txt_uri().into()),
        retry_after: Some(too_soon.retry_after),
        ..Refusal::new(
            429,
            "Crawl delay",
            ErrorType::HttpRequestDenied,
            reason,
            details,
        )
    }
}
