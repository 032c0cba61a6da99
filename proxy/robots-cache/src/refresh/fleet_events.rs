//! Changes reported by other nodes of the fleet.

use std::sync::Arc;

use wayleave_fleet::FleetEvent;
use wayleave_lifecycle::{ParsedEntry, Resource};

use super::RefreshTask;
use crate::fetch::DocumentFetcher;
use crate::fleet_entries::AdoptionRule;

impl<F: DocumentFetcher> RefreshTask<F> {
    /// Handles a change. Documents that are only in the store are looked up when they are requested.
    pub(super) fn handle_fleet_event(&mut self, change: FleetEvent) {
        match change {
            FleetEvent::Changed(resource) => self.look_up(&resource, AdoptionRule::Newer),
            FleetEvent::Superseded(resource, token) => {
                self.look_up(&resource, AdoptionRule::After(token));
            }
            FleetEvent::Forgotten(resource) => {
                if let Ok(resource) = Resource::parse_key(&resource) {
                    self.forget(&resource);
                }
            }
            FleetEvent::NotesLost(partition) => {
                // Notes about this partition were lost, so any cached document of it may be outdated.
                let fleet = &self.services.fleet_entries.fleet;
                let suspects = self
                    .services
                    .published
                    .select(|resource, _| fleet.partition(&resource.to_string()) == partition);
                self.fleet_lookups
                    .add(suspects.into_iter().map(|(resource, _)| (resource, AdoptionRule::Newer)));
            }
            // Only pacing depends on these.
            FleetEvent::RestStarted(..) | FleetEvent::RestEnded(_) => {}
        }
    }

    fn look_up(&mut self, resource: &str, rule: AdoptionRule) {
        if let Ok(resource) = Resource::parse_key(resource)
            && self.services.published.snapshot(&resource).is_some()
        {
            self.fleet_lookups.add([(resource, rule)]);
        }
    }

    pub(super) fn adopt(&mut self, newer: Option<(Resource, ParsedEntry, u64)>) {
        let Some((resource, learned, version)) = newer else {
            return;
        };
        // It may have been forgotten while it was looked up.
        let Some(known) = self.services.published.snapshot(&resource) else {
            return;
        };
        // The timer of the replaced snapshot must not fire.
        self.scheduler.evict(&resource, &known);
        let snapshot = Arc::new(self.scheduler.restore(&resource, &learned));
        let entry = Arc::new(learned.into_entry());
        self.services.store.save(&resource, entry);
        self.publish(&resource, &snapshot);
        self.services.published.set_version(&resource, version);
    }
}
