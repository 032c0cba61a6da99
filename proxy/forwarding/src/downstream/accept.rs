//! Accepts client connections: an optional PROXY header, optional TLS, then HTTP/1 or HTTP/2, which may open tunnels that carry
//! HTTP/1 or HTTP/2 themselves.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::BytesMut;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use wayleave_admission::refusal;
use wayleave_admission::request::{ClientConnection, DialledDestination};
use wayleave_config::{ListenAddress, ListenProtocol};
use wayleave_decision::Refusal;
use wayleave_fairness::Holder;
use wayleave_transport::descriptors;
use wayleave_transport::http::transport::{
    self, BufferedStream, Transport, UNACKNOWLEDGED_TIMEOUT,
};

use super::captured::{self, CapturedConnection};
use super::limits::{ConnectionPermit, LimitReached};
use super::listeners::BoundListener;
use super::original_destination::original_destination;
use super::proxy_protocol::ProxyHeaderError;
use super::server::DownstreamServer;
use super::tls_termination::{NegotiatedConnection, TlsRefusal};
use super::worker_threads::WorkerThreads;
use super::{http1, listeners, proxied_http2, proxy_protocol, socks5, tls_termination, tunnel};

/// The accept loop; each connection is served in its own task, on one of the threads.
#[derive(Debug)]
pub struct ConnectionAcceptor {
    pub server: Arc<DownstreamServer>,
    pub threads: WorkerThreads,
}

/// An accepted connection, the bytes read from it so far, and its client.
pub(super) struct AcceptedConnection {
    tcp: Transport<TcpStream>,
    buffered: BytesMut,
    connection: ClientConnection,
    /// The other end of the connection, which is a load balancer's if it names the client.
    peer: SocketAddr,
}

/// The way in which a connection came, and so the first bytes of its client.
#[derive(Debug)]
pub enum Entry {
    /// HTTP to the proxy.
    Http,
    /// TLS to the proxy, and HTTP inside.
    Https,
    Socks5,
    /// The kernel brought it, whichever address the client dialled.
    Captured {
        listener: ListenProtocol,
        /// `None` if the client dialled the listener itself.
        destination: Option<DialledDestination>,
    },
}

impl Entry {
    fn new(tcp: &TcpStream, listen: ListenAddress) -> Self {
        match listen.protocol {
            ListenProtocol::Http => Self::Http,
            ListenProtocol::Https => Self::Https,
            ListenProtocol::Socks5 => Self::Socks5,
            listener @ (ListenProtocol::Redirect | ListenProtocol::Tproxy) => {
                let destination = original_destination(tcp, listen)
                    .and_then(|address| DialledDestination::at(address).ok());
                Self::Captured { listener, destination }
            }
        }
    }
}

impl ConnectionAcceptor {
    /// Creates the accept loop of the service that this runs in, which has `thread_count` threads.
    pub fn in_service(server: Arc<DownstreamServer>, thread_count: usize) -> Arc<Self> {
        Arc::new(Self { server, threads: WorkerThreads::of_service(thread_count) })
    }

    /// Starts to accept connections on the current runtime, until the server stops. Connections that are open by then continue
    /// in their own tasks.
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime cannot watch the socket.
    pub fn start(self: &Arc<Self>, bound: BoundListener) -> io::Result<JoinHandle<()>> {
        let listener = TcpListener::from_std(bound.listener)?;
        let acceptor = Arc::clone(self);
        let accepting = async move { acceptor.run(&listener, bound.listen_address).await };
        Ok(self.server.accept_loops.spawn(accepting))
    }

    async fn run(self: &Arc<Self>, listener: &TcpListener, listen: ListenAddress) {
        loop {
            tokio::select! {
                // First: after the stop not one more connection is accepted, even if some wait in the queue.
                biased;
                () = self.server.stopping.cancelled() => return,
                (tcp, peer) = listeners::accept(listener) => {
                    let entry = Entry::new(&tcp, listen);
                    self.admit(tcp, peer, entry);
                }
            }
        }
    }

    /// Serves a connection of `peer` in a task of its own, or refuses it.
    pub fn admit(self: &Arc<Self>, tcp: TcpStream, peer: SocketAddr, entry: Entry) {
        let acceptor = Arc::clone(self);
        let server = &self.server;
        let open = server.exchanges.gate.metrics.client_connection();
        let settings = server.settings();
        let client = peer.ip().to_canonical();
        // Only connections to the proxy itself come through a load balancer of the proxy.
        let has_proxy_header =
            !matches!(entry, Entry::Captured { .. }) && settings.options.is_load_balancer(client);
        // An error means that the client is gone already; the first read will notice.
        let _ = transport::set_tcp_options(
            &tcp,
            settings.options.idle_timeout.max(UNACKNOWLEDGED_TIMEOUT),
        );
        let is_last = descriptors::is_reserved(&tcp);
        let permit = if is_last && !settings.upstream.close_idle_connections() {
            Err(LimitReached::Descriptors)
        } else if has_proxy_header {
            // All clients of a load balancer would share its address: they are counted once the PROXY header names them.
            server.limits.acquire_for_unknown_client()
        } else {
            server.limits.acquire(client)
        };
        // The runtime of the thread that serves the connection is the one that has to watch its socket.
        let tcp = tcp.into_std();
        let thread = self.threads.least_busy();
        server.spawn_on(&thread.runtime.clone(), client, async move {
            let accepted = match tcp.and_then(TcpStream::from_std) {
                // Boxed, because the future of each async function that takes it keeps room for it.
                Ok(tcp) => Box::new(AcceptedConnection::new(tcp, peer)),
                Err(error) => {
                    tracing::error!(%error, "a connection could not be served");
                    return;
                }
            };
            let (accepted, permit) = match permit {
                // A load balancer sends its header in front of everything, TLS included. This runs once per connection.
                // Boxed, it does not enlarge the future of every idle connection.
                Ok(permit) if has_proxy_header => {
                    let reading = Box::pin(acceptor.read_proxy_header(accepted, permit));
                    let Some(admitted) = reading.await else { return };
                    admitted
                }
                Ok(permit) => (accepted, permit),
                Err(limit) => return Box::pin(acceptor.reject(accepted, limit)).await,
            };
            acceptor.serve(accepted, entry).await;
            drop((permit, open, thread));
        });
    }

    /// Serves a connection whose client is known, until it ends.
    pub(super) async fn serve(&self, accepted: Box<AcceptedConnection>, entry: Entry) {
        let server = &self.server;
        match entry {
            Entry::Http => serve_http(server, accepted.into_plain_http()).await,
            Entry::Https => {
                if let Some(negotiated) = Box::pin(self.terminate_tls(accepted)).await {
                    serve_http(server, negotiated).await;
                }
            }
            Entry::Socks5 => {
                let NegotiatedConnection { incoming, connection, .. } = *accepted.into_plain_http();
                Box::pin(socks5::serve(server, incoming, connection)).await;
            }
            Entry::Captured { listener, destination: Some(dialled) } => {
                let peer = Some(accepted.peer);
                let NegotiatedConnection { incoming, connection, .. } = *accepted.into_plain_http();
                let connection = ClientConnection { dialled: Some(dialled.clone()), ..connection };
                let captured = CapturedConnection { incoming, connection, dialled, listener, peer };
                Box::pin(Box::new(captured).serve(server)).await;
            }
            Entry::Captured { listener, destination: None } => {
                captured::count(server, listener, "not-redirected");
                Box::pin(self.refuse(accepted, refusal::not_redirected())).await;
            }
        }
    }

    /// Terminates TLS to the proxy itself. A client that sends plain text is answered with a refusal.
    async fn terminate_tls(
        &self,
        accepted: Box<AcceptedConnection>,
    ) -> Option<Box<NegotiatedConnection>> {
        let AcceptedConnection { tcp, buffered, connection, peer } = *accepted;
        match tls_termination::terminate_tls(&self.server, tcp, buffered, connection.client).await {
            Ok(tls) => Some(Box::new(NegotiatedConnection {
                incoming: tls.stream.into(),
                connection: ClientConnection { certificate: tls.certificate, ..connection },
                is_http2: tls.is_http2,
            })),
            Err(TlsRefusal::Closed) => None,
            Err(TlsRefusal::PlainText(tcp)) => {
                let buffered = BytesMut::new();
                let accepted = AcceptedConnection { tcp, buffered, connection, peer };
                self.refuse(Box::new(accepted), refusal::tls_required()).await;
                None
            }
        }
    }

    /// Reads the client's address from the load balancer's PROXY header. Returns `None` if the connection is not to be served.
    async fn read_proxy_header(
        &self,
        mut accepted: Box<AcceptedConnection>,
        permit: ConnectionPermit,
    ) -> Option<(Box<AcceptedConnection>, ConnectionPermit)> {
        let settings = self.server.settings();
        let peer = accepted.connection.client;
        let reading = proxy_protocol::read_client(&mut accepted.tcp, &mut accepted.buffered);
        let mistake = match timeout(settings.options.header_timeout, reading).await {
            // The load balancer's own connection, such as a health check.
            Ok(Ok(None)) => return self.count_for_client(accepted, permit, peer).await,
            Ok(Ok(Some(client))) => {
                accepted.connection.client = client;
                accepted.connection.peer = Some(peer);
                return self.count_for_client(accepted, permit, client).await;
            }
            Ok(Err(ProxyHeaderError::Closed)) => return None,
            Ok(Err(ProxyHeaderError::Malformed(mistake))) => mistake,
            Err(_) => "it did not arrive in time".to_owned(),
        };
        self.refuse(accepted, refusal::invalid_proxy_header(&mistake)).await;
        None
    }

    /// Counts the connection for `client`, or refuses it if the client has all it may have.
    async fn count_for_client(
        &self,
        accepted: Box<AcceptedConnection>,
        permit: ConnectionPermit,
        client: IpAddr,
    ) -> Option<(Box<AcceptedConnection>, ConnectionPermit)> {
        wayleave_fairness::run_as(Holder::of_client(client));
        match self.server.limits.assign_client(permit, client) {
            Ok(permit) => Some((accepted, permit)),
            Err(limit) => {
                self.reject(accepted, limit).await;
                None
            }
        }
    }

    /// Answers a connection beyond the limits, unless too many are being answered already.
    async fn reject(&self, accepted: Box<AcceptedConnection>, limit: LimitReached) {
        if let Some(permit) = self.server.limits.acquire_rejection(limit) {
            self.refuse(accepted, limit.refusal()).await;
            drop(permit);
        }
    }

    async fn refuse(&self, accepted: Box<AcceptedConnection>, refusal: Refusal) {
        let AcceptedConnection { tcp, connection, .. } = *accepted;
        self.server.exchanges.refuse_connection(Box::new(tcp), &connection, refusal).await;
    }
}

impl AcceptedConnection {
    fn new(tcp: TcpStream, peer: SocketAddr) -> Self {
        let client = peer.ip().to_canonical();
        Self {
            tcp: Transport::new(tcp),
            buffered: BytesMut::new(),
            peer: SocketAddr::new(client, peer.port()),
            connection: ClientConnection::new(client),
        }
    }

    fn into_plain_http(self: Box<Self>) -> Box<NegotiatedConnection> {
        Box::new(NegotiatedConnection {
            incoming: BufferedStream { stream: Box::new(self.tcp), buffered: self.buffered },
            connection: self.connection,
            is_http2: false,
        })
    }
}

/// Serves HTTP to the proxy, and the tunnel that an HTTP/1 connection may become.
async fn serve_http(server: &Arc<DownstreamServer>, http: Box<NegotiatedConnection>) {
    if http.is_http2 {
        let serving = proxied_http2::serve(server, http.incoming.stream, http.connection);
        return Box::pin(serving).await;
    }
    if let Some(opened) = http1::serve(server, http).await {
        tunnel::serve(server, opened).await;
    }
}
