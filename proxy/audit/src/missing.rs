//! Gaps in the log and the archive about a request, which leave its decision under another configuration open.

/// A reason for which a decision cannot be derived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Its robots.txt was never asked for, or is no longer kept.
    RobotsTxt,
    /// A copy that no longer decided in one dialect, but might in another, is not recorded.
    LapsedRobotsTxt,
    /// Documents about use that were never asked for.
    Documents,
    /// The statements about use of the page itself, or of the head of its response: it was not fetched, or not looked at.
    ResponsePreferences,
    /// The requests inside a tunnel that was not inspected.
    TunnelContent,
    /// Certificates of clients are not logged.
    Certificate,
    /// Passwords are not logged.
    Password,
    /// The client's address is not logged as a whole, and the new configuration recognises crawlers by it.
    ClientAddress,
    /// The User-Agent was cut off.
    UserAgent,
    /// It came too fast, and the new configuration keeps another pace.
    Pace,
    /// The line, or a document that it names, cannot be read.
    Unreadable(String),
}

impl Missing {
    /// Returns the reason as a phrase.
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::RobotsTxt => "the origin's robots.txt was never asked for",
            Self::LapsedRobotsTxt => "a robots.txt that had lapsed is not recorded",
            Self::Documents => "documents about use were never asked for",
            Self::ResponsePreferences => "preferences in a response that was not looked at",
            Self::TunnelContent => "the requests inside a tunnel are not known",
            Self::Certificate => "certificates of clients are not logged",
            Self::Password => "passwords are not logged",
            Self::ClientAddress => "the client's address is not logged",
            Self::UserAgent => "the User-Agent was cut off",
            Self::Pace => "the pace of requests would be another",
            Self::Unreadable(details) => details,
        }
    }
}
