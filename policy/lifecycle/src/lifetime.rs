//! Lifetimes of answers, and the times of further attempts.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, SystemTime};

use super::fetch_outcome::{ResponseFields, delta_seconds};
use super::resource::Resource;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The time until the next attempt after one that was postponed. It does not grow: the origin has had no request.
pub(super) const POSTPONED_PAUSE: Duration = Duration::from_secs(2);

/// The lifetimes of answers; part of `[robots]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifetimeSettings {
    /// The longest time for which an answer is fresh, and the time if the origin does not specify one. Default: 24 h,
    /// the longest that RFC 9309 §2.4 allows for a cached version.
    pub max_age: Duration,
    /// The age up to which rules decide in every dialect while the origin is unreachable. After as long without any
    /// answer, an unreachable origin counts as unavailable if it never had rules; if it had, they decide again.
    /// Default: 30 days, the example of RFC 9309 §2.3.1.4.
    pub max_stale: Duration,
    /// The time until the next attempt after the first failure; it doubles with each further failure. Default: 60 s.
    pub error_ttl: Duration,
    /// The longest time until the next attempt, after consecutive failures or by `Retry-After`. Default: 1 h, so that
    /// an origin's recovery is noticed soon; never below `error_ttl`.
    pub max_backoff: Duration,
    /// The time for which an answer is fresh although the origin forbids caching: long enough that not every request
    /// needs a second one. Default: 60 s.
    pub uncacheable_age: Duration,
    /// The seed, besides the origin, of the jitter of further attempts: different for each node, since otherwise all
    /// nodes would contact an origin in the same second. Default: 0.
    pub jitter_seed: u64,
}

impl Default for LifetimeSettings {
    fn default() -> Self {
        Self {
            max_age: DAY,
            max_stale: 30 * DAY,
            error_ttl: MINUTE,
            max_backoff: HOUR,
            uncacheable_age: MINUTE,
            jitter_seed: 0,
        }
    }
}

impl LifetimeSettings {
    /// Returns the time for which an answer with these fields is fresh from `now` on (RFC 9111 §4.2.1, as a shared
    /// cache).
    #[must_use]
    pub fn fresh_for(&self, fields: Option<&ResponseFields>, now: SystemTime) -> Duration {
        let lifetime = match fields.and_then(|fields| stated_lifetime(fields, now)) {
            None => self.max_age,
            Some(Duration::ZERO) => self.uncacheable_age,
            Some(lifetime) => lifetime,
        };
        lifetime.min(self.max_age)
    }

    /// Returns the time until the next attempt after some consecutive failures, with a jitter of a tenth in either
    /// direction so that origins that failed together are not retried together.
    pub(super) fn backoff(
        &self,
        resource: &Resource,
        failures: u32,
        retry_after: Option<Duration>,
    ) -> Duration {
        let longest = self.max_backoff.max(self.error_ttl);
        let backoff = self.jittered(self.backoff_without_jitter(failures), resource, failures);
        // `Retry-After` is a lower bound, but an origin cannot ask for more than the maximum.
        backoff.max(retry_after.unwrap_or_default().min(longest))
    }

    fn backoff_without_jitter(&self, failures: u32) -> Duration {
        // Beyond 16 doublings every interval exceeds the maximum, and the shift could overflow.
        let doublings = failures.saturating_sub(1).min(16);
        let longest = self.max_backoff.max(self.error_ttl);
        self.error_ttl.saturating_mul(1 << doublings).min(longest)
    }

    /// Returns the longest gap after which the next failure still shows that an origin was unreachable in between: half
    /// of `max_stale`, so that only failures on several days make it unreachable for long. If the back-off is longer,
    /// twice the back-off, since nothing is tried before it has passed.
    pub(super) fn longest_gap(&self, failures: u32) -> Duration {
        let back_off = self.backoff_without_jitter(failures);
        (self.max_stale / 2).max(back_off.saturating_mul(2))
    }

    /// Returns the time after which an answer in use is fetched again: early enough that no request finds it stale.
    pub(super) fn refresh_after(&self, resource: &Resource, lifetime: Duration) -> Duration {
        // At most 0.935 of the lifetime with jitter, so always before it ends.
        self.jittered(lifetime.mul_f64(0.85), resource, 0)
    }

    /// Multiplies `span` by a factor from 0.9 to 1.1, which is constant for a node, resource and round.
    fn jittered(&self, span: Duration, resource: &Resource, round: u32) -> Duration {
        // A hash rather than a random number, so that the same time is computed again after a restart.
        let mut hasher = DefaultHasher::new();
        (self.jitter_seed, resource, round).hash(&mut hasher);
        let tenth_either_way = (hasher.finish() % 2001) as f64 / 10_000.0;
        span.mul_f64(0.9 + tenth_either_way)
    }
}

/// Returns the lifetime that the origin specifies; zero if it forbids caching or the time has passed, `None` if it
/// specifies none.
fn stated_lifetime(fields: &ResponseFields, now: SystemTime) -> Option<Duration> {
    let directives = CacheControl::read(fields.cache_control.as_deref().unwrap_or_default());
    if directives.forbids {
        return Some(Duration::ZERO);
    }
    // In a shared cache `s-maxage` overrides `max-age`, and both override `Expires` (RFC 9111 §5.2.2.10, §5.3).
    if let Some(seconds) = directives.shared_max_age.or(directives.max_age) {
        let age = fields.age.as_deref().and_then(delta_seconds).unwrap_or(0);
        return Some(Duration::from_secs(seconds.saturating_sub(age)));
    }
    let expires_at = fields.expires_at?;
    Some(expires_at.duration_since(now).unwrap_or_default())
}

/// The directives of `Cache-Control` that concern a shared cache (RFC 9111 §5.2.2).
#[derive(Default)]
struct CacheControl {
    forbids: bool,
    max_age: Option<u64>,
    shared_max_age: Option<u64>,
}

impl CacheControl {
    fn read(value: &str) -> Self {
        let mut found = Self::default();
        for directive in value.split(',') {
            let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
            let argument = value.trim().trim_matches('"');
            match name.trim().to_ascii_lowercase().as_str() {
                // With a field name, they concern that field only.
                "no-store" | "no-cache" | "private" if argument.is_empty() => found.forbids = true,
                // RFC 9111 §4.2.1 treats a response with an invalid age as stale.
                "max-age" => found.max_age = Some(delta_seconds(argument).unwrap_or(0)),
                "s-maxage" => found.shared_max_age = Some(delta_seconds(argument).unwrap_or(0)),
                _ => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(name: &str) -> Resource {
        Resource::parse(&format!("https://{name}.example")).expect("a resource")
    }

    fn fields(cache_control: &str, age: &str, expires_in: Option<i64>) -> ResponseFields {
        ResponseFields {
            cache_control: (!cache_control.is_empty()).then(|| cache_control.into()),
            age: (!age.is_empty()).then(|| age.into()),
            expires_at: expires_in.map(|seconds| match u64::try_from(seconds) {
                Ok(seconds) => now() + Duration::from_secs(seconds),
                Err(_) => SystemTime::UNIX_EPOCH,
            }),
            ..ResponseFields::default()
        }
    }

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }

    #[test]
    fn the_origin_shortens_the_lifetime_but_never_lengthens_it() {
        let cases = [
            ("", "", None, 86_400),
            ("max-age=600", "", None, 600),
            ("max-age=1", "", None, 1),
            ("Public, Max-Age=600", "", None, 600),
            ("max-age=\"600\"", "", None, 600),
            ("max-age=604800", "", None, 86_400),
            ("max-age=99999999999999999999999", "", None, 86_400),
            ("max-age=600", "200", None, 400),
            ("max-age=600", "900", None, 60),
            ("max-age=600, s-maxage=300", "", None, 300),
            ("max-age=600", "", Some(30), 600),
            ("", "", Some(30), 30),
            ("", "", Some(-1), 60),
            ("", "", Some(31_536_000), 86_400),
            ("no-cache", "", Some(30), 60),
            ("no-store", "", None, 60),
            ("private", "", None, 60),
            ("private=\"x\", max-age=5", "", None, 5),
            ("max-age=0", "", None, 60),
            ("max-age=soon", "", None, 60),
            ("must-revalidate", "", None, 86_400),
        ];
        for (cache_control, age, expires_in, seconds) in cases {
            let fields = fields(cache_control, age, expires_in);
            assert_eq!(
                LifetimeSettings::default().fresh_for(Some(&fields), now()),
                Duration::from_secs(seconds),
                "{cache_control:?} {age:?} {expires_in:?}"
            );
        }
    }

    #[test]
    fn an_uncacheable_answer_lives_no_longer_than_max_age() {
        let lifetimes =
            LifetimeSettings { max_age: Duration::from_secs(2), ..LifetimeSettings::default() };
        let fields = fields("no-store", "", None);
        assert_eq!(lifetimes.fresh_for(Some(&fields), now()), Duration::from_secs(2));
    }

    #[test]
    fn failures_in_a_row_back_off_up_to_a_bound() {
        let lifetimes = LifetimeSettings::default();
        let host = origin("a");
        let expected = [60, 120, 240, 480, 960, 1920, 3600, 3600];
        for (failures, seconds) in (1..).zip(expected) {
            let backoff = lifetimes.backoff(&host, failures, None).as_secs_f64();
            let seconds = f64::from(seconds);
            assert!((seconds * 0.9..=seconds * 1.1).contains(&backoff), "{failures}: {backoff}");
        }
        let endless = lifetimes.backoff(&host, u32::MAX, None);
        assert!(endless <= lifetimes.max_backoff.mul_f64(1.1));
    }

    #[test]
    fn origins_that_failed_together_are_retried_apart() {
        let lifetimes = LifetimeSettings::default();
        let of = |name: &str| lifetimes.backoff(&origin(name), 1, None);
        let mut all: Vec<_> = ["a", "b", "c", "d", "e", "f"].map(of).to_vec();
        all.dedup();
        assert!(all.len() > 1, "{all:?}");
        assert_eq!(of("a"), of("a"));
    }

    #[test]
    fn nodes_contact_an_origin_at_different_times() {
        let node = |spread| LifetimeSettings { jitter_seed: spread, ..LifetimeSettings::default() };
        let backoff = |spread| node(spread).backoff(&origin("a"), 1, None);
        let refresh = |spread| node(spread).refresh_after(&origin("a"), DAY);
        for times in [(1..=6).map(backoff).collect(), (1..=6).map(refresh).collect()] {
            let times: std::collections::HashSet<Duration> = times;
            assert!(times.len() > 3, "{times:?}");
        }
        assert_eq!((backoff(1), refresh(1)), (backoff(1), refresh(1)));
    }

    #[test]
    fn retry_after_is_waited_for_within_bounds() {
        let lifetimes = LifetimeSettings::default();
        let wait = |seconds| lifetimes.backoff(&origin("a"), 1, Some(Duration::from_secs(seconds)));
        assert_eq!(wait(900), Duration::from_secs(900));
        assert_eq!(wait(86_400), HOUR);
        assert!(wait(1) >= Duration::from_secs(54));
    }

    #[test]
    fn an_answer_in_use_is_fetched_again_before_it_is_stale() {
        for name in ["a", "b", "c", "d", "e"] {
            let after = LifetimeSettings::default().refresh_after(&origin(name), DAY);
            assert!(after < DAY && after > DAY / 2, "{after:?}");
        }
    }
}
