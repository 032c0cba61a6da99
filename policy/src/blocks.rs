//! Blocks of bytes, judged as a whole by vectors: those of `fearless_simd`, which asks the processor at run time how wide
//! they may be and knows its way from "which of these" to a number, or where no such number is needed loops of a form that
//! the compiler turns into vectors.
//!
//! What is generic over `Simd` is compiled once for each kind of processor, and only what is inlined there: hence
//! `inline(always)`, of closures too.

use fearless_simd::prelude::*;
use fearless_simd::{Level, dispatch, u8x64};

/// How many bytes are judged at once.
pub(crate) const BLOCK: usize = 64;

/// Whether `is` says anything but zero of a byte of a text. Texts are short and mostly without, so the
/// last block overlaps the one before.
#[inline]
pub(crate) fn any(text: &[u8], is: impl Fn(u8) -> u8 + Copy) -> bool {
    if let Some(last) = text.last_chunk() {
        any_in_blocks::<16>(text.as_chunks().0, last, is)
    } else if let Some(last) = text.last_chunk() {
        any_in_blocks::<8>(text.as_chunks().0, last, is)
    } else {
        text.iter().fold(0, |all, &byte| all | is(byte)) != 0
    }
}

#[inline]
fn any_in_blocks<const BLOCK: usize>(
    blocks: &[[u8; BLOCK]],
    last: &[u8; BLOCK],
    is: impl Fn(u8) -> u8,
) -> bool {
    let mut found = [0; BLOCK];
    for block in blocks.iter().chain([last]) {
        for (found, &byte) in found.iter_mut().zip(block) {
            *found |= is(byte);
        }
    }
    found.iter().fold(0, |all, one| all | one) != 0
}

/// Whether a byte is not among those that most paths are made of; all of those are plain.
#[inline]
pub(crate) const fn is_unusual(byte: u8) -> u8 {
    let outside = byte.wrapping_sub(b'&') > b'z' - b'&';
    let angle_backslash_or_caret = byte & 0x9D == 0x1C;
    (outside | angle_backslash_or_caret | (byte == b'*') | (byte == b'`')) as u8
}

/// Bytes of a text, to be asked all at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<S: Simd>(u8x64<S>);

impl<S: Simd> Block<S> {
    #[inline(always)]
    pub(crate) fn new(simd: S, octets: &[u8; BLOCK]) -> Self {
        Self(u8x64::load_array_ref(simd, octets))
    }

    /// Which bytes are unusual as [`is_unusual`] has it, but no stars.
    #[inline(always)]
    pub(crate) fn unusual_but_stars(self) -> u64 {
        let octets = self.0;
        let outside = (octets - b'&').simd_gt(b'z' - b'&');
        let angle_backslash_or_caret = (octets & 0x9D).simd_eq(0x1C);
        (outside | angle_backslash_or_caret | octets.simd_eq(b'`')).to_bitmask()
    }

    /// Which bytes are any of these, the lowest bit for the first.
    #[inline(always)]
    pub(crate) fn any_of<const N: usize>(self, bytes: [u8; N]) -> u64 {
        let mut found = self.0.simd_eq(bytes[0]);
        for &byte in &bytes[1..] {
            found |= self.0.simd_eq(byte);
        }
        found.to_bitmask()
    }

    /// Which bytes a value may not hold: controls and white space, for what stands at its end is taken off, and `#`.
    #[inline(always)]
    pub(crate) fn ends_value(self) -> u64 {
        (self.0.simd_lt(0x21) | self.0.simd_eq(b'#')).to_bitmask()
    }

    /// Which bytes may begin what a line says, the lowest bit for the first: letters, the white space that is no blank,
    /// and some that say nothing.
    #[inline(always)]
    pub(crate) fn telling(self) -> u64 {
        (self.0 - 0x0D).simd_gt(0x33).to_bitmask()
    }
}

/// Where a text has the first byte that is any of these; its end if it has none.
#[inline(always)]
pub(crate) fn first_of<S: Simd, const N: usize>(simd: S, text: &[u8], bytes: [u8; N]) -> usize {
    first_where(
        simd,
        text,
        #[inline(always)]
        |block| block.any_of(bytes),
        |_| true,
    )
}

/// How many bytes a text begins with of those that most paths are made of, but for `%`.
pub(crate) fn usual_start(text: &[u8]) -> usize {
    dispatch!(Level::new(), simd => first_where(
        simd,
        text,
        #[inline(always)]
        |block| block.unusual_but_stars() | block.any_of([b'*']),
        |_| true,
    ))
}

/// Where a text has the first byte that `is` says so of; its end if it has none. `may_be` says which of a block could be
/// it: the others are passed over unasked.
#[inline(always)]
pub(crate) fn first_where<S: Simd>(
    simd: S,
    text: &[u8],
    may_be: impl Fn(Block<S>) -> u64,
    is: impl Fn(u8) -> bool,
) -> usize {
    let mut rest = text;
    while !rest.is_empty() {
        let (block, length) = match rest.first_chunk() {
            Some(octets) => (Block::new(simd, octets), BLOCK),
            None => (Block::new(simd, &padded(rest)), rest.len()),
        };
        let mut found = may_be(block);
        while first(found) < length {
            let at = first(found);
            if is(rest[at]) {
                return text.len() - rest.len() + at;
            }
            found &= found - 1;
        }
        rest = &rest[length..];
    }
    text.len()
}

/// A text that is shorter than this, and zeros behind it.
#[inline(always)]
pub(crate) fn padded<const LENGTH: usize>(text: &[u8]) -> [u8; LENGTH] {
    let mut padded = [0; LENGTH];
    padded[..text.len()].copy_from_slice(text);
    padded
}

/// Where the first byte is that was found; the length of a block if none was.
#[inline(always)]
pub(crate) fn first(found: u64) -> usize {
    found.trailing_zeros() as usize
}

/// Where the last byte is that was found; the first place if none was.
#[inline(always)]
pub(crate) fn last(found: u64) -> usize {
    (found | 1).ilog2() as usize
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn a_block_is_asked_for_its_first_octet_of_a_kind() {
        for level in [Level::new(), Level::baseline()] {
            dispatch!(level, simd => every_block(simd));
        }
    }

    fn every_block<S: Simd>(simd: S) {
        for at in 0..BLOCK {
            for byte in 0..=u8::MAX {
                let place = |is: bool| if is { at } else { BLOCK };
                let unusual = byte != b'*' && is_unusual(byte) == 1;
                let mut octets = [b'a'; BLOCK];
                octets[at] = byte;
                let mut block = Block::new(simd, &octets);
                for _ in 0..2 {
                    assert_eq!(
                        first(block.unusual_but_stars()),
                        place(unusual),
                        "{byte:#x} at {at}"
                    );
                    let ends = byte == b'\n' || byte == b'#';
                    assert_eq!(
                        first(block.any_of([b'\n', b'#'])),
                        place(ends),
                        "{byte:#x} at {at}"
                    );
                    octets[at..].fill(byte);
                    block = Block::new(simd, &octets);
                }
            }
        }
    }

    #[test]
    fn any_sees_every_place() {
        for length in 0..50 {
            let mut text = vec![b'a'; length];
            assert!(!any(&text, is_unusual), "{length}");
            for at in 0..length {
                text[at] = b'*';
                assert!(any(&text, is_unusual), "{at} of {length}");
                text[at] = b'a';
            }
        }
    }
}
