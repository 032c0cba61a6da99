//! Times as command-line arguments: an instant, a day, or a span before now.

use std::str::FromStr;
use std::time::{Duration, SystemTime};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_hours(24);
const NANOSECOND: Duration = Duration::from_nanos(1);

/// `2026-11-22T08:00:00Z` (the whole second), `2026-11-22` (the whole day in UTC), or `3d` (that long before now).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeArgument {
    At { from: SystemTime, length: Duration },
    Ago(Duration),
}

impl TimeArgument {
    /// Returns the first instant, for a command that runs at `now`. Times before 1970 become 1970.
    pub(super) fn start(self, now: SystemTime) -> SystemTime {
        match self {
            Self::At { from, .. } => from,
            Self::Ago(span) => {
                now.checked_sub(span).unwrap_or(SystemTime::UNIX_EPOCH).max(SystemTime::UNIX_EPOCH)
            }
        }
    }

    /// Returns the last instant: a day or a second as an end includes everything that happened in it.
    pub(super) fn end(self, now: SystemTime) -> SystemTime {
        match self {
            // A range includes its end, so this is the last instant within.
            Self::At { from, length } => from + length - NANOSECOND,
            Self::Ago(_) => self.start(now),
        }
    }
}

impl FromStr for TimeArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let of_length = |length| move |from| Self::At { from, length };
        // A time with a fraction means that instant, one without the whole second.
        let precision = if text.contains('.') { NANOSECOND } else { SECOND };
        let instant = humantime::parse_rfc3339_weak(text).map(of_length(precision));
        let day = || humantime::parse_rfc3339(&format!("{text}T00:00:00Z")).map(of_length(DAY));
        let ago = || humantime::parse_duration(text).map(Self::Ago);
        (instant.or_else(|_| day())).or_else(|_| ago()).map_err(|_| {
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
        for (text, length) in [
            ("2024-10-04T00:00:00Z", SECOND),
            ("2024-10-04 00:00:00", SECOND),
            ("2024-10-04T00:00:00.000Z", NANOSECOND),
            ("2024-10-04", DAY),
        ] {
            let moment: TimeArgument = text.parse().unwrap();
            assert_eq!(moment.start(day + DAY), day, "{text}");
            let end = day + length - NANOSECOND;
            assert_eq!(moment.end(day), end, "{text}");
        }
        let span: TimeArgument = "3d 1h".parse().unwrap();
        assert_eq!(span.start(day), day - Duration::from_hours(73));
        let long: TimeArgument = "9000y".parse().unwrap();
        assert_eq!(long.start(day), SystemTime::UNIX_EPOCH);
    }

    #[test]
    fn error_shows_what_a_time_looks_like() {
        for text in ["yesterday", "2026-13-01", "", "3"] {
            let error = text.parse::<TimeArgument>().unwrap_err();
            let expected = "is not a time; write 2026-11-22T08:00:00Z, 2026-11-22 or 3d";
            assert_eq!(error, format!("{text:?} {expected}"));
        }
    }
}
