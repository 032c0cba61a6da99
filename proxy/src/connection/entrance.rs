//! TLS to the proxy itself: from a connection to a stream on which HTTP begins.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::BytesMut;
use pingora_core::protocols::UniqueID;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::server::Server;
use crate::http::transport::{Stream, Transport};
use crate::identity::ClientCertificate;
use crate::observe::decisions;
use crate::tls::entrance::Entrance;
use crate::tls::{self, intercept};

/// A connection inside TLS to the proxy.
pub(super) type Secured = Transport<TlsStream<Transport<TcpStream>>>;

/// Why there is no TLS.
pub(super) enum Ended {
    /// Nobody is there, or nobody who could be answered.
    Closed,
    /// It was not begun: the client speaks something else.
    Plain(Transport<TcpStream>),
}

/// A stream inside TLS.
pub(super) struct Inside {
    pub(super) stream: Stream,
    /// What the client showed.
    pub(super) certificate: Option<Arc<ClientCertificate>>,
    pub(super) speaks_http2: bool,
}

/// Ends the TLS that `tcp` begins with, of which `ahead` was read already.
pub(super) async fn end_tls(
    server: &Server,
    mut tcp: Transport<TcpStream>,
    mut ahead: BytesMut,
    client: IpAddr,
) -> Result<Inside, Ended> {
    let settings = server.settings();
    let Some(entrance) = &settings.entrance else {
        tracing::error!("an https:// listener is open, and proxy.certificate is gone");
        return Err(Ended::Closed);
    };
    let patience = settings.options.header_timeout;
    let opening = async {
        if ahead.is_empty() && tcp.read_buf(&mut ahead).await.unwrap_or(0) == 0 {
            return Err(Ended::Closed);
        }
        if ahead[0] != tls::HANDSHAKE {
            return Err(Ended::Plain(tcp));
        }
        Ok(accept(entrance.acceptor(), tcp, ahead).await)
    };
    let (result, opened) = match timeout(patience, opening).await {
        Ok(Ok(Ok(secured))) => {
            let inside = Inside {
                certificate: shown(entrance, &secured),
                speaks_http2: secured.inner().get_ref().1.alpn_protocol() == Some(b"h2"),
                stream: Box::new(secured),
            };
            ("completed", Ok(inside))
        }
        Ok(Ok(Err(error))) => {
            let client = server.exchanges.decisions.shown(client);
            (explain(client, &error), Err(Ended::Closed))
        }
        Ok(Err(ended @ Ended::Plain(_))) => ("plain", Err(ended)),
        Ok(Err(Ended::Closed)) => return Err(Ended::Closed),
        Err(_) => ("timeout", Err(Ended::Closed)),
    };
    server.exchanges.metrics.client_handshake(result);
    opened
}

/// Ends TLS on `stream`, of which `ahead` was read already.
pub(super) async fn accept<S>(
    acceptor: TlsAcceptor,
    stream: Transport<S>,
    ahead: BytesMut,
) -> io::Result<Transport<TlsStream<Transport<S>>>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let id = stream.id();
    let stream = stream.ungathered().with_read_ahead(ahead.freeze());
    let tls = acceptor.accept(stream).await?;
    Ok(Transport::new(tls, id))
}

/// What the client showed. The handshake found it good, or it is from a session for which one did.
fn shown(entrance: &Entrance, secured: &Secured) -> Option<Arc<ClientCertificate>> {
    let chain = secured.inner().get_ref().1.peer_certificates()?;
    ClientCertificate::shown(chain, entrance).map(Arc::new)
}

/// Says why a handshake failed, and how that is counted.
fn explain(client: decisions::Client, error: &io::Error) -> &'static str {
    if intercept::is_distrust(error) {
        tracing::warn!(%client, "the client does not trust proxy.certificate");
        return "untrusted";
    }
    tracing::info!(%client, %error, "the TLS handshake with the proxy failed");
    match tls::cause(error) {
        Some(rustls::Error::InvalidCertificate(_)) => "certificate",
        _ => "failed",
    }
}
