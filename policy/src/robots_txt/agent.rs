//! Whether a user-agent line means a crawler.

use crate::{Dialect, ProductToken};

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
    match dialect {
        Dialect::Google => google(value).eq_ignore_ascii_case(name).then_some(1),
        _ if name.is_empty() || name == b"*" => None,
        Dialect::Rfc9309 | Dialect::Strictest => names(value, name).then_some(1),
        Dialect::Koster1996 => contains(value, without_version(name)).then_some(1),
        Dialect::Selfhtml => {
            let value = without_version(value);
            let is_prefix = !value.is_empty()
                && name
                    .get(..value.len())
                    .is_some_and(|start| start.eq_ignore_ascii_case(value));
            is_prefix.then_some(value.len())
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
        .is_none_or(|&b| !(b.is_ascii_alphanumeric() || b"_-".contains(&b)));
    ends && start.eq_ignore_ascii_case(name)
}

/// What Google's parser keeps of a value: it stops at the first octet outside `[A-Za-z_-]`.
fn google(value: &[u8]) -> &[u8] {
    let end = value
        .iter()
        .position(|b| !(b.is_ascii_alphabetic() || b"_-".contains(b)));
    &value[..end.unwrap_or(value.len())]
}

fn contains(value: &[u8], name: &[u8]) -> bool {
    !name.is_empty()
        && value
            .windows(name.len())
            .any(|window| window.eq_ignore_ascii_case(name))
}

fn without_version(name: &[u8]) -> &[u8] {
    let end = name.iter().position(|&byte| byte == b'/');
    name[..end.unwrap_or(name.len())].trim_ascii_end()
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0B
}
