//! The protocol that a client speaks, by its first bytes.

use memchr::memchr;
use tokio::io::AsyncReadExt;
use wayleave_http_wire::http1::MAX_REQUEST_HEAD_BYTES;
use wayleave_transport::http::transport::BufferedStream;
use wayleave_transport::tls;

/// The request line that every HTTP/2 connection begins with (RFC 9113 section 3.4).
const HTTP2_PREFACE_LINE: &[u8] = b"PRI * HTTP/2.0";
/// The longest method that is taken for HTTP; the longest registered one has 17 bytes.
const MAX_METHOD_BYTES: usize = 32;
/// The number of bytes read at a time; most heads are shorter.
const READ_BYTES: usize = 4096;

/// The protocol that a client begins to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientProtocol {
    Tls,
    /// HTTP/1, or a version that does not exist: the request line ends in one.
    Http1,
    /// HTTP/2 without TLS.
    Http2,
    /// None of these.
    Other,
}

/// Reads until the protocol shows. All bytes read remain buffered. Returns `None` if the client is gone before.
pub(super) async fn read_protocol(incoming: &mut BufferedStream) -> Option<ClientProtocol> {
    let BufferedStream { stream, buffered } = incoming;
    loop {
        if let Some(protocol) = protocol_of(buffered) {
            return Some(protocol);
        }
        buffered.reserve(READ_BYTES);
        if !matches!(stream.read_buf(buffered).await, Ok(1..)) {
            return None;
        }
    }
}

/// Returns the protocol that begins with `bytes`, or `None` if that takes more of them.
fn protocol_of(bytes: &[u8]) -> Option<ClientProtocol> {
    if bytes.first() == Some(&tls::HANDSHAKE_RECORD) {
        return Some(ClientProtocol::Tls);
    }
    let mut line = bytes;
    // RFC 9112 section 2.2: an empty line before a request line is ignored.
    while let Some(rest) = line.strip_prefix(b"\r\n") {
        line = rest;
    }
    match memchr(b'\n', line) {
        Some(end) => Some(match line[..end].trim_ascii_end() {
            HTTP2_PREFACE_LINE => ClientProtocol::Http2,
            line if ends_in_version(line) && may_be_request(line) => ClientProtocol::Http1,
            _ => ClientProtocol::Other,
        }),
        None if !may_be_request(line) => Some(ClientProtocol::Other),
        // Its reader says that it is too long.
        None if bytes.len() > MAX_REQUEST_HEAD_BYTES => Some(ClientProtocol::Http1),
        None => None,
    }
}

/// Returns whether a line that begins like this can be a request line: a method and a space come first.
fn may_be_request(line: &[u8]) -> bool {
    let method = memchr(b' ', line).map_or(line, |end| &line[..end]);
    // A line break may still be on its way that makes these bytes an empty line.
    line == b"\r"
        || (method.len() <= MAX_METHOD_BYTES
            && method
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
            && (!method.is_empty() || line.is_empty()))
}

/// Returns whether a line ends in a space and a version of HTTP.
fn ends_in_version(line: &[u8]) -> bool {
    let Some((before, version)) = line.split_last_chunk::<3>() else {
        return false;
    };
    before.ends_with(b" HTTP/")
        && matches!(version, [major, b'.', minor] if major.is_ascii_digit() && minor.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use wayleave_transport::http::transport::Transport;

    use super::ClientProtocol::{Http1, Http2, Other, Tls};
    use super::*;

    #[test]
    fn the_first_line_tells_the_protocol() {
        for (bytes, expected) in [
            (&b"\x16\x03\x01"[..], Some(Tls)),
            (b"GET / HTTP/1.1\r\n", Some(Http1)),
            (b"GET / HTTP/1.0\n", Some(Http1)),
            (b"\r\n\r\nPOST /a HTTP/1.1\r\nHost:", Some(Http1)),
            (b"GET / HTTP/9.9\r\n", Some(Http1)),
            (b"GET /\xff HTTP/1.1\r\n", Some(Http1)),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Some(Http2)),
            (b"", None),
            (b"\r", None),
            (b"\r\nG", None),
            (b"GET /long", None),
            (b"GET / HTTP/1.1", None),
            (b"GET /\r\n", Some(Other)),
            (b"SSH-2.0-OpenSSH_9.6\r\n", Some(Other)),
            (b"EHLO mail.test\r\n", Some(Other)),
            // Its reader answers that it is malformed.
            (b"* HTTP/1.1\r\n", Some(Http1)),
            (b" / HTTP/1.1\r\n", Some(Other)),
            (b"\0\0\0\x08\x04\xd2\x16\x2f", Some(Other)),
            (b"\x05\x01\0", Some(Other)),
            (b"\x80\x2e\x01\x03\x01", Some(Other)),
            (b"\x13BitTorrent protocol", Some(Other)),
            (b"G\xc3\x89T", Some(Other)),
            (&[b'A'; 33], Some(Other)),
        ] {
            assert_eq!(protocol_of(bytes), expected, "{:?}", String::from_utf8_lossy(bytes));
        }
        let long = [b"GET /", &[b'a'; MAX_REQUEST_HEAD_BYTES][..]].concat();
        assert_eq!(protocol_of(&long), Some(Http1));
    }

    /// Returns the protocol of a stream that brings these bytes one by one and then ends, and the bytes that are buffered.
    async fn read_slowly(bytes: &[u8]) -> (Option<ClientProtocol>, Vec<u8>) {
        let stream = tokio_test_stream(bytes);
        let mut incoming = BufferedStream { stream: Box::new(stream), buffered: BytesMut::new() };
        let protocol = read_protocol(&mut incoming).await;
        (protocol, incoming.buffered.to_vec())
    }

    /// Returns a stream whose reads return one byte each.
    fn tokio_test_stream(bytes: &[u8]) -> Transport<tokio::io::DuplexStream> {
        let (near, mut far) = tokio::io::duplex(1);
        let bytes = bytes.to_vec();
        tokio::spawn(async move {
            use tokio::io::AsyncWriteExt;
            // The reader may have seen enough.
            let _ = far.write_all(&bytes).await;
        });
        Transport::new(near)
    }

    #[tokio::test]
    async fn bytes_that_arrive_one_by_one_are_told_apart_the_same_way() {
        for (bytes, expected) in [
            (&b"\r\n\r\nGET / HTTP/1.1\r\n\r\n"[..], Some(Http1)),
            (b"PRI * HTTP/2.0\r\n\r\n", Some(Http2)),
            (b"\x16\x03", Some(Tls)),
            (b"GET /", None),
            (b"\0", Some(Other)),
        ] {
            let (protocol, buffered) = read_slowly(bytes).await;
            assert_eq!(protocol, expected, "{bytes:?}");
            assert!(bytes.starts_with(&buffered), "{buffered:?}");
        }
    }

    #[test]
    fn no_bytes_are_told_apart_in_two_ways() {
        // A verdict after some bytes must not change with more of them: the client would choose the reader.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % below as u64).unwrap()
        };
        let pieces: [&[u8]; 14] = [
            b"GET",
            b" ",
            b"/",
            b"HTTP/1.1",
            b" HTTP/",
            b"1",
            b".",
            b"\r",
            b"\n",
            b"\r\n",
            b"\x16",
            b"\0",
            b"\xff",
            b"PRI * HTTP/2.0",
        ];
        for _ in 0..20_000 {
            let count = next(12);
            let bytes: Vec<u8> =
                (0..count).flat_map(|_| pieces[next(pieces.len())]).copied().collect();
            let mut known = None;
            for end in 0..=bytes.len() {
                let now = protocol_of(&bytes[..end]);
                assert!(known.is_none() || now == known, "{bytes:?} at {end}: {known:?}, {now:?}");
                known = now;
            }
        }
    }
}
