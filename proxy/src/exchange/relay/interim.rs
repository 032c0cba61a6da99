//! Interim responses (RFC 9110 section 15.2): as many are passed on as the client takes, the others are dropped.

use std::time::Duration;

use super::progress::RelayError;
use crate::origin::{self, OriginHead};

/// The most that a client is handed in one exchange. HTTP/2 bounds no heads that nobody reads.
const MAX_BYTES: usize = 64 * 1024;
/// What a field takes beside its octets, as HTTP/2 counts it (RFC 9113 section 6.5.2).
const FIELD_BYTES: usize = 32;
/// How long the final response waits for an interim one to leave.
pub(super) const LAST_WAITS: Duration = Duration::from_secs(1);

/// What came before the final response.
pub(super) struct Interim {
    left: usize,
    heard: usize,
}

impl Default for Interim {
    fn default() -> Self {
        Self {
            left: MAX_BYTES,
            heard: 0,
        }
    }
}

impl Interim {
    /// Counts one.
    pub(super) fn hear(&mut self) -> Result<(), RelayError> {
        self.heard += 1;
        if self.heard >= origin::MAX_INTERIM {
            return Err(origin::only_interim().into());
        }
        Ok(())
    }

    /// Whether there is room for one.
    pub(super) fn fits(&mut self, head: &OriginHead) -> bool {
        let fields = head.fields().into_iter();
        let bytes = fields.map(|(name, value)| name.len() + value.len() + FIELD_BYTES);
        match self.left.checked_sub(bytes.sum()) {
            Some(left) => self.left = left,
            None => return false,
        }
        true
    }
}

pub(super) fn is_interim(status: u16) -> bool {
    matches!(status, 100 | 102..=199)
}
