//! Seals on records. Without them, anyone who can write to the engine could allow URLs that a robots.txt disallows.

use std::fmt;
use std::time::Duration;

use ring::hmac;

use super::engine::SharedRecord;

/// The length of the truncated HMAC-SHA-256, in bytes.
const TAG_BYTES: usize = 16;
/// The version of the sealed format. A node rejects the records of any other version.
const FORMAT: u8 = 2;
/// The largest difference between this machine's clock and the engine's where there is a key, and between a record's age
/// according to the engine and according to the seal.
pub(super) const MAX_CLOCK_SKEW: Duration = Duration::from_secs(300);

/// The fleet's key.
pub struct FleetKey {
    key: hmac::Key,
    /// The prefix of the fleet's keys, so that fleets that share a secret cannot copy each other's records.
    prefix: String,
}

impl fmt::Debug for FleetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the secret.
        f.write_str("FleetKey")
    }
}

impl FleetKey {
    /// Creates the key of the fleet with this prefix.
    #[must_use]
    pub fn new(secret: &[u8; 32], prefix: &str) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, secret), prefix: prefix.to_owned() }
    }

    fn tag(&self, subject: &str, rest: &[u8]) -> [u8; TAG_BYTES] {
        let mut context = hmac::Context::with_key(&self.key);
        // Each part with its length, or two different sequences of parts could have the same bytes.
        for part in [&[FORMAT], self.prefix.as_bytes(), subject.as_bytes()] {
            context.update(&part.len().to_be_bytes());
            context.update(part);
        }
        context.update(rest);
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&context.sign().as_ref()[..TAG_BYTES]);
        tag
    }

    /// Returns the record with its tag, version and time of fetching in front. `now` is the engine's time.
    pub(super) fn seal(&self, origin: &str, record: SharedRecord, now: Duration) -> SharedRecord {
        // Sealed as a time, not as an age, so that it ages by itself in the engine.
        let fetched_at = millis(now.saturating_sub(record.age));
        let mut rest = record.version.to_be_bytes().to_vec();
        rest.extend(fetched_at.to_be_bytes());
        rest.extend(record.bytes);
        SharedRecord { bytes: self.seal_bytes(origin, &rest), ..record }
    }

    /// Returns `bytes`, which are about `subject`, with their tag in front.
    pub(super) fn seal_bytes(&self, subject: &str, bytes: &[u8]) -> Vec<u8> {
        [&self.tag(subject, bytes), bytes].concat()
    }

    /// Returns the bytes if they were sealed with this key, for this subject.
    pub(super) fn unseal_bytes<'a>(&self, subject: &str, sealed: &'a [u8]) -> Option<&'a [u8]> {
        let (tag, bytes) = sealed.split_first_chunk::<TAG_BYTES>()?;
        let own = self.tag(subject, bytes);
        // In constant time, so that a forger does not learn how many bytes were right.
        let differ = tag.iter().zip(own).fold(0, |bits, (one, other)| bits | (one ^ other));
        (differ == 0).then_some(bytes)
    }

    /// Returns the record if it was sealed with this key, for this origin and version, and at about the age that the engine
    /// claims. The age returned is the sealed one.
    pub(super) fn unseal(
        &self,
        origin: &str,
        record: &SharedRecord,
        now: Duration,
    ) -> Option<SharedRecord> {
        let rest = self.unseal_bytes(origin, &record.bytes)?;
        let (version, rest) = rest.split_first_chunk::<8>()?;
        let (fetched_at, bytes) = rest.split_first_chunk::<8>()?;
        let fetched_at = Duration::from_millis(u64::from_be_bytes(*fetched_at));
        // The engine's claims have to match, or someone who can write to it could restore an earlier record as a new one.
        let claimed_at = now.saturating_sub(record.age);
        let is_as_claimed = u64::from_be_bytes(*version) == record.version
            && claimed_at.abs_diff(fetched_at) <= MAX_CLOCK_SKEW;
        is_as_claimed.then(|| SharedRecord {
            bytes: bytes.to_vec(),
            age: now.saturating_sub(fetched_at),
            version: record.version,
        })
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_800_000_000);

    fn key(secret: u8, prefix: &str) -> FleetKey {
        FleetKey::new(&[secret; 32], prefix)
    }

    #[test]
    fn only_records_sealed_by_this_key_for_this_origin_are_read() {
        let day = Duration::from_secs(86_400);
        let record = SharedRecord { bytes: b"Disallow: /".to_vec(), age: day, version: 7 };
        let ours = key(1, "wl");
        let sealed = ours.seal("https://a.test", record.clone(), NOW);
        let unsealed =
            |key: &FleetKey, origin, sealed: &SharedRecord| key.unseal(origin, sealed, NOW);
        assert_eq!(unsealed(&ours, "https://a.test", &sealed), Some(record));
        assert_eq!(unsealed(&ours, "https://b.test", &sealed), None);
        assert_eq!(unsealed(&key(2, "wl"), "https://a.test", &sealed), None);
        assert_eq!(unsealed(&key(1, "other"), "https://a.test", &sealed), None);
        for bit in 0..sealed.bytes.len() * 8 {
            let mut forged = sealed.clone();
            forged.bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(unsealed(&ours, "https://a.test", &forged), None, "{bit}");
        }
        let put_back = |age, version| SharedRecord { age, version, ..sealed.clone() };
        let unsealed = |it: SharedRecord| unsealed(&ours, "https://a.test", &it);
        assert_eq!(unsealed(put_back(Duration::ZERO, 7)), None, "old");
        assert_eq!(unsealed(put_back(day, 8)), None, "of another version");
        let minutes = Duration::from_secs(240);
        let moved = unsealed(put_back(day - minutes, 7)).expect("tolerated");
        assert_eq!(moved.age, day, "the sealed age");
    }
}
