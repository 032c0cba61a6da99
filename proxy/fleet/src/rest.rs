//! The rest that an origin asks for by 429 or 503.

use std::time::Duration;

/// Returns the rest that a response asks for, from its status, its `Retry-After` and the number of refusals in a row before
/// it. `None`: it asks for none.
///
/// 429 is about our pace, so the origin rests at once: for its `Retry-After`, else for a second, doubled each time. A 503
/// without `Retry-After` may be the fault of one page; it counts from the second in a row.
pub fn requested_rest(
    (status, retry_after, refusals): (u16, Option<Duration>, u32),
    longest: Duration,
) -> Option<Duration> {
    let doublings = match status {
        429 => refusals + 1,
        503 => refusals,
        _ => return None,
    };
    // 2^20 seconds is far above any limit of an operator's.
    let growing = match doublings {
        0 => Duration::ZERO,
        doublings => Duration::from_secs(1 << (doublings - 1).min(20)),
    };
    Some(retry_after.unwrap_or(growing).min(longest))
}
