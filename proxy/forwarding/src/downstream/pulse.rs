//! The signs of life of a client's HTTP/2 connection. Routers and load balancers forget connections without closing them, and
//! a client that loses its network closes nothing either.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use h2::{Ping, PingPong};

/// The bytes of a PING on the wire (RFC 9113 section 6.7).
const PING_BYTES: u64 = 17;

/// The bytes that have moved on a connection.
#[derive(Debug, Default)]
pub(super) struct MovedBytes {
    read: AtomicU64,
    written: AtomicU64,
}

impl MovedBytes {
    pub(super) fn add_read(&self, bytes: usize) {
        self.read.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn add_written(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Returns whether the client has sent anything since `seen`, or has taken more than a PING; sets `seen` to now.
    fn have_moved_since(&self, seen: &mut (u64, u64)) -> bool {
        let now = (self.read.load(Ordering::Relaxed), self.written.load(Ordering::Relaxed));
        let (read, written) = std::mem::replace(seen, now);
        now.0 > read || now.1 > written + PING_BYTES
    }
}

/// Finds out whether a client is still there. A client that takes content is, even if it sends nothing: its answer to a PING may
/// have to wait for all that is under way before. TCP notices if that is never acknowledged.
pub(super) struct ClientPulse {
    pings: PingPong,
    moved: Arc<MovedBytes>,
    /// The bytes that had moved by the last look.
    seen: (u64, u64),
    /// Whether a PING was sent then.
    is_asked: bool,
}

impl ClientPulse {
    pub(super) fn new(pings: PingPong, moved: Arc<MovedBytes>) -> Self {
        Self { pings, moved, seen: (0, 0), is_asked: false }
    }

    /// Asks a client that was silent since the last look by PING. Returns whether it was asked then, and has not answered.
    pub(super) fn check_is_lost(&mut self) -> bool {
        let is_silent = !self.moved.have_moved_since(&mut self.seen);
        if is_silent && self.is_asked {
            return true;
        }
        self.is_asked = is_silent;
        if is_silent {
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            // The answer to the PING before, if any, makes room for another. If it is still missing, its client is asked already.
            let _ = self.pings.poll_pong(&mut cx);
            let _ = self.pings.send_ping(Ping::opaque());
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_a_sign_of_life_and_a_ping_is_none() {
        let moved = MovedBytes::default();
        let mut seen = (0, 0);
        assert!(!moved.have_moved_since(&mut seen));
        for (read, written, expected) in [
            (1, 0, true),
            (0, 0, false),
            (0, 17, false),
            (0, 18, true),
            (0, 0, false),
            (9, 99, true),
        ] {
            moved.add_read(read);
            moved.add_written(written);
            assert_eq!(moved.have_moved_since(&mut seen), expected, "{read} {written}");
        }
    }
}
