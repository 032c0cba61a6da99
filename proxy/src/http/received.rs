//! A request's head as it was received, whichever HTTP version brought it.

use std::borrow::Cow;

use http::header::{CONTENT_LENGTH, HOST, USER_AGENT};
use http::request::Parts;
use http::{HeaderValue, Method};

use super::field_pairs::{self, Pair, pairs};
use super::http1::overrides::{self, Override};
use super::http1::{Framing, HeadError, MAX_FIELDS, RequestHead, is_taken_for_another};

/// The HTTP version of a message, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Http10,
    Http11,
    Http2,
}

impl Version {
    /// As `Via` spells it (RFC 9110 section 7.6.3).
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Http10 => "1.0",
            Self::Http11 => "1.1",
            Self::Http2 => "2.0",
        }
    }

    /// What `Via` says of a proxy of this name that got a message in this version.
    pub(crate) fn via(self, name: &str) -> String {
        [self.as_str(), " ", name].concat()
    }
}

/// What a client is taken for that ended its side of the connection (a FIN), and may still read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HalfClosed {
    IsThere,
    IsGone,
}

/// A request's head, in the form of its HTTP version.
#[derive(Debug)]
pub(crate) enum Received {
    Http1(RequestHead),
    Http2 {
        head: Box<Parts>,
        /// Of a request to a proxy: the whole URL, or the authority of a `CONNECT`.
        proxied: Option<String>,
        /// Or what speaks against the request.
        framing: Result<Framing, &'static str>,
    },
}

impl Received {
    /// Of an HTTP/2 stream with an origin; `has_body`: the head did not end it.
    pub(crate) fn http2(head: Parts, has_body: bool) -> Self {
        Self::of_stream(head, has_body, None)
    }

    /// Of an HTTP/2 stream with a proxy. `:scheme`, `:authority` and `:path` are its target (RFC 9113 section 8.3.1).
    pub(crate) fn proxied_http2(head: Parts, has_body: bool) -> Self {
        let target = proxied(&head);
        Self::of_stream(head, has_body, Some(target))
    }

    fn of_stream(head: Parts, has_body: bool, proxied: Option<String>) -> Self {
        let lengths = head.headers.get_all(CONTENT_LENGTH).iter();
        let lengths = lengths.map(HeaderValue::as_bytes);
        Self::Http2 {
            framing: Framing::of_http2_request(lengths, has_body),
            proxied,
            head: Box::new(head),
        }
    }

    /// The request target as received, or as HTTP/1.1 would have it; of HTTP/2 inside a tunnel the `:path`.
    pub(crate) fn target(&self) -> Cow<'_, str> {
        match self {
            Self::Http1(head) => Cow::Borrowed(head.target()),
            Self::Http2 {
                proxied: Some(target),
                ..
            } => Cow::Borrowed(target),
            Self::Http2 { head, .. } => match head.uri.path_and_query() {
                Some(path) => Cow::Borrowed(path.as_str()),
                None => Cow::Owned(head.uri.to_string()),
            },
        }
    }

    /// HTTP/2's `:scheme`.
    pub(crate) fn scheme(&self) -> Option<&str> {
        match self {
            Self::Http1(_) => None,
            Self::Http2 { head, .. } => head.uri.scheme_str(),
        }
    }

    /// `Host`, or HTTP/2's `:authority`.
    pub(crate) fn authority(&self) -> Option<&str> {
        let authority = match self {
            Self::Http1(_) => None,
            Self::Http2 { head, .. } => head.uri.authority(),
        };
        let authority = authority.map(http::uri::Authority::as_str);
        authority.or_else(|| str::from_utf8(self.field("host")?).ok())
    }

    pub(crate) fn method(&self) -> &str {
        match self {
            Self::Http1(head) => head.method(),
            Self::Http2 { head, .. } => head.method.as_str(),
        }
    }

    pub(crate) fn version(&self) -> Version {
        match self {
            Self::Http1(head) if head.is_http_10() => Version::Http10,
            Self::Http1(_) => Version::Http11,
            Self::Http2 { .. } => Version::Http2,
        }
    }

    /// The value of the first field of this name, which is in lower case.
    pub(crate) fn field(&self, name: &'static str) -> Option<&[u8]> {
        match self {
            Self::Http1(head) => head.fields().values(name).next(),
            Self::Http2 { head, .. } => head.headers.get(name).map(HeaderValue::as_bytes),
        }
    }

    /// Name and value of every field.
    pub(crate) fn fields(&self) -> Vec<Pair<'_>> {
        match self {
            Self::Http1(head) => head.fields().iter().collect(),
            Self::Http2 { head, .. } => pairs(&head.headers),
        }
    }

    /// The fields by which servers serve another path, or go by another method, than the request line says.
    pub(crate) fn overrides(&self) -> Vec<(Override, &[u8])> {
        match self {
            Self::Http1(head) => {
                let fields = head.fields().iter();
                fields.filter_map(overriding).collect()
            }
            Self::Http2 { head, .. } => {
                let fields = head.headers.iter();
                let fields = fields.map(|(name, value)| (name.as_ref(), value.as_bytes()));
                fields.filter_map(overriding).collect()
            }
        }
    }

    /// How many more recipients a request may have, if it is of a method that counts them (RFC 9110 section 7.6.2).
    pub(crate) fn max_forwards(&self) -> Option<u64> {
        if !matches!(self.method(), "OPTIONS" | "TRACE") {
            return None;
        }
        let fields = self.fields().into_iter();
        let told = fields.filter(|(field, _)| field_pairs::is(field, "max-forwards"));
        told.filter_map(|(_, value)| str::from_utf8(value).ok()?.parse().ok())
            .min()
    }

    /// How the body's end is told on a connection that needs it told.
    pub(crate) fn framing(&self) -> Framing {
        match self {
            Self::Http1(head) => head.framing(),
            // One that tells it wrongly is refused, and nothing of it sent.
            Self::Http2 { framing, .. } => framing.unwrap_or(Framing::Length(0)),
        }
    }

    /// Whether it asks to read something and does nothing else: GET or HEAD, without content and not to change the protocol.
    pub(crate) fn only_reads(&self) -> bool {
        matches!(self.method(), "GET" | "HEAD")
            && self.framing() == Framing::Length(0)
            && !self
                .field("upgrade")
                .is_some_and(|upgrade| upgrade.eq_ignore_ascii_case(b"websocket"))
    }

    /// What a client is taken for that ends its side while it waits for something of ours. A time-out looks like that, and a turn
    /// kept for somebody who left is lost to everybody. HTTP/1.0 without keep-alive is for one request: to end a side behind
    /// it says only that this was all.
    pub(crate) fn half_closed(&self) -> HalfClosed {
        match self {
            Self::Http1(head) if head.is_http_10() && !head.keeps_alive() => HalfClosed::IsThere,
            _ => HalfClosed::IsGone,
        }
    }

    /// Whether the body comes only after a 100 (RFC 9110 section 10.1.1).
    pub(crate) fn expects_continue(&self) -> bool {
        self.field("expect").is_some() && self.version() == Version::Http11
    }

    /// What HTTP/2 lets through although two readers could read it differently; HTTP/1 heads were
    /// checked when they were read.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with it.
    pub(crate) fn check(&self) -> Result<(), HeadError> {
        let Self::Http2 { head, framing, .. } = self else {
            return Ok(());
        };
        if head.headers.len() > MAX_FIELDS {
            return Err(HeadError::TooLarge("more than 100 fields"));
        }
        framing.map_err(HeadError::from)?;
        let mut hosts = head.headers.get_all(HOST).iter();
        let host = hosts.next();
        if hosts.next().is_some() {
            return Err("more than one Host".into());
        }
        if let (Some(host), Some(authority)) = (host, head.uri.authority())
            && !host
                .as_bytes()
                .eq_ignore_ascii_case(authority.as_str().as_bytes())
        {
            return Err("Host and :authority differ".into());
        }
        if head.headers.get_all(USER_AGENT).iter().count() > 1 {
            return Err("more than one User-Agent".into());
        }
        if head
            .headers
            .keys()
            .any(|name| is_taken_for_another(name.as_ref()))
        {
            let details = "a field name has \"_\" where servers may read \"-\"";
            return Err(details.into());
        }
        Ok(())
    }
}

fn overriding<'a>((name, value): Pair<'a>) -> Option<(Override, &'a [u8])> {
    overrides::of(name).map(|found| (found, value))
}

/// The target of a request to a proxy. Without `:authority` there is nothing that it could be for.
fn proxied(head: &Parts) -> String {
    let uri = &head.uri;
    let authority = uri.authority().map_or("", http::uri::Authority::as_str);
    match (uri.scheme_str(), uri.path_and_query()) {
        // A `CONNECT`; h2 lets no other request through without a scheme.
        (None, None) => authority.to_owned(),
        (None, Some(path)) => path.to_string(),
        (Some(scheme), Some(path)) if path.as_str().starts_with('/') => {
            format!("{scheme}://{authority}{path}")
        }
        // Of the server as a whole (RFC 9112 section 3.2.4).
        (Some(scheme), Some(path)) if path == "*" && head.method == Method::OPTIONS => {
            format!("{scheme}://{authority}")
        }
        (Some(_), path) => path.map_or_else(String::new, ToString::to_string),
    }
}
