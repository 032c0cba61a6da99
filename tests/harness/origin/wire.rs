//! An origin's connection: TLS, good or bad, and the choice of HTTP version.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use super::{Shared, frames, http1, http2};
use crate::harness::tls::{self, Certificate};

pub trait Transport: AsyncRead + AsyncWrite + Unpin + Send {
    /// Makes the close a reset.
    fn reset(&self);
}

impl Transport for TcpStream {
    fn reset(&self) {
        self.set_zero_linger().expect("SO_LINGER can be set on TCP sockets");
    }
}

impl Transport for TlsStream<TcpStream> {
    fn reset(&self) {
        self.get_ref().0.reset();
    }
}

/// The context of all requests of a connection.
#[derive(Clone)]
pub struct Connection {
    pub number: usize,
    pub peer: IpAddr,
    pub scheme: &'static str,
    pub sni: Option<String>,
    pub shared: Arc<Shared>,
}

impl Connection {
    /// Returns the HTTP/2 frames in the script of the host.
    pub fn frames(&self) -> Vec<frames::Frame> {
        self.shared.site(self.sni.as_deref().unwrap_or("*")).frames
    }

    fn answers_by_frames(&self) -> bool {
        !self.frames().is_empty()
    }
}

/// Serves a connection to its end. Errors are ignored: tests check what arrived.
pub async fn serve(stream: TcpStream, scheme: &'static str, number: usize, shared: Arc<Shared>) {
    let Ok(peer) = stream.peer_addr().map(|peer| peer.ip()) else {
        return;
    };
    let mut connection = Connection { number, peer, scheme, sni: None, shared };
    stream.set_nodelay(true).expect("TCP_NODELAY can be set on TCP sockets");
    let _ended = match scheme {
        "http" => http1::serve(stream, &connection).await,
        _ => match accept_tls(stream, &mut connection).await {
            Ok((tls, "h2")) if connection.answers_by_frames() => {
                frames::serve(tls, &connection).await
            }
            Ok((tls, "h2")) => http2::serve(tls, &connection).await,
            Ok((tls, _)) => http1::serve(tls, &connection).await,
            Err(error) => Err(error),
        },
    };
}

/// Completes the handshake, and returns the protocol inside TLS.
async fn accept_tls(
    mut stream: TcpStream,
    connection: &mut Connection,
) -> io::Result<(TlsStream<TcpStream>, &'static str)> {
    let mut first = [0; 1];
    stream.peek(&mut first).await?;
    if first[0] != 22 {
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n").await?;
        return Err(io::Error::other("plain text at the TLS port"));
    }
    let address = stream.local_addr()?;
    let start = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), stream).await?;
    connection.sni = start.client_hello().server_name().map(str::to_owned);
    let host = connection.sni.clone().unwrap_or_else(|| address.ip().to_string());
    let site = connection.shared.site(&host);
    match site.certificate {
        Certificate::Alert => return break_handshake(start, &[21, 3, 3, 0, 2, 2, 40]).await,
        Certificate::PlainText => {
            return break_handshake(start, b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
        _ => {}
    }
    let offered = match site.protocols {
        [] => &["h2", "http/1.1"],
        protocols => protocols,
    };
    let hello = start.client_hello();
    let accepts = |protocol: &&str| {
        hello.alpn().is_none_or(|mut offers| offers.any(|offer| offer == protocol.as_bytes()))
    };
    let ignores_alpn = site.ignores_alpn && !offered.iter().any(accepts);
    let protocols = if ignores_alpn { &[] } else { offered };
    let config = tls::server_config(&host, site.certificate, protocols);
    let tls = start.into_stream(Arc::new(config)).await?;
    let speaks_http2 =
        ignores_alpn && offered == ["h2"] || tls.get_ref().1.alpn_protocol() == Some(b"h2");
    Ok((tls, if speaks_http2 { "h2" } else { "http/1.1" }))
}

/// Responds to the ClientHello with these bytes and closes: 21 is the record type alert, 40 is handshake_failure.
async fn break_handshake<T>(
    mut start: tokio_rustls::StartHandshake<TcpStream>,
    bytes: &[u8],
) -> io::Result<T> {
    start.io.write_all(bytes).await?;
    start.io.shutdown().await?;
    Err(io::Error::other("the handshake was broken on purpose"))
}
