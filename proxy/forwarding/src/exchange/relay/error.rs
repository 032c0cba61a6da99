//! The errors that end an attempt to forward a request. `attempt` sends it again after some of them.

use wayleave_admission::StartError;
use wayleave_admission::outcome::RequestRepeat;
use wayleave_decision::Refusal;
use wayleave_pacing::TooSoon;
use wayleave_transport::http::downstream::ClientGone;
use wayleave_upstream::egress::ParentProxy;
use wayleave_upstream::error::UpstreamError;

/// The error that ended an attempt.
#[derive(Debug)]
pub(crate) enum RelayError {
    /// The origin or the path to it failed. `answered`: the client may already have a response's head.
    Upstream { fault: UpstreamError, answered: bool },
    /// The client sent a malformed body.
    Body { details: &'static str, answered: bool },
    /// The client stopped sending its body.
    BodyTimeout { answered: bool },
    /// The response is refused. `answered`: the client has its head, and not all of its body.
    Refused { refusal: Box<Refusal>, answered: bool },
    /// The slot ended before the request was sent.
    TooSoon(TooSoon),
    /// Other settings than those of the decision are in effect, and the request was not sent.
    SettingsChanged,
    /// The proxy shuts down.
    ShutDown,
    /// The client left, or stopped reading.
    ClientGone(ClientGone),
    /// The response is not for the client: it asks for a signature.
    SignatureRequested,
    /// The request must be sent again, in another slot: `admit_and_forward` (`exchange/mod.rs`) decides again and repeats it.
    Repeat(RequestRepeat),
}

impl RelayError {
    /// Adds the parent proxy to the error, if there is one.
    pub(crate) fn through_parent(self, parent: Option<&ParentProxy>) -> Self {
        match self {
            Self::Upstream { fault, answered } => {
                Self::Upstream { fault: fault.through_parent(parent), answered }
            }
            other => other,
        }
    }
}

impl From<Box<Refusal>> for RelayError {
    fn from(refusal: Box<Refusal>) -> Self {
        Self::Refused { refusal, answered: false }
    }
}

impl From<StartError<Self>> for RelayError {
    fn from(error: StartError<Self>) -> Self {
        match error {
            StartError::Refused(refusal) => refusal.into(),
            StartError::Body(broken) => broken,
        }
    }
}

impl From<UpstreamError> for RelayError {
    fn from(fault: UpstreamError) -> Self {
        Self::Upstream { fault, answered: false }
    }
}

impl From<ClientGone> for RelayError {
    fn from(gone: ClientGone) -> Self {
        Self::ClientGone(gone)
    }
}
