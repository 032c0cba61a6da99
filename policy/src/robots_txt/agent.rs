//! Whether a user-agent line means a crawler.

use super::line::is_space;
use crate::{Dialect, ProductToken};

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

/// Whether the line means every crawler not named elsewhere.
pub(crate) fn is_everyone(value: &[u8], dialect: Dialect) -> bool {
    match value {
        b"*" => true,
        [b'*', next, ..] => dialect == Dialect::Google && is_space(*next),
        _ => false,
    }
}

/// How well a line names the crawler: `None` if it does not, else the more the better.
pub(crate) fn rank(value: &[u8], token: &ProductToken, dialect: Dialect) -> Option<usize> {
    let name = token.folded();
    if is_everyone(value, dialect) {
        return None;
    }
    match dialect {
        Dialect::Google => google(value).eq_ignore_ascii_case(name).then_some(1),
        _ if name.is_empty() || name == b"*" => None,
        Dialect::Rfc9309 | Dialect::Strictest => names(value, name).then_some(1),
        Dialect::Koster1996 => contains(value, without_version(name)).then_some(1),
        Dialect::Selfhtml => {
            let value = without_version(value);
            let start = name.get(..value.len());
            let is_prefix = start.is_some_and(|start| start.eq_ignore_ascii_case(value));
            (is_prefix && !value.is_empty()).then_some(value.len())
        }
    }
}

/// RFC 9309 §2.2.1, stretched to names its grammar cannot spell: all of the value, or what
/// stands before an octet that no name holds.
fn names(value: &[u8], name: &[u8]) -> bool {
    let Some((start, rest)) = value.split_at_checked(name.len()) else {
        return false;
    };
    let ends = rest
        .first()
        .is_none_or(|&byte| !(is_letter(byte) || byte.is_ascii_digit()));
    ends && start.eq_ignore_ascii_case(name)
}

/// What Google's parser keeps of a value: it stops at the first octet outside `[A-Za-z_-]`.
fn google(value: &[u8]) -> &[u8] {
    let end = value.iter().position(|&byte| !is_letter(byte));
    &value[..end.unwrap_or(value.len())]
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-')
}

fn contains(value: &[u8], name: &[u8]) -> bool {
    let is_name = |window: &[u8]| window.eq_ignore_ascii_case(name);
    !name.is_empty() && value.windows(name.len()).any(is_name)
}

fn without_version(name: &[u8]) -> &[u8] {
    let end = name.iter().position(|&byte| byte == b'/');
    name[..end.unwrap_or(name.len())].trim_ascii_end()
}
