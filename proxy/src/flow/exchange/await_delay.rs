//! Waits for the crawler's turn at the origin, or refuses a request that comes too soon.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::poll;
use tokio::time::Instant;
use wayleave_policy::{Origin, Reason};

use super::Flow;
use crate::flow::decide::identify::Identity;
use crate::flow::decide::permit::Facts;
use crate::flow::decide::permit::Permit;
use crate::flow::decide::refusal::Refusal;
use crate::flow::decide::settings::Settings;
use crate::http::proxy_status::ErrorType;
use crate::identity::Mode;
use crate::politeness::{Cause, TooSoon};

impl Flow {
    /// Waits for the request's turn, as far as the configuration says so.
    pub(crate) async fn await_turn<'a>(
        &'a self,
        settings: &Settings,
        identity: &Identity,
        facts: &mut Facts,
        mut permit: Permit<'a>,
    ) -> Result<Permit<'a>, Refusal> {
        let mode = identity.mode();
        let options = match mode {
            Mode::Enforce => settings.politeness,
            Mode::Observe => settings.politeness.without_waiting(),
        };
        let own_delay = identity.crawler().and_then(|crawler| crawler.default_delay);
        // It may always be asked for, so that neither waits nor makes the page behind it wait.
        let is_free = permit.reason == Reason::RobotsTxtItself.as_str();
        let delay = options.delay(facts.delay.or(own_delay));
        let own_token = identity
            .crawler()
            .and_then(|crawler| crawler.tokens.first());
        let pace = own_token.map_or(facts.group.as_str(), |token| token.as_str());
        let origin = permit.resolved.target.origin();
        let turn = {
            let politeness = &self.politeness;
            let mut turning = pin!(async {
                match is_free {
                    true => politeness.turn_without_pause(&options, origin, pace).await,
                    false => politeness.turn(&options, origin, pace, delay).await,
                }
            });
            match poll!(&mut turning) {
                Poll::Ready(turn) => turn,
                Poll::Pending => {
                    let started = Instant::now();
                    let turn = turning.await;
                    facts.waited += started.elapsed();
                    turn
                }
            }
        };
        match turn {
            Ok(turn) => permit.turn = Some(turn),
            Err(too_soon) => {
                let tolerated = refusal(&too_soon, facts.delay, origin).tolerated(mode)?;
                permit.observed.get_or_insert(tolerated);
            }
        }
        if !delay.is_zero() && !is_free {
            self.metrics.crawl_delay_wait(facts.waited);
        }
        Ok(permit)
    }
}

/// `delay`: what the origin's robots.txt asks for.
pub(crate) fn refusal(too_soon: &TooSoon, delay: Option<Duration>, origin: &Origin) -> Refusal {
    let (reason, details) = match too_soon.cause {
        Cause::CrawlDelay => {
            let delay = delay.map_or(String::new(), |delay| {
                format!(" {}", humantime::format_duration(delay))
            });
            (
                "crawl-delay",
                format!("the origin asks for a delay{delay} between this crawler's requests"),
            )
        }
        Cause::OriginRests => (
            "origin-rests",
            "the origin asked for fewer requests".to_owned(),
        ),
        Cause::Concurrency => (
            "concurrency",
            "politeness.max_concurrent_per_origin requests of this crawler to the origin are in progress".to_owned(),
        ),
    };
    let is_by_robots_txt = matches!(too_soon.cause, Cause::CrawlDelay) && delay.is_some();
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
