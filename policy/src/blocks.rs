//! Blocks of octets, judged as a whole: loops of a form that the compiler turns into vectors.

/// So many octets are scanned at once.
pub(crate) const SCANNED: usize = 32;

/// Whether `is` says anything but zero of an octet of a text. Texts are short and mostly without, so the
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

/// Whether an octet is not among those that most paths are made of; all of those are plain.
#[inline]
pub(crate) const fn is_unusual(byte: u8) -> u8 {
    let outside = byte.wrapping_sub(b'&') > b'z' - b'&';
    let angle_backslash_or_caret = byte & 0x9D == 0x1C;
    (outside | angle_backslash_or_caret | (byte == b'*') | (byte == b'`')) as u8
}

/// How many octets a block starts with that are not unusual, stars perhaps counted among them. Takes the same steps
/// whatever the number is: where a loop over octets ends, the processor would guess wrongly for nearly every value.
#[inline]
pub(crate) fn usual_octets<const STARS: bool>(block: &[u8; SCANNED]) -> usize {
    let weighed = weigh_unusual::<STARS>(block);
    let (groups, _) = weighed.as_chunks::<8>();
    let unusual = groups.iter().rev().fold(0, |bits, group| {
        let weight: u32 = group.iter().map(|&weight| u32::from(weight)).sum();
        bits << 8 | weight
    });
    unusual.trailing_zeros() as usize
}

/// One bit for each unusual octet, another for each octet of eight. A call of its own, since the compiler makes vectors
/// of this only where it does not see what becomes of it.
#[inline(never)]
fn weigh_unusual<const STARS: bool>(block: &[u8; SCANNED]) -> [u8; SCANNED] {
    const WEIGHTS: [u8; SCANNED] = {
        let mut weights = [0; SCANNED];
        let mut index = 0;
        while index < SCANNED {
            weights[index] = 1 << (index % 8);
            index += 1;
        }
        weights
    };
    let mut weighed = WEIGHTS;
    for (weight, &byte) in weighed.iter_mut().zip(block) {
        let usual = is_unusual(byte) == 0 || STARS && byte == b'*';
        *weight = if usual { 0 } else { *weight };
    }
    weighed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_octets_are_counted_to_the_first_that_is_not() {
        let counts =
            |block: &[u8; SCANNED]| [usual_octets::<false>(block), usual_octets::<true>(block)];
        for at in 0..SCANNED {
            for byte in 0..=u8::MAX {
                let end = if is_unusual(byte) == 0 { SCANNED } else { at };
                let expected = [end, if byte == b'*' { SCANNED } else { end }];
                let mut block = [b'a'; SCANNED];
                block[at] = byte;
                assert_eq!(counts(&block), expected, "{byte:#x} at {at}");
                block[at..].fill(byte);
                assert_eq!(counts(&block), expected, "{byte:#x} from {at}");
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
