//! Origins to leave alone for a while, because they answered 429 or 503 or sent `Retry-After`.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use wayleave_policy::Origin;

use super::queue::lock;

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

    /// Notes an answer. 429 is about how often we come, so the origin rests at once: for as long as it says, else for a
    /// second, doubled each time. A 503 that says nothing may be one page's fault; from the second on it counts as well.
    pub(super) fn answered(
        &self,
        origin: &Origin,
        status: u16,
        retry_after: Option<Duration>,
        longest: Duration,
    ) {
        let is_refusal = matches!(status, 429 | 503);
        if !is_refusal && self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut by_origin = lock(&self.by_origin);
        if is_refusal {
            if by_origin.len() >= TIDY_AT {
                let now = Instant::now();
                by_origin.retain(|_, rest| rest.until > now);
            }
            let refusals = by_origin.get(origin).map_or(0, |rest| rest.refusals) + 1;
            let doublings = if status == 429 {
                refusals
            } else {
                refusals - 1
            };
            let growing = match doublings {
                0 => Duration::ZERO,
                doublings => Duration::from_secs(1 << (doublings - 1).min(20)),
            };
            let rest = Rest {
                until: Instant::now() + retry_after.unwrap_or(growing).min(longest),
                refusals,
            };
            by_origin.insert(origin.clone(), rest);
        } else {
            by_origin.remove(origin);
        }
        self.count.store(by_origin.len(), Ordering::Relaxed);
    }
}
