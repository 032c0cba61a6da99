//! A tunnel, from its opening to the protocol inside: TLS that is intercepted or passed on uninspected, or plain HTTP.

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use wayleave_policy::{Origin, Scheme};

use super::connect::TunnelPermit;
use crate::flow::decide::request::{Connection, Tunnel};
use crate::flow::decide::resolve;
use crate::flow::exchange::Flow;
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

impl Flow {
    /// Opens the tunnel and finds out what speaks inside. `None`: nobody who can be understood, or it passed unseen.
    pub(crate) async fn enter(
        &self,
        mut stream: Stream,
        mut ahead: BytesMut,
        outside: &Connection,
        leave: TunnelPermit<'_>,
    ) -> Option<Inside> {
        let TunnelPermit { origin, unseen, .. } = leave;
        let opened = b"HTTP/1.1 200 Connection established\r\n\r\n";
        stream.write_all(opened).await.ok()?;
        stream.flush().await.ok()?;
        if unseen.as_ref().is_some_and(|unseen| unseen.is_bypass()) {
            self.pass(stream, ahead, unseen?).await;
            return None;
        }
        while ahead.is_empty() {
            let read = timeout(
                self.settings().options.header_timeout,
                stream.read_buf(&mut ahead),
            )
            .await;
            if read.ok()?.ok()? == 0 {
                return None;
            }
        }
        if ahead[0] == TLS_HANDSHAKE {
            if let Some(unseen) = unseen {
                self.pass_tls(stream, ahead, &origin, unseen).await;
                return None;
            }
            return self.end_tls(stream, ahead, outside, origin).await;
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
        &self,
        stream: Stream,
        ahead: BytesMut,
        outside: &Connection,
        origin: Origin,
    ) -> Option<Inside> {
        let host = origin.host().trim_start_matches('[').trim_end_matches(']');
        let config = match self
            .interceptor
            .server_config(host, self.robots.clock().now())
        {
            Ok((config, leaf)) => {
                self.metrics.leaf_certificate(leaf.as_str());
                config
            }
            Err(error) => {
                self.metrics.leaf_certificate("failed");
                tracing::warn!(%origin, error = format!("{error:#}"), "no certificate for this host");
                return None;
            }
        };
        let Ok(stream) = stream.into_any().downcast::<Transport<TcpStream>>() else {
            tracing::error!(%origin, "a tunnel was opened inside a tunnel");
            return None;
        };
        let id = pingora_core::protocols::UniqueID::id(&*stream);
        let stream = stream.ungathered().with_read_ahead(ahead.freeze());
        let accepting = TlsAcceptor::from(config).accept(stream);
        let tls = match timeout(self.settings().options.header_timeout, accepting)
            .await
            .ok()?
        {
            Ok(tls) => tls,
            Err(error) => {
                self.explain_failed_handshake(outside.client, &origin, &error);
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

    fn explain_failed_handshake(
        &self,
        client: std::net::IpAddr,
        origin: &Origin,
        error: &std::io::Error,
    ) {
        if intercept::is_distrust(error) {
            self.metrics.leaf_certificate("untrusted");
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
}
