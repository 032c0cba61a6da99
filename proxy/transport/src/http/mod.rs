//! Byte streams between the proxy and its peers, and the downstream side of a request. HTTP itself is in `wayleave-http-wire`.

pub mod connect_stream;
pub mod downstream;
pub mod flush_signal;
pub mod loopback;
pub mod transport;
