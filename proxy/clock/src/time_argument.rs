//! Times as people write them: an instant, a day, or a span before now.

use std::str::FromStr;
use std::time::{Duration, SystemTime};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_hours(24);
const NANOSECOND: Duration = Duration::from_nanos(1);

/// `2026-11-22T08:00:00Z` (the whole second), `2026-11-22`, `today` or `yesterday` (the whole day in UTC), `now`, or `3d` or `3d
/// ago` (that long before now).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimeArgument {
    At {
        from: SystemTime,
        length: Duration,
    },
    /// The day that began so many days before the present one.
    Day {
        before_today: u32,
    },
    Ago(Duration),
}

impl TimeArgument {
    /// Returns the first instant, for something that is asked at `now`. Times before 1970 become 1970.
    pub fn start(self, now: SystemTime) -> SystemTime {
        let start = match self {
            Self::At { from, .. } => Some(from),
            Self::Day { before_today } => now.checked_sub(since_midnight(now) + DAY * before_today),
            Self::Ago(span) => now.checked_sub(span),
        };
        start.unwrap_or(SystemTime::UNIX_EPOCH).max(SystemTime::UNIX_EPOCH)
    }

    /// Returns the last instant: a day or a second as an end includes everything that happened in it.
    pub fn end(self, now: SystemTime) -> SystemTime {
        match self {
            // A range includes its end, so this is the last instant within.
            Self::At { from, length } => from + length - NANOSECOND,
            Self::Day { .. } => self.start(now) + DAY - NANOSECOND,
            Self::Ago(_) => self.start(now),
        }
    }
}

/// Returns the time since midnight in UTC. Days of UTC have no leap seconds in `SystemTime`.
fn since_midnight(now: SystemTime) -> Duration {
    let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since_epoch - DAY * u32::try_from(since_epoch.as_secs() / DAY.as_secs()).unwrap_or(u32::MAX)
}

impl FromStr for TimeArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "now" => return Ok(Self::Ago(Duration::ZERO)),
            "today" => return Ok(Self::Day { before_today: 0 }),
            "yesterday" => return Ok(Self::Day { before_today: 1 }),
            _ => {}
        }
        let of_length = |length| move |from| Self::At { from, length };
        // A time with a fraction means that instant, one without the whole second.
        let precision = if text.contains('.') { NANOSECOND } else { SECOND };
        let instant = humantime::parse_rfc3339_weak(text).map(of_length(precision));
        let day = || humantime::parse_rfc3339(&format!("{text}T00:00:00Z")).map(of_length(DAY));
        let span = text.strip_suffix(" ago").unwrap_or(text);
        // A number alone is no span, not even 0.
        let has_unit = span.contains(|c: char| c.is_ascii_alphabetic());
        let ago = || humantime::parse_duration(span).ok().filter(|_| has_unit).map(Self::Ago);
        instant.or_else(|_| day()).ok().or_else(ago).ok_or_else(|| {
            format!(
                "{text:?} is not a time; write 2026-11-22T08:00:00Z, 2026-11-22, yesterday, now or 3d"
            )
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
        for text in ["3d 1h", "3d 1h ago", "73h ago"] {
            let span: TimeArgument = text.parse().unwrap();
            assert_eq!(span.start(day), day - Duration::from_hours(73), "{text}");
            assert_eq!(span.end(day), span.start(day), "{text}");
        }
        let long: TimeArgument = "9000y".parse().unwrap();
        assert_eq!(long.start(day), SystemTime::UNIX_EPOCH);
    }

    #[test]
    fn days_have_names() {
        let day = SystemTime::UNIX_EPOCH + Duration::from_hours(24 * 20_000);
        for now in [day, day + Duration::from_hours(13), day + DAY - NANOSECOND] {
            for (text, start, length) in
                [("today", day, DAY), ("yesterday", day - DAY, DAY), ("now", now, NANOSECOND)]
            {
                let named: TimeArgument = text.parse().unwrap();
                assert_eq!(named.start(now), start, "{text}");
                assert_eq!(named.end(now), start + length - NANOSECOND, "{text}");
            }
        }
        let yesterday: TimeArgument = "yesterday".parse().unwrap();
        assert_eq!(yesterday.start(SystemTime::UNIX_EPOCH), SystemTime::UNIX_EPOCH);
    }

    #[test]
    fn error_shows_what_a_time_looks_like() {
        for text in ["someday", "2026-13-01", "", "3", "0", "0 ago", "ago", "yesterday ago"] {
            let error = text.parse::<TimeArgument>().unwrap_err();
            let expected =
                "is not a time; write 2026-11-22T08:00:00Z, 2026-11-22, yesterday, now or 3d";
            assert_eq!(error, format!("{text:?} {expected}"));
        }
    }
}
