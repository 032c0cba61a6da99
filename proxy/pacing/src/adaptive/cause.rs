//! Reasons to slow down.

/// The reasons to slow down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SlowDownCause {
    /// 429.
    TooManyRequests,
    /// 503.
    Unavailable,
    /// The connection broke before an answer.
    Reset,
    /// Answers take longer than they did.
    ResponseTime,
    /// The origin announced how many requests are left.
    RateLimit,
}

impl SlowDownCause {
    /// All causes.
    pub const ALL: [Self; 5] = [
        Self::TooManyRequests,
        Self::Unavailable,
        Self::Reset,
        Self::ResponseTime,
        Self::RateLimit,
    ];

    /// Returns the label in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooManyRequests => "429",
            Self::Unavailable => "503",
            Self::Reset => "reset",
            Self::ResponseTime => "response_time",
            Self::RateLimit => "ratelimit",
        }
    }
}
