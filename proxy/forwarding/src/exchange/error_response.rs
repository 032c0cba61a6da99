//! Refusals sent as responses, after a look at the body that may still be arriving.

use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use wayleave_admission::answer::{AnswerSource, RefusalAnswer};
use wayleave_admission::outcome::ConnectionReuse;
use wayleave_decision::Refusal;
use wayleave_http_wire::http1::{BodyFraming, Trailers};
use wayleave_http_wire::received::ReceivedHead;
use wayleave_transport::http::downstream::{
    ClientGone, Downstream, DownstreamReader, DownstreamResponse, ResponseField,
};
use wayleave_transport::http::transport::BoxedStream;

/// The limits within which a client's body is read before a refusal, so that a reset does not discard the answer and the
/// connection remains usable. Beyond them it closes.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_DRAINED_BYTES: usize = 1024 * 1024;
/// The time that a refused client has to read the answer.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The longest part of a body that is sent at once.
const MAX_CHUNK_BYTES: usize = 64 * 1024;

/// Answers a refused or failed request, whose body may still be arriving.
pub(super) async fn answer(
    source: AnswerSource<'_>,
    received: &ReceivedHead,
    client: &mut Downstream,
    refusal: &Refusal,
) -> ConnectionReuse {
    // A body that the client only sends after a 100 (RFC 9110 section 10.1.1) is not waited for: there will be none.
    let is_withheld = received.expects_continue() && !client.reader.is_done();
    if refusal.closes_connection || is_withheld || !drain(&mut client.reader).await {
        client.writer.close_after_response();
    }
    match refuse(client, source, refusal, Some(received)).await {
        // Where its next request would begin is uncertain.
        Ok(()) if refusal.closes_connection => ConnectionReuse::Closed,
        Ok(()) => ConnectionReuse::Whole,
        Err(_) => ConnectionReuse::CutOff,
    }
}

/// Sends the answer to a refused request, of which nothing may have been read.
pub(super) async fn refuse(
    client: &mut Downstream,
    source: AnswerSource<'_>,
    refusal: &Refusal,
    received: Option<&ReceivedHead>,
) -> Result<(), ClientGone> {
    let RefusalAnswer { status, title, fields, body } =
        RefusalAnswer::for_client(source, refusal, received);
    let is_head = received.is_some_and(|received| received.method() == "HEAD");
    let head = (status, title.as_bytes());
    send(client, head, fields, Bytes::from(body), is_head).await
}

/// Sends a response whose body is in memory; to HEAD, without the body.
pub(super) async fn send(
    client: &mut Downstream,
    (status, reason): (u16, &[u8]),
    fields: Vec<ResponseField<'_>>,
    mut body: Bytes,
    is_head: bool,
) -> Result<(), ClientGone> {
    if is_head {
        body.clear();
    }
    let framing = BodyFraming::Length(body.len() as u64);
    client.writer.send_head(&DownstreamResponse { status, reason, framing, fields }).await?;
    while !body.is_empty() {
        // In parts, because each has to be taken within the timeout.
        let chunk = body.split_to(body.len().min(MAX_CHUNK_BYTES));
        client.writer.send_chunk(chunk, body.is_empty()).await?;
        if !body.is_empty() {
            // A client that reads fast takes megabytes at once, and others would wait for all of them.
            tokio::task::yield_now().await;
        }
    }
    client.writer.finish(&Trailers::new()).await
}

/// Reads the rest of a body if that is short and arrives soon. Returns whether the next request can follow.
pub(crate) async fn drain(body: &mut DownstreamReader) -> bool {
    // An HTTP/2 stream is answered at once and read afterwards: it delays no other.
    body.is_http2() || body.is_done() || timeout(DRAIN_TIMEOUT, read_rest(body)).await == Ok(true)
}

async fn read_rest(body: &mut DownstreamReader) -> bool {
    let mut left = MAX_DRAINED_BYTES;
    while let Ok(Some(chunk)) = body.next_chunk().await {
        match left.checked_sub(chunk.len()) {
            Some(less) => left = less,
            None => return false,
        }
    }
    body.is_done()
}

/// Closes a connection after the client has read the answer: closing it at once while received bytes are unread would reset it
/// and discard the answer.
pub(crate) async fn close_gracefully(mut stream: BoxedStream) {
    let closing = async {
        stream.flush().await?;
        AsyncWriteExt::shutdown(&mut stream).await?;
        let mut rest = [0; 4096];
        while stream.read(&mut rest).await? > 0 {}
        std::io::Result::Ok(())
    };
    // However it ends, the connection closes now.
    let _ = timeout(CLOSE_TIMEOUT, closing).await;
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use wayleave_admission::record::NamedDecision;
    use wayleave_admission::refusal::looped;
    use wayleave_decision::Reason;
    use wayleave_http_wire::http1::RequestHead;
    use wayleave_transport::http::transport::Transport;

    use super::*;

    fn named() -> NamedDecision {
        NamedDecision { id: wayleave_decision_log::new_decision_id(), identity: None, url: None }
    }

    fn source(decision: &NamedDecision) -> AnswerSource<'_> {
        AnswerSource { name: "wayleave", decision, in_head: false, limit: None }
    }

    #[tokio::test]
    async fn says_why_in_every_place() {
        let refusal = Refusal {
            retry_after: Some(Duration::from_millis(1500)),
            ..Refusal::new(Reason::Unreachable, "no answer")
        };
        let (near, mut far) = tokio::io::duplex(4096);
        let stream: BoxedStream = Box::new(Transport::new(near));
        let framing = BodyFraming::Length(0);
        let mut client = Downstream::http1(stream.into(), framing, false, DRAIN_TIMEOUT);
        refuse(&mut client, source(&named()), &refusal, None).await.unwrap();
        drop(client);
        let mut text = String::new();
        far.read_to_string(&mut text).await.unwrap();
        for expected in [
            "HTTP/1.1 503 Robots.txt unreachable\r\n",
            "Content-Type: application/problem+json\r\n",
            "Proxy-Status: wayleave; error=destination_unavailable; details=\"no answer\"\r\n",
            "Retry-After: 2\r\n",
            "Connection: close\r\n",
            "\"reason\":\"unreachable\"",
            "\"retry_after\":2",
        ] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
    }

    /// Refuses a request before its body arrives, and returns the answer and the time it took.
    async fn refused(fields: &str) -> (String, Duration) {
        refused_by(&looped(), fields).await
    }

    async fn refused_by(refusal: &Refusal, fields: &str) -> (String, Duration) {
        let head = format!("POST http://shop.test/ HTTP/1.1\r\nHost: shop.test\r\n{fields}\r\n");
        let head = RequestHead::read(&mut head.as_bytes(), &mut BytesMut::new()).await;
        let received = ReceivedHead::Http1(head.unwrap());
        let (near, mut far) = tokio::io::duplex(4096);
        let timeout = Duration::from_secs(60);
        let stream: BoxedStream = Box::new(Transport::new(near));
        let mut client = Downstream::http1(stream.into(), received.framing(), true, timeout);
        let started = tokio::time::Instant::now();
        answer(source(&named()), &received, &mut client, refusal).await;
        let took = started.elapsed();
        drop(client);
        let mut text = String::new();
        far.read_to_string(&mut text).await.unwrap();
        (text, took)
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_says_whether_the_connection_ends() {
        for (refusal, closes) in [(Refusal::malformed("no request"), true), (looped(), false)] {
            let (text, _) = refused_by(&refusal, "").await;
            let says = text.contains("\r\nConnection: close\r\n");
            assert_eq!(says, closes, "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_waits_to_be_asked_for_is_not_waited_for() {
        let (text, took) = refused("Expect: 100-continue\r\nContent-Length: 5\r\n").await;
        assert!(text.contains("\r\nConnection: close\r\n"), "{text}");
        assert!(took.is_zero(), "{took:?}");
        let (text, took) = refused("Content-Length: 5\r\n").await;
        assert!(text.contains("\r\nConnection: close\r\n"), "{text}");
        assert!(!took.is_zero());
        let (text, took) = refused("Expect: 100-continue\r\nContent-Length: 0\r\n").await;
        assert!(!text.contains("\r\nConnection: close\r\n"), "{text}");
        assert!(took.is_zero(), "{took:?}");
    }
}
