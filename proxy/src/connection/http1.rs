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

use super::server::Server;
use crate::decide::refusal::{self, Refusal};
use crate::decide::request::Connection;
use crate::exchange::connect::TunnelPermit;
use crate::exchange::{AfterExchange, refuse};
use crate::http::client::Client;
use crate::http::http1::{Framing, RequestHead};
use crate::http::received::Received;
use crate::http::transport::{Incoming, Stream};
use crate::tls;

/// The time that an idle connection stays open after the stop. Closing it at once would reset it under a request that is
/// already in flight, which clients do not expect on a new connection.
const LAST_CALL: Duration = Duration::from_millis(250);
/// The size of the first read of a request; most heads are shorter.
const FIRST_READ: usize = 4096;
const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// The way an HTTP/1 connection ended.
pub(super) enum After<'a> {
    Closed,
    /// The connection is a tunnel now, and its client has been told so with a 200.
    Tunnel {
        incoming: Incoming,
        permit: TunnelPermit<'a>,
    },
}

/// Serves requests until the connection ends or becomes a tunnel.
pub(super) async fn serve<'a>(
    server: &'a Server,
    mut incoming: Incoming,
    connection: &Connection,
) -> After<'a> {
    loop {
        let head = tokio::select! {
            // A head that has arrived is served even if the stop comes at the same moment.
            biased;
            head = head(server, &mut incoming) => head,
            () = last_call(server) => return After::Closed,
        };
        let received = match head {
            Ok(head) => Received::Http1(head),
            Err(None) => return After::Closed,
            Err(Some(refusal)) => {
                let exchanges = &server.exchanges;
                let refusing = exchanges.refuse_connection(incoming.stream, connection, refusal);
                // Boxed, like all that happens at most once in a connection: an idle connection's future stays small.
                Box::pin(refusing).await;
                return After::Closed;
            }
        };
        if received.method() == "CONNECT" {
            return Box::pin(connect(server, incoming, connection, &received)).await;
        }
        // An exchange's future is kilobytes, and most connections are idle most of the time: only busy ones hold that memory.
        match Box::pin(exchange(server, incoming, connection, &received)).await {
            Some(next) => incoming = next,
            None => return After::Closed,
        }
    }
}

/// Waits for the stop, and then until no request that was sent before it can still be in flight.
async fn last_call(server: &Server) {
    server.stopping.cancelled().await;
    tokio::time::sleep(LAST_CALL).await;
}

/// Reads the next request's head.
///
/// # Errors
///
/// Returns the refusal of what arrived instead, or `None` if nothing did.
async fn head(server: &Server, incoming: &mut Incoming) -> Result<RequestHead, Option<Refusal>> {
    let Incoming { stream, ahead } = incoming;
    let settings = server.settings();
    let options = &settings.options;
    if ahead.is_empty() {
        // Nearly every request waits here. pingora's timers are shared between waiters; each of tokio's takes a lock.
        let reading = poll_fn(|context| first_read(stream, ahead, context));
        match pingora_timeout::timeout(options.idle_timeout, reading).await {
            Ok(Ok(())) if !ahead.is_empty() => {}
            _ => return Err(None),
        }
    }
    if ahead.first() == Some(&tls::HANDSHAKE) {
        return Err(Some(refusal::unasked_tls()));
    }
    let mut reading = pin!(RequestHead::read(stream, ahead));
    // The whole head is usually there at the first poll, which saves reading the clock and arming a timer.
    let read = match futures_util::poll!(&mut reading) {
        Poll::Ready(read) => Ok(read),
        Poll::Pending => timeout(options.header_timeout, reading).await,
    };
    match read {
        Ok(Ok(head)) => Ok(head),
        Ok(Err(error)) => Err(refusal::head_refusal(error)),
        Err(_) => Err(Some(refusal::too_slow())),
    }
}

/// Reads into the stack first and allocates only for bytes that arrived: an idle connection holds no buffer.
fn first_read(
    stream: &mut Stream,
    ahead: &mut BytesMut,
    context: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    let mut room = [MaybeUninit::uninit(); FIRST_READ];
    let mut read = ReadBuf::uninit(&mut room);
    ready!(Pin::new(stream).poll_read(context, &mut read))?;
    ahead.extend_from_slice(read.filled());
    Poll::Ready(Ok(()))
}

/// Serves a CONNECT: decides it, and confirms the tunnel to the client.
async fn connect<'a>(
    server: &'a Server,
    incoming: Incoming,
    connection: &Connection,
    received: &Received,
) -> After<'a> {
    let patience = server.settings().options.idle_timeout;
    let nothing = Framing::Length(0);
    let client = Client::http1(incoming, nothing, false, patience);
    let mut client = client.taken_for(received.half_closed());
    let judging = server.exchanges.connect(connection, received, &mut client);
    let permit = match judging.await {
        Ok(permit) => permit,
        Err(exchange) => {
            server.exchanges.turn_away(client, *exchange).await;
            return After::Closed;
        }
    };
    let Some(mut incoming) = client.into_next() else {
        return After::Closed;
    };
    match establish(&mut incoming.stream).await {
        Ok(()) => After::Tunnel { incoming, permit },
        Err(_) => After::Closed,
    }
}

async fn establish(stream: &mut Stream) -> io::Result<()> {
    stream.write_all(ESTABLISHED).await?;
    stream.flush().await
}

/// Serves one request. Returns the connection if another request may follow.
async fn exchange(
    server: &Server,
    incoming: Incoming,
    connection: &Connection,
    received: &Received,
) -> Option<Incoming> {
    let Received::Http1(head) = received else {
        return None;
    };
    let settings = server.settings();
    let may_go_on = !server.stopping.is_cancelled() && settings.keeps(connection);
    let keeps_alive = head.keeps_alive() && may_go_on;
    let patience = settings.options.idle_timeout;
    let client = Client::http1(incoming, head.framing(), keeps_alive, patience);
    let mut client = client.taken_for(received.half_closed());
    match server
        .exchanges
        .exchange(connection, received, &mut client)
        .await
    {
        AfterExchange::Whole if client.may_go_on() => client.into_next(),
        AfterExchange::Whole | AfterExchange::Closed => {
            refuse::close_softly(client.into_stream()?).await;
            None
        }
        AfterExchange::CutOff => None,
    }
}
