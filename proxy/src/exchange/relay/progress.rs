//! How far an exchange is, and what can break it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::decide::refusal::Refusal;
use crate::http::client::ClientGone;
use crate::http::proxy_status::ErrorType;
use crate::origin::egress::Parent;
use crate::origin::error::Fault;
use crate::politeness::TooSoon;

/// How far an exchange is, as both directions see it.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) sent_parts: AtomicUsize,
    pub(super) is_sent: AtomicBool,
    pub(super) is_answered: AtomicBool,
    /// The connection authenticates whoever asks on it.
    pub(super) is_somebodys: AtomicBool,
}

impl Progress {
    pub(super) fn sent(&self) -> usize {
        self.sent_parts.load(Ordering::Relaxed)
    }

    /// Whether waiting for the origin goes on: it does for as long as the client's body is on its way.
    pub(super) fn goes_on(&self, sent_before: usize) -> Result<(), RelayError> {
        if self.sent() == sent_before {
            let details = "the origin did not answer".to_owned();
            return Err(self.answered(Fault::new(ErrorType::HttpResponseTimeout, details)));
        }
        Ok(())
    }

    pub(super) fn answered(&self, fault: Fault) -> RelayError {
        RelayError::Origin {
            fault,
            answered: self.is_answered.load(Ordering::Relaxed),
        }
    }
}

/// What broke an exchange that was under way.
#[derive(Debug)]
pub(crate) enum RelayError {
    /// The origin or the way to it. `answered`: the client has a response's head already.
    Origin { fault: Fault, answered: bool },
    /// The client sent a malformed body.
    Body {
        details: &'static str,
        answered: bool,
    },
    /// The client sent nothing more of its body for too long.
    Late { answered: bool },
    /// Its use is refused; nothing of the response was handed on.
    Refused(Box<Refusal>),
    /// Its turn ended before it was sent.
    TooSoon(TooSoon),
    /// Other settings hold than those it was decided by, and it was not sent.
    Outdated,
    /// The proxy ends.
    Cut,
    /// The client left.
    ClientGone,
    /// The origin's answer is not for the client.
    Withheld,
}

impl RelayError {
    /// The same on the way through a parent proxy, if it is one.
    pub(crate) fn by(self, parent: Option<&Parent>) -> Self {
        match self {
            Self::Origin { fault, answered } => Self::Origin {
                fault: fault.by(parent),
                answered,
            },
            other => other,
        }
    }
}

impl From<Fault> for RelayError {
    fn from(fault: Fault) -> Self {
        Self::Origin {
            fault,
            answered: false,
        }
    }
}

impl From<ClientGone> for RelayError {
    fn from(_: ClientGone) -> Self {
        Self::ClientGone
    }
}
