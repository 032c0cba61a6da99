//! Pacing: Crawl-delay over all connections and clients, origins that ask for fewer requests, and a limit
//! on concurrent requests.
//!
//! A Crawl-delay is the time between an origin's answer to one request and the sending of the next, for all who keep one pace: a
//! configured crawler by its product token, and all others by the group of robots.txt they fall into, whatever they call themselves.
//! It counts from the answer because that is the latest instant at which the origin can have received the request:
//! whatever the way takes, two requests never arrive closer together than the delay. With a burst of one, GCRA (the generic
//! cell rate algorithm) is one instant per key: the next at which a request conforms. A limiter library such as governor
//! gives one rate to all of its keys and counts from the start of a request; here each origin names its own.
//!
//! Requests under way to one origin with a delay follow one another, in the order of their arrival.

mod back_off;
mod queue;
mod too_soon;

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use wayleave_robots_txt::Origin;

use self::back_off::Rests;
use self::queue::{Place, Queues, Slot, Slots, Wanted};
pub(crate) use self::too_soon::{Cause, TooSoon};
use crate::fleet::engine::Answer;
use crate::fleet::{Event, Fleet};

/// What a Crawl-delay does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CrawlDelay {
    /// Nothing, nor do origins that ask for rest.
    Ignore,
    /// A request waits for its turn.
    Wait,
    /// A request that comes too soon is refused.
    #[default]
    Reject,
}

impl CrawlDelay {
    /// The spelling used in configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ignore => "ignore",
            Self::Wait => "wait",
            Self::Reject => "reject",
        }
    }
}

/// `[politeness]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// What a Crawl-delay does. Default: reject.
    pub crawl_delay: CrawlDelay,
    /// The longest that a request waits for its turn. Default 30 s.
    pub max_wait: Duration,
    /// The delay for origins that name none. Default: none.
    pub default_delay: Duration,
    /// The longest delay or rest that an origin can ask for. Default 5 min.
    pub max_delay: Duration,
    /// Requests of one crawler, or of all others in one group, to one origin at one time; 0: no bound.
    pub max_concurrent_per_origin: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            crawl_delay: CrawlDelay::default(),
            max_wait: Duration::from_secs(30),
            default_delay: Duration::ZERO,
            max_delay: Duration::from_mins(5),
            max_concurrent_per_origin: 0,
        }
    }
}

impl Options {
    /// The same, but nobody waits: what only observes changes nothing about when requests are sent.
    pub(crate) fn without_waiting(self) -> Self {
        let crawl_delay = match self.crawl_delay {
            CrawlDelay::Wait => CrawlDelay::Reject,
            other => other,
        };
        Self {
            crawl_delay,
            ..self
        }
    }

    /// The delay between requests to an origin that asks for `asked`.
    pub(crate) fn delay(&self, asked: Option<Duration>) -> Duration {
        match self.crawl_delay {
            CrawlDelay::Ignore => Duration::ZERO,
            _ => asked.unwrap_or(self.default_delay).min(self.max_delay),
        }
    }

    /// Whether it matters whose pace a request keeps to an origin that asks for `asked`.
    pub(crate) fn keeps_a_pace(&self, asked: Option<Duration>) -> bool {
        self.max_concurrent_per_origin > 0 || !self.delay(asked).is_zero()
    }

    /// A turn that is asked for now.
    fn wanted<'a>(&self, origin: &'a Origin, pace: &'a str) -> Wanted<'a> {
        let patience = match self.crawl_delay {
            CrawlDelay::Wait => self.max_wait,
            _ => Duration::ZERO,
        };
        Wanted {
            origin,
            pace,
            latest: Instant::now() + patience,
        }
    }
}

/// Keeps every crawler's turns at every origin.
#[derive(Default)]
pub(crate) struct Politeness {
    queues: Queues,
    slots: Slots,
    rests: Arc<Rests>,
    fleet: Fleet,
}

impl Politeness {
    /// The turns of one node of `fleet`. Within a tokio runtime.
    pub(crate) fn over(fleet: &Fleet) -> Self {
        let rests = Arc::<Rests>::default();
        tokio::spawn(follow(Arc::downgrade(&rests), fleet.follow()));
        Self {
            rests,
            fleet: fleet.clone(),
            ..Self::default()
        }
    }

    /// A turn at `origin` for who keeps this pace, waiting for it if `options` say so.
    ///
    /// # Errors
    ///
    /// Returns when to come again if the turn is too far off.
    pub(crate) async fn turn(
        &self,
        options: &Options,
        origin: &Origin,
        pace: &str,
        delay: Duration,
    ) -> Result<Turn<'_>, TooSoon> {
        let wanted = options.wanted(origin, pace);
        let place = match delay.is_zero() {
            true => None,
            false => Some(self.queues.place(wanted, delay, &self.fleet).await?),
        };
        let heeds_rest = options.crawl_delay != CrawlDelay::Ignore;
        let rests = heeds_rest.then_some(&*self.rests);
        loop {
            Self::await_rest(rests, origin, wanted.latest).await?;
            let slots = options.max_concurrent_per_origin;
            let slot = self.slots.take(wanted, slots, &self.fleet).await?;
            // While it waited, another's answer may have asked for rest.
            if rests.is_none_or(|rests| rests.until(origin).is_none()) {
                return Ok(Turn {
                    place,
                    slot,
                    rests: rests.map(|_| (&self.rests, &self.fleet)),
                    max_rest: options.max_delay,
                });
            }
        }
    }

    /// A turn for what may always be asked for: it waits for a slot alone. Its answer may ask for rest.
    ///
    /// # Errors
    ///
    /// Returns when to come again if no slot is free.
    pub(crate) async fn turn_without_pause(
        &self,
        options: &Options,
        origin: &Origin,
        pace: &str,
    ) -> Result<Turn<'_>, TooSoon> {
        let (wanted, slots) = (
            options.wanted(origin, pace),
            options.max_concurrent_per_origin,
        );
        let slot = self.slots.take(wanted, slots, &self.fleet).await?;
        let heeds_rest = options.crawl_delay != CrawlDelay::Ignore;
        Ok(Turn {
            place: None,
            slot,
            rests: heeds_rest.then_some((&self.rests, &self.fleet)),
            max_rest: options.max_delay,
        })
    }

    /// Waits until `origin` has rested, however often it asks for more meanwhile.
    async fn await_rest(
        rests: Option<&Rests>,
        origin: &Origin,
        latest: Instant,
    ) -> Result<(), TooSoon> {
        while let Some(rest) = rests.and_then(|rests| rests.until(origin)) {
            if rest > latest {
                return Err(TooSoon {
                    cause: Cause::OriginRests,
                    retry_after: rest - Instant::now(),
                });
            }
            tokio::time::sleep_until(rest).await;
        }
        Ok(())
    }
}

impl fmt::Debug for Politeness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Politeness").finish_non_exhaustive()
    }
}

/// A request's turn. The next one's begins when the origin has answered, or when this is dropped.
pub(crate) struct Turn<'a> {
    place: Option<Place>,
    slot: Option<Slot>,
    rests: Option<(&'a Arc<Rests>, &'a Fleet)>,
    max_rest: Duration,
}

impl Turn<'_> {
    /// Why the request may not be sent after all, if that is so: asked right before it is.
    pub(crate) fn ended(&self) -> Option<TooSoon> {
        let of_place = self.place.as_ref().is_some_and(Place::may_have_ended);
        let of_slot = self.slot.as_ref().is_some_and(Slot::may_have_ended);
        (of_place || of_slot).then_some(TooSoon {
            cause: Cause::TurnEnded,
            retry_after: queue::LOOK_AGAIN,
        })
    }

    /// Notes the origin's answer: the delay counts from now, and with 429 or 503 the origin rests.
    pub(crate) fn answered(&self, origin: &Origin, status: u16, retry_after: Option<Duration>) {
        if let Some(place) = &self.place {
            place.leave();
        }
        let Some((rests, fleet)) = self.rests else {
            return;
        };
        if rests.answered(origin, status, retry_after, self.max_rest) {
            let answer = Answer {
                origin: origin.to_string(),
                status,
                retry_after,
                longest: self.max_rest,
            };
            let (rests, origin) = (Arc::clone(rests), origin.clone());
            fleet.tell_answer(answer, move |rest| rests.rest(&origin, rest));
        }
    }
}

/// Heeds the rest that origins ask other nodes for.
async fn follow(rests: Weak<Rests>, mut events: mpsc::UnboundedReceiver<Event>) {
    while let Some(event) = events.recv().await {
        let Some(rests) = rests.upgrade() else {
            return;
        };
        match event {
            Event::Rests(origin, rest) => {
                if let Ok(origin) = Origin::parse(&origin) {
                    rests.rest(&origin, rest);
                }
            }
            Event::Rested(origin) => {
                if let Ok(origin) = Origin::parse(&origin) {
                    rests.end(&origin);
                }
            }
            Event::Changed(_) | Event::Superseded(_) | Event::Forgotten(_) | Event::Suspect(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fleet::memory::Memory;

    fn origin() -> Origin {
        Origin::parse("http://shop.test").unwrap()
    }

    fn options(crawl_delay: CrawlDelay) -> Options {
        Options {
            crawl_delay,
            ..Options::default()
        }
    }

    const DELAY: Duration = Duration::from_secs(2);

    #[tokio::test(start_paused = true)]
    async fn a_node_that_stood_still_does_not_send_by_the_turn_that_it_had() {
        let memory = Memory::new("");
        let joined = async |name| Politeness::over(&memory.joined(name).await);
        let (one, other) = (joined("one").await, joined("other").await);
        let limits = Options {
            max_concurrent_per_origin: 1,
            ..options(CrawlDelay::Wait)
        };
        for delay in [DELAY, Duration::ZERO] {
            let turn = one.turn(&limits, &origin(), "a", delay).await.unwrap();
            // As long as it is kept, however long its connection takes, it lasts.
            tokio::time::sleep(Duration::from_secs(20)).await;
            assert_eq!(turn.ended(), None);
            // All of it stands still, and then all is due at once.
            tokio::time::advance(Duration::from_secs(20)).await;
            let ended = turn.ended().map(|soon| soon.cause);
            assert_eq!(ended, Some(Cause::TurnEnded));
            // What the engine says afterwards is no news of the time between.
            tokio::time::sleep(Duration::from_secs(3)).await;
            assert_eq!(turn.ended().map(|soon| soon.cause), ended);
            drop(turn);
            let next = other.turn(&limits, &origin(), "a", delay).await.unwrap();
            assert_eq!(next.ended(), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_too_soon_hears_exactly_when_to_come_again() {
        let politeness = Politeness::default();
        let reject = options(CrawlDelay::Reject);
        let first = politeness
            .turn(&reject, &origin(), "a", DELAY)
            .await
            .unwrap();
        let under_way = politeness.turn(&reject, &origin(), "a", DELAY).await;
        assert_eq!(under_way.err().map(|soon| soon.retry_after), Some(DELAY));
        tokio::time::advance(Duration::from_secs(5)).await;
        first.answered(&origin(), 200, None);
        drop(first);
        tokio::time::advance(Duration::from_millis(500)).await;
        let soon = politeness.turn(&reject, &origin(), "a", DELAY).await;
        let soon = soon.err().unwrap();
        assert_eq!(soon.cause, Cause::CrawlDelay);
        assert_eq!(soon.retry_after, Duration::from_millis(1500));
        assert!(
            politeness
                .turn(&reject, &origin(), "b", DELAY)
                .await
                .is_ok()
        );
        tokio::time::advance(Duration::from_millis(1500)).await;
        assert!(
            politeness
                .turn(&reject, &origin(), "a", DELAY)
                .await
                .is_ok()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_follow_in_order_and_none_too_long() {
        let politeness = Arc::new(Politeness::default());
        let wait = Options {
            max_wait: Duration::from_secs(7),
            ..options(CrawlDelay::Wait)
        };
        let started = Instant::now();
        let asking = (0..6).map(|_| {
            let politeness = Arc::clone(&politeness);
            tokio::spawn(async move {
                let turn = politeness.turn(&wait, &origin(), "a", DELAY).await;
                let at = started.elapsed().as_secs();
                turn.map(|turn| turn.answered(&origin(), 200, None))
                    .map(|()| at)
            })
        });
        let mut turns = Vec::new();
        for asked in asking.collect::<Vec<_>>() {
            turns.push(asked.await.unwrap().map_err(|soon| soon.cause));
        }
        let late = Err(Cause::CrawlDelay);
        assert_eq!(turns, [Ok(0), Ok(2), Ok(4), Ok(6), late, late]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_origin_rests_for_every_crawler() {
        let politeness = Politeness::default();
        let reject = options(CrawlDelay::Reject);
        let shop = origin();
        let turn = |token| politeness.turn(&reject, &shop, token, Duration::ZERO);
        let hour = Some(Duration::from_secs(3600));
        turn("a").await.unwrap().answered(&origin(), 503, hour);
        let soon = turn("b").await.err().unwrap();
        assert_eq!(
            (soon.cause, soon.retry_after),
            (Cause::OriginRests, reject.max_delay)
        );
        tokio::time::advance(reject.max_delay).await;
        turn("b").await.unwrap().answered(&origin(), 200, None);
        turn("a").await.unwrap().answered(&origin(), 429, None);
        let robots_txt = politeness.turn_without_pause(&reject, &shop, "a").await;
        robots_txt.unwrap().answered(&origin(), 200, None);
        for (status, rest) in [
            (429, Some(1)),
            (429, Some(2)),
            (429, Some(4)),
            (200, None),
            (503, None),
            (503, Some(1)),
        ] {
            turn("b").await.unwrap().answered(&origin(), status, None);
            let soon = turn("a").await.err();
            assert_eq!(
                soon.map(|soon| soon.retry_after.as_secs()),
                rest,
                "{status}"
            );
            tokio::time::advance(Duration::from_secs(rest.unwrap_or_default())).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_an_origin_waits_for_all_the_rest_it_asks_for() {
        let politeness = Arc::new(Politeness::default());
        let one = Options {
            max_concurrent_per_origin: 1,
            ..options(CrawlDelay::Wait)
        };
        let shop = origin();
        let started = Instant::now();
        let under_way = politeness
            .turn(&one, &shop, "a", Duration::ZERO)
            .await
            .unwrap();
        let others = (0..2).map(|_| {
            let politeness = Arc::clone(&politeness);
            tokio::spawn(async move {
                let turn = politeness.turn(&one, &origin(), "a", Duration::ZERO).await;
                turn.map(|_| started.elapsed().as_secs())
            })
        });
        let others: Vec<_> = others.collect();
        tokio::time::advance(Duration::from_secs(1)).await;
        let rest = |seconds| Some(Duration::from_secs(seconds));
        under_way.answered(&shop, 503, rest(4));
        drop(under_way);
        tokio::time::advance(Duration::from_secs(1)).await;
        politeness
            .rests
            .answered(&shop, 429, rest(8), one.max_delay);
        for other in others {
            assert_eq!(other.await.unwrap().map_err(|soon| soon.cause), Ok(10));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_are_under_way_than_may_be_of_one_pace() {
        let politeness = Politeness::default();
        let two = Options {
            max_concurrent_per_origin: 2,
            ..options(CrawlDelay::Ignore)
        };
        let shop = origin();
        let turn = |pace| politeness.turn(&two, &shop, pace, Duration::ZERO);
        let (first, _second) = (turn("a").await.unwrap(), turn("A").await.unwrap());
        let soon = turn("a").await.err().unwrap();
        assert_eq!(soon.cause, Cause::Concurrency);
        assert!(turn("b").await.is_ok());
        drop(first);
        assert!(turn("a").await.is_ok());
    }

    fn numbered(number: usize) -> Origin {
        Origin::parse(&format!("http://shop{number}.test")).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn among_thousands_no_pending_delay_is_forgotten() {
        let politeness = Politeness::default();
        let options = options(CrawlDelay::Reject);
        let turn = |number: usize| {
            let (politeness, options) = (&politeness, &options);
            async move {
                let origin = numbered(number);
                let turn = politeness.turn(options, &origin, "NewsBot", 100 * DELAY);
                turn.await.map(drop)
            }
        };
        for number in 0..3000 {
            turn(number).await.unwrap();
        }
        for number in [0, 1, 1023, 1024, 2999] {
            let too_soon = turn(number).await.unwrap_err();
            assert_eq!(too_soon.retry_after, 100 * DELAY, "{number}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn among_thousands_no_rest_is_forgotten() {
        let politeness = Politeness::default();
        let options = options(CrawlDelay::Reject);
        let rest = Duration::from_secs(60);
        for number in 0..5000 {
            let origin = numbered(number);
            let turn = politeness.turn(&options, &origin, "NewsBot", Duration::ZERO);
            turn.await.unwrap().answered(&origin, 429, Some(rest));
        }
        for number in [0, 1, 4095, 4096, 4999] {
            let origin = numbered(number);
            let turn = politeness.turn(&options, &origin, "NewsBot", Duration::ZERO);
            let too_soon = turn.await.map(drop).unwrap_err();
            assert_eq!(
                (too_soon.cause, too_soon.retry_after),
                (Cause::OriginRests, rest),
                "{number}"
            );
        }
    }
}
