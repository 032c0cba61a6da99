//! The pace at which operators may have an origin's robots.txt fetched again: a script must not become a flood.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use wayleave_robots_txt::Origin;

/// The time from one refresh of an origin to the next.
const PAUSE: Duration = Duration::from_secs(5);

/// The refreshes of the last seconds.
#[derive(Debug, Default)]
pub(crate) struct RefreshLimit {
    refreshed_at: Mutex<HashMap<Origin, Instant>>,
}

impl RefreshLimit {
    /// Records a refresh of `origin`.
    ///
    /// # Errors
    ///
    /// Returns the time until the next one if the last one is too recent.
    pub(super) fn admit(&self, origin: &Origin) -> Result<(), Duration> {
        let mut refreshed_at = self.refreshed_at.lock().unwrap_or_else(PoisonError::into_inner);
        // As many as operators ask for in five seconds.
        refreshed_at.retain(|_, at| at.elapsed() < PAUSE);
        match refreshed_at.get(origin) {
            Some(at) => Err(PAUSE.saturating_sub(at.elapsed())),
            None => {
                refreshed_at.insert(origin.clone(), Instant::now());
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_origin_is_refreshed_once_in_five_seconds() {
        let limit = RefreshLimit::default();
        let [one, other] = ["http://one.test", "http://other.test"]
            .map(|text| Origin::parse(text).expect("an origin"));
        assert_eq!(limit.admit(&one), Ok(()));
        assert_eq!(limit.admit(&one), Err(PAUSE));
        assert_eq!(limit.admit(&other), Ok(()));
        tokio::time::advance(Duration::from_secs(3)).await;
        // A refusal does not lengthen the pause.
        assert_eq!(limit.admit(&one), Err(Duration::from_secs(2)));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!((limit.admit(&one), limit.admit(&other)), (Ok(()), Ok(())));
        tokio::time::advance(PAUSE).await;
        assert_eq!(limit.admit(&one), Ok(()));
        let known = limit.refreshed_at.lock().unwrap().len();
        assert_eq!(known, 1, "the other is forgotten");
    }
}
