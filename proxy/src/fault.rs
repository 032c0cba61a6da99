//! What failed on the way to an origin.

use pingora_error::{Error, ErrorType as PingoraError};

use crate::egress::EgressError;
use crate::proxy_status::ErrorType;

/// A failure on the way to an origin, in RFC 9209's terms.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) error: ErrorType,
    pub(crate) details: String,
    /// The connection had served before and died before it answered: another one may do.
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
}

impl From<EgressError> for Fault {
    fn from(error: EgressError) -> Self {
        let kind = match error {
            EgressError::Prohibited { .. } => ErrorType::DestinationIpProhibited,
            EgressError::DnsTimeout => ErrorType::DnsTimeout,
            _ => ErrorType::DnsError,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<Box<Error>> for Fault {
    fn from(error: Box<Error>) -> Self {
        let kind = match error.etype() {
            PingoraError::ReadTimedout => ErrorType::HttpResponseTimeout,
            PingoraError::WriteTimedout => ErrorType::ConnectionWriteTimeout,
            PingoraError::ConnectionClosed | PingoraError::ReadError | PingoraError::WriteError => {
                ErrorType::ConnectionTerminated
            }
            PingoraError::Custom("PrematureBodyEnd") => ErrorType::HttpResponseIncomplete,
            _ => ErrorType::HttpProtocolError,
        };
        let stale = error.retry() || is_closed(&error);
        Self {
            error: kind,
            details: describe(&error),
            stale_connection: stale,
        }
    }
}

/// A connection that the origin had closed shows on the first write or the first read.
fn is_closed(error: &Error) -> bool {
    matches!(
        error.etype(),
        PingoraError::ConnectionClosed | PingoraError::WriteError | PingoraError::ReadError
    )
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
