//! HTTP/2 on a downstream connection: each stream is served in its own task.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use pingora_core::protocols::http::v2::server as http2;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use wayleave_admission::outcome::ConnectionReuse;
use wayleave_admission::request::ClientConnection;
use wayleave_fairness::Holder;
use wayleave_http_wire::received::ReceivedHead;
use wayleave_transport::http::downstream::{ClientResponses, Downstream, DownstreamReader};
use wayleave_transport::http::flush_signal::FlushSignal;
use wayleave_transport::http::transport::{BoxedStream, Transport};

use super::frame_limit::FrameLimit;
use super::pulse::{ClientPulse, MovedBytes};
use super::server::DownstreamServer;

/// The exchanges of one HTTP/2 connection that may run at once: twice the streams that it may have open. A stream that was
/// reset by its client no longer counts as open, but its exchange still takes a moment to end (CVE-2023-44487, rapid reset).
const MAX_EXCHANGES: usize = 200;
/// The most bytes of a response that are buffered for one stream. Without it the client would set the bound: it chooses the
/// number of streams and the size of their windows.
const SEND_BUFFER_BYTES: usize = 32 * 1024;

/// The connection window of a client that speaks to the proxy itself; each stream's is 64 KiB. It is less than the sum of all
/// streams' windows, which bounds the memory, and yet enough that one stalled origin does not hold up the other streams.
const PROXIED_WINDOW_BYTES: u32 = 1024 * 1024;

/// The limits within which a body is read and discarded after its response. A client may reset the stream without an error
/// (RFC 9113 section 8.1), but many take that for a failure and never read the response.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_DISCARDED_BYTES: usize = 64 * 1024 * 1024;
/// The time that a last GOAWAY may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// The streams of one connection whose bodies are discarded at the same time. Others are reset.
const MAX_DISCARDING: usize = 16;

/// A request on its own stream.
pub(super) struct Http2Request {
    pub(super) request: http::Request<RecvStream>,
    pub(super) respond: SendResponse<Bytes>,
    pub(super) connection: Arc<ClientConnection>,
    /// The flush counter of the client's connection.
    pub(super) flushes: Arc<FlushSignal>,
    /// Its share of the connection's `MAX_EXCHANGES`.
    pub(super) exchange_permit: OwnedSemaphorePermit,
    /// A permit for each body of the connection that may be discarded.
    discard_permits: Arc<Semaphore>,
    client_responses: ClientResponses,
}

/// Accepts streams until the connection ends; `spawn_stream` spawns a task for each.
pub(super) async fn serve(
    server: &Arc<DownstreamServer>,
    stream: BoxedStream,
    connection: ClientConnection,
    spawn_stream: fn(&Arc<DownstreamServer>, Http2Request),
) {
    let Some(mut streams) = Http2Streams::handshake(server, stream, connection).await else {
        return;
    };
    loop {
        // Read each time, because a reload may change it.
        let idle_timeout = server.settings().options.idle_timeout;
        let accepted = tokio::select! {
            accepted = timeout(idle_timeout / 2, streams.http2.accept()) => accepted,
            () = server.stopping.cancelled(), if !streams.is_shutting_down => {
                streams.shut_down();
                continue;
            }
        };
        match accepted {
            Ok(Some(Ok((request, respond)))) => {
                streams.quiet_halves = 0;
                if !server.settings().permits_connection(&streams.connection) {
                    streams.shut_down();
                }
                // This request is still served: its client sent it before it could see the GOAWAY.
                if let Some(stream) = streams.admit(request, respond) {
                    spawn_stream(server, stream);
                }
            }
            Ok(None | Some(Err(_))) => return,
            Err(_) if streams.pulse.check_is_lost() => return streams.give_up().await,
            Err(_) if !streams.count_quiet_half() => {}
            Err(_) if streams.is_shutting_down => return,
            Err(_) => streams.shut_down(),
        }
    }
}

/// One connection, and the exchanges on its streams.
struct Http2Streams {
    http2: h2::server::Connection<Transport<FrameLimit<BoxedStream>>, Bytes>,
    connection: Arc<ClientConnection>,
    client_responses: ClientResponses,
    flushes: Arc<FlushSignal>,
    /// A permit for each exchange that may still begin.
    exchange_permits: Arc<Semaphore>,
    discard_permits: Arc<Semaphore>,
    /// Whether GOAWAY was sent: no further streams are accepted.
    is_shutting_down: bool,
    pulse: ClientPulse,
    /// The halves of `proxy.idle_timeout` since the last request or the end of the last exchange.
    quiet_halves: u32,
}

impl Http2Streams {
    /// Exchanges the connection prefaces. Returns `None` if the client does not speak HTTP/2, or takes too long.
    async fn handshake(
        server: &DownstreamServer,
        stream: BoxedStream,
        connection: ClientConnection,
    ) -> Option<Self> {
        let header_timeout = server.settings().options.header_timeout;
        let options = http2_options(!connection.is_to_proxy());
        let flushes = Arc::<FlushSignal>::default();
        let moved = Arc::<MovedBytes>::default();
        let stream = Transport::new(FrameLimit::new(stream, Arc::clone(&moved)))
            .without_gathering()
            .with_flush_signal(Arc::clone(&flushes));
        let handshake = timeout(header_timeout, options.handshake(stream)).await;
        let http2 = handshake.ok()?.inspect_err(|error| tracing::debug!(%error, "no HTTP/2"));
        let mut http2 = http2.ok()?;
        let pings = http2.ping_pong().expect("it is taken once");
        let client = Holder::of_client(connection.client);
        Some(Self {
            http2,
            client_responses: server.response_shares.of(client),
            connection: Arc::new(connection),
            flushes,
            exchange_permits: Arc::new(Semaphore::new(MAX_EXCHANGES)),
            discard_permits: Arc::new(Semaphore::new(MAX_DISCARDING)),
            is_shutting_down: false,
            pulse: ClientPulse::new(pings, moved),
            quiet_halves: 0,
        })
    }

    /// Admits a stream, or resets it if too many exchanges are running.
    fn admit(
        &mut self,
        request: http::Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
    ) -> Option<Http2Request> {
        match Arc::clone(&self.exchange_permits).try_acquire_owned() {
            Ok(exchange_permit) => Some(Http2Request {
                request,
                respond,
                connection: Arc::clone(&self.connection),
                flushes: Arc::clone(&self.flushes),
                exchange_permit,
                discard_permits: Arc::clone(&self.discard_permits),
                client_responses: self.client_responses.clone(),
            }),
            Err(_) => {
                // The client may retry it: REFUSED_STREAM promises that nothing was done (RFC 9113 section 8.7).
                respond.send_reset(h2::Reason::REFUSED_STREAM);
                None
            }
        }
    }

    /// Counts half of the idle timeout. Returns whether all of it has passed without a request or a running exchange.
    fn count_quiet_half(&mut self) -> bool {
        let is_in_use = self.exchange_permits.available_permits() < MAX_EXCHANGES;
        self.quiet_halves = if is_in_use { 0 } else { self.quiet_halves + 1 };
        let is_idle = self.quiet_halves >= 2;
        if is_idle {
            self.quiet_halves = 0;
        }
        is_idle
    }

    /// Ends the connection of a client that seems to be gone, and its exchanges. A client that only reads late learns by
    /// GOAWAY which requests were not served.
    async fn give_up(mut self) {
        self.http2.abrupt_shutdown(h2::Reason::NO_ERROR);
        let closing = async { while let Some(Ok(_)) = self.http2.accept().await {} };
        let _ = timeout(CLOSE_TIMEOUT, closing).await;
    }

    /// Sends GOAWAY; exchanges that are running continue.
    fn shut_down(&mut self) {
        if !self.is_shutting_down {
            self.http2.graceful_shutdown();
            self.is_shutting_down = true;
        }
    }
}

/// Spawns the task that serves a request.
pub(super) fn exchange(server: &Arc<DownstreamServer>, stream: Http2Request) {
    let spawner = server;
    let server = Arc::clone(server);
    spawner.spawn(stream.connection.client, async move {
        let Http2Request {
            request,
            respond,
            connection,
            flushes,
            exchange_permit,
            discard_permits,
            client_responses,
        } = stream;
        let (head, body) = request.into_parts();
        let has_body = !body.is_end_stream();
        let received = if connection.is_to_proxy() {
            ReceivedHead::from_proxied_http2(head, has_body)
        } else {
            ReceivedHead::from_http2(head, has_body)
        };
        let idle_timeout = server.settings().options.idle_timeout;
        let mut client = Downstream::http2(body, respond, flushes, idle_timeout);
        if client.take_share(client_responses.begin()).await.is_none() {
            return;
        }
        // If the response is not complete, dropping the client resets its stream.
        let reuse = server.exchanges.exchange(&connection, &received, &mut client).await;
        if reuse != ConnectionReuse::CutOff
            && !client.reader.is_done()
            && let Ok(_permit) = discard_permits.try_acquire_owned()
        {
            tokio::select! {
                () = discard_rest(&mut client.reader) => {}
                () = server.stopping.cancelled() => {}
            }
        }
        drop(exchange_permit);
    });
}

/// Reads the rest of a body whose request was answered, as long as the client sends it.
async fn discard_rest(body: &mut DownstreamReader) {
    let reading = async {
        let mut left = MAX_DISCARDED_BYTES;
        while let Ok(Some(chunk)) = body.next_chunk().await {
            let Some(less) = left.checked_sub(chunk.len()) else { return };
            left = less;
        }
    };
    // Dropping a stream that has not ended resets it with NO_ERROR.
    let _ = timeout(DISCARD_TIMEOUT, reading).await;
}

fn http2_options(is_to_origin: bool) -> http2::H2Options {
    let mut options = http2::default_h2_options();
    options.max_send_buffer_size(SEND_BUFFER_BYTES);
    if !is_to_origin {
        options.initial_connection_window_size(PROXIED_WINDOW_BYTES);
    }
    options
}
