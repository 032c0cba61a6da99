//! Why a request was answered here, and what the answer says.

use std::borrow::Cow;
use std::time::Duration;

use wayleave_robots_txt::Origin;

use crate::decision_log::UsePreference;
use crate::http::http1::HeadError;
use crate::http::proxy_status::ProxyErrorType;
use crate::identity::EnforcementMode;
use crate::pacing::{TooSoon, TooSoonCause};
use crate::upstream::error::UpstreamError;

/// A rule of a robots.txt, and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct DecidingRule {
    /// From 1.
    pub(crate) line: u32,
    /// Such as `Disallow: /private`.
    pub(crate) text: String,
}

/// What decided: a statement of a site, or a hop that failed.
#[derive(Clone, Debug)]
pub(crate) enum RefusalBasis {
    /// A rule of a robots.txt.
    Rule(DecidingRule),
    /// What is said about use.
    Preference(UsePreference),
    /// The parent proxy of this host and port.
    ParentProxy(Box<str>),
}

/// Why a request was answered here, and what the answer says.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) phrase: &'static str,
    pub(crate) error: ProxyErrorType,
    /// Why, as a closed set of words: the metric's label and the problem's `reason`.
    pub(crate) reason: &'static str,
    /// Why, as a sentence for people.
    pub(crate) details: Cow<'static, str>,
    /// The robots.txt that the answer rests on, or that could not be had.
    pub(crate) robots_url: Option<Box<str>>,
    /// The statement that the answer rests on.
    pub(crate) statement: Option<Box<RefusalBasis>>,
    pub(crate) retry_after: Option<Duration>,
    /// A URI for whoever blocks by law (RFC 7725).
    pub(crate) blocked_by: Option<Box<str>>,
    /// It is a matter of what crawlers may do, not of what can be done: where that is only observed, the request is
    /// forwarded.
    pub(crate) is_policy: bool,
    /// Nothing was decided against the request: it failed before that could be.
    pub(crate) is_failure: bool,
    /// The rest of the connection cannot be trusted to be what it seems.
    pub(crate) closes: bool,
}

impl Refusal {
    /// A request that is malformed, or that two readers could read differently.
    pub(crate) fn malformed(details: impl Into<Cow<'static, str>>) -> Self {
        Self {
            closes: true,
            ..Self::new(
                400,
                "Bad request",
                ProxyErrorType::HttpRequestError,
                "malformed-request",
                details,
            )
        }
    }

    /// The parent proxy that failed, if one did.
    pub(crate) fn next_hop(&self) -> Option<&str> {
        match self.statement.as_deref() {
            Some(RefusalBasis::ParentProxy(hop)) => Some(hop),
            _ => None,
        }
    }

    /// Whether this only counts as what would have been refused.
    ///
    /// # Errors
    ///
    /// Returns the refusal if it stands.
    pub(crate) fn enforce(self, mode: EnforcementMode) -> Result<Self, Self> {
        if self.is_policy && mode == EnforcementMode::Observe {
            Ok(self)
        } else {
            Err(self)
        }
    }

    /// A request that comes back to the proxy it went through.
    pub(crate) fn looped() -> Self {
        let error = ProxyErrorType::ProxyLoopDetected;
        let details = "Via names this proxy: the request came back to it";
        let status = error.recommended_status();
        Self::new(
            status,
            error.reason_phrase(),
            error,
            error.as_str(),
            details,
        )
    }

    /// A request that may go on, but of which nothing would be recorded.
    pub(crate) fn unrecorded() -> Self {
        let details = "the decision log cannot be written, and log.on_failure is \"refuse\"";
        Self {
            retry_after: Some(Duration::from_secs(1)),
            ..Self::new(
                503,
                "Decision log unavailable",
                ProxyErrorType::HttpRequestDenied,
                "unrecorded",
                details,
            )
        }
    }

    pub(crate) fn new(
        status: u16,
        phrase: &'static str,
        error: ProxyErrorType,
        reason: &'static str,
        details: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            status,
            phrase,
            error,
            reason,
            details: details.into(),
            robots_url: None,
            statement: None,
            retry_after: None,
            blocked_by: None,
            is_policy: false,
            is_failure: false,
            closes: false,
        }
    }
}

impl From<UpstreamError> for Refusal {
    fn from(fault: UpstreamError) -> Self {
        let error = fault.error_type;
        let status = error.recommended_status();
        Self {
            statement: fault
                .next_hop
                .map(|hop| Box::new(RefusalBasis::ParentProxy(hop))),
            ..Self::new(
                status,
                error.reason_phrase(),
                error,
                error.as_str(),
                fault.details,
            )
        }
    }
}

/// The refusal of a request whose head is none; nothing if nobody is there to hear it.
pub(crate) fn head_refusal(error: HeadError) -> Option<Refusal> {
    match error {
        HeadError::Closed => None,
        HeadError::Broken(_) => Some(Refusal::malformed("the request head is cut short")),
        HeadError::Malformed(details) => Some(Refusal::malformed(details)),
        HeadError::TooLarge(details) => Some(too_large(details)),
        HeadError::UnsupportedVersion => {
            let details = "the HTTP version is neither 1.1 nor 1.0";
            Some(closing(
                505,
                "HTTP version not supported",
                "unsupported-version",
                details,
            ))
        }
    }
}

fn too_large(details: &'static str) -> Refusal {
    let phrase = "Request header fields too large";
    closing(431, phrase, "head-too-large", details)
}

/// The refusal of a request whose head does not come.
pub(crate) fn head_timeout() -> Refusal {
    closing(
        408,
        "Request timeout",
        "head-timeout",
        "the request head did not arrive in time",
    )
}

/// The refusal of a connection by a load balancer that does not say whose it is.
pub(crate) fn invalid_proxy_header(what: &str) -> Refusal {
    let details = format!("proxy.proxy_protocol wants a PROXY header from this address: {what}");
    closing(400, "Bad request", "proxy-protocol", details)
}

/// The refusal of a connection that should begin with TLS.
pub(crate) fn tls_required() -> Refusal {
    let details = "this listener speaks TLS: write https:// in the URL of the proxy";
    closing(400, "Bad request", "tls-required", details)
}

/// The refusal of TLS where plain HTTP is spoken.
pub(crate) fn unexpected_tls() -> Refusal {
    Refusal::malformed(
        "this is TLS, and this listener speaks plain HTTP: write http:// in the URL of the proxy, or use an https:// listener",
    )
}

/// The refusal of a request whose body stops to come.
pub(crate) fn body_timeout() -> Refusal {
    closing(
        408,
        "Request timeout",
        "body-timeout",
        "the request body did not arrive in time",
    )
}

/// The refusal of a request before its turn. `delay`: what the origin's robots.txt asks for.
pub(crate) fn too_soon(too_soon: &TooSoon, delay: Option<Duration>, origin: &Origin) -> Refusal {
    let (reason, details) = match too_soon.cause {
        TooSoonCause::CrawlDelay => {
            let delay = delay.map_or("a delay".to_owned(), |delay| {
                humantime::format_duration(delay).to_string()
            });
            (
                "crawl-delay",
                format!("the origin asks for {delay} between this crawler's requests"),
            )
        }
        TooSoonCause::FleetLost => (
            "crawl-delay",
            "the origin asks for a delay between requests, and the fleet's engine, which knows of those of other nodes, is away"
                .to_owned(),
        ),
        TooSoonCause::SlotLost => (
            "crawl-delay",
            "this node of the fleet stood still, or lost the fleet's engine, until another one may have had the turn of this request".to_owned(),
        ),
        TooSoonCause::OriginBacksOff => (
            "origin-rests",
            "the origin asked for fewer requests".to_owned(),
        ),
        TooSoonCause::Concurrency => (
            "concurrency",
            "politeness.max_concurrent_per_origin requests of this crawler to the origin are in progress".to_owned(),
        ),
    };
    let is_by_robots_txt = matches!(
        too_soon.cause,
        TooSoonCause::CrawlDelay | TooSoonCause::FleetLost
    ) && delay.is_some();
    Refusal {
        is_policy: true,
        robots_url: is_by_robots_txt.then(|| origin.robots_txt_uri().into()),
        retry_after: Some(too_soon.retry_after),
        ..Refusal::new(
            429,
            "Crawl delay",
            ProxyErrorType::HttpRequestDenied,
            reason,
            details,
        )
    }
}

fn closing(
    status: u16,
    phrase: &'static str,
    reason: &'static str,
    details: impl Into<Cow<'static, str>>,
) -> Refusal {
    let refusal = Refusal::new(
        status,
        phrase,
        ProxyErrorType::HttpRequestError,
        reason,
        details,
    );
    Refusal {
        closes: true,
        ..refusal
    }
}
