//! Byte streams between the proxy and its peers, and the downstream side of a request. HTTP itself is in `wayleave-http-wire`.

pub(crate) mod connect_stream;
pub(crate) mod downstream;
pub(crate) mod flush_signal;
pub(crate) mod loopback;
pub(crate) mod transport;
