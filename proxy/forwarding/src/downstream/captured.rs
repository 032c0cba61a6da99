//! Connections whose clients know no HTTP proxy: their first bytes show their purpose.
//!
//! TLS becomes a tunnel as if by CONNECT, plain HTTP requests as if sent to the proxy. The host is the one that the client
//! names in them, not the address that it dialled: that address is only used if there is no name.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::time::timeout;
use wayleave_admission::outcome::NotSent;
use wayleave_admission::request::{ClientConnection, DialledDestination};
use wayleave_admission::{refusal, target};
use wayleave_config::ListenProtocol;
use wayleave_decision::{HttpsHandling, HttpsMode, Refusal};
use wayleave_http_wire::http1::BodyFraming;
use wayleave_http_wire::received::ReceivedHead;
use wayleave_robots_txt::UrlScheme;
use wayleave_transport::http::downstream::Downstream;
use wayleave_transport::http::transport::{BoxedStream, BufferedStream, Transport};
use wayleave_transport::tls;
use wayleave_upstream::egress::parse_literal;

use super::client_hello::{self, HelloError};
use super::first_bytes::{self, ClientProtocol};
use super::http1::late_requests_over;
use super::server::DownstreamServer;
use super::tls_termination::NegotiatedConnection;
use super::tunnel;
use crate::exchange::error_response;
use crate::exchange::tunnel::{OpenedTunnel, RefusedTunnel, TunnelContent, TunnelPermit};

/// The fatal alert `access_denied` (RFC 8446 section 6.2).
const ACCESS_DENIED: &[u8] = &[0x15, 3, 3, 0, 2, 2, 49];

/// A connection whose client dialled a destination.
pub(super) struct CapturedConnection {
    pub(super) incoming: BufferedStream,
    pub(super) connection: ClientConnection,
    pub(super) dialled: DialledDestination,
    /// The protocol of the listener that it came by.
    pub(super) listener: ListenProtocol,
    /// The other end of a connection that the kernel brought, which may be one of this proxy's.
    pub(super) peer: Option<SocketAddr>,
}

/// The use of a captured connection.
enum CapturedUse<'a> {
    Requests(Box<NegotiatedConnection>),
    Tunnel(Box<OpenedTunnel<'a>>),
}

/// The first bytes of a client.
enum Opening {
    Tls { server_name: Option<String> },
    Http { is_http2: bool },
}

/// The reason why a connection has no use, as the metric has it, and its refusal if the client is still there.
struct NoUse {
    result: &'static str,
    refusal: Option<Box<Refusal>>,
}

impl CapturedConnection {
    /// Serves the connection until it ends.
    pub(super) async fn serve(self: Box<Self>, server: &Arc<DownstreamServer>) {
        // This runs once per connection. Boxed, it does not enlarge the future of every idle connection.
        match Box::pin(self.find_use(server)).await {
            None => {}
            Some(CapturedUse::Requests(http)) => tunnel::serve_requests(server, http).await,
            Some(CapturedUse::Tunnel(opened)) => tunnel::serve(server, opened).await,
        }
    }

    /// Reads the first bytes and decides about their purpose. Returns `None` if that was refused, or if the client is gone.
    async fn find_use(mut self, server: &DownstreamServer) -> Option<CapturedUse<'_>> {
        let handling = server.settings().https.handling_of(self.dialled.host());
        if handling == HttpsHandling::Bypass {
            return self.bypass(server).await;
        }
        match read_opening(server, &mut self.incoming).await {
            Ok(_) if is_looped(server, self.peer) => {
                refuse_loop(server, &self.connection, self.listener);
                None
            }
            Ok(Opening::Tls { server_name }) => {
                count(server, self.listener, "tls");
                self.open_tls(server, server_name).await
            }
            Ok(Opening::Http { is_http2 }) => {
                count(server, self.listener, "http");
                let Self { incoming, connection, .. } = self;
                let incoming = if is_http2 { with_bytes_in_stream(incoming) } else { incoming };
                let http = NegotiatedConnection { incoming, connection, is_http2 };
                Some(CapturedUse::Requests(Box::new(http)))
            }
            Err(NoUse { result, refusal }) => {
                count(server, self.listener, result);
                if let Some(refusal) = refusal {
                    let stream = self.incoming.stream;
                    server.exchanges.refuse_connection(stream, &self.connection, *refusal).await;
                }
                None
            }
        }
    }

    /// Opens a tunnel of which not even the first bytes are inspected.
    async fn bypass(self, server: &DownstreamServer) -> Option<CapturedUse<'_>> {
        let Self { incoming, connection, dialled, listener, peer } = self;
        if is_looped(server, peer) {
            refuse_loop(server, &connection, listener);
            return None;
        }
        let authority = dialled.authority(None);
        let content = TunnelContent::Unknown;
        let opened = decide_tunnel(server, incoming, &connection, &authority, content).await;
        // Nothing can be answered: nobody knows the client's protocol.
        let Ok((permit, incoming)) = opened else {
            count(server, listener, "refused");
            return None;
        };
        // Once more: the other end of a loop lists its connection only when it has opened.
        if is_looped(server, peer)
            && let Some(blind) = permit.blind
        {
            count(server, listener, "refused");
            blind.close_unused(NotSent::Refused(refusal::looped_tunnel()));
            return None;
        }
        count(server, listener, "bypass");
        Some(CapturedUse::Tunnel(Box::new(OpenedTunnel { incoming, connection, permit })))
    }

    /// Opens the tunnel that TLS is for: to its server name, unless the client has named a host by SOCKS5 already.
    async fn open_tls(
        self,
        server: &DownstreamServer,
        server_name: Option<String>,
    ) -> Option<CapturedUse<'_>> {
        let Self { incoming, connection, dialled, listener, .. } = self;
        let is_named =
            listener == ListenProtocol::Socks5 && parse_literal(dialled.host()).is_none();
        let named = server_name.filter(|_| !is_named);
        let authority = dialled.authority(named.as_deref());
        let origin = match target::resolve_connect(&authority, UrlScheme::Https) {
            Ok(origin) => origin,
            Err(refusal) => {
                server.exchanges.record_refused_connection(&connection, refusal);
                deny_tls(incoming.stream).await;
                return None;
            }
        };
        let handling = server.settings().https.handling_of(origin.host());
        if handling == HttpsHandling::Mode(HttpsMode::Intercept) {
            // Nothing is decided before the handshake: inside, the client sees why a request is refused.
            let proof = connection.proof.clone();
            let purposes = Vec::new();
            let permit = TunnelPermit { origin, via: None, proof, purposes, blind: None };
            let opened = OpenedTunnel { incoming: Some(incoming), connection, permit };
            return Some(CapturedUse::Tunnel(Box::new(opened)));
        }
        let content = TunnelContent::TlsOrHttp;
        let authority = format!("{}:{}", origin.host(), origin.port());
        match decide_tunnel(server, incoming, &connection, &authority, content).await {
            Ok((permit, incoming)) => {
                Some(CapturedUse::Tunnel(Box::new(OpenedTunnel { incoming, connection, permit })))
            }
            Err(refused) => {
                deny_tls(refused.client.into_stream()?).await;
                None
            }
        }
    }
}

/// Counts a captured connection.
pub(super) fn count(server: &DownstreamServer, listener: ListenProtocol, result: &'static str) {
    server.exchanges.gate.metrics.captured_connection(listener.scheme(), result);
}

/// Records and counts the refusal of a connection of this proxy's own.
fn refuse_loop(server: &DownstreamServer, connection: &ClientConnection, listener: ListenProtocol) {
    count(server, listener, "refused");
    server.exchanges.record_refused_connection(connection, refusal::looped_tunnel());
}

/// Returns a stream that is read from its first byte again, as HTTP/2 reads it.
fn with_bytes_in_stream(incoming: BufferedStream) -> BufferedStream {
    let BufferedStream { stream, buffered } = incoming;
    let stream = Transport::new(stream).without_gathering().with_buffered(buffered.freeze());
    BufferedStream::from(Box::new(stream) as BoxedStream)
}

/// Returns whether a connection is one of this proxy's own, which the kernel brought back.
fn is_looped(server: &DownstreamServer, peer: Option<SocketAddr>) -> bool {
    peer.is_some_and(|peer| server.exchanges.own_tunnels.contains(peer))
}

/// Decides a tunnel to `authority` as if the client had sent a CONNECT, and returns it with the stream, which is `None` if the
/// client is gone.
///
/// # Errors
///
/// Returns the client if the tunnel was refused, which has been recorded.
pub(super) async fn decide_tunnel<'a>(
    server: &'a DownstreamServer,
    incoming: BufferedStream,
    connection: &ClientConnection,
    authority: &str,
    content: TunnelContent,
) -> Result<(TunnelPermit<'a>, Option<BufferedStream>), Box<RefusedTunnel>> {
    let exchanges = &server.exchanges;
    let idle_timeout = server.settings().options.idle_timeout;
    let client = Downstream::http1(incoming, BodyFraming::Length(0), false, idle_timeout);
    let received = ReceivedHead::connect(authority).expect("the host and the port of an origin");
    let (permit, client) = exchanges.decide_connect(connection, &received, client, content).await?;
    Ok((permit, client.into_connection()))
}

/// Reads the first bytes.
///
/// # Errors
///
/// Returns why they have no use.
async fn read_opening(
    server: &DownstreamServer,
    incoming: &mut BufferedStream,
) -> Result<Opening, NoUse> {
    let header_timeout = server.settings().options.header_timeout;
    let read = tokio::select! {
        read = timeout(header_timeout, opening(incoming)) => read,
        () = late_requests_over(server) => return Err(NoUse::CLOSED),
    };
    read.unwrap_or_else(|_| {
        // A client that sends nothing may hold the connection for later, or wait for a server that speaks first. The rest of a
        // ClientHello cannot be asked for in HTTP.
        let is_request = incoming.buffered.first().is_some_and(|&it| it != tls::HANDSHAKE_RECORD);
        Err(NoUse {
            result: "timeout",
            refusal: is_request.then(refusal::head_timeout).map(Box::new),
        })
    })
}

async fn opening(incoming: &mut BufferedStream) -> Result<Opening, NoUse> {
    match first_bytes::read_protocol(incoming).await.ok_or(NoUse::CLOSED)? {
        ClientProtocol::Http1 => Ok(Opening::Http { is_http2: false }),
        ClientProtocol::Http2 => Ok(Opening::Http { is_http2: true }),
        ClientProtocol::Tls => match client_hello::read_server_name(incoming).await {
            Ok(server_name) => Ok(Opening::Tls { server_name }),
            Err(HelloError::Closed) => Err(NoUse::CLOSED),
            Err(HelloError::Unreadable) => {
                Err(NoUse::not_http("this begins like TLS, but its ClientHello cannot be read"))
            }
        },
        ClientProtocol::Other => Err(NoUse::not_http(
            "this is neither TLS nor HTTP: only hosts in https.bypass may be sent anything else",
        )),
    }
}

impl NoUse {
    const CLOSED: Self = Self { result: "closed", refusal: None };

    fn not_http(details: &'static str) -> Self {
        Self { result: "not-http", refusal: Some(Box::new(refusal::not_http(details))) }
    }
}

/// Ends TLS that has hardly begun, with an alert, which its client does not take for a broken connection.
async fn deny_tls(mut stream: BoxedStream) {
    // The client may be gone already, which changes nothing.
    let _ = stream.write_all(ACCESS_DENIED).await;
    error_response::close_gracefully(stream).await;
}
