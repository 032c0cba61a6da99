//! Idle connections to origins, in one pool for all requests.
//!
//! One lock around plain maps: an operation takes a few hundred nanoseconds, no task watches a connection, and to check one
//! takes no system call. A connection that its origin closed is noticed when it is taken, or by [`ConnectionPool::sweep`] every
//! second while there are any.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::io::AsyncReadExt;
use tokio::runtime::{self, Handle};
use tokio::sync::watch;
use tokio::time::Instant;
use wayleave_transport::http::transport::BoxedStream;

use super::destination::Destination;
use super::http2::{Http2Connection, Http2Stream};
use super::link;

/// The time for which an idle connection is kept. Most servers close theirs after 60 to 75 seconds; closing earlier
/// avoids the race of sending into a closing connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(55);

/// The longest time that a connection closed by its origin may remain in the pool.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// A limited number of connections, each kept for [`IDLE_TIMEOUT`].
pub(super) struct ConnectionPool {
    /// Seeded at random, so that nobody can choose two origins whose keys collide.
    hasher: RandomState,
    /// `upstream.idle_connections`.
    limit: usize,
    entries: Mutex<PoolEntries>,
    /// Wakes the task that sweeps, and ends it when the pool is dropped.
    sweeps: watch::Sender<()>,
}

/// The protocol of a connection, and which one it was chosen over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum PooledProtocol {
    Http1,
    /// HTTP/1, although HTTP/2 was offered. Kept apart, so that requests that prefer HTTP/2 do not use it for long if
    /// the origin supports HTTP/2 after all.
    Http1Fallback,
    /// HTTP/1 through a parent proxy's tunnel, to an origin for which the parent otherwise forwards requests.
    Http1ThroughTunnel,
    Http2,
}

/// The key by which connections are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PoolKey {
    /// A hash of an origin, the source address of the connection, the network that was dialled first, and the protocol.
    hash: u64,
    /// The runtime of the thread that watches the connection, or looks for one. It learns first that data is ready; reads from
    /// other threads are slower.
    runtime: runtime::Id,
}

/// A connection in the pool.
pub(super) enum PooledConnection {
    /// Taken out by one request at a time.
    Http1(BoxedStream),
    /// Shared by several requests; it remains in the pool while they use it.
    Http2(Http2Connection),
}

#[derive(Default)]
struct PoolEntries {
    /// Keyed by a number that only grows, so the first was idle longest.
    by_age: BTreeMap<u64, PoolEntry>,
    /// By the hash of a key: that is keyed, so a fast second hash suffices.
    ages: HashMap<u64, Vec<(u64, runtime::Id)>, foldhash::fast::RandomState>,
    next_age: u64,
    /// Whether the task that sweeps is running. It sleeps while there are no connections.
    has_sweeper: bool,
}

struct PoolEntry {
    key: PoolKey,
    unused_since: Instant,
    connection: PooledConnection,
}

impl ConnectionPool {
    /// Makes a pool for up to `limit` connections, which is swept for as long as it exists. Must be called within a
    /// tokio runtime.
    pub(super) fn new(limit: usize) -> Arc<Self> {
        let (sweeps, mut wakes) = watch::channel(());
        let entries = Mutex::default();
        let pool = Arc::new(Self { hasher: RandomState::new(), limit, entries, sweeps });
        // Weak, so that the task ends with the pool.
        let weak = Arc::downgrade(&pool);
        tokio::spawn(async move {
            while wakes.changed().await.is_ok() {
                loop {
                    tokio::time::sleep(SWEEP_INTERVAL).await;
                    if !weak.upgrade().is_some_and(|pool| pool.sweep()) {
                        break;
                    }
                }
            }
        });
        pool
    }

    /// Returns the key of connections from the current thread to `destination`.
    pub(super) fn key(&self, destination: Destination<'_>, protocol: PooledProtocol) -> PoolKey {
        let Destination { origin, source, network, .. } = destination;
        let hash = self.hasher.hash_one((origin, source, network, protocol));
        PoolKey { hash, runtime: Handle::current().id() }
    }

    /// Keeps a connection for the next request with this key. If the pool is full, the connection idle longest is
    /// closed.
    pub(super) fn keep(&self, key: PoolKey, connection: PooledConnection) {
        let mut entries = self.lock();
        entries.keep(key, connection);
        // Closing is a system call: the connection is dropped after the lock.
        let _evicted = if entries.by_age.len() > self.limit { entries.take_oldest() } else { None };
        let had_sweeper = mem::replace(&mut entries.has_sweeper, true);
        drop(entries);
        if !had_sweeper {
            self.sweeps.send_replace(());
        }
    }

    /// Takes the HTTP/1 connection kept last for `key` that is still open and received nothing while idle, and the key to keep
    /// it by. Prefers this thread's connections; another thread's is moved to this thread.
    pub(super) fn take(&self, key: PoolKey) -> Option<(PoolKey, BoxedStream)> {
        loop {
            let PoolEntry { key: kept, connection, .. } = self.lock().take_newest(key)?;
            if let PooledConnection::Http1(mut stream) = connection
                && is_reusable(&mut stream)
            {
                // Otherwise the other thread would be woken for each response, and wake this one.
                let is_own = kept == key || link::move_to_current_runtime(&mut *stream);
                return Some((if is_own { key } else { kept }, stream));
            }
        }
    }

    /// Opens a stream on an HTTP/2 connection kept for `key`.
    pub(super) fn share(&self, key: PoolKey) -> Option<Http2Stream> {
        self.lock().share(key)
    }

    /// Closes the connections that are idle. Returns whether there were any.
    pub(super) fn close_idle(&self) -> bool {
        let mut entries = self.lock();
        let idle: BTreeMap<_, _> =
            entries.by_age.extract_if(.., |_, entry| !entry.is_in_use()).collect();
        for (age, entry) in &idle {
            entries.unindex(entry.key.hash, *age);
        }
        drop(entries);
        !idle.is_empty()
    }

    /// Closes connections that their origin closed, and those idle for too long. Returns whether any remain.
    fn sweep(&self) -> bool {
        let mut entries = self.lock();
        let closed: BTreeMap<_, _> =
            entries.by_age.extract_if(.., |_, entry| !entry.is_usable()).collect();
        for (age, entry) in &closed {
            entries.unindex(entry.key.hash, *age);
        }
        entries.has_sweeper = !entries.by_age.is_empty();
        let remain = entries.has_sweeper;
        // Closing takes system calls, so it happens without the lock.
        drop(entries);
        remain
    }

    fn lock(&self) -> MutexGuard<'_, PoolEntries> {
        // No code that may panic leaves the maps inconsistent.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PoolEntries {
    fn keep(&mut self, key: PoolKey, connection: PooledConnection) {
        let age = self.next_age;
        self.next_age += 1;
        self.ages.entry(key.hash).or_default().push((age, key.runtime));
        self.by_age.insert(age, PoolEntry { key, unused_since: Instant::now(), connection });
    }

    fn take_newest(&mut self, key: PoolKey) -> Option<PoolEntry> {
        let ages = self.ages.get(&key.hash)?;
        let own = ages.iter().rev().find(|(_, runtime)| *runtime == key.runtime);
        let (age, _) = *own.or(ages.last())?;
        self.take(key.hash, age)
    }

    fn take_oldest(&mut self) -> Option<PoolEntry> {
        let (&age, entry) = self.by_age.first_key_value()?;
        self.take(entry.key.hash, age)
    }

    fn share(&mut self, key: PoolKey) -> Option<Http2Stream> {
        let shared = |age: u64| match &self.by_age.get(&age)?.connection {
            PooledConnection::Http2(connection) => Some((age, connection.open_stream()?)),
            PooledConnection::Http1(_) => None,
        };
        let ages = self.ages.get(&key.hash)?;
        let is_own = |(_, runtime): &&(u64, runtime::Id)| *runtime == key.runtime;
        let others = ages.iter().filter(|other| !is_own(other));
        let own_first = ages.iter().filter(is_own).chain(others);
        let (age, stream) = own_first.copied().find_map(|(age, _)| shared(age))?;
        // Used last, so evicted last.
        let PoolEntry { key, connection, .. } = self.take(key.hash, age)?;
        self.keep(key, connection);
        Some(stream)
    }

    fn take(&mut self, hash: u64, age: u64) -> Option<PoolEntry> {
        self.unindex(hash, age);
        self.by_age.remove(&age)
    }

    fn unindex(&mut self, hash: u64, age: u64) {
        if let Entry::Occupied(mut ages) = self.ages.entry(hash) {
            ages.get_mut().retain(|(other, _)| *other != age);
            // Otherwise every origin ever visited would leave an empty list.
            if ages.get().is_empty() {
                ages.remove();
            }
        }
    }
}

impl PoolEntry {
    fn is_in_use(&self) -> bool {
        match &self.connection {
            PooledConnection::Http1(_) => false,
            PooledConnection::Http2(connection) => connection.active_streams() > 0,
        }
    }

    fn is_usable(&mut self) -> bool {
        let is_open = match &mut self.connection {
            PooledConnection::Http1(stream) => is_reusable(stream),
            PooledConnection::Http2(connection) => {
                // The idle time begins when the last stream ends.
                if connection.active_streams() > 0 {
                    self.unused_since = Instant::now();
                }
                !connection.is_closed()
            }
        };
        is_open && self.unused_since.elapsed() < IDLE_TIMEOUT
    }
}

/// Returns whether the origin neither closed the connection nor sent anything unrequested.
fn is_reusable(stream: &mut BoxedStream) -> bool {
    let mut byte = [0; 1];
    // A task that has used up its share of the thread would be told that the read is not ready, whatever has arrived.
    let read = tokio::task::unconstrained(stream.read(&mut byte));
    // A FIN, an error and unrequested bytes all make it ready.
    read.now_or_never().is_none()
}

impl fmt::Debug for ConnectionPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionPool")
            .field("limit", &self.limit)
            .field("kept", &self.lock().by_age.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tokio::io::{AsyncWriteExt, DuplexStream};
    use tokio::net::TcpStream;
    use tokio::runtime::{Builder, Runtime};

    use super::super::http2::FlowWindow;
    use super::*;

    fn connection() -> (BoxedStream, DuplexStream) {
        let (near, far) = tokio::io::duplex(64);
        (Box::new(near), far)
    }

    fn key(hash: u64) -> PoolKey {
        PoolKey { hash, runtime: Handle::current().id() }
    }

    fn keep(pool: &ConnectionPool, key: PoolKey, stream: BoxedStream) {
        pool.keep(key, PooledConnection::Http1(stream));
    }

    /// Takes a connection, and returns which of the origins' sides in `far` it leads to.
    async fn take(pool: &ConnectionPool, key: PoolKey, far: &mut [DuplexStream]) -> Option<usize> {
        let (_, mut near) = pool.take(key)?;
        near.write_all(b"x").await.unwrap();
        far.iter_mut().position(|end| {
            let read = end.read(&mut [0; 1]).now_or_never();
            read.is_some_and(|read| read.unwrap() == 1)
        })
    }

    #[tokio::test(start_paused = true)]
    async fn newest_connection_of_the_key_is_taken_first() {
        let pool = ConnectionPool::new(10);
        let ((one, far_one), (two, far_two)) = (connection(), connection());
        let mut far = [far_one, far_two];
        keep(&pool, key(7), one);
        keep(&pool, key(7), two);
        assert_eq!(take(&pool, key(8), &mut far).await, None);
        assert_eq!(take(&pool, key(7), &mut far).await, Some(1));
        assert_eq!(take(&pool, key(7), &mut far).await, Some(0));
        assert!(pool.take(key(7)).is_none());
    }

    #[test]
    fn a_thread_takes_its_own_connections_first() {
        let [one, two] = [(); 2].map(|()| Builder::new_current_thread().enable_all().build());
        let one = one.unwrap();
        let two = two.unwrap();
        let _entered = one.enter();
        let pool = ConnectionPool::new(10);
        let on = |runtime: &Runtime| PoolKey { hash: 7, runtime: runtime.handle().id() };
        let own = connection();
        let other = connection();
        keep(&pool, on(&one), own.0);
        keep(&pool, on(&two), other.0);
        let mut far = [own.1, other.1];
        assert_eq!(one.block_on(take(&pool, on(&one), &mut far)), Some(0), "not the newest");
        keep(&pool, on(&two), connection().0);
        let (key, _) = pool.take(on(&one)).expect("rather than a new one");
        assert_eq!(key, on(&two), "it goes back to its own thread");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the origin is this test's")]
    fn a_connection_of_another_thread_is_kept_by_the_one_that_took_it() {
        let [opening, using] = [(); 2].map(|()| Builder::new_current_thread().enable_all().build());
        let opening = opening.unwrap();
        let using = using.unwrap();
        let origin = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let pool = opening.block_on(async {
            let pool = ConnectionPool::new(10);
            let tcp = TcpStream::connect(origin.local_addr().unwrap()).await.unwrap();
            keep(&pool, key(7), Box::new(link::over_tcp(tcp)));
            pool
        });
        using.block_on(async {
            let (kept, _stream) = pool.take(key(7)).expect("rather than a new one");
            assert_eq!(kept, key(7));
        });
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_swept_while_there_are_no_connections() {
        let pool = ConnectionPool::new(10);
        let has_sweeper = || pool.lock().has_sweeper;
        assert!(!has_sweeper());
        for _ in 0..2 {
            let (near, far) = connection();
            keep(&pool, key(7), near);
            tokio::time::sleep(2 * SWEEP_INTERVAL).await;
            assert!(has_sweeper());
            drop(far);
            tokio::time::sleep(2 * SWEEP_INTERVAL).await;
            assert!(!has_sweeper());
            assert_eq!(pool.lock().by_age.len(), 0);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn connection_idle_longest_is_evicted() {
        let pool = ConnectionPool::new(2);
        let mut far = Vec::new();
        for key in [7, 8, 9].map(key) {
            let (near, end) = connection();
            far.push(end);
            keep(&pool, key, near);
        }
        assert_eq!(far[0].read(&mut [0; 1]).await.unwrap(), 0, "closed");
        assert!(pool.take(key(7)).is_none());
        assert_eq!(take(&pool, key(8), &mut far).await, Some(1));
        assert_eq!(take(&pool, key(9), &mut far).await, Some(2));
    }

    #[tokio::test(start_paused = true)]
    async fn closed_or_chatty_connections_are_not_reused() {
        let pool = ConnectionPool::new(10);
        let ((closed, far_closed), (chatty, mut far_chatty)) = (connection(), connection());
        keep(&pool, key(7), closed);
        keep(&pool, key(7), chatty);
        drop(far_closed);
        far_chatty.write_all(b"unrequested").await.unwrap();
        assert!(pool.take(key(7)).is_none());
    }

    /// An origin that restarts closes all of them.
    #[tokio::test(start_paused = true)]
    async fn no_closed_connection_is_reused_however_many_there_are() {
        let pool = ConnectionPool::new(1000);
        for _ in 0..500 {
            keep(&pool, key(7), connection().0);
        }
        assert!(pool.take(key(7)).is_none());
        for _ in 0..500 {
            keep(&pool, key(7), connection().0);
        }
        assert!(!pool.sweep(), "none remains");
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connections_expire() {
        let pool = ConnectionPool::new(10);
        let ((old, mut far_old), (new, far_new)) = (connection(), connection());
        keep(&pool, key(7), old);
        tokio::time::advance(IDLE_TIMEOUT / 2).await;
        keep(&pool, key(8), new);
        tokio::time::advance(IDLE_TIMEOUT / 2).await;
        pool.sweep();
        assert_eq!(far_old.read(&mut [0; 1]).await.unwrap(), 0, "closed");
        assert!(pool.take(key(7)).is_none());
        assert_eq!(take(&pool, key(8), &mut [far_new]).await, Some(0));
    }

    /// Opens an HTTP/2 connection, and returns it with the origin's side.
    async fn http2() -> (Http2Connection, h2::server::Connection<DuplexStream, Bytes>) {
        let (near, far) = tokio::io::duplex(1024);
        let opening = Http2Connection::open(Box::new(near), FlowWindow::SMALL);
        let (near, far) = tokio::join!(opening, h2::server::handshake(far));
        let near = near.unwrap();
        // Until then, one request alone may be sent.
        while near.max_streams() < 2 {
            tokio::task::yield_now().await;
        }
        (near, far.unwrap())
    }

    #[tokio::test]
    async fn an_origins_limit_holds_before_it_is_known() {
        for limit in [1, 3] {
            let (near, far) = tokio::io::duplex(1024);
            let near = Http2Connection::open(Box::new(near), FlowWindow::SMALL).await.unwrap();
            let first = near.open_stream().expect("one may be open");
            assert!(near.open_stream().is_none(), "until the origin's SETTINGS arrive");
            let _far = h2::server::Builder::new()
                .max_concurrent_streams(limit)
                .handshake::<_, Bytes>(far)
                .await
                .unwrap();
            while limit > 1 && near.max_streams() == 1 {
                tokio::task::yield_now().await;
            }
            let more = std::iter::from_fn(|| near.open_stream()).collect::<Vec<_>>();
            assert_eq!(more.len() as u32, limit - 1);
            drop(first);
            assert!(near.open_stream().is_some());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_http_2_connection_answers_a_ping_or_is_left() {
        for answers in [true, false] {
            let pool = ConnectionPool::new(10);
            let (connection, mut origin) = http2().await;
            pool.keep(key(7), PooledConnection::Http2(connection));
            assert!(!pool.share(key(7)).expect("kept").is_doubtful());
            tokio::time::advance(Duration::from_secs(11)).await;
            let stream = pool.share(key(7)).expect("kept");
            assert!(stream.is_doubtful());
            // The origin sends only while it is polled.
            let serving = async move {
                if answers {
                    origin.accept().await;
                }
                std::future::pending::<()>().await;
            };
            let serving = tokio::spawn(serving);
            assert_eq!(stream.is_alive().await, answers);
            assert_eq!(stream.is_doubtful(), !answers);
            assert_eq!(pool.share(key(7)).is_some(), answers);
            serving.abort();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn http_2_connection_is_shared_and_kept_while_used() {
        let pool = ConnectionPool::new(10);
        let (connection, mut origin) = http2().await;
        pool.keep(key(7), PooledConnection::Http2(connection));
        let first = pool.share(key(7)).expect("kept");
        assert!(pool.share(key(7)).is_some());
        assert!(pool.share(key(8)).is_none());
        let served = tokio::spawn(async move { origin.accept().await.is_none() });
        tokio::time::sleep(2 * IDLE_TIMEOUT).await;
        assert!(pool.share(key(7)).is_some());
        drop(first);
        tokio::time::sleep(IDLE_TIMEOUT + 2 * SWEEP_INTERVAL).await;
        assert!(pool.share(key(7)).is_none());
        assert!(served.await.unwrap(), "it is closed with a GOAWAY");
    }

    #[tokio::test]
    async fn a_thread_shares_its_own_http_2_connections_first() {
        let pool = ConnectionPool::new(10);
        let other = Builder::new_current_thread().build().unwrap();
        let others = PoolKey { runtime: other.handle().id(), ..key(7) };
        other.shutdown_background();
        let used_last = || pool.lock().by_age.last_key_value().map(|(_, entry)| entry.key);
        let (connection, _origin) = http2().await;
        pool.keep(others, PooledConnection::Http2(connection));
        assert!(pool.share(key(7)).is_some(), "rather than a new one");
        let (connection, _origin) = http2().await;
        pool.keep(key(7), PooledConnection::Http2(connection));
        for own in [key(7), others, key(7)] {
            assert!(pool.share(own).is_some());
            assert_eq!(used_last(), Some(own));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_http_2_connection_that_is_going_away_is_not_shared() {
        let pool = ConnectionPool::new(10);
        let (connection, mut origin) = http2().await;
        pool.keep(key(7), PooledConnection::Http2(connection));
        let stream = pool.share(key(7)).expect("kept");
        origin.graceful_shutdown();
        tokio::spawn(async move { while origin.accept().await.is_some() {} });
        while pool.share(key(7)).is_some() {
            tokio::task::yield_now().await;
        }
        drop(stream);
    }
}
