//! Answers gateways: other proxies, which ask whether a client's request is allowed, and then send it themselves.
//!
//! ```text
//!  http, grpc              one request to us asks about one request, or tells about it
//!   ├─ envoy               the messages of Envoy's service
//!   ├─ credentials         whose gateway it is
//!   ├─ question            the request that it asks about, as the proxy would have received it
//!   ├─ verdict             the gate's answer
//!   └─ given_slots         the slots of allowed requests, of which the gateway may tell more
//! ```
//!
//! An organisation that has a proxy keeps it, and its crawlers still obey robots.txt. Every check is the proxy's own: a question
//! becomes the head that the proxy would have read. This crate knows nothing of connections to origins, of bodies, or of the
//! configuration file. Begin reading at [`GatewayServer`].

mod credentials;
mod envoy;
mod given_slots;
mod grpc;
mod http;
mod mistake;
mod question;
mod verdict;

use std::sync::{Arc, Mutex};

use wayleave_gate::Gate;

use self::given_slots::GivenSlots;

/// Answers the gateways of all listeners.
pub struct GatewayServer {
    gate: Arc<Gate>,
    given: Mutex<GivenSlots>,
}

impl GatewayServer {
    /// Creates the server that asks this gate.
    pub fn new(gate: Arc<Gate>) -> Self {
        Self { gate, given: Mutex::default() }
    }
}
