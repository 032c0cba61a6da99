//! Changes reported by other nodes of the fleet.

use std::sync::Arc;

use wayleave_robots_txt::lifecycle::{Learned, Resource};

use super::super::fetch::Fetch;
use super::super::shared::Adopt;
use super::Refresh;
use crate::fleet;

impl<F: Fetch> Refresh<F> {
    /// Handles a change. Documents that are only in the store are looked up when they are requested.
    pub(super) fn follow(&mut self, change: fleet::Event) {
        match change {
            fleet::Event::Changed(resource) => self.look_up(&resource, Adopt::Newer),
            fleet::Event::Superseded(resource, token) => {
                self.look_up(&resource, Adopt::After(token));
            }
            fleet::Event::Forgotten(resource) => {
                if let Ok(resource) = Resource::parse(&resource) {
                    self.forget(&resource);
                }
            }
            fleet::Event::Suspect(partition) => {
                // Notes about this partition were lost, so any held document of it may be outdated.
                let fleet = &self.around.shared.fleet;
                let suspect =
                    |resource: &Resource| fleet.partition(&resource.to_string()) == partition;
                let held = self
                    .around
                    .published
                    .select(|resource, _| suspect(resource));
                let held = held.into_iter();
                self.following
                    .add(held.map(|(resource, _)| (resource, Adopt::Newer)));
            }
            fleet::Event::Rests(..) | fleet::Event::Rested(_) => {}
        }
    }

    fn look_up(&mut self, resource: &str, adopt: Adopt) {
        let resource = Resource::parse(resource).ok();
        let published = &self.around.published;
        let held = resource.filter(|resource| published.snapshot(resource).is_some());
        self.following.add(held.map(|resource| (resource, adopt)));
    }

    pub(super) fn followed(&mut self, newer: Option<(Resource, Learned, u64)>) {
        let Some((resource, learned, version)) = newer else {
            return;
        };
        let Some(known) = self.around.published.snapshot(&resource) else {
            return;
        };
        // The timer of the replaced snapshot must not fire.
        self.cache.evict(&resource, &known);
        let snapshot = Arc::new(self.cache.restored(&resource, &learned));
        let entry = Arc::new(learned.into_entry());
        self.around.store.save(&resource, entry);
        self.publish(&resource, &snapshot);
        self.around.published.set_version(&resource, version);
    }
}
