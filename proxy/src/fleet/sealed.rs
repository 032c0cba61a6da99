//! Records that only nodes with the fleet's key can write: who can write to the engine could allow what is disallowed.

use std::fmt;
use std::time::{Duration, SystemTime};

use ring::hmac;

use super::engine::Record;
use crate::clock::Clock;

/// Bytes of the HMAC-SHA-256 that are kept.
const TAG: usize = 16;
/// The calendars of nodes, and of the engine, may be so far apart. An old record that somebody put back as if it were new is
/// older than that.
const TOLERATED: Duration = Duration::from_secs(300);

/// The fleet's key.
pub struct Key {
    key: hmac::Key,
    /// Of the tenant.
    prefix: String,
    clock: Clock,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// The key of the fleet with this prefix.
    #[must_use]
    pub fn new(secret: &[u8; 32], prefix: &str, clock: Clock) -> Self {
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, secret),
            prefix: prefix.to_owned(),
            clock,
        }
    }

    fn tag(&self, origin: &str, rest: &[u8]) -> [u8; TAG] {
        let mut context = hmac::Context::with_key(&self.key);
        for part in [self.prefix.as_bytes(), origin.as_bytes()] {
            context.update(&part.len().to_be_bytes());
            context.update(part);
        }
        context.update(rest);
        let mut tag = [0; TAG];
        tag.copy_from_slice(&context.sign().as_ref()[..TAG]);
        tag
    }

    fn now(&self) -> Duration {
        let now = self.clock.now().duration_since(SystemTime::UNIX_EPOCH);
        now.unwrap_or_default()
    }

    /// The record with its tag and when it was learned.
    pub(super) fn seal(&self, origin: &str, record: Record) -> Record {
        let learned_at = self.now().saturating_sub(record.age).as_secs();
        let mut rest = learned_at.to_be_bytes().to_vec();
        rest.extend(record.bytes);
        let mut bytes = self.tag(origin, &rest).to_vec();
        bytes.extend(rest);
        Record { bytes, ..record }
    }

    /// The record, if a node with this key wrote it, and as long ago as it is said to be.
    pub(super) fn unseal(&self, origin: &str, record: &Record) -> Option<Record> {
        let (tag, rest) = record.bytes.split_first_chunk::<TAG>()?;
        let own = self.tag(origin, rest);
        // In constant time: how much of a forged tag is right is nobody's business.
        let differ = tag
            .iter()
            .zip(own)
            .fold(0, |bits, (one, other)| bits | (one ^ other));
        if differ != 0 {
            return None;
        }
        let (learned_at, bytes) = rest.split_first_chunk::<8>()?;
        let learned_at = Duration::from_secs(u64::from_be_bytes(*learned_at));
        let said = self.now().saturating_sub(record.age);
        (said.abs_diff(learned_at) <= TOLERATED).then(|| Record {
            bytes: bytes.to_vec(),
            age: record.age,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(secret: u8, prefix: &str) -> Key {
        let first = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        Key::new(&[secret; 32], prefix, Clock::start_at(first))
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_was_sealed_by_this_key_for_this_origin_is_read() {
        let day = Duration::from_secs(86_400);
        let record = Record {
            bytes: b"Disallow: /".to_vec(),
            age: day,
        };
        let ours = key(1, "wl");
        let sealed = ours.seal("https://a.test", record.clone());
        assert_eq!(ours.unseal("https://a.test", &sealed), Some(record));
        assert_eq!(ours.unseal("https://b.test", &sealed), None);
        assert_eq!(key(2, "wl").unseal("https://a.test", &sealed), None);
        assert_eq!(key(1, "other").unseal("https://a.test", &sealed), None);
        for bit in 0..sealed.bytes.len() * 8 {
            let mut forged = sealed.clone();
            forged.bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(ours.unseal("https://a.test", &forged), None, "{bit}");
        }
        let put_back = Record {
            age: Duration::ZERO,
            ..sealed
        };
        assert_eq!(ours.unseal("https://a.test", &put_back), None, "old");
    }
}
