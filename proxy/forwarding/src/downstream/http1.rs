//! HTTP/1 on a downstream connection: one request after another.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::timeout;
use wayleave_admission::outcome::ConnectionReuse;
use wayleave_admission::refusal;
use wayleave_admission::request::ClientConnection;
use wayleave_decision::Refusal;
use wayleave_http_wire::http1::{BodyFraming, RequestHead};
use wayleave_http_wire::received::ReceivedHead;
use wayleave_robots_txt::UrlScheme;
use wayleave_transport::http::downstream::Downstream;
use wayleave_transport::http::transport::{BufferedStream, poll_append};
use wayleave_transport::tls;

use super::server::DownstreamServer;
use super::tls_termination::NegotiatedConnection;
use crate::exchange::error_response;
use crate::exchange::tunnel::OpenedTunnel;

/// The time that an idle connection remains open after the stop. Closing it at once would reset it under a request that
/// is already in flight, which clients do not retry on a new connection.
const LATE_REQUEST_WINDOW: Duration = Duration::from_millis(250);
const CONNECTION_ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// Serves requests until the connection ends. Returns the tunnel that it became, which was confirmed to its client with a 200.
pub(super) async fn serve<'a>(
    server: &'a DownstreamServer,
    mut http: Box<NegotiatedConnection>,
) -> Option<Box<OpenedTunnel<'a>>> {
    let mut is_first = true;
    // One for all requests: to wait for the stop takes a lock that all connections share.
    let mut stopped = pin!(late_requests_over(server));
    loop {
        let has_begun = tokio::select! {
            // A head that has arrived is served even if the stop comes at the same moment.
            biased;
            has_begun = wait_for_request(server, &mut http.incoming) => has_begun,
            () = &mut stopped => return None,
        };
        if !has_begun {
            if is_first {
                report_silence(server, &http.connection);
            }
            return None;
        }
        is_first = false;
        // Most connections are idle most of the time: only busy ones hold the memory of a request.
        match Box::pin(serve_request(server, http, stopped.as_mut())).await {
            ControlFlow::Continue(next) => http = next,
            ControlFlow::Break(tunnel) => return tunnel,
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

/// Waits for the first bytes of a request. Returns whether any came before the client left, or was idle for too long.
async fn wait_for_request(server: &DownstreamServer, incoming: &mut BufferedStream) -> bool {
    let BufferedStream { stream, buffered } = incoming;
    if buffered.is_empty() {
        let idle_timeout = server.settings().options.idle_timeout;
        let reading = pin!(poll_fn(|context| poll_append(stream, buffered, context)));
        // Whatever went wrong, nothing was read then.
        let _ = wayleave_clock::timeout(idle_timeout, reading).await;
    }
    !buffered.is_empty()
}

/// Serves a request that has begun. Returns the connection if another may follow, or else the tunnel that it became, if any.
pub(super) async fn serve_request<'a>(
    server: &'a DownstreamServer,
    mut http: Box<NegotiatedConnection>,
    stopped: Pin<&mut (dyn Future<Output = ()> + Send)>,
) -> ControlFlow<Option<Box<OpenedTunnel<'a>>>, Box<NegotiatedConnection>> {
    let head = tokio::select! {
        biased;
        head = read_head(server, &mut http.incoming) => head,
        () = stopped => return ControlFlow::Break(None),
    };
    let received = match head {
        Ok(head) => ReceivedHead::Http1(head),
        Err(None) => return ControlFlow::Break(None),
        Err(Some(refusal)) => {
            let NegotiatedConnection { incoming, connection, .. } = *http;
            let exchanges = &server.exchanges;
            let refusing = exchanges.refuse_connection(incoming.stream, &connection, refusal);
            // Boxed, like all that happens at most once in a connection: it would take ten times the memory of a request.
            Box::pin(refusing).await;
            return ControlFlow::Break(None);
        }
    };
    // A client that knows no proxy has no tunnels: there it is refused like other requests.
    if received.method() == "CONNECT" && http.connection.dialled.is_none() {
        return ControlFlow::Break(Box::pin(connect(server, *http, &received)).await);
    }
    match exchange(server, http.incoming, &http.connection, &received).await {
        Some(next) => {
            http.incoming = next;
            ControlFlow::Continue(http)
        }
        None => ControlFlow::Break(None),
    }
}

/// Reads the head of a request that has begun.
///
/// # Errors
///
/// Returns the refusal of the bytes that arrived instead, or `None` if the client is gone.
async fn read_head(
    server: &DownstreamServer,
    incoming: &mut BufferedStream,
) -> Result<RequestHead, Option<Refusal>> {
    let BufferedStream { stream, buffered } = incoming;
    // The client uses TLS, and this listener has none.
    if buffered.first() == Some(&tls::HANDSHAKE_RECORD) {
        return Err(Some(refusal::unexpected_tls()));
    }
    let mut reading = pin!(RequestHead::read(stream, buffered));
    // The whole head is usually there at the first poll, which saves reading the clock and arming a timer.
    let read = match futures_util::poll!(&mut reading) {
        Poll::Ready(read) => Ok(read),
        Poll::Pending => timeout(server.settings().options.header_timeout, reading).await,
    };
    match read {
        Ok(Ok(head)) => Ok(head),
        Ok(Err(error)) => Err(refusal::head_refusal(error)),
        Err(_) => Err(Some(refusal::head_timeout())),
    }
}

/// Serves a CONNECT: decides it, and confirms the tunnel to the client.
async fn connect<'a>(
    server: &'a DownstreamServer,
    http: NegotiatedConnection,
    received: &ReceivedHead,
) -> Option<Box<OpenedTunnel<'a>>> {
    let NegotiatedConnection { incoming, connection, .. } = http;
    let idle_timeout = server.settings().options.idle_timeout;
    // Whatever follows the head belongs to the tunnel.
    let client = Downstream::http1(incoming, BodyFraming::Length(0), false, idle_timeout)
        .with_half_close_policy(received.half_close_policy());
    let (permit, client) = server.exchanges.connect(&connection, received, client).await?;
    let incoming = confirm_tunnel(client).await;
    Some(Box::new(OpenedTunnel { incoming, connection, permit }))
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
