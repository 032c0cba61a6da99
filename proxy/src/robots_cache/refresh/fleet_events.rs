//! Changes reported by other nodes of the fleet.

use std::sync::Arc;

use wayleave_lifecycle::{ParsedEntry, Resource};

use super::super::fetch::DocumentFetcher;
use super::super::fleet_entries::AdoptionRule;
use super::RefreshTask;
use crate::fleet;

impl<F: DocumentFetcher> RefreshTask<F> {
    /// Handles a change. Documents that are only in the store are looked up when they are requested.
    pub(super) fn handle_fleet_event(&mut self, change: fleet::FleetEvent) {
        match change {
            fleet::FleetEvent::Changed(resource) => self.look_up(&resource, AdoptionRule::Newer),
            fleet::FleetEvent::Superseded(resource, token) => {
                self.look_up(&resource, AdoptionRule::After(token));
            }
            fleet::FleetEvent::Forgotten(resource) => {
                if let Ok(resource) = Resource::parse(&resource) {
                    self.forget(&resource);
                }
            }
            fleet::FleetEvent::NotesLost(partition) => {
                // Notes about this partition were lost, so any held document of it may be outdated.
                let fleet = &self.services.fleet_entries.fleet;
                let suspect =
                    |resource: &Resource| fleet.partition(&resource.to_string()) == partition;
                let held = self.services.published.select(|resource, _| suspect(resource));
                let held = held.into_iter();
                self.fleet_lookups.add(held.map(|(resource, _)| (resource, AdoptionRule::Newer)));
            }
            fleet::FleetEvent::RestStarted(..) | fleet::FleetEvent::RestEnded(_) => {}
        }
    }

    fn look_up(&mut self, resource: &str, rule: AdoptionRule) {
        let resource = Resource::parse(resource).ok();
        let published = &self.services.published;
        let held = resource.filter(|resource| published.snapshot(resource).is_some());
        self.fleet_lookups.add(held.map(|resource| (resource, rule)));
    }

    pub(super) fn adopt(&mut self, newer: Option<(Resource, ParsedEntry, u64)>) {
        let Some((resource, learned, version)) = newer else {
            return;
        };
        let Some(known) = self.services.published.snapshot(&resource) else {
            return;
        };
        // The timer of the replaced snapshot must not fire.
        self.cache.evict(&resource, &known);
        let snapshot = Arc::new(self.cache.restore(&resource, &learned));
        let entry = Arc::new(learned.into_entry());
        self.services.store.save(&resource, entry);
        self.publish(&resource, &snapshot);
        self.services.published.set_version(&resource, version);
    }
}
