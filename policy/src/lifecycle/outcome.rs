//! `FetchOutcome`: what one fetch of an origin's robots.txt found, as facts, and what kind of answer they are.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use super::resource::Resource;
use crate::{AccessResult, RobotsTxt};

/// Something to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchRequest {
    /// What.
    pub resource: Resource,
    /// Of the copy at hand, to ask whether it still holds.
    pub validators: Option<Validators>,
}

/// What a copy can be asked about again with (RFC 9110 §8.8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validators {
    /// The URI that gave them; they mean nothing to another.
    pub uri: String,
    /// For `If-None-Match`.
    pub etag: Option<Box<str>>,
    /// For `If-Modified-Since`.
    pub last_modified: Option<Box<str>>,
}

/// A redirect that was followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// What was asked for.
    pub uri: String,
    /// What status it answered with.
    pub status: u16,
}

/// How one fetch went, from the first request to the end of the last response's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchOutcome {
    /// The redirects that were followed, in order.
    pub redirects: Vec<Hop>,
    /// What was asked for last.
    pub uri: String,
    /// What came of that.
    pub ending: Ending,
}

/// How a fetch ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With a complete response that is not a redirect to follow.
    Response(Response),
    /// With 304 to a request that carried validators. Only its fields count.
    NotModified(Fields),
    /// With one redirect more than are followed; its status.
    RedirectLost(u16),
    /// Without a response that could be used.
    Failed(FetchError),
}

/// A response, as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Its HTTP status.
    pub status: u16,
    /// The fields that say how long it counts.
    pub fields: Fields,
    /// Its content, content codings removed.
    pub body: Body,
}

/// A response's content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// The bytes, at most as many as are read of a robots.txt.
    pub bytes: Arc<[u8]>,
    /// There were more.
    pub is_cut: bool,
    /// The SHA-256 of `bytes`, if the fetcher took it: what they are known by wherever they are kept. Not checked here.
    pub digest: Option<Arc<[u8; 32]>>,
}

impl Body {
    /// The robots.txt that it is, or the beginning of.
    #[must_use]
    pub fn parse(&self) -> RobotsTxt {
        if self.is_cut {
            return RobotsTxt::parse_beginning(&self.bytes);
        }
        RobotsTxt::parse_with_limit(&self.bytes, self.bytes.len())
    }
}

/// The response fields that matter here, each as received, several lines joined by a comma.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// `Age` (RFC 9111 §5.1).
    pub age: Option<Box<str>>,
    /// `Cache-Control` (RFC 9111 §5.2).
    pub cache_control: Option<Box<str>>,
    /// `Content-Type` (RFC 9110 §8.3).
    pub content_type: Option<Box<str>>,
    /// `ETag` (RFC 9110 §8.8.3).
    pub etag: Option<Box<str>>,
    /// `Expires` (RFC 9111 §5.3), as an instant: the clock and the calendar are the fetcher's. What
    /// cannot be read as a date is the epoch, in the past as RFC 9111 §5.3 has it.
    pub expires_at: Option<SystemTime>,
    /// `Last-Modified` (RFC 9110 §8.8.2).
    pub last_modified: Option<Box<str>>,
    /// `Retry-After` (RFC 9110 §10.2.3), as an instant.
    pub retry_at: Option<SystemTime>,
    /// A request without a signature was turned away and asked for one (`Accept-Signature`, RFC 9421 §5): a signed request may be
    /// answered otherwise.
    pub asks_for_signature: bool,
}

/// Why a fetch ended without a usable response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchError {
    /// What went wrong.
    pub kind: FetchErrorKind,
    /// The particulars, for people.
    pub detail: String,
}

/// What can go wrong in a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FetchErrorKind {
    /// DNS knows no address, or answered with an error.
    Dns,
    /// DNS says that there is no such name.
    NoSuchName,
    /// DNS did not answer in time.
    DnsTimeout,
    /// The origin itself is at an address that may not be dialled.
    Prohibited,
    /// A redirect led to an address that may not be dialled, or where a rule or the pace of the origin there keeps
    /// crawlers out.
    RedirectProhibited,
    /// No connection was made.
    Connect,
    /// No connection was made in time.
    ConnectTimeout,
    /// TLS was not agreed on, or the certificate is not trusted.
    Tls,
    /// The whole fetch took too long.
    Timeout,
    /// What came is not HTTP, or the connection ended before a response.
    Http,
    /// The body broke off or could not be decoded.
    Body,
    /// A redirect without a usable `Location`.
    BadRedirect,
    /// A proxy on the way failed, or answered what may not be the origin's word.
    Proxy,
    /// A fault in this program.
    Internal,
}

impl FetchErrorKind {
    /// Every kind.
    pub const ALL: [Self; 14] = [
        Self::Dns,
        Self::NoSuchName,
        Self::DnsTimeout,
        Self::Prohibited,
        Self::RedirectProhibited,
        Self::Connect,
        Self::ConnectTimeout,
        Self::Tls,
        Self::Timeout,
        Self::Http,
        Self::Body,
        Self::BadRedirect,
        Self::Proxy,
        Self::Internal,
    ];

    /// The kind in kebab case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::NoSuchName => "no-such-name",
            Self::DnsTimeout => "dns-timeout",
            Self::Prohibited => "prohibited",
            Self::RedirectProhibited => "redirect-prohibited",
            Self::Connect => "connect",
            Self::ConnectTimeout => "connect-timeout",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::Http => "http",
            Self::Body => "body",
            Self::BadRedirect => "bad-redirect",
            Self::Proxy => "proxy",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for FetchErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a fetch's ending means: the contract's four results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FetchResult {
    /// The origin's rules are known.
    Successful,
    /// The origin says that it has none.
    Unavailable,
    /// The redirects went on for too long.
    RedirectLost,
    /// No answer that counts.
    Unreachable,
}

impl FetchResult {
    /// What a response of this status means (RFC 9309 §2.3.1).
    ///
    /// 206 is no answer: it has a part of what was asked for, and nobody asked for a part (RFC 9110 §15.3.7). Neither is a status
    /// that RFC 9309 gives no meaning, such as a redirect that cannot be followed.
    #[must_use]
    pub const fn of_status(status: u16) -> Self {
        match status {
            206 | 429 => Self::Unreachable,
            200..=299 => Self::Successful,
            400..=499 => Self::Unavailable,
            _ => Self::Unreachable,
        }
    }

    /// The result in snake case, as metrics label it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Successful => "successful",
            Self::Unavailable => "unavailable",
            Self::RedirectLost => "redirect_lost",
            Self::Unreachable => "unreachable",
        }
    }
}

impl FetchOutcome {
    /// A fetch that failed before any redirect.
    #[must_use]
    pub fn failed(uri: String, kind: FetchErrorKind, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self {
            redirects: Vec::new(),
            uri,
            ending: Ending::Failed(FetchError { kind, detail }),
        }
    }

    /// What the ending means. 304 confirms an answer that was once successful.
    #[must_use]
    pub fn result(&self) -> FetchResult {
        match &self.ending {
            Ending::NotModified(_) => FetchResult::Successful,
            Ending::RedirectLost(_) => FetchResult::RedirectLost,
            Ending::Failed(_) => FetchResult::Unreachable,
            Ending::Response(response) => FetchResult::of_status(response.status),
        }
    }

    /// The last response's status, if there was a response.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match &self.ending {
            Ending::Response(response) => Some(response.status),
            Ending::NotModified(_) => Some(304),
            Ending::RedirectLost(status) => Some(*status),
            Ending::Failed(_) => None,
        }
    }

    /// The last response's fields, if they were kept.
    #[must_use]
    pub fn fields(&self) -> Option<&Fields> {
        match &self.ending {
            Ending::Response(response) => Some(&response.fields),
            Ending::NotModified(fields) => Some(fields),
            Ending::RedirectLost(_) | Ending::Failed(_) => None,
        }
    }

    /// Whether a request without a signature was asked for one.
    #[must_use]
    pub fn asks_for_signature(&self) -> bool {
        self.fields()
            .is_some_and(|fields| fields.asks_for_signature)
    }

    /// The rules it brought, if it was successful.
    #[must_use]
    pub fn body(&self) -> Option<&Body> {
        match &self.ending {
            Ending::Response(response) if self.result() == FetchResult::Successful => {
                Some(&response.body)
            }
            _ => None,
        }
    }

    /// Why it brought no answer that counts, in words: such as `HTTP 500`, and where it was redirected to.
    #[must_use]
    pub fn cause(&self) -> Option<String> {
        let cause = match &self.ending {
            Ending::Failed(error) => error.detail.clone(),
            Ending::Response(response) if self.result() == FetchResult::Unreachable => {
                match response.status {
                    206 => {
                        "HTTP 206: a part of the file, though all of it was asked for".to_owned()
                    }
                    status => format!("HTTP {status}"),
                }
            }
            _ => return None,
        };
        Some(match self.redirects.is_empty() {
            true => cause,
            false => format!("{cause} (redirected to {})", self.uri),
        })
    }

    /// Why there was no usable response, if there was none.
    #[must_use]
    pub fn error(&self) -> Option<&FetchError> {
        match &self.ending {
            Ending::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// Whether the successful answer looks like a page made for people, such as a challenge or a
    /// front page that answers every path. It is parsed all the same.
    #[must_use]
    pub fn looks_like_a_page(&self) -> bool {
        let Some(body) = self.body() else {
            return false;
        };
        let is_html_type = |value: &str| {
            let essence = value.split(';').next().unwrap_or_default().trim();
            ["text/html", "application/xhtml+xml"]
                .iter()
                .any(|html| essence.eq_ignore_ascii_case(html))
        };
        let content_type = self.fields().and_then(|f| f.content_type.as_deref());
        let start = body.bytes.trim_ascii_start();
        let begins = |tag: &[u8]| {
            start
                .get(..tag.len())
                .is_some_and(|s| s.eq_ignore_ascii_case(tag))
        };
        content_type.is_some_and(is_html_type) || begins(b"<!doctype html") || begins(b"<html")
    }
}

/// What is known of an origin's robots.txt, and since when: one fetch that ended with an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// When the answer came, or was last confirmed by 304.
    pub fetched_at: SystemTime,
    /// The answer.
    pub outcome: FetchOutcome,
}

impl Facts {
    /// What the answer says about access; the body is parsed here.
    #[must_use]
    pub fn access(&self) -> AccessResult {
        match (
            self.outcome.result(),
            self.outcome.body(),
            self.outcome.status(),
        ) {
            (FetchResult::Successful, Some(body), _) => AccessResult::Successful(body.parse()),
            (FetchResult::Unavailable, _, Some(status)) => AccessResult::Unavailable { status },
            (FetchResult::RedirectLost, ..) => AccessResult::RedirectLost,
            _ => AccessResult::Unreachable,
        }
    }

    /// What to ask with whether the answer still holds; `None` if the answer cannot be confirmed.
    #[must_use]
    pub fn validators(&self) -> Option<Validators> {
        self.outcome.body()?;
        let fields = self.outcome.fields()?;
        if fields.etag.is_none() && fields.last_modified.is_none() {
            return None;
        }
        Some(Validators {
            uri: self.outcome.uri.clone(),
            etag: fields.etag.clone(),
            last_modified: fields.last_modified.clone(),
        })
    }

    /// The same answer, confirmed at `now` by a 304 with `fields` (RFC 9111 §4.3.4).
    pub(super) fn confirmed(&self, fields: &Fields, now: SystemTime) -> Self {
        let mut confirmed = self.clone();
        confirmed.fetched_at = now;
        if let Ending::Response(response) = &mut confirmed.outcome.ending {
            response.fields.update(fields);
        }
        confirmed
    }
}

impl Fields {
    /// Takes over what `newer` names; `Age` and `Retry-After` belong to one message only.
    fn update(&mut self, newer: &Self) {
        let keep = |old: &mut Option<Box<str>>, new: &Option<Box<str>>| {
            if new.is_some() {
                old.clone_from(new);
            }
        };
        keep(&mut self.cache_control, &newer.cache_control);
        keep(&mut self.content_type, &newer.content_type);
        keep(&mut self.etag, &newer.etag);
        keep(&mut self.last_modified, &newer.last_modified);
        self.expires_at = newer.expires_at.or(self.expires_at);
        self.age.clone_from(&newer.age);
        self.retry_at = newer.retry_at;
    }
}
