//! Terminates TLS to the proxy itself.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use wayleave_admission::identity::ClientCertificate;
use wayleave_admission::request::ClientConnection;
use wayleave_decision_log as decision_log;
use wayleave_transport::http::transport::{BoxedStream, BufferedStream, Transport};
use wayleave_transport::tls::server::ServerTls;
use wayleave_transport::tls::{self, intercept};

use super::server::DownstreamServer;

/// The transport inside TLS to the proxy itself.
pub(super) type TlsTransport = Transport<TlsStream<Transport<TcpStream>>>;

/// The reason that a connection has no TLS.
pub(super) enum TlsRefusal {
    /// The client is gone, or its handshake failed: no answer would reach it.
    Closed,
    /// The client sent something other than TLS.
    PlainText(Transport<TcpStream>),
}

/// The stream inside TLS, and the facts that the handshake established.
pub(super) struct TerminatedTls {
    pub(super) stream: BoxedStream,
    /// The certificate that the client presented.
    pub(super) certificate: Option<Arc<ClientCertificate>>,
    pub(super) is_http2: bool,
}

/// A connection that is ready for HTTP.
pub(super) struct NegotiatedConnection {
    pub(super) incoming: BufferedStream,
    pub(super) connection: ClientConnection,
    pub(super) is_http2: bool,
}

/// Terminates TLS on `tcp`; `buffered` holds bytes that have been read already.
///
/// # Errors
///
/// Returns the connection again if the client speaks plain text, so that it can be answered.
pub(super) async fn terminate_tls(
    server: &DownstreamServer,
    mut tcp: Transport<TcpStream>,
    mut buffered: BytesMut,
    client: IpAddr,
) -> Result<TerminatedTls, TlsRefusal> {
    let settings = server.settings();
    let Some(server_tls) = &settings.entrance else {
        tracing::error!("an https:// listener is open, but proxy.certificate is missing");
        return Err(TlsRefusal::Closed);
    };
    let handshake = async {
        if buffered.is_empty() && tcp.read_buf(&mut buffered).await.unwrap_or(0) == 0 {
            return Err(TlsRefusal::Closed);
        }
        // A ClientHello is in a handshake record (RFC 8446 section 5.1).
        if buffered[0] != tls::HANDSHAKE_RECORD {
            return Err(TlsRefusal::PlainText(tcp));
        }
        Ok(accept(server_tls.acceptor(), tcp, buffered).await)
    };
    let (label, result) = match timeout(settings.options.header_timeout, handshake).await {
        Ok(Ok(Ok(stream))) => {
            let tls = TerminatedTls {
                certificate: client_certificate(server_tls, &stream),
                is_http2: stream.inner().get_ref().1.alpn_protocol() == Some(b"h2"),
                stream: Box::new(stream),
            };
            ("completed", Ok(tls))
        }
        Ok(Ok(Err(error))) => {
            let client = server.exchanges.gate.decisions.mask_client(client);
            let label = log_failed_handshake(client, &error);
            (label, Err(TlsRefusal::Closed))
        }
        Ok(Err(refusal @ TlsRefusal::PlainText(_))) => ("plain", Err(refusal)),
        // A port scan or a health check is not a failed handshake, and not counted.
        Ok(Err(TlsRefusal::Closed)) => return Err(TlsRefusal::Closed),
        Err(_) => ("timeout", Err(TlsRefusal::Closed)),
    };
    server.exchanges.gate.metrics.client_handshake(label);
    result
}

/// Runs the TLS handshake on `stream`; `buffered` holds bytes that have been read already.
///
/// # Errors
///
/// Returns an error if the handshake fails.
pub(super) async fn accept<S>(
    acceptor: TlsAcceptor,
    stream: Transport<S>,
    buffered: BytesMut,
) -> io::Result<Transport<TlsStream<Transport<S>>>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    // Small writes are gathered above TLS; gathering its records once more would only delay them.
    let tls = acceptor.accept(stream.without_gathering().with_buffered(buffered.freeze())).await?;
    Ok(Transport::new(tls))
}

/// Returns the certificate that the client presented. It was verified in this handshake, or in the one of the session that
/// this one resumes.
fn client_certificate(
    server_tls: &ServerTls,
    stream: &TlsTransport,
) -> Option<Arc<ClientCertificate>> {
    let chain = stream.inner().get_ref().1.peer_certificates()?;
    ClientCertificate::from_chain(chain, server_tls).map(Arc::new)
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
