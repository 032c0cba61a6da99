//! Accepts client connections: an optional PROXY header, optional TLS, then HTTP/1 or HTTP/2, which may open tunnels that carry
//! HTTP/1 or HTTP/2 themselves.

use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::entrance::Ended;
use super::http1::After;
use super::limits::{Full, Slot};
use super::listeners::Bound;
use super::proxy_protocol::Fault;
use super::server::Server;
use super::{entrance, http1, inside, listeners, proxied_http2, proxy_protocol};
use crate::decide::refusal::{self, Refusal};
use crate::decide::request::Connection;
use crate::http::transport::{self, Incoming, Transport, UNREAD};

/// The accept loop; each connection is served in its own task.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) server: Arc<Server>,
}

/// An accepted connection, the bytes read from it so far, and its client.
struct Arrival {
    tcp: Transport<TcpStream>,
    ahead: BytesMut,
    connection: Connection,
}

/// A connection that is ready for HTTP.
struct Opened {
    incoming: Incoming,
    connection: Connection,
    speaks_http2: bool,
}

/// The layers in front of HTTP that the client is expected to send.
#[derive(Clone, Copy)]
struct Opening {
    /// The peer is a load balancer, which names the client in a PROXY header.
    is_named: bool,
    is_tls: bool,
}

impl Listener {
    /// Accepts connections until the server stops; connections that are open by then continue in their own tasks.
    pub(crate) async fn run(self: &Arc<Self>, bound: Bound) {
        loop {
            tokio::select! {
                (tcp, peer) = listeners::accept(&bound.listener) => {
                    self.admit(tcp, peer.ip().to_canonical(), bound.at.is_tls);
                }
                () = self.server.stopping.cancelled() => return,
            }
        }
    }

    fn admit(self: &Arc<Self>, tcp: TcpStream, peer: IpAddr, is_tls: bool) {
        let (listener, server) = (Arc::clone(self), Arc::clone(&self.server));
        let open = server.exchanges.metrics.client_connection();
        let settings = server.settings();
        let is_named = settings.options.is_load_balancer(peer);
        // An error means that the client is gone already; the first read will notice.
        let _ = transport::tune(&tcp, settings.options.idle_timeout.max(UNREAD));
        let arrival = Arrival::of(tcp, peer);
        let slot = if is_named {
            // All clients of a load balancer would share its address: they are counted once the PROXY header names them.
            server.limits.take_unnamed()
        } else {
            server.limits.take(peer)
        };
        match slot {
            Ok(slot) if is_named || is_tls => self.server.spawn(async move {
                let opening = Opening { is_named, is_tls };
                // This runs once per connection. Boxed, it does not enlarge the future of every idle connection.
                if let Some((opened, slot)) = Box::pin(listener.open(arrival, slot, opening)).await
                {
                    serve(&server, opened).await;
                    drop(slot);
                }
                drop(open);
            }),
            Ok(slot) => self.server.spawn(async move {
                serve(&server, arrival.plain()).await;
                drop((slot, open));
            }),
            Err(reached) => self.server.spawn(async move {
                listener.turn_away(arrival, reached).await;
                drop(open);
            }),
        };
    }

    /// Reads the PROXY header and terminates TLS, as `opening` requires. Returns `None` if the connection ended before HTTP.
    async fn open(&self, arrival: Arrival, slot: Slot, opening: Opening) -> Option<(Opened, Slot)> {
        let (arrival, slot) = if opening.is_named {
            self.name(arrival, slot).await?
        } else {
            (arrival, slot)
        };
        let opened = if opening.is_tls {
            self.end_tls(arrival).await?
        } else {
            arrival.plain()
        };
        Some((opened, slot))
    }

    /// Terminates TLS to the proxy itself. A client that sends plain text is answered with a refusal.
    async fn end_tls(&self, arrival: Arrival) -> Option<Opened> {
        let Arrival {
            tcp,
            ahead,
            connection,
        } = arrival;
        match entrance::end_tls(&self.server, tcp, ahead, connection.client).await {
            Ok(inside) => Some(Opened {
                incoming: inside.stream.into(),
                connection: Connection {
                    certificate: inside.certificate,
                    ..connection
                },
                speaks_http2: inside.speaks_http2,
            }),
            Err(Ended::Closed) => None,
            Err(Ended::Plain(tcp)) => {
                let ahead = BytesMut::new();
                let arrival = Arrival {
                    tcp,
                    ahead,
                    connection,
                };
                self.refuse(arrival, refusal::plain_text()).await;
                None
            }
        }
    }

    /// Reads the client's address from the load balancer's PROXY header. Returns `None` if the connection is not to be served.
    async fn name(&self, mut arrival: Arrival, slot: Slot) -> Option<(Arrival, Slot)> {
        let settings = self.server.settings();
        let peer = arrival.connection.client;
        let patience = settings.options.header_timeout;
        let reading = proxy_protocol::client(&mut arrival.tcp, &mut arrival.ahead);
        let what = match timeout(patience, reading).await {
            // The load balancer's own connection, such as a health check.
            Ok(Ok(None)) => return self.count(arrival, slot, peer).await,
            Ok(Ok(Some(client))) => {
                arrival.connection.client = client;
                arrival.connection.peer = Some(peer);
                return self.count(arrival, slot, client).await;
            }
            Ok(Err(Fault::Silent)) => return None,
            Ok(Err(Fault::Malformed(what))) => what,
            Err(_) => "it did not arrive in time".to_owned(),
        };
        self.refuse(arrival, refusal::unnamed_client(&what)).await;
        None
    }

    /// Counts the connection for `client`, or refuses it if the client has all it may have.
    async fn count(&self, arrival: Arrival, slot: Slot, client: IpAddr) -> Option<(Arrival, Slot)> {
        match self.server.limits.name(slot, client) {
            Ok(slot) => Some((arrival, slot)),
            Err(reached) => {
                self.turn_away(arrival, reached).await;
                None
            }
        }
    }

    /// Answers a connection beyond the limits, unless too many are being answered already.
    async fn turn_away(&self, arrival: Arrival, reached: Full) {
        if let Some(leave) = self.server.limits.turn_away() {
            self.refuse(arrival, reached.refusal()).await;
            drop(leave);
        }
    }

    async fn refuse(&self, arrival: Arrival, refusal: Refusal) {
        let exchanges = &self.server.exchanges;
        let stream = Box::new(arrival.tcp);
        let refusing = exchanges.refuse_connection(stream, &arrival.connection, refusal);
        refusing.await;
    }
}

impl Arrival {
    fn of(tcp: TcpStream, peer: IpAddr) -> Self {
        let descriptor = tcp.as_raw_fd();
        Self {
            tcp: Transport::new(tcp, descriptor),
            ahead: BytesMut::new(),
            connection: Connection {
                client: peer,
                peer: None,
                certificate: None,
                proof: None,
                tunnel: None,
            },
        }
    }

    fn plain(self) -> Opened {
        Opened {
            incoming: Incoming {
                stream: Box::new(self.tcp),
                ahead: self.ahead,
            },
            connection: self.connection,
            speaks_http2: false,
        }
    }
}

async fn serve(server: &Arc<Server>, opened: Opened) {
    let Opened {
        incoming,
        connection,
        speaks_http2,
    } = opened;
    if speaks_http2 {
        let serving = proxied_http2::serve(server, incoming.stream, connection);
        return Box::pin(serving).await;
    }
    let after = http1::serve(server, incoming, &connection).await;
    if let After::Tunnel { incoming, permit } = after {
        inside::serve(server, incoming, connection, permit).await;
    }
}
