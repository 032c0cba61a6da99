//! Plain bytes: those that every form writes alike and that have no meaning in patterns or lines. The
//! [usual](super::usual) bytes are some of them, which are faster to check.

use crate::percent_encoding::usual::all_usual;
use crate::percent_encoding::{OctetClass, classify};

/// Returns whether a byte is plain.
#[inline]
pub(crate) fn is_plain(byte: u8) -> bool {
    static PLAIN: [bool; 256] = {
        let mut plain = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            let is_syntax = matches!(byte as u8, b'*' | b'$' | b'#');
            plain[byte] = !is_syntax && !matches!(classify(byte as u8), OctetClass::Other);
            byte += 1;
        }
        plain
    };
    PLAIN[usize::from(byte)]
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
                }
            }
        }
    }
}
