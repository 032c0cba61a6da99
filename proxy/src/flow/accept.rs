//! A connection: HTTP/1 in the open, then perhaps a tunnel with HTTP/1 or HTTP/2 inside.

use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use pingora_core::protocols::Digest;
use pingora_core::protocols::http::ServerSession;
use pingora_core::protocols::http::v2::server::{
    self as http2, H2Accept, HttpSession as Http2Session,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wayleave_policy::Origin;

use super::exchange::{Connection, Refusal};
use super::head::{Head, NoHead};
use super::tunnel::Inside;
use super::way::{Ending, Flow};
use crate::proxy_status::ErrorType;
use crate::stream::{Stream, Transport};

/// Requests that one HTTP/2 client may send malformed before its connection ends.
const MALFORMED_STREAMS: usize = 32;

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
                    flow.refuse_unread(&connection, stream, None, full()).await;
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
    },
}

impl Serving {
    async fn serve(&self, stream: Stream, connection: Connection) {
        let after = self.http1(stream, BytesMut::new(), &connection).await;
        let After::Tunnel {
            stream,
            ahead,
            origin,
        } = after
        else {
            return;
        };
        let Some(inside) = self
            .flow
            .enter(stream, ahead, connection.client, origin)
            .await
        else {
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
            let read = tokio::select! {
                read = Head::read(&mut stream, &mut ahead, self.flow.patience()) => read,
                () = self.stopping.cancelled() => return After::Closed,
            };
            let head = match read {
                Ok(head) => head,
                Err(NoHead::Closed) => return After::Closed,
                Err(NoHead::Refused(refusal)) => {
                    self.flow
                        .refuse_unread(connection, stream, None, *refusal)
                        .await;
                    return After::Closed;
                }
            };
            if head.is_connect() {
                return self.connect(stream, ahead, connection, &head).await;
            }
            let session = session(
                stream,
                head.for_session(&ahead),
                self.flow.options.idle_timeout,
            );
            match self.exchange(session, connection, &head).await {
                Some(next) => (stream, ahead) = next,
                None => return After::Closed,
            }
        }
    }

    async fn connect(
        &self,
        stream: Stream,
        ahead: BytesMut,
        connection: &Connection,
        head: &Head,
    ) -> After {
        match self.flow.judge_connect(connection, head).await {
            Ok(origin) => After::Tunnel {
                stream,
                ahead,
                origin,
            },
            Err(refusal) => {
                let request = head.request(&self.flow.options.name);
                self.flow
                    .refuse_unread(connection, stream, Some(request), refusal)
                    .await;
                After::Closed
            }
        }
    }

    /// Takes one request; tells the stream and the bytes read ahead if another one may follow.
    async fn exchange(
        &self,
        mut session: ServerSession,
        connection: &Connection,
        head: &Head,
    ) -> Option<(Stream, BytesMut)> {
        if let Err(error) = session.read_request().await {
            tracing::warn!(%error, "pingora refused a head that we took");
            return None;
        }
        if self.stopping.is_cancelled() {
            session.set_keepalive(None);
        }
        match self
            .flow
            .exchange(connection, Some(head), &mut session)
            .await
        {
            Ending::Whole => {
                let (stream, ahead) = session.finish().await.ok()??.into_parts();
                Some((stream, ahead.unwrap_or_default()))
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
        let digest = Arc::new(Digest::default());
        let streams = Arc::new(());
        let mut malformed = 0;
        let mut is_ending = false;
        while malformed < MALFORMED_STREAMS {
            let accepting = Http2Session::from_h2_conn(&mut http2, Arc::clone(&digest));
            let accepted = tokio::select! {
                accepted = timeout(self.flow.options.idle_timeout, accepting) => accepted,
                () = self.stopping.cancelled(), if !is_ending => {
                    http2.graceful_shutdown();
                    is_ending = true;
                    continue;
                }
            };
            match accepted {
                Ok(Ok(Some(H2Accept::Session(session)))) => {
                    self.http2_exchange(session, Arc::clone(&connection), Arc::clone(&streams));
                }
                Ok(Ok(Some(H2Accept::Rejected))) => malformed += 1,
                Ok(Ok(None) | Err(_)) => return,
                Err(_) if Arc::strong_count(&streams) == 1 => {
                    if is_ending {
                        return;
                    }
                    http2.graceful_shutdown();
                    is_ending = true;
                }
                Err(_) => {}
            }
        }
    }

    fn http2_exchange(&self, session: Http2Session, connection: Arc<Connection>, open: Arc<()>) {
        let flow = Arc::clone(&self.flow);
        self.tasks.spawn(async move {
            let mut session = ServerSession::new_http2(session);
            session.set_write_timeout(Some(flow.options.idle_timeout));
            let ending = flow.exchange(&connection, None, &mut session).await;
            if ending == Ending::Whole {
                // A client that left needs no end.
                let _ = session.finish().await;
            }
            drop(open);
        });
    }
}

/// A session that reads `head` first.
fn session(stream: Stream, head: BytesMut, patience: Duration) -> ServerSession {
    let mut session = ServerSession::new_http1(stream);
    session.set_pipelined_prefix(head);
    session.set_pipelining_enabled(true);
    session.set_read_timeout(Some(patience));
    session.set_write_timeout(Some(patience));
    session
}
