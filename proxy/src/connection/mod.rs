//! Client connections: from bytes to requests.
//!
//! ```text
//!  accept ── listeners, limits             who is served
//!     │  └─── proxy_protocol, entrance     whom a load balancer says it is; TLS to the proxy itself
//!     │
//!  http1 ── tunnel ── blind_tunnel         requests one after another, and what speaks inside a tunnel
//!     │
//!  http2                                   requests side by side
//!
//!  server                                  what they are served with
//! ```

mod accept;
mod blind_tunnel;
mod entrance;
mod http1;
mod http2;
pub(crate) mod limits;
pub(crate) mod listeners;
mod proxy_protocol;
mod server;
mod tunnel;

pub(crate) use self::accept::Listener;
pub(crate) use self::limits::Limits;
pub(crate) use self::server::Server;
