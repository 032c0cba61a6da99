//! Interim responses (RFC 9110 section 15.2): as many are relayed as the client accepts, the others are dropped.

use std::time::Duration;

use wayleave_upstream::{self as upstream, UpstreamHead};

use super::error::RelayError;

/// The largest total of interim heads that a client gets in one exchange. HTTP/2 does not bound heads that nobody reads.
const MAX_BYTES: usize = 64 * 1024;
/// The overhead of a field, as HTTP/2 counts it (RFC 9113 section 6.5.2).
const FIELD_BYTES: usize = 32;
/// The time for which the final response waits until an interim one has been sent.
pub(super) const FINAL_RESPONSE_DELAY: Duration = Duration::from_secs(1);

/// The interim responses of one exchange.
pub(super) struct InterimResponses {
    left: usize,
    received: usize,
}

impl Default for InterimResponses {
    fn default() -> Self {
        Self { left: MAX_BYTES, received: 0 }
    }
}

impl InterimResponses {
    /// Counts an interim response.
    ///
    /// # Errors
    ///
    /// Returns an error once there are too many.
    pub(super) fn count(&mut self) -> Result<(), RelayError> {
        // Each one starts the timeout for the next head again, so without a limit an origin could go on forever.
        self.received += 1;
        if self.received >= upstream::MAX_INTERIM {
            return Err(upstream::endless_interim_responses().into());
        }
        Ok(())
    }

    /// Returns whether an interim response fits, and takes its size off the remainder.
    pub(super) fn fits(&mut self, head: &UpstreamHead) -> bool {
        let bytes = head
            .fields()
            .into_iter()
            .map(|(name, value)| name.len() + value.len() + FIELD_BYTES)
            .sum();
        match self.left.checked_sub(bytes) {
            Some(left) => self.left = left,
            None => return false,
        }
        true
    }
}

pub(super) fn is_interim(status: u16) -> bool {
    matches!(status, 100 | 102..=199)
}
