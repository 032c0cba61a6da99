//! Outcomes of fetches, as facts, and their classification.
//!
//! A [`FetchOutcome`] holds the events: the redirects, and a [`FetchEnding`]. Its [`FetchResult`] is their meaning by
//! RFC 9309, and a [`FinishedFetch`] adds the time. The consequences for requests are the table in the [crate's head](crate).

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use wayleave_robots_txt::{AccessResult, RobotsTxt};

use super::fetch_identity::{Audience, ChosenBy, FetchIdentity};
use super::resource::Resource;
use super::unix_millis;

/// A request to fetch a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchRequest {
    /// The resource.
    pub resource: Resource,
    /// The identity to fetch it as.
    pub identity: Arc<FetchIdentity>,
    /// The validators of the cached copy, to revalidate it.
    pub validators: Option<CacheValidators>,
}

/// The validators of a copy (RFC 9110 §8.8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheValidators {
    /// The URI that they came from; they are meaningless for another.
    pub uri: String,
    /// For `If-None-Match`.
    pub etag: Option<Box<str>>,
    /// For `If-Modified-Since`.
    pub last_modified: Option<Box<str>>,
}

/// A redirect that was followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedirectHop {
    /// The URI that was requested.
    pub uri: String,
    /// The status of the response.
    pub status: u16,
}

/// The outcome of one fetch, from the first request to the end of the last response's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchOutcome {
    /// The redirects that were followed, in order.
    pub redirects: Vec<RedirectHop>,
    /// The URI requested last.
    pub uri: String,
    /// The ending of that request.
    pub ending: FetchEnding,
}

/// The ending of a fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchEnding {
    /// A complete response that is not a redirect to follow.
    Response(FetchedResponse),
    /// A 304 response to a request with validators, of which only the fields count.
    NotModified(ResponseFields),
    /// One redirect more than are followed, with its status.
    RedirectLost(u16),
    /// No usable response.
    Failed(FetchError),
}

/// A response, as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedResponse {
    /// Its HTTP status.
    pub status: u16,
    /// The fields that determine its lifetime.
    pub fields: ResponseFields,
    /// Its content, with content codings removed.
    pub body: FetchedBody,
}

/// A response's content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchedBody {
    /// The bytes, at most as many as are read of a robots.txt.
    pub bytes: Arc<[u8]>,
    /// Whether there were more bytes.
    pub is_cut: bool,
    /// The SHA-256 digest of `bytes`, if the fetcher computed it, by which they are identified wherever they are
    /// stored. Not checked here.
    pub digest: Option<Arc<[u8; 32]>>,
}

impl FetchedBody {
    /// Parses the body as a robots.txt, or the beginning of one.
    #[must_use]
    pub fn parse(&self) -> RobotsTxt {
        if self.is_cut {
            return RobotsTxt::parse_beginning(&self.bytes);
        }
        // The fetcher has bounded the body; the parser's own limit must not cut it again.
        RobotsTxt::parse_with_limit(&self.bytes, self.bytes.len())
    }
}

/// The response fields that matter here, as received, with several lines joined by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseFields {
    /// `Age` (RFC 9111 §5.1).
    pub age: Option<Box<str>>,
    /// `Cache-Control` (RFC 9111 §5.2).
    pub cache_control: Option<Box<str>>,
    /// `Content-Type` (RFC 9110 §8.3).
    pub content_type: Option<Box<str>>,
    /// `ETag` (RFC 9110 §8.8.3).
    pub etag: Option<Box<str>>,
    /// `Expires` (RFC 9111 §5.3), as an instant computed by the fetcher, which has the clock. An invalid date is the
    /// epoch: RFC 9111 §5.3 treats it as in the past.
    #[serde(with = "unix_millis")]
    pub expires_at: Option<SystemTime>,
    /// `Last-Modified` (RFC 9110 §8.8.2).
    pub last_modified: Option<Box<str>>,
    /// `Retry-After` (RFC 9110 §10.2.3), as an instant.
    #[serde(with = "unix_millis")]
    pub retry_at: Option<SystemTime>,
    /// Whether it, or a redirect to it, says by `Vary` that others may get another response (RFC 9111 §4.1): the field has
    /// `User-Agent`, a field of signatures, or `*`. Stored with the identity rather than with the fields.
    #[serde(skip)]
    pub varies: bool,
}

/// The error of a fetch without a usable response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchError {
    /// The kind of error.
    pub kind: FetchErrorKind,
    /// The details, for people.
    pub detail: String,
}

/// The kind of error of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FetchErrorKind {
    /// DNS has no address, or answered with an error.
    Dns,
    /// DNS answered that the name does not exist.
    NoSuchName,
    /// No DNS server answered in time.
    DnsTimeout,
    /// No DNS server could be asked.
    DnsUnavailable,
    /// The origin's own address may not be connected to.
    Prohibited,
    /// A redirect led to an address that may not be connected to, or to an origin that a rule excludes.
    RedirectProhibited,
    /// The pace at which this proxy sends requests left none for the fetch in time.
    OwnPace,
    /// This machine lacks something that a connection needs, such as a file descriptor or a network.
    Local,
    /// No connection was made.
    Connect,
    /// No connection was made in time.
    ConnectTimeout,
    /// The TLS handshake failed, or the certificate is not trusted.
    Tls,
    /// The whole fetch took too long.
    Timeout,
    /// The response is not HTTP, or the connection ended before one.
    Http,
    /// The body broke off or could not be decoded.
    Body,
    /// A redirect without a usable `Location`.
    BadRedirect,
    /// A parent proxy could not reach the origin, or gave an answer that may not be the origin's.
    Proxy,
    /// The parent proxy could not be reached, did not answer, or does not serve this proxy.
    ProxyUnavailable,
    /// An internal error.
    Internal,
}

impl FetchErrorKind {
    /// Every kind.
    pub const ALL: [Self; 18] = [
        Self::Dns,
        Self::NoSuchName,
        Self::DnsTimeout,
        Self::DnsUnavailable,
        Self::Prohibited,
        Self::RedirectProhibited,
        Self::OwnPace,
        Self::Local,
        Self::Connect,
        Self::ConnectTimeout,
        Self::Tls,
        Self::Timeout,
        Self::Http,
        Self::Body,
        Self::BadRedirect,
        Self::Proxy,
        Self::ProxyUnavailable,
        Self::Internal,
    ];

    /// Returns whether no request reached the origin for a reason on this side, which says nothing about the origin.
    #[must_use]
    pub const fn is_own_fault(self) -> bool {
        matches!(
            self,
            Self::DnsTimeout
                | Self::DnsUnavailable
                | Self::OwnPace
                | Self::Local
                | Self::ProxyUnavailable
        )
    }

    /// Returns the kind in kebab case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::NoSuchName => "no-such-name",
            Self::DnsTimeout => "dns-timeout",
            Self::DnsUnavailable => "dns-unavailable",
            Self::Prohibited => "prohibited",
            Self::RedirectProhibited => "redirect-prohibited",
            Self::OwnPace => "own-pace",
            Self::Local => "local",
            Self::Connect => "connect",
            Self::ConnectTimeout => "connect-timeout",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::Http => "http",
            Self::Body => "body",
            Self::BadRedirect => "bad-redirect",
            Self::Proxy => "proxy",
            Self::ProxyUnavailable => "proxy-unavailable",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for FetchErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The classification of one fetch's ending. [`SnapshotState`](crate::SnapshotState) says what is cached after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FetchResult {
    /// The origin's rules are known.
    Successful,
    /// The origin has no rules.
    Unavailable,
    /// Too many redirects.
    RedirectLost,
    /// No usable response.
    Unreachable,
    /// No response for a reason on this side, so that nothing was learned.
    Postponed,
}

impl FetchEnding {
    /// Records whether others may get another answer, in the fields of a response.
    pub fn set_varies(&mut self, varies: bool) {
        match self {
            Self::Response(response) => response.fields.varies = varies,
            Self::NotModified(fields) => fields.varies = varies,
            Self::RedirectLost(_) | Self::Failed(_) => {}
        }
    }
}

impl FetchResult {
    /// Returns the meaning of a response status (RFC 9309 §2.3.1).
    ///
    /// 206 is not usable: it is a part of the content, and no part was requested (RFC 9110 §15.3.7). Neither is a
    /// status to which RFC 9309 gives no meaning, such as a redirect that cannot be followed.
    #[must_use]
    pub const fn of_status(status: u16) -> Self {
        match status {
            // 429 is about the client's rate, not about the file (RFC 6585 §4).
            206 | 429 => Self::Unreachable,
            200..=299 => Self::Successful,
            400..=499 => Self::Unavailable,
            _ => Self::Unreachable,
        }
    }

    /// Returns the result in snake case, the metrics' label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Successful => "successful",
            Self::Unavailable => "unavailable",
            Self::RedirectLost => "redirect_lost",
            Self::Unreachable => "unreachable",
            Self::Postponed => "postponed",
        }
    }
}

impl FetchOutcome {
    /// Creates the outcome of a fetch that failed before any redirect.
    #[must_use]
    pub fn failed(uri: String, kind: FetchErrorKind, detail: impl Into<String>) -> Self {
        let error = FetchError { kind, detail: detail.into() };
        Self { redirects: Vec::new(), uri, ending: FetchEnding::Failed(error) }
    }

    /// Returns the meaning of the ending. 304 confirms an answer that was once successful.
    #[must_use]
    pub fn result(&self) -> FetchResult {
        match &self.ending {
            FetchEnding::NotModified(_) => FetchResult::Successful,
            FetchEnding::RedirectLost(_) => FetchResult::RedirectLost,
            FetchEnding::Failed(error) if error.kind.is_own_fault() => FetchResult::Postponed,
            FetchEnding::Failed(_) => FetchResult::Unreachable,
            FetchEnding::Response(response) => FetchResult::of_status(response.status),
        }
    }

    /// Returns the last response's status, if there was a response.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match &self.ending {
            FetchEnding::Response(response) => Some(response.status),
            FetchEnding::NotModified(_) => Some(304),
            FetchEnding::RedirectLost(status) => Some(*status),
            FetchEnding::Failed(_) => None,
        }
    }

    /// Returns the last response's fields, if they were kept.
    #[must_use]
    pub fn fields(&self) -> Option<&ResponseFields> {
        match &self.ending {
            FetchEnding::Response(response) => Some(&response.fields),
            FetchEnding::NotModified(fields) => Some(fields),
            FetchEnding::RedirectLost(_) | FetchEnding::Failed(_) => None,
        }
    }

    /// Returns the requesters that the outcome counts for, if `chosen` chose the host.
    #[must_use]
    pub fn audience(&self, chosen: ChosenBy) -> Audience {
        match (self.result(), &self.ending) {
            // A fetch that may not go everywhere may fail where others succeed.
            (FetchResult::Unreachable | FetchResult::Postponed, FetchEnding::Failed(error)) => {
                let is_restricted = chosen != ChosenBy::Crawler;
                match error.kind {
                    FetchErrorKind::RedirectProhibited => Audience::SameRequest,
                    _ if is_restricted => Audience::SameRequest,
                    _ => Audience::Everybody,
                }
            }
            (FetchResult::Unreachable | FetchResult::Postponed, _) => Audience::Everybody,
            (FetchResult::RedirectLost, _) => Audience::SameLook,
            _ if self.fields().is_some_and(|fields| fields.varies) => Audience::SameLook,
            (FetchResult::Unavailable, _) => match self.status() {
                Some(404 | 410) => Audience::Everybody,
                // Perhaps it was refused to the one that asked.
                _ => Audience::SameLook,
            },
            (FetchResult::Successful, _) => Audience::Everybody,
        }
    }

    /// Returns the body, if the fetch was successful.
    #[must_use]
    pub fn body(&self) -> Option<&FetchedBody> {
        match &self.ending {
            FetchEnding::Response(response) if self.result() == FetchResult::Successful => {
                Some(&response.body)
            }
            _ => None,
        }
    }

    /// Returns the reason in words why there is no usable response, such as `HTTP 500`, with the redirect target.
    #[must_use]
    pub fn cause(&self) -> Option<String> {
        let cause = match &self.ending {
            FetchEnding::Failed(error) => error.detail.clone(),
            FetchEnding::Response(response) if self.result() == FetchResult::Unreachable => {
                match response.status {
                    206 => {
                        "HTTP 206: a part of the file, although all of it was requested".to_owned()
                    }
                    status => format!("HTTP {status}"),
                }
            }
            _ => return None,
        };
        if self.redirects.is_empty() {
            return Some(cause);
        }
        Some(format!("{cause} (redirected to {})", self.uri))
    }

    /// Returns the error, if there was no usable response.
    #[must_use]
    pub fn error(&self) -> Option<&FetchError> {
        match &self.ending {
            FetchEnding::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// Returns whether the successful response looks like a web page, such as a challenge or a front page served for
    /// every path. It is parsed all the same.
    #[must_use]
    pub fn looks_like_html(&self) -> bool {
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
        // Some servers send their pages as `text/plain`.
        let start = body.bytes.trim_ascii_start();
        let begins =
            |tag: &[u8]| start.get(..tag.len()).is_some_and(|s| s.eq_ignore_ascii_case(tag));
        content_type.is_some_and(is_html_type) || begins(b"<!doctype html") || begins(b"<html")
    }
}

/// The outcome of a fetch, with its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedFetch {
    /// The time at which the fetch ended, or its answer was last confirmed by 304.
    pub fetched_at: SystemTime,
    /// The identity that it was fetched as.
    pub fetched_as: Arc<FetchIdentity>,
    /// The outcome.
    pub outcome: FetchOutcome,
}

impl FinishedFetch {
    /// Returns a fetch by the proxy itself, which ended at `fetched_at`.
    #[must_use]
    pub fn of_proxy(outcome: FetchOutcome, fetched_at: SystemTime) -> Self {
        Self { fetched_at, fetched_as: FetchIdentity::proxy(), outcome }
    }

    /// Returns whether it counts for requests of `identity`.
    #[must_use]
    pub fn counts_for(&self, identity: &FetchIdentity) -> bool {
        self.audience().includes(&self.fetched_as, identity)
    }

    /// Returns the requesters that it counts for.
    #[must_use]
    pub fn audience(&self) -> Audience {
        match self.outcome.audience(self.fetched_as.chosen) {
            // Other source addresses may have a route.
            Audience::Everybody
                if self.fetched_as.source.is_some()
                    && self.outcome.result() == FetchResult::Postponed =>
            {
                Audience::SameLook
            }
            audience => audience,
        }
    }

    /// Returns the access result; the body is parsed here.
    #[must_use]
    pub fn access(&self) -> AccessResult {
        match (self.outcome.result(), self.outcome.body(), self.outcome.status()) {
            (FetchResult::Successful, Some(body), _) => AccessResult::Successful(body.parse()),
            (FetchResult::Unavailable, _, Some(status)) => AccessResult::Unavailable { status },
            (FetchResult::RedirectLost, ..) => AccessResult::RedirectLost,
            _ => AccessResult::Unreachable,
        }
    }

    /// Returns its age at `now`: that with which it arrived, and the time since (RFC 9111 §4.2.3).
    #[must_use]
    pub fn age(&self, now: SystemTime) -> Duration {
        let fields = self.outcome.fields();
        let on_arrival = fields.and_then(|fields| fields.age.as_deref()).and_then(delta_seconds);
        // If the clock was set back, no time has passed.
        let since = now.duration_since(self.fetched_at).unwrap_or_default();
        Duration::from_secs(on_arrival.unwrap_or(0)).saturating_add(since)
    }

    /// Returns the validators to revalidate the answer with; `None` if it has none.
    #[must_use]
    pub fn validators(&self) -> Option<CacheValidators> {
        // Without a body there is nothing that a 304 could confirm.
        self.outcome.body()?;
        let fields = self.outcome.fields()?;
        if fields.etag.is_none() && fields.last_modified.is_none() {
            return None;
        }
        Some(CacheValidators {
            uri: self.outcome.uri.clone(),
            etag: fields.etag.clone(),
            last_modified: fields.last_modified.clone(),
        })
    }

    /// Returns the answer as confirmed by a 304 with `fields`, the outcome of `newer` (RFC 9111 §4.3.4).
    pub(super) fn confirmed(&self, newer: &Self, fields: &ResponseFields) -> Self {
        let mut confirmed = self.clone();
        confirmed.fetched_at = newer.fetched_at;
        confirmed.fetched_as = Arc::clone(&newer.fetched_as);
        if let FetchEnding::Response(response) = &mut confirmed.outcome.ending {
            response.fields.update(fields);
        }
        confirmed
    }
}

impl ResponseFields {
    /// Updates the fields with those of `newer`; `Age` and `Retry-After` belong to one message only.
    fn update(&mut self, newer: &Self) {
        // A field that the 304 lacks still applies (RFC 9111 §3.2).
        let replace = |old: &mut Option<Box<str>>, new: &Option<Box<str>>| {
            if new.is_some() {
                old.clone_from(new);
            }
        };
        replace(&mut self.cache_control, &newer.cache_control);
        replace(&mut self.content_type, &newer.content_type);
        replace(&mut self.etag, &newer.etag);
        replace(&mut self.last_modified, &newer.last_modified);
        self.expires_at = newer.expires_at.or(self.expires_at);
        self.age.clone_from(&newer.age);
        self.retry_at = newer.retry_at;
        self.varies |= newer.varies;
    }
}

/// Parses delta-seconds (RFC 9111 §1.2.2): digits only, with overflow capped.
pub(super) fn delta_seconds(text: &str) -> Option<u64> {
    let digits = text.trim();
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u64::from(u32::MAX)))
}
