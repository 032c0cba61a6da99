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

use super::server::DownstreamServer;
use crate::decision_log;
use crate::http::transport::{BoxedStream, Transport};
use crate::identity::ClientCertificate;
use crate::tls::server::ServerTls;
use crate::tls::{self, intercept};

/// The transport inside TLS to the proxy itself.
pub(super) type TlsTransport = Transport<TlsStream<Transport<TcpStream>>>;

/// The reason that a connection has no TLS.
pub(super) enum TlsRefusal {
    /// The client is gone, or its handshake failed: no answer would reach it.
    Closed,
    /// The client sent something other than TLS.
    PlainText(Transport<TcpStream>),
}

/// The stream inside TLS, and what the handshake established.
pub(super) struct TerminatedTls {
    pub(super) stream: BoxedStream,
    /// The certificate that the client presented.
    pub(super) certificate: Option<Arc<ClientCertificate>>,
    pub(super) is_http2: bool,
}

/// Terminates TLS on `tcp`; `ahead` holds bytes that have been read already.
///
/// # Errors
///
/// Returns the connection again if the client speaks plain text, so that it can be answered.
pub(super) async fn terminate_tls(
    server: &DownstreamServer,
    mut tcp: Transport<TcpStream>,
    mut ahead: BytesMut,
    client: IpAddr,
) -> Result<TerminatedTls, TlsRefusal> {
    let settings = server.settings();
    let Some(entrance) = &settings.entrance else {
        tracing::error!("an https:// listener is open, and proxy.certificate is gone");
        return Err(TlsRefusal::Closed);
    };
    let patience = settings.options.header_timeout;
    let opening = async {
        if ahead.is_empty() && tcp.read_buf(&mut ahead).await.unwrap_or(0) == 0 {
            return Err(TlsRefusal::Closed);
        }
        if ahead[0] != tls::HANDSHAKE_RECORD {
            return Err(TlsRefusal::PlainText(tcp));
        }
        Ok(accept(entrance.acceptor(), tcp, ahead).await)
    };
    let (result, opened) = match timeout(patience, opening).await {
        Ok(Ok(Ok(secured))) => {
            let inside = TerminatedTls {
                certificate: client_certificate(entrance, &secured),
                is_http2: secured.inner().get_ref().1.alpn_protocol() == Some(b"h2"),
                stream: Box::new(secured),
            };
            ("completed", Ok(inside))
        }
        Ok(Ok(Err(error))) => {
            let client = server.exchanges.decisions.mask_client(client);
            (
                log_failed_handshake(client, &error),
                Err(TlsRefusal::Closed),
            )
        }
        Ok(Err(ended @ TlsRefusal::PlainText(_))) => ("plain", Err(ended)),
        Ok(Err(TlsRefusal::Closed)) => return Err(TlsRefusal::Closed),
        Err(_) => ("timeout", Err(TlsRefusal::Closed)),
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
    let stream = stream.ungathered().with_buffered(ahead.freeze());
    let tls = acceptor.accept(stream).await?;
    Ok(Transport::new(tls, id))
}

/// Returns the certificate that the client presented. It was verified in this handshake, or in the one of the session that
/// this one resumes.
fn client_certificate(
    entrance: &ServerTls,
    secured: &TlsTransport,
) -> Option<Arc<ClientCertificate>> {
    let chain = secured.inner().get_ref().1.peer_certificates()?;
    ClientCertificate::from_chain(chain, entrance).map(Arc::new)
}

/// Logs why a handshake failed, and returns the metric's label for it.
fn log_failed_handshake(client: decision_log::LoggedClient, error: &io::Error) -> &'static str {
    if intercept::is_untrusted_ca(error) {
        tracing::warn!(%client, "the client does not trust proxy.certificate");
        return "untrusted";
    }
    tracing::info!(%client, %error, "the TLS handshake with the proxy failed");
    match tls::rustls_error(error) {
        Some(rustls::Error::InvalidCertificate(_)) => "certificate",
        _ => "failed",
    }
}
