//! Downstream connections: from accepted sockets to requests.
//!
//! ```text
//!  accept ── listeners, limits                    sockets, and how many connections they may hold
//!     │  ├─── worker_threads                      the threads that serve them
//!     │  ├─── proxy_protocol, tls_termination     the client behind a load balancer; TLS to the proxy itself
//!     │  └─── socks5, original_destination        the destination of a client that knows no HTTP proxy
//!     │
//!  captured ── first_bytes, client_hello          the first bytes of such a client
//!     │
//!  proxied_http2                                  HTTP/2 to the proxy itself: requests and tunnels, multiplexed
//!     │
//!  tunnel ── blind_tunnel                         the protocol inside a tunnel
//!     │
//!  http1, http2 ── frame_limit, pulse             requests in sequence; requests multiplexed, and the waste that is allowed
//!
//!  server                                         state that all connections share, and their tasks, which take turns
//! ```

mod accept;
mod blind_tunnel;
mod captured;
mod client_hello;
mod first_bytes;
mod frame_limit;
mod http1;
mod http2;
pub mod limits;
pub mod listeners;
mod original_destination;
mod proxied_http2;
mod proxy_protocol;
mod pulse;
mod server;
mod socks5;
mod tls_termination;
mod tunnel;
mod untrusting_clients;
mod worker_threads;

pub use self::accept::{ConnectionAcceptor, Entry};
pub use self::limits::ConnectionLimits;
pub use self::server::DownstreamServer;
pub use self::untrusting_clients::{MAX_TIMES, UntrustingClient, UntrustingClients};

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the size of the futures that an asynchronous function returns.
    fn size_of_future<A, B, C, F: Future>(_: impl FnOnce(A, B, C) -> F) -> usize {
        size_of::<F>()
    }

    /// Every idle connection has the first in memory: to the proxy, or inside an intercepted tunnel. One with a request, whose
    /// head may still be on its way, has the second as well.
    #[test]
    fn futures_of_connections_keep_their_sizes() {
        let grown: Vec<_> = [
            ("idle", size_of_future(ConnectionAcceptor::serve), 590),
            ("request", size_of_future(http1::serve_request), 800),
        ]
        .into_iter()
        .filter(|(_, size, most)| size > most)
        .collect();
        assert!(grown.is_empty(), "{grown:?}");
    }
}
