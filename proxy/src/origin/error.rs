//! Failures on the way to an origin, each with its RFC 9209 error type.

use pingora_error::{Error, ErrorType as PingoraError, RetryType};

use crate::http::http1::BodyError;
use crate::http::proxy_status::ErrorType;
use crate::origin::cause;
use crate::origin::egress::{EgressError, Parent};

/// The message for a request, or its body, that could not be sent in time.
pub(super) const STOPPED_READING: &str = "the origin stopped reading the request";

/// A failure on the way to an origin, in RFC 9209's terms.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) error: ErrorType,
    pub(crate) details: String,
    /// Whether the connection may have died before it took the request, so that a new one may succeed.
    pub(crate) stale_connection: bool,
    /// The parent proxy that was dialled instead of the origin.
    pub(crate) next_hop: Option<Box<str>>,
}

impl Fault {
    pub(crate) fn new(error: ErrorType, details: String) -> Self {
        Self {
            error,
            details,
            stale_connection: false,
            next_hop: None,
        }
    }

    /// Makes the error that a kept connection shows after the origin has closed it.
    pub(crate) fn stale(error: ErrorType, details: String) -> Self {
        Self {
            error,
            details,
            stale_connection: true,
            next_hop: None,
        }
    }

    /// Adds that the connection went through `parent`, if there is one.
    pub(crate) fn by(self, parent: Option<&Parent>) -> Self {
        match parent {
            Some(parent) if self.next_hop.is_none() => self.named(&parent.authority()),
            _ => self,
        }
    }

    fn named(self, parent: &str) -> Self {
        Self {
            details: format!("through the parent proxy {parent}: {}", self.details),
            next_hop: Some(parent.into()),
            ..self
        }
    }
}

impl From<EgressError> for Fault {
    fn from(error: EgressError) -> Self {
        let kind = match error {
            EgressError::Prohibited { .. } | EgressError::InternalName => {
                ErrorType::DestinationIpProhibited
            }
            EgressError::OfParent { parent, error } => return of_parent(&parent, *error),
            EgressError::DnsTimeout => ErrorType::DnsTimeout,
            EgressError::OtherFamily { .. } => ErrorType::DestinationIpUnroutable,
            _ => ErrorType::DnsError,
        };
        Self::new(kind, error.to_string())
    }
}

fn of_parent(parent: &str, error: EgressError) -> Fault {
    let is_loop = error.is_prohibited();
    let fault = Fault::from(error).named(parent);
    if is_loop {
        return Fault {
            error: ErrorType::ProxyLoopDetected,
            ..fault
        };
    }
    fault
}

/// An error in a response's body.
impl From<BodyError> for Fault {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Malformed(details) => Self::new(
                ErrorType::HttpProtocolError,
                format!("the response's body: {details}"),
            ),
            BodyError::Incomplete => {
                let details = "the origin closed the connection in the middle of the body";
                Self::new(ErrorType::HttpResponseIncomplete, details.to_owned())
            }
            BodyError::Late => {
                let details = "the origin stopped sending its body";
                Self::new(ErrorType::HttpResponseTimeout, details.to_owned())
            }
            BodyError::Io(error) => Self::new(
                ErrorType::HttpResponseIncomplete,
                format!("the response's body: {}", cause::broken(&error)),
            ),
        }
    }
}

/// An error while an HTTP/2 body was sent.
impl From<Box<Error>> for Fault {
    fn from(error: Box<Error>) -> Self {
        let kind = match error.etype() {
            PingoraError::ReadTimedout => ErrorType::HttpResponseTimeout,
            PingoraError::WriteTimedout => ErrorType::ConnectionWriteTimeout,
            PingoraError::ConnectionClosed | PingoraError::ReadError | PingoraError::WriteError => {
                ErrorType::ConnectionTerminated
            }
            _ => ErrorType::HttpProtocolError,
        };
        let stale = error.retry == RetryType::ReusedOnly || kind == ErrorType::ConnectionTerminated;
        let http2 = error.cause.as_ref().and_then(|cause| cause.downcast_ref());
        let details = match (http2, kind) {
            (Some(http2), _) => cause::http2(http2),
            (None, ErrorType::ConnectionWriteTimeout) => STOPPED_READING.to_owned(),
            (None, _) => "the HTTP/2 stream failed".to_owned(),
        };
        Self {
            error: kind,
            details,
            stale_connection: stale,
            next_hop: None,
        }
    }
}
