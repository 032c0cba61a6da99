//! What speaks inside a tunnel is served, until it ends.

use std::sync::Arc;

use bytes::BytesMut;

use super::server::Server;
use super::tunnel::{self, Inside};
use super::{http1, http2};
use crate::decide::request::Connection;
use crate::exchange::connect::TunnelPermit;
use crate::http::transport::Stream;

/// Serves a tunnel that was opened on `outside`; `ahead` is what was read of it already.
pub(super) async fn serve(
    server: &Arc<Server>,
    (stream, ahead): (Stream, BytesMut),
    outside: Connection,
    permit: TunnelPermit<'_>,
) {
    let outside = Connection {
        proof: permit.proof.clone(),
        ..outside
    };
    // Once in a connection: in a box it takes no room in those that wait for requests.
    let entering = Box::pin(tunnel::enter(server, (stream, ahead), &outside, permit));
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
        http2::serve(server, stream, connection, http2::exchange).await;
    } else {
        // A tunnel inside is refused.
        http1::serve(server, stream, ahead, &connection).await;
    }
}
