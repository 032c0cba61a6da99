//! Looks up what other nodes learned about documents that this node holds.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::task::JoinSet;
use wayleave_robots_txt::lifecycle::{Learned, Resource};

use super::shared::{Adopt, Shared};
use super::snapshots::Published;

/// The maximum number of concurrent look-ups: a burst of changes must not delay the claims that requests wait for.
const AT_ONCE: usize = 64;

/// Queued and running look-ups.
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

    /// Waits for the next look-up to end and returns what it found; `None` if none is running.
    pub(super) async fn next(&mut self) -> Option<Option<(Resource, Learned, u64)>> {
        // A look-up that panicked was reported by the panic hook, and found nothing.
        Some(self.looking.join_next().await?.ok().flatten())
    }
}
