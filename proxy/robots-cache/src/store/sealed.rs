//! Checksums that reveal damage. redb verifies the checksums of its pages only after a crash, so every record here has
//! one of its own, and a body is returned only if it has the SHA-256 that it is stored under.
//!
//! Bodies are compressed with zstd, which the HTTP code needs anyway: at level 3 it compresses robots.txt files to a
//! quarter in a third of the time that flate2 takes, and decompresses them several times as fast.

use std::sync::Arc;

use wayleave_evidence::{Sha256Digest, Sha256Hasher};

/// The number of SHA-256 bytes kept: enough against accidents, which is all that they guard against.
const SEAL_BYTES: usize = 8;
/// zstd's default compression level.
const ZSTD_LEVEL: i32 = 3;
/// The highest `robots.max_size`. A greater length is damage, and no memory is allocated for it.
const MAX_BODY_BYTES: usize = 64 << 20;

/// Returns `record` with a checksum of it and of its key.
pub(super) fn seal(key: &str, mut record: Vec<u8>) -> Vec<u8> {
    let checksum = checksum(key, &record);
    record.extend_from_slice(&checksum);
    record
}

/// Returns the record in `sealed`, unless it or its key was changed.
pub(super) fn unseal<'a>(key: &str, sealed: &'a [u8]) -> Option<&'a [u8]> {
    let (record, found) = sealed.split_last_chunk::<SEAL_BYTES>()?;
    (checksum(key, record) == *found).then_some(record)
}

fn checksum(key: &str, record: &[u8]) -> [u8; SEAL_BYTES] {
    let mut hasher = Sha256Hasher::new();
    hasher.update(&key.len().to_le_bytes());
    hasher.update(key.as_bytes());
    hasher.update(record);
    let mut checksum = [0; SEAL_BYTES];
    checksum.copy_from_slice(&hasher.finish().0[..SEAL_BYTES]);
    checksum
}

/// Compresses a body; its length comes first.
///
/// # Errors
///
/// If zstd cannot allocate memory.
pub(super) fn pack(body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut packed = u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes().to_vec();
    packed.extend(zstd::bulk::compress(body, ZSTD_LEVEL)?);
    Ok(packed)
}

/// Decompresses a body, and returns it if it has this digest.
pub(super) fn unpack(packed: &[u8], digest: &[u8; 32]) -> Option<Arc<[u8]>> {
    let (length, packed) = packed.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length) as usize;
    if length > MAX_BODY_BYTES {
        return None;
    }
    let body = zstd::bulk::decompress(packed, length).ok()?;
    (Sha256Digest::of(&body).0 == *digest).then(|| body.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_single_bit_of_a_record_or_its_key_changes_unnoticed() {
        let sealed = seal("https://a.test", b"a record".to_vec());
        assert_eq!(unseal("https://a.test", &sealed), Some(&b"a record"[..]));
        assert_eq!(unseal("https://b.test", &sealed), None);
        for bit in 0..sealed.len() * 8 {
            let mut damaged = sealed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(unseal("https://a.test", &damaged), None, "bit {bit}");
        }
        for length in 0..sealed.len() {
            assert_eq!(unseal("https://a.test", &sealed[..length]), None);
        }
    }

    #[test]
    fn no_single_bit_of_a_body_changes_unnoticed() {
        let body = b"User-agent: *\nDisallow: /private\n".repeat(9);
        let digest = Sha256Digest::of(&body).0;
        let packed = pack(&body).unwrap();
        assert!(packed.len() < body.len() / 2);
        assert_eq!(unpack(&packed, &digest).as_deref(), Some(&body[..]));
        assert_eq!(unpack(&packed, &[0; 32]), None);
        for bit in 0..packed.len() * 8 {
            let mut damaged = packed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let unpacked = unpack(&damaged, &digest);
            // A bit that zstd does not use changes nothing.
            assert!(unpacked.is_none_or(|unpacked| *unpacked == *body), "{bit}");
        }
    }
}
