//! Excerpts of text that others wrote.

use std::borrow::Cow;

/// The most bytes of a text that are shown, including the ellipsis. Some rules, names and statements fill a whole file.
const MAX_BYTES: usize = 200;
const ELLIPSIS: char = '\u{2026}';

/// Returns a text, or the beginning of a long one with an ellipsis: at most 200 bytes. An excerpt of an excerpt is
/// unchanged.
#[must_use]
pub fn excerpt(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_BYTES {
        return Cow::Borrowed(text);
    }
    // `str::floor_char_boundary` needs Rust 1.91.
    let mut end = MAX_BYTES - ELLIPSIS.len_utf8();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    Cow::Owned(format!("{}{ELLIPSIS}", &text[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let whole = "a".repeat(200);
        assert_eq!(excerpt(&whole), whole);
        let long = "a".repeat(201);
        assert_eq!(excerpt(&long), format!("{}\u{2026}", "a".repeat(197)));
        let wide = format!("a{}", "\u{e9}".repeat(100));
        let cut = excerpt(&wide);
        assert_eq!(cut, format!("a{}\u{2026}", "\u{e9}".repeat(98)));
        assert_eq!(excerpt(&cut), cut);
    }
}
