//! The outcome of a request, and the answer still owed to its client.

use std::sync::Arc;
use std::time::Duration;

use wayleave_decision::{Permit, Reason, Refusal, RequestOutcome};
use wayleave_lifecycle::FinishedFetch;
use wayleave_robots_cache::CopyHead;
use wayleave_signing::SignatureRequest;
use wayleave_transport::http::downstream::ClientGone;

/// The outcome of a request.
#[derive(Clone, Debug)]
pub enum ExchangeOutcome {
    /// The origin's response reached the client completely.
    Forward { status: u16, reason: Reason },
    /// The origin's response reached the client, though the request would have been refused in mode enforce.
    Observe { status: u16, refusal: Refusal },
    /// An uninspected tunnel opened.
    Tunnel { reason: Reason },
    /// Nothing of the request left this proxy.
    Refuse(Refusal),
    /// The origin answered, but the client got nothing of it.
    Withhold(Refusal),
    /// The request was allowed, but the origin or the path to it failed; or the origin's name could not be resolved to fetch its
    /// robots.txt; or the client left.
    Fail(Refusal),
    /// The response was cut after its client had the head, with this status.
    Cut { status: u16, failure: Refusal },
}

/// The cause for sending a request again, in another slot. `admit_and_forward` in `proxy/forwarding/src/exchange` does so.
#[derive(Debug)]
pub enum RequestRepeat {
    /// The origin had closed the kept connection: a new one is needed.
    StaleConnection,
    /// The origin has refused this many times to begin serving it.
    Unprocessed { times: usize },
    /// The origin asked for this signature.
    Signature(Box<SignatureRequest>),
}

impl RequestRepeat {
    /// Returns how often the origin has refused to begin serving the request.
    pub fn times_unprocessed(&self) -> usize {
        match self {
            Self::Unprocessed { times } => *times,
            Self::StaleConnection | Self::Signature(_) => 0,
        }
    }
}

impl ExchangeOutcome {
    /// Returns the outcome as the log and the metrics know it.
    pub fn request_outcome(&self) -> RequestOutcome {
        match self {
            Self::Forward { .. } => RequestOutcome::Forwarded,
            Self::Observe { .. } => RequestOutcome::Observed,
            Self::Tunnel { .. } => RequestOutcome::Tunnelled,
            Self::Refuse(_) | Self::Withhold(_) => RequestOutcome::Refused,
            Self::Fail(_) | Self::Cut { .. } => RequestOutcome::Failed,
        }
    }

    /// Returns the reason for the outcome.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Forward { reason, .. } | Self::Tunnel { reason } => *reason,
            Self::Observe { refusal, .. }
            | Self::Refuse(refusal)
            | Self::Withhold(refusal)
            | Self::Fail(refusal)
            | Self::Cut { failure: refusal, .. } => refusal.reason,
        }
    }

    /// Returns the refusal or failure, also if it was only observed.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Forward { .. } | Self::Tunnel { .. } => None,
            Self::Observe { refusal, .. }
            | Self::Refuse(refusal)
            | Self::Withhold(refusal)
            | Self::Fail(refusal)
            | Self::Cut { failure: refusal, .. } => Some(refusal),
        }
    }

    /// Returns the status of a refusal that was only observed.
    pub fn would_be(&self) -> Option<u16> {
        match self {
            Self::Observe { refusal, .. } => Some(refusal.status),
            _ => None,
        }
    }

    /// Returns the status that the client got, or would have got if it had waited.
    pub fn status(&self) -> u16 {
        match self {
            Self::Forward { status, .. }
            | Self::Observe { status, .. }
            | Self::Cut { status, .. } => *status,
            Self::Tunnel { .. } => 200,
            Self::Refuse(refusal) | Self::Withhold(refusal) | Self::Fail(refusal) => refusal.status,
        }
    }

    /// Returns the outcome if the client has a response's head with this status: a later failure cut the response.
    pub fn after_head(self, status: Option<u16>) -> Self {
        match (self, status) {
            (Self::Fail(failure), Some(status)) => Self::Cut { status, failure },
            (outcome, _) => outcome,
        }
    }
}

impl From<Refusal> for ExchangeOutcome {
    /// Creates the outcome of a request that did not leave this proxy.
    fn from(refusal: Refusal) -> Self {
        if refusal.is_failure {
            return Self::Fail(refusal);
        }
        Self::Refuse(refusal)
    }
}

/// The state of a client's connection after an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionReuse {
    /// The next request may follow if both sides keep the connection.
    Whole,
    /// The connection closes; the client has its complete answer.
    Closed,
    /// The connection closes, and the client must see that the response is incomplete.
    CutOff,
}

/// The answer that the client gets once the outcome is recorded.
#[derive(Debug)]
pub enum ReplyKind {
    /// None: it has its answer, as far as there is one.
    Given(ConnectionReuse),
    /// The refusal or the failure.
    Refusal,
    /// The answer of the final recipient (`Max-Forwards: 0`).
    LastHop,
    /// The copy of robots.txt.
    Copy(CopyReply),
}

/// The answer to a request for robots.txt, from the copy that decides.
#[derive(Debug)]
pub enum CopyReply {
    /// The file; or only that the client's own copy is still good.
    File {
        head: Arc<CopyHead>,
        /// The file itself; `None` if the client wants no content.
        content: Option<Arc<FinishedFetch>>,
        age: Duration,
        is_not_modified: bool,
    },
    /// The status by which the origin has none.
    Missing { status: u16, age: Duration },
    /// Nothing usable came from the origin.
    Unreachable(Box<Refusal>),
}

impl CopyReply {
    pub fn status(&self) -> u16 {
        match self {
            Self::File { is_not_modified: true, .. } => 304,
            Self::File { .. } => 200,
            Self::Missing { status, .. } => *status,
            Self::Unreachable(refusal) => refusal.status,
        }
    }
}

/// The reason why a request is not sent.
#[derive(Debug)]
pub enum NotSent {
    Refused(Refusal),
    /// It is answered from the copy of robots.txt, with this outcome.
    FromCopy(Box<(ExchangeOutcome, CopyReply)>),
    /// This proxy is its final recipient (`Max-Forwards: 0`).
    LastHop,
    /// The client left before the request could be sent.
    ClientLeft,
    /// The proxy shut down before the request could be sent.
    ShutDown,
}

impl NotSent {
    /// Returns the outcome, and the answer still owed to the client.
    pub fn into_outcome(self) -> (ExchangeOutcome, ReplyKind) {
        // No answer: a client that left reads none, and the shutdown does not wait for one to be read.
        let nothing = ReplyKind::Given(ConnectionReuse::CutOff);
        match self {
            Self::Refused(refusal) => (refusal.into(), ReplyKind::Refusal),
            Self::FromCopy(answered) => (answered.0, ReplyKind::Copy(answered.1)),
            Self::LastHop => (ExchangeOutcome::Refuse(last_hop()), ReplyKind::LastHop),
            Self::ClientLeft => (ExchangeOutcome::Fail(client_closed(ClientGone::Left)), nothing),
            Self::ShutDown => (ExchangeOutcome::Fail(shut_down()), nothing),
        }
    }
}

/// Returns the outcome of a permitted request whose response has this status.
pub fn permitted_outcome(permit: &Permit, status: u16) -> ExchangeOutcome {
    let reason = permit.reason;
    match permit.observed.clone() {
        Some(refusal) => ExchangeOutcome::Observe { status, refusal },
        None if permit.resolved.is_blind() => ExchangeOutcome::Tunnel { reason },
        None => ExchangeOutcome::Forward { status, reason },
    }
}

/// Returns the refusal that is recorded of a request that ends at this proxy (`Max-Forwards: 0`).
fn last_hop() -> Refusal {
    Refusal::new(Reason::MaxForwards, "Max-Forwards: 0 ends the request here")
}

/// Returns the failure of a request that was cancelled because the proxy shuts down.
pub fn shut_down() -> Refusal {
    let details = "the proxy ended before the response was complete";
    Refusal::new(Reason::Shutdown, details)
}

/// Returns the failure of a request whose client left, or stopped reading.
pub fn client_closed(gone: ClientGone) -> Refusal {
    let details = match gone {
        ClientGone::Left => "the client left before the response was complete",
        ClientGone::StoppedReading => "the client stopped reading before the response was complete",
        ClientGone::ReadSlowly => {
            "the client read too slowly while other requests waited for its slot at the origin"
        }
    };
    Refusal::new(Reason::ClientClosed, details)
}
