//! The progress of a relayed exchange.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use wayleave_decision::Reason;
use wayleave_upstream::error::UpstreamError;

use super::error::RelayError;

/// The progress of an exchange, shared by both directions. One task polls both, so all accesses are relaxed: these are atomics
/// only to make its future `Send`.
#[derive(Debug, Default)]
pub(super) struct RelayProgress {
    /// The number of chunks of the request's body that the origin was sent.
    sent_chunks: AtomicUsize,
    /// Whether the whole request was sent, its body included.
    pub(super) is_upload_complete: AtomicBool,
    /// Whether the client may have a response's head.
    pub(super) is_answered: AtomicBool,
}

impl RelayProgress {
    pub(super) fn sent_chunks(&self) -> usize {
        self.sent_chunks.load(Ordering::Relaxed)
    }

    pub(super) fn count_sent_chunk(&self) {
        self.sent_chunks.fetch_add(1, Ordering::Relaxed);
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
