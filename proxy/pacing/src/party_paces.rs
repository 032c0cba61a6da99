//! The paces of single parties: where an answer applies to one client, or to one of the origins that share a pace
//! (`signals`), it slows down that party's requests and nobody else's.
//!
//! A request keeps them in addition to the pace of its unit. They are this node's own: in a fleet, each node finds them
//! by the answers that it gets.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wayleave_fairness::{Holder, SharedMap};
use wayleave_robots_txt::Origin;

use super::adaptive::AdaptivePace;
use super::turnstile::lock;
use super::unit::PaceUnit;

/// The most parties with a pace of their own. Beyond it, the oldest of the client with the most is forgotten.
const MAX_PARTIES: usize = 100_000;

/// A party that has a pace of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum PacedParty {
    /// A client at a unit.
    Client(PaceUnit, Holder),
    /// One of the origins that share a pace.
    Origin(Origin),
}

/// The pace of a party, shared with its requests under way.
pub(super) type PartyPace = Arc<Mutex<AdaptivePace>>;

/// The paces of all parties that have one.
pub(super) struct PartyPaces {
    by_party: Mutex<SharedMap<PacedParty, PartyPace>>,
    /// Their number. It is zero most of the time, and then a request needs no lock.
    count: AtomicUsize,
}

impl Default for PartyPaces {
    fn default() -> Self {
        Self { by_party: Mutex::new(SharedMap::new(MAX_PARTIES)), count: AtomicUsize::new(0) }
    }
}

impl PartyPaces {
    /// Returns the paces of the parties that have one.
    pub(super) fn find<const N: usize>(&self, parties: [&PacedParty; N]) -> Vec<PartyPace> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let by_party = lock(&self.by_party);
        parties.into_iter().filter_map(|party| by_party.get(party).cloned()).collect()
    }

    /// Returns the pace of a party, which begins as the requests of its unit are measured: `of_unit`.
    pub(super) fn begin(
        &self,
        party: &PacedParty,
        client: IpAddr,
        of_unit: &Mutex<AdaptivePace>,
        now: Duration,
    ) -> PartyPace {
        let mut by_party = lock(&self.by_party);
        if let Some(known) = by_party.get(party) {
            return Arc::clone(known);
        }
        let pace = Arc::new(Mutex::new(lock(of_unit).for_party()));
        by_party.insert(Holder::of_client(client), party.clone(), Arc::clone(&pace), |pace| {
            lock(pace).is_idle(now)
        });
        self.count.store(by_party.len(), Ordering::Relaxed);
        pace
    }

    /// Returns all parties with their paces.
    pub(super) fn to_vec(&self) -> Vec<(PacedParty, PartyPace)> {
        let by_party = lock(&self.by_party);
        by_party.iter().map(|(party, pace)| (party.clone(), Arc::clone(pace))).collect()
    }
}
