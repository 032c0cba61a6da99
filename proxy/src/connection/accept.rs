//! Takes client connections: perhaps a PROXY header, perhaps TLS, then HTTP/1 or HTTP/2, then perhaps tunnels with HTTP/1 or HTTP/2
//! inside.

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

/// Takes connections and serves each in a task of its own.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) server: Arc<Server>,
}

/// A connection as it came, as far as it was read, and whose it is.
struct Arrival {
    tcp: Transport<TcpStream>,
    ahead: BytesMut,
    connection: Connection,
}

/// A connection on which HTTP begins.
struct Opened {
    incoming: Incoming,
    connection: Connection,
    speaks_http2: bool,
}

/// What comes before HTTP.
#[derive(Clone, Copy)]
struct Opening {
    /// A load balancer says whose connection it is.
    is_named: bool,
    is_tls: bool,
}

impl Listener {
    /// Serves the listener's connections until the server stops; those open by then go on in its tasks.
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
        // A client that left already is found out when it is read from.
        let _ = transport::tune(&tcp, settings.options.idle_timeout.max(UNREAD));
        let arrival = Arrival::of(tcp, peer);
        let slot = match is_named {
            true => server.limits.take_unnamed(),
            false => server.limits.take(peer),
        };
        match slot {
            Ok(slot) if is_named || is_tls => self.server.spawn(async move {
                let opening = Opening { is_named, is_tls };
                // Once in a connection: in a box it takes no room in those that wait for requests.
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

    /// Goes through what comes before HTTP; none if there will be no HTTP.
    async fn open(&self, arrival: Arrival, slot: Slot, opening: Opening) -> Option<(Opened, Slot)> {
        let (arrival, slot) = match opening.is_named {
            true => self.name(arrival, slot).await?,
            false => (arrival, slot),
        };
        let opened = match opening.is_tls {
            true => self.end_tls(arrival).await?,
            false => arrival.plain(),
        };
        Some((opened, slot))
    }

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

    /// Learns from a load balancer whose connection this is; none if it is not to be served.
    async fn name(&self, mut arrival: Arrival, slot: Slot) -> Option<(Arrival, Slot)> {
        let settings = self.server.settings();
        let peer = arrival.connection.client;
        let patience = settings.options.header_timeout;
        let reading = proxy_protocol::client(&mut arrival.tcp, &mut arrival.ahead);
        let what = match timeout(patience, reading).await {
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

    async fn count(&self, arrival: Arrival, slot: Slot, client: IpAddr) -> Option<(Arrival, Slot)> {
        match self.server.limits.name(slot, client) {
            Ok(slot) => Some((arrival, slot)),
            Err(reached) => {
                self.turn_away(arrival, reached).await;
                None
            }
        }
    }

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
