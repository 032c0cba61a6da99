//! Which addresses are this machine's own.

use std::net::{IpAddr, UdpSocket};

/// Whether `ip` belongs to this machine: only then can a socket be bound to it.
pub(crate) fn is_of_this_machine(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}
