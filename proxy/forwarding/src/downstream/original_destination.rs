//! The destination that a client dialled whose connection the kernel brought to a listener.

use std::net::SocketAddr;

use socket2::SockRef;
use tokio::net::TcpStream;
use wayleave_config::{ListenAddress, ListenProtocol};
use wayleave_upstream::egress::is_local_address;

/// Returns the destination that the client of a connection dialled, or `None` if that is the listener itself.
pub(super) fn original_destination(tcp: &TcpStream, listen: ListenAddress) -> Option<SocketAddr> {
    let local = canonical(tcp.local_addr().ok()?);
    if listen.protocol == ListenProtocol::Redirect {
        // It fails for a connection that was not redirected, if the kernel tracks none.
        redirected_from(tcp, local).filter(|dialled| *dialled != local)
    } else {
        (!is_listener(local, canonical(listen.address))).then_some(local)
    }
}

fn redirected_from(tcp: &TcpStream, local: SocketAddr) -> Option<SocketAddr> {
    let socket = SockRef::from(tcp);
    let dialled = match local {
        SocketAddr::V4(_) => socket.original_dst_v4(),
        SocketAddr::V6(_) => socket.original_dst_v6(),
    };
    dialled.ok()?.as_socket().map(canonical)
}

/// Returns whether a client that dialled `local` reached a listener without the kernel's help.
fn is_listener(local: SocketAddr, listener: SocketAddr) -> bool {
    let covers_address = || {
        listener.ip().is_unspecified() && is_local_address(local.ip())
            || local.ip() == listener.ip()
    };
    local.port() == listener.port() && covers_address()
}

/// Returns the address with IPv4 as such, whatever the family of the socket.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
