//! HTTP/2 with the proxy itself: each stream is a request to any origin (RFC 9113 section 8.3.1), or a tunnel (section 8.5).

use std::sync::Arc;

use bytes::Bytes;
use h2::server::SendResponse;
use http::{Method, Response};

use super::http2::{self, Asked};
use super::inside;
use super::server::Server;
use crate::decide::request::Connection;
use crate::http::client::Client;
use crate::http::connect_stream::ConnectStream;
use crate::http::received::Received;
use crate::http::transport::{Stream, Transport};

/// Serves a connection whose TLS ends at this proxy.
pub(super) async fn serve(server: &Arc<Server>, stream: Stream, connection: Connection) {
    http2::serve(server, stream, connection, take).await;
}

/// Spawns the task of one stream: an exchange, or a tunnel for CONNECT.
fn take(server: &Arc<Server>, asked: Asked) {
    if asked.request.method() != Method::CONNECT {
        return http2::exchange(server, asked);
    }
    let serving = Arc::clone(server);
    server.spawn(Box::pin(async move { tunnel(&serving, asked).await }));
}

/// Decides a CONNECT, and serves the protocol inside the tunnel.
async fn tunnel(server: &Arc<Server>, asked: Asked) {
    let Asked {
        request,
        respond,
        connection,
        flushes,
        open,
    } = asked;
    let (head, body) = request.into_parts();
    // DATA frames of a CONNECT are the tunnel's bytes, not a request body.
    let received = Received::proxied_http2(head, false);
    let settings = server.settings();
    let mut client = Client::http2(body, respond, flushes, settings.options.idle_timeout);
    let exchanges = &server.exchanges;
    // On HTTP/1 a tunnel takes a whole connection, so it counts as one here, too.
    let slot = match server.limits.take(connection.client) {
        Ok(slot) => slot,
        Err(reached) => {
            let refused = exchanges.refused(&connection, Some(&received), reached.refusal());
            return exchanges.turn_away(client, refused).await;
        }
    };
    let permit = match exchanges.connect(&connection, &received, &mut client).await {
        Ok(permit) => permit,
        Err(refused) => return exchanges.turn_away(client, *refused).await,
    };
    let Some((received, respond)) = client.into_http2() else {
        return;
    };
    if let Some(stream) = opened(received, respond) {
        let outside = Connection::clone(&connection);
        inside::serve(server, stream.into(), outside, permit).await;
    }
    drop((slot, open));
}

/// Answers the CONNECT with 200 and returns the tunnel's stream, or `None` if the client is gone.
fn opened(received: h2::RecvStream, mut respond: SendResponse<Bytes>) -> Option<Stream> {
    let sent = respond.send_response(Response::new(()), false).ok()?;
    // The id only has to differ from those of sockets, which are descriptors and so never negative.
    let id = -i32::try_from(sent.stream_id().as_u32()).unwrap_or(i32::MAX);
    let stream = ConnectStream::new(received, sent);
    Some(Box::new(Transport::new(stream, id)))
}
