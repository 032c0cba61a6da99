//! What became of a request, and what its client still has to be told.

use crate::decide::permit::Permit;
use crate::decide::preference::PreferenceDecision;
use crate::decide::refusal::Refusal;
use crate::http::http1::oddities::Oddities;
use crate::http::proxy_status::ProxyErrorType;

/// What became of a request.
#[derive(Clone, Debug)]
pub(crate) enum ExchangeOutcome {
    /// The origin's response reached the client whole.
    Forward { status: u16, reason: &'static str },
    /// The same, though it would have been refused if that were not only observed.
    Observe { status: u16, refusal: Refusal },
    /// A tunnel opened into which nobody looks.
    Tunnel { reason: &'static str },
    /// Nothing of it left this proxy.
    Refuse(Refusal),
    /// The origin answered, but nothing of that was handed on.
    Withhold(Refusal),
    /// It was allowed, but the origin or the way to it failed; or the origin's name could not be resolved to ask for its robots.txt; or
    /// the client left.
    Fail(Refusal),
}

impl ExchangeOutcome {
    /// The metric's label.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Forward { .. } => "forwarded",
            Self::Observe { .. } => "observed",
            Self::Tunnel { .. } => "tunnelled",
            Self::Refuse(_) | Self::Withhold(_) => "refused",
            Self::Fail(_) => "failed",
        }
    }

    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Forward { reason, .. } | Self::Tunnel { reason } => reason,
            Self::Observe { refusal, .. }
            | Self::Refuse(refusal)
            | Self::Withhold(refusal)
            | Self::Fail(refusal) => refusal.reason,
        }
    }

    /// Why it was refused or failed, or would have been refused.
    pub(crate) fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Forward { .. } | Self::Tunnel { .. } => None,
            Self::Observe { refusal, .. }
            | Self::Refuse(refusal)
            | Self::Withhold(refusal)
            | Self::Fail(refusal) => Some(refusal),
        }
    }

    /// The status of a refusal that was only observed.
    pub(crate) fn would_be(&self) -> Option<u16> {
        match self {
            Self::Observe { refusal, .. } => Some(refusal.status),
            _ => None,
        }
    }

    pub(crate) fn status(&self) -> u16 {
        match self {
            Self::Forward { status, .. } | Self::Observe { status, .. } => *status,
            Self::Tunnel { .. } => 200,
            Self::Refuse(refusal) | Self::Withhold(refusal) | Self::Fail(refusal) => refusal.status,
        }
    }
}

impl From<Refusal> for ExchangeOutcome {
    /// Of a request that did not leave this proxy.
    fn from(refusal: Refusal) -> Self {
        if refusal.is_failure {
            return Self::Fail(refusal);
        }
        Self::Refuse(refusal)
    }
}

/// What may follow an exchange on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionReuse {
    /// The next request, if both sides want one.
    Whole,
    /// Nothing, but the client has its answer.
    Closed,
    /// Nothing: the client must see that the response is cut off.
    CutOff,
}

/// What its client still has to be told once the outcome is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyKind {
    /// Nothing: it has its answer, as far as there is one.
    Given(ConnectionReuse),
    /// Why it was refused, or what failed.
    Refusal,
    /// What the request's last recipient answers.
    LastHop,
}

/// What is told of a request that was sent, besides its outcome.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SentMessage {
    /// What had to be mended of the response.
    pub(crate) oddities: Oddities,
    /// Whether it went out with a signature of ours.
    pub(crate) is_signed: bool,
    /// How many bytes of the response's body the client was handed; none of what became a tunnel.
    pub(crate) body_bytes: Option<u64>,
}

/// How an exchange ended.
pub(super) struct ExchangeEnd {
    pub(super) outcome: ExchangeOutcome,
    pub(super) reply: ReplyKind,
    pub(super) sent: SentMessage,
    /// What was said about use, the answer included, if that was asked.
    pub(super) preferences: Option<PreferenceDecision>,
}

impl ExchangeEnd {
    /// Of a request that was not sent.
    pub(super) fn answered_here(outcome: ExchangeOutcome, reply: ReplyKind) -> Self {
        Self {
            outcome,
            reply,
            sent: SentMessage::default(),
            preferences: None,
        }
    }

    /// Of one whose client left before it was sent.
    pub(super) fn client_left() -> Self {
        let reply = ReplyKind::Given(ConnectionReuse::CutOff);
        Self::answered_here(ExchangeOutcome::Fail(client_closed()), reply)
    }
}

/// The outcome of a request that reached its origin.
pub(super) fn permitted_outcome(permit: &Permit, status: u16) -> ExchangeOutcome {
    let reason = permit.reason;
    match permit.observed.clone() {
        Some(refusal) => ExchangeOutcome::Observe { status, refusal },
        None if permit.resolved.is_blind() => ExchangeOutcome::Tunnel { reason },
        None => ExchangeOutcome::Forward { status, reason },
    }
}

/// The failure of a request that was cut because the proxy ends.
pub(super) fn shut_down() -> Refusal {
    let error = ProxyErrorType::ConnectionTerminated;
    let details = "the proxy ended before the response was complete";
    Refusal::new(503, "Proxy shutting down", error, "shutdown", details)
}

/// The failure of a request whose client left.
pub(super) fn client_closed() -> Refusal {
    let error = ProxyErrorType::ConnectionTerminated;
    let details = "the client left before the response was complete";
    let phrase = "Client closed request";
    Refusal::new(499, phrase, error, "client-closed", details)
}
