//! WebSocket, the one upgrade that is forwarded: it carries no HTTP requests. Both sides must have made its handshake (RFC 6455
//! section 4), or a client could speak HTTP through an origin that answers 101 to anything.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest;
use wayleave_http_wire::field_pairs::{FieldPair, is_listed_in_connection, single};
use wayleave_http_wire::http1::BodyFraming;
use wayleave_http_wire::received::{HttpVersion, ReceivedHead};
use wayleave_upstream::UpstreamHead;

/// The suffix of a key before it is hashed (RFC 6455 section 1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Returns whether a request is the client's side of a handshake (RFC 6455 section 4.1).
pub(crate) fn is_handshake(received: &ReceivedHead) -> bool {
    let fields = received.fields();
    // HTTP/2 upgrades by extended CONNECT (RFC 8441), which is not offered.
    received.version() == HttpVersion::Http11
        && received.method() == "GET"
        && received.framing() == BodyFraming::Length(0)
        && upgrades(&fields)
        && single(&fields, "sec-websocket-version") == Some(b"13")
        && key(&fields).is_some()
}

/// Checks that a 101 is the origin's side of the handshake that the client began (RFC 6455 section 4.2.2).
///
/// # Errors
///
/// Returns the violation.
pub(crate) fn check(received: &ReceivedHead, head: &UpstreamHead) -> Result<(), &'static str> {
    let key = key(&received.fields())
        .filter(|_| is_handshake(received))
        .ok_or("the origin switched protocols without being asked")?;
    // All of the server's side must be right: a client that believes a wrong 101 would send bytes that nobody checks.
    let fields = head.fields();
    if !upgrades(&fields) {
        return Err("the origin switched to a protocol other than WebSocket");
    }
    if single(&fields, "sec-websocket-accept") != Some(accept(key).as_bytes()) {
        return Err("Sec-WebSocket-Accept does not match Sec-WebSocket-Key");
    }
    Ok(())
}

fn upgrades(fields: &[FieldPair<'_>]) -> bool {
    single(fields, "upgrade").is_some_and(|value| value.eq_ignore_ascii_case(b"websocket"))
        && is_listed_in_connection(fields, b"upgrade")
}

/// Returns the key if it is 16 bytes in base64.
fn key<'a>(fields: &[FieldPair<'a>]) -> Option<&'a [u8]> {
    let key = single(fields, "sec-websocket-key")?;
    let nonce = STANDARD.decode(key).ok()?;
    (nonce.len() == 16).then_some(key)
}

fn accept(key: &[u8]) -> String {
    let mut hash = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(key);
    hash.update(GUID);
    STANDARD.encode(hash.finish())
}
