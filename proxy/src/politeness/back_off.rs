//! Origins to leave alone for a while, because they answered 429 or 503 or sent `Retry-After`.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use wayleave_robots_txt::Origin;

use super::queue::lock;
use crate::fleet::back_off;

/// Origins that rest are looked through for rested ones when there are this many.
const TIDY_AT: usize = 4096;

/// The origins that rest, and for how long.
#[derive(Default)]
pub(super) struct Rests {
    by_origin: Mutex<HashMap<Origin, Rest>>,
    /// How many there are: most of the time none, which is all that a request needs to know.
    count: AtomicUsize,
}

struct Rest {
    until: Instant,
    /// Another node was asked: what this one sent before says nothing about it.
    is_elsewhere: bool,
    /// Answers of this kind, one after the other.
    refusals: u32,
}

impl Rests {
    /// Until when `origin` rests, if it does.
    pub(super) fn until(&self, origin: &Origin) -> Option<Instant> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let by_origin = lock(&self.by_origin);
        let until = by_origin.get(origin)?.until;
        (until > Instant::now()).then_some(until)
    }

    /// Notes an answer; whether it said anything of rest. How long is up to [`back_off::asked`].
    pub(super) fn answered(
        &self,
        origin: &Origin,
        status: u16,
        retry_after: Option<Duration>,
        longest: Duration,
    ) -> bool {
        let is_refusal = matches!(status, 429 | 503);
        if !is_refusal && self.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut by_origin = lock(&self.by_origin);
        let before = by_origin.get(origin).map_or(0, |rest| rest.refusals);
        let is_news = match back_off::asked((status, retry_after, before), longest) {
            Some(rest) => {
                tidy(&mut by_origin);
                let rest = Rest {
                    until: Instant::now() + rest,
                    is_elsewhere: false,
                    refusals: before + 1,
                };
                by_origin.insert(origin.clone(), rest);
                true
            }
            None => {
                let now = Instant::now();
                let ends = |rest: &Rest| !rest.is_elsewhere || rest.until <= now;
                by_origin.get(origin).is_some_and(ends) && by_origin.remove(origin).is_some()
            }
        };
        self.count.store(by_origin.len(), Ordering::Relaxed);
        is_news
    }

    /// Another node heard that `origin` asks for rest.
    pub(super) fn rest(&self, origin: &Origin, rest: Duration) {
        let mut by_origin = lock(&self.by_origin);
        tidy(&mut by_origin);
        let until = Instant::now() + rest;
        let known = by_origin.entry(origin.clone()).or_insert(Rest {
            until,
            is_elsewhere: true,
            refusals: 1,
        });
        known.is_elsewhere = true;
        known.until = known.until.max(until);
        self.count.store(by_origin.len(), Ordering::Relaxed);
    }

    /// Another node heard that it does not any more.
    pub(super) fn end(&self, origin: &Origin) {
        let mut by_origin = lock(&self.by_origin);
        by_origin.remove(origin);
        self.count.store(by_origin.len(), Ordering::Relaxed);
    }
}

fn tidy(by_origin: &mut HashMap<Origin, Rest>) {
    if by_origin.len() >= TIDY_AT {
        let now = Instant::now();
        by_origin.retain(|_, rest| rest.until > now);
    }
}
