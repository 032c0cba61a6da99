//! Makes text from strangers safe to show. Control characters move a terminal's cursor or end a line of a log early; format
//! characters (Unicode category Cf) reorder or hide text. All of them are written as escapes.

use std::borrow::Cow;

/// Returns `text` on one line, with control and format characters escaped as `\n` or `\u{202e}`. Tabs are kept.
pub fn escape_controls(text: &str) -> Cow<'_, str> {
    escape_with(text, |c| c == '\t', |c, escaped| escaped.extend(c.escape_default()))
}

/// Escapes text of several lines like a single one, but keeps the line ends.
pub fn escape_lines(text: &str) -> String {
    text.split_inclusive('\n')
        .map(|line| match line.strip_suffix('\n') {
            // CRLF is a line end, too. Any other CR is escaped: it would let text overwrite the line before it.
            Some(line) => escape_controls(line.strip_suffix('\r').unwrap_or(line)) + "\n",
            None => escape_controls(line),
        })
        .collect()
}

/// Escapes JSON without changing its meaning: such characters occur only in strings, where `\u` escapes are equivalent.
pub fn escape_json(json: Vec<u8>) -> Vec<u8> {
    if is_plain(&json) {
        return json;
    }
    let text = match str::from_utf8(&json) {
        // Between tokens these are whitespace; inside strings the serialiser has escaped them already.
        Ok(text) => escape_with(text, |c| matches!(c, '\t' | '\n' | '\r'), push_json_escape),
        // JSON is UTF-8 (RFC 8259 section 8.1): this is not JSON, and there is nothing to keep equivalent.
        Err(_) => return json,
    };
    match text {
        Cow::Borrowed(_) => json,
        Cow::Owned(text) => text.into_bytes(),
    }
}

/// Escapes text for the content of an HTML element, or for the value of an attribute between double quotes.
pub fn escape_html(text: &str) -> String {
    // The ampersand comes first, or those of the other entities would be escaped again.
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn push_json_escape(c: char, text: &mut String) {
    // JSON escapes characters above U+FFFF as surrogate pairs (RFC 8259 section 7).
    for unit in c.encode_utf16(&mut [0; 2]) {
        text.push_str(&format!("\\u{unit:04x}"));
    }
}

fn escape_with(
    text: &str,
    is_kept: fn(char) -> bool,
    push_escape: fn(char, &mut String),
) -> Cow<'_, str> {
    if is_plain(text.as_bytes()) {
        return Cow::Borrowed(text);
    }
    let is_harmful = |c: char| is_control_or_format(c) && !is_kept(c);
    // Text in other scripts is common, too, and needs no copy either.
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_harmful(c) {
            push_escape(c, &mut escaped);
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// Returns whether text is printable ASCII, as nearly all of it is.
pub(super) fn is_plain(text: &[u8]) -> bool {
    // Without an early exit, so that the compiler vectorises the loop: it is faster than one that stops at the first other byte.
    text.iter().fold(true, |all, byte| all & matches!(byte, b' '..=b'~'))
}

/// Returns whether `c` is in one of Unicode's categories Cc, Cf, Zl and Zp, as of version 17.
fn is_control_or_format(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}'
            | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2064}'
            | '\u{2066}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0001}'
            | '\u{e0020}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One character of each kind: C0, DEL, C1, bidirectional overrides and isolates, separators, zero width, tags.
    const HARMFUL: &str = "\u{1b}\u{7f}\u{85}\u{9b}\u{202a}\u{202e}\u{2066}\u{2069}\u{200f}\u{61c}\u{2028}\u{2029}\u{200b}\u{feff}\u{e0041}";

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(
            escape_controls("a\u{9b}31m\u{202e}b\u{2028}c\nd\re\tf\u{1b}[2J"),
            "a\\u{9b}31m\\u{202e}b\\u{2028}c\\nd\\re\tf\\u{1b}[2J"
        );
        for c in HARMFUL.chars() {
            assert!(escape_controls(&c.to_string()).starts_with('\\'), "{c:?}");
        }
    }

    #[test]
    fn readable_text_is_not_escaped() {
        for text in
            ["/a?b=c", "b\u{fc}cher", "\u{5d0}\u{5d1}", "e\u{301}", "\u{1f577}", "\\u{202e}"]
        {
            assert!(matches!(escape_controls(text), Cow::Borrowed(_)), "{text:?}");
        }
    }

    #[test]
    fn line_ends_are_kept() {
        assert_eq!(escape_lines("a\r\nb\u{85}\rc\n\n"), "a\nb\\u{85}\\rc\n\n");
        assert_eq!(escape_lines("no end"), "no end");
    }

    #[test]
    fn escaped_json_is_equivalent() {
        let value = serde_json::json!({ "url": HARMFUL, "\u{202e}": ["\u{e9}", "\\u202e"] });
        for json in [serde_json::to_vec(&value), serde_json::to_vec_pretty(&value)] {
            let safe = escape_json(json.unwrap());
            let text = str::from_utf8(&safe).unwrap();
            assert!(text.chars().all(|c| c == '\n' || !is_control_or_format(c)), "{text}");
            assert_eq!(serde_json::from_slice::<serde_json::Value>(&safe).unwrap(), value);
        }
    }
}
