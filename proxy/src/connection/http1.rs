//! HTTP/1 on a client's connection: one request after another.

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

/// How long a connection without a request outlives the stop. Closing it at once would reset it under a request that is
/// on its way, and on a new connection no client expects that.
const LAST_CALL: Duration = Duration::from_millis(250);
/// What is read of a request at first; most heads are shorter.
const FIRST_READ: usize = 4096;
const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// What an HTTP/1 connection led to.
pub(super) enum After<'a> {
    Closed,
    /// One that its client knows to be open.
    Tunnel {
        incoming: Incoming,
        permit: TunnelPermit<'a>,
    },
}

/// Serves one request after another, until the connection ends or becomes a tunnel.
pub(super) async fn serve<'a>(
    server: &'a Server,
    mut incoming: Incoming,
    connection: &Connection,
) -> After<'a> {
    loop {
        let head = tokio::select! {
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
                // What comes at most once in a connection is in a box: there it takes no room in those that wait for requests.
                Box::pin(refusing).await;
                return After::Closed;
            }
        };
        if received.method() == "CONNECT" {
            return Box::pin(connect(server, incoming, connection, &received)).await;
        }
        // Most connections wait most of the time, and should not hold the room that an exchange takes.
        match Box::pin(exchange(server, incoming, connection, &received)).await {
            Some(next) => incoming = next,
            None => return After::Closed,
        }
    }
}

/// Waits until no request that was sent before the stop can still be on its way.
async fn last_call(server: &Server) {
    server.stopping.cancelled().await;
    tokio::time::sleep(LAST_CALL).await;
}

/// The next request's head; or the refusal of what came instead, if anything did.
async fn head(server: &Server, incoming: &mut Incoming) -> Result<RequestHead, Option<Refusal>> {
    let Incoming { stream, ahead } = incoming;
    let settings = server.settings();
    let options = &settings.options;
    if ahead.is_empty() {
        // Nearly every request waits here: pingora's timers are shared, tokio's take a lock each.
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
    // Mostly all of it is there: no clock needs to be read, nor a timer made.
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

/// Reads what is there, into memory that is taken when something is: an idle connection holds none.
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

/// Takes one request; returns the connection if another one may follow.
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
