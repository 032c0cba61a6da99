//! A request's head as it was received, in either version of HTTP.

use std::borrow::Cow;

use http::header::{CONTENT_LENGTH, COOKIE, HOST, USER_AGENT};
use http::request::Parts;
use http::{HeaderValue, Method};

use super::field_pairs::{self, FieldPair, to_pairs};
use super::http1::request_override::{self, RequestOverride};
use super::http1::{BodyFraming, HeadError, MAX_FIELDS, RequestHead, is_underscore_alias};

/// The HTTP version of a message, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpVersion {
    Http10,
    Http11,
    Http2,
}

impl HttpVersion {
    /// Returns the version as `Via` spells it (RFC 9110 section 7.6.3).
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http10 => "1.0",
            Self::Http11 => "1.1",
            Self::Http2 => "2.0",
        }
    }

    /// Returns the `Via` entry of a proxy with this name for a message received in this version.
    pub fn via_entry(self, name: &str) -> String {
        [self.as_str(), " ", name].concat()
    }
}

/// The state that is assumed of a client that closed its sending side (a FIN), and may or may not still read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HalfClosePolicy {
    StillWaiting,
    Gone,
}

/// A request's head, in the form of its HTTP version.
#[derive(Debug)]
pub enum ReceivedHead {
    Http1(RequestHead),
    Http2 {
        head: Box<Parts>,
        /// For a request to a proxy, the whole URL, or the authority of a `CONNECT`.
        proxied: Option<String>,
        /// The framing, or the reason why the request is malformed.
        framing: Result<BodyFraming, &'static str>,
    },
}

impl ReceivedHead {
    /// Returns a `CONNECT` to this host and port, for a client that asked for a tunnel in another way.
    ///
    /// # Errors
    ///
    /// Returns an error if that is no authority.
    pub fn connect(authority: &str) -> Result<Self, HeadError> {
        RequestHead::connect(authority).map(Self::Http1)
    }

    /// Returns the request of a client, as a proxy would have received it: its method, the target in absolute form (for
    /// `CONNECT` the authority), `Host`, and its other fields.
    ///
    /// # Errors
    ///
    /// Returns an error if a proxy could not have received it, or would not have read it.
    pub fn of_parts<'a>(
        method_target_and_host: (&[u8], &[u8], &[u8]),
        fields: impl Iterator<Item = FieldPair<'a>>,
    ) -> Result<Self, HeadError> {
        RequestHead::of_parts(method_target_and_host, fields).map(Self::Http1)
    }

    /// Wraps the head of an HTTP/2 stream inside a tunnel, where we act as the origin. `has_body` is false if the
    /// head ended the stream.
    pub fn from_http2(head: Parts, has_body: bool) -> Self {
        Self::from_http2_stream(head, has_body, None)
    }

    /// Wraps the head of an HTTP/2 stream to us as a proxy. Its target is in `:scheme`, `:authority` and `:path` (RFC
    /// 9113 section 8.3.1).
    pub fn from_proxied_http2(head: Parts, has_body: bool) -> Self {
        let target = absolute_target(&head);
        Self::from_http2_stream(head, has_body, Some(target))
    }

    fn from_http2_stream(head: Parts, has_body: bool, proxied: Option<String>) -> Self {
        let lengths = head.headers.get_all(CONTENT_LENGTH).iter().map(HeaderValue::as_bytes);
        Self::Http2 {
            framing: BodyFraming::from_http2_request(lengths, has_body),
            proxied,
            head: Box::new(head),
        }
    }

    /// Returns the request target as received, or as HTTP/1.1 would state it; for HTTP/2 inside a tunnel the `:path`.
    pub fn target(&self) -> Cow<'_, str> {
        match self {
            Self::Http1(head) => Cow::Borrowed(head.target()),
            Self::Http2 { proxied: Some(target), .. } => Cow::Borrowed(target),
            Self::Http2 { head, .. } => match head.uri.path_and_query() {
                Some(path) => Cow::Borrowed(path.as_str()),
                None => Cow::Owned(head.uri.to_string()),
            },
        }
    }

    /// Returns HTTP/2's `:scheme`.
    pub fn scheme(&self) -> Option<&str> {
        match self {
            Self::Http1(_) => None,
            Self::Http2 { head, .. } => head.uri.scheme_str(),
        }
    }

    /// Returns `Host`, or HTTP/2's `:authority`.
    pub fn authority(&self) -> Option<&str> {
        let authority = match self {
            Self::Http1(_) => None,
            Self::Http2 { head, .. } => head.uri.authority().map(http::uri::Authority::as_str),
        };
        authority.or_else(|| str::from_utf8(self.field("host")?).ok())
    }

    pub fn method(&self) -> &str {
        match self {
            Self::Http1(head) => head.method(),
            Self::Http2 { head, .. } => head.method.as_str(),
        }
    }

    pub fn version(&self) -> HttpVersion {
        match self {
            Self::Http1(head) if head.is_http_1_0() => HttpVersion::Http10,
            Self::Http1(_) => HttpVersion::Http11,
            Self::Http2 { .. } => HttpVersion::Http2,
        }
    }

    /// Returns the value of the first field with this name, which is in lower case.
    pub fn field(&self, name: &'static str) -> Option<&[u8]> {
        match self {
            Self::Http1(head) => head.fields().values(name).next(),
            Self::Http2 { head, .. } => head.headers.get(name).map(HeaderValue::as_bytes),
        }
    }

    /// Returns the values of all fields with this name, which is in lower case.
    pub fn values(&self, name: &'static str) -> Vec<&[u8]> {
        match self {
            Self::Http1(head) => head.fields().values(name).collect(),
            Self::Http2 { head, .. } => {
                head.headers.get_all(name).iter().map(HeaderValue::as_bytes).collect()
            }
        }
    }

    /// Returns the name and value of every field.
    pub fn fields(&self) -> Vec<FieldPair<'_>> {
        match self {
            Self::Http1(head) => head.fields().iter().collect(),
            Self::Http2 { head, .. } => to_pairs(&head.headers),
        }
    }

    /// Returns the fields that make servers use another host, path or method than the request itself states.
    pub fn overrides(&self) -> Vec<(RequestOverride, &[u8])> {
        match self {
            Self::Http1(head) => head.fields().iter().filter_map(as_override).collect(),
            Self::Http2 { head, .. } => head
                .headers
                .iter()
                .map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
                .filter_map(as_override)
                .collect(),
        }
    }

    /// Returns how many more recipients the request may have, if its method limits that (RFC 9110 section 7.6.2).
    pub fn max_forwards(&self) -> Option<u64> {
        if !matches!(self.method(), "OPTIONS" | "TRACE") {
            return None;
        }
        // The smallest of several fields applies, so that no reader forwards further than another.
        self.fields()
            .into_iter()
            .filter(|(field, _)| field_pairs::is_named(field, "max-forwards"))
            .filter_map(|(_, value)| str::from_utf8(value).ok()?.parse().ok())
            .min()
    }

    /// Returns how the end of the body is marked on a connection where it has to be.
    pub fn framing(&self) -> BodyFraming {
        match self {
            Self::Http1(head) => head.framing(),
            // A request with malformed framing is refused, so nothing of it is forwarded.
            Self::Http2 { framing, .. } => framing.unwrap_or(BodyFraming::Length(0)),
        }
    }

    /// Returns whether the request reads and does nothing else: a GET or HEAD without content that does not upgrade.
    pub fn is_plain_read(&self) -> bool {
        matches!(self.method(), "GET" | "HEAD")
            && self.framing() == BodyFraming::Length(0)
            && !self
                .field("upgrade")
                .is_some_and(|upgrade| upgrade.eq_ignore_ascii_case(b"websocket"))
    }

    /// Returns the assumption about a client that closes its sending side while it waits for us. That is usually a
    /// client that timed out, and a slot kept for it would be lost to all others. A connection of HTTP/1.0 is for one request
    /// here: closing after it states only that no other follows.
    pub fn half_close_policy(&self) -> HalfClosePolicy {
        match self {
            Self::Http1(head) if head.is_http_1_0() => HalfClosePolicy::StillWaiting,
            _ => HalfClosePolicy::Gone,
        }
    }

    /// Returns whether the body arrives only after a 100 (RFC 9110 section 10.1.1).
    pub fn expects_continue(&self) -> bool {
        self.field("expect").is_some() && self.version() == HttpVersion::Http11
    }

    /// Checks for heads that h2 accepts although two readers could read them differently. HTTP/1 heads were checked when
    /// they were read.
    ///
    /// # Errors
    ///
    /// Returns the reason why the head is malformed.
    pub fn validate(&self) -> Result<(), HeadError> {
        let Self::Http2 { head, framing, .. } = self else {
            return Ok(());
        };
        // HTTP/2 clients may send each cookie as a field of its own (RFC 9113 section 8.2.3).
        let cookies = head.headers.get_all(COOKIE).iter().count();
        if head.headers.len() - cookies.saturating_sub(1) > MAX_FIELDS {
            return Err(HeadError::TooLarge("more than 1,000 fields"));
        }
        framing.map_err(HeadError::from)?;
        // h2 keeps Host beside `:authority` (RFC 9113 section 8.3.1), and an HTTP/1 origin would see either.
        let mut hosts = head.headers.get_all(HOST).iter();
        let host = hosts.next();
        let second = hosts.next();
        if second.is_some() {
            return Err("more than one Host".into());
        }
        // RFC 9113 section 8.3.1 requires them to be equal; servers differ in which one they use.
        if let (Some(host), Some(authority)) = (host, head.uri.authority())
            && !host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes())
        {
            return Err("Host and :authority differ".into());
        }
        if head.headers.get_all(USER_AGENT).iter().count() > 1 {
            return Err("more than one User-Agent".into());
        }
        if head.headers.keys().any(|name| is_underscore_alias(name.as_ref())) {
            return Err("a field name has \"_\" where servers may read \"-\"".into());
        }
        Ok(())
    }
}

fn as_override<'a>((name, value): FieldPair<'a>) -> Option<(RequestOverride, &'a [u8])> {
    request_override::from_field_name(name).map(|found| (found, value))
}

/// Returns the target of a request to a proxy. Without `:authority` it has no destination.
fn absolute_target(head: &Parts) -> String {
    let uri = &head.uri;
    let authority = uri.authority().map_or("", http::uri::Authority::as_str);
    match (uri.scheme_str(), uri.path_and_query()) {
        // A `CONNECT`; h2 accepts no other request without a scheme.
        (None, None) => authority.to_owned(),
        (None, Some(path)) => path.to_string(),
        (Some(scheme), Some(path)) if path.as_str().starts_with('/') => {
            format!("{scheme}://{authority}{path}")
        }
        // The server as a whole (RFC 9112 section 3.2.4).
        (Some(scheme), Some(path)) if path == "*" && head.method == Method::OPTIONS => {
            format!("{scheme}://{authority}")
        }
        (Some(_), path) => path.map_or_else(String::new, ToString::to_string),
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;

    #[tokio::test]
    async fn only_http_1_0_waits_after_it_closed_its_side() {
        for (head, policy) in [
            ("GET http://a.test/ HTTP/1.0\r\n\r\n", HalfClosePolicy::StillWaiting),
            (
                "GET http://a.test/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
                HalfClosePolicy::StillWaiting,
            ),
            ("GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", HalfClosePolicy::Gone),
            (
                "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n",
                HalfClosePolicy::Gone,
            ),
        ] {
            let read = RequestHead::read(&mut head.as_bytes(), &mut BytesMut::new()).await;
            let received = ReceivedHead::Http1(read.expect("a head"));
            assert_eq!(received.half_close_policy(), policy, "{head}");
        }
    }
}
