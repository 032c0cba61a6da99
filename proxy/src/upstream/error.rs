//! Failures on the way to an origin, each with its RFC 9209 error type.

use pingora_error::{Error, ErrorType as PingoraError, RetryType};
use wayleave_http_wire::http1::BodyError;
use wayleave_http_wire::proxy_status::ProxyErrorType;

use crate::upstream::describe;
use crate::upstream::egress::{EgressError, ParentProxy};

/// The message for a request, or its body, that could not be sent in time.
pub(super) const STOPPED_READING: &str = "the origin stopped reading the request";

/// A failure on the way to an origin, in RFC 9209's terms.
#[derive(Clone, Debug)]
pub(crate) struct UpstreamError {
    pub(crate) error_type: ProxyErrorType,
    pub(crate) details: String,
    /// Whether the connection may have died before it took the request, so that a new one may succeed.
    pub(crate) is_stale_connection: bool,
    /// The parent proxy that was dialled instead of the origin.
    pub(crate) next_hop: Option<Box<str>>,
}

impl UpstreamError {
    pub(crate) fn new(error_type: ProxyErrorType, details: String) -> Self {
        Self { error_type, details, is_stale_connection: false, next_hop: None }
    }

    /// Makes the error that a kept connection shows after the origin has closed it.
    pub(crate) fn stale(error_type: ProxyErrorType, details: String) -> Self {
        Self { error_type, details, is_stale_connection: true, next_hop: None }
    }

    /// Adds that the connection went through `parent`, if there is one.
    pub(crate) fn through_parent(self, parent: Option<&ParentProxy>) -> Self {
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

impl From<EgressError> for UpstreamError {
    fn from(error: EgressError) -> Self {
        let kind = match error {
            EgressError::Prohibited { .. } | EgressError::InternalName => {
                ProxyErrorType::DestinationIpProhibited
            }
            EgressError::ParentUnreachable { parent, error } => {
                return parent_error(&parent, *error);
            }
            EgressError::DnsTimeout => ProxyErrorType::DnsTimeout,
            EgressError::NoSourceForFamily { .. } => ProxyErrorType::DestinationIpUnroutable,
            _ => ProxyErrorType::DnsError,
        };
        Self::new(kind, error.to_string())
    }
}

fn parent_error(parent: &str, error: EgressError) -> UpstreamError {
    // The only prohibited address of a parent is one that this proxy listens on.
    let is_loop = error.is_prohibited();
    let fault = UpstreamError::from(error).with_next_hop(parent);
    if is_loop {
        return UpstreamError { error_type: ProxyErrorType::ProxyLoopDetected, ..fault };
    }
    fault
}

/// An error in a response's body.
impl From<BodyError> for UpstreamError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Malformed(details) => Self::new(
                ProxyErrorType::HttpProtocolError,
                format!("the response's body: {details}"),
            ),
            BodyError::Incomplete => {
                let details = "the origin closed the connection in the middle of the body";
                Self::new(ProxyErrorType::HttpResponseIncomplete, details.to_owned())
            }
            BodyError::Timeout => {
                let details = "the origin stopped sending its body";
                Self::new(ProxyErrorType::HttpResponseTimeout, details.to_owned())
            }
            BodyError::Io(error) => Self::new(
                ProxyErrorType::HttpResponseIncomplete,
                format!("the response's body: {}", describe::broken_connection(&error)),
            ),
        }
    }
}

/// An error while an HTTP/2 body was sent.
impl From<Box<Error>> for UpstreamError {
    fn from(error: Box<Error>) -> Self {
        let kind = match error.etype() {
            PingoraError::ReadTimedout => ProxyErrorType::HttpResponseTimeout,
            PingoraError::WriteTimedout => ProxyErrorType::ConnectionWriteTimeout,
            PingoraError::ConnectionClosed | PingoraError::ReadError | PingoraError::WriteError => {
                ProxyErrorType::ConnectionTerminated
            }
            _ => ProxyErrorType::HttpProtocolError,
        };
        // pingora would repeat the first kind of request only after a reused connection failed.
        let stale =
            error.retry == RetryType::ReusedOnly || kind == ProxyErrorType::ConnectionTerminated;
        let http2 = error.cause.as_ref().and_then(|cause| cause.downcast_ref());
        let details = match (http2, kind) {
            (Some(http2), _) => describe::http2(http2),
            (None, ProxyErrorType::ConnectionWriteTimeout) => STOPPED_READING.to_owned(),
            (None, _) => "the HTTP/2 stream failed".to_owned(),
        };
        Self { error_type: kind, details, is_stale_connection: stale, next_hop: None }
    }
}
