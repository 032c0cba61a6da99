//! The destination of a connection, and the address it is made from.

use std::net::IpAddr;

use ipnet::IpNet;
use wayleave_robots_txt::Origin;

/// An origin, as reached from one of our addresses.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    pub origin: &'a Origin,
    /// The crawler's `source_address`, if it has one.
    pub source: Option<IpAddr>,
    /// The client whose request caused the connection, if there is one.
    pub client: Option<IpAddr>,
    /// The network whose pace the request keeps, if origins share a pace by address: its addresses are dialled first.
    pub network: Option<IpNet>,
}
