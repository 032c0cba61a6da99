//! Looks up other nodes' entries for documents that this node holds.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::task::JoinSet;
use wayleave_lifecycle::{ParsedEntry, Resource};

use super::fleet_entries::{AdoptionRule, FleetEntries};
use super::snapshots::SnapshotMap;

/// The maximum number of concurrent look-ups: a burst of changes must not delay the claims that requests wait for.
const MAX_LOOKUPS: usize = 64;

/// Queued and running look-ups.
#[derive(Default)]
pub(super) struct FleetLookups {
    queued: VecDeque<(Resource, AdoptionRule)>,
    running: JoinSet<Option<(Resource, ParsedEntry, u64)>>,
}

impl FleetLookups {
    pub(super) fn add(&mut self, resources: impl IntoIterator<Item = (Resource, AdoptionRule)>) {
        self.queued.extend(resources);
    }

    pub(super) fn start(&mut self, published: &Arc<SnapshotMap>, shared: &FleetEntries) {
        while self.running.len() < MAX_LOOKUPS
            && let Some((resource, adopt)) = self.queued.pop_front()
        {
            let published = Arc::clone(published);
            let shared = shared.clone();
            self.running.spawn(async move {
                let known = published.snapshot(&resource)?;
                let known = (&*known, published.version(&resource));
                let (learned, version) = shared.find_adoptable(&resource, known, adopt).await?;
                Some((resource, learned, version))
            });
        }
    }

    /// Waits for the next look-up to end and returns its result; `None` if none is running.
    pub(super) async fn next(&mut self) -> Option<Option<(Resource, ParsedEntry, u64)>> {
        // A look-up that panicked was reported by the panic hook, and found nothing.
        Some(self.running.join_next().await?.ok().flatten())
    }
}
