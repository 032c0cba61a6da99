//! User-agent lines, and whether one names a crawler.

use super::super::parse::line::is_space;
use crate::name_tag::is_token_byte;
use crate::{Dialect, ProductToken};

/// A user-agent line of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserAgentLine {
    /// The index of its statement in the file.
    pub(crate) statement: u32,
}

/// Returns whether the line names every crawler that is not named elsewhere.
pub(crate) fn is_wildcard(value: &[u8], dialect: Dialect) -> bool {
    match value {
        b"*" => true,
        [b'*', next, ..] => dialect == Dialect::Google && is_space(*next),
        _ => false,
    }
}

/// Returns how well a line names the crawler, greater being better; `None` if it does not.
pub(crate) fn match_rank(value: &[u8], token: &ProductToken, dialect: Dialect) -> Option<usize> {
    let name = token.lowercase();
    // Only the group for everyone applies to a crawler without a name. Google's parser, which does not require a name,
    // would give that crawler a value that it cuts to nothing, such as `1bot`.
    if is_wildcard(value, dialect) || name.is_empty() {
        return None;
    }
    match dialect {
        Dialect::Google => google_token(value).eq_ignore_ascii_case(name).then_some(1),
        // On a line `*` means everyone, never a crawler of that name.
        _ if name == b"*" => None,
        Dialect::Rfc9309 | Dialect::Strictest => starts_with_name(value, name).then_some(1),
        Dialect::Koster1996 => contains_name(value, without_version(name)).then_some(1),
        Dialect::Selfhtml => {
            // Nearly all lines of a long file name others, which their first byte tells sooner.
            if !value.first()?.eq_ignore_ascii_case(name.first()?) {
                return None;
            }
            // SELFHTML: the longest matching prefix of the crawler's name wins.
            let value = without_version(value);
            let is_prefix =
                name.get(..value.len()).is_some_and(|start| start.eq_ignore_ascii_case(value));
            // An empty value is a prefix of every name, and means nobody.
            (is_prefix && !value.is_empty()).then_some(value.len())
        }
    }
}

/// Returns whether a value is a name or starts with it before a byte that no name contains: RFC 9309 §2.2.1, extended
/// to names that its grammar cannot spell.
fn starts_with_name(value: &[u8], name: &[u8]) -> bool {
    let Some((start, rest)) = value.split_at_checked(name.len()) else {
        return false;
    };
    let ends = rest.first().is_none_or(|&byte| !(is_token_byte(byte) || byte.is_ascii_digit()));
    ends && start.eq_ignore_ascii_case(name)
}

/// Returns the part of a value that Google's parser keeps: it stops at the first byte outside `[A-Za-z_-]`.
fn google_token(value: &[u8]) -> &[u8] {
    let end = value.iter().position(|&byte| !is_token_byte(byte));
    &value[..end.unwrap_or(value.len())]
}

/// Returns whether a value contains a name, given in lower case.
fn contains_name(value: &[u8], name: &[u8]) -> bool {
    // In a longer value, a linear-time search is cheaper than trying every position.
    const SHORT_VALUE_BYTES: usize = 128;
    let Some(first) = name.first() else {
        return false;
    };
    if value.len() > SHORT_VALUE_BYTES {
        return memchr::memmem::find(&value.to_ascii_lowercase(), name).is_some();
    }
    let is_name =
        |window: &[u8]| window[0].eq_ignore_ascii_case(first) && window.eq_ignore_ascii_case(name);
    value.windows(name.len()).any(is_name)
}

fn without_version(name: &[u8]) -> &[u8] {
    let end = name.iter().position(|&byte| byte == b'/');
    name[..end.unwrap_or(name.len())].trim_ascii_end()
}
