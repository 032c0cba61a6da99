//! What became of a request, and the record of it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::forward::Sent;
use crate::decide::identify::Identity;
use crate::decide::permit::{Facts, Permit};
use crate::decide::preference::Said;
use crate::decide::refusal::Refusal;
use crate::http::http1::oddities::Oddities;
use crate::http::proxy_status::ErrorType;
use crate::http::received::Received;
use crate::identity::ClientCertificate;
use crate::observe::decisions::DecisionId;
use crate::observe::traces::Parent;

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
    /// The origin answered, but nothing of that was handed on.
    Withhold(Refusal),
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

    pub(crate) fn status(&self) -> u16 {
        match self {
            Self::Forward { status, .. } | Self::Observe { status, .. } => *status,
            Self::Tunnel { .. } => 200,
            Self::Refuse(refusal) | Self::Withhold(refusal) | Self::Fail(refusal) => refusal.status,
        }
    }
}

/// What may follow an exchange on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterExchange {
    /// The next request, if both sides want one.
    Whole,
    /// Nothing, but the client has its answer.
    Closed,
    /// Nothing: the client must see that the response is cut off.
    CutOff,
}

/// The outcome of a request that reached its origin.
pub(super) fn passed(permit: &Permit, status: u16) -> Outcome {
    let reason = permit.reason;
    match permit.observed.clone() {
        Some(refusal) => Outcome::Observe { status, refusal },
        None if permit.resolved.is_blind() => Outcome::Tunnel { reason },
        None => Outcome::Forward { status, reason },
    }
}

/// The failure of a request whose client left.
pub(super) fn client_closed() -> Refusal {
    let error = ErrorType::ConnectionTerminated;
    let details = "the client left before the response was complete";
    let phrase = "Client closed request";
    Refusal::new(499, phrase, error, "client-closed", details)
}

/// One request, from its head to the end of its response.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) id: DecisionId,
    pub(crate) started: Instant,
    pub(crate) started_at: SystemTime,
    pub(crate) client: IpAddr,
    pub(crate) peer: Option<IpAddr>,
    pub(crate) certificate: Option<Arc<ClientCertificate>>,
    pub(crate) method: String,
    pub(crate) user_agent: Option<String>,
    /// The trace that the request says it is part of.
    pub(crate) parent: Parent,
    pub(crate) known: Known,
    pub(crate) outcome: Outcome,
}

/// What became known of a request on its way.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// The target if it was understood, else the request target as received.
    pub(crate) url: String,
    pub(crate) identity: Option<Identity>,
    /// The user name that was proved by a password.
    pub(crate) username: Option<Arc<str>>,
    /// Which configuration it met, counted from 1.
    pub(crate) configuration: u64,
    pub(crate) facts: Facts,
    /// How long it waited for its turn.
    pub(crate) waited: Duration,
    /// What had to be mended of the origin's response.
    pub(crate) oddities: Oddities,
    /// Whether it was signed for a crawler with a key: `signed`, or `tunnel` where that could not be.
    pub(crate) signature: Option<&'static str>,
    /// How much of the origin's body its client was handed, if an origin was asked.
    pub(crate) body_bytes: Option<u64>,
}

impl Known {
    /// The same with what the origin's answer added.
    pub(super) fn and(self, sent: Sent, said: Option<Said>) -> Self {
        let preferences = said.or(self.facts.preferences);
        let facts = Facts {
            preferences,
            ..self.facts
        };
        Self {
            oddities: sent.oddities,
            body_bytes: sent.body_bytes,
            signature: sent.is_signed.then_some("signed"),
            facts,
            ..self
        }
    }
}

/// The longest `User-Agent` that is recorded. Real ones are shorter; the rest of a longer one is nothing that anybody asks for.
const MAX_USER_AGENT_BYTES: usize = 512;

/// What a request calls itself, as text.
fn user_agent(received: &Received) -> Option<String> {
    let value = received.field("user-agent")?;
    let cut = &value[..value.len().min(MAX_USER_AGENT_BYTES)];
    Some(String::from_utf8_lossy(cut).into_owned())
}

/// An exchange that began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun<'a> {
    pub(super) id: DecisionId,
    pub(super) started: Instant,
    pub(super) started_at: SystemTime,
    pub(super) client: IpAddr,
    pub(super) peer: Option<IpAddr>,
    pub(super) certificate: Option<&'a Arc<ClientCertificate>>,
    pub(super) method: &'a str,
    pub(super) received: Option<&'a Received>,
}

impl Begun<'_> {
    pub(super) fn end(self, known: Known, parent: Parent, outcome: Outcome) -> Exchange {
        Exchange {
            id: self.id,
            started: self.started,
            started_at: self.started_at,
            client: self.client,
            peer: self.peer,
            certificate: self.certificate.cloned(),
            method: self.method.to_owned(),
            user_agent: self.received.and_then(user_agent),
            parent,
            known,
            outcome,
        }
    }
}
