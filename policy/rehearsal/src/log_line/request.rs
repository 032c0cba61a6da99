//! A request, and the line with which it begins.

use std::borrow::Cow;

/// A request of a log, as far as robots.txt and its weight are concerned.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LoggedRequest<'a> {
    /// The path and query, or the URL.
    pub(crate) target: Cow<'a, [u8]>,
    pub(crate) user_agent: Cow<'a, [u8]>,
    /// Empty if there is none.
    pub(crate) referer: Cow<'a, [u8]>,
    /// The type of the response; empty if the log does not have it.
    pub(crate) content_type: Cow<'a, [u8]>,
    /// The bytes of the response.
    pub(crate) bytes: u64,
}

/// Returns the target of a request line, such as `GET /page HTTP/1.1`. One of HTTP/0.9 has no version.
pub(super) fn target_of(request_line: &[u8]) -> Option<&[u8]> {
    let (method, rest) = split_once(request_line, b' ')?;
    let is_method = !method.is_empty() && method.iter().all(u8::is_ascii_alphabetic);
    // Strangers may send spaces within the target.
    let target = match rest.iter().rposition(|byte| *byte == b' ') {
        Some(at) if rest[at + 1..].starts_with(b"HTTP/") => &rest[..at],
        _ => rest,
    };
    (is_method && !target.is_empty()).then_some(target)
}

pub(super) fn split_once(text: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(separator, text)?;
    Some((&text[..at], &text[at + 1..]))
}
