//! The first eight bytes of a text as one number: most rules differ from a path there, and are passed over by it.

/// So many bytes are in a head.
pub(super) const HEAD_BYTES: usize = size_of::<u64>();

/// The first eight bytes of a text as a number, filled up with zeros.
pub(super) fn head(text: &[u8]) -> u64 {
    let bytes = text.first_chunk().copied().unwrap_or_else(|| {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..text.len()].copy_from_slice(text);
        bytes
    });
    u64::from_le_bytes(bytes)
}

/// Whether two heads agree in the first `bytes`, at most [`HEAD_BYTES`].
#[inline]
pub(super) fn agree(one: u64, other: u64, bytes: u8) -> bool {
    // All the bits but those of the first bytes; none if all bytes count.
    let others = u64::MAX.checked_shl(8 * u32::from(bytes));
    (one ^ other) & !others.unwrap_or(0) == 0
}
