//! Instants as RFC 3339 in UTC with microseconds, for `serialize_with` and `deserialize_with` of serde.

use std::borrow::Cow;
use std::time::SystemTime;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

/// Writes an instant.
pub fn serialize<S: Serializer>(at: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_rfc3339_micros(*at))
}

/// Reads an instant.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemTime, D::Error> {
    let text = Cow::<str>::deserialize(deserializer)?;
    humantime::parse_rfc3339(&text).map_err(D::Error::custom)
}

/// Writes an instant, or `null` if there is none.
pub fn serialize_some<S: Serializer>(
    at: &Option<SystemTime>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => serialize(at, serializer),
        None => serializer.serialize_none(),
    }
}

/// Reads an instant that is there: an absent member needs `default`, and `null` is an error.
pub fn deserialize_some<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SystemTime>, D::Error> {
    deserialize(deserializer).map(Some)
}
