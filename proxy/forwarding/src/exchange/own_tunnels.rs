//! The connections to origins that carry uninspected tunnels.
//!
//! If the kernel redirects such a connection to this proxy itself, nothing in its bytes shows that: requests have a `Via`, and
//! an interceptor is not trusted by itself, but a tunnel would lead to the next one without end.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The addresses of this machine's ends.
#[derive(Debug, Default)]
pub struct OwnTunnels(Mutex<HashSet<SocketAddr>>);

/// An address that is listed until this is dropped.
#[derive(Debug)]
pub(super) struct OwnTunnelGuard {
    tunnels: Arc<OwnTunnels>,
    local: SocketAddr,
}

impl OwnTunnels {
    /// Lists a connection by the address of its end on this machine.
    pub(super) fn list(self: &Arc<Self>, local: SocketAddr) -> OwnTunnelGuard {
        self.lock().insert(local);
        OwnTunnelGuard { tunnels: Arc::clone(self), local }
    }

    /// Returns whether the connection of `peer` is one of these.
    pub fn contains(&self, peer: SocketAddr) -> bool {
        self.lock().contains(&peer)
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<SocketAddr>> {
        // A panic cannot leave it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OwnTunnelGuard {
    fn drop(&mut self) {
        self.tunnels.lock().remove(&self.local);
    }
}
