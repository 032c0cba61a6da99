//! The errors that end a connection.

use std::borrow::Cow;

/// A reason why no further message of a peer is read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum IcapError {
    /// The peer is gone, or does not read: nobody gets an answer.
    Gone,
    /// The peer's message is answered with this status.
    Refused { status: IcapStatus, detail: Cow<'static, str> },
}

/// A status of ICAP that is not about the client's message (RFC 3507 section 4.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IcapStatus {
    BadRequest,
    Unauthorized,
    NotFound,
    MethodNotAllowed,
    Timeout,
    TooLarge,
    ServerError,
    VersionNotSupported,
}

impl IcapStatus {
    /// Returns the number and the phrase of the status line.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::BadRequest => "400 Bad Request",
            Self::Unauthorized => "401 Unauthorized",
            Self::NotFound => "404 ICAP Service Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed For Service",
            Self::Timeout => "408 Request Timeout",
            Self::TooLarge => "413 Request Too Large",
            Self::ServerError => "500 Server Error",
            Self::VersionNotSupported => "505 ICAP Version Not Supported",
        }
    }
}

impl IcapError {
    pub(super) fn new(status: IcapStatus, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused { status, detail: detail.into() }
    }

    /// Describes a message that two readers could read in two ways.
    pub(super) fn malformed(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(IcapStatus::BadRequest, detail)
    }
}
