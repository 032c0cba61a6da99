//! The limit on connections to the admin listener. A new connection is always admitted and evicts an old one if necessary, so
//! that health checks and metrics answer no matter how many connections others hold open.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;
use wayleave_fairness::Holder;

/// The most connections at a time. They share the process's file descriptors with the clients' connections.
pub(crate) const MAX_CONNECTIONS: usize = 1024;
/// The most connections of one client, whose next one evicts one of its own: many more than a browser or a scraper needs.
const MAX_PER_CLIENT: usize = 256;

/// All connections to the listener.
#[derive(Debug, Default)]
pub(super) struct ConnectionLimit {
    open: Mutex<Vec<Arc<ConnectionState>>>,
    /// The number of connections and requests so far. It orders them without reading a clock.
    event_count: AtomicU64,
}

/// A connection that was admitted; dropping it makes room for another.
#[derive(Debug)]
pub(super) struct AdmittedConnection {
    limit: Arc<ConnectionLimit>,
    pub(super) state: Arc<ConnectionState>,
}

/// The state of a connection that decides whether it is evicted.
#[derive(Debug)]
pub(super) struct ConnectionState {
    client: Holder,
    is_operator: AtomicBool,
    /// The number of its last event: its start or its newest request.
    active_at: AtomicU64,
    evicted: CancellationToken,
}

impl ConnectionLimit {
    /// Admits a connection, and evicts another if there are too many.
    pub(super) fn admit(self: &Arc<Self>, client: IpAddr) -> AdmittedConnection {
        let client = Holder::of_client(client);
        let state = Arc::new(ConnectionState {
            client,
            is_operator: AtomicBool::new(false),
            active_at: AtomicU64::new(self.next_event()),
            evicted: CancellationToken::new(),
        });
        let mut open = self.lock();
        let is_own = |other: &ConnectionState| other.client == client;
        // First among its own, so that one client's connections never push out another's.
        if open.iter().filter(|other| is_own(other)).count() >= MAX_PER_CLIENT {
            evict(&mut open, is_own);
        } else if open.len() >= MAX_CONNECTIONS {
            evict(&mut open, |_| true);
        }
        open.push(Arc::clone(&state));
        AdmittedConnection { limit: Arc::clone(self), state }
    }

    fn next_event(&self) -> u64 {
        // Relaxed: which of two events at the same time came first makes no difference.
        self.event_count.fetch_add(1, Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<ConnectionState>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Evicts one of the connections that are candidates: the one idle for longest, but one of an operator only if there is no
/// other.
fn evict(open: &mut Vec<Arc<ConnectionState>>, is_candidate: impl Fn(&ConnectionState) -> bool) {
    let candidates = open.iter().enumerate().filter(|(_, state)| is_candidate(state));
    let rank = |state: &ConnectionState| {
        let is_operators = state.is_operator.load(Ordering::Relaxed);
        (is_operators, state.active_at.load(Ordering::Relaxed))
    };
    if let Some((index, _)) = candidates.min_by_key(|(_, state)| rank(state)) {
        // Removed here rather than when its task has ended, so that the bound holds at once.
        open.swap_remove(index).evicted.cancel();
    }
}

impl AdmittedConnection {
    /// Records that the connection sent a request.
    pub(super) fn touch(&self) {
        let event = self.limit.next_event();
        self.state.active_at.store(event, Ordering::Relaxed);
    }

    /// Waits until the connection is evicted.
    pub(super) async fn evicted(&self) {
        self.state.evicted.cancelled().await;
    }
}

impl Drop for AdmittedConnection {
    fn drop(&mut self) {
        let mut open = self.limit.lock();
        // An evicted connection is no longer among them.
        if let Some(index) = open.iter().position(|state| Arc::ptr_eq(state, &self.state)) {
            open.swap_remove(index);
        }
    }
}

impl ConnectionState {
    /// Records that a request passed the guard for a path that is not public.
    pub(super) fn mark_operator(&self) {
        self.is_operator.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    fn is_evicted(admitted: &AdmittedConnection) -> bool {
        admitted.state.evicted.is_cancelled()
    }

    #[test]
    fn an_address_makes_room_for_itself() {
        let limit = Arc::new(ConnectionLimit::default());
        let other = limit.admit(address(2));
        let own: Vec<_> = (0..=MAX_PER_CLIENT).map(|_| limit.admit(address(1))).collect();
        assert!(is_evicted(&own[0]) && !is_evicted(&own[1]) && !is_evicted(&other));
        own[1].touch();
        own[2].state.mark_operator();
        let _more = [(); 2].map(|()| limit.admit(address(1)));
        let evicted: Vec<_> = own.iter().map(is_evicted).collect();
        assert_eq!(evicted[..6], [true, false, false, true, true, false]);
        drop(own);
        assert_eq!(limit.lock().len(), 3);
    }

    #[test]
    fn all_addresses_of_an_ipv6_network_are_one_client() {
        let limit = Arc::new(ConnectionLimit::default());
        let numbered = |number: u16| IpAddr::from([0x2001, 0xdb8, 0, 7, 0, 0, 0, number]);
        let neighbour = limit.admit([0x2001, 0xdb8, 0, 8, 0, 0, 0, 1].into());
        let all: Vec<_> =
            (0..=MAX_PER_CLIENT as u16).map(|number| limit.admit(numbered(number))).collect();
        assert!(is_evicted(&all[0]) && !is_evicted(&all[1]) && !is_evicted(&neighbour));
        assert_eq!(limit.lock().len(), MAX_PER_CLIENT + 1);
    }

    #[test]
    fn of_many_addresses_the_longest_silent_one_goes() {
        let limit = Arc::new(ConnectionLimit::default());
        let mut all = Vec::new();
        for client in 0..MAX_CONNECTIONS {
            all.push(limit.admit(address((client % 8) as u8)));
        }
        all[0].state.mark_operator();
        let _newest = limit.admit(address(9));
        assert_eq!(limit.lock().len(), MAX_CONNECTIONS);
        assert!(!is_evicted(&all[0]) && is_evicted(&all[1]) && !is_evicted(&all[2]));
    }
}
