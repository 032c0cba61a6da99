//! Gateways that ask by ICAP (RFC 3507): squid, and others that send virus scanners their messages.
//!
//! ```text
//!  request, response       REQMOD and RESPMOD, one file a service
//!   ├─ answer              what we say
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
mod peer;
mod request;
mod response;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use wayleave_admission::request::ClientConnection;
use wayleave_http_wire::http1::{HeadError, RequestHead, ResponseHead};
use wayleave_http_wire::received::ReceivedHead;
use wayleave_robots_txt::{Origin, Target};

use self::error::{IcapError, IcapStatus};
use self::head::{Encapsulated, IcapHead, IcapMethod};
use self::peer::IcapPeer;
use crate::GatewayServer;
use crate::credentials::GatewayIdentity;

/// The label of this protocol in metrics.
const PROTOCOL: &str = "icap";
/// The longest heads inside a message, together. Longer ones than the proxy reads are refused as it refuses them.
const MAX_INSIDE_BYTES: usize = 512 * 1024;

/// A message whose heads were read.
struct IcapMessage {
    head: IcapHead,
    gateway: GatewayIdentity,
    connection: ClientConnection,
    /// The request's head as received.
    request: Bytes,
    /// The response's head as received; empty in a REQMOD.
    response: Bytes,
    /// The state of the services.
    istag: String,
}

impl GatewayServer {
    /// Serves a connection of the gateway at `address` until it ends, or until `stopping` and the end of its present message.
    pub async fn serve_icap<S: AsyncRead + AsyncWrite + Unpin + Send>(
        self: Arc<Self>,
        stream: S,
        address: IpAddr,
        stopping: CancellationToken,
    ) {
        let address = address.to_canonical();
        let mut peer = IcapPeer::new(stream);
        loop {
            match self.answer_message(&mut peer, address, &stopping).await {
                Ok(true) if !stopping.is_cancelled() => {}
                Ok(_) => return peer.close().await,
                Err(IcapError::Gone) => return,
                Err(IcapError::Refused { status, detail }) => {
                    self.gate.metrics.gateway_answer(PROTOCOL, "mistake");
                    tracing::debug!(%address, %detail, "a gateway sent a message that is not ICAP");
                    // A peer that does not read its answer is gone.
                    let _ = peer.send(&answer::fault(status, &detail, &self.istag())).await;
                    return peer.close().await;
                }
            }
        }
    }

    /// Answers one message. Returns whether another may follow.
    async fn answer_message<S: AsyncRead + AsyncWrite + Unpin + Send>(
        self: &Arc<Self>,
        peer: &mut IcapPeer<S>,
        address: IpAddr,
        stopping: &CancellationToken,
    ) -> Result<bool, IcapError> {
        let Some(head) = peer.next_head(stopping).await? else {
            return Ok(false);
        };
        let istag = self.istag();
        let settings = self.gate.decider.settings();
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
            IcapMethod::RespMod => self.answer_response(&message, peer).await?,
            IcapMethod::ReqMod | IcapMethod::Options => self.answer_request(&message, peer).await?,
        };
        Ok(keeps_alive && can_follow)
    }

    /// Returns the state of the services: another configuration may decide otherwise.
    fn istag(&self) -> String {
        format!("{:x}-{}", std::process::id(), self.gate.decider.settings().configuration)
    }
}

impl IcapMessage {
    /// Reads the request inside, as the proxy would have received it.
    ///
    /// # Errors
    ///
    /// Returns the outer error if the head does not end where it says, and the inner if the proxy would not have read it.
    async fn received(&self) -> Result<Result<ReceivedHead, HeadError>, IcapError> {
        let mut bytes = begins_at_once(&self.request)?;
        let read = RequestHead::read(&mut &b""[..], &mut bytes).await;
        let head = within_its_bounds(read, &bytes)?;
        Ok(head.and_then(|head| {
            check_host(&head)?;
            Ok(ReceivedHead::Http1(head))
        }))
    }

    /// Reads the response inside, as the proxy would have received it.
    ///
    /// # Errors
    ///
    /// As [`Self::received`].
    async fn answered(&self) -> Result<Result<ResponseHead, HeadError>, IcapError> {
        let mut bytes = begins_at_once(&self.response)?;
        let read = ResponseHead::read(&mut &b""[..], &mut bytes).await;
        within_its_bounds(read, &bytes)
    }
}

/// Returns a head that was read of bytes that hold nothing else.
fn within_its_bounds<T>(
    read: Result<T, HeadError>,
    rest: &BytesMut,
) -> Result<Result<T, HeadError>, IcapError> {
    match read {
        Err(HeadError::Closed | HeadError::Broken(_)) => Err(misplaced()),
        Ok(_) if !rest.is_empty() => Err(misplaced()),
        read => Ok(read),
    }
}

/// Returns a head to be read, which the reader would look for behind empty lines.
fn begins_at_once(head: &Bytes) -> Result<BytesMut, IcapError> {
    if head.starts_with(b"\r\n") { Err(misplaced()) } else { Ok(BytesMut::from(&head[..])) }
}

fn misplaced() -> IcapError {
    IcapError::malformed("a head inside does not end where Encapsulated says")
}

/// Checks that `Host` names the target's host: a gateway that sends both leaves the choice to the server.
///
/// # Errors
///
/// Returns the reason why it does not.
fn check_host(head: &RequestHead) -> Result<(), HeadError> {
    let host = head.fields().values("host").next();
    // No server sees the `Host` of a `CONNECT`, and a target that is none is refused anyway.
    let target = Target::parse(head.target()).ok().filter(|_| head.method() != "CONNECT");
    let (Some(target), Some(host)) = (target, host) else {
        return Ok(());
    };
    let scheme = target.origin().scheme();
    let named = str::from_utf8(host).ok().map(|host| Origin::from_authority(scheme, host));
    match named {
        Some(Ok(named)) if named == *target.origin() => Ok(()),
        _ => Err("Host names another host than the target".into()),
    }
}
