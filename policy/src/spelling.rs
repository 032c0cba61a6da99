//! The spellings one path can have.
//!
//! RFC 3986 §6.2.2 names two rewritings that leave a URI the same: percent-encoding in one form,
//! and dot segments removed. Dialects compare paths in one of the forms below; the proxy judges
//! all of them.

use std::borrow::Cow;

use crate::blocks;

/// What an octet of a path is to RFC 3986.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Octet {
    /// Means the same with and without percent-encoding (§2.3).
    Unreserved,
    /// Means itself raw, and something else percent-encoded (§2.2).
    Reserved,
    /// May only stand percent-encoded.
    Other,
}

const fn classify(byte: u8) -> Octet {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => Octet::Unreserved,
        b':' | b'/' | b'?' | b'#' | b'[' | b']' | b'@' => Octet::Reserved,
        b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' => {
            Octet::Reserved
        }
        _ => Octet::Other,
    }
}

/// What matters of an octet to those who read paths and lines.
pub(crate) static TRAITS: [u8; 256] = {
    let mut traits = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        traits[byte] = traits_of(byte as u8);
        byte += 1;
    }
    traits
};

pub(crate) const STAR: u8 = 1;
const DOLLAR: u8 = 2;
/// May only stand percent-encoded, or starts an escape.
const UNUSUAL: u8 = 4;
pub(crate) const NUL: u8 = 8;
/// Ends the value of a line: a line end, or `#`.
pub(crate) const ENDS_VALUE: u8 = 16;
/// May stand in the name of a directive: letters, digits, `-`, `_` and white space.
pub(crate) const IN_NAME: u8 = 32;
/// An octet with none of these is spelt the same in every form.
pub(crate) const NOT_PLAIN: u8 = STAR | DOLLAR | UNUSUAL | NUL | ENDS_VALUE;

const fn traits_of(byte: u8) -> u8 {
    let special = match byte {
        b'*' => STAR,
        b'$' => DOLLAR,
        0 => NUL | UNUSUAL,
        b'\n' | b'\r' | b'#' => ENDS_VALUE,
        _ if matches!(classify(byte), Octet::Other) => UNUSUAL,
        _ => 0,
    };
    let in_name =
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b' ' | b'\t' | 0x0B | 0x0C);
    if in_name { special | IN_NAME } else { special }
}

/// The traits of all octets of a text.
#[inline]
pub(crate) fn traits(text: &[u8]) -> u8 {
    text.iter()
        .fold(0, |traits, &byte| traits | TRAITS[usize::from(byte)])
}

/// Whether a path is spelt the same in every form and holds no special octet.
///
/// Every decision asks this about its path, so whole blocks are judged; what is not usual goes through the table.
#[inline]
pub(crate) fn all_plain(text: &[u8]) -> bool {
    !blocks::any(text, blocks::is_unusual) || traits(text) & NOT_PLAIN == 0
}

/// Whether an octet stands for itself in every form.
#[inline]
pub(crate) fn is_plain(byte: u8) -> bool {
    TRAITS[usize::from(byte)] & NOT_PLAIN == 0
}

/// Whether a value with these traits is plain but for `*`, and `$` at its end.
pub(crate) fn is_wild(value: &[u8], traits: u8) -> bool {
    let body = &value[..value.len().saturating_sub(1)];
    traits & (NOT_PLAIN & !STAR & !DOLLAR) == 0
        && (traits & DOLLAR == 0 || memchr::memchr(b'$', body).is_none())
}

/// The value of the two hexadecimal digits `text` starts with.
pub(crate) fn hex_pair(text: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (&high, &low) = (text.first()?, text.get(1)?);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

/// Splits off the first octet, escaped or not: (value, was it escaped, the rest).
fn split_octet(text: &[u8]) -> Option<(u8, bool, &[u8])> {
    let (&byte, rest) = text.split_first()?;
    if byte == b'%'
        && let Some(value) = hex_pair(rest)
    {
        return Some((value, true, &rest[2..]));
    }
    Some((byte, false, rest))
}

fn push_escape(text: &mut Vec<u8>, value: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |nibble: u8| DIGITS[usize::from(nibble)];
    text.extend([b'%', digit(value >> 4), digit(value & 15)]);
}

/// Appends `text` in the one form of RFC 9309 §2.2.2: unreserved octets raw, escapes in upper
/// case, everything that may not stand raw escaped, a `%` that escapes nothing too.
pub(crate) fn push_normalised(form: &mut Vec<u8>, text: &[u8]) {
    push_form(form, text, |_| false, |_| false);
}

/// Appends `text` with `*` and `$` escaped besides: the form in which literal octets compare, so
/// that `%2A` and `%24` in a pattern mean the octet (RFC 9309 §2.2.3).
pub(crate) fn push_literal(form: &mut Vec<u8>, text: &[u8]) {
    push_form(form, text, is_special, |_| false);
}

/// Appends the part of a pattern that is followed by a star or by whatever may follow: as
/// [`push_literal`], but an escape begun at its end, such as `%` or `%2`, stays, for it means the
/// escapes that begin so.
pub(crate) fn push_open_literal(form: &mut Vec<u8>, text: &[u8]) {
    push_form(form, text, is_special, is_begun_escape);
}

/// Appends the same part as [`push_normalised`] would, but for an escape begun at its end: the
/// form that counts for how specific a pattern is.
pub(crate) fn push_open_normalised(form: &mut Vec<u8>, text: &[u8]) {
    push_form(form, text, |_| false, is_begun_escape);
}

/// Whether what follows a lone `%` leaves it the start of an escape.
fn is_begun_escape(rest: &[u8]) -> bool {
    rest.len() < 2 && rest.iter().all(u8::is_ascii_hexdigit)
}

fn is_special(byte: u8) -> bool {
    matches!(byte, b'*' | b'$')
}

/// Appends `text` as [`push_normalised`] does; `escapes_too` names more octets to escape, and
/// `is_begun` says by what follows a lone `%` whether it stays.
fn push_form(
    form: &mut Vec<u8>,
    mut text: &[u8],
    escapes_too: fn(u8) -> bool,
    is_begun: fn(&[u8]) -> bool,
) {
    while let Some((value, escaped, rest)) = split_octet(text) {
        let raw = match classify(value) {
            Octet::Unreserved => true,
            Octet::Reserved => !escaped && !escapes_too(value),
            Octet::Other => !escaped && value == b'%' && is_begun(rest),
        };
        if raw {
            form.push(value);
        } else {
            push_escape(form, value);
        }
        text = rest;
    }
}

/// Appends `text` as Google's parser rewrites patterns: escapes in upper case, octets outside
/// ASCII escaped, nothing else.
pub(crate) fn push_google(form: &mut Vec<u8>, mut text: &[u8]) {
    while let Some((value, escaped, rest)) = split_octet(text) {
        if escaped || value >= 0x80 {
            push_escape(form, value);
        } else {
            form.push(value);
        }
        text = rest;
    }
}

/// Appends `text` as the draft of 1996 compares it: every escape decoded but `%2F`.
pub(crate) fn push_decoded(form: &mut Vec<u8>, mut text: &[u8]) {
    while let Some((value, escaped, rest)) = split_octet(text) {
        if escaped && value == b'/' {
            form.extend(b"%2F");
        } else {
            form.push(value);
        }
        text = rest;
    }
}

/// The path in the one percent-encoding of RFC 9309; borrowed if it is so spelt already.
pub(crate) fn normalised(path: &str) -> Cow<'_, str> {
    let stays = |byte| is_plain(byte) || matches!(byte, b'*' | b'$');
    if all_plain(path.as_bytes()) || path.bytes().all(stays) {
        return Cow::Borrowed(path);
    }
    let mut form = Vec::with_capacity(path.len() + 16);
    push_normalised(&mut form, path.as_bytes());
    let form = String::from_utf8(form).expect("the normal form is ASCII");
    if form == path {
        Cow::Borrowed(path)
    } else {
        Cow::Owned(form)
    }
}

/// Whether `/.` stands anywhere, the query included: few paths have it, and all are asked.
fn begins_a_segment_with_a_dot(path: &[u8]) -> bool {
    let Some(rest) = path.get(1..) else {
        return false;
    };
    let pairs = path.iter().zip(rest);
    pairs.fold(0, |found, (&slash, &dot)| {
        found | u8::from((slash == b'/') & (dot == b'.'))
    }) != 0
}

/// The path without dot segments (RFC 3986 §5.2.4), its query untouched; borrowed if it has none.
pub(crate) fn without_dot_segments(path: &str) -> Cow<'_, str> {
    if !begins_a_segment_with_a_dot(path.as_bytes()) {
        return Cow::Borrowed(path);
    }
    let end = path.find('?').unwrap_or(path.len());
    let (segments, query) = path.split_at(end);
    let is_dots = |segment: &str| matches!(segment, "." | "..");
    if !segments.split('/').any(is_dots) {
        return Cow::Borrowed(path);
    }
    let mut kept: Vec<&str> = Vec::new();
    let mut last = "";
    for segment in segments.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => {
                kept.pop();
            }
            _ => kept.push(segment),
        }
        last = segment;
    }
    let mut form = String::with_capacity(path.len());
    for segment in &kept {
        form.push('/');
        form.push_str(segment);
    }
    if is_dots(last) || kept.is_empty() {
        form.push('/');
    }
    form.push_str(query);
    Cow::Owned(form)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn form(push: fn(&mut Vec<u8>, &[u8]), text: &str) -> String {
        let mut form = Vec::new();
        push(&mut form, text.as_bytes());
        String::from_utf8(form).unwrap()
    }

    #[test]
    fn plain_octets_are_the_same_by_table_and_by_comparison() {
        for byte in 0..=u8::MAX {
            assert!(blocks::is_unusual(byte) == 1 || is_plain(byte), "{byte:#x}");
            assert_eq!(all_plain(&[byte; 40]), is_plain(byte), "{byte:#x}");
            assert_eq!(all_plain(&[byte; 3]), is_plain(byte), "{byte:#x}");
            let mut last = [b'a'; 21];
            last[20] = byte;
            assert_eq!(all_plain(&last), is_plain(byte), "{byte:#x}");
        }
    }

    #[test]
    fn the_normal_form_decodes_unreserved_octets_only() {
        for (text, expected) in [
            ("/%7ejoe/%41%2d%2E%5F", "/~joe/A-._"),
            ("/a%2fb%3f%2A", "/a%2Fb%3F%2A"),
            ("/\u{30C4} <|>\"", "/%E3%83%84%20%3C%7C%3E%22"),
            ("/a*b$c?d=e&f[g]", "/a*b$c?d=e&f[g]"),
            ("/100%/%zz/%4", "/100%25/%25zz/%254"),
            ("/%%341", "/%2541"),
            ("/%4%31", "/%2541"),
            ("/%25%34%31", "/%2541"),
        ] {
            assert_eq!(form(push_normalised, text), expected, "{text}");
        }
        assert_eq!(form(push_literal, "/a*b%2Ac$%24"), "/a%2Ab%2Ac%24%24");
        assert_eq!(form(push_open_literal, "/%zz%4"), "/%25zz%4");
        assert_eq!(form(push_open_literal, "/%%"), "/%25%");
        assert_eq!(form(push_decoded, "/a%2fb%2Fc%41%zz"), "/a%2Fb%2FcA%zz");
        assert_eq!(form(push_google, "/%7e%2fa\u{e9}*"), "/%7E%2Fa%C3%A9*");
    }

    #[test]
    fn dot_segments_go_as_in_rfc_3986() {
        for (path, expected) in [
            ("/a/b/c/./../../g", "/a/g"),
            ("/a/..", "/"),
            ("/..", "/"),
            ("/.", "/"),
            ("/a/.", "/a/"),
            ("/a/b/..", "/a/"),
            ("/../../a", "/a"),
            ("//a//../b", "//a/b"),
            ("/a/../?x=/../y", "/?x=/../y"),
            ("/a/b?c/../d", "/a/b?c/../d"),
            ("/...", "/..."),
            ("/.a/..b/c..", "/.a/..b/c.."),
        ] {
            assert_eq!(without_dot_segments(path), expected, "{path}");
        }
    }

    proptest! {
        #[test]
        fn normalising_twice_changes_nothing(text in "/([%0-9A-Fa-f*$~é/]|\\PC){0,20}") {
            for push in [push_normalised, push_literal, push_google] {
                let once = form(push, &text);
                prop_assert_eq!(&form(push, &once), &once);
            }
        }

        #[test]
        fn removing_dot_segments_twice_changes_nothing(path in "(/[.a]{0,3}){1,6}[?]?[./]{0,3}") {
            let once = without_dot_segments(&path).into_owned();
            prop_assert_eq!(without_dot_segments(&once), once.as_str());
        }
    }
}
