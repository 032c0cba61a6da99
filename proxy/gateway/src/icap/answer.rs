//! The answers to a peer's messages.

use bytes::BytesMut;
use wayleave_admission::asked::{AskedVerdict, PassedResponse};
use wayleave_admission::record::is_own_field;
use wayleave_clock::system_time;
use wayleave_http_wire::field_pairs::describes_content;
use wayleave_http_wire::http1::write_fields;
use wayleave_record::DecisionId;
use wayleave_transport::http::downstream::ResponseField;
use wayleave_upstream::UpstreamHead;

use super::error::IcapStatus;
use super::head::IcapService;

/// The connections that a peer may open at a time. Each carries one message at a time, which may wait for its slot.
const MAX_CONNECTIONS: usize = 1000;
/// The seconds for which a peer may keep the answer to OPTIONS.
const OPTIONS_TTL: usize = 300;

/// The head of an ICAP answer, as it is written.
pub(super) struct IcapAnswer(BytesMut);

impl IcapAnswer {
    /// Begins an answer with this status. `istag` is the service's state, without quotes.
    fn new(status: &str, istag: &str) -> Self {
        let date = httpdate::fmt_http_date(system_time());
        let head = format!(
            "ICAP/1.0 {status}\r\nDate: {date}\r\nServer: wayleave\r\nISTag: \"{istag}\"\r\n"
        );
        Self(head.as_bytes().into())
    }

    fn field(mut self, name: &str, value: &str) -> Self {
        write_fields(&mut self.0, [(name.as_bytes(), value.as_bytes())]);
        self
    }

    /// Ends the head of an answer, and adds the head of the message inside, which has the body that `body` names.
    fn end(self, encapsulated: &str, inside: &[u8]) -> BytesMut {
        let mut bytes = self.field("Encapsulated", encapsulated).0;
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(inside);
        bytes
    }
}

/// Returns the answer to OPTIONS (RFC 3507 section 4.10).
pub(super) fn options(service: IcapService, istag: &str) -> BytesMut {
    let method = match service {
        IcapService::Requests => "REQMOD",
        IcapService::Responses => "RESPMOD",
    };
    IcapAnswer::new("200 OK", istag)
        .field("Methods", method)
        .field("Service", concat!("wayleave ", env!("CARGO_PKG_VERSION")))
        .field("Max-Connections", &MAX_CONNECTIONS.to_string())
        .field("Options-TTL", &OPTIONS_TTL.to_string())
        .field("Allow", "204")
        // With none, a body that arrives slowly delays nothing.
        .field("Preview", "0")
        .field("Transfer-Preview", "*")
        .end("null-body=0", b"")
}

/// Returns the answer to a message that is none, after which the connection closes.
pub(super) fn fault(status: IcapStatus, detail: &str, istag: &str) -> BytesMut {
    // The details may quote the peer.
    let detail: String = detail.chars().filter(|c| matches!(c, ' '..='~')).collect();
    let mut answer = IcapAnswer::new(&format!("{}: {detail}", status.as_str()), istag)
        .field("Connection", "close");
    if status == IcapStatus::Unauthorized {
        answer =
            answer.field("WWW-Authenticate", "Bearer realm=\"wayleave\", error=\"invalid_token\"");
    }
    answer.end("null-body=0", b"")
}

/// Returns the answer by which the peer's message remains as it is. `decision` is the id of a request that is allowed.
pub(super) fn unchanged(istag: &str, decision: Option<DecisionId>) -> BytesMut {
    let mut answer = IcapAnswer::new("204 No Content", istag);
    if let Some(decision) = decision {
        answer = answer.field("Wayleave-Decision", &decision.to_string());
    }
    answer.end("null-body=0", b"")
}

/// Returns the beginning of the answer that repeats a request, whose body follows if it has one.
pub(super) fn request(
    head: &[u8],
    has_body: bool,
    istag: &str,
    decision: Option<DecisionId>,
) -> BytesMut {
    let mut answer = IcapAnswer::new("200 OK", istag);
    if let Some(decision) = decision {
        answer = answer.field("Wayleave-Decision", &decision.to_string());
    }
    let body = if has_body { "req-body" } else { "null-body" };
    answer.end(&format!("req-hdr=0, {body}={}", head.len()), head)
}

/// Returns the beginning of the answer with a response, whose body follows if it has one.
fn response(head: &[u8], has_body: bool, istag: &str) -> BytesMut {
    let body = if has_body { "res-body" } else { "null-body" };
    IcapAnswer::new("200 OK", istag).end(&format!("res-hdr=0, {body}={}", head.len()), head)
}

/// Returns the answer with the proxy's own response.
pub(super) fn refusal(verdict: &AskedVerdict, is_to_head: bool, istag: &str) -> BytesMut {
    let mut head = BytesMut::new();
    let line = format!("HTTP/1.1 {} {}\r\n", verdict.status, verdict.title);
    head.extend_from_slice(line.as_bytes());
    write_fields(&mut head, pairs(&verdict.fields));
    head.extend_from_slice(b"\r\n");
    let has_body = !is_to_head && !verdict.body.is_empty();
    let mut answer = response(&head, has_body, istag);
    if has_body {
        answer.extend_from_slice(&chunk(&verdict.body));
        answer.extend_from_slice(LAST_CHUNK);
    }
    answer
}

/// Returns the beginning of the answer with a response that passes with changes.
pub(super) fn changed(
    head: &UpstreamHead,
    passed: &PassedResponse,
    has_body: bool,
    istag: &str,
) -> BytesMut {
    let mut inside = BytesMut::new();
    inside.extend_from_slice(format!("HTTP/1.1 {} ", head.status()).as_bytes());
    inside.extend_from_slice(head.reason());
    inside.extend_from_slice(b"\r\n");
    let kept = head.fields().into_iter().filter(|(name, _)| {
        !(is_own_field(name) || passed.omits_content && describes_content(name))
    });
    write_fields(&mut inside, kept);
    write_fields(&mut inside, pairs(&passed.fields));
    if passed.omits_content {
        inside.extend_from_slice(b"Content-Length: 0\r\n");
    }
    inside.extend_from_slice(b"\r\n");
    response(&inside, has_body, istag)
}

fn pairs<'a>(fields: &'a [ResponseField<'static>]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    fields.iter().map(|(name, value)| (name.as_ref(), value.as_ref()))
}

/// The end of a body.
pub(super) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Returns a part of a body, which is not empty, as a chunk.
pub(super) fn chunk(part: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat()
}
