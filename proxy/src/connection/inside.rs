//! Serves HTTP inside a tunnel.

use std::sync::Arc;

use super::server::Server;
use super::tunnel::{self, Inside};
use super::{http1, http2};
use crate::decide::request::Connection;
use crate::exchange::connect::TunnelPermit;
use crate::http::transport::Incoming;

/// Serves a tunnel that was opened on `outside`, until it ends.
pub(super) async fn serve(
    server: &Arc<Server>,
    incoming: Incoming,
    outside: Connection,
    permit: TunnelPermit<'_>,
) {
    let outside = Connection {
        proof: permit.proof.clone(),
        ..outside
    };
    // This runs once per connection. Boxed, it does not enlarge the future of every idle connection.
    let entering = Box::pin(tunnel::enter(server, incoming, &outside, permit));
    let Some(inside) = entering.await else {
        return;
    };
    let Inside {
        incoming,
        connection,
        speaks_http2,
    } = inside;
    if speaks_http2 {
        let serving = http2::serve(server, incoming.stream, connection, http2::exchange);
        Box::pin(serving).await;
    } else {
        // The outcome is never a tunnel: a CONNECT inside a tunnel is refused.
        http1::serve(server, incoming, &connection).await;
    }
}
