//! The responses over HTTP/2 that a client may have in progress. A client opens a hundred streams on each connection, and
//! the responses that it does not read stay in memory.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use wayleave_fairness::{Holder, KeyedSemaphore, KeyedSemaphores};

/// The responses in progress beyond which further requests of a client wait.
const MAX_PER_CLIENT: usize = 500;
/// The long heads that a client may be sent at the same time. Each takes its thread a tenth of a millisecond, and other clients
/// wait behind all of them.
const LONG_HEADS: usize = 4;

/// The shares of all clients.
#[derive(Clone, Debug)]
pub struct ResponseShares {
    in_progress: KeyedSemaphores<Holder>,
    long_heads: KeyedSemaphores<Holder>,
}

/// The share of one client. Its connections keep it: looking it up takes a lock that all clients share.
#[derive(Clone, Debug)]
pub struct ClientResponses(Arc<ClientShare>);

#[derive(Debug)]
struct ClientShare {
    in_progress: KeyedSemaphore<Holder>,
    long_heads: KeyedSemaphore<Holder>,
}

/// One response of a client, which counts from [`Self::take`] on.
#[derive(Debug)]
pub struct ResponseShare {
    // Dropped before the client's share, which is forgotten with its last response.
    permit: Option<OwnedSemaphorePermit>,
    client: ClientResponses,
}

impl ResponseShares {
    pub fn of(&self, holder: Holder) -> ClientResponses {
        ClientResponses(Arc::new(ClientShare {
            in_progress: self.in_progress.of(holder),
            long_heads: self.long_heads.of(holder),
        }))
    }
}

impl Default for ResponseShares {
    fn default() -> Self {
        Self {
            in_progress: KeyedSemaphores::new(MAX_PER_CLIENT),
            long_heads: KeyedSemaphores::new(LONG_HEADS),
        }
    }
}

impl ClientResponses {
    /// Returns a response that does not count yet.
    pub fn begin(&self) -> ResponseShare {
        ResponseShare { permit: None, client: self.clone() }
    }
}

impl ResponseShare {
    /// Waits until the client may have one more response in progress, which is this one.
    pub async fn take(&mut self) {
        self.permit = Some(self.client.0.in_progress.acquire().await);
    }

    /// Waits until the client may be sent one more long head. It is being sent as long as the permit is kept.
    pub(super) async fn admit_long_head(&self) -> OwnedSemaphorePermit {
        self.client.0.long_heads.acquire().await
    }

    /// Stops counting the response.
    pub(super) fn give_back(&mut self) {
        self.permit = None;
    }

    /// Counts the response again if there is room. It has had its turn, and does not wait for another.
    pub(super) fn take_again(&mut self) {
        self.permit = self.client.0.in_progress.try_acquire();
    }
}
