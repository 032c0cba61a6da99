//! Tags of names: one byte that tells most different names apart.

use fearless_simd::prelude::*;
use fearless_simd::{Level, dispatch, u8x16};

use crate::blocks::padded;

/// The tag of all values that start with `*`.
pub(crate) const EVERYONE: u8 = 0;

/// So many letters count.
const TAGGED: usize = 16;

/// A hash of what all ways of comparing names but substrings and prefixes agree on: the letters, `_` and `-` a name starts
/// with, in lower case. Equal names have equal tags.
pub(crate) fn tag_of_value(value: &[u8]) -> u8 {
    dispatch!(Level::new(), simd => tag(simd, value))
}

/// The same, for those who have chosen how to judge blocks.
#[inline(always)]
pub(crate) fn tag<S: Simd>(simd: S, value: &[u8]) -> u8 {
    // Any odd numbers will do whose bits are mixed well; these are xxHash's.
    const MIX: [u64; 2] = [0x9E37_79B1_85EB_CA87, 0xC2B2_AE3D_27D4_EB4F];
    if value.first() == Some(&b'*') {
        return EVERYONE;
    }
    let head: [u8; TAGGED] = value
        .first_chunk()
        .copied()
        .unwrap_or_else(|| padded(value));
    let octets = u8x16::load_array(simd, head);
    let folded = octets | 0x20;
    let letters = (folded - b'a').simd_lt(26) | octets.simd_eq(b'_') | octets.simd_eq(b'-');
    // The bit behind those of the bytes says that no more count.
    let others = !letters.to_bitmask() | (1 << TAGGED);
    let name = u128::from_le_bytes(folded.to_array());
    let name = match u128::MAX.checked_shl(8 * others.trailing_zeros()) {
        Some(behind) => name & !behind,
        None => name,
    };
    let words = [name as u64, (name >> 64) as u64];
    let hash = words[0].wrapping_mul(MIX[0]) ^ words[1].wrapping_mul(MIX[1]);
    1 + (hash >> 32).wrapping_mul(255).to_le_bytes()[4]
}

/// The bytes that RFC 9309 §2.2.1 allows in a name.
pub(crate) fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_letters_a_name_starts_with_make_its_tag() {
        let names = [
            "a",
            "Googlebot",
            "my_bot-2",
            "sixteen-letters_",
            "more-than_sixteen-letters",
        ];
        for name in names {
            let letters = name
                .find(|c: char| c.is_ascii_digit())
                .unwrap_or(name.len());
            let tag = tag_of_value(&name.as_bytes()[..letters]);
            assert_ne!(tag, EVERYONE);
            assert_eq!(
                tag,
                tag_of_value(name.to_ascii_uppercase().as_bytes()),
                "{name}"
            );
            for behind in ["/1.0", " ", "\0", "é", "1x", "*", "@", "[", "{", "`"] {
                let value = [&name[..letters], behind, "and more that does not count"].concat();
                assert_eq!(tag, tag_of_value(value.as_bytes()), "{value}");
            }
        }
        assert_eq!(tag_of_value(b"*bot"), EVERYONE);
        let tags: std::collections::HashSet<_> =
            names.map(|name| tag_of_value(name.as_bytes())).into();
        assert_eq!(tags.len(), names.len());
    }
}
