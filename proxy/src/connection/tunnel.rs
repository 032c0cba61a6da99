//! A tunnel, from its opening to the protocol inside: TLS that is intercepted or passed on uninspected, or plain HTTP.

use std::sync::Arc;

use bytes::BytesMut;
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use wayleave_policy::{Origin, Scheme};

use super::blind_tunnel;
use super::server::Server;
use crate::decide::request::{Connection, Tunnel};
use crate::decide::resolve;
use crate::exchange::connect::TunnelPermit;
use crate::http::transport::{Stream, Transport};
use crate::tls::intercept;

/// The first byte of a TLS handshake record (RFC 8446 section 5.1).
const TLS_HANDSHAKE: u8 = 0x16;

/// What speaks inside a tunnel.
#[derive(Debug)]
pub(crate) struct Inside {
    pub(crate) stream: Stream,
    pub(crate) ahead: BytesMut,
    pub(crate) connection: Connection,
    pub(crate) speaks_http2: bool,
}

/// Opens the tunnel and finds out what speaks inside. `None`: nobody who can be understood, or it passed unseen.
pub(super) async fn enter(
    server: &Server,
    (mut stream, mut ahead): (Stream, BytesMut),
    outside: &Connection,
    permit: TunnelPermit<'_>,
) -> Option<Inside> {
    let TunnelPermit { origin, blind, .. } = permit;
    let opened = b"HTTP/1.1 200 Connection established\r\n\r\n";
    stream.write_all(opened).await.ok()?;
    stream.flush().await.ok()?;
    if blind.as_ref().is_some_and(|blind| blind.is_bypass()) {
        blind_tunnel::pass(server, stream, ahead, blind?).await;
        return None;
    }
    while ahead.is_empty() {
        let read = timeout(
            server.settings().options.header_timeout,
            stream.read_buf(&mut ahead),
        )
        .await;
        if read.ok()?.ok()? == 0 {
            return None;
        }
    }
    if ahead[0] == TLS_HANDSHAKE {
        if let Some(blind) = blind {
            blind_tunnel::pass_tls(server, (stream, ahead), &origin, blind).await;
            return None;
        }
        return end_tls(server, (stream, ahead), outside, origin).await;
    }
    let origin = Origin::from_authority(
        Scheme::Http,
        &format!("{}:{}", origin.host(), origin.port()),
    );
    let tunnel = Tunnel {
        origin: origin.ok()?,
        foreign_server_name: None,
    };
    let connection = Connection {
        tunnel: Some(tunnel),
        ..outside.clone()
    };
    Some(Inside {
        stream,
        ahead,
        connection,
        speaks_http2: false,
    })
}

async fn end_tls(
    server: &Server,
    (stream, ahead): (Stream, BytesMut),
    outside: &Connection,
    origin: Origin,
) -> Option<Inside> {
    let config = certificate(server, &origin)?;
    let Ok(stream) = stream.into_any().downcast::<Transport<TcpStream>>() else {
        tracing::error!(%origin, "a tunnel was opened inside a tunnel");
        return None;
    };
    let id = pingora_core::protocols::UniqueID::id(&*stream);
    let stream = stream.ungathered().with_read_ahead(ahead.freeze());
    let accepting = TlsAcceptor::from(config).accept(stream);
    let tls = match timeout(server.settings().options.header_timeout, accepting)
        .await
        .ok()?
    {
        Ok(tls) => tls,
        Err(error) => {
            explain_failed_handshake(server, outside.client, &origin, &error);
            return None;
        }
    };
    let session = tls.get_ref().1;
    let speaks_http2 = session.alpn_protocol() == Some(b"h2");
    let foreign_server_name = session
        .server_name()
        .filter(|name| !resolve::is_host_of(name, &origin))
        .map(str::to_owned);
    let tunnel = Tunnel {
        origin,
        foreign_server_name,
    };
    let connection = Connection {
        tunnel: Some(tunnel),
        ..outside.clone()
    };
    let stream: Stream = Box::new(Transport::new(tls, id));
    Some(Inside {
        stream,
        ahead: BytesMut::new(),
        connection,
        speaks_http2,
    })
}

/// What TLS to this origin's host is ended with.
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
    error: &std::io::Error,
) {
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
