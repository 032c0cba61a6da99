//! Plain bytes: those that every form writes alike and that have no meaning in patterns or lines. The
//! [usual](super::usual) bytes are some of them, which are faster to check.

use crate::percent_encoding::usual::all_usual;
use crate::percent_encoding::{OctetClass, classify};

/// The classes of bytes: plain ones, `*`, `$`, and all others.
pub(crate) const PLAIN: u8 = 0;
pub(crate) const STAR: u8 = 1;
pub(crate) const DOLLAR: u8 = 2;
pub(crate) const OTHER: u8 = 4;

/// Returns the class of a byte. Those of several bytes are combined by `|`.
#[inline]
pub(crate) fn class(byte: u8) -> u8 {
    static CLASSES: [u8; 256] = {
        let mut classes = [PLAIN; 256];
        let mut byte = 0;
        while byte < 256 {
            classes[byte] = match byte as u8 {
                b'*' => STAR,
                b'$' => DOLLAR,
                b'#' => OTHER,
                byte if matches!(classify(byte), OctetClass::Other) => OTHER,
                _ => PLAIN,
            };
            byte += 1;
        }
        classes
    };
    CLASSES[usize::from(byte)]
}

/// Returns the classes of a text's bytes.
pub(crate) fn classes(text: &[u8]) -> u8 {
    const CHUNK: usize = 8;
    let of_bytes = |bytes: &[u8]| bytes.iter().fold(PLAIN, |all, &byte| all | class(byte));
    // The last chunk overlaps the one before, so that no bytes are left over: they cost more than they count.
    let Some(last) = text.last_chunk::<CHUNK>() else {
        return of_bytes(text);
    };
    let chunks = text.as_chunks::<CHUNK>().0.iter();
    chunks.fold(of_bytes(last), |all, chunk| all | of_bytes(chunk))
}

/// Returns whether a byte is plain.
#[inline]
pub(crate) fn is_plain(byte: u8) -> bool {
    class(byte) == PLAIN
}

/// Returns whether a text consists of plain bytes only.
///
/// Every decision calls this, so whole blocks of usual bytes are checked first and only the rest goes through the
/// table.
#[inline]
pub(crate) fn all_plain(text: &[u8]) -> bool {
    all_usual(text) || text.iter().all(|&byte| is_plain(byte))
}

/// Returns the number of plain bytes at the start of a text.
pub(crate) fn plain_prefix_len(text: &[u8]) -> usize {
    if all_usual(text) {
        // True of most rules.
        return text.len();
    }
    let end = text.iter().position(|&byte| !is_plain(byte));
    end.unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_bytes_are_the_same_one_by_one_and_in_blocks() {
        for byte in 0..=u8::MAX {
            for length in [1, 3, 8, 13, 16, 21, 40] {
                for at in 0..length {
                    let mut text = vec![b'a'; length];
                    text[at] = byte;
                    assert_eq!(all_plain(&text), is_plain(byte), "{byte:#x} at {at}");
                    let end = if is_plain(byte) { length } else { at };
                    assert_eq!(plain_prefix_len(&text), end, "{byte:#x} at {at}");
                    assert_eq!(classes(&text), class(byte), "{byte:#x} at {at}");
                }
            }
        }
    }
}
