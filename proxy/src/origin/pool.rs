//! The pool of idle connections to origins.
//!
//! One lock over plain maps: taking and keeping are a few hundred nanoseconds, no task watches a
//! connection, and none needs a system call. That the origin closed one shows when it is taken,
//! or to [`Idle::sweep`], which whoever owns the pool calls now and then.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::io::AsyncReadExt;
use tokio::time::Instant;
use wayleave_policy::Origin;

use crate::http::transport::Stream;

/// Keeps at most so many connections, and each at most so long.
pub(crate) struct Idle {
    /// Keyed by chance: nobody can make two origins share a place.
    hasher: RandomState,
    limit: usize,
    timeout: Duration,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// By origin, oldest first.
    streams: HashMap<u64, VecDeque<Connection>>,
    /// The origins of all connections by their age.
    ages: BTreeMap<u64, u64>,
    next_age: u64,
}

struct Connection {
    age: u64,
    since: Instant,
    stream: Stream,
}

impl Idle {
    /// Keeps up to `limit` connections for up to `timeout`.
    pub(crate) fn new(limit: usize, timeout: Duration) -> Self {
        Self {
            hasher: RandomState::new(),
            limit,
            timeout,
            kept: Mutex::default(),
        }
    }

    /// What connections to `origin` are kept by. Those that could have spoken HTTP/2 are kept apart:
    /// who prefers it shall not be content with less for long.
    pub(crate) fn key(&self, origin: &Origin, prefers_http2: bool) -> u64 {
        self.hasher.hash_one((origin, prefers_http2))
    }

    /// Keeps a connection for whoever asks for `key` next; the oldest of all makes room.
    pub(crate) fn keep(&self, key: u64, stream: Stream) {
        let mut kept = self.lock();
        let age = kept.next_age;
        kept.next_age += 1;
        kept.ages.insert(age, key);
        kept.streams.entry(key).or_default().push_back(Connection {
            age,
            since: Instant::now(),
            stream,
        });
        // Dropped, and so closed, when the lock is free again.
        let _evicted = if kept.ages.len() > self.limit {
            kept.take_oldest()
        } else {
            None
        };
        drop(kept);
    }

    /// The connection kept last for `key` that is still open.
    pub(crate) fn take(&self, key: u64) -> Option<Stream> {
        loop {
            let mut connection = self.lock().take(key)?;
            if connection.since.elapsed() < self.timeout && connection.is_quiet() {
                return Some(connection.stream);
            }
        }
    }

    /// Closes what the origin closed and what was kept too long.
    pub(crate) fn sweep(&self) {
        let mut kept = self.lock();
        let mut closed = Vec::new();
        for connections in kept.streams.values_mut() {
            let mut index = 0;
            while let Some(connection) = connections.get_mut(index) {
                if connection.since.elapsed() < self.timeout && connection.is_quiet() {
                    index += 1;
                } else {
                    closed.extend(connections.remove(index));
                }
            }
        }
        kept.streams
            .retain(|_, connections| !connections.is_empty());
        for connection in &closed {
            kept.ages.remove(&connection.age);
        }
        drop(kept);
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // Nothing that may panic leaves the maps half changed.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a connection that its origin closed may lie unnoticed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// A pool that is swept as long as it lives.
pub(crate) fn swept(limit: usize, timeout: Duration) -> Arc<Idle> {
    let idle = Arc::new(Idle::new(limit, timeout));
    let swept = Arc::downgrade(&idle);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(SWEEP_INTERVAL).await;
            match swept.upgrade() {
                Some(idle) => idle.sweep(),
                None => return,
            }
        }
    });
    idle
}

impl Kept {
    fn take(&mut self, key: u64) -> Option<Connection> {
        let connections = self.streams.get_mut(&key)?;
        let connection = connections.pop_back()?;
        if connections.is_empty() {
            self.streams.remove(&key);
        }
        self.ages.remove(&connection.age);
        Some(connection)
    }

    fn take_oldest(&mut self) -> Option<Connection> {
        let (_, key) = self.ages.pop_first()?;
        let connections = self.streams.get_mut(&key)?;
        let connection = connections.pop_front();
        if connections.is_empty() {
            self.streams.remove(&key);
        }
        connection
    }
}

impl Connection {
    /// Whether the origin neither closed it nor sent what nobody asked for.
    fn is_quiet(&mut self) -> bool {
        self.stream.read(&mut [0; 1]).now_or_never().is_none()
    }
}

impl fmt::Debug for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idle")
            .field("limit", &self.limit)
            .field("kept", &self.lock().ages.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, DuplexStream};

    use super::*;
    use crate::http::transport::Transport;

    const TIMEOUT: Duration = Duration::from_secs(55);

    fn connection(id: i32) -> (Stream, DuplexStream) {
        let (near, far) = tokio::io::duplex(64);
        (Box::new(Transport::new(near, id)), far)
    }

    fn taken(idle: &Idle, key: u64) -> Option<i32> {
        idle.take(key).map(|stream| stream.id())
    }

    #[tokio::test(start_paused = true)]
    async fn serves_its_own_origin_the_newest_first() {
        let idle = Idle::new(10, TIMEOUT);
        let ((one, _far_one), (two, _far_two)) = (connection(1), connection(2));
        idle.keep(7, one);
        idle.keep(7, two);
        assert_eq!(taken(&idle, 8), None);
        assert_eq!(taken(&idle, 7), Some(2));
        assert_eq!(taken(&idle, 7), Some(1));
        assert_eq!(taken(&idle, 7), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_of_all_makes_room() {
        let idle = Idle::new(2, TIMEOUT);
        let mut far = Vec::new();
        for (id, key) in [(1, 7), (2, 8), (3, 9)] {
            let (near, end) = connection(id);
            far.push(end);
            idle.keep(key, near);
        }
        assert_eq!(far[0].read(&mut [0; 1]).await.unwrap(), 0, "closed");
        assert_eq!(taken(&idle, 7), None);
        assert_eq!(taken(&idle, 8), Some(2));
        assert_eq!(taken(&idle, 9), Some(3));
    }

    #[tokio::test(start_paused = true)]
    async fn what_ended_serves_no_more() {
        let idle = Idle::new(10, TIMEOUT);
        let ((closed, far_closed), (chatty, mut far_chatty)) = (connection(1), connection(2));
        idle.keep(7, closed);
        idle.keep(7, chatty);
        drop(far_closed);
        far_chatty.write_all(b"unasked").await.unwrap();
        assert_eq!(taken(&idle, 7), None);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_kept_too_long() {
        let idle = Idle::new(10, TIMEOUT);
        let ((old, mut far_old), (new, _far_new)) = (connection(1), connection(2));
        idle.keep(7, old);
        tokio::time::advance(TIMEOUT / 2).await;
        idle.keep(8, new);
        tokio::time::advance(TIMEOUT / 2).await;
        idle.sweep();
        assert_eq!(far_old.read(&mut [0; 1]).await.unwrap(), 0, "closed");
        assert_eq!(taken(&idle, 7), None);
        assert_eq!(taken(&idle, 8), Some(2));
    }
}
