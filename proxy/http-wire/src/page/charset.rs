//! Decodes the bytes of a page to text, whatever its charset (HTML, 13.2.3.2).

use std::borrow::Cow;

use encoding_rs::{Encoding, REPLACEMENT, UTF_8, UTF_16BE, UTF_16LE};
use memchr::memmem;

/// The number of bytes in which a page's own declaration is looked for, as in browsers.
const DECLARED_WITHIN: usize = 1024;

/// Returns the text of a page with this `Content-Type`.
pub(super) fn text<'b>(bytes: &'b [u8], content_type: &str) -> Cow<'b, str> {
    // `decode` gives a byte order mark precedence, as browsers do.
    encoding(bytes, content_type).decode(bytes).0
}

fn encoding(bytes: &[u8], content_type: &str) -> &'static Encoding {
    if let Some(wide) = decode_utf16(bytes) {
        return wide;
    }
    let declared = declared(content_type.as_bytes())
        .or_else(|| declared(&bytes[..bytes.len().min(DECLARED_WITHIN)]));
    // The bytes are not UTF-16, and the replacement encoding decodes to nothing. In all others markup is ASCII, so a wrong one
    // does not hide it.
    declared
        .filter(|encoding| ![UTF_16LE, UTF_16BE, REPLACEMENT].contains(encoding))
        .unwrap_or(UTF_8)
}

/// Detects UTF-16 by the first element, regardless of declarations: the other byte of its `<` is 0.
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
    let lower_case = text.to_ascii_lowercase();
    let labels = ["charset", "encoding"].iter().flat_map(|name| {
        memmem::find_iter(&lower_case, name.as_bytes())
            .filter_map(|at| label(&lower_case[at + name.len()..]))
    });
    labels.filter_map(Encoding::for_label).next()
}

/// Returns the value after `=`, quoted or not.
fn label(text: &[u8]) -> Option<&[u8]> {
    let value = match text.trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start() {
        [b'"' | b'\'', unquoted @ ..] => unquoted,
        unquoted => unquoted,
    };
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b"\"';>?".contains(byte);
    Some(&value[..value.iter().position(ends).unwrap_or(value.len())])
}
