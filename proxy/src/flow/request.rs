//! A request as far as deciding needs it, whichever HTTP version brought it.

use http::header::{HOST, HeaderValue, USER_AGENT, VIA};
use pingora_http::RequestHeader;

use super::fields;

/// A request as far as deciding needs it, whichever HTTP version brought it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    /// The request target as received; for HTTP/2 the `:path`.
    pub(crate) target: &'a str,
    /// HTTP/2's `:scheme`.
    pub(crate) scheme: Option<&'a str>,
    /// `Host`, or HTTP/2's `:authority`.
    pub(crate) authority: Option<&'a str>,
    pub(crate) user_agent: &'a [u8],
    /// `Via` names this proxy: the request goes round in a loop.
    pub(crate) is_loop: bool,
}

impl<'a> Request<'a> {
    /// Takes an HTTP/2 request; `name` is the proxy's pseudonym.
    pub(super) fn from_http2(header: &'a RequestHeader, name: &str) -> Self {
        let host = header.headers.get(HOST).and_then(|host| host.to_str().ok());
        let authority = header.uri.authority().map(http::uri::Authority::as_str);
        let via = header
            .headers
            .get_all(VIA)
            .iter()
            .map(HeaderValue::as_bytes);
        Self {
            method: header.method.as_str(),
            // What is not text names no target and is refused as such.
            target: str::from_utf8(header.raw_path()).unwrap_or_default(),
            scheme: header.uri.scheme_str(),
            authority: authority.or(host),
            user_agent: header
                .headers
                .get(USER_AGENT)
                .map_or(b"", HeaderValue::as_bytes),
            is_loop: fields::passed_by(via, name),
        }
    }
}
