//! Requests and responses on the wire: HTTP/1, HTTP/2, TLS, tunnels, refusals, faults, and connections to upstream servers.

mod bodies;
pub mod captured;
mod causes;
mod connect;
mod faults;
mod forward;
mod hosts;
pub mod http2;
mod http2_listener;
mod http2_tunnels;
mod http2_uploads;
mod intermediary;
mod large_heads;
mod long_targets;
mod malformed;
mod oddities;
mod proxy_protocol;
mod refusals;
mod second_chances;
mod silent_peers;
pub mod tls_listener;
mod tunnel;
pub mod upstream;
