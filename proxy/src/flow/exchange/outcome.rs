//! An exchange: the facts about one request and what became of it.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use wayleave_policy::{Dialect, Origin, ProductToken};

use crate::http::http1::oddities::Oddities;
use crate::http::proxy_status::ErrorType;
use crate::identity::{Claim, Crawler, Mode, Proof};
use crate::observe::decisions::{DecisionId, Finding};
use crate::observe::metrics::ASSERTED;
use crate::observe::traces::Parent;
use crate::origin::error::Fault;
use crate::rules::Match;

/// The connection that a request came by.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) client: IpAddr,
    /// What was proved when the tunnel was asked for.
    pub(crate) proof: Option<Proof>,
    pub(crate) tunnel: Option<Tunnel>,
}

impl Connection {
    /// The same, as one by which something was proved.
    pub(crate) fn proven_by(&self, proof: Option<Proof>) -> Self {
        let proof = proof.or_else(|| self.proof.clone());
        Self {
            proof,
            ..self.clone()
        }
    }
}

/// A `CONNECT` that was answered: whatever follows is for this origin.
#[derive(Clone, Debug)]
pub(crate) struct Tunnel {
    pub(crate) origin: Origin,
    /// The server name of the TLS handshake, if it is another host than the origin's.
    pub(crate) foreign_server_name: Option<String>,
}

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) enum Identity {
    /// A crawler that the configuration knows.
    Known(Arc<Crawler>),
    /// A client whose name is its own word.
    Asserted {
        claim: Arc<Claim>,
        dialect: Dialect,
        mode: Mode,
    },
}

impl Identity {
    /// The crawler that the configuration knows, if it is one.
    pub(crate) fn crawler(&self) -> Option<&Crawler> {
        match self {
            Self::Known(crawler) => Some(crawler),
            Self::Asserted { .. } => None,
        }
    }

    pub(crate) fn label(&self) -> &str {
        match self {
            Self::Known(crawler) => &crawler.name,
            Self::Asserted { .. } => ASSERTED,
        }
    }

    pub(crate) fn tokens(&self) -> &[ProductToken] {
        match self {
            Self::Known(crawler) => &crawler.tokens,
            Self::Asserted { claim, .. } => &claim.tokens,
        }
    }

    pub(crate) fn dialect(&self) -> Dialect {
        match self {
            Self::Known(crawler) => crawler.dialect,
            Self::Asserted { dialect, .. } => *dialect,
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        match self {
            Self::Known(crawler) => crawler.mode,
            Self::Asserted { mode, .. } => *mode,
        }
    }
}

/// A rule of a robots.txt, and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct DecidingRule {
    /// From 1.
    pub(crate) line: u32,
    /// Such as `Disallow: /private`.
    pub(crate) text: String,
}

/// Why a request was answered here, and what the answer says.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) phrase: &'static str,
    pub(crate) error: ErrorType,
    /// Why, as a closed set of words: the metric's label and the problem's `reason`.
    pub(crate) reason: &'static str,
    /// Why, as a sentence for people.
    pub(crate) details: Cow<'static, str>,
    /// The robots.txt that the answer rests on, or that could not be had.
    pub(crate) robots_url: Option<Box<str>>,
    /// The rule that the answer rests on.
    pub(crate) rule: Option<Box<DecidingRule>>,
    pub(crate) retry_after: Option<Duration>,
    /// A URI for whoever blocks by law (RFC 7725).
    pub(crate) blocked_by: Option<Box<str>>,
    /// It is a matter of what crawlers may do, not of what can be done: where that is only observed, the request is
    /// forwarded.
    pub(crate) is_policy: bool,
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
                ErrorType::HttpRequestError,
                "malformed-request",
                details,
            )
        }
    }

    /// Whether this only counts as what would have been refused.
    ///
    /// # Errors
    ///
    /// Returns the refusal if it stands.
    pub(crate) fn tolerated(self, mode: Mode) -> Result<Self, Self> {
        if self.is_policy && mode == Mode::Observe {
            Ok(self)
        } else {
            Err(self)
        }
    }

    /// A request that comes back to the proxy it went through.
    pub(crate) fn looped() -> Self {
        let error = ErrorType::ProxyLoopDetected;
        let details = "Via names this proxy: the request came back to it";
        let status = error.recommended_status();
        Self::new(status, error.phrase(), error, error.as_str(), details)
    }

    pub(crate) fn new(
        status: u16,
        phrase: &'static str,
        error: ErrorType,
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
            rule: None,
            retry_after: None,
            blocked_by: None,
            is_policy: false,
            closes: false,
        }
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        let error = fault.error;
        let status = error.recommended_status();
        Self::new(status, error.phrase(), error, error.as_str(), fault.details)
    }
}

/// What became of a request.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// The origin's response reached the client whole.
    Forward { status: u16, reason: &'static str },
    /// The same, though it would have been refused if that were not only observed.
    Observe { status: u16, refusal: Refusal },
    /// A tunnel opened into which nobody looks.
    Tunnel { reason: &'static str },
    /// Nothing of it left this proxy.
    Refuse(Refusal),
    /// It was allowed, but the origin or the way to it failed; or the client left.
    Fail(Refusal),
}

impl Outcome {
    /// The metric's label.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Forward { .. } => "forwarded",
            Self::Observe { .. } => "observed",
            Self::Tunnel { .. } => "tunnelled",
            Self::Refuse(_) => "refused",
            Self::Fail(_) => "failed",
        }
    }

    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Forward { reason, .. } | Self::Tunnel { reason } => reason,
            Self::Observe { refusal, .. } | Self::Refuse(refusal) | Self::Fail(refusal) => {
                refusal.reason
            }
        }
    }

    /// Why it was refused or failed, or would have been refused.
    pub(crate) fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Forward { .. } | Self::Tunnel { .. } => None,
            Self::Observe { refusal, .. } | Self::Refuse(refusal) | Self::Fail(refusal) => {
                Some(refusal)
            }
        }
    }

    pub(crate) fn status(&self) -> u16 {
        match self {
            Self::Forward { status, .. } | Self::Observe { status, .. } => *status,
            Self::Tunnel { .. } => 200,
            Self::Refuse(refusal) | Self::Fail(refusal) => refusal.status,
        }
    }
}

/// One request, from its head to the end of its response.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) id: DecisionId,
    pub(crate) started: Instant,
    pub(crate) started_at: SystemTime,
    pub(crate) client: IpAddr,
    pub(crate) method: String,
    /// The target if it was understood, else the request target as received.
    pub(crate) url: String,
    pub(crate) identity: Option<Identity>,
    /// Which configuration it met, counted from 1.
    pub(crate) configuration: u64,
    /// The trace that the request says it is part of; only while traces are sent.
    pub(crate) parent: Parent,
    pub(crate) facts: Facts,
    pub(crate) outcome: Outcome,
}

/// What deciding found out, whatever became of the request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) origin: Option<Origin>,
    /// What robots.txt says, if it was asked.
    pub(crate) finding: Option<Finding>,
    /// The organisation's rule that decided.
    pub(crate) rule: Option<Match>,
    /// The time that robots.txt wants between requests.
    pub(crate) delay: Option<Duration>,
    /// The group of robots.txt that gives an unknown client its pace, where that matters.
    pub(crate) group: String,
    /// When deciding began.
    pub(crate) decided_at: Option<Instant>,
    pub(crate) decided_in: Duration,
    /// How long it waited for its turn.
    pub(crate) waited: Duration,
    /// What had to be mended of the origin's response.
    pub(crate) oddities: Oddities,
}
