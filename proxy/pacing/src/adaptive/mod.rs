//! The pace that a server can take, found as TCP finds a path's: additive increase, and multiplicative decrease when
//! the server refuses a request, resets a connection or takes longer to answer (`politeness.adaptive`).
//!
//! The pace begins slowly and doubles with each round of answers, until nothing limits it or the first sign of a limit
//! comes, which sets it to a part of the rate that was sent. From there it rises: quickly to nine tenths of the pace at
//! which the sign came, then slowly, and ever more slowly if it comes at the same pace again, and quickly beyond. What the
//! server announces (RateLimit) is spread over the time that it is for.
//!
//! Time is given as the time since any fixed start.

mod cause;
mod fleet_part;
mod found;
mod measured;
mod pace;
mod round;
mod shared;

pub use self::cause::SlowDownCause;
pub use self::found::FoundPace;
pub use self::pace::AdaptivePace;

#[cfg(test)]
mod tests;
