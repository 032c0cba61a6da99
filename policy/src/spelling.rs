//! The spellings one path can have.
//!
//! RFC 3986 §6.2.2 names two rewritings that leave a URI the same: percent-encoding in one form,
//! and dot segments removed. Dialects compare paths in one of the forms below; the proxy judges
//! all of them.

use std::borrow::Cow;

use fearless_simd::Simd;

use crate::blocks;
use crate::forms::{self, Octet, classify};

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

/// Has more than one spelling, means something to patterns, or ends the value of a line.
const NOT_PLAIN: u8 = 1;
/// May stand in the name of a directive: letters, digits, `-`, `_` and white space.
pub(crate) const IN_NAME: u8 = 2;

const fn traits_of(byte: u8) -> u8 {
    let is_special = matches!(byte, b'*' | b'$' | b'#') || matches!(classify(byte), Octet::Other);
    let in_name =
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b' ' | b'\t' | 0x0B | 0x0C);
    (NOT_PLAIN * is_special as u8) | (IN_NAME * in_name as u8)
}

/// The traits of all octets of a text.
#[inline]
fn traits(text: &[u8]) -> u8 {
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

/// How many octets a text begins with that stand for themselves in every form.
#[inline(always)]
pub(crate) fn plain_start<S: Simd>(simd: S, text: &[u8]) -> usize {
    first_unusual(simd, text, |byte| !is_plain(byte))
}

/// Whether a value is plain but for `*`, and `$` at its end.
#[inline(always)]
pub(crate) fn is_wild<S: Simd>(simd: S, value: &[u8]) -> bool {
    let end = first_unusual(simd, value, |byte| byte != b'*' && !is_plain(byte));
    matches!(value[end..], [] | [b'$'])
}

/// Where the first octet is that is not usual, and that `is` says so of: what is not usual may be plain still.
#[inline(always)]
fn first_unusual<S: Simd>(simd: S, text: &[u8], is: impl Fn(u8) -> bool) -> usize {
    blocks::first_where(
        simd,
        text,
        #[inline(always)]
        |block| block.unusual_but_stars() | block.any_of([b'*']),
        is,
    )
}

/// The path in the one percent-encoding of RFC 9309; borrowed if it is so spelt already.
pub(crate) fn normalised(path: &str) -> Cow<'_, str> {
    let stays = |byte| is_plain(byte) || matches!(byte, b'*' | b'$');
    if all_plain(path.as_bytes()) || path.bytes().all(stays) {
        return Cow::Borrowed(path);
    }
    let mut form = Vec::new();
    forms::NORMALISED.push(&mut form, path.as_bytes());
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
        fn removing_dot_segments_twice_changes_nothing(path in "(/[.a]{0,3}){1,6}[?]?[./]{0,3}") {
            let once = without_dot_segments(&path).into_owned();
            prop_assert_eq!(without_dot_segments(&once), once.as_str());
        }
    }
}
