//! The words for the ways in which an origin, or the bot manager in front of it, turns a request away.

/// The way in which a request was turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeRefusal {
    /// A challenge that only a browser passes, or another refusal by a bot manager.
    Challenge,
    /// 403, or 451 (RFC 7725).
    Forbidden,
    /// 429 (RFC 6585 section 4).
    Rate,
    /// 402.
    Payment,
    /// 503.
    Unavailable,
}

impl EdgeRefusal {
    /// Every kind.
    pub const ALL: [Self; 5] =
        [Self::Challenge, Self::Forbidden, Self::Rate, Self::Payment, Self::Unavailable];

    /// Returns the kind as the log, the metrics and the API write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Challenge => "challenge",
            Self::Forbidden => "forbidden",
            Self::Rate => "rate",
            Self::Payment => "payment",
            Self::Unavailable => "unavailable",
        }
    }
}
