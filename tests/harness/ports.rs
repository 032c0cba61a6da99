//! Ports for programs that must be given a port and cannot report one.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the ports that the system assigns (`ip_local_port_range`): otherwise another test's listener, or a client's end of a
/// connection, could take the port before the program does.
const PORTS: Range<u16> = 10_000..22_000;
/// The distance from the port of a Redis node to its cluster bus port.
const BUS: u16 = 10_000;

static TRIED: AtomicU16 = AtomicU16::new(0);

/// Returns a free address on loopback.
pub fn free_address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, free()).into()
}

/// Returns a port on loopback that is free, as is the one ten thousand above, and that this process has not returned before.
pub fn free() -> u16 {
    let count = PORTS.end - PORTS.start;
    // Processes that run side by side begin at different places.
    let first = std::process::id().wrapping_mul(97) % u32::from(count);
    let first = u16::try_from(first).expect("less than their number");
    let is_fit = |port: &u16| {
        [*port, port + BUS].iter().all(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
    };
    std::iter::repeat_with(|| TRIED.fetch_add(1, Ordering::Relaxed))
        .take(usize::from(count))
        .map(|tried| PORTS.start + (first + tried % count) % count)
        .find(is_fit)
        .expect("loopback has free ports")
}
