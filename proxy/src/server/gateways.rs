//! Accepts the connections of gateways, until the process stops.

use std::io;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use wayleave_config::GatewayProtocol;
use wayleave_fairness::{Holder, HolderCounts};
use wayleave_gateway::GatewayServer;
use wayleave_transport::http::transport::{self, UNACKNOWLEDGED_TIMEOUT};

use wayleave_forwarding::downstream::ConnectionAcceptor;
use wayleave_forwarding::downstream::listeners::{self, BoundGateway};

/// The most connections of a listener. A gateway keeps one for each request that waits for its verdict by HTTP.
pub(super) const MAX_CONNECTIONS: usize = 4096;

/// Starts to accept connections on the current runtime. The threads of `acceptor` serve them.
///
/// # Errors
///
/// Returns an error if the runtime cannot watch the socket.
pub(super) fn start(
    acceptor: &Arc<ConnectionAcceptor>,
    server: &Arc<GatewayServer>,
    gateway: BoundGateway,
) -> io::Result<JoinHandle<()>> {
    let listener = TcpListener::from_std(gateway.bound.listener)?;
    let accepting = accept(Arc::clone(acceptor), Arc::clone(server), listener, gateway.protocol);
    Ok(acceptor.server.accept_loops.spawn(accepting))
}

async fn accept(
    acceptor: Arc<ConnectionAcceptor>,
    server: Arc<GatewayServer>,
    listener: TcpListener,
    protocol: GatewayProtocol,
) {
    let stopping = acceptor.server.stopping.clone();
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let of_gateways = Arc::<HolderCounts>::default();
    let next = async || {
        let permit = Arc::clone(&connections).acquire_owned().await.ok()?;
        Some((permit, listeners::accept(&listener).await))
    };
    while let Some(Some((permit, (tcp, peer)))) = stopping.run_until_cancelled(next()).await {
        // A share as large as the room that is left: a gateway that keeps them all open would leave none for others.
        let room = connections.available_permits();
        let Some(counted) = of_gateways.count(Holder::of_client(peer.ip().to_canonical()), room)
        else {
            tracing::debug!(%peer, "a gateway has too many connections: this one is closed");
            continue;
        };
        // An error means that the gateway is gone already; the first read will notice.
        let _ = transport::set_tcp_options(&tcp, UNACKNOWLEDGED_TIMEOUT);
        let server = Arc::clone(&server);
        let stopping = stopping.clone();
        // The runtime of the thread that serves the connection is the one that has to watch its socket.
        let tcp = tcp.into_std();
        let thread = acceptor.threads.least_busy();
        acceptor.server.spawn_on(&thread.runtime.clone(), peer.ip().to_canonical(), async move {
            let Ok(tcp) = tcp.and_then(TcpStream::from_std) else { return };
            match protocol {
                GatewayProtocol::Http => server.serve_http(tcp, peer.ip(), stopping).await,
                GatewayProtocol::Icap => {
                    wayleave_gateway::serve_icap(&server, tcp, peer.ip(), stopping).await;
                }
                GatewayProtocol::Grpc => server.serve_grpc(tcp, peer.ip(), stopping).await,
            }
            drop((permit, counted, thread));
        });
    }
}
