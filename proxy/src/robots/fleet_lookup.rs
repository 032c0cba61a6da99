//! Looking up what other nodes learned of origins that this one holds.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::task::JoinSet;
use wayleave_robots_txt::lifecycle::{Learned, Resource};

use super::shared::{Adopt, Shared};
use super::snapshots::Published;

/// How many look-ups are under way at a time: a burst of changes holds up nobody who waits for a claim.
const AT_ONCE: usize = 64;

/// Origins to look up, and those that are being.
#[derive(Default)]
pub(super) struct Following {
    to_look_up: VecDeque<(Resource, Adopt)>,
    looking: JoinSet<Option<(Resource, Learned, u64)>>,
}

impl Following {
    pub(super) fn add(&mut self, resources: impl IntoIterator<Item = (Resource, Adopt)>) {
        self.to_look_up.extend(resources);
    }

    pub(super) fn start(&mut self, published: &Arc<Published>, shared: &Shared) {
        while self.looking.len() < AT_ONCE
            && let Some((resource, adopt)) = self.to_look_up.pop_front()
        {
            let (published, shared) = (Arc::clone(published), shared.clone());
            self.looking.spawn(async move {
                let known = published.snapshot(&resource)?;
                let known = (&*known, published.version(&resource));
                let (learned, version) = shared.adoptable(&resource, known, adopt).await?;
                Some((resource, learned, version))
            });
        }
    }

    /// What one look-up found; `None` if there is none under way.
    pub(super) async fn next(&mut self) -> Option<Option<(Resource, Learned, u64)>> {
        // One that panics has reported it; it found nothing.
        Some(self.looking.join_next().await?.ok().flatten())
    }
}
