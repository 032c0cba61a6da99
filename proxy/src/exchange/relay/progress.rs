//! How far an exchange is, and what can break it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::decide::refusal::Refusal;
use crate::http::client::ClientGone;
use crate::http::proxy_status::ProxyErrorType;
use crate::pacing::TooSoon;
use crate::upstream::egress::ParentProxy;
use crate::upstream::error::UpstreamError;

/// How far an exchange is, as both directions see it.
#[derive(Debug, Default)]
pub(super) struct RelayProgress {
    pub(super) sent_chunk_count: AtomicUsize,
    pub(super) is_sent: AtomicBool,
    pub(super) is_answered: AtomicBool,
    /// The connection authenticates whoever asks on it.
    pub(super) is_connection_authenticated: AtomicBool,
}

impl RelayProgress {
    pub(super) fn sent_chunks(&self) -> usize {
        self.sent_chunk_count.load(Ordering::Relaxed)
    }

    /// Whether waiting for the origin goes on: it does for as long as the client's body is on its way.
    pub(super) fn check_upload_progress(&self, sent_before: usize) -> Result<(), RelayError> {
        if self.sent_chunks() == sent_before {
            let details = "the origin did not answer".to_owned();
            return Err(self.upstream_error(UpstreamError::new(
                ProxyErrorType::HttpResponseTimeout,
                details,
            )));
        }
        Ok(())
    }

    pub(super) fn upstream_error(&self, fault: UpstreamError) -> RelayError {
        RelayError::Upstream {
            fault,
            answered: self.is_answered.load(Ordering::Relaxed),
        }
    }
}

/// What broke an exchange that was under way.
#[derive(Debug)]
pub(crate) enum RelayError {
    /// The origin or the way to it. `answered`: the client has a response's head already.
    Upstream {
        fault: UpstreamError,
        answered: bool,
    },
    /// The client sent a malformed body.
    Body {
        details: &'static str,
        answered: bool,
    },
    /// The client sent nothing more of its body for too long.
    BodyTimeout { answered: bool },
    /// Its use is refused; nothing of the response was handed on.
    Refused(Box<Refusal>),
    /// Its turn ended before it was sent.
    TooSoon(TooSoon),
    /// Other settings hold than those it was decided by, and it was not sent.
    SettingsChanged,
    /// The proxy ends.
    ShutDown,
    /// The client left.
    ClientGone,
    /// The origin's answer is not for the client.
    Withheld,
}

impl RelayError {
    /// The same on the way through a parent proxy, if it is one.
    pub(crate) fn via_parent(self, parent: Option<&ParentProxy>) -> Self {
        match self {
            Self::Upstream { fault, answered } => Self::Upstream {
                fault: fault.through_parent(parent),
                answered,
            },
            other => other,
        }
    }
}

impl From<UpstreamError> for RelayError {
    fn from(fault: UpstreamError) -> Self {
        Self::Upstream {
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
