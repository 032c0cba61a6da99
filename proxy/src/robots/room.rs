//! Room for long files while they are fetched: a share of `robots.memory`, until they are counted as entries.
//!
//! Most files are short and need none, and servers that answer slowly, or not at all, have sent little: hundreds of those
//! may be under way. Of long files only so many are read at a time.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

/// What is read of any body without room. Of the 3,000 most visited sites 97 % have a shorter robots.txt.
pub(super) const FREE_BYTES: usize = 32 << 10;

/// The room, shared by all fetches.
pub(super) struct Room {
    free: Arc<Semaphore>,
    bytes: usize,
    patience: Duration,
}

/// Room that one fetch holds until this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
}

impl Room {
    /// Of so many bytes. Who is in it for `patience` leaves as soon as it is full.
    pub(super) fn new(bytes: usize, patience: Duration) -> Self {
        let bytes = bytes.clamp(1, u32::MAX as usize);
        Self {
            free: Arc::new(Semaphore::new(bytes)),
            bytes,
            patience,
        }
    }

    /// Waits for room for `bytes`, or for all there is if that is less. First come, first served.
    pub(super) async fn take(&self, bytes: usize) -> io::Result<Place> {
        let bytes = u32::try_from(bytes.min(self.bytes)).unwrap_or(u32::MAX);
        let taken = self.free.clone().acquire_many_owned(bytes).await;
        let place = |permit| Place { _permit: permit };
        taken.map(place).map_err(io::Error::other)
    }

    /// Reads by `read`, which holds room.
    ///
    /// # Errors
    ///
    /// As `read`, or if it takes long and others need the room.
    pub(super) async fn lend<T>(&self, read: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        tokio::select! {
            biased;
            read = read => read,
            () = self.is_needed() => Err(io::Error::other(
                "a long file came too slowly while others waited to be read",
            )),
        }
    }

    async fn is_needed(&self) {
        sleep(self.patience).await;
        // Whoever waits takes what is left.
        while self.free.available_permits() > 0 {
            sleep(self.patience / 10).await;
        }
    }

    /// What is held, in bytes.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes - self.free.available_permits()
    }
}
