//! Instants as RFC 3339 in UTC with microseconds, for serde.

use std::borrow::Cow;
use std::time::SystemTime;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};
use time::OffsetDateTime;

/// Appends the same text in a quarter of the time: there are four of them in what is written of a decision.
pub(super) fn write(to: &mut Vec<u8>, at: SystemTime) {
    let at = OffsetDateTime::from(at);
    let (year, month, day) = at.to_calendar_date();
    let parts = [
        (i64::from(year), 4, b'-'),
        (i64::from(u8::from(month)), 2, b'-'),
        (day.into(), 2, b'T'),
        (at.hour().into(), 2, b':'),
        (at.minute().into(), 2, b':'),
        (at.second().into(), 2, b'.'),
        (at.microsecond().into(), 6, b'Z'),
    ];
    let mut text = [0; 27];
    let mut end = 0;
    for (number, digits, behind) in parts {
        let mut number = number.unsigned_abs();
        for place in text[end..end + digits].iter_mut().rev() {
            *place = b'0' + (number % 10) as u8;
            number /= 10;
        }
        end += digits + 1;
        text[end - 1] = behind;
    }
    to.extend_from_slice(&text);
}

pub(super) fn serialize<S: Serializer>(at: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_rfc3339_micros(*at))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<SystemTime, D::Error> {
    let text = Cow::<str>::deserialize(deserializer)?;
    humantime::parse_rfc3339(&text).map_err(D::Error::custom)
}

pub(super) fn serialize_some<S: Serializer>(
    at: &Option<SystemTime>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => serialize(at, serializer),
        None => serializer.serialize_none(),
    }
}

pub(super) fn deserialize_some<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SystemTime>, D::Error> {
    deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn both_ways_of_writing_agree() {
        let last = Duration::new(253_402_300_799, 999_999_999);
        let leap_day = Duration::new(1_709_164_800, 1_000);
        for since in [
            Duration::ZERO,
            leap_day,
            Duration::new(1_800_000_000, 123_456_789),
            last,
        ] {
            let at = UNIX_EPOCH + since;
            let mut written = Vec::new();
            write(&mut written, at);
            let expected = humantime::format_rfc3339_micros(at).to_string();
            assert_eq!(String::from_utf8(written).unwrap(), expected);
        }
    }
}
