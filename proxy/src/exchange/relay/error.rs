//! What can break an exchange that is under way.

use crate::decide::refusal::Refusal;
use crate::http::client::ClientGone;
use crate::origin::egress::Parent;
use crate::origin::error::Fault;
use crate::politeness::TooSoon;

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
