//! Who is connected to the operators' listener, and who has to go when there is no room: whoever comes is served, so that health
//! and metrics answer however many others hold connections open.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::identity::per_client::holder;

/// So many connections at a time. They share the process's descriptors with the clients.
pub(super) const MAX_CONNECTIONS: usize = 1024;
/// So many of one client, which then makes room for itself: many more than a browser or a scraper holds.
const MAX_PER_CLIENT: usize = 256;

/// All places at the listener.
#[derive(Debug, Default)]
pub(super) struct Places {
    taken: Mutex<Vec<Arc<Seat>>>,
    /// Counts what happens, to tell what was last.
    events: AtomicU64,
}

/// One connection's place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    pub(super) seat: Arc<Seat>,
}

/// What is known of a connection.
#[derive(Debug)]
pub(super) struct Seat {
    client: IpAddr,
    is_operators: AtomicBool,
    /// When it came or asked last, in events.
    active_at: AtomicU64,
    evicted: CancellationToken,
}

impl Places {
    /// Takes a place, for which somebody else may have to go.
    pub(super) fn take(self: &Arc<Self>, client: IpAddr) -> Place {
        let client = holder(client);
        let seat = Arc::new(Seat {
            client,
            is_operators: AtomicBool::new(false),
            active_at: AtomicU64::new(self.event()),
            evicted: CancellationToken::new(),
        });
        let mut taken = self.lock();
        let is_own = |seat: &Seat| seat.client == client;
        if taken.iter().filter(|seat| is_own(seat)).count() >= MAX_PER_CLIENT {
            evict(&mut taken, is_own);
        } else if taken.len() >= MAX_CONNECTIONS {
            evict(&mut taken, |_| true);
        }
        taken.push(Arc::clone(&seat));
        Place {
            places: Arc::clone(self),
            seat,
        }
    }

    fn event(&self) -> u64 {
        self.events.fetch_add(1, Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Seat>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the connection that has been silent for longest of those that `may_go`: one that never was let in, if there is one.
fn evict(taken: &mut Vec<Arc<Seat>>, may_go: impl Fn(&Seat) -> bool) {
    let candidates = taken.iter().enumerate().filter(|(_, seat)| may_go(seat));
    let worth = |seat: &Seat| {
        let is_operators = seat.is_operators.load(Ordering::Relaxed);
        (is_operators, seat.active_at.load(Ordering::Relaxed))
    };
    if let Some((index, _)) = candidates.min_by_key(|(_, seat)| worth(seat)) {
        taken.swap_remove(index).evicted.cancel();
    }
}

impl Place {
    /// Notes that the connection asks something.
    pub(super) fn asks(&self) {
        let event = self.places.event();
        self.seat.active_at.store(event, Ordering::Relaxed);
    }

    /// Waits until somebody else needs the place.
    pub(super) async fn evicted(&self) {
        self.seat.evicted.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        if let Some(index) = taken.iter().position(|seat| Arc::ptr_eq(seat, &self.seat)) {
            taken.swap_remove(index);
        }
    }
}

impl Seat {
    /// Notes that whoever sits here was let in to what is not for everybody.
    pub(super) fn let_in(&self) {
        self.is_operators.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    fn is_evicted(place: &Place) -> bool {
        place.seat.evicted.is_cancelled()
    }

    #[test]
    fn an_address_makes_room_for_itself() {
        let places = Arc::new(Places::default());
        let other = places.take(address(2));
        let own: Vec<_> = (0..=MAX_PER_CLIENT)
            .map(|_| places.take(address(1)))
            .collect();
        assert!(is_evicted(&own[0]) && !is_evicted(&own[1]) && !is_evicted(&other));
        own[1].asks();
        own[2].seat.let_in();
        let _more = [(); 2].map(|()| places.take(address(1)));
        let gone: Vec<_> = own.iter().map(is_evicted).collect();
        assert_eq!(gone[..6], [true, false, false, true, true, false]);
        drop(own);
        assert_eq!(places.lock().len(), 3);
    }

    #[test]
    fn all_addresses_of_an_ipv6_network_are_one_client() {
        let places = Arc::new(Places::default());
        let numbered = |number: u16| IpAddr::from([0x2001, 0xdb8, 0, 7, 0, 0, 0, number]);
        let neighbour = places.take([0x2001, 0xdb8, 0, 8, 0, 0, 0, 1].into());
        let all: Vec<_> = (0..=MAX_PER_CLIENT as u16)
            .map(|number| places.take(numbered(number)))
            .collect();
        assert!(is_evicted(&all[0]) && !is_evicted(&all[1]) && !is_evicted(&neighbour));
        assert_eq!(places.lock().len(), MAX_PER_CLIENT + 1);
    }

    #[test]
    fn of_many_addresses_the_longest_silent_one_goes() {
        let places = Arc::new(Places::default());
        let mut all = Vec::new();
        for client in 0..MAX_CONNECTIONS {
            all.push(places.take(address((client % 8) as u8)));
        }
        all[0].seat.let_in();
        let _newest = places.take(address(9));
        assert_eq!(places.lock().len(), MAX_CONNECTIONS);
        assert!(!is_evicted(&all[0]) && is_evicted(&all[1]) && !is_evicted(&all[2]));
    }
}
