//! The responses over HTTP/2 that a client may have in progress. A client opens a hundred streams on each connection, and what it
//! does not read of them stays in memory.

use wayleave_fairness::{Holder, KeyedPermit, KeyedSemaphores};

/// The responses in progress beyond which further requests of a client wait.
const MAX_PER_CLIENT: usize = 1000;

/// The shares of all clients.
#[derive(Clone, Debug)]
pub(crate) struct ResponseShares(KeyedSemaphores<Holder>);

/// One response of a client, which counts from [`Self::take`] on.
#[derive(Debug)]
pub(crate) struct ResponseShare {
    all: ResponseShares,
    holder: Holder,
    permit: Option<KeyedPermit<Holder>>,
}

impl ResponseShares {
    pub(crate) fn of(&self, holder: Holder) -> ResponseShare {
        ResponseShare { all: self.clone(), holder, permit: None }
    }
}

impl Default for ResponseShares {
    fn default() -> Self {
        Self(KeyedSemaphores::new(MAX_PER_CLIENT))
    }
}

impl ResponseShare {
    /// Waits until the client may have one more response in progress, which is this one.
    pub(crate) async fn take(&mut self) {
        self.permit = Some(self.all.0.acquire(self.holder).await);
    }

    /// Stops counting the response.
    pub(super) fn give_back(&mut self) {
        self.permit = None;
    }

    /// Counts the response again if there is room. It has had its turn, and does not wait for another.
    pub(super) fn take_again(&mut self) {
        self.permit = self.all.0.try_acquire(self.holder);
    }
}
