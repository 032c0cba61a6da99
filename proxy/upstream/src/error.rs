//! Failures on the way to an origin, each with the reason that the log and `Proxy-Status` state.

use std::time::Duration;

use pingora_error::{Error, ErrorType as PingoraError, RetryType};
use wayleave_decision::{Reason, Refusal, RefusalBasis};
use wayleave_http_wire::http1::BodyError;

use crate::describe;
use crate::egress::{EgressError, ParentProxy};

/// The time after which to ask again while this machine lacks something.
const LACK_OF_RESOURCES: Duration = Duration::from_secs(2);
/// The message for a request, or its body, that could not be sent in time.
pub(super) const STOPPED_READING: &str = "the origin stopped reading the request";

/// The way in which an origin wants a request that it has not begun to serve (RFC 9113 section 8.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unprocessed {
    OnAnotherConnection,
    OverHttp1,
}

/// A failure on the way to an origin.
#[derive(Clone, Debug)]
pub struct UpstreamError {
    /// The reason, one of those that are also error types of RFC 9209 section 2.3.
    pub reason: Reason,
    pub details: String,
    /// Whether the connection may have died before it took the request, so that a new one may succeed.
    pub is_stale_connection: bool,
    /// The origin's statement that it has not begun to serve the request, which may be sent again whatever its method.
    pub unprocessed: Option<Unprocessed>,
    /// Whether the origin was not asked for a reason on this side: this machine's, or its parent proxy's.
    pub is_own_fault: bool,
    /// The parent proxy that was dialled instead of the origin.
    pub next_hop: Option<Box<str>>,
}

impl UpstreamError {
    pub fn new(reason: Reason, details: String) -> Self {
        Self {
            reason,
            details,
            is_stale_connection: false,
            unprocessed: None,
            is_own_fault: false,
            next_hop: None,
        }
    }

    /// Returns the same error of a connection on which the origin was not asked, for a reason on this side.
    pub(super) fn on_this_side(self) -> Self {
        Self { is_own_fault: true, ..self }
    }

    /// Makes the error that a kept connection shows after the origin has closed it.
    pub fn stale(reason: Reason, details: String) -> Self {
        Self { is_stale_connection: true, ..Self::new(reason, details) }
    }

    /// Makes the error of a request that the origin has not begun to serve.
    pub(super) fn unprocessed(unprocessed: Unprocessed, details: String) -> Self {
        Self { unprocessed: Some(unprocessed), ..Self::new(Reason::HttpProtocolError, details) }
    }

    /// Adds that the connection went through `parent`, if there is one.
    pub fn through_parent(self, parent: Option<&ParentProxy>) -> Self {
        match parent {
            Some(parent) if self.next_hop.is_none() => self.with_next_hop(&parent.authority()),
            _ => self,
        }
    }

    fn with_next_hop(self, parent: &str) -> Self {
        Self {
            details: format!("through the parent proxy {parent}: {}", self.details),
            next_hop: Some(parent.into()),
            ..self
        }
    }
}

impl From<UpstreamError> for Refusal {
    fn from(fault: UpstreamError) -> Self {
        let parent = fault.next_hop.map(RefusalBasis::ParentProxy);
        let refusal = Self::new(fault.reason, fault.details);
        // A descriptor is free as soon as some other connection ends.
        let is_short = fault.reason == Reason::ProxyInternalError;
        let retry_after = is_short.then_some(LACK_OF_RESOURCES);
        Self { basis: parent.map(Box::new), retry_after, ..refusal }
    }
}

impl From<EgressError> for UpstreamError {
    fn from(error: EgressError) -> Self {
        let reason = match error {
            EgressError::Prohibited { .. } | EgressError::InternalName => {
                Reason::DestinationIpProhibited
            }
            EgressError::ParentUnreachable { parent, error } => {
                return parent_error(&parent, *error);
            }
            EgressError::DnsTimeout => Reason::DnsTimeout,
            EgressError::NoSourceForFamily { .. } => Reason::DestinationIpUnroutable,
            _ => Reason::DnsError,
        };
        Self::new(reason, error.to_string())
    }
}

fn parent_error(parent: &str, error: EgressError) -> UpstreamError {
    // The only prohibited address of a parent is one that this proxy listens on.
    let is_loop = error.is_prohibited();
    let error = UpstreamError::from(error).with_next_hop(parent);
    if is_loop {
        return UpstreamError { reason: Reason::ProxyLoopDetected, ..error };
    }
    error
}

/// An error in a response's body.
impl From<BodyError> for UpstreamError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Malformed(details) => {
                Self::new(Reason::HttpProtocolError, format!("the response's body: {details}"))
            }
            BodyError::Incomplete => {
                let details = "the origin closed the connection in the middle of the body";
                Self::new(Reason::HttpResponseIncomplete, details.to_owned())
            }
            BodyError::Timeout => {
                let details = "the origin stopped sending its body";
                Self::new(Reason::HttpResponseTimeout, details.to_owned())
            }
            BodyError::Io(error) => Self::new(
                Reason::HttpResponseIncomplete,
                format!("the response's body: {}", describe::broken_connection(&error)),
            ),
        }
    }
}

/// An error while an HTTP/2 body was sent.
impl From<Box<Error>> for UpstreamError {
    fn from(error: Box<Error>) -> Self {
        let reason = match error.etype() {
            PingoraError::ReadTimedout => Reason::HttpResponseTimeout,
            PingoraError::WriteTimedout => Reason::ConnectionWriteTimeout,
            PingoraError::ConnectionClosed | PingoraError::ReadError | PingoraError::WriteError => {
                Reason::ConnectionTerminated
            }
            _ => Reason::HttpProtocolError,
        };
        // pingora would repeat the first kind of request only after a reused connection failed.
        let stale = error.retry == RetryType::ReusedOnly || reason == Reason::ConnectionTerminated;
        let http2 = error.cause.as_ref().and_then(|cause| cause.downcast_ref());
        let details = match (http2, reason) {
            (Some(http2), _) => describe::http2(http2),
            (None, Reason::ConnectionWriteTimeout) => STOPPED_READING.to_owned(),
            (None, _) => "the HTTP/2 stream failed".to_owned(),
        };
        Self { is_stale_connection: stale, ..Self::new(reason, details) }
    }
}
