//! The state of a node in the fleet.

/// The state of this node in the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FleetState {
    /// There is no fleet.
    Alone,
    /// The engine answers and the clocks agree.
    Up,
    /// The engine does not answer, or refuses this node.
    Lost,
    /// The engine answers, but this node's beats fail: the others may drop it.
    BeatsFailing,
    /// There is a key, and this machine's clock is too far from the engine's to verify the others' records.
    ClockOff,
}

impl FleetState {
    /// Returns the name in the API and in metrics.
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
