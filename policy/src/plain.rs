//! Plain bytes: those that every form writes alike and no pattern or line takes for anything else.

use fearless_simd::Simd;

use crate::blocks;
use crate::forms::{Octet, classify};

/// What matters of a byte to those who read paths and lines.
pub(crate) static TRAITS: [u8; 256] = {
    let mut traits = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        traits[byte] = traits_of(byte as u8);
        byte += 1;
    }
    traits
};

/// Has more than one spelling, means something to patterns, or ends the value of a line.
const NOT_PLAIN: u8 = 1;
/// May stand in the name of a directive: letters, digits, `-`, `_` and white space.
pub(crate) const IN_NAME: u8 = 2;

const fn traits_of(byte: u8) -> u8 {
    let is_special = matches!(byte, b'*' | b'$' | b'#') || matches!(classify(byte), Octet::Other);
    let in_name =
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b' ' | b'\t' | 0x0B | 0x0C);
    (NOT_PLAIN * is_special as u8) | (IN_NAME * in_name as u8)
}

/// The traits of all bytes of a text.
#[inline]
fn traits(text: &[u8]) -> u8 {
    text.iter()
        .fold(0, |traits, &byte| traits | TRAITS[usize::from(byte)])
}

/// Whether a path is spelt the same in every form and holds no special byte.
///
/// Every decision asks this about its path, so whole blocks are judged; what is not usual goes through the table.
#[inline]
pub(crate) fn all_plain(text: &[u8]) -> bool {
    !blocks::any(text, blocks::is_unusual) || traits(text) & NOT_PLAIN == 0
}

/// Whether a byte stands for itself in every form.
#[inline]
pub(crate) fn is_plain(byte: u8) -> bool {
    TRAITS[usize::from(byte)] & NOT_PLAIN == 0
}

/// How many bytes a text begins with that stand for themselves in every form.
#[inline(always)]
pub(crate) fn plain_start<S: Simd>(simd: S, text: &[u8]) -> usize {
    first_unusual(simd, text, |byte| !is_plain(byte))
}

/// Whether a value is plain but for `*`, and `$` at its end.
#[inline(always)]
pub(crate) fn is_wild<S: Simd>(simd: S, value: &[u8]) -> bool {
    let end = first_unusual(simd, value, |byte| byte != b'*' && !is_plain(byte));
    matches!(value[end..], [] | [b'$'])
}

/// Where the first byte is that is not usual, and that `is` says so of: what is not usual may be plain still.
#[inline(always)]
fn first_unusual<S: Simd>(simd: S, text: &[u8], is: impl Fn(u8) -> bool) -> usize {
    blocks::first_where(
        simd,
        text,
        #[inline(always)]
        |block| block.unusual_but_stars() | block.any_of([b'*']),
        is,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_octets_are_the_same_by_table_and_by_comparison() {
        for byte in 0..=u8::MAX {
            assert!(blocks::is_unusual(byte) == 1 || is_plain(byte), "{byte:#x}");
            assert_eq!(all_plain(&[byte; 40]), is_plain(byte), "{byte:#x}");
            assert_eq!(all_plain(&[byte; 3]), is_plain(byte), "{byte:#x}");
            let mut last = [b'a'; 21];
            last[20] = byte;
            assert_eq!(all_plain(&last), is_plain(byte), "{byte:#x}");
        }
    }
}
