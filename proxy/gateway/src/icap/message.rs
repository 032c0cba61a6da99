//! A message of a peer, whose heads were read.

use bytes::{Bytes, BytesMut};
use wayleave_admission::request::ClientConnection;
use wayleave_http_wire::http1::{HeadError, RequestHead, ResponseHead};
use wayleave_http_wire::received::ReceivedHead;
use wayleave_robots_txt::{Origin, Target};

use super::error::IcapError;
use super::head::IcapHead;
use crate::credentials::GatewayIdentity;

/// The label of this protocol in metrics.
pub(super) const PROTOCOL: &str = "icap";

/// A message whose heads were read.
pub(super) struct IcapMessage {
    pub(super) head: IcapHead,
    pub(super) gateway: GatewayIdentity,
    pub(super) connection: ClientConnection,
    /// The request's head as received.
    pub(super) request: Bytes,
    /// The response's head as received; empty in a REQMOD.
    pub(super) response: Bytes,
    /// The state of the services.
    pub(super) istag: String,
}

impl IcapMessage {
    /// Returns whether the request inside is a HEAD, to which no answer has content, even if the proxy would not have read it.
    pub(super) fn is_head(&self) -> bool {
        self.request.starts_with(b"HEAD ")
    }

    /// Reads the request inside, as the proxy would have received it.
    ///
    /// # Errors
    ///
    /// Returns the outer error if the head does not end where it says, and the inner if the proxy would not have read it.
    pub(super) async fn received(&self) -> Result<Result<ReceivedHead, HeadError>, IcapError> {
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
    pub(super) async fn answered(&self) -> Result<Result<ResponseHead, HeadError>, IcapError> {
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

pub(super) fn misplaced() -> IcapError {
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
