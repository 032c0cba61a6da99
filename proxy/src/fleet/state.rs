//! How a node takes part in the fleet.

/// How this node takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There is no fleet.
    Alone,
    /// All is well.
    Up,
    /// The engine does not answer, or does not let this node take part.
    Lost,
    /// The engine answers, but not to this node's beats: others may take it for gone.
    BeatsFailing,
    /// There is a key, and this machine's clock is too far from the engine's for what others wrote to be trusted.
    ClockOff,
}

impl State {
    /// The state, as the API and metrics name it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Up => "up",
            Self::Lost => "lost",
            Self::BeatsFailing => "beats-failing",
            Self::ClockOff => "clock-off",
        }
    }
}
