//! HTTP/2 inside a client's tunnel: each stream in a task of its own.

use std::sync::Arc;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use pingora_core::protocols::http::v2::server as http2;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::server::Server;
use crate::decide::request::Connection;
use crate::http::client::Client;
use crate::http::received::Received;
use crate::http::transport::Stream;

/// Exchanges of one HTTP/2 connection under way: twice the streams that it may have open. A stream that its client reset
/// is open no more, but its exchange goes on for a moment (CVE-2023-44487).
const MAX_EXCHANGES: usize = 200;
/// Streams refused for that before the connection ends.
const MAX_REFUSED_STREAMS: usize = 1000;
/// What an HTTP/2 stream's answer may take up on its way. A client chooses how many streams and how large their windows are.
const SEND_BUFFER_BYTES: usize = 64 * 1024;

/// Serves HTTP/2's streams, each in a task of its own.
pub(super) async fn serve(server: &Arc<Server>, stream: Stream, connection: Connection) {
    let patience = server.settings().options.header_timeout;
    let mut http2 = match timeout(patience, http2::handshake(stream, Some(http2_options()))).await {
        Ok(Ok(http2)) => http2,
        Ok(Err(error)) => {
            tracing::debug!(%error, "no HTTP/2 inside the tunnel");
            return;
        }
        Err(_) => return,
    };
    let connection = Arc::new(connection);
    let streams = Arc::new(Semaphore::new(MAX_EXCHANGES));
    let mut refused = 0;
    let mut is_ending = false;
    loop {
        let accepted = tokio::select! {
            accepted = timeout(server.settings().options.idle_timeout, http2.accept()) => accepted,
            () = server.stopping.cancelled(), if !is_ending => {
                http2.graceful_shutdown();
                is_ending = true;
                continue;
            }
        };
        match accepted {
            Ok(Some(Ok((request, mut respond)))) => {
                if !is_ending && !server.settings().keeps(&connection) {
                    http2.graceful_shutdown();
                    is_ending = true;
                }
                match Arc::clone(&streams).try_acquire_owned() {
                    Ok(open) => exchange(server, request, respond, &connection, open),
                    Err(_) if refused < MAX_REFUSED_STREAMS => {
                        respond.send_reset(h2::Reason::REFUSED_STREAM);
                        refused += 1;
                    }
                    Err(_) => http2.abrupt_shutdown(h2::Reason::ENHANCE_YOUR_CALM),
                }
            }
            Ok(None | Some(Err(_))) => return,
            Err(_) if streams.available_permits() < MAX_EXCHANGES => {}
            Err(_) if is_ending => return,
            Err(_) => {
                http2.graceful_shutdown();
                is_ending = true;
            }
        }
    }
}

fn exchange(
    server: &Arc<Server>,
    request: http::Request<RecvStream>,
    respond: SendResponse<Bytes>,
    connection: &Arc<Connection>,
    open: OwnedSemaphorePermit,
) {
    let (tasks, server) = (&server.tasks, Arc::clone(server));
    let connection = Arc::clone(connection);
    // An exchange is kilobytes: in a box it is not copied each time that the runtime hands its task on.
    tasks.spawn(Box::pin(async move {
        let (head, body) = request.into_parts();
        let has_body = !body.is_end_stream();
        let received = Received::http2(head, has_body);
        let mut client = Client::http2(body, respond, server.settings().options.idle_timeout);
        // Dropping a client whose response is not complete resets its stream.
        server
            .exchanges
            .exchange(&connection, &received, &mut client)
            .await;
        drop(open);
    }));
}

fn http2_options() -> http2::H2Options {
    let mut options = http2::default_h2_options();
    options.max_send_buffer_size(SEND_BUFFER_BYTES);
    options
}
