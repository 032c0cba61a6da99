//! Turns under way, and for how long a node may be sure of them.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::engine::Turn;
use crate::clock::calendar;

/// What the engine said of a turn holds for so long on this side, however late the answer is read: then others may have it. The rest of
/// the term is for the way to the engine, and for clocks that do not run alike.
const SURE: Duration = Duration::from_secs(12);

/// A moment by both clocks: tokio's stands still while the machine is suspended, the calendar can be set back. Whichever says
/// that more time has passed is believed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    counted: Instant,
    shown: SystemTime,
}

impl Moment {
    pub(super) fn now() -> Self {
        Self {
            counted: Instant::now(),
            shown: calendar(),
        }
    }

    /// Whether an answer to what was asked then still holds.
    pub(super) fn is_sure(self) -> bool {
        self.is_sure_at(Self::now())
    }

    /// Whether it held at a later moment.
    pub(super) fn is_sure_at(self, now: Self) -> bool {
        let counted = now.counted.saturating_duration_since(self.counted);
        let shown = now.shown.duration_since(self.shown).unwrap_or_default();
        counted.max(shown) < SURE
    }
}

/// A turn that was taken and not left yet.
#[derive(Debug)]
pub(super) struct UnderWay {
    pub(super) turn: Turn,
    /// When the engine was last asked for it, and agreed before others could have it.
    pub(super) sure_at: Moment,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_slept_or_was_set_back_is_not_sure_for_longer() {
        let asked = Moment::now();
        let after = |counted: u64, shown: i64| {
            let by = Duration::from_secs(shown.unsigned_abs());
            asked.is_sure_at(Moment {
                counted: asked.counted + Duration::from_secs(counted),
                shown: match shown {
                    0.. => asked.shown + by,
                    _ => asked.shown - by,
                },
            })
        };
        assert!(after(0, 0) && after(11, 11));
        assert!(!after(12, 12));
        assert!(!after(1, 20), "it slept");
        assert!(!after(20, -3600), "its calendar was set back");
        assert!(after(11, -3600));
    }
}
