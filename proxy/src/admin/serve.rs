//! Serves the operators' listener as axum does, but with timeouts and a bound on connections: they share the process's
//! descriptors with clients.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use wayleave_forwarding::downstream::listeners;
use wayleave_transport::http::transport::{self, UNACKNOWLEDGED_TIMEOUT};

use super::connection_limit::{AdmittedConnection, ConnectionLimit};

/// The time that a request's head may take, and that a connection may be idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Accepts and serves connections for as long as the process runs.
pub(crate) async fn serve(listener: TcpListener, routes: Router) -> Infallible {
    let limit = Arc::new(ConnectionLimit::default());
    loop {
        let (stream, peer) = listeners::accept(&listener).await;
        // A listener for both families shows an IPv4 client as `::ffff:192.0.2.1`; as an IPv6 address, all of them would
        // count as one client.
        let admitted = limit.admit(peer.ip().to_canonical());
        let routes = routes.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = serve_connection(stream, routes, &admitted) => {}
                () = admitted.evicted() => {}
            }
        });
    }
}

async fn serve_connection(stream: TcpStream, routes: Router, admitted: &AdmittedConnection) {
    // An error means that the peer is gone already; the first read will notice.
    let _ = transport::set_tcp_options(&stream, UNACKNOWLEDGED_TIMEOUT);
    let routes = TowerToHyperService::new(routes);
    let service = service_fn(|mut request: Request<Incoming>| {
        admitted.touch();
        // The guard marks the connections of operators in this state: they are evicted last.
        request.extensions_mut().insert(Arc::clone(&admitted.state));
        routes.call(request)
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = serving.await {
        tracing::debug!(%error, "a connection to the admin listener broke");
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_incomplete_head_times_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(serve(listener, Router::new()));
        #[expect(clippy::disallowed_methods, reason = "an operator")]
        let mut operator = TcpStream::connect(address).await.unwrap();
        operator.write_all(b"GET /livez HTTP/1.1\r\nHost:").await.unwrap();
        let started = Instant::now();
        // Closed, with or without a response.
        let _ = operator.read_to_end(&mut Vec::new()).await;
        assert!(started.elapsed() <= 2 * HEAD_TIMEOUT);
        serving.abort();
    }
}
