//! The pace as reported to clients: `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers), so that a
//! scheduler can plan its next request instead of waiting for it here.

use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// The pace of a client's requests to an origin, and when the next one gets a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimit {
    /// The delay between requests; zero if the origin has none, and only rests.
    pub delay: Duration,
    /// The time until the next request gets a slot.
    pub next_in: Duration,
}

impl ClientLimit {
    /// Returns the member of `RateLimit-Policy`: how many requests may be sent in how many seconds. Rounded so that it never
    /// promises more than the delay allows.
    pub fn policy(self, name: &str) -> Option<String> {
        let (quota, window) = self.quota_and_window()?;
        Some(format!("\"{name}\";q={quota};w={window}"))
    }

    /// Returns the member of `RateLimit`: how many requests get a slot within how many seconds.
    pub fn limit(self, name: &str) -> String {
        let (remaining, seconds) = match self.quota_and_window() {
            Some((_, window)) if self.next_in.is_zero() && self.delay >= SECOND => (1, window),
            // Several requests may follow within the second that is the shortest window.
            Some(_) if self.delay < SECOND => {
                let left = SECOND.saturating_sub(self.next_in);
                (times(left, self.delay), whole_seconds(self.next_in))
            }
            _ => (0, whole_seconds(self.next_in)),
        };
        format!("\"{name}\";r={remaining};t={seconds}")
    }

    fn quota_and_window(self) -> Option<(u64, u64)> {
        match self.delay {
            Duration::ZERO => None,
            delay if delay < SECOND => Some((times(SECOND, delay), 1)),
            delay => Some((1, whole_seconds(delay))),
        }
    }
}

/// Returns how often `delay` fits into `span`.
fn times(span: Duration, delay: Duration) -> u64 {
    u64::try_from(span.as_nanos() / delay.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns whole seconds, rounded up, at least one: a window has to be longer than zero.
fn whole_seconds(span: Duration) -> u64 {
    (span.as_secs() + u64::from(span.subsec_nanos() > 0)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_client_is_promised_more_than_the_delay_allows() {
        for (delay, next_in, policy, limit) in [
            (10_000, 10_000, "q=1;w=10", "r=0;t=10"),
            (10_000, 9_001, "q=1;w=10", "r=0;t=10"),
            (10_000, 400, "q=1;w=10", "r=0;t=1"),
            (10_000, 30_000, "q=1;w=10", "r=0;t=30"),
            (10_000, 0, "q=1;w=10", "r=1;t=10"),
            (1_500, 1_500, "q=1;w=2", "r=0;t=2"),
            (1_000, 0, "q=1;w=1", "r=1;t=1"),
            (200, 200, "q=5;w=1", "r=4;t=1"),
            (300, 300, "q=3;w=1", "r=2;t=1"),
            (300, 900, "q=3;w=1", "r=0;t=1"),
            (300, 5_000, "q=3;w=1", "r=0;t=5"),
            (0, 60_000, "", "r=0;t=60"),
        ] {
            let [delay, next_in] = [delay, next_in].map(Duration::from_millis);
            let told = ClientLimit { delay, next_in };
            let expected = (!policy.is_empty()).then(|| format!("\"wayleave\";{policy}"));
            assert_eq!(told.policy("wayleave"), expected, "{told:?}");
            assert_eq!(told.limit("wayleave"), format!("\"wayleave\";{limit}"), "{told:?}");
        }
    }
}
