//! HTTP/2 with the proxy itself: each stream is a request to any origin (RFC 9113 section 8.3.1), or a tunnel (section 8.5).

use std::sync::Arc;

use http::{Method, Response};
use wayleave_admission::request::ClientConnection;
use wayleave_http_wire::received::ReceivedHead;
use wayleave_transport::http::connect_stream::ConnectStream;
use wayleave_transport::http::downstream::Downstream;
use wayleave_transport::http::transport::{BoxedStream, BufferedStream, Transport};

use super::http2::{self, Http2Request};
use super::server::DownstreamServer;
use super::tunnel;
use crate::exchange::tunnel::OpenedTunnel;

/// Serves a connection whose TLS ends at this proxy.
pub(super) async fn serve(
    server: &Arc<DownstreamServer>,
    stream: BoxedStream,
    connection: ClientConnection,
) {
    http2::serve(server, stream, connection, spawn_stream).await;
}

/// Spawns the task of one stream: an exchange, or a tunnel for CONNECT.
fn spawn_stream(server: &Arc<DownstreamServer>, stream: Http2Request) {
    if stream.request.method() != Method::CONNECT {
        return http2::exchange(server, stream);
    }
    let serving = Arc::clone(server);
    server.spawn(stream.connection.client, async move { serve_tunnel(&serving, stream).await });
}

/// Decides a CONNECT, and serves the protocol inside the tunnel.
async fn serve_tunnel(server: &Arc<DownstreamServer>, stream: Http2Request) {
    let Http2Request { request, respond, connection, flushes, exchange_permit, .. } = stream;
    let (head, body) = request.into_parts();
    // DATA frames of a CONNECT are the tunnel's bytes, not a request body.
    let received = ReceivedHead::from_proxied_http2(head, false);
    let settings = server.settings();
    let client = Downstream::http2(body, respond, flushes, settings.options.idle_timeout);
    let exchanges = &server.exchanges;
    // On HTTP/1 a tunnel takes a whole connection, so it counts as one here, too.
    let connection_permit = match server.limits.acquire(connection.client) {
        Ok(permit) => permit,
        Err(limit) => {
            let refusal = limit.refusal();
            let refusing = exchanges.refuse_tunnel(client, &connection, &received, refusal);
            return Box::pin(refusing).await;
        }
    };
    // Boxed, like all that happens once, to keep an idle tunnel's future small.
    let connecting = Box::pin(exchanges.connect(&connection, &received, client));
    let Some((permit, client)) = connecting.await else { return };
    let incoming = open_tunnel(client).map(BufferedStream::from);
    let connection = ClientConnection::clone(&connection);
    tunnel::serve(server, Box::new(OpenedTunnel { incoming, connection, permit })).await;
    drop((connection_permit, exchange_permit));
}

/// Answers the CONNECT with 200 and returns the tunnel's stream, or `None` if the client is gone.
fn open_tunnel(client: Downstream) -> Option<BoxedStream> {
    let (received, mut respond) = client.into_http2_halves()?;
    let sent = respond.send_response(Response::new(()), false).ok()?;
    let stream = ConnectStream::new(received, sent);
    Some(Box::new(Transport::new(stream)))
}
