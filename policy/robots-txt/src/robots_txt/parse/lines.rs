//! The lines of robots.txt.

use memchr::{memchr2, memchr3};

/// A line without its line end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    pub(crate) text: &'a [u8],
    /// The text before a comment, if there is one, else all of it.
    pub(crate) before_comment: &'a [u8],
}

/// Splits a robots.txt into lines that end in CR, LF or both, numbered from 1 like
/// [`AccessDecision::line`](crate::AccessDecision::line).
pub fn numbered_lines(body: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    (1..).zip(lines(body).map(|line| line.text))
}

/// Splits a file into lines.
pub(crate) fn lines(body: &[u8]) -> impl Iterator<Item = Line<'_>> {
    let mut rest = body;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        // Most lines have no comment, so that one search finds their end and that.
        let comment = memchr3(b'#', b'\n', b'\r', rest).unwrap_or(rest.len());
        let (before_comment, from_comment) = rest.split_at(comment);
        let end = match from_comment {
            [b'#', ..] => memchr2(b'\n', b'\r', from_comment).unwrap_or(from_comment.len()),
            _ => 0,
        };
        let line = Line { text: &rest[..comment + end], before_comment };
        rest = match &from_comment[end..] {
            // CRLF is one line end.
            [b'\r', b'\n', after @ ..] | [_, after @ ..] => after,
            [] => &[],
        };
        Some(line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_in_any_way_and_hold_one_comment() {
        let body = b"a#b#c\r\n#\r\rd\n\n e # f\x85\0";
        let found: Vec<_> = lines(body).map(|line| (line.text, line.before_comment)).collect();
        let expected: [(&[u8], &[u8]); 6] = [
            (b"a#b#c", b"a"),
            (b"#", b""),
            (b"", b""),
            (b"d", b"d"),
            (b"", b""),
            (b" e # f\x85\0", b" e "),
        ];
        assert_eq!(found, expected);
        assert_eq!(lines(b"a\n").count(), 1);
        assert_eq!(lines(b"").count(), 0);
    }
}
