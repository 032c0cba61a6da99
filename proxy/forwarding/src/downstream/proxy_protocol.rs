//! The PROXY protocol, versions 1 and 2: a load balancer names its client in a header in front of the client's first byte
//! (<https://www.haproxy.org/download/2.6/doc/proxy-protocol.txt>).

use std::net::IpAddr;

use bytes::{Buf, BytesMut};
use ppp::v2::{Command, Protocol};
use ppp::{v1, v2};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The longest header of version 1, with its CRLF (section 2.1).
const MAX_V1_BYTES: usize = 107;
/// The fixed part of a version 2 header: the signature, two bytes of command and family, the length of the rest.
const V2_FIXED_BYTES: usize = 16;
/// The longest header of version 2 that is read. Its additional fields may hold a client's certificate. The format allows
/// 64 KiB; all known load balancers send far less than this.
const MAX_V2_BYTES: usize = 16 * 1024;
/// The size of the first read, which holds all of nearly every header.
const FIRST_READ_BYTES: usize = 512;

/// The reason that the client's address is not known.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ProxyHeaderError {
    /// The connection ended before its first byte, as a health check's does.
    Closed,
    /// The bytes are not a PROXY header, for the reason given.
    Malformed(String),
}

/// Reads the header that `stream` begins with, and returns the client's address: `None` if the connection is the load
/// balancer's own, or if its client has no IP address. Bytes read beyond the header remain in `buffered`.
///
/// # Errors
///
/// Returns an error if the stream does not begin with a valid header.
pub(super) async fn read_client(
    stream: &mut (impl AsyncRead + Unpin),
    buffered: &mut BytesMut,
) -> Result<Option<IpAddr>, ProxyHeaderError> {
    buffered.reserve(FIRST_READ_BYTES);
    let length = loop {
        if let Some(length) = header_length(buffered)? {
            if buffered.len() >= length {
                break length;
            }
            buffered.reserve(length - buffered.len());
        }
        match stream.read_buf(buffered).await {
            Ok(read) if read > 0 => {}
            _ if buffered.is_empty() => return Err(ProxyHeaderError::Closed),
            _ => return Err(malformed("the connection ended in the middle of it")),
        }
    };
    let client = parse_client(&buffered[..length])?;
    buffered.advance(length);
    Ok(client.map(|client| client.to_canonical()))
}

/// Returns the length of the header that `bytes` begin with, or `None` if that takes more bytes.
fn header_length(bytes: &[u8]) -> Result<Option<usize>, ProxyHeaderError> {
    if may_begin_with(bytes, v2::PROTOCOL_PREFIX) {
        let Some(fixed) = bytes.first_chunk::<V2_FIXED_BYTES>() else {
            return Ok(None);
        };
        let rest = u16::from_be_bytes([fixed[V2_FIXED_BYTES - 2], fixed[V2_FIXED_BYTES - 1]]);
        return match V2_FIXED_BYTES + usize::from(rest) {
            length if length > MAX_V2_BYTES => Err(malformed("it is longer than 16 KiB")),
            length => Ok(Some(length)),
        };
    }
    if !may_begin_with(bytes, b"PROXY ") {
        return Err(malformed("other bytes arrived instead"));
    }
    let line = &bytes[..bytes.len().min(MAX_V1_BYTES)];
    match memchr::memchr(b'\n', line) {
        Some(end) => Ok(Some(end + 1)),
        None if line.len() == MAX_V1_BYTES => Err(malformed("its line has over 107 bytes")),
        None => Ok(None),
    }
}

/// Returns whether `bytes` begin with `prefix`, or could once more of them arrive.
fn may_begin_with(bytes: &[u8], prefix: &[u8]) -> bool {
    bytes.iter().zip(prefix).all(|(byte, expected)| byte == expected)
}

/// Parses a complete header, and returns the client's address as `read_client` does.
fn parse_client(header: &[u8]) -> Result<Option<IpAddr>, ProxyHeaderError> {
    if header.starts_with(b"PROXY ") {
        let header = v1::Header::try_from(header).map_err(|error| malformed(error.to_string()))?;
        return Ok(match header.addresses {
            v1::Addresses::Tcp4(addresses) => Some(addresses.source_address.into()),
            v1::Addresses::Tcp6(addresses) => Some(addresses.source_address.into()),
            v1::Addresses::Unknown => None,
        });
    }
    let header = v2::Header::try_from(header).map_err(|error| malformed(error.to_string()))?;
    // A wrong length that swallows part of the request usually shows as a malformed field.
    if let Some(Err(error)) = header.tlvs().find(Result::is_err) {
        return Err(malformed(error.to_string()));
    }
    match (header.command, header.protocol, header.addresses) {
        (Command::Local, ..) | (_, _, v2::Addresses::Unspecified) => Ok(None),
        (_, Protocol::Stream, v2::Addresses::IPv4(tcp)) => Ok(Some(tcp.source_address.into())),
        (_, Protocol::Stream, v2::Addresses::IPv6(tcp)) => Ok(Some(tcp.source_address.into())),
        (_, Protocol::Stream, v2::Addresses::Unix(_)) => Ok(None),
        _ => Err(malformed("it describes a client that did not connect by TCP")),
    }
}

fn malformed(what: impl Into<String>) -> ProxyHeaderError {
    ProxyHeaderError::Malformed(what.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a version 2 header of the command, the family and protocol, and the part after the length.
    fn binary(command: u8, kind: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [v2::PROTOCOL_PREFIX, &[command, kind], &length, rest].concat()
    }

    async fn read(bytes: &[u8]) -> (Result<Option<IpAddr>, ProxyHeaderError>, Vec<u8>) {
        let mut buffered = BytesMut::new();
        let client = read_client(&mut &*bytes, &mut buffered).await;
        (client, buffered.to_vec())
    }

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    const TCP4: &[u8] = &[203, 0, 113, 7, 10, 0, 0, 1, 0x30, 0x39, 0x0c, 0x38];

    #[tokio::test]
    async fn valid_headers_name_the_client() {
        let tcp6 = [&[0x20, 1, 0xd, 0xb8][..], &[0; 11], &[9], &[0; 20]].concat();
        let mapped = [&[0; 10][..], &[255, 255, 203, 0, 113, 7], &[0; 20]].concat();
        let authority = b"\x02\x00\x09shop.test";
        for (header, expected) in [
            (b"PROXY TCP4 203.0.113.7 10.0.0.1 12345 3128\r\n".to_vec(), address("203.0.113.7")),
            (b"PROXY TCP6 2001:db8::9 ::1 12345 3128\r\n".to_vec(), address("2001:db8::9")),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (b"PROXY UNKNOWN ffff::1 whatever\r\n".to_vec(), None),
            (binary(0x21, 0x11, TCP4), address("203.0.113.7")),
            (binary(0x21, 0x21, &tcp6), address("2001:db8::9")),
            (binary(0x21, 0x21, &mapped), address("203.0.113.7")),
            (binary(0x21, 0x11, &[TCP4, authority].concat()), address("203.0.113.7")),
            (binary(0x20, 0x00, b""), None),
            (binary(0x20, 0x11, TCP4), None),
            (binary(0x21, 0x00, b""), None),
            (binary(0x21, 0x31, &[b'/'; 216]), None),
        ] {
            let all = [&header[..], b"GET "].concat();
            assert_eq!(read(&all).await, (Ok(expected), b"GET ".to_vec()));
        }
    }

    #[tokio::test]
    async fn malformed_headers_are_rejected() {
        for bytes in [
            &b"GET http://shop.test/ HTTP/1.1\r\n"[..],
            b"\r\n\r\n",
            b"\x16\x03\x01",
            b"PROXY TCP4 203.0.113.7 10.0.0.1 12345\r\n",
            b"PROXY TCP4 203.0.113.7 10.0.0.1 12345 3128\n",
            b"PROXY TCP4 203.0.113.7 10.0.0.1 12345 3128\rX\n",
            b"PROXY TCP4 203.0.113.07 10.0.0.1 12345 3128\r\n",
            b"PROXY TCP4 203.0.113.7 10.0.0.1 12345 65536\r\n",
            b"PROXY TCP4 203.0.113.7  10.0.0.1 12345 3128\r\n",
            b"PROXY TCP4 2001:db8::9 ::1 12345 3128\r\n",
            b"PROXY UDP4 203.0.113.7 10.0.0.1 12345 3128\r\n",
            b"PROXY UNKNOWN\n",
            b"PROXY  UNKNOWN\r\n",
            b"proxy UNKNOWN\r\n",
            b"PROXY \xff\r\n",
            &[b"PROXY UNKNOWN ", &[b'x'; 200][..], b"\r\n"].concat(),
            &binary(0x11, 0x11, TCP4),
            &binary(0x22, 0x11, TCP4),
            &binary(0x21, 0x41, TCP4),
            &binary(0x21, 0x13, TCP4),
            &binary(0x21, 0x12, TCP4),
            &binary(0x21, 0x11, &TCP4[..11]),
            &binary(0x21, 0x21, TCP4),
            &binary(0x21, 0x11, &[TCP4, b"GET http://shop.test/"].concat()),
            &binary(0x21, 0x11, &[TCP4, b"\x02"].concat()),
            &binary(0x21, 0x11, &[TCP4, &[0; MAX_V2_BYTES][..]].concat()),
        ] {
            let (client, _) = read(bytes).await;
            let shown = String::from_utf8_lossy(bytes);
            assert!(matches!(client, Err(ProxyHeaderError::Malformed(_))), "{shown:?}");
        }
        assert_eq!(read(b"").await.0, Err(ProxyHeaderError::Closed));
    }

    #[tokio::test]
    async fn a_truncated_header_is_malformed() {
        let line = b"PROXY TCP4 203.0.113.7 10.0.0.1 12345 3128\r\n".to_vec();
        for header in [line, binary(0x21, 0x11, TCP4)] {
            for end in 1..header.len() {
                let cut = Err(malformed("the connection ended in the middle of it"));
                assert_eq!(read(&header[..end]).await.0, cut, "{end}");
            }
        }
    }
}
