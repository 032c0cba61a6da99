//! The responses over HTTP/2 that wait for their client to read. A client opens a hundred streams on each connection, and what
//! it does not read of them stays in memory.

use std::pin::Pin;

use futures_util::FutureExt;
use wayleave_fairness::{Holder, KeyedSemaphores};

/// The unread responses beyond which further requests of a client wait.
const MAX_UNREAD_PER_CLIENT: usize = 100;

/// The unread responses of all clients.
#[derive(Clone, Debug)]
pub(crate) struct UnreadResponses(KeyedSemaphores<Holder>);

/// The unread responses of one client.
#[derive(Clone, Debug)]
pub(crate) struct UnreadShare {
    all: UnreadResponses,
    holder: Holder,
}

impl UnreadResponses {
    pub(crate) fn of(&self, holder: Holder) -> UnreadShare {
        UnreadShare { all: self.clone(), holder }
    }
}

impl Default for UnreadResponses {
    fn default() -> Self {
        Self(KeyedSemaphores::new(MAX_UNREAD_PER_CLIENT))
    }
}

impl UnreadShare {
    /// Waits until the client reads, if too many of its responses are unread.
    pub(crate) async fn wait_for_room(&self) {
        self.all.0.wait_until_free(self.holder).await;
    }

    /// Awaits `sending`. As long as that waits for the client, the response counts as unread.
    pub(super) async fn count_while_blocked<T>(
        &self,
        mut sending: Pin<&mut impl Future<Output = T>>,
    ) -> T {
        if let Some(sent) = sending.as_mut().now_or_never() {
            return sent;
        }
        let _unread = self.all.0.try_acquire(self.holder);
        sending.await
    }
}
