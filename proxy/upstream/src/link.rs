//! The stream under a connection to an origin: TCP to the origin; TCP or TLS to a parent proxy. Writes are not gathered:
//! the heads of requests are flushed at once.

use std::any::Any;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;
use wayleave_transport::http::transport::{ByteStream, Transport};

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

/// Has the current runtime watch a connection in place of the one that opened it. Returns whether it does: some streams cannot be
/// moved, and then nothing has changed.
pub(super) fn move_to_current_runtime(stream: &mut dyn ByteStream) -> bool {
    let stream: &mut dyn Any = stream;
    let link = if stream.is::<UpstreamLink>() {
        stream.downcast_mut()
    } else {
        stream.downcast_mut::<TlsStream<UpstreamLink>>().map(|tls| tls.get_mut().0)
    };
    let Some(link) = link else {
        return false;
    };
    let tcp = match link.inner_mut() {
        Either::Left(tcp) => tcp,
        Either::Right(tls) => tls.get_mut().0,
    };
    // A second descriptor of the same socket, so that there is a whole stream at any time.
    let same = tcp.as_fd().try_clone_to_owned();
    match same.and_then(|same| TcpStream::from_std(same.into())) {
        Ok(moved) => {
            *tcp = moved;
            true
        }
        Err(_) => false,
    }
}

fn tcp_of(link: &UpstreamLink) -> &TcpStream {
    match link.inner() {
        Either::Left(tcp) => tcp,
        Either::Right(tls) => tls.get_ref().0,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::sync::{Arc, mpsc};
    use std::thread;
    use std::time::Duration;

    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::{ClientConfig, RootCertStore, ServerConnection, StreamOwned};
    use tokio::io::AsyncReadExt;
    use tokio::runtime::{Builder, Runtime};
    use wayleave_clock::system_time;
    use wayleave_transport::http::transport::BoxedStream;
    use wayleave_transport::tls;
    use wayleave_transport::tls::intercept::{CertificateAuthority, TlsInterceptor};

    use super::*;

    /// Returns a runtime that watches its sockets only while it is told to run something.
    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_all().build().unwrap()
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the origin is this test's")]
    fn connection_is_watched_by_the_thread_that_it_was_moved_to() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Arc::new(CertificateAuthority::load_or_create(dir.path()).unwrap());
        let mut roots = RootCertStore::empty();
        let pem = authority.certificate_pem().as_bytes();
        roots.add(CertificateDer::from_pem_slice(pem).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(tls::provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = tls::connector_offering(&config, &[]);
        let interceptor = TlsInterceptor::new(authority).unwrap();
        let (server, _) = interceptor.server_config("shop.test", system_time()).unwrap();
        let name = ServerName::try_from("shop.test").unwrap();
        let [opening, using] = [runtime(), runtime()];
        for has_tls in [false, true] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let server = Arc::clone(&server);
            let (go_on, may_go_on) = mpsc::channel();
            let origin = thread::spawn(move || {
                let tcp = listener.accept().unwrap().0;
                let tls = || StreamOwned::new(ServerConnection::new(server).unwrap(), &tcp);
                let mut stream: Box<dyn Write> =
                    if has_tls { Box::new(tls()) } else { Box::new(&tcp) };
                stream.write_all(b"a").unwrap();
                may_go_on.recv().unwrap();
                stream.write_all(b"b").unwrap();
            });
            let mut stream = opening.block_on(async {
                let link = over_tcp(TcpStream::connect(address).await.unwrap());
                let mut stream: BoxedStream = if has_tls {
                    Box::new(connector.connect(name.clone(), link).await.unwrap())
                } else {
                    Box::new(link)
                };
                assert_eq!(stream.read_u8().await.unwrap(), b'a');
                stream
            });
            using.block_on(async {
                assert!(move_to_current_runtime(&mut *stream), "TLS: {has_tls}");
                go_on.send(()).unwrap();
                let read = tokio::time::timeout(Duration::from_secs(60), stream.read_u8());
                assert_eq!(read.await.expect("nobody runs the other").unwrap(), b'b');
            });
            origin.join().unwrap();
        }
    }
}
