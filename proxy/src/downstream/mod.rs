//! Downstream connections: from accepted sockets to requests.
//!
//! ```text
//!  accept ── listeners, limits                    sockets, and how many connections they may hold
//!     │  ├─── worker_threads                      the threads that serve them
//!     │  ├─── proxy_protocol, tls_termination     the client behind a load balancer; TLS to the proxy itself
//!     │  └─── socks5, original_destination        the destination of a client that knows no HTTP proxy
//!     │
//!  captured ── first_bytes, client_hello          what such a client sends there
//!     │
//!  proxied_http2                                  HTTP/2 to the proxy itself: requests and tunnels, multiplexed
//!     │
//!  tunnel ── blind_tunnel                         the protocol inside a tunnel
//!     │
//!  http1, http2 ── frame_limit, pulse             requests in sequence; requests multiplexed, and what connections may waste
//!
//!  server                                         state that all connections share
//! ```

mod accept;
mod blind_tunnel;
mod captured;
mod client_hello;
mod first_bytes;
mod frame_limit;
mod http1;
mod http2;
pub(crate) mod limits;
pub(crate) mod listeners;
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

pub(crate) use self::accept::{ConnectionAcceptor, Entry};
pub(crate) use self::limits::ConnectionLimits;
pub(crate) use self::server::DownstreamServer;
pub(crate) use self::untrusting_clients::{MAX_TIMES, UntrustingClient, UntrustingClients};
