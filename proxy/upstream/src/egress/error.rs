//! Errors of egress.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::io::Errno;
use wayleave_transport::descriptors;

pub(super) const NXDOMAIN: &str = "NXDOMAIN";
pub(super) const SERVFAIL: &str = "SERVFAIL";
pub(super) const NO_ADDRESSES: &str = "NOERROR";
pub(super) const NOT_A_NAME: &str = "not a valid DNS name";

/// A reason why there is no address to dial for a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EgressError {
    /// Every address of the host is internal and not permitted by `allow_private`, or is this proxy's own.
    Prohibited {
        /// The first of them.
        address: IpAddr,
        /// The kind of address, in a word or two.
        why: &'static str,
    },
    /// DNS answered that there is no address.
    Dns {
        /// The response code as DNS names it (`NXDOMAIN`, `SERVFAIL`, …; `NOERROR` if the name has no addresses).
        rcode: String,
    },
    /// The answer of DNS is unusable.
    DnsFailed {
        /// The obstacle.
        why: &'static str,
    },
    /// DNS could not be queried.
    DnsUnavailable {
        /// The obstacle.
        why: &'static str,
    },
    /// DNS did not answer in time.
    DnsTimeout,
    /// The host has no address of the same family as the source address.
    NoSourceForFamily {
        /// The address to dial from.
        source: IpAddr,
    },
    /// The name looks internal, and a parent proxy would look it up.
    InternalName,
    /// The parent proxy cannot be reached.
    ParentUnreachable {
        /// Its host and port.
        parent: String,
        /// The reason.
        error: Box<Self>,
    },
}

impl EgressError {
    /// Returns whether the host may not be dialled, even if nothing else were wrong.
    pub fn is_prohibited(&self) -> bool {
        matches!(self, Self::Prohibited { .. } | Self::InternalName)
    }

    /// Returns whether the DNS servers refused to look the name up, which says nothing about it. SERVFAIL does: of several
    /// servers that all answer it, the name's own servers are more likely to be broken.
    pub fn is_refused_lookup(&self) -> bool {
        let about_the_name = [NXDOMAIN, NO_ADDRESSES, NOT_A_NAME, SERVFAIL];
        matches!(self, Self::Dns { rcode } if !about_the_name.contains(&&**rcode))
    }

    /// Returns whether the name does not exist, so that a retry is pointless until it is registered.
    pub fn is_no_such_name(&self) -> bool {
        matches!(self, Self::Dns { rcode } if rcode == NXDOMAIN || rcode == NOT_A_NAME)
    }
}

impl fmt::Display for EgressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prohibited { address, why } => write!(f, "{address} may not be dialled: {why}"),
            Self::Dns { rcode } if rcode == NXDOMAIN => f.write_str("no such host"),
            Self::Dns { rcode } if rcode == NO_ADDRESSES => {
                f.write_str("the host has no addresses")
            }
            Self::Dns { rcode } if rcode == NOT_A_NAME => write!(f, "the host is {NOT_A_NAME}"),
            Self::Dns { rcode } => write!(f, "the DNS servers answered {rcode}"),
            Self::DnsFailed { why } | Self::DnsUnavailable { why } => {
                write!(f, "DNS query: {why}")
            }
            Self::DnsTimeout => f.write_str("the DNS servers did not answer in time"),
            Self::NoSourceForFamily { source } => {
                let family = if source.is_ipv4() { "IPv4" } else { "IPv6" };
                write!(
                    f,
                    "the source address is {source}, but the host has no {family} address"
                )
            }
            Self::InternalName => f.write_str(
                "the name is internal, and the parent proxy would resolve it: see upstream.proxy_bypass",
            ),
            Self::ParentUnreachable { error, .. } => error.fmt(f),
        }
    }
}

impl std::error::Error for EgressError {}

/// A reason why no address accepted a connection.
#[derive(Debug)]
pub struct DialError {
    /// The address that failed last, if there was one.
    pub address: Option<SocketAddr>,
    /// The error of that address.
    pub error: io::Error,
}

impl DialError {
    /// Returns whether nothing was sent because this machine lacks a descriptor, a port, memory or a network.
    pub fn is_local(&self) -> bool {
        descriptors::are_used_up(&self.error)
            || self.error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error())
            || matches!(
                self.error.kind(),
                io::ErrorKind::AddrInUse
                    | io::ErrorKind::AddrNotAvailable
                    | io::ErrorKind::NetworkDown
                    | io::ErrorKind::NetworkUnreachable
                    | io::ErrorKind::OutOfMemory
            )
    }
}

impl From<io::Error> for DialError {
    fn from(error: io::Error) -> Self {
        Self { address: None, error }
    }
}
