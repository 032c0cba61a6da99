//! Spread: numbers for texts, such that those of texts alike are far apart.

/// Only a product's upper bits depend on all bits of its factors, so those of products with this count.
pub(super) const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// The upper half of a product.
#[inline]
pub(super) fn spread(number: u64) -> u32 {
    (number.wrapping_mul(SPREAD) >> 32) as u32
}
