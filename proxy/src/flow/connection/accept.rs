//! A client connection: plain HTTP/1, then perhaps a tunnel with HTTP/1 or HTTP/2 inside.

use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use h2::server::SendResponse;
use pingora_core::protocols::http::v2::server as http2;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connect::TunnelPermit;
use super::limits::{Full, Limits};
use super::listeners;
use super::tunnel::Inside;
use crate::flow::decide::refusal;
use crate::flow::decide::refusal::Refusal;
use crate::flow::decide::request::Connection;
use crate::flow::exchange::refuse;
use crate::flow::exchange::{AfterExchange, Flow};
use crate::http::client::Client;
use crate::http::http1::{Framing, RequestHead};
use crate::http::proxy_status::ErrorType;
use crate::http::received::Received;
use crate::http::transport::{self, Stream, Transport, UNREAD};

/// Exchanges of one HTTP/2 connection under way: twice the streams that it may have open. A stream that its client reset
/// is open no more, but its exchange goes on for a moment (CVE-2023-44487).
const MAX_EXCHANGES: usize = 200;
/// Streams refused for that before the connection ends.
const MAX_REFUSED_STREAMS: usize = 1000;
/// How long a connection without a request outlives the stop. Closing it at once would reset it under a request that is
/// on its way, and on a new connection no client expects that.
const LAST_CALL: Duration = Duration::from_millis(250);
/// What is read of a request at first; most heads are shorter.
const FIRST_READ: usize = 4096;
/// What an HTTP/2 stream's answer may take up on its way. A client chooses how many streams and how large their windows are.
const SEND_BUFFER_BYTES: usize = 64 * 1024;

/// Takes connections and serves each in a task of its own.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) flow: Arc<Flow>,
    pub(crate) limits: Limits,
    pub(crate) tasks: TaskTracker,
    pub(crate) stopping: CancellationToken,
}

impl Listener {
    /// Serves `listener`'s connections until `stopping`; those open by then go on in `tasks`.
    pub(crate) async fn run(&self, listener: TcpListener) {
        loop {
            tokio::select! {
                (tcp, peer) = listeners::accept(&listener) => {
                    self.admit(tcp, peer.ip().to_canonical());
                }
                () = self.stopping.cancelled() => return,
            }
        }
    }

    fn admit(&self, tcp: TcpStream, client: IpAddr) {
        let open = self.flow.metrics.client_connection();
        let connection = Connection {
            client,
            proof: None,
            tunnel: None,
        };
        // A client that left already is found out when it is read from.
        let idle_timeout = self.flow.settings().options.idle_timeout;
        let _ = transport::tune(&tcp, idle_timeout.max(UNREAD));
        let descriptor = tcp.as_raw_fd();
        let stream: Stream = Box::new(Transport::new(tcp, descriptor));
        let flow = Arc::clone(&self.flow);
        let serving = Serving {
            flow,
            tasks: self.tasks.clone(),
            stopping: self.stopping.clone(),
        };
        match self.limits.take(client) {
            Ok(slot) => {
                self.tasks.spawn(async move {
                    serving.serve(stream, connection).await;
                    drop((slot, open));
                });
            }
            Err(reached) => {
                let Some(leave) = self.limits.turn_away() else {
                    return;
                };
                self.tasks.spawn(async move {
                    let flow = &serving.flow;
                    let exchange = flow.refused(&connection, None, full(reached));
                    flow.turn_away(stream, exchange).await;
                    drop((leave, open));
                });
            }
        }
    }
}

fn full(reached: Full) -> Refusal {
    let error = ErrorType::ConnectionLimitReached;
    let details = match reached {
        Full::All => "proxy.max_connections connections are open",
        Full::Client => "proxy.max_connections_per_client connections of this client are open",
    };
    Refusal {
        retry_after: Some(Duration::from_secs(1)),
        closes: true,
        ..Refusal::new(503, error.phrase(), error, error.as_str(), details)
    }
}

/// One connection being served.
struct Serving {
    flow: Arc<Flow>,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

/// What an HTTP/1 connection led to.
enum After<'a> {
    Closed,
    Tunnel {
        stream: Stream,
        ahead: BytesMut,
        leave: TunnelPermit<'a>,
    },
}

impl Serving {
    async fn serve(&self, stream: Stream, connection: Connection) {
        let after = self.http1(stream, BytesMut::new(), &connection).await;
        let After::Tunnel {
            stream,
            ahead,
            leave,
        } = after
        else {
            return;
        };
        let connection = Connection {
            proof: leave.proof.clone(),
            ..connection
        };
        // As with `connect`: once in a connection.
        let entering = Box::pin(self.flow.enter(stream, ahead, &connection, leave));
        let Some(inside) = entering.await else {
            return;
        };
        let Inside {
            stream,
            ahead,
            connection,
            speaks_http2,
        } = inside;
        if speaks_http2 {
            self.http2(stream, connection).await;
        } else {
            self.http1(stream, ahead, &connection).await;
        }
    }

    /// Serves one request after another, until the connection ends or becomes a tunnel.
    async fn http1(
        &self,
        mut stream: Stream,
        mut ahead: BytesMut,
        connection: &Connection,
    ) -> After<'_> {
        loop {
            let head = tokio::select! {
                biased;
                head = self.head(&mut stream, &mut ahead) => head,
                () = self.last_call() => return After::Closed,
            };
            let received = match head {
                Ok(head) => Received::Http1(head),
                Err(None) => return After::Closed,
                Err(Some(refusal)) => {
                    let exchange = self.flow.refused(connection, None, refusal);
                    self.flow.turn_away(stream, exchange).await;
                    return After::Closed;
                }
            };
            if received.method() == "CONNECT" {
                // Once in a connection: in a box it takes no room in those that wait for requests.
                return Box::pin(self.connect(stream, ahead, connection, &received)).await;
            }
            match self
                .http1_exchange(stream, ahead, connection, &received)
                .await
            {
                Some(next) => (stream, ahead) = next,
                None => return After::Closed,
            }
        }
    }

    /// Waits until no request that was sent before the stop can still be on its way.
    async fn last_call(&self) {
        self.stopping.cancelled().await;
        tokio::time::sleep(LAST_CALL).await;
    }

    /// The next request's head; or the refusal of what came instead, if anything did.
    async fn head(
        &self,
        stream: &mut Stream,
        ahead: &mut BytesMut,
    ) -> Result<RequestHead, Option<Refusal>> {
        let settings = self.flow.settings();
        let options = &settings.options;
        if ahead.is_empty() {
            ahead.reserve(FIRST_READ);
            // Nearly every request waits here: pingora's timers are shared, tokio's take a lock each.
            let reading = stream.read_buf(ahead);
            match pingora_timeout::timeout(options.idle_timeout, reading).await {
                Ok(Ok(read)) if read > 0 => {}
                _ => return Err(None),
            }
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

    async fn connect(
        &self,
        stream: Stream,
        ahead: BytesMut,
        connection: &Connection,
        received: &Received,
    ) -> After<'_> {
        let patience = self.flow.settings().options.idle_timeout;
        let nothing = Framing::Length(0);
        let mut client = Client::http1(stream, ahead, nothing, false, patience);
        let judging = self.flow.judge_connect(connection, received, &mut client);
        let judged = judging.await;
        let Some((stream, ahead)) = client.into_next() else {
            return After::Closed;
        };
        match judged {
            Ok(leave) => After::Tunnel {
                stream,
                ahead,
                leave,
            },
            Err(exchange) => {
                self.flow.turn_away(stream, *exchange).await;
                After::Closed
            }
        }
    }

    /// Takes one request; tells the stream and the bytes read ahead if another one may follow.
    async fn http1_exchange(
        &self,
        stream: Stream,
        ahead: BytesMut,
        connection: &Connection,
        received: &Received,
    ) -> Option<(Stream, BytesMut)> {
        let Received::Http1(head) = received else {
            return None;
        };
        let settings = self.flow.settings();
        let may_go_on = !self.stopping.is_cancelled() && settings.keeps(connection);
        let keeps_alive = head.keeps_alive() && may_go_on;
        let patience = settings.options.idle_timeout;
        let mut client = Client::http1(stream, ahead, head.framing(), keeps_alive, patience);
        match self.flow.exchange(connection, received, &mut client).await {
            AfterExchange::Whole if client.may_go_on() => client.into_next(),
            AfterExchange::Whole | AfterExchange::Closed => {
                refuse::close_softly(client.into_stream()?).await;
                None
            }
            AfterExchange::CutOff => None,
        }
    }

    /// Serves HTTP/2's streams, each in a task of its own.
    async fn http2(&self, stream: Stream, connection: Connection) {
        let patience = self.flow.settings().options.header_timeout;
        let mut http2 =
            match timeout(patience, http2::handshake(stream, Some(http2_options()))).await {
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
                accepted = timeout(self.flow.settings().options.idle_timeout, http2.accept()) => accepted,
                () = self.stopping.cancelled(), if !is_ending => {
                    http2.graceful_shutdown();
                    is_ending = true;
                    continue;
                }
            };
            match accepted {
                Ok(Some(Ok((request, mut respond)))) => {
                    if !is_ending && !self.flow.settings().keeps(&connection) {
                        http2.graceful_shutdown();
                        is_ending = true;
                    }
                    match Arc::clone(&streams).try_acquire_owned() {
                        Ok(open) => self.http2_exchange(request, respond, &connection, open),
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

    fn http2_exchange(
        &self,
        request: http::Request<RecvStream>,
        respond: SendResponse<Bytes>,
        connection: &Arc<Connection>,
        open: OwnedSemaphorePermit,
    ) {
        let flow = Arc::clone(&self.flow);
        let connection = Arc::clone(connection);
        // An exchange is kilobytes: in a box it is not copied each time that the runtime hands its task on.
        self.tasks.spawn(Box::pin(async move {
            let (head, body) = request.into_parts();
            let has_body = !body.is_end_stream();
            let received = Received::http2(head, has_body);
            let mut client = Client::http2(body, respond, flow.settings().options.idle_timeout);
            // Dropping a client whose response is not complete resets its stream.
            flow.exchange(&connection, &received, &mut client).await;
            drop(open);
        }));
    }
}

fn http2_options() -> http2::H2Options {
    let mut options = http2::default_h2_options();
    options.max_send_buffer_size(SEND_BUFFER_BYTES);
    options
}
