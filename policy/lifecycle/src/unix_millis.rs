//! Instants as milliseconds since the epoch, as they are stored.

use std::time::{Duration, SystemTime};

use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

/// Returns the milliseconds since the epoch.
#[must_use]
pub fn to_unix_millis(time: SystemTime) -> u64 {
    let since_epoch = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the instant that many milliseconds after the epoch.
#[must_use]
pub fn from_unix_millis(millis: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
}

pub(super) fn serialize<S: Serializer>(
    time: &Option<SystemTime>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    time.map(to_unix_millis).serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SystemTime>, D::Error> {
    Ok(Option::deserialize(deserializer)?.map(from_unix_millis))
}
