//! Heads: the first eight bytes of a text as one number. Most rules differ from a path there and are skipped by one
//! comparison.

/// The number of bytes in a head.
pub(super) const HEAD_BYTES: usize = size_of::<u64>();

/// Returns the first eight bytes of a text as a number, padded with zeros.
#[inline]
pub(super) fn head(text: &[u8]) -> u64 {
    let bytes = text.first_chunk().copied().unwrap_or_else(|| {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..text.len()].copy_from_slice(text);
        bytes
    });
    u64::from_le_bytes(bytes)
}

/// Returns whether two heads are equal apart from some bits at the end.
#[inline]
pub(super) fn heads_match(one: u64, other: u64, unsure: u8) -> bool {
    // The first byte of a text is the lowest: shifting left drops the last ones. All 64 may be unsure.
    (one ^ other).unbounded_shl(u32::from(unsure)) == 0
}
