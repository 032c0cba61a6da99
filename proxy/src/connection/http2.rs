//! HTTP/2 on a downstream connection: each stream is served in its own task.

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
use crate::http::flushes::{Counted, Flushes};
use crate::http::received::Received;
use crate::http::transport::Stream;

/// The exchanges of one HTTP/2 connection that may run at once: twice the streams that it may have open. A stream that was
/// reset by its client no longer counts as open, but its exchange still takes a moment to end (CVE-2023-44487, rapid reset).
const MAX_EXCHANGES: usize = 200;
/// The most bytes of a response that are buffered for one stream. Without it the client would set the bound: it chooses the
/// number of streams and the size of their windows.
const SEND_BUFFER_BYTES: usize = 64 * 1024;

/// The connection window of a client that is not inside a tunnel; each stream's is 64 KiB. It is less than the sum of all
/// streams' windows, which bounds the memory, and yet enough that one stalled origin does not hold up the other streams.
const PROXIED_WINDOW_BYTES: u32 = 1024 * 1024;

/// A request on its own stream.
pub(super) struct Asked {
    pub(super) request: http::Request<RecvStream>,
    pub(super) respond: SendResponse<Bytes>,
    pub(super) connection: Arc<Connection>,
    /// The flush counter of the client's connection.
    pub(super) flushes: Arc<Flushes>,
    /// Its share of the connection's `MAX_EXCHANGES`.
    pub(super) open: OwnedSemaphorePermit,
}

/// Accepts streams until the connection ends; `take` spawns a task for each.
pub(super) async fn serve(
    server: &Arc<Server>,
    stream: Stream,
    connection: Connection,
    take: fn(&Arc<Server>, Asked),
) {
    let Some(mut streams) = Streams::begin(server, stream, connection).await else {
        return;
    };
    loop {
        let idle_timeout = server.settings().options.idle_timeout;
        let accepted = tokio::select! {
            accepted = timeout(idle_timeout, streams.http2.accept()) => accepted,
            () = server.stopping.cancelled(), if !streams.are_ending => {
                streams.end();
                continue;
            }
        };
        match accepted {
            Ok(Some(Ok((request, respond)))) => {
                if !server.settings().keeps(&streams.connection) {
                    streams.end();
                }
                if let Some(asked) = streams.admit(request, respond) {
                    take(server, asked);
                }
            }
            Ok(None | Some(Err(_))) => return,
            // Idle counts only while no exchange runs.
            Err(_) if streams.places.available_permits() < MAX_EXCHANGES => {}
            Err(_) if streams.are_ending => return,
            Err(_) => streams.end(),
        }
    }
}

/// One connection, and the exchanges on its streams.
struct Streams {
    http2: h2::server::Connection<Counted<Stream>, Bytes>,
    connection: Arc<Connection>,
    flushes: Arc<Flushes>,
    /// A permit for each exchange that may still begin.
    places: Arc<Semaphore>,
    /// Whether GOAWAY was sent: no further streams are accepted.
    are_ending: bool,
}

impl Streams {
    /// Exchanges the connection prefaces. Returns `None` if the client does not speak HTTP/2, or takes too long.
    async fn begin(server: &Server, stream: Stream, connection: Connection) -> Option<Self> {
        let patience = server.settings().options.header_timeout;
        let options = http2_options(connection.tunnel.is_some());
        let (stream, flushes) = Counted::new(stream);
        let begun = timeout(patience, options.handshake(stream)).await;
        let http2 = begun
            .ok()?
            .inspect_err(|error| tracing::debug!(%error, "no HTTP/2"));
        Some(Self {
            http2: http2.ok()?,
            connection: Arc::new(connection),
            flushes,
            places: Arc::new(Semaphore::new(MAX_EXCHANGES)),
            are_ending: false,
        })
    }

    /// Admits a stream, or resets it if too many exchanges are running.
    fn admit(
        &mut self,
        request: http::Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
    ) -> Option<Asked> {
        match Arc::clone(&self.places).try_acquire_owned() {
            Ok(open) => Some(Asked {
                request,
                respond,
                connection: Arc::clone(&self.connection),
                flushes: Arc::clone(&self.flushes),
                open,
            }),
            Err(_) => {
                respond.send_reset(h2::Reason::REFUSED_STREAM);
                None
            }
        }
    }

    /// Sends GOAWAY; exchanges that are running continue.
    fn end(&mut self) {
        if !self.are_ending {
            self.http2.graceful_shutdown();
            self.are_ending = true;
        }
    }
}

/// Spawns the task that serves a request.
pub(super) fn exchange(server: &Arc<Server>, asked: Asked) {
    let (spawner, server) = (server, Arc::clone(server));
    // An exchange's future is kilobytes: boxed, it is not copied when the runtime moves its task.
    spawner.spawn(Box::pin(async move {
        let Asked {
            request,
            respond,
            connection,
            flushes,
            open,
        } = asked;
        let (head, body) = request.into_parts();
        let has_body = !body.is_end_stream();
        let received = match connection.tunnel {
            Some(_) => Received::http2(head, has_body),
            None => Received::proxied_http2(head, has_body),
        };
        let mut client = Client::http2(
            body,
            respond,
            flushes,
            server.settings().options.idle_timeout,
        );
        // If the response is not complete, dropping the client resets its stream.
        server
            .exchanges
            .exchange(&connection, &received, &mut client)
            .await;
        drop(open);
    }));
}

fn http2_options(is_in_tunnel: bool) -> http2::H2Options {
    let mut options = http2::default_h2_options();
    options.max_send_buffer_size(SEND_BUFFER_BYTES);
    if !is_in_tunnel {
        options.initial_connection_window_size(PROXIED_WINDOW_BYTES);
    }
    options
}
