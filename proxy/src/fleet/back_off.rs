//! How long an origin rests that asks for it.

use std::time::Duration;

/// What an answer asks for after so many refusals in a row: its status, its `Retry-After`, and their number. `None`: it does
/// not ask for rest.
///
/// 429 is about how often we come, so the origin rests at once: for as long as it says, else for a second, doubled each
/// time. A 503 that says nothing may be one page's fault; from the second on it counts as well.
pub(crate) fn asked(
    (status, retry_after, refusals): (u16, Option<Duration>, u32),
    longest: Duration,
) -> Option<Duration> {
    let doublings = match status {
        429 => refusals + 1,
        503 => refusals,
        _ => return None,
    };
    let growing = match doublings {
        0 => Duration::ZERO,
        doublings => Duration::from_secs(1 << (doublings - 1).min(20)),
    };
    Some(retry_after.unwrap_or(growing).min(longest))
}
