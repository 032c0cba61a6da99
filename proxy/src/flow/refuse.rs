//! Back to the crawler: status, reason, when to retry.

use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, DATE, SERVER};
use pingora_core::protocols::http::ServerSession;
use pingora_error::Error;
use pingora_http::ResponseHeader;
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::exchange::{DecisionId, Refusal};
use crate::proxy_status;
use crate::stream::Stream;

/// What a client's body may hold that is read to its end before a refusal, so that the answer is
/// not lost in a reset; above that the connection closes.
const DRAINED: Duration = Duration::from_secs(2);
/// How long a client that was refused may take to read why.
const FAREWELL: Duration = Duration::from_secs(2);

/// A problem (RFC 9457) with our members.
#[derive(Serialize)]
struct Problem<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    decision_id: String,
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    robots_url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
}

/// The answer to a refused request.
pub(super) struct Answer {
    header: ResponseHeader,
    body: Bytes,
}

impl Answer {
    /// Puts `refusal` into words; `name` is the proxy's pseudonym.
    pub(super) fn new(name: &str, id: DecisionId, refusal: &Refusal) -> Result<Self, Box<Error>> {
        let body = Bytes::from(problem(id, refusal));
        let mut header = ResponseHeader::build(refusal.status, Some(8))?;
        header.set_reason_phrase(Some(refusal.phrase))?;
        header.insert_header(SERVER, name)?;
        header.insert_header(CONTENT_TYPE, "application/problem+json")?;
        header.insert_header(CONTENT_LENGTH, body.len())?;
        header.insert_header(CACHE_CONTROL, "no-store")?;
        let status = proxy_status::field_value(name, refusal.error, &refusal.details);
        header.insert_header("Proxy-Status", status)?;
        if let Some(retry_after) = refusal.retry_after {
            header.insert_header("Retry-After", whole_seconds(retry_after))?;
        }
        Ok(Self { header, body })
    }

    /// Sends the answer through a session whose request was read.
    pub(super) async fn send(self, session: &mut ServerSession) -> Result<(), Box<Error>> {
        session.set_total_drain_timeout(Some(DRAINED));
        let waits_to_be_told = session
            .req_header()
            .headers
            .contains_key(http::header::EXPECT);
        if !waits_to_be_told && session.drain_request_body().await.is_err() {
            session.set_keepalive(None);
        }
        let no_body = session.req_header().method == http::Method::HEAD;
        session.write_response_header(Box::new(self.header)).await?;
        let body = if no_body { Bytes::new() } else { self.body };
        session.write_response_body(body, true).await
    }

    /// The answer as bytes that end their connection, for a request that no session took.
    pub(super) fn into_last_bytes(mut self) -> Result<BytesMut, Box<Error>> {
        self.header.insert_header(CONNECTION, "close")?;
        self.header
            .insert_header(DATE, httpdate::fmt_http_date(SystemTime::now()))?;
        let phrase = self.header.get_reason_phrase().unwrap_or_default();
        let line = format!("HTTP/1.1 {} {phrase}\r\n", self.header.status.as_u16());
        let mut bytes = BytesMut::from(line.as_bytes());
        self.header.header_to_h1_wire(&mut bytes);
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&self.body);
        Ok(bytes)
    }
}

/// Lets the client read what was written before the connection goes: closing at once while bytes
/// of it wait unread would reset the connection, and the answer with it.
pub(super) async fn close_softly(mut stream: Stream) {
    let farewell = async {
        stream.flush().await?;
        AsyncWriteExt::shutdown(&mut stream).await?;
        let mut rest = [0; 4096];
        while stream.read(&mut rest).await? > 0 {}
        std::io::Result::Ok(())
    };
    // However it ends, the connection closes now.
    let _ = timeout(FAREWELL, farewell).await;
}

fn problem(id: DecisionId, refusal: &Refusal) -> Vec<u8> {
    let explanation = refusal.ruling.as_deref().map(|ruling| &ruling.explanation);
    let problem = Problem {
        r#type: format!("urn:wayleave:problem:{}", refusal.reason),
        title: refusal.phrase,
        status: refusal.status,
        detail: &refusal.details,
        decision_id: id.to_string(),
        reason: refusal.reason,
        robots_url: refusal.ruling.as_deref().map(|ruling| &*ruling.robots_url),
        line: explanation.and_then(|explanation| explanation.line),
        rule: explanation.and_then(|explanation| explanation.rule.as_deref()),
        retry_after: refusal.retry_after.map(whole_seconds),
    };
    let mut body = serde_json::to_vec(&problem).expect("strings and numbers serialise");
    body.push(b'\n');
    body
}

/// `Retry-After` in whole seconds (RFC 9110 section 10.2.3), never too early.
fn whole_seconds(duration: Duration) -> u64 {
    (duration.as_secs() + u64::from(duration.subsec_nanos() > 0)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy_status::ErrorType;

    #[test]
    fn says_why_in_every_place() {
        let refusal = Refusal {
            retry_after: Some(Duration::from_millis(1500)),
            ..Refusal::new(
                503,
                "Robots.txt unreachable",
                ErrorType::DestinationUnavailable,
                "unreachable",
                "no answer",
            )
        };
        let answer = Answer::new("wayleave", DecisionId::new(), &refusal).unwrap();
        let bytes = answer.into_last_bytes().unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
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
}
