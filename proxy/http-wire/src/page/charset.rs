//! Decodes the bytes of a page to text, whatever its charset (HTML, 13.2.3.2).

use std::borrow::Cow;

use encoding_rs::{Encoding, REPLACEMENT, UTF_8, UTF_16BE, UTF_16LE};
use memchr::memmem;

/// The number of bytes in which a page's own declaration is looked for, as in browsers.
const DECLARED_WITHIN: usize = 1024;

/// Returns the text of a page with this `Content-Type`.
pub(super) fn text<'b>(bytes: &'b [u8], content_type: &str) -> Cow<'b, str> {
    // A mark at the beginning goes before everything else.
    encoding(bytes, content_type).decode(bytes).0
}

fn encoding(bytes: &[u8], content_type: &str) -> &'static Encoding {
    if let Some(wide) = decode_utf16(bytes) {
        return wide;
    }
    let declared = declared(content_type.as_bytes()).or_else(|| {
        let beginning = &bytes[..bytes.len().min(DECLARED_WITHIN)];
        declared(beginning)
    });
    // The bytes are not those of UTF-16, and of the replacement nothing could be read at all. Markup is ASCII in all others, so
    // that a wrong one does not hide it.
    let is_readable = |it: &&Encoding| ![UTF_16LE, UTF_16BE, REPLACEMENT].contains(it);
    declared.filter(is_readable).unwrap_or(UTF_8)
}

/// Detects UTF-16 by the first element, whatever is declared: the other byte of its `<` is 0.
fn decode_utf16(bytes: &[u8]) -> Option<&'static Encoding> {
    let at = memchr::memchr(b'<', bytes)?;
    let is_zero = |at: Option<usize>| at.and_then(|at| bytes.get(at)) == Some(&0);
    match at % 2 {
        0 if is_zero(at.checked_add(1)) => Some(UTF_16LE),
        1 if is_zero(at.checked_sub(1)) => Some(UTF_16BE),
        _ => None,
    }
}

/// Returns the encoding after the first `charset=`, in a `Content-Type` or a `meta` element, or after `encoding=` in an XML
/// declaration.
fn declared(text: &[u8]) -> Option<&'static Encoding> {
    let text = text.to_ascii_lowercase();
    let labels = ["charset", "encoding"].iter().flat_map(|name| {
        let at = memmem::find_iter(&text, name.as_bytes());
        at.filter_map(|at| label(&text[at + name.len()..]))
    });
    labels.filter_map(Encoding::for_label).next()
}

/// Returns the value after `=`, quoted or not.
fn label(text: &[u8]) -> Option<&[u8]> {
    let value = text.trim_ascii_start().strip_prefix(b"=")?;
    let value = value.trim_ascii_start();
    let value = value.strip_prefix(b"\"").or(value.strip_prefix(b"'")).unwrap_or(value);
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b"\"';>?".contains(byte);
    Some(&value[..value.iter().position(ends).unwrap_or(value.len())])
}
