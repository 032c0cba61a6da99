//! Plain bytes: those that every form writes alike and no pattern or line takes for anything else.

use crate::percent_encoding::usual::all_usual;
use crate::percent_encoding::{Octet, classify};

/// Whether a byte stands for itself in every form, means nothing to patterns, and does not end the value of a line.
#[inline]
pub(crate) fn is_plain(byte: u8) -> bool {
    static PLAIN: [bool; 256] = {
        let mut plain = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            let is_special = matches!(byte as u8, b'*' | b'$' | b'#');
            plain[byte] = !is_special && !matches!(classify(byte as u8), Octet::Other);
            byte += 1;
        }
        plain
    };
    PLAIN[usize::from(byte)]
}

/// Whether a path is spelt the same in every form and holds no special byte.
///
/// Every decision asks this about its path, so whole blocks are judged first; what is not usual goes
/// through the table.
#[inline]
pub(crate) fn all_plain(text: &[u8]) -> bool {
    all_usual(text) || text.iter().all(|&byte| is_plain(byte))
}

/// How many bytes a text begins with that stand for themselves in every form.
pub(crate) fn plain_start(text: &[u8]) -> usize {
    if all_usual(text) {
        return text.len();
    }
    let special = text.iter().position(|&byte| !is_plain(byte));
    special.unwrap_or(text.len())
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
                    assert_eq!(plain_start(&text), end, "{byte:#x} at {at}");
                }
            }
        }
    }
}
