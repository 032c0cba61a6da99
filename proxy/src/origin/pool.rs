//! The pool of connections to origins that can serve another request: one for all, whatever they served before.
//!
//! One lock over plain maps: taking and keeping are a few hundred nanoseconds, no task watches a
//! connection, and none needs a system call. That the origin closed one shows when it is taken,
//! or to [`Pool::sweep`], every second.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::io::AsyncReadExt;
use tokio::time::Instant;

use super::destination::Destination;
use super::http2::{Http2Connection, Http2Stream};
use crate::http::transport::Stream;

/// How long an unused connection is kept. Most servers close theirs after 60 to 75 seconds; being
/// first avoids the race of sending into a closing connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(55);

/// How long a connection that its origin closed may lie unnoticed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Keeps at most so many connections, and each about so long unused.
pub(super) struct Pool {
    /// Keyed by chance: nobody can make two origins share a place.
    hasher: RandomState,
    limit: usize,
    places: Mutex<Places>,
}

/// What a connection speaks, and what else it could have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Speaks {
    Http1,
    /// HTTP/1, although HTTP/2 was offered. Kept apart: who prefers HTTP/2 shall not be content with less for long where the
    /// origin has it.
    Http1InsteadOf2,
    /// HTTP/1 through a parent proxy's tunnel, to an origin whose requests the parent forwards otherwise.
    Http1ByTunnel,
    Http2,
}

/// An origin, from where it is reached, and what is spoken with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PoolKey(u64);

/// What is kept.
pub(super) enum Kept {
    /// For one request at a time, which takes it.
    Http1(Stream),
    /// For several, which share it: it stays here meanwhile.
    Http2(Http2Connection),
}

#[derive(Default)]
struct Places {
    /// By their age, which is a number that only grows: the first is longest unused.
    by_age: BTreeMap<u64, Place>,
    ages: HashMap<PoolKey, Vec<u64>>,
    next_age: u64,
}

struct Place {
    key: PoolKey,
    unused_since: Instant,
    kept: Kept,
}

impl Pool {
    /// Keeps up to `limit` connections, and is swept as long as it lives. Within a tokio runtime.
    pub(super) fn new(limit: usize) -> Arc<Self> {
        let pool = Arc::new(Self {
            hasher: RandomState::new(),
            limit,
            places: Mutex::default(),
        });
        let swept = Arc::downgrade(&pool);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(SWEEP_INTERVAL).await;
                match swept.upgrade() {
                    Some(pool) => pool.sweep(),
                    None => return,
                }
            }
        });
        pool
    }

    /// What connections to `destination` are kept by.
    pub(super) fn key(&self, destination: Destination<'_>, speaks: Speaks) -> PoolKey {
        let Destination { origin, source, .. } = destination;
        PoolKey(self.hasher.hash_one((origin, source, speaks)))
    }

    /// Keeps a connection for whoever asks for `key` next; the one longest unused makes room.
    pub(super) fn keep(&self, key: PoolKey, kept: Kept) {
        let mut places = self.lock();
        places.keep(key, kept);
        // Dropped, and so closed, when the lock is free again.
        let _evicted = if places.by_age.len() > self.limit {
            places.take_oldest()
        } else {
            None
        };
        drop(places);
    }

    /// The HTTP/1 connection kept last for `key` that is still open, and where the origin sent nothing unasked.
    pub(super) fn take(&self, key: PoolKey) -> Option<Stream> {
        loop {
            let kept = self.lock().take_newest(key)?;
            if let Kept::Http1(mut stream) = kept
                && is_quiet(&mut stream)
            {
                return Some(stream);
            }
        }
    }

    /// A stream of an HTTP/2 connection kept for `key`.
    pub(super) fn share(&self, key: PoolKey) -> Option<Http2Stream> {
        self.lock().share(key)
    }

    /// Closes what the origin closed and what was kept too long.
    fn sweep(&self) {
        let mut places = self.lock();
        let bad = |_: &u64, place: &mut Place| !place.is_good();
        let closed: BTreeMap<u64, Place> = places.by_age.extract_if(.., bad).collect();
        for (age, place) in &closed {
            places.forget(place.key, *age);
        }
        drop(places);
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        // Nothing that may panic leaves the maps half changed.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    fn keep(&mut self, key: PoolKey, kept: Kept) {
        let age = self.next_age;
        self.next_age += 1;
        self.ages.entry(key).or_default().push(age);
        let unused_since = Instant::now();
        let place = Place {
            key,
            unused_since,
            kept,
        };
        self.by_age.insert(age, place);
    }

    fn take_newest(&mut self, key: PoolKey) -> Option<Kept> {
        let age = *self.ages.get(&key)?.last()?;
        self.take(key, age)
    }

    fn take_oldest(&mut self) -> Option<Kept> {
        let (&age, place) = self.by_age.first_key_value()?;
        self.take(place.key, age)
    }

    fn share(&mut self, key: PoolKey) -> Option<Http2Stream> {
        let shared = |age: &u64| match &self.by_age.get(age)?.kept {
            Kept::Http2(connection) => Some((*age, connection.stream()?)),
            Kept::Http1(_) => None,
        };
        let (age, stream) = self.ages.get(&key)?.iter().find_map(shared)?;
        // The newest from now on.
        let kept = self.take(key, age)?;
        self.keep(key, kept);
        Some(stream)
    }

    fn take(&mut self, key: PoolKey, age: u64) -> Option<Kept> {
        self.forget(key, age);
        self.by_age.remove(&age).map(|place| place.kept)
    }

    fn forget(&mut self, key: PoolKey, age: u64) {
        if let Entry::Occupied(mut ages) = self.ages.entry(key) {
            ages.get_mut().retain(|other| *other != age);
            if ages.get().is_empty() {
                ages.remove();
            }
        }
    }
}

impl Place {
    fn is_good(&mut self) -> bool {
        let is_open = match &mut self.kept {
            Kept::Http1(stream) => is_quiet(stream),
            Kept::Http2(connection) => {
                if connection.streams() > 0 {
                    self.unused_since = Instant::now();
                }
                !connection.is_closed()
            }
        };
        is_open && self.unused_since.elapsed() < IDLE_TIMEOUT
    }
}

/// Whether the origin neither closed a connection nor sent what nobody asked for.
fn is_quiet(stream: &mut Stream) -> bool {
    stream.read(&mut [0; 1]).now_or_never().is_none()
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("limit", &self.limit)
            .field("kept", &self.lock().by_age.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tokio::io::{AsyncWriteExt, DuplexStream};

    use super::super::http2::Window;
    use super::*;
    use crate::http::transport::Transport;

    fn connection(id: i32) -> (Stream, DuplexStream) {
        let (near, far) = tokio::io::duplex(64);
        (Box::new(Transport::new(near, id)), far)
    }

    const KEYS: [PoolKey; 3] = [PoolKey(7), PoolKey(8), PoolKey(9)];

    fn keep(pool: &Pool, key: PoolKey, stream: Stream) {
        pool.keep(key, Kept::Http1(stream));
    }

    fn taken(pool: &Pool, key: PoolKey) -> Option<i32> {
        pool.take(key).map(|stream| stream.id())
    }

    #[tokio::test(start_paused = true)]
    async fn serves_its_own_origin_the_newest_first() {
        let pool = Pool::new(10);
        let ((one, _far_one), (two, _far_two)) = (connection(1), connection(2));
        keep(&pool, KEYS[0], one);
        keep(&pool, KEYS[0], two);
        assert_eq!(taken(&pool, KEYS[1]), None);
        assert_eq!(taken(&pool, KEYS[0]), Some(2));
        assert_eq!(taken(&pool, KEYS[0]), Some(1));
        assert_eq!(taken(&pool, KEYS[0]), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_of_all_makes_room() {
        let pool = Pool::new(2);
        let mut far = Vec::new();
        for (id, key) in [(1, KEYS[0]), (2, KEYS[1]), (3, KEYS[2])] {
            let (near, end) = connection(id);
            far.push(end);
            keep(&pool, key, near);
        }
        assert_eq!(far[0].read(&mut [0; 1]).await.unwrap(), 0, "closed");
        assert_eq!(taken(&pool, KEYS[0]), None);
        assert_eq!(taken(&pool, KEYS[1]), Some(2));
        assert_eq!(taken(&pool, KEYS[2]), Some(3));
    }

    #[tokio::test(start_paused = true)]
    async fn what_ended_serves_no_more() {
        let pool = Pool::new(10);
        let ((closed, far_closed), (chatty, mut far_chatty)) = (connection(1), connection(2));
        keep(&pool, KEYS[0], closed);
        keep(&pool, KEYS[0], chatty);
        drop(far_closed);
        far_chatty.write_all(b"unasked").await.unwrap();
        assert_eq!(taken(&pool, KEYS[0]), None);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_kept_too_long() {
        let pool = Pool::new(10);
        let ((old, mut far_old), (new, _far_new)) = (connection(1), connection(2));
        keep(&pool, KEYS[0], old);
        tokio::time::advance(IDLE_TIMEOUT / 2).await;
        keep(&pool, KEYS[1], new);
        tokio::time::advance(IDLE_TIMEOUT / 2).await;
        pool.sweep();
        assert_eq!(far_old.read(&mut [0; 1]).await.unwrap(), 0, "closed");
        assert_eq!(taken(&pool, KEYS[0]), None);
        assert_eq!(taken(&pool, KEYS[1]), Some(2));
    }

    /// A connection of HTTP/2, and its origin's side.
    async fn http2() -> (Http2Connection, h2::server::Connection<DuplexStream, Bytes>) {
        let (near, far) = tokio::io::duplex(1024);
        let stream: Stream = Box::new(Transport::new(near, 1));
        let opening = Http2Connection::open(stream, Window::SMALL);
        let (near, far) = tokio::join!(opening, h2::server::handshake(far));
        (near.unwrap(), far.unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn one_of_http_2_is_shared_and_kept_while_it_is_used() {
        let pool = Pool::new(10);
        let (connection, mut origin) = http2().await;
        pool.keep(KEYS[0], Kept::Http2(connection));
        let first = pool.share(KEYS[0]).expect("kept");
        assert!(pool.share(KEYS[0]).is_some());
        assert!(pool.share(KEYS[1]).is_none());
        let served = tokio::spawn(async move { origin.accept().await.is_none() });
        tokio::time::sleep(2 * IDLE_TIMEOUT).await;
        assert!(pool.share(KEYS[0]).is_some());
        drop(first);
        tokio::time::sleep(IDLE_TIMEOUT + 2 * SWEEP_INTERVAL).await;
        assert!(pool.share(KEYS[0]).is_none());
        assert!(served.await.unwrap(), "it is told and closed");
    }

    #[tokio::test(start_paused = true)]
    async fn one_of_http_2_that_its_origin_is_about_to_close_serves_no_more() {
        let pool = Pool::new(10);
        let (connection, mut origin) = http2().await;
        pool.keep(KEYS[0], Kept::Http2(connection));
        let stream = pool.share(KEYS[0]).expect("kept");
        origin.graceful_shutdown();
        tokio::spawn(async move { while origin.accept().await.is_some() {} });
        while pool.share(KEYS[0]).is_some() {
            tokio::task::yield_now().await;
        }
        drop(stream);
    }
}
