//! Serves HTTP inside a tunnel.

use std::sync::Arc;

use super::server::DownstreamServer;
use super::tunnel::{self, TunneledHttp};
use super::{http1, http2};
use crate::decide::request::ClientConnection;
use crate::exchange::tunnel::TunnelPermit;
use crate::http::transport::BufferedStream;

/// Serves a tunnel that was opened on `outside`, until it ends.
pub(super) async fn serve(
    server: &Arc<DownstreamServer>,
    incoming: BufferedStream,
    outside: ClientConnection,
    permit: TunnelPermit<'_>,
) {
    let outside = ClientConnection {
        proof: permit.proof.clone(),
        ..outside
    };
    // This runs once per connection. Boxed, it does not enlarge the future of every idle connection.
    let entering = Box::pin(tunnel::negotiate(server, incoming, &outside, permit));
    let Some(inside) = entering.await else {
        return;
    };
    let TunneledHttp {
        incoming,
        connection,
        is_http2: speaks_http2,
    } = inside;
    if speaks_http2 {
        let serving = http2::serve(server, incoming.stream, connection, http2::exchange);
        Box::pin(serving).await;
    } else {
        // The outcome is never a tunnel: a CONNECT inside a tunnel is refused.
        http1::serve(server, incoming, &connection).await;
    }
}
