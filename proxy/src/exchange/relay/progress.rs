//! The progress of a relayed exchange, and the errors that end it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use wayleave_decision::{Reason, Refusal};

use crate::http::downstream::ClientGone;
use crate::pacing::TooSoon;
use crate::upstream::egress::ParentProxy;
use crate::upstream::error::UpstreamError;

/// The progress of an exchange, shared by both directions. One task polls both, so all accesses are relaxed: these are atomics
/// only to make its future `Send`.
#[derive(Debug, Default)]
pub(super) struct RelayProgress {
    /// The number of chunks of the request's body that the origin was sent.
    pub(super) sent_chunk_count: AtomicUsize,
    /// Whether the whole request was sent, its body included.
    pub(super) is_upload_complete: AtomicBool,
    /// Whether the client may have a response's head.
    pub(super) is_answered: AtomicBool,
    /// Whether the connection is authenticated for one client (NTLM, Negotiate), so that no other may use it.
    pub(super) is_connection_authenticated: AtomicBool,
}

impl RelayProgress {
    pub(super) fn sent_chunks(&self) -> usize {
        self.sent_chunk_count.load(Ordering::Relaxed)
    }

    /// Checks that the client's body is still being sent; if so, the wait for the origin starts again.
    ///
    /// # Errors
    ///
    /// Returns a timeout if no chunk was sent since there were `sent_before`.
    pub(super) fn check_upload_progress(&self, sent_before: usize) -> Result<(), RelayError> {
        if self.sent_chunks() == sent_before {
            let details = "the origin sent nothing in time".to_owned();
            return Err(
                self.upstream_error(UpstreamError::new(Reason::HttpResponseTimeout, details))
            );
        }
        Ok(())
    }

    /// Returns the error of the exchange for a failure upstream.
    pub(super) fn upstream_error(&self, fault: UpstreamError) -> RelayError {
        RelayError::Upstream { fault, answered: self.is_answered.load(Ordering::Relaxed) }
    }
}

/// The error that ended an exchange.
#[derive(Debug)]
pub(crate) enum RelayError {
    /// The origin or the path to it failed. `answered`: the client may already have a response's head.
    Upstream { fault: UpstreamError, answered: bool },
    /// The client sent a malformed body.
    Body { details: &'static str, answered: bool },
    /// The client stopped sending its body.
    BodyTimeout { answered: bool },
    /// The use of the response is refused; the client got nothing of it.
    Refused(Box<Refusal>),
    /// The slot ended before the request was sent.
    TooSoon(TooSoon),
    /// Other settings than those of the decision are in effect, and the request was not sent.
    SettingsChanged,
    /// The proxy shuts down.
    ShutDown,
    /// The client left.
    ClientGone,
    /// The response is not for the client: it asks for a signature.
    SignatureRequested,
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

impl From<UpstreamError> for RelayError {
    fn from(fault: UpstreamError) -> Self {
        Self::Upstream { fault, answered: false }
    }
}

impl From<ClientGone> for RelayError {
    fn from(_: ClientGone) -> Self {
        Self::ClientGone
    }
}
