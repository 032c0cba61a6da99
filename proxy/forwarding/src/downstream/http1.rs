//! HTTP/1 on a downstream connection: one request after another.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::time::timeout;
use wayleave_admission::outcome::ConnectionReuse;
use wayleave_admission::refusal;
use wayleave_admission::request::ClientConnection;
use wayleave_decision::Refusal;
use wayleave_http_wire::http1::{BodyFraming, RequestHead};
use wayleave_http_wire::received::ReceivedHead;
use wayleave_robots_txt::UrlScheme;
use wayleave_transport::http::downstream::Downstream;
use wayleave_transport::http::transport::{BoxedStream, BufferedStream};
use wayleave_transport::tls;

use super::server::DownstreamServer;
use crate::exchange::error_response;
use crate::exchange::tunnel::TunnelPermit;

/// The time that an idle connection remains open after the stop. Closing it at once would reset it under a request that
/// is already in flight, which clients do not retry on a new connection.
const LATE_REQUEST_WINDOW: Duration = Duration::from_millis(250);
/// The size of the first read of a request; most heads are shorter.
const FIRST_READ_BYTES: usize = 4096;
const CONNECTION_ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// The way an HTTP/1 connection ended.
pub(super) enum Http1Outcome<'a> {
    Closed,
    /// The connection is a tunnel now, which was confirmed to its client with a 200; `incoming` is `None` if the client had
    /// left before that.
    Tunnel {
        incoming: Option<BufferedStream>,
        permit: TunnelPermit<'a>,
    },
}

/// Serves requests until the connection ends or becomes a tunnel.
pub(super) async fn serve<'a>(
    server: &'a DownstreamServer,
    mut incoming: BufferedStream,
    connection: &ClientConnection,
) -> Http1Outcome<'a> {
    let mut is_first = true;
    // One for all requests: to wait for the stop takes a lock that all connections share.
    let mut stopped = pin!(late_requests_over(server));
    loop {
        let head = tokio::select! {
            // A head that has arrived is served even if the stop comes at the same moment.
            biased;
            head = read_head(server, &mut incoming) => head,
            () = &mut stopped => return Http1Outcome::Closed,
        };
        let received = match head {
            Ok(head) => ReceivedHead::Http1(head),
            Err(None) => {
                if is_first {
                    report_silence(server, connection);
                }
                return Http1Outcome::Closed;
            }
            Err(Some(refusal)) => {
                let exchanges = &server.exchanges;
                let refusing = exchanges.refuse_connection(incoming.stream, connection, refusal);
                // Boxed, like all that happens at most once in a connection, to keep an idle connection's future small.
                Box::pin(refusing).await;
                return Http1Outcome::Closed;
            }
        };
        is_first = false;
        // A client that knows no proxy has no tunnels: there it is refused like other requests.
        if received.method() == "CONNECT" && connection.dialled.is_none() {
            return Box::pin(connect(server, incoming, connection, &received)).await;
        }
        // Most connections are idle most of the time: only busy ones hold the memory of an exchange.
        match Box::pin(exchange(server, incoming, connection, &received)).await {
            Some(next) => incoming = next,
            None => return Http1Outcome::Closed,
        }
    }
}

/// Keeps that a client closed intercepted TLS without a request: some that do not trust the CA send no alert.
fn report_silence(server: &DownstreamServer, connection: &ClientConnection) {
    let Some(tunnel) = &connection.tunnel else { return };
    if tunnel.origin.scheme() != UrlScheme::Https {
        return;
    }
    server.keep_untrusting(connection.client, &tunnel.origin, false);
}

/// Waits for the stop, and then until no request that was sent before it can still be in flight.
pub(super) async fn late_requests_over(server: &DownstreamServer) {
    server.stopping.cancelled().await;
    tokio::time::sleep(LATE_REQUEST_WINDOW).await;
}

/// Reads the next request's head.
///
/// # Errors
///
/// Returns the refusal of the bytes that arrived instead, or `None` if none did.
async fn read_head(
    server: &DownstreamServer,
    incoming: &mut BufferedStream,
) -> Result<RequestHead, Option<Refusal>> {
    let BufferedStream { stream, buffered } = incoming;
    let settings = server.settings();
    let options = &settings.options;
    if buffered.is_empty() {
        let reading = pin!(poll_fn(|context| poll_first_read(stream, buffered, context)));
        match wayleave_clock::timeout(options.idle_timeout, reading).await {
            Ok(Ok(())) if !buffered.is_empty() => {}
            _ => return Err(None),
        }
    }
    // The client uses TLS, and this listener has none.
    if buffered.first() == Some(&tls::HANDSHAKE_RECORD) {
        return Err(Some(refusal::unexpected_tls()));
    }
    let mut reading = pin!(RequestHead::read(stream, buffered));
    // The whole head is usually there at the first poll, which saves reading the clock and arming a timer.
    let read = match futures_util::poll!(&mut reading) {
        Poll::Ready(read) => Ok(read),
        Poll::Pending => timeout(options.header_timeout, reading).await,
    };
    match read {
        Ok(Ok(head)) => Ok(head),
        Ok(Err(error)) => Err(refusal::head_refusal(error)),
        Err(_) => Err(Some(refusal::head_timeout())),
    }
}

/// Reads into the stack first and allocates only for bytes that arrived: an idle connection holds no buffer.
fn poll_first_read(
    stream: &mut BoxedStream,
    buffered: &mut BytesMut,
    context: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    let mut bytes = [MaybeUninit::uninit(); FIRST_READ_BYTES];
    let mut read = ReadBuf::uninit(&mut bytes);
    ready!(Pin::new(stream).poll_read(context, &mut read))?;
    buffered.extend_from_slice(read.filled());
    Poll::Ready(Ok(()))
}

/// Serves a CONNECT: decides it, and confirms the tunnel to the client.
async fn connect<'a>(
    server: &'a DownstreamServer,
    incoming: BufferedStream,
    connection: &ClientConnection,
    received: &ReceivedHead,
) -> Http1Outcome<'a> {
    let idle_timeout = server.settings().options.idle_timeout;
    // Whatever follows the head belongs to the tunnel.
    let client = Downstream::http1(incoming, BodyFraming::Length(0), false, idle_timeout)
        .with_half_close_policy(received.half_close_policy());
    let connected = server.exchanges.connect(connection, received, client).await;
    let Some((permit, client)) = connected else {
        return Http1Outcome::Closed;
    };
    Http1Outcome::Tunnel { incoming: confirm_tunnel(client).await, permit }
}

/// Answers the CONNECT with 200 and returns the tunnel's stream, or `None` if the client is gone.
async fn confirm_tunnel(client: Downstream) -> Option<BufferedStream> {
    let mut incoming = client.into_connection()?;
    incoming.stream.write_all(CONNECTION_ESTABLISHED).await.ok()?;
    incoming.stream.flush().await.ok()?;
    Some(incoming)
}

/// Serves one request. Returns the connection if another request may follow.
async fn exchange(
    server: &DownstreamServer,
    incoming: BufferedStream,
    connection: &ClientConnection,
    received: &ReceivedHead,
) -> Option<BufferedStream> {
    let ReceivedHead::Http1(head) = received else {
        return None;
    };
    let settings = server.settings();
    // The response announces the close, so that no client sends another request on this connection.
    let may_continue = !server.stopping.is_cancelled() && settings.permits_connection(connection);
    let keeps_alive = head.keeps_alive() && may_continue;
    let idle_timeout = settings.options.idle_timeout;
    let mut client = Downstream::http1(incoming, head.framing(), keeps_alive, idle_timeout)
        .with_half_close_policy(received.half_close_policy());
    match server.exchanges.exchange(connection, received, &mut client).await {
        ConnectionReuse::Whole if client.is_reusable() => client.into_connection(),
        // A close with unread bytes of the client would be a reset, which destroys the response on its way.
        ConnectionReuse::Whole | ConnectionReuse::Closed => {
            // Boxed, like all that happens at most once in a connection: it has kilobytes of buffer.
            Box::pin(error_response::close_gracefully(client.into_stream()?)).await;
            None
        }
        ConnectionReuse::CutOff => None,
    }
}
