//! RESPMOD: whether a client may get a response, and how.

use std::iter::once;

use tokio::io::{AsyncRead, AsyncWrite};
use wayleave_admission::SeenBody;
use wayleave_admission::asked::{self, AskedVerdict, PassedResponse, ResponseVerdict};
use wayleave_admission::record::is_own_field;
use wayleave_http_wire::http1::HeadError;
use wayleave_http_wire::received::ReceivedHead;
use wayleave_upstream::UpstreamHead;

use super::answer::{self, LAST_CHUNK, chunk};
use super::body::IcapBody;
use super::error::IcapError;
use super::message::{IcapMessage, PROTOCOL};
use super::peer::IcapPeer;
use crate::question_shares::excess;
use crate::server::{EXCESS, GatewayServer};

/// Answers a RESPMOD. Returns whether another message may follow.
pub(super) async fn answer<S: AsyncRead + AsyncWrite + Unpin + Send>(
    server: &GatewayServer,
    message: &IcapMessage,
    peer: &mut IcapPeer<S>,
) -> Result<bool, IcapError> {
    let gate = &server.gate;
    let connection = &message.connection;
    let decision = message.head.decision()?;
    let received = message.received().await?;
    let answered = message.answered().await?;
    let mut body = IcapBody::new(peer, &message.head);
    let received = match received {
        Ok(received) => received,
        Err(error) => {
            let verdict = asked::refuse_unread(gate, connection, error);
            return withhold(message, &verdict, body).await;
        }
    };
    let head = match answered {
        Ok(head) => UpstreamHead::Http1(head),
        Err(error) => {
            let verdict = asked::refuse_broken(gate, connection, &received, details(&error));
            return withhold(message, &verdict, body).await;
        }
    };
    if let Some(id) = decision.filter(|_| head.status() >= 200) {
        let fields = head.fields();
        // Another gateway's is none of its, and the pace learns nothing from a response that it cannot place.
        let _ =
            server.given(|given| given.apply(gate, message.gateway, id, (head.status(), &fields)));
    }
    let Some(_in_progress) = server.shares.begin(&message.gateway, connection.client) else {
        gate.metrics.gateway_answer(PROTOCOL, EXCESS);
        return withhold(message, &excess(), body).await;
    };
    let _counted = gate.metrics.gateway_question();
    let verdict = asked::judge_response(gate, connection, &received, &head, &mut body).await?;
    match verdict {
        ResponseVerdict::Pass(passed) => {
            gate.metrics.gateway_answer(PROTOCOL, "allowed");
            pass(server, message, &received, &head, passed, body).await
        }
        ResponseVerdict::Withhold(verdict) => {
            gate.metrics.gateway_answer(PROTOCOL, "refused");
            withhold(message, &verdict, body).await
        }
    }
}

/// Lets the client get a response.
async fn pass<S: AsyncRead + AsyncWrite + Unpin + Send>(
    server: &GatewayServer,
    message: &IcapMessage,
    received: &ReceivedHead,
    head: &UpstreamHead,
    passed: PassedResponse,
    mut body: IcapBody<'_, S>,
) -> Result<bool, IcapError> {
    let istag = &message.istag;
    // A gateway keeps to the length that it was told.
    let is_measured = body.has_ended() || head.content_length().is_some();
    let max_bytes = passed.max_bytes.filter(|_| !is_measured);
    let is_unchanged = passed.fields.is_empty()
        && !passed.omits_content
        && max_bytes.is_none()
        && !head.fields().iter().any(|(name, _)| is_own_field(name));
    if is_unchanged && (body.is_within_preview() || message.head.allows_204 && body.has_ended()) {
        body.skip_preview().await?;
        body.check_pause()?;
        body.peer().send(&answer::unchanged(istag, None)).await?;
        return Ok(true);
    }
    let has_body = message.head.encapsulated.is_some_and(|parts| parts.has_body);
    if passed.omits_content || !has_body {
        body.skip_preview().await?;
        body.check_pause()?;
        body.peer().send(&answer::changed(head, &passed, false, istag)).await?;
        return body.drain().await;
    }
    let preview = body.go_on().await?;
    body.peer().send(&answer::changed(head, &passed, true, istag)).await?;
    let mut left = max_bytes.unwrap_or(u64::MAX);
    let mut read = once(passed.start.bytes).chain(preview);
    loop {
        let part = match read.next() {
            Some(part) => part,
            None => match body.next_chunk().await? {
                Some(part) => part,
                None => break,
            },
        };
        let Some(less) = left.checked_sub(part.len() as u64) else {
            let limit = max_bytes.unwrap_or_default();
            asked::record_cut(&server.gate, &message.connection, received, head.status(), limit);
            // Without the last chunk, so that nobody takes it for the whole.
            return Err(IcapError::Gone);
        };
        left = less;
        // An empty chunk would be the last.
        if !part.is_empty() {
            body.peer().send(&chunk(&part)).await?;
        }
    }
    body.peer().send(LAST_CHUNK).await?;
    Ok(true)
}

/// Gives the client the proxy's own answer instead of a response.
async fn withhold<S: AsyncRead + AsyncWrite + Unpin + Send>(
    message: &IcapMessage,
    verdict: &AskedVerdict,
    mut body: IcapBody<'_, S>,
) -> Result<bool, IcapError> {
    body.skip_preview().await?;
    body.check_pause()?;
    let refusal = answer::refusal(verdict, message.is_head(), &message.istag);
    body.peer().send(&refusal).await?;
    body.drain().await
}

/// Returns why a response's head was not read.
fn details(error: &HeadError) -> String {
    match error {
        HeadError::Malformed(details) => details.clone().into_owned(),
        HeadError::TooLarge(details) => (*details).to_owned(),
        HeadError::UnsupportedVersion => "the response is of an unsupported version".to_owned(),
        HeadError::Closed | HeadError::Broken(_) => "there is no head".to_owned(),
    }
}
