//! The first eight bytes of a text as one number: most rules differ from a path there, and are passed over by it.

use crate::blocks::padded;

/// So many bytes are in a head.
pub(super) const HEAD_BYTES: usize = size_of::<u64>();

/// The first eight bytes of a text as a number, filled up with zeros.
pub(super) fn head(text: &[u8]) -> u64 {
    u64::from_le_bytes(text.first_chunk().copied().unwrap_or_else(|| padded(text)))
}

/// Selects the first `bytes` of a [`head`].
pub(super) fn head_mask(bytes: usize) -> u64 {
    static MASKS: [u64; HEAD_BYTES] = {
        let mut masks = [0; HEAD_BYTES];
        let mut bytes = 1;
        while bytes < HEAD_BYTES {
            masks[bytes] = (1 << (8 * bytes)) - 1;
            bytes += 1;
        }
        masks
    };
    MASKS.get(bytes).copied().unwrap_or(u64::MAX)
}
