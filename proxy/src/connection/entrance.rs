//! Terminates TLS to the proxy itself.

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

/// The transport inside TLS to the proxy itself.
pub(super) type Secured = Transport<TlsStream<Transport<TcpStream>>>;

/// The reason that a connection has no TLS.
pub(super) enum Ended {
    /// The client is gone, or its handshake failed: no answer would reach it.
    Closed,
    /// The client sent something other than TLS.
    Plain(Transport<TcpStream>),
}

/// The stream inside TLS, and what the handshake established.
pub(super) struct Inside {
    pub(super) stream: Stream,
    /// The certificate that the client presented.
    pub(super) certificate: Option<Arc<ClientCertificate>>,
    pub(super) speaks_http2: bool,
}

/// Terminates TLS on `tcp`; `ahead` holds bytes that have been read already.
///
/// # Errors
///
/// Returns the connection again if the client speaks plain text, so that it can be answered.
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

/// Runs the TLS handshake on `stream`; `ahead` holds bytes that have been read already.
///
/// # Errors
///
/// Returns an error if the handshake fails.
pub(super) async fn accept<S>(
    acceptor: TlsAcceptor,
    stream: Transport<S>,
    ahead: BytesMut,
) -> io::Result<Transport<TlsStream<Transport<S>>>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let id = stream.id();
    // Small writes are gathered above TLS; gathering its records once more would only delay them.
    let stream = stream.ungathered().with_read_ahead(ahead.freeze());
    let tls = acceptor.accept(stream).await?;
    Ok(Transport::new(tls, id))
}

/// Returns the certificate that the client presented. It was verified in this handshake, or in the one of the session that
/// this one resumes.
fn shown(entrance: &Entrance, secured: &Secured) -> Option<Arc<ClientCertificate>> {
    let chain = secured.inner().get_ref().1.peer_certificates()?;
    ClientCertificate::shown(chain, entrance).map(Arc::new)
}

/// Logs why a handshake failed, and returns the metric's label for it.
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
