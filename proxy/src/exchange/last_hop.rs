//! Requests that end here: `Max-Forwards: 0` of OPTIONS and TRACE (RFC 9110 section 7.6.2).

use bytes::{Bytes, BytesMut};

use super::{AfterExchange, refuse};
use crate::clock::calendar;
use crate::decide::refusal::Refusal;
use crate::http::client::{Client, ClientGone, OnwardResponse, field};
use crate::http::field_pairs::is;
use crate::http::http1::{Framing, Trailers, write_fields};
use crate::http::proxy_status::ErrorType;
use crate::http::received::Received;

/// What becomes of the request: it is not forwarded.
pub(crate) fn refusal() -> Refusal {
    let error = ErrorType::HttpRequestDenied;
    let details = "Max-Forwards: 0 ends the request here";
    Refusal::new(200, "OK", error, "max-forwards", details)
}

/// Answers a request here; tells what may follow it.
pub(super) async fn answer(received: &Received, client: &mut Client, name: &str) -> AfterExchange {
    match respond(received, client, name).await {
        Ok(()) => AfterExchange::Whole,
        Err(ClientGone) => AfterExchange::CutOff,
    }
}

/// Answers as the request's last recipient: OPTIONS with nothing, TRACE with the request but for its secrets (RFC 9110
/// sections 9.3.7 and 9.3.8).
async fn respond(received: &Received, client: &mut Client, name: &str) -> Result<(), ClientGone> {
    if !refuse::drain(&mut client.body).await {
        client.answer.close_afterwards();
    }
    let mut fields = vec![
        field("Date", httpdate::fmt_http_date(calendar())),
        field("Server", name),
    ];
    let mut body = Bytes::new();
    if received.method() == "TRACE" {
        body = reflected(received);
        fields.push(field("Content-Type", "message/http"));
    }
    fields.push(field("Content-Length", body.len().to_string()));
    let response = OnwardResponse {
        status: 200,
        reason: b"OK",
        framing: Framing::Length(body.len() as u64),
        fields,
    };
    client.answer.head(&response).await?;
    if !body.is_empty() {
        client.answer.part(body, true).await?;
    }
    client.answer.finish(&Trailers::new()).await
}

fn reflected(received: &Received) -> Bytes {
    const SECRETS: &[&str] = &["authorization", "proxy-authorization", "cookie"];
    let version = received.version().as_str();
    let line = format!("TRACE {} HTTP/{version}\r\n", received.target());
    let mut message = BytesMut::from(line.as_bytes());
    let fields = received.fields().into_iter();
    let told = fields.filter(|(field, _)| !SECRETS.iter().any(|secret| is(field, secret)));
    write_fields(&mut message, told);
    message.extend_from_slice(b"\r\n");
    message.freeze()
}
