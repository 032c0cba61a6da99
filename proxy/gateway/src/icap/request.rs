//! REQMOD: whether a request may leave, and when.

use tokio::io::{AsyncRead, AsyncWrite};
use wayleave_admission::SeenBody;
use wayleave_admission::asked::{ALLOWED, AskedVerdict};

use super::answer::{self, LAST_CHUNK, chunk};
use super::body::IcapBody;
use super::error::{IcapError, IcapStatus};
use super::message::{IcapMessage, PROTOCOL, misplaced};
use super::peer::IcapPeer;
use crate::server::GatewayServer;

/// Answers a REQMOD. Returns whether another message may follow.
pub(super) async fn answer<S: AsyncRead + AsyncWrite + Unpin + Send>(
    server: &GatewayServer,
    message: &IcapMessage,
    peer: &mut IcapPeer<S>,
) -> Result<bool, IcapError> {
    let received = message.received().await?;
    let mut body = IcapBody::new(peer, &message.head);
    body.skip_preview().await?;
    body.check_pause()?;
    let deciding = server.decide(PROTOCOL, message.gateway, message.connection.clone(), received);
    let verdict = tokio::select! {
        biased;
        verdict = deciding => verdict,
        () = body.peer().wait_until_gone() => return Err(IcapError::Gone),
    };
    let verdict =
        verdict.ok_or_else(|| IcapError::new(IcapStatus::ServerError, "the decision panicked"))?;
    body.check_pause()?;
    if verdict.status != ALLOWED {
        let refusal = answer::refusal(&verdict, message.is_head(), &message.istag);
        body.peer().send(&refusal).await?;
        return body.drain().await;
    }
    let_leave(server, message, &verdict, body).await
}

/// Lets an allowed request leave as it is.
async fn let_leave<S: AsyncRead + AsyncWrite + Unpin + Send>(
    server: &GatewayServer,
    message: &IcapMessage,
    verdict: &AskedVerdict,
    mut body: IcapBody<'_, S>,
) -> Result<bool, IcapError> {
    let id = verdict.allowed.as_ref().map(|(id, _)| *id);
    if let Some(id) = id {
        // The gateway sends it as soon as it has this answer. It fails only if the request is kept no longer.
        let _ = server.given(|given| given.sent(message.gateway, id));
    }
    let istag = &message.istag;
    if body.is_within_preview() || message.head.allows_204 {
        if !body.is_within_preview() {
            while body.next_chunk().await?.is_some() {}
        }
        body.peer().send(&answer::unchanged(istag, id)).await?;
        return Ok(true);
    }
    let has_body = message.head.encapsulated.ok_or_else(misplaced)?.has_body;
    let head = answer::request(&message.request, has_body, istag, id);
    body.peer().send(&head).await?;
    if has_body {
        while let Some(part) = body.next_chunk().await? {
            body.peer().send(&chunk(&part)).await?;
        }
        body.peer().send(LAST_CHUNK).await?;
    }
    Ok(true)
}
