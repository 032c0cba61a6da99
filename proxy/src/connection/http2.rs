//! HTTP/2 on a client's connection: each stream in a task of its own.

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

/// Exchanges of one HTTP/2 connection under way: twice the streams that it may have open. A stream that its client reset
/// is open no more, but its exchange goes on for a moment (CVE-2023-44487).
const MAX_EXCHANGES: usize = 200;
/// What an HTTP/2 stream's answer may take up on its way. A client chooses how many streams and how large their windows are.
const SEND_BUFFER_BYTES: usize = 64 * 1024;

/// What a client that is not inside a tunnel may send ahead on all its streams together; on each it is 64 KiB. So much less than
/// all of them could take does not let one whose origin takes nothing hold up the others.
const PROXIED_WINDOW_BYTES: u32 = 1024 * 1024;

/// What a stream began with.
pub(super) struct Asked {
    pub(super) request: http::Request<RecvStream>,
    pub(super) respond: SendResponse<Bytes>,
    pub(super) connection: Arc<Connection>,
    /// Of the client's connection.
    pub(super) flushes: Arc<Flushes>,
    /// Its place among those of its connection.
    pub(super) open: OwnedSemaphorePermit,
}

/// Serves HTTP/2's streams. `take` makes a task of each.
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
            Err(_) if streams.places.available_permits() < MAX_EXCHANGES => {}
            Err(_) if streams.are_ending => return,
            Err(_) => streams.end(),
        }
    }
}

/// The streams of one connection.
struct Streams {
    http2: h2::server::Connection<Counted<Stream>, Bytes>,
    connection: Arc<Connection>,
    flushes: Arc<Flushes>,
    /// Of exchanges under way.
    places: Arc<Semaphore>,
    /// No new ones are taken.
    are_ending: bool,
}

impl Streams {
    /// `None`: the client does not speak HTTP/2, or takes too long to begin.
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

    /// Gives a stream its place, or refuses it if there is none.
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

    /// Takes no new ones; those under way go on.
    fn end(&mut self) {
        if !self.are_ending {
            self.http2.graceful_shutdown();
            self.are_ending = true;
        }
    }
}

/// Serves a request.
pub(super) fn exchange(server: &Arc<Server>, asked: Asked) {
    let (spawner, server) = (server, Arc::clone(server));
    // An exchange is kilobytes: in a box it is not copied each time that the runtime hands its task on.
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
        // Dropping a client whose response is not complete resets its stream.
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
