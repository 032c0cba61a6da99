//! The way of a request, from the connection that it comes by to the record of what became of it.
//!
//! ```text
//!  connection     bytes to requests: accept, limits, CONNECT, tunnels
//!  exchange       one request, step by step: decide, wait, forward or refuse, record
//!  decide         what may be done: who asks, for what, and what rules and robots.txt say
//! ```

pub(crate) mod connection;
pub(crate) mod decide;
pub(crate) mod exchange;
