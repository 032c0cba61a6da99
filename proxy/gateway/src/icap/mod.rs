//! Gateways that ask by ICAP (RFC 3507): squid, and others that send virus scanners their messages.
//!
//! ```text
//!  request, response       REQMOD and RESPMOD, one file a service
//!   ├─ answer              what we say
//!   ├─ message             the heads of both messages inside
//!   └─ body                chunks and previews
//!       └─ peer ── head    the connection, and the heads on it
//!  error
//! ```
//!
//! A message that two readers could read in two ways is refused, and the connection closes. The heads inside are read by the
//! proxy's own readers, and no body is ever kept as a whole.

mod answer;
mod body;
mod error;
mod head;
mod message;
mod peer;
mod request;
mod response;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use self::error::{IcapError, IcapStatus};
use self::head::{Encapsulated, IcapMethod};
use self::message::{IcapMessage, PROTOCOL};
use self::peer::IcapPeer;
use crate::credentials::GatewayIdentity;
use crate::server::GatewayServer;

/// The longest heads inside a message, together. Longer ones than the proxy reads are refused as it refuses them.
const MAX_INSIDE_BYTES: usize = 512 * 1024;

/// Serves a connection of the gateway at `address` until it ends, or until `stopping` and the end of its present message.
pub async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send>(
    server: &GatewayServer,
    stream: S,
    address: IpAddr,
    stopping: CancellationToken,
) {
    let address = address.to_canonical();
    let mut peer = IcapPeer::new(stream);
    loop {
        match answer_message(server, &mut peer, address, &stopping).await {
            Ok(true) if !stopping.is_cancelled() => {}
            Ok(_) => return peer.close().await,
            Err(IcapError::Gone) => return,
            Err(IcapError::Refused { status, detail }) => {
                server.gate.metrics.gateway_answer(PROTOCOL, "mistake");
                tracing::debug!(%address, %detail, "a gateway sent a message that is not ICAP");
                // A peer that does not read its answer is gone.
                let _ = peer.send(&answer::fault(status, &detail, &istag(server))).await;
                return peer.close().await;
            }
        }
    }
}

/// Answers one message. Returns whether another may follow.
async fn answer_message<S: AsyncRead + AsyncWrite + Unpin + Send>(
    server: &GatewayServer,
    peer: &mut IcapPeer<S>,
    address: IpAddr,
    stopping: &CancellationToken,
) -> Result<bool, IcapError> {
    let Some(head) = peer.next_head(stopping).await? else {
        return Ok(false);
    };
    let istag = istag(server);
    let settings = server.gate.decider.settings();
    let gateway = GatewayIdentity::new(&settings, address, &head.fields).map_err(|_| {
        IcapError::new(IcapStatus::Unauthorized, "this is not the token of a gateway")
    })?;
    let keeps_alive = !head.closes;
    let Some(parts) = head.encapsulated else {
        peer.send(&answer::options(head.service, &istag)).await?;
        return Ok(keeps_alive);
    };
    let mut connection = gateway.connection_of(head.client()?);
    if let Some(gateway) = &mut connection.gateway {
        gateway.shows_responses = true;
    }
    let Encapsulated { request_bytes, response_bytes, .. } = parts;
    let response_bytes = response_bytes.unwrap_or_default();
    if request_bytes + response_bytes > MAX_INSIDE_BYTES {
        return Err(IcapError::new(IcapStatus::TooLarge, "the heads inside are too long"));
    }
    let request = peer.section(request_bytes).await?;
    let response = peer.section(response_bytes).await?;
    let message = IcapMessage { head, gateway, connection, request, response, istag };
    let can_follow = match message.head.method {
        IcapMethod::RespMod => response::answer(server, &message, peer).await?,
        IcapMethod::ReqMod | IcapMethod::Options => request::answer(server, &message, peer).await?,
    };
    Ok(keeps_alive && can_follow)
}

/// Returns the state of the services: another configuration may decide otherwise.
fn istag(server: &GatewayServer) -> String {
    format!("{:x}-{}", std::process::id(), server.gate.decider.settings().configuration)
}
