//! A tunnel, from its opening to the protocol inside: TLS that is intercepted or relayed uninspected, or plain HTTP.

use std::any::Any;
use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use wayleave_admission::outcome::NotSent;
use wayleave_admission::request::{ClientConnection, ConnectTunnel};
use wayleave_admission::{refusal, target};
use wayleave_robots_txt::{Origin, UrlScheme};
use wayleave_transport::http::connect_stream::ConnectStream;
use wayleave_transport::http::transport::{BoxedStream, BufferedStream, Transport};
use wayleave_transport::tls::{self, intercept};

use super::server::DownstreamServer;
use super::tls_termination::{NegotiatedConnection, TlsTransport};
use super::{blind_tunnel, http1, http2, tls_termination};
use crate::exchange::tunnel::{OpenedTunnel, TunnelPermit};

/// Serves a tunnel until it ends.
pub(super) async fn serve(server: &Arc<DownstreamServer>, opened: Box<OpenedTunnel<'_>>) {
    // This runs once per connection. Boxed, it does not enlarge the future of every idle connection.
    if let Some(http) = Box::pin(negotiate(server, opened)).await {
        serve_requests(server, http).await;
    }
}

/// Serves requests that are not made to this proxy, but to an origin, until the connection ends.
pub(super) async fn serve_requests(
    server: &Arc<DownstreamServer>,
    http: Box<NegotiatedConnection>,
) {
    if http.is_http2 {
        let serving = http2::serve(server, http.incoming.stream, http.connection, http2::exchange);
        Box::pin(serving).await;
    } else {
        // The outcome is never a tunnel: a CONNECT to an origin is refused.
        http1::serve(server, http).await;
    }
}

/// Detects the protocol inside a tunnel that has been confirmed to its client. Returns `None` if the bytes were relayed
/// uninspected, or if the client is gone or speaks no known protocol.
async fn negotiate(
    server: &DownstreamServer,
    opened: Box<OpenedTunnel<'_>>,
) -> Option<Box<NegotiatedConnection>> {
    let OpenedTunnel { incoming, connection, permit } = *opened;
    let TunnelPermit { origin, via, proof, purposes, blind } = permit;
    let outside = &ClientConnection { proof, purposes: purposes.into(), ..connection };
    let is_bypass = blind.as_ref().is_some_and(|blind| blind.is_bypass());
    let begun = match incoming {
        None => Err(NotSent::ClientLeft),
        // Not even the first bytes are inspected.
        Some(incoming) if is_bypass => Ok(incoming),
        Some(incoming) => read_first_bytes(server, incoming).await,
    };
    let is_tls = |it: &BufferedStream| it.buffered.first() == Some(&tls::HANDSHAKE_RECORD);
    match (begun, blind) {
        (Ok(incoming), Some(blind)) if is_bypass => {
            blind_tunnel::relay(server, incoming, blind).await;
            None
        }
        (Ok(incoming), Some(blind)) if is_tls(&incoming) => {
            blind_tunnel::relay_tls(server, incoming, &origin, blind).await;
            None
        }
        (Ok(incoming), None) if is_tls(&incoming) => {
            terminate_tls(server, incoming, outside, (origin, via)).await
        }
        (Ok(incoming), _) => plain_http(incoming, outside, &origin, via),
        (Err(not_sent), Some(blind)) => {
            blind.close_unused(not_sent);
            None
        }
        // An inspected tunnel has no record: each request inside has its own.
        (Err(_), None) => None,
    }
}

/// Waits for the first bytes in a tunnel. Servers of some protocols speak first, but HTTP and TLS begin with the client.
///
/// # Errors
///
/// Returns why none came.
async fn read_first_bytes(
    server: &DownstreamServer,
    mut incoming: BufferedStream,
) -> Result<BufferedStream, NotSent> {
    if incoming.buffered.is_empty() {
        let header_timeout = server.settings().options.header_timeout;
        let reading = incoming.stream.read_buf(&mut incoming.buffered);
        let read = tokio::select! {
            read = timeout(header_timeout, reading) => read,
            () = server.exchanges.gate.shutdown.cancelled() => return Err(NotSent::ShutDown),
        };
        match read {
            Ok(Ok(1..)) => {}
            Ok(Ok(0) | Err(_)) => return Err(NotSent::ClientLeft),
            Err(_) => return Err(NotSent::Refused(refusal::tunnel_timeout())),
        }
    }
    Ok(incoming)
}

/// Returns the connection inside a tunnel without TLS. Whatever the port, its requests are for an http origin.
fn plain_http(
    incoming: BufferedStream,
    outside: &ClientConnection,
    origin: &Origin,
    via: Option<Arc<[u8]>>,
) -> Option<Box<NegotiatedConnection>> {
    let origin =
        Origin::from_authority(UrlScheme::Http, &format!("{}:{}", origin.host(), origin.port()));
    let tunnel = ConnectTunnel { origin: origin.ok()?, foreign_server_name: None, via };
    let connection = ClientConnection { tunnel: Some(tunnel), ..outside.clone() };
    Some(Box::new(NegotiatedConnection { incoming, connection, is_http2: false }))
}

/// Intercepts TLS: runs the handshake with a certificate for the origin's host.
async fn terminate_tls(
    server: &DownstreamServer,
    incoming: BufferedStream,
    outside: &ClientConnection,
    (origin, via): (Origin, Option<Arc<[u8]>>),
) -> Option<Box<NegotiatedConnection>> {
    let config = server_config(server, &origin)?;
    let header_timeout = server.settings().options.header_timeout;
    let accepted = match timeout(header_timeout, accept_tls(config, incoming)).await.ok()? {
        Ok(accepted) => accepted,
        Err(error) => {
            log_failed_handshake(server, outside.client, &origin, &error);
            return None;
        }
    };
    // The tunnel was decided for one origin: a different server name makes its requests refused later, with an answer.
    let foreign_server_name =
        accepted.server_name.filter(|name| !target::names_host_of(name, &origin));
    let tunnel = ConnectTunnel { origin, foreign_server_name, via };
    Some(Box::new(NegotiatedConnection {
        incoming: accepted.stream.into(),
        connection: ClientConnection { tunnel: Some(tunnel), ..outside.clone() },
        is_http2: accepted.is_http2,
    }))
}

/// The stream inside intercepted TLS, and the facts that the handshake established.
struct AcceptedTls {
    stream: BoxedStream,
    is_http2: bool,
    server_name: Option<String>,
}

/// Runs the TLS handshake inside a tunnel, whatever transport the tunnel was opened on.
async fn accept_tls(
    config: Arc<ServerConfig>,
    incoming: BufferedStream,
) -> io::Result<AcceptedTls> {
    let BufferedStream { stream, buffered } = incoming;
    match tunnel_transport(stream) {
        Ok(TunnelTransport::Tcp(tcp)) => accept_tls_on(config, *tcp, buffered).await,
        Ok(TunnelTransport::Tls(tls)) => accept_tls_on(config, *tls, buffered).await,
        Ok(TunnelTransport::Http2(stream)) => accept_tls_on(config, *stream, buffered).await,
        Err(error) => Err(error),
    }
}

/// The transport that a tunnel was opened on: a connection, TLS to the proxy, or an HTTP/2 stream inside that.
enum TunnelTransport {
    Tcp(Box<Transport<TcpStream>>),
    Tls(Box<TlsTransport>),
    Http2(Box<Transport<ConnectStream>>),
}

/// Recovers the concrete type of a stream, on which alone gathering can be switched off for the TLS above it.
fn tunnel_transport(stream: BoxedStream) -> io::Result<TunnelTransport> {
    let stream: Box<dyn Any> = stream;
    stream
        .downcast()
        .map(TunnelTransport::Tcp)
        .or_else(|other| other.downcast().map(TunnelTransport::Tls))
        .or_else(|other| other.downcast().map(TunnelTransport::Http2))
        .map_err(|_| io::Error::other("a tunnel was opened inside a tunnel"))
}

async fn accept_tls_on<S>(
    config: Arc<ServerConfig>,
    stream: Transport<S>,
    buffered: BytesMut,
) -> io::Result<AcceptedTls>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + Sync + 'static,
{
    let tls = tls_termination::accept(TlsAcceptor::from(config), stream, buffered).await?;
    let session = tls.inner().get_ref().1;
    Ok(AcceptedTls {
        is_http2: session.alpn_protocol() == Some(b"h2"),
        server_name: session.server_name().map(str::to_owned),
        stream: Box::new(tls),
    })
}

/// Returns the TLS configuration with a certificate for the origin's host, or `None` if none can be issued.
fn server_config(server: &DownstreamServer, origin: &Origin) -> Option<Arc<ServerConfig>> {
    let host = origin.host().trim_start_matches('[').trim_end_matches(']');
    let exchanges = &server.exchanges;
    let now = exchanges.gate.decider.robots.clock().now();
    match server.interceptor.server_config(host, now) {
        Ok((config, leaf)) => {
            exchanges.gate.metrics.leaf_certificate(leaf.as_str());
            Some(config)
        }
        Err(error) => {
            exchanges.gate.metrics.leaf_certificate("failed");
            tracing::warn!(%origin, error = format!("{error:#}"), "no certificate for this host");
            None
        }
    }
}

fn log_failed_handshake(
    server: &DownstreamServer,
    client: std::net::IpAddr,
    origin: &Origin,
    error: &io::Error,
) {
    let has_alerted = intercept::is_untrusted_ca(error);
    if has_alerted || error.kind() == io::ErrorKind::UnexpectedEof {
        server.keep_untrusting(client, origin, has_alerted);
    }
    let client = server.exchanges.gate.decisions.mask_client(client);
    if has_alerted {
        server.exchanges.gate.metrics.leaf_certificate("untrusted");
        tracing::warn!(
            %client,
            %origin,
            "the client does not trust wayleave's CA: give it the certificate that \
             `wayleave ca show` prints (`wayleave env --client NAME` says how)"
        );
    } else {
        tracing::info!(%client, %origin, %error, "the TLS handshake inside a tunnel failed");
    }
}
