//! Where a connection leads, and from where.

use std::net::IpAddr;

use wayleave_robots_txt::Origin;

/// An origin, as seen from one of our addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination<'a> {
    pub(crate) origin: &'a Origin,
    /// The crawler's `source_address`, if it has one.
    pub(crate) source: Option<IpAddr>,
}

impl<'a> From<&'a Origin> for Destination<'a> {
    /// From the addresses that are everybody's.
    fn from(origin: &'a Origin) -> Self {
        let source = None;
        Self { origin, source }
    }
}
