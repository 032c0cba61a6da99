//! One-byte tags of names, which differ for most different names.

/// The tag of all values that start with `*`.
pub(crate) const WILDCARD: u8 = 0;

/// Returns a byte computed from the leading letters, `_` and `-` of a name in lower case: the part on which all ways of
/// comparing whole names agree. Equal names have equal tags; substrings and prefixes need not.
pub(crate) fn tag(value: &[u8]) -> u8 {
    // FNV-1a: short, and names that differ in a letter get very different tags.
    const START: u32 = 0x811C_9DC5;
    const MIX: u32 = 0x0100_0193;
    if value.first() == Some(&b'*') {
        return WILDCARD;
    }
    let letters = value.iter().take_while(|byte| is_token_byte(**byte));
    let hash = letters
        .fold(START, |hash, byte| (hash ^ u32::from(byte.to_ascii_lowercase())).wrapping_mul(MIX));
    ((hash >> 24) as u8).max(WILDCARD + 1)
}

/// Returns whether RFC 9309 §2.2.1 allows a byte in a product token.
pub(crate) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_letters_a_name_starts_with_make_its_tag() {
        let names = ["a", "Googlebot", "my_bot-2", "sixteen-letters_", "more-than_sixteen-letters"];
        for name in names {
            let letters = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
            let of_name = tag(&name.as_bytes()[..letters]);
            assert_ne!(of_name, WILDCARD);
            assert_eq!(of_name, tag(name.to_ascii_uppercase().as_bytes()), "{name}");
            for after in ["/1.0", " ", "\0", "é", "1x", "*", "@", "[", "{", "`"] {
                let value = [&name[..letters], after, "and more that does not count"].concat();
                assert_eq!(of_name, tag(value.as_bytes()), "{value}");
            }
        }
        assert_eq!(tag(b"*bot"), WILDCARD);
        let tags: std::collections::HashSet<_> = names.map(|name| tag(name.as_bytes())).into();
        assert_eq!(tags.len(), names.len());
    }
}
