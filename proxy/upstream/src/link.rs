//! The stream under a connection to an origin: TCP to the origin; TCP or TLS to a parent proxy. Writes are not gathered:
//! the heads of requests are flushed at once.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;
use wayleave_transport::http::transport::Transport;

/// A byte stream to an origin, or to a parent proxy that relays to it.
pub type UpstreamLink = Transport<Either<TcpStream, Box<TlsStream<TcpStream>>>>;

pub(super) fn over_tcp(tcp: TcpStream) -> UpstreamLink {
    Transport::new(Either::Left(tcp)).without_gathering()
}

pub(super) fn over_tls(tls: TlsStream<TcpStream>) -> UpstreamLink {
    Transport::new(Either::Right(Box::new(tls))).without_gathering()
}

/// Returns the address of this machine's end.
pub fn local_address(link: &UpstreamLink) -> io::Result<SocketAddr> {
    tcp_of(link).local_addr()
}

/// Returns the address of the other end: the origin's, or the parent proxy's.
pub(super) fn peer_address(link: &UpstreamLink) -> io::Result<SocketAddr> {
    tcp_of(link).peer_addr()
}

/// Makes the connection end with a reset instead of a FIN once it is dropped, so that the peer sees it was cut off.
pub fn reset_on_drop(link: &UpstreamLink) {
    // If it cannot be set, the connection is gone already.
    let _ = tcp_of(link).set_zero_linger();
}

fn tcp_of(link: &UpstreamLink) -> &TcpStream {
    match link.inner() {
        Either::Left(tcp) => tcp,
        Either::Right(tls) => tls.get_ref().0,
    }
}
