//! Counts of what is limited for each client: connections, password checks.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The current count of each client.
#[derive(Debug, Default)]
pub(crate) struct ClientCounts(Mutex<HashMap<IpAddr, usize>>);

/// One of a client's, which counts until it is dropped.
#[derive(Debug)]
pub(crate) struct ClientCountGuard {
    per_client: Arc<ClientCounts>,
    client: IpAddr,
}

impl ClientCounts {
    /// Counts one more of `client`'s, unless it has `most`.
    pub(crate) fn count(self: &Arc<Self>, client: IpAddr, most: usize) -> Option<ClientCountGuard> {
        let client = client_network(client);
        let mut counts = self.counts();
        match counts.entry(client).or_default() {
            count if *count >= most => None,
            count => {
                *count += 1;
                Some(ClientCountGuard { per_client: Arc::clone(self), client })
            }
        }
    }

    /// Returns whether no client has any.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.counts().is_empty()
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        // A panic cannot leave a count half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ClientCountGuard {
    fn drop(&mut self) {
        let mut counts = self.per_client.counts();
        if let Some(count) = counts.get_mut(&self.client) {
            *count -= 1;
            // Clients come and go, so the map must not keep them all.
            if *count == 0 {
                counts.remove(&self.client);
            }
        }
    }
}

/// Returns the address that stands for a client. A host on an IPv6 network has all addresses of a /64 to itself.
pub(crate) fn client_network(client: IpAddr) -> IpAddr {
    match client {
        IpAddr::V4(_) => client,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}
