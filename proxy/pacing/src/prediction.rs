//! The waits that enforcement would impose, where refusals are only observed and so nobody waits.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use super::turnstile::lock;
use super::unit::PaceUnit;

/// A unit, and a pace (in lower case) that a crawler keeps there.
type PredictedKey = (PaceUnit, String);

/// The number of requests under way that would wait, by pace unit.
#[derive(Default)]
pub(super) struct PredictedQueues(Mutex<HashMap<PredictedKey, u32>>);

/// A request that is sent now, and would wait for its slot. Requests that come while it is under way would queue after it: its
/// client sends no other one meanwhile, just as it would not while it waited.
pub struct PredictedWait<'p> {
    queues: &'p PredictedQueues,
    key: PredictedKey,
    pub wait: Duration,
}

impl PredictedQueues {
    /// Returns the wait of a request: `until_next_slot`, and one `delay` more for each request ahead of it; `None` if that is more
    /// than `longest`.
    pub(super) fn predict(
        &self,
        (unit, pace): (PaceUnit, &str),
        until_next_slot: Duration,
        delay: Duration,
        longest: Duration,
    ) -> Option<PredictedWait<'_>> {
        let key = (unit, pace.to_ascii_lowercase());
        let mut queues = lock(&self.0);
        let ahead = queues.get(&key).copied().unwrap_or_default();
        let wait = until_next_slot.saturating_add(delay.saturating_mul(ahead));
        if wait > longest {
            return None;
        }
        queues.insert(key.clone(), ahead + 1);
        Some(PredictedWait { queues: self, key, wait })
    }
}

impl Drop for PredictedWait<'_> {
    fn drop(&mut self) {
        let mut queues = lock(&self.queues.0);
        if let Some(count) = queues.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                queues.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use wayleave_robots_txt::Origin;

    use super::*;

    const DELAY: Duration = Duration::from_secs(10);

    #[test]
    fn requests_under_way_would_queue() {
        let queues = PredictedQueues::default();
        let origin = Origin::parse("http://shop.test").unwrap();
        let predict = |pace| {
            let unit = PaceUnit::Origin(origin.clone());
            queues.predict((unit, pace), DELAY, DELAY, 3 * DELAY)
        };
        let wait_of = |pace| predict(pace).map(|predicted| predicted.wait);
        let under_way: Vec<_> = ["Bot", "bot", "BOT"].into_iter().map_while(predict).collect();
        let waits: Vec<_> = under_way.iter().map(|predicted| predicted.wait).collect();
        assert_eq!(waits, [DELAY, 2 * DELAY, 3 * DELAY]);
        assert_eq!(wait_of("Bot"), None);
        assert_eq!(wait_of("Other"), Some(DELAY));
        drop(under_way);
        assert_eq!(wait_of("Bot"), Some(DELAY));
        assert!(lock(&queues.0).is_empty());
    }
}
