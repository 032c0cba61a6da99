//! A tunnel, from its opening to the protocol inside: TLS that is intercepted or relayed uninspected, or plain HTTP.

use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use wayleave_robots_txt::{Origin, Scheme};

use super::entrance::Secured;
use super::server::Server;
use super::{blind_tunnel, entrance};
use crate::decide::request::{Connection, Tunnel};
use crate::decide::resolve;
use crate::exchange::connect::TunnelPermit;
use crate::http::connect_stream::ConnectStream;
use crate::http::transport::{Incoming, Stream, Transport};
use crate::tls::{self, intercept};

/// The HTTP connection inside a tunnel.
#[derive(Debug)]
pub(crate) struct Inside {
    pub(crate) incoming: Incoming,
    pub(crate) connection: Connection,
    pub(crate) speaks_http2: bool,
}

/// Detects the protocol inside a tunnel that has been confirmed to its client. Returns `None` if the bytes were relayed
/// uninspected, or if the client is gone or speaks no known protocol.
pub(super) async fn enter(
    server: &Server,
    mut incoming: Incoming,
    outside: &Connection,
    permit: TunnelPermit<'_>,
) -> Option<Inside> {
    let TunnelPermit {
        origin, via, blind, ..
    } = permit;
    if blind.as_ref().is_some_and(|blind| blind.is_bypass()) {
        blind_tunnel::pass(server, incoming, blind?).await;
        return None;
    }
    while incoming.ahead.is_empty() {
        let patience = server.settings().options.header_timeout;
        let reading = incoming.stream.read_buf(&mut incoming.ahead);
        let read = tokio::select! {
            read = timeout(patience, reading) => read,
            () = server.exchanges.ending.cut() => {
                if let Some(blind) = blind {
                    blind.cut_off();
                }
                return None;
            }
        };
        if read.ok()?.ok()? == 0 {
            return None;
        }
    }
    if incoming.ahead[0] == tls::HANDSHAKE {
        if let Some(blind) = blind {
            blind_tunnel::pass_tls(server, incoming, &origin, blind).await;
            return None;
        }
        return end_tls(server, incoming, outside, (origin, via)).await;
    }
    let origin = Origin::from_authority(
        Scheme::Http,
        &format!("{}:{}", origin.host(), origin.port()),
    );
    let tunnel = Tunnel {
        origin: origin.ok()?,
        foreign_server_name: None,
        via,
    };
    let connection = Connection {
        tunnel: Some(tunnel),
        ..outside.clone()
    };
    Some(Inside {
        incoming,
        connection,
        speaks_http2: false,
    })
}

/// Intercepts TLS: runs the handshake with a certificate for the origin's host.
async fn end_tls(
    server: &Server,
    incoming: Incoming,
    outside: &Connection,
    (origin, via): (Origin, Option<Arc<[u8]>>),
) -> Option<Inside> {
    let config = certificate(server, &origin)?;
    let patience = server.settings().options.header_timeout;
    let accepted = timeout(patience, accept(config, incoming)).await.ok()?;
    let inside = match accepted {
        Ok(inside) => inside,
        Err(error) => {
            explain_failed_handshake(server, outside.client, &origin, &error);
            return None;
        }
    };
    let server_name = inside.server_name;
    let foreign_server_name = server_name.filter(|name| !resolve::is_host_of(name, &origin));
    let tunnel = Tunnel {
        origin,
        foreign_server_name,
        via,
    };
    Some(Inside {
        incoming: inside.stream.into(),
        connection: Connection {
            tunnel: Some(tunnel),
            ..outside.clone()
        },
        speaks_http2: inside.speaks_http2,
    })
}

/// The stream inside intercepted TLS, and what the handshake established.
struct Accepted {
    stream: Stream,
    speaks_http2: bool,
    server_name: Option<String>,
}

/// Runs the TLS handshake inside a tunnel, whatever transport the tunnel was opened on.
async fn accept(config: Arc<ServerConfig>, incoming: Incoming) -> io::Result<Accepted> {
    let Incoming { stream, ahead } = incoming;
    match on(stream) {
        Ok(On::Tcp(tcp)) => accept_on(config, *tcp, ahead).await,
        Ok(On::Tls(tls)) => accept_on(config, *tls, ahead).await,
        Ok(On::Http2(stream)) => accept_on(config, *stream, ahead).await,
        Err(error) => Err(error),
    }
}

/// The transport that a tunnel was opened on: a connection, TLS to the proxy, or an HTTP/2 stream inside that.
enum On {
    Tcp(Box<Transport<TcpStream>>),
    Tls(Box<Secured>),
    Http2(Box<Transport<ConnectStream>>),
}

fn on(stream: Stream) -> io::Result<On> {
    let other = match stream.into_any().downcast() {
        Ok(tcp) => return Ok(On::Tcp(tcp)),
        Err(other) => other,
    };
    let other = match other.downcast() {
        Ok(tls) => return Ok(On::Tls(tls)),
        Err(other) => other,
    };
    match other.downcast() {
        Ok(stream) => Ok(On::Http2(stream)),
        Err(_) => Err(io::Error::other("a tunnel was opened inside a tunnel")),
    }
}

async fn accept_on<S>(
    config: Arc<ServerConfig>,
    stream: Transport<S>,
    ahead: BytesMut,
) -> io::Result<Accepted>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + Sync + 'static,
{
    let tls = entrance::accept(TlsAcceptor::from(config), stream, ahead).await?;
    let session = tls.inner().get_ref().1;
    Ok(Accepted {
        speaks_http2: session.alpn_protocol() == Some(b"h2"),
        server_name: session.server_name().map(str::to_owned),
        stream: Box::new(tls),
    })
}

/// Returns the TLS configuration with a certificate for the origin's host, or `None` if none can be issued.
fn certificate(server: &Server, origin: &Origin) -> Option<Arc<ServerConfig>> {
    let host = origin.host().trim_start_matches('[').trim_end_matches(']');
    let exchanges = &server.exchanges;
    let now = exchanges.decider.robots.clock().now();
    match server.interceptor.server_config(host, now) {
        Ok((config, leaf)) => {
            exchanges.metrics.leaf_certificate(leaf.as_str());
            Some(config)
        }
        Err(error) => {
            exchanges.metrics.leaf_certificate("failed");
            tracing::warn!(%origin, error = format!("{error:#}"), "no certificate for this host");
            None
        }
    }
}

fn explain_failed_handshake(
    server: &Server,
    client: std::net::IpAddr,
    origin: &Origin,
    error: &io::Error,
) {
    let client = server.exchanges.decisions.shown(client);
    if intercept::is_distrust(error) {
        server.exchanges.metrics.leaf_certificate("untrusted");
        tracing::warn!(
            %client,
            %origin,
            "the client does not trust wayleave's CA: give it the certificate that \
             `wayleave ca show` prints (`wayleave env --client …` says how)"
        );
    } else {
        tracing::info!(%client, %origin, %error, "the TLS handshake inside a tunnel failed");
    }
}
