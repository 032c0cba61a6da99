//! The dates of `unavailable_after`.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::tz::TimeZone;

/// Parses a date in the formats of RFC 822, RFC 850 or ISO 8601; a missing zone means UTC, a missing time midnight.
pub(super) fn read(text: &str) -> Option<SystemTime> {
    let timestamp = iso_8601(text.trim()).or_else(|| rfc_822(text))?;
    let seconds = timestamp.as_second();
    let span = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 {
        return SystemTime::UNIX_EPOCH.checked_sub(span);
    }
    SystemTime::UNIX_EPOCH.checked_add(span)
}

fn iso_8601(text: &str) -> Option<Timestamp> {
    // With a zone or offset the text is a complete timestamp.
    if let Ok(timestamp) = text.parse() {
        return Some(timestamp);
    }
    // Sites also name the zone, which ISO 8601 writes as `Z`.
    let local =
        ["UTC", "GMT"].iter().find_map(|zone| text.strip_suffix(zone)).unwrap_or(text).trim();
    // A date alone is valid in ISO 8601, and common on sites.
    let midnight = || Some(local.parse::<Date>().ok()?.to_datetime(Time::midnight()));
    let date_time = local.parse::<DateTime>().ok().or_else(midnight)?;
    TimeZone::UTC.to_timestamp(date_time).ok()
}

/// Parses the formats of RFC 822 and RFC 850, which only adds hyphens to the date. The day of the week is ignored,
/// whether right or wrong.
fn rfc_822(text: &str) -> Option<Timestamp> {
    let date = text.split_once(',').map_or(text, |(_, date)| date).trim();
    let (day, time) = date.split_once(' ').unwrap_or((date, ""));
    let date = format!("{} {time}", day.replace('-', " "));
    let mut words: Vec<&str> = date.split_whitespace().collect();
    // Day, month and year; then the time and its zone.
    if words.len() == 3 {
        words.push("00:00:00");
    }
    if words.len() == 4 {
        words.push("GMT");
    }
    // RFC 822 does not know this name.
    if let Some(zone) = words.get_mut(4).filter(|zone| **zone == "UTC") {
        *zone = "GMT";
    }
    DateTimeParser::new().parse_timestamp(words.join(" ")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_in_the_three_forms_that_google_names() {
        let seven = SystemTime::UNIX_EPOCH + Duration::from_secs(962_434_800);
        for text in [
            "Sat, 01 Jul 2000 07:00:00 GMT",
            "1 Jul 2000 07:00:00 GMT",
            "Saturday, 01-Jul-00 07:00:00 GMT",
            "01 Jul 2000 08:00:00 +0100",
            "2000-07-01T07:00:00Z",
            "2000-07-01T09:00:00+02:00",
            "2000-07-01 07:00:00",
            "2000-07-01 07:00:00 UTC",
            "1 Jul 2000 07:00:00",
            "Saturday, 01-Jul-00 07:00:00 UTC",
            "01-Jul-2000 02:00:00 EST",
        ] {
            assert_eq!(read(text), Some(seven), "{text}");
        }
        let midnight = seven - Duration::from_secs(7 * 3600);
        for text in ["2000-07-01", "Sat, 01 Jul 2000", "1 Jul 2000", "Saturday, 01-Jul-00"] {
            assert_eq!(read(text), Some(midnight), "{text}");
        }
        for text in ["", "tomorrow", "Wed", "2000", "01 Jul"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
