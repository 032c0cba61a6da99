//! Requests with `Max-Forwards: 0`: OPTIONS and TRACE that end here (RFC 9110 section 7.6.2).

use bytes::{Bytes, BytesMut};
use wayleave_admission::outcome::ConnectionReuse;
use wayleave_clock::system_time;
use wayleave_http_wire::field_pairs::is_named;
use wayleave_http_wire::http1::write_fields;
use wayleave_http_wire::received::ReceivedHead;
use wayleave_transport::http::downstream::{ClientGone, Downstream, response_field};

use super::error_response;

/// Answers a request as its final recipient.
pub(super) async fn answer(
    received: &ReceivedHead,
    client: &mut Downstream,
    name: &str,
) -> ConnectionReuse {
    match respond(received, client, name).await {
        Ok(()) => ConnectionReuse::Whole,
        Err(_) => ConnectionReuse::CutOff,
    }
}

/// Answers OPTIONS with no content, and TRACE with the request except for its secrets (RFC 9110 sections 9.3.7 and 9.3.8).
async fn respond(
    received: &ReceivedHead,
    client: &mut Downstream,
    name: &str,
) -> Result<(), ClientGone> {
    // The answer would be lost in a reset if received bytes were left unread.
    if !error_response::drain(&mut client.reader).await {
        client.writer.close_after_response();
    }
    let mut fields = vec![
        response_field("Date", httpdate::fmt_http_date(system_time())),
        response_field("Server", name),
    ];
    let mut body = Bytes::new();
    if received.method() == "TRACE" {
        body = trace_body(received);
        fields.push(response_field("Content-Type", "message/http"));
    }
    fields.push(response_field("Content-Length", body.len().to_string()));
    error_response::send(client, (200, b"OK"), fields, body, false).await
}

fn trace_body(received: &ReceivedHead) -> Bytes {
    const SECRETS: &[&str] = &["authorization", "proxy-authorization", "cookie"];
    let version = received.version().as_str();
    let line = format!("TRACE {} HTTP/{version}\r\n", received.target());
    let mut message = BytesMut::from(line.as_bytes());
    // TRACE must not reveal secrets (RFC 9110 section 9.3.8).
    let is_shown = |field: &[u8]| !SECRETS.iter().any(|secret| is_named(field, secret));
    write_fields(&mut message, received.fields().into_iter().filter(|(field, _)| is_shown(field)));
    message.extend_from_slice(b"\r\n");
    message.freeze()
}
