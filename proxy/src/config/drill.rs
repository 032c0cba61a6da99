//! `[drill]`: how often the proxy asks itself for what it must refuse.

use std::time::Duration;

use super::reader::{Section, checked, duration};

/// The shortest time between two drills: one has ended before the next begins, whatever it waits for.
const SHORTEST: Duration = Duration::from_secs(5);

/// Reads `[drill]`. Returns the time between two drills; zero: none.
pub(super) fn read(section: &mut Section<'_>) -> Duration {
    let check = |every: &Duration| {
        if every.is_zero() || *every >= SHORTEST {
            return Ok(());
        }
        Err("is neither 0s, for none, nor at least 5s".to_owned())
    };
    section.key("every", Duration::ZERO, checked(duration, check))
}
