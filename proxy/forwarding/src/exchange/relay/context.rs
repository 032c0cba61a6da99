//! The parameters of an exchange that both directions share.

use std::time::Duration;

use wayleave_http_wire::received::ReceivedHead;
use wayleave_pacing::PacingSlot;
use wayleave_pacing::budget::ByteMeter;

/// The parameters of relaying both bodies.
#[derive(Clone, Copy)]
pub(crate) struct RelayContext<'a> {
    pub(crate) received: &'a ReceivedHead,
    /// The proxy's pseudonym.
    pub(crate) name: &'a str,
    /// The timeout of each upstream read and write.
    pub(crate) timeout: Duration,
    /// The request's slot, if it needed one.
    pub(crate) slot: Option<&'a PacingSlot<'a>>,
    /// Counts the bytes of the body that the origin sent, if they are limited.
    pub(crate) byte_meter: Option<ByteMeter<'a>>,
}
