//! Takes client connections: plain HTTP/1, then perhaps a tunnel with HTTP/1 or HTTP/2 inside.

use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::net::{TcpListener, TcpStream};

use super::http1::After;
use super::limits::{Full, Limits};
use super::server::Server;
use super::tunnel::Inside;
use super::{http1, http2, listeners, tunnel};
use crate::decide::refusal::Refusal;
use crate::decide::request::Connection;
use crate::http::proxy_status::ErrorType;
use crate::http::transport::{self, Stream, Transport, UNREAD};

/// Takes connections and serves each in a task of its own.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) server: Arc<Server>,
    pub(crate) limits: Limits,
}

impl Listener {
    /// Serves `listener`'s connections until the server stops; those open by then go on in its tasks.
    pub(crate) async fn run(&self, listener: TcpListener) {
        loop {
            tokio::select! {
                (tcp, peer) = listeners::accept(&listener) => {
                    self.admit(tcp, peer.ip().to_canonical());
                }
                () = self.server.stopping.cancelled() => return,
            }
        }
    }

    fn admit(&self, tcp: TcpStream, client: IpAddr) {
        let server = Arc::clone(&self.server);
        let open = server.exchanges.metrics.client_connection();
        let connection = Connection {
            client,
            proof: None,
            tunnel: None,
        };
        // A client that left already is found out when it is read from.
        let idle_timeout = server.settings().options.idle_timeout;
        let _ = transport::tune(&tcp, idle_timeout.max(UNREAD));
        let descriptor = tcp.as_raw_fd();
        let stream: Stream = Box::new(Transport::new(tcp, descriptor));
        match self.limits.take(client) {
            Ok(slot) => {
                self.server.tasks.spawn(async move {
                    serve(&server, stream, connection).await;
                    drop((slot, open));
                });
            }
            Err(reached) => {
                let Some(leave) = self.limits.turn_away() else {
                    return;
                };
                self.server.tasks.spawn(async move {
                    let exchanges = &server.exchanges;
                    exchanges
                        .refuse_connection(stream, &connection, full(reached))
                        .await;
                    drop((leave, open));
                });
            }
        }
    }
}

async fn serve(server: &Arc<Server>, stream: Stream, connection: Connection) {
    let After::Tunnel {
        stream,
        ahead,
        permit,
    } = http1::serve(server, stream, BytesMut::new(), &connection).await
    else {
        return;
    };
    let connection = Connection {
        proof: permit.proof.clone(),
        ..connection
    };
    // As with `connect`: once in a connection.
    let entering = Box::pin(tunnel::enter(server, (stream, ahead), &connection, permit));
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
        http2::serve(server, stream, connection).await;
    } else {
        http1::serve(server, stream, ahead, &connection).await;
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
