//! How far an exchange is.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::error::RelayError;
use crate::http::proxy_status::ErrorType;
use crate::origin::error::Fault;

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
