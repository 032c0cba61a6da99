//! Client connections: from bytes to requests.
//!
//! ```text
//!  accept ── listeners, limits             who is served
//!     │  └─── proxy_protocol, entrance     whom a load balancer says it is; TLS to the proxy itself
//!     │
//!  proxied_http2                          requests and tunnels side by side, with the proxy itself
//!     │
//!  inside ── tunnel ── blind_tunnel        what speaks inside a tunnel
//!     │
//!  http1, http2                            requests one after another; side by side
//!
//!  server                                  what they are served with
//! ```

mod accept;
mod blind_tunnel;
mod entrance;
mod http1;
mod http2;
mod inside;
pub(crate) mod limits;
pub(crate) mod listeners;
mod proxied_http2;
mod proxy_protocol;
mod server;
mod tunnel;

pub(crate) use self::accept::Listener;
pub(crate) use self::limits::Limits;
pub(crate) use self::server::Server;
