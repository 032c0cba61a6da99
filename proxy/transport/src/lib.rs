//! The ways bytes travel: streams to clients and origins, TLS at both ends, and the descriptors that they take.
//!
//! ```text
//!  http         a stream of bytes, and a response on its way to a client
//!   └─ downstream  HTTP/1 and HTTP/2 alike, for everything above
//!  tls          the listeners' certificates, interception by a CA of the organisation's own, roots for origins
//!  descriptors  how many connections this process may have
//! ```
//!
//! This crate knows nothing of crawlers, robots.txt or decisions. Begin reading at [`http::transport`].

pub mod descriptors;
pub mod http;
pub mod tls;
