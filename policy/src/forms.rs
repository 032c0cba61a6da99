//! Forms: the percent-encodings in which paths and rules are compared, byte by byte and by table.
//!
//! To write rules in a form is most of what some files cost to judge, so nothing is asked of a byte that a table does
//! not say at once.

use crate::blocks::{BLOCK, usual_start};

/// What a byte of a path is to RFC 3986.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Octet {
    /// Means the same with and without percent-encoding (§2.3).
    Unreserved,
    /// Means itself raw, and something else percent-encoded (§2.2).
    Reserved,
    /// May only stand percent-encoded.
    Other,
}

pub(crate) const fn classify(byte: u8) -> Octet {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => Octet::Unreserved,
        b':' | b'/' | b'?' | b'#' | b'[' | b']' | b'@' => Octet::Reserved,
        b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' => {
            Octet::Reserved
        }
        _ => Octet::Other,
    }
}

/// A way of writing bytes down.
#[derive(Debug)]
pub(crate) struct Form {
    raw: [Written; 256],
    escaped: [Written; 256],
    /// Whether what begins an escape may stay where whatever follows may follow.
    leaves_begun: bool,
}

/// The one form of RFC 9309 §2.2.2: unreserved bytes raw, escapes in upper case, everything that may not stand raw
/// escaped, a `%` that escapes nothing too.
pub(crate) static NORMALISED: Form = Form::new(Kind::Normalised);

/// The same with `*` and `$` escaped besides: the form in which literal bytes compare, so that `%2A` and `%24` in a
/// pattern mean the byte (RFC 9309 §2.2.3).
pub(crate) static LITERAL: Form = Form::new(Kind::Literal);

/// As Google's parser rewrites patterns: escapes in upper case, bytes outside ASCII escaped, nothing else.
pub(crate) static GOOGLE: Form = Form::new(Kind::Google);

/// As the draft of 1996 compares: every escape decoded but `%2F`.
pub(crate) static DECODED: Form = Form::new(Kind::Decoded);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normalised,
    Literal,
    Google,
    Decoded,
}

/// Up to three bytes, then how many they are.
type Written = [u8; 4];

/// No form writes more bytes for one.
pub(crate) const MAX_WRITTEN: usize = 3;

impl Form {
    const fn new(kind: Kind) -> Self {
        let (mut raw, mut escaped) = ([[0; 4]; 256], [[0; 4]; 256]);
        let mut byte = 0;
        while byte < 256 {
            raw[byte] = written(kind, byte as u8, false);
            escaped[byte] = written(kind, byte as u8, true);
            byte += 1;
        }
        Self {
            raw,
            escaped,
            leaves_begun: matches!(kind, Kind::Normalised | Kind::Literal),
        }
    }

    /// Appends `text` in this form. Says whether it holds a `%` that escapes nothing.
    pub(crate) fn push(&self, form: &mut Vec<u8>, text: &[u8]) -> bool {
        self.write::<false>(form, text, false, |_| {})
    }

    /// Appends the literal bytes of a pattern, and tells of each star how many bytes were written before it.
    ///
    /// In a part that a star follows, or at an open end whatever may follow, an escape begun at the end, such as `%` or
    /// `%2`, stays: it means the escapes that begin so.
    #[inline]
    pub(crate) fn push_pattern(
        &self,
        form: &mut Vec<u8>,
        text: &[u8],
        is_open: bool,
        star: impl FnMut(usize),
    ) {
        self.write::<true>(form, text, is_open, star);
    }

    #[inline]
    fn write<const STARS: bool>(
        &self,
        form: &mut Vec<u8>,
        text: &[u8],
        is_open: bool,
        mut star: impl FnMut(usize),
    ) -> bool {
        let start = form.len();
        // Four bytes are written for each, and those that are not its own overwritten.
        form.resize(start + MAX_WRITTEN * text.len() + 1, 0);
        let (mut at, mut rest, mut has_lone_percent) = (start, text, false);
        while let Some((&byte, after)) = rest.split_first() {
            if byte != b'%' && rest.len() >= BLOCK {
                // Most of a long path stands for itself.
                let (usual, others) = rest.split_at(usual_start(rest));
                form[at..at + usual.len()].copy_from_slice(usual);
                at += usual.len();
                rest = others;
                if !usual.is_empty() {
                    continue;
                }
            }
            rest = after;
            let mut written = self.raw[usize::from(byte)];
            if STARS && byte == b'*' {
                star(at - start);
                continue;
            }
            if byte == b'%' {
                if let Some(value) = hex_pair(after) {
                    written = self.escaped[usize::from(value)];
                    rest = &after[2..];
                } else {
                    has_lone_percent = true;
                    if STARS && self.leaves_begun && is_begun_escape(after, is_open) {
                        written = [b'%', 0, 0, 1];
                    }
                }
            }
            form[at..at + written.len()].copy_from_slice(&written);
            at += usize::from(written[MAX_WRITTEN]);
        }
        form.truncate(at);
        has_lone_percent
    }

    /// Whether a path in this form could begin as what a pattern does up to its first star, if stars mean something in
    /// it, or to the first `%` that may begin an escape: sooner told than written.
    pub(crate) fn may_begin(&self, path: &[u8], pattern: &[u8], has_stars: bool) -> bool {
        let (mut path, mut rest) = (path, pattern);
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            let mut written = &self.raw[usize::from(byte)];
            if has_stars && byte == b'*' {
                return true;
            }
            if byte == b'%' {
                if let Some(value) = hex_pair(after) {
                    written = &self.escaped[usize::from(value)];
                    rest = &after[2..];
                } else if self.leaves_begun {
                    return path.first() == Some(&b'%');
                }
            }
            let [octets @ .., length] = written;
            let Some(after) = path.strip_prefix(&octets[..usize::from(*length)]) else {
                return false;
            };
            path = after;
        }
        true
    }
}

/// A text in [`LITERAL`], but with the `%` of each cut escape, one that has only one of its two digits, as it is.
pub(crate) fn literal_with_cut_escapes(text: &[u8]) -> Vec<u8> {
    let is_cut = |at: &usize| match &text[at + 1..] {
        // A second digit that is escaped itself would read as the end of this escape.
        [digit, b'%', after @ ..] => {
            digit.is_ascii_hexdigit() && !hex_pair(after).is_some_and(|it| it.is_ascii_hexdigit())
        }
        [digit, after, ..] => digit.is_ascii_hexdigit() && !after.is_ascii_hexdigit(),
        [digit] => digit.is_ascii_hexdigit(),
        [] => false,
    };
    let (mut form, mut start) = (Vec::new(), 0);
    for cut in memchr::memchr_iter(b'%', text).filter(is_cut) {
        LITERAL.push(&mut form, &text[start..cut]);
        form.push(b'%');
        start = cut + 1;
    }
    LITERAL.push(&mut form, &text[start..]);
    form
}

/// Whether a text holds a `%` that escapes nothing.
pub(crate) fn has_lone_percent(text: &[u8]) -> bool {
    memchr::memchr_iter(b'%', text).any(|at| hex_pair(&text[at + 1..]).is_none())
}

/// Whether what follows a lone `%` in a pattern leaves it the start of an escape.
fn is_begun_escape(rest: &[u8], is_open: bool) -> bool {
    let ends = |rest: &[u8]| rest.first().map_or(is_open, |&byte| byte == b'*');
    match rest {
        [digit, after @ ..] if digit.is_ascii_hexdigit() => ends(after),
        _ => ends(rest),
    }
}

const fn written(kind: Kind, value: u8, escaped: bool) -> Written {
    let raw = match kind {
        Kind::Google => !escaped && value < 0x80,
        Kind::Decoded => !escaped || value != b'/',
        Kind::Normalised | Kind::Literal => match classify(value) {
            Octet::Unreserved => true,
            Octet::Reserved => {
                let is_special = matches!(value, b'*' | b'$') && matches!(kind, Kind::Literal);
                !(escaped || is_special)
            }
            Octet::Other => false,
        },
    };
    if raw {
        return [value, 0, 0, 1];
    }
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let (high, low) = ((value >> 4) as usize, (value & 15) as usize);
    [b'%', DIGITS[high], DIGITS[low], 3]
}

/// The value of the two hexadecimal digits `text` starts with.
#[inline]
pub(crate) fn hex_pair(text: &[u8]) -> Option<u8> {
    const NONE: u8 = u8::MAX;
    static VALUES: [u8; 256] = {
        let mut values = [NONE; 256];
        let mut value = 0;
        while value < 16 {
            values[b"0123456789abcdef"[value] as usize] = value as u8;
            values[b"0123456789ABCDEF"[value] as usize] = value as u8;
            value += 1;
        }
        values
    };
    let [high, low, ..] = *text else { return None };
    let (high, low) = (VALUES[usize::from(high)], VALUES[usize::from(low)]);
    (high | low < NONE).then_some(high << 4 | low)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text<T>(push: impl FnOnce(&mut Vec<u8>) -> T) -> String {
        let mut form = b"kept".to_vec();
        push(&mut form);
        String::from_utf8(form.split_off(4)).unwrap()
    }

    #[test]
    fn each_form_writes_octets_its_way() {
        for (value, expected) in [
            ("/%7ejoe/%41%2d%2E%5F", "/~joe/A-._"),
            ("/a%2fb%3f%2A", "/a%2Fb%3F%2A"),
            ("/\u{30C4} <|>\"", "/%E3%83%84%20%3C%7C%3E%22"),
            ("/a*b$c?d=e&f[g]", "/a*b$c?d=e&f[g]"),
            ("/100%/%zz/%4", "/100%25/%25zz/%254"),
            ("/%%341", "/%2541"),
            ("/%4%31", "/%2541"),
            ("/%25%34%31", "/%2541"),
        ] {
            let normalised = text(|form| NORMALISED.push(form, value.as_bytes()));
            assert_eq!(normalised, expected, "{value}");
        }
        let literal = text(|form| LITERAL.push(form, b"/a*b%2Ac$%24"));
        assert_eq!(literal, "/a%2Ab%2Ac%24%24");
        assert_eq!(
            text(|form| DECODED.push(form, b"/a%2fb%2Fc%41%zz")),
            "/a%2Fb%2FcA%zz"
        );
        let google = text(|form| GOOGLE.push(form, "/%7e%2fa\u{e9}*%".as_bytes()));
        assert_eq!(google, "/%7E%2Fa%C3%A9*%");
    }

    #[test]
    fn an_escape_begun_at_an_open_end_or_before_a_star_stays() {
        for (value, open, closed) in [
            ("/%zz%4", "/%25zz%4", "/%25zz%254"),
            ("/%%", "/%25%", "/%25%25"),
            ("/%41%", "/A%", "/A%25"),
            ("/%g", "/%25g", "/%25g"),
            ("%", "%", "%25"),
            ("%%4", "%25%4", "%25%254"),
            ("%4*%41*%*%g*%4", "%4A%%25g%4", "%4A%%25g%254"),
        ] {
            for (is_open, expected) in [(true, open), (false, closed)] {
                let push = |form: &mut Vec<u8>| {
                    LITERAL.push_pattern(form, value.as_bytes(), is_open, |_| {});
                };
                assert_eq!(text(push), expected, "{value}");
            }
        }
        let push = |form: &mut Vec<u8>| {
            DECODED.push_pattern(form, b"/%4", true, |_| {});
        };
        assert_eq!(text(push), "/%4");
    }

    #[test]
    fn stars_are_told_of_and_not_written() {
        let mut stars = Vec::new();
        let mut form = b"kept".to_vec();
        let value = "/*\u{e9}**%7e*";
        LITERAL.push_pattern(&mut form, value.as_bytes(), true, |star| stars.push(star));
        assert_eq!(stars, [1, 7, 7, 8]);
        assert_eq!(form, b"kept/%C3%A9~");
    }

    #[test]
    fn what_escapes_nothing_is_told_of() {
        for (text, expected) in [
            ("/a%20", false),
            ("/a%", true),
            ("/%2", true),
            ("/%zz%20", true),
            ("/%%20", true),
            ("/%25", false),
        ] {
            let text = text.as_bytes();
            assert_eq!(LITERAL.push(&mut Vec::new(), text), expected);
            assert_eq!(has_lone_percent(text), expected);
        }
    }

    #[test]
    fn a_path_may_begin_as_what_is_written_of_a_pattern() {
        let values = ["/%7eA%2f", "/\u{e9}%4", "/a$%", "/a*b", "/%g", "", "/%zz"];
        for form in [&LITERAL, &GOOGLE, &DECODED] {
            for value in values.map(str::as_bytes) {
                let part = value.split(|&byte| byte == b'*').next().unwrap();
                let mut path = Vec::new();
                form.push_pattern(&mut path, part, true, |_| {});
                assert!(form.may_begin(&path, value, true), "{form:?} {value:?}");
                path.extend(b"25/more");
                assert!(form.may_begin(&path, value, true), "{form:?} {value:?}");
                assert!(value.is_empty() || !form.may_begin(b"x", value, true));
            }
        }
        assert!(!LITERAL.may_begin(b"/~B", b"/%7eA*", true));
        assert!(DECODED.may_begin(b"/a*bc", b"/%61*b", false));
        assert!(!DECODED.may_begin(b"/abc", b"/%61*b", false));
    }

    proptest! {
        #[test]
        fn writing_twice_changes_nothing(value in "/([%0-9A-Fa-f*$~é/]|\\PC){0,20}") {
            for form in [&NORMALISED, &LITERAL, &GOOGLE] {
                let once = text(|out| form.push(out, value.as_bytes()));
                prop_assert_eq!(&text(|out| form.push(out, once.as_bytes())), &once);
            }
        }
    }
}
