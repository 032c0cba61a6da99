//! Times as arguments: an instant, a day, or a span back from now.

use std::str::FromStr;
use std::time::{Duration, SystemTime};

/// `2026-11-22T08:00:00Z`, `2026-11-22` (its beginning in UTC), or `3d` (that long before now).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    At(SystemTime),
    Ago(Duration),
}

impl Moment {
    /// The instant, seen from `now`; what is before 1970 is there.
    pub(super) fn seen_from(self, now: SystemTime) -> SystemTime {
        match self {
            Self::At(at) => at,
            Self::Ago(span) => {
                let then = now.checked_sub(span).unwrap_or(SystemTime::UNIX_EPOCH);
                then.max(SystemTime::UNIX_EPOCH)
            }
        }
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let instant = humantime::parse_rfc3339_weak(text);
        let day = || humantime::parse_rfc3339(&format!("{text}T00:00:00Z"));
        let ago = || humantime::parse_duration(text);
        (instant.or_else(|_| day()).map(Self::At))
            .or_else(|_| ago().map(Self::Ago))
            .map_err(|_| {
                format!("{text:?} is not a time; write 2026-11-22T08:00:00Z, 2026-11-22 or 3d")
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_days_and_spans_are_times() {
        let day = SystemTime::UNIX_EPOCH + Duration::from_hours(24 * 20_000);
        for text in ["2024-10-04T00:00:00Z", "2024-10-04 00:00:00", "2024-10-04"] {
            assert_eq!(text.parse(), Ok(Moment::At(day)), "{text}");
        }
        let span: Moment = "3d 1h".parse().unwrap();
        assert_eq!(span.seen_from(day), day - Duration::from_hours(73));
        let long: Moment = "9000y".parse().unwrap();
        assert_eq!(long.seen_from(day), SystemTime::UNIX_EPOCH);
    }

    #[test]
    fn what_is_not_a_time_is_told_what_is() {
        for text in ["yesterday", "2026-13-01", "", "3"] {
            let error = text.parse::<Moment>().unwrap_err();
            let expected = "is not a time; write 2026-11-22T08:00:00Z, 2026-11-22 or 3d";
            assert_eq!(error, format!("{text:?} {expected}"));
        }
    }
}
