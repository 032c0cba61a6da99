//! Accepts client connections: an optional PROXY header, optional TLS, then HTTP/1 or HTTP/2, which may open tunnels that carry
//! HTTP/1 or HTTP/2 themselves.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::http1::Http1Outcome;
use super::limits::{ConnectionPermit, LimitReached};
use super::listeners::BoundListener;
use super::proxy_protocol::ProxyHeaderError;
use super::server::DownstreamServer;
use super::tls_termination::TlsRefusal;
use super::{http1, inside, listeners, proxied_http2, proxy_protocol, tls_termination};
use crate::decide::refusal::{self, Refusal};
use crate::decide::request::ClientConnection;
use crate::http::transport::{self, BufferedStream, Transport, UNREAD_TIMEOUT};

/// The accept loop; each connection is served in its own task.
#[derive(Debug)]
pub(crate) struct ConnectionAcceptor {
    pub(crate) server: Arc<DownstreamServer>,
}

/// An accepted connection, the bytes read from it so far, and its client.
struct AcceptedConnection {
    tcp: Transport<TcpStream>,
    buffered: BytesMut,
    connection: ClientConnection,
}

/// A connection that is ready for HTTP.
struct NegotiatedConnection {
    incoming: BufferedStream,
    connection: ClientConnection,
    is_http2: bool,
}

/// The layers in front of HTTP that the client is expected to send.
#[derive(Clone, Copy)]
struct ConnectionPreamble {
    /// The peer is a load balancer, which names the client in a PROXY header.
    has_proxy_header: bool,
    is_tls: bool,
}

impl ConnectionAcceptor {
    /// Starts to accept connections on the current runtime, until the server stops. Connections that are open by then continue
    /// in their own tasks.
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime cannot watch the socket.
    pub(crate) fn start(self: &Arc<Self>, bound: BoundListener) -> io::Result<JoinHandle<()>> {
        let listener = TcpListener::from_std(bound.listener)?;
        let is_tls = bound.listen_address.is_tls;
        let acceptor = Arc::clone(self);
        let accepting = async move { acceptor.run(&listener, is_tls).await };
        Ok(self.server.accept_loops.spawn(accepting))
    }

    async fn run(self: &Arc<Self>, listener: &TcpListener, is_tls: bool) {
        loop {
            tokio::select! {
                // First: after the stop not one more connection is accepted, whoever waits in the queue.
                biased;
                () = self.server.stopping.cancelled() => return,
                (tcp, peer) = listeners::accept(listener) => {
                    self.admit(tcp, peer.ip().to_canonical(), is_tls);
                }
            }
        }
    }

    fn admit(self: &Arc<Self>, tcp: TcpStream, peer: IpAddr, is_tls: bool) {
        let (listener, server) = (Arc::clone(self), Arc::clone(&self.server));
        let open = server.exchanges.metrics.client_connection();
        let settings = server.settings();
        let is_named = settings.options.is_load_balancer(peer);
        // An error means that the client is gone already; the first read will notice.
        let _ = transport::set_tcp_options(&tcp, settings.options.idle_timeout.max(UNREAD_TIMEOUT));
        let arrival = AcceptedConnection::new(tcp, peer);
        let slot = if is_named {
            // All clients of a load balancer would share its address: they are counted once the PROXY header names them.
            server.limits.acquire_for_unknown_client()
        } else {
            server.limits.acquire(peer)
        };
        match slot {
            Ok(slot) if is_named || is_tls => self.server.spawn(async move {
                let opening = ConnectionPreamble {
                    has_proxy_header: is_named,
                    is_tls,
                };
                // This runs once per connection. Boxed, it does not enlarge the future of every idle connection.
                if let Some((opened, slot)) =
                    Box::pin(listener.negotiate(arrival, slot, opening)).await
                {
                    serve(&server, opened).await;
                    drop(slot);
                }
                drop(open);
            }),
            Ok(slot) => self.server.spawn(async move {
                serve(&server, arrival.into_plain_http()).await;
                drop((slot, open));
            }),
            Err(reached) => self.server.spawn(async move {
                listener.reject(arrival, reached).await;
                drop(open);
            }),
        };
    }

    /// Reads the PROXY header and terminates TLS, as `opening` requires. Returns `None` if the connection ended before HTTP.
    async fn negotiate(
        &self,
        arrival: AcceptedConnection,
        slot: ConnectionPermit,
        opening: ConnectionPreamble,
    ) -> Option<(NegotiatedConnection, ConnectionPermit)> {
        let (arrival, slot) = if opening.has_proxy_header {
            self.read_proxy_header(arrival, slot).await?
        } else {
            (arrival, slot)
        };
        let opened = if opening.is_tls {
            self.terminate_tls(arrival).await?
        } else {
            arrival.into_plain_http()
        };
        Some((opened, slot))
    }

    /// Terminates TLS to the proxy itself. A client that sends plain text is answered with a refusal.
    async fn terminate_tls(&self, arrival: AcceptedConnection) -> Option<NegotiatedConnection> {
        let AcceptedConnection {
            tcp,
            buffered: ahead,
            connection,
        } = arrival;
        match tls_termination::terminate_tls(&self.server, tcp, ahead, connection.client).await {
            Ok(inside) => Some(NegotiatedConnection {
                incoming: inside.stream.into(),
                connection: ClientConnection {
                    certificate: inside.certificate,
                    ..connection
                },
                is_http2: inside.is_http2,
            }),
            Err(TlsRefusal::Closed) => None,
            Err(TlsRefusal::PlainText(tcp)) => {
                let ahead = BytesMut::new();
                let arrival = AcceptedConnection {
                    tcp,
                    buffered: ahead,
                    connection,
                };
                self.refuse(arrival, refusal::tls_required()).await;
                None
            }
        }
    }

    /// Reads the client's address from the load balancer's PROXY header. Returns `None` if the connection is not to be served.
    async fn read_proxy_header(
        &self,
        mut arrival: AcceptedConnection,
        slot: ConnectionPermit,
    ) -> Option<(AcceptedConnection, ConnectionPermit)> {
        let settings = self.server.settings();
        let peer = arrival.connection.client;
        let patience = settings.options.header_timeout;
        let reading = proxy_protocol::read_client(&mut arrival.tcp, &mut arrival.buffered);
        let what = match timeout(patience, reading).await {
            // The load balancer's own connection, such as a health check.
            Ok(Ok(None)) => return self.count_for_client(arrival, slot, peer).await,
            Ok(Ok(Some(client))) => {
                arrival.connection.client = client;
                arrival.connection.peer = Some(peer);
                return self.count_for_client(arrival, slot, client).await;
            }
            Ok(Err(ProxyHeaderError::Closed)) => return None,
            Ok(Err(ProxyHeaderError::Malformed(what))) => what,
            Err(_) => "it did not arrive in time".to_owned(),
        };
        self.refuse(arrival, refusal::invalid_proxy_header(&what))
            .await;
        None
    }

    /// Counts the connection for `client`, or refuses it if the client has all it may have.
    async fn count_for_client(
        &self,
        arrival: AcceptedConnection,
        slot: ConnectionPermit,
        client: IpAddr,
    ) -> Option<(AcceptedConnection, ConnectionPermit)> {
        match self.server.limits.assign_client(slot, client) {
            Ok(slot) => Some((arrival, slot)),
            Err(reached) => {
                self.reject(arrival, reached).await;
                None
            }
        }
    }

    /// Answers a connection beyond the limits, unless too many are being answered already.
    async fn reject(&self, arrival: AcceptedConnection, reached: LimitReached) {
        if let Some(leave) = self.server.limits.acquire_rejection() {
            self.refuse(arrival, reached.refusal()).await;
            drop(leave);
        }
    }

    async fn refuse(&self, arrival: AcceptedConnection, refusal: Refusal) {
        let exchanges = &self.server.exchanges;
        let stream = Box::new(arrival.tcp);
        let refusing = exchanges.refuse_connection(stream, &arrival.connection, refusal);
        refusing.await;
    }
}

impl AcceptedConnection {
    fn new(tcp: TcpStream, peer: IpAddr) -> Self {
        let descriptor = tcp.as_raw_fd();
        Self {
            tcp: Transport::new(tcp, descriptor),
            buffered: BytesMut::new(),
            connection: ClientConnection {
                client: peer,
                peer: None,
                certificate: None,
                proof: None,
                tunnel: None,
            },
        }
    }

    fn into_plain_http(self) -> NegotiatedConnection {
        NegotiatedConnection {
            incoming: BufferedStream {
                stream: Box::new(self.tcp),
                buffered: self.buffered,
            },
            connection: self.connection,
            is_http2: false,
        }
    }
}

async fn serve(server: &Arc<DownstreamServer>, opened: NegotiatedConnection) {
    let NegotiatedConnection {
        incoming,
        connection,
        is_http2: speaks_http2,
    } = opened;
    if speaks_http2 {
        let serving = proxied_http2::serve(server, incoming.stream, connection);
        return Box::pin(serving).await;
    }
    let after = http1::serve(server, incoming, &connection).await;
    if let Http1Outcome::Tunnel { incoming, permit } = after {
        inside::serve(server, incoming, connection, permit).await;
    }
}
