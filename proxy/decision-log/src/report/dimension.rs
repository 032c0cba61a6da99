//! Keys that requests are counted by.

use clap::ValueEnum;

/// The name of requests that have none: their target could not be parsed, or they have no User-Agent.
pub(super) const NO_NAME: &str = "-";

/// The key that requests are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum ReportDimension {
    /// By the configured name
    Crawler,
    /// By the host that was requested
    Host,
    /// By the origin: the host with its scheme and port
    Origin,
    /// By the line of robots.txt, the `[[rule]]` or the usage preference that decided, else by the reason
    Rule,
    /// By the reason
    Reason,
    /// By the first product token
    Token,
    /// By the User-Agent, as far as the log has it
    UserAgent,
    /// By the client's address, as the log has it
    Client,
}

impl ReportDimension {
    /// Returns the word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Crawler => "crawler",
            Self::Host => "host",
            Self::Origin => "origin",
            Self::Rule => "rule",
            Self::Reason => "reason",
            Self::Token => "token",
            Self::UserAgent => "user-agent",
            Self::Client => "client",
        }
    }

    /// Returns the two others of which the first is named.
    pub fn others(self) -> [Self; 2] {
        match self {
            Self::Token => [Self::UserAgent, Self::Client],
            Self::UserAgent => [Self::Token, Self::Client],
            Self::Client => [Self::Token, Self::UserAgent],
            Self::Crawler => [Self::Rule, Self::Host],
            Self::Host | Self::Origin => [Self::Rule, Self::Crawler],
            Self::Rule | Self::Reason => [Self::Crawler, Self::Host],
        }
    }

    /// Returns whether it is about who sent the requests. Then the first names are those of most requests, else of most refusals.
    pub(super) fn is_sender(self) -> bool {
        matches!(self, Self::Token | Self::UserAgent | Self::Client)
    }
}
