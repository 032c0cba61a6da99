//! A connection: HTTP/1 in the open, then perhaps a tunnel with HTTP/1 or HTTP/2 inside.

use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use h2::server::SendResponse;
use pingora_core::protocols::http::v2::server as http2;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wayleave_policy::Origin;

use super::client::Client;
use super::exchange::{Connection, Refusal};
use super::refuse;
use super::request::{self, Received};
use super::tunnel::Inside;
use super::way::{Ending, Flow};
use crate::http1::RequestHead;
use crate::proxy_status::ErrorType;
use crate::stream::{Stream, Transport};

/// What is read of a request at first; most heads are shorter.
const FIRST_READ: usize = 4096;

/// Takes connections and serves each in a task of its own.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) flow: Arc<Flow>,
    pub(crate) slots: Arc<Semaphore>,
    pub(crate) tasks: TaskTracker,
    pub(crate) stopping: CancellationToken,
}

impl Listener {
    /// Serves `listener`'s connections until `stopping`; those open by then go on in `tasks`.
    pub(crate) async fn run(&self, listener: TcpListener) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.stopping.cancelled() => return,
            };
            match accepted {
                Ok((tcp, peer)) => self.admit(tcp, peer.ip().to_canonical()),
                Err(error) => {
                    // Out of descriptors, mostly: taking connections at once would fail again.
                    tracing::error!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    fn admit(&self, tcp: TcpStream, client: IpAddr) {
        let open = self.flow.metrics.client_connection();
        let connection = Connection {
            client,
            username: None,
            tunnel: None,
        };
        // A client that left already is found out when it is read from.
        let _ = tcp.set_nodelay(true);
        let descriptor = tcp.as_raw_fd();
        let stream: Stream = Box::new(Transport::new(tcp, descriptor));
        let flow = Arc::clone(&self.flow);
        let serving = Serving {
            flow,
            tasks: self.tasks.clone(),
            stopping: self.stopping.clone(),
        };
        let slot = Arc::clone(&self.slots).try_acquire_owned();
        self.tasks.spawn(async move {
            match slot {
                Ok(_slot) => serving.serve(stream, connection).await,
                Err(_) => {
                    let flow = &serving.flow;
                    flow.turn_away(&connection, stream, None, full()).await;
                }
            }
            drop(open);
        });
    }
}

fn full() -> Refusal {
    let error = ErrorType::ConnectionLimitReached;
    let details = "as many connections are open as proxy.max_connections allows";
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
enum After {
    Closed,
    Tunnel {
        stream: Stream,
        ahead: BytesMut,
        origin: Origin,
        username: Option<Arc<str>>,
    },
}

impl Serving {
    async fn serve(&self, stream: Stream, connection: Connection) {
        let after = self.http1(stream, BytesMut::new(), &connection).await;
        let After::Tunnel {
            stream,
            ahead,
            origin,
            username,
        } = after
        else {
            return;
        };
        let connection = Connection {
            username,
            ..connection
        };
        let Some(inside) = self.flow.enter(stream, ahead, &connection, origin).await else {
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
    ) -> After {
        loop {
            let head = tokio::select! {
                head = self.head(&mut stream, &mut ahead) => head,
                () = self.stopping.cancelled() => return After::Closed,
            };
            let received = match head {
                Ok(head) => Received::Http1(head),
                Err(None) => return After::Closed,
                Err(Some(refusal)) => {
                    self.flow.turn_away(connection, stream, None, refusal).await;
                    return After::Closed;
                }
            };
            if received.method() == "CONNECT" {
                return self.connect(stream, ahead, connection, &received).await;
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
        match timeout(options.header_timeout, RequestHead::read(stream, ahead)).await {
            Ok(Ok(head)) => Ok(head),
            Ok(Err(error)) => Err(request::head_refusal(error)),
            Err(_) => Err(Some(request::too_slow())),
        }
    }

    async fn connect(
        &self,
        stream: Stream,
        ahead: BytesMut,
        connection: &Connection,
        received: &Received,
    ) -> After {
        match self.flow.judge_connect(connection, received).await {
            Ok((origin, username)) => After::Tunnel {
                stream,
                ahead,
                origin,
                username,
            },
            Err(refusal) => {
                self.flow
                    .turn_away(connection, stream, Some(received), refusal)
                    .await;
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
        let keeps_alive = head.keeps_alive() && !self.stopping.is_cancelled();
        let patience = self.flow.settings().options.idle_timeout;
        let mut client = Client::http1(stream, ahead, head.framing(), keeps_alive, patience);
        match self.flow.exchange(connection, received, &mut client).await {
            Ending::Whole if client.may_go_on() => client.into_next(),
            Ending::Whole | Ending::Closed => {
                refuse::close_softly(client.into_stream()?).await;
                None
            }
            Ending::CutOff => None,
        }
    }

    /// Serves HTTP/2's streams, each in a task of its own.
    async fn http2(&self, stream: Stream, connection: Connection) {
        let mut http2 = match http2::handshake(stream, None).await {
            Ok(http2) => http2,
            Err(error) => {
                tracing::debug!(%error, "no HTTP/2 inside the tunnel");
                return;
            }
        };
        let connection = Arc::new(connection);
        let streams = Arc::new(());
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
                Ok(Some(Ok((request, respond)))) => {
                    self.http2_exchange(request, respond, &connection, &streams);
                }
                Ok(None | Some(Err(_))) => return,
                Err(_) if Arc::strong_count(&streams) > 1 => {}
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
        open: &Arc<()>,
    ) {
        let flow = Arc::clone(&self.flow);
        let (connection, open) = (Arc::clone(connection), Arc::clone(open));
        self.tasks.spawn(async move {
            let (head, body) = request.into_parts();
            let has_body = !body.is_end_stream();
            let received = Received::Http2 {
                head: Box::new(head),
                has_body,
            };
            let mut client = Client::http2(body, respond, flow.settings().options.idle_timeout);
            // Dropping a client whose response is not complete resets its stream.
            flow.exchange(&connection, &received, &mut client).await;
            drop(open);
        });
    }
}
