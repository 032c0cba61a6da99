//! Errors on the way to an origin, and the RFC 9209 error type of each.

use pingora_error::{Error, ErrorType as PingoraError, RetryType};

use crate::http::http1::BodyError;
use crate::http::proxy_status::ErrorType;
use crate::origin::egress::EgressError;

/// A failure on the way to an origin, in RFC 9209's terms.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) error: ErrorType,
    pub(crate) details: String,
    /// The connection may have died before it took the request: another one may do.
    pub(crate) stale_connection: bool,
}

impl Fault {
    pub(crate) fn new(error: ErrorType, details: String) -> Self {
        Self {
            error,
            details,
            stale_connection: false,
        }
    }

    /// A failure that a kept connection shows when the origin had closed it.
    pub(crate) fn stale(error: ErrorType, details: String) -> Self {
        Self {
            error,
            details,
            stale_connection: true,
        }
    }
}

impl From<EgressError> for Fault {
    fn from(error: EgressError) -> Self {
        let kind = match error {
            EgressError::Prohibited { .. } => ErrorType::DestinationIpProhibited,
            EgressError::DnsTimeout => ErrorType::DnsTimeout,
            EgressError::OtherFamily { .. } => ErrorType::DestinationIpUnroutable,
            _ => ErrorType::DnsError,
        };
        Self::new(kind, error.to_string())
    }
}

/// What broke a response's body.
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
                format!("the response's body: {error}"),
            ),
        }
    }
}

/// What broke an HTTP/2 stream.
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
        Self {
            error: kind,
            details: describe(&error),
            stale_connection: stale,
        }
    }
}

/// pingora's own words, on one line: the kind, what it was doing, and what caused it.
pub(crate) fn describe(error: &Error) -> String {
    let mut text = error.etype().as_str().to_owned();
    if let Some(context) = &error.context {
        text.push_str(": ");
        text.push_str(context.as_str());
    }
    if let Some(cause) = &error.cause {
        let cause = cause.to_string();
        text.push_str(": ");
        text.push_str(cause.trim());
    }
    text.replace(char::is_control, " ")
}
