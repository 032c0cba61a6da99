//! Tags of names: one octet that tells most different names apart.

/// The tag of all values that start with `*`.
pub(crate) const EVERYONE: u8 = 0;

/// A hash of what all ways of comparing names but substrings and prefixes agree on: the letters,
/// `_` and `-` a name starts with, in lower case. Equal names have equal tags.
pub(crate) fn tag_of_value(value: &[u8]) -> u8 {
    if value.first() == Some(&b'*') {
        return EVERYONE;
    }
    let letters = value.iter().take_while(|&&byte| is_letter(byte));
    let hash = letters.fold(0x811C_9DC5_u32, |hash, byte| {
        (hash ^ u32::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0193)
    });
    u8::try_from(hash % 255).map_or(1, |hash| hash + 1)
}

/// The octets that RFC 9309 §2.2.1 allows in a name.
pub(crate) fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-')
}
