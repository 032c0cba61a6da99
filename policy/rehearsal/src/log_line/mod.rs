//! One line of an access log as a request.

mod combined;
mod json;

use std::borrow::Cow;

/// The longest line that is read. Servers refuse heads of requests that are longer than a fraction of this.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// The format of an access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// The "combined" format of Apache httpd and nginx; fields before the address and after the User-Agent are skipped.
    Combined,
    /// A JSON object a line, with the names that servers and networks give its members.
    Json,
}

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

impl LogFormat {
    /// Parses a line; without a format, a line that begins with a brace is JSON.
    ///
    /// # Errors
    ///
    /// Says what the line lacks.
    pub(crate) fn parse(
        format: Option<Self>,
        line: &[u8],
    ) -> Result<LoggedRequest<'_>, &'static str> {
        if line.len() > MAX_LINE_BYTES {
            return Err("longer than 64 KiB");
        }
        let is_json = line.trim_ascii_start().starts_with(b"{");
        match format.unwrap_or(if is_json { Self::Json } else { Self::Combined }) {
            Self::Combined => combined::parse(line),
            Self::Json => json::parse(line),
        }
    }
}

/// Returns the target of a request line, such as `GET /page HTTP/1.1`. One of HTTP/0.9 has no version.
fn target_of(request_line: &[u8]) -> Option<&[u8]> {
    let (method, rest) = split_once(request_line, b' ')?;
    let is_method = !method.is_empty() && method.iter().all(u8::is_ascii_alphabetic);
    // Strangers may send spaces within the target.
    let target = match rest.iter().rposition(|byte| *byte == b' ') {
        Some(at) if rest[at + 1..].starts_with(b"HTTP/") => &rest[..at],
        _ => rest,
    };
    (is_method && !target.is_empty()).then_some(target)
}

fn split_once(text: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(separator, text)?;
    Some((&text[..at], &text[at + 1..]))
}
