//! A stream of an HTTP/2 connection to an origin, and its place on that in pingora's pool.

use std::fmt;
use std::net::Ipv4Addr;
use std::ops::{Deref, DerefMut};
use std::os::fd::AsRawFd;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use pingora_core::connectors::http::v2;
use pingora_core::protocols::http::v2::client::Http2Session;
use pingora_core::protocols::l4::socket::SocketAddr as PeerAddress;
use pingora_core::upstreams::peer::Peer;
use tokio::runtime::Handle;

/// How long an unused connection is kept. Most servers close theirs after 60 to 75 seconds; being
/// first avoids the race of sending into a closing connection.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(55);

/// A stream. Dropped, however the exchange ended, it gives its place back, and the connection is kept for others or
/// closed: one that is not given back stays open for as long as the origin likes.
pub(crate) struct Http2Stream {
    /// `None` once given back.
    session: Option<Http2Session>,
    pool: Arc<v2::Connector>,
    key: PoolKey,
}

impl Http2Stream {
    pub(super) fn new(session: Http2Session, pool: &Arc<v2::Connector>, key: PoolKey) -> Self {
        Self {
            session: Some(session),
            pool: Arc::clone(pool),
            key,
        }
    }
}

impl Drop for Http2Stream {
    fn drop(&mut self) {
        // The pool watches what it keeps by a task.
        if let Some(session) = self.session.take()
            && Handle::try_current().is_ok()
        {
            self.pool
                .release_http_session(session, &self.key, Some(IDLE_TIMEOUT));
        }
    }
}

impl Deref for Http2Stream {
    type Target = Http2Session;

    fn deref(&self) -> &Http2Session {
        self.session.as_ref().expect("it is given back at the end")
    }
}

impl DerefMut for Http2Stream {
    fn deref_mut(&mut self) -> &mut Http2Session {
        self.session.as_mut().expect("it is given back at the end")
    }
}

/// What pingora's pools know a connection by.
#[derive(Clone, Debug)]
pub(super) struct PoolKey(pub(super) u64);

static NO_ADDRESS: LazyLock<PeerAddress> =
    LazyLock::new(|| PeerAddress::Inet((Ipv4Addr::UNSPECIFIED, 0).into()));

impl fmt::Display for PoolKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Peer for PoolKey {
    /// Never dialled: pingora only keeps what was dialled here.
    fn address(&self) -> &PeerAddress {
        &NO_ADDRESS
    }

    fn tls(&self) -> bool {
        false
    }

    fn sni(&self) -> &'static str {
        ""
    }

    fn reuse_hash(&self) -> u64 {
        self.0
    }

    /// The key names the origin; which of its addresses answered does not matter.
    fn matches_fd<V: AsRawFd>(&self, _descriptor: V) -> bool {
        true
    }
}
