//! Usual bytes: those that most paths consist of, which every form leaves as they are. They are checked a block at a
//! time, in a loop that the compiler vectorises.

/// The number of bytes checked at once.
pub(crate) const BLOCK: usize = 16;
const HALF: usize = 8;

/// Returns whether a text consists of usual bytes only.
#[inline]
pub(crate) fn all_usual(text: &[u8]) -> bool {
    if let Some(last) = text.last_chunk::<BLOCK>() {
        are_usual(text.as_chunks().0, last)
    } else if let Some(last) = text.last_chunk::<HALF>() {
        are_usual(text.as_chunks().0, last)
    } else {
        !text.iter().any(|&byte| is_unusual(byte))
    }
}

/// Returns whether all blocks are usual. Most texts are a few blocks long, so the last block overlaps the one before.
#[inline]
fn are_usual<const BYTES: usize>(blocks: &[[u8; BYTES]], last: &[u8; BYTES]) -> bool {
    is_usual(last) && blocks.iter().all(is_usual)
}

/// Returns the number of usual bytes at the start of a text.
pub(crate) fn usual_prefix_len(text: &[u8]) -> usize {
    let blocks = text.as_chunks::<BLOCK>().0.iter();
    let start = BLOCK * blocks.take_while(|block| is_usual(block)).count();
    let unusual = text[start..].iter().position(|&byte| is_unusual(byte));
    unusual.map_or(text.len(), |at| start + at)
}

#[inline]
fn is_usual<const BYTES: usize>(block: &[u8; BYTES]) -> bool {
    // `any` would stop at the first one, which keeps the compiler from vectorising.
    !block.iter().fold(false, |found, &byte| found | is_unusual(byte))
}

/// Returns whether a byte is not usual; all usual bytes are plain.
#[inline]
const fn is_unusual(byte: u8) -> bool {
    // Comparisons that vector units have, instead of a table.
    let outside = byte.wrapping_sub(b'&') > b'z' - b'&';
    let angle_backslash_or_caret = byte & 0x9D == 0x1C;
    outside | angle_backslash_or_caret | (byte == b'*') | (byte == b'`')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unusual_byte_is_seen_wherever_it_stands() {
        for byte in 0..=u8::MAX {
            for length in [1, 3, 8, 13, 16, 21, 40] {
                for at in 0..length {
                    let mut text = vec![b'a'; length];
                    text[at] = byte;
                    let is_seen = is_unusual(byte);
                    assert_eq!(all_usual(&text), !is_seen, "{byte:#x} at {at} of {length}");
                    let end = if is_unusual(byte) { at } else { length };
                    assert_eq!(usual_prefix_len(&text), end, "{byte:#x} at {at} of {length}");
                }
            }
        }
    }
}
