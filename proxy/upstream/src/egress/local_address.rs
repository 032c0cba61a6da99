//! Determines whether an address belongs to this machine.
//!
//! The system is queried each time, with sockets that send nothing: addresses come and go. A list of the addresses of
//! all interfaces would lack those that a route makes local, and needs a kind of socket that the systemd unit
//! forbids.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// An address for documentation, which no machine has.
const UNASSIGNED_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// An address for documentation, which no machine has.
const UNASSIGNED_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
/// An arbitrary port: nothing is sent to it.
const PROBE_PORT: u16 = 9;

/// Returns whether `ip` belongs to this machine. If that cannot be determined, it counts as local.
pub fn is_local_address(ip: IpAddr) -> bool {
    let unassigned = match ip {
        IpAddr::V4(_) => UNASSIGNED_V4.into(),
        IpAddr::V6(_) => UNASSIGNED_V6.into(),
    };
    // With `ip_nonlocal_bind`, which keepalived uses, sockets can be bound to any address.
    can_be_bound(ip) && (!can_be_bound(unassigned) || can_reach_itself(ip))
}

fn can_be_bound(ip: IpAddr) -> bool {
    match UdpSocket::bind((ip, 0)) {
        Ok(_) => true,
        Err(error) => error.kind() != io::ErrorKind::AddrNotAvailable,
    }
}

/// Returns whether packets to `ip` can be sent from it.
fn can_reach_itself(ip: IpAddr) -> bool {
    let reached_from = |from: IpAddr| {
        let socket = UdpSocket::bind((from, 0))?;
        socket.connect((ip, PROBE_PORT))?;
        socket.local_addr()
    };
    // An IPv4 socket bound to another machine's address cannot connect. An IPv6 socket can; but an unbound one gets
    // the destination's address as its own if this machine has it (RFC 6724 section 5, rule 1).
    let from = match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    reached_from(from).is_ok_and(|local| local.ip() == ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_local_and_public_name_servers_are_not() {
        for own in ["127.0.0.1", "127.255.0.1", "::1"] {
            let own: IpAddr = own.parse().unwrap();
            assert!(is_local_address(own), "{own}");
            assert!(can_reach_itself(own), "{own}");
        }
        for other in ["8.8.8.8", "2001:4860:4860::8888"] {
            let other: IpAddr = other.parse().unwrap();
            assert!(!is_local_address(other), "{other}");
            assert!(!can_reach_itself(other), "{other}");
        }
    }
}
