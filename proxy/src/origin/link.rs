//! What a connection to an origin runs over: TCP, or TCP or TLS with a parent proxy.

use std::os::fd::AsRawFd;

use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

use crate::http::transport::Transport;

/// Bytes to and from an origin, or to and from a parent proxy until it leads to the origin.
pub(crate) type Link = Transport<Either<TcpStream, Box<TlsStream<TcpStream>>>>;

pub(super) fn over_tcp(tcp: TcpStream) -> Link {
    let descriptor = tcp.as_raw_fd();
    Transport::new(Either::Left(tcp), descriptor).ungathered()
}

pub(super) fn over_tls(tls: TlsStream<TcpStream>) -> Link {
    let descriptor = tls.as_raw_fd();
    Transport::new(Either::Right(Box::new(tls)), descriptor).ungathered()
}

/// Has the peer see this break off instead of ending, once it is dropped.
pub(crate) fn break_off(link: &Link) {
    let tcp = match link.inner() {
        Either::Left(tcp) => tcp,
        Either::Right(tls) => tls.get_ref().0,
    };
    // Where it cannot be set, the connection is gone already.
    let _ = tcp.set_zero_linger();
}
