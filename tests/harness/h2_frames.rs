//! HTTP/2 frame by frame, because clients of the tests must be able to break it (RFC 9113 section 4, RFC 7541).

use std::io;
use std::net::SocketAddr;

use super::client::Wire;
use super::tls::Authority;
use super::wayleave::Wayleave;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
pub const ACK: u8 = 1;

/// The payload of a `RST_STREAM` with the error code CANCEL.
pub const CANCEL: [u8; 4] = [0, 0, 0, 8];

/// A received frame.
#[derive(Debug)]
pub struct Frame {
    pub kind: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    /// Whether this head has status 200: its first field is the static table's eighth entry.
    pub fn is_200(&self) -> bool {
        self.kind == HEADERS && self.payload.first() == Some(&0x88)
    }
}

/// Returns the bytes of a frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("tests send short frames");
    let mut bytes = length.to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Returns a block of fields, each a literal that no table keeps.
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.push(0);
        for text in [name, value] {
            push_length(&mut bytes, text.len());
            bytes.extend(text.as_bytes());
        }
    }
    bytes
}

/// Returns a block of `start` and then one field of some 4,000 bytes, `times` times: written out once, which HPACK's table
/// keeps, then a byte for each.
pub fn swollen(start: &[u8], times: usize) -> Vec<u8> {
    const FIRST_OF_THE_TABLE: u8 = 0x80 | 62;
    let mut bytes = start.to_vec();
    bytes.extend([0x40, 1, b'x']);
    push_length(&mut bytes, 4000);
    bytes.resize(bytes.len() + 4000, b'y');
    bytes.resize(bytes.len() + times, FIRST_OF_THE_TABLE);
    bytes
}

/// Appends an integer with a prefix of seven bits (RFC 7541 section 5.1).
fn push_length(bytes: &mut Vec<u8>, length: usize) {
    let Some(mut rest) = length.checked_sub(127) else {
        bytes.push(u8::try_from(length).expect("below 127"));
        return;
    };
    bytes.push(127);
    while rest >= 128 {
        bytes.push(u8::try_from(rest % 128 + 128).expect("below 256"));
        rest /= 128;
    }
    bytes.push(u8::try_from(rest).expect("below 128"));
}

/// Returns the pseudo-header fields and the `User-Agent` of a GET for `path` at `authority`.
pub fn get<'a>(authority: &'a str, path: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", authority),
        (":path", path),
        ("user-agent", super::client::AGENT),
    ]
}

/// Returns the frame of a GET.
pub fn request(stream: u32, authority: &str, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&get(authority, path)))
}

/// Returns the frame of a CONNECT.
pub fn connect(stream: u32, authority: &str) -> Vec<u8> {
    let fields = [(":method", "CONNECT"), (":authority", authority)];
    frame(HEADERS, END_HEADERS, stream, &block(&fields))
}

/// Starts HTTP/2 inside an intercepted tunnel to `authority`: the preface and empty settings are sent.
#[track_caller]
pub fn open(proxy: &Wayleave, authority: &str) -> Wire {
    begin(before_preface(proxy, authority))
}

/// Sends the preface and empty settings.
pub fn begin(mut wire: Wire) -> Wire {
    wire.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    wire.send(frame(SETTINGS, 0, 0, &[]));
    wire
}

/// Starts HTTP/2 with a proxy that has a certificate for `localhost`: the preface and empty settings are sent.
#[track_caller]
pub fn open_proxied(listener: SocketAddr) -> Wire {
    open_proxied_on(Wire::connect(listener))
}

/// Does the same on a connection that is open.
#[track_caller]
pub fn open_proxied_on(wire: Wire) -> Wire {
    let roots = Authority::trusted().pem.as_bytes();
    let secured =
        wire.start_tls("localhost", roots, &["h2", "http/1.1"]).expect("the proxy is trusted");
    assert_eq!(secured.protocol.as_deref(), Some("h2"));
    begin(secured.wire)
}

/// Starts TLS inside a tunnel, and sends nothing yet.
#[track_caller]
pub fn before_preface(proxy: &Wayleave, authority: &str) -> Wire {
    let mut wire = proxy.connect();
    assert_eq!(wire.connect_tunnel(authority).status, 200, "{authority}");
    let host = super::origin::host_of(authority);
    let secured = wire
        .start_tls(&host, &proxy.ca_pem(), &["h2"])
        .expect("the leaf is trusted through the CA");
    assert_eq!(secured.protocol.as_deref(), Some("h2"));
    secured.wire
}

impl Wire {
    /// Reads the next frame; `None` at the end of the connection.
    pub fn frame(&mut self) -> Option<Frame> {
        let head = self.try_bytes(9).ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let payload = self.try_bytes(length as usize).ok()?;
        Some(Frame {
            kind: head[3],
            stream: u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]),
            payload,
        })
    }

    /// Reads up to the first frame that decides about the request on `stream`; `None` if the connection ends first.
    pub fn outcome(&mut self, stream: u32) -> Option<Frame> {
        loop {
            let frame = self.frame()?;
            let ends_it = frame.stream == stream && matches!(frame.kind, HEADERS | RST_STREAM);
            if ends_it || frame.kind == GOAWAY {
                return Some(frame);
            }
        }
    }

    /// Whether the request on `stream` is answered with status 200.
    pub fn stream_is_200(&mut self, stream: u32) -> bool {
        self.outcome(stream).is_some_and(|frame| frame.is_200())
    }

    /// Reads the next content of a stream.
    #[track_caller]
    pub fn data(&mut self, stream: u32) -> Vec<u8> {
        loop {
            let frame = self.frame().expect("the connection remains open");
            assert!(frame.stream != stream || frame.kind == DATA, "{frame:?}");
            if frame.stream == stream {
                return frame.payload;
            }
        }
    }

    fn try_bytes(&mut self, length: usize) -> io::Result<Vec<u8>> {
        self.fill(length)?;
        Ok(self.take(length))
    }
}
