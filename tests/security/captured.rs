//! Attempts of clients that know no HTTP proxy, whose connections are captured. All dial an address.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use super::{Case, check, malformed, reached, shop, statuses};
use crate::harness::{Origin, Wire, eventually, tls};
use crate::requests::captured::{SocksProxy, refused, start};

/// Requests in plain HTTP to 127.0.0.1:80, where nothing listens: only names lead to the origin.
#[rustfmt::skip]
const PLAIN: &[Case] = &[
    Case { name: "an allowed path", bytes: "GET /a HTTP/1.1\r\nHost: shop.test\r\n\r\n", statuses: &[200], reaches: &["/a"] },
    Case { name: "a disallowed path", bytes: "GET /private HTTP/1.1\r\nHost: shop.test\r\n\r\n", statuses: &[403], reaches: &[] },
    Case { name: "the second is for another host", bytes: "GET /a HTTP/1.1\r\nHost: shop.test\r\n\r\nGET /b HTTP/1.1\r\nHost: shut.test\r\n\r\n", statuses: &[200, 403], reaches: &["/a"] },
    Case { name: "back from another host", bytes: "GET /b HTTP/1.1\r\nHost: shut.test\r\n\r\nGET /a HTTP/1.1\r\nHost: shop.test\r\n\r\n", statuses: &[403, 200], reaches: &["/a"] },
    Case { name: "the second in a body", bytes: "POST /a HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 40\r\n\r\nGET /b HTTP/1.1\r\nHost: shut.test\r\n\r\nxxxx", statuses: &[200], reaches: &["/a"] },
    Case { name: "dot segments", bytes: "GET /a/%2e%2e/private HTTP/1.1\r\nHost: shop.test\r\n\r\n", statuses: &[403], reaches: &[] },
    Case { name: "absolute form", bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\n", statuses: &[200], reaches: &["/a"] },
    Case { name: "absolute form of another host", bytes: "GET http://shut.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\n", statuses: &[421], reaches: &[] },
    Case { name: "absolute form, and Host of another", bytes: "GET http://shop.test/private HTTP/1.1\r\nHost: other.test\r\n\r\n", statuses: &[421], reaches: &[] },
    Case { name: "absolute form of a disallowed host", bytes: "GET http://shut.test/a HTTP/1.1\r\nHost: shut.test\r\n\r\n", statuses: &[403], reaches: &[] },
    Case { name: "absolute form of https", bytes: "GET https://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\n", statuses: &[421], reaches: &[] },
    Case { name: "absolute form of ftp", bytes: "GET ftp://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\n", statuses: &[421], reaches: &[] },
    Case { name: "Host with the dialled port", bytes: "GET /a HTTP/1.1\r\nHost: shop.test:80\r\n\r\n", statuses: &[200], reaches: &["/a"] },
    Case { name: "Host with another port", bytes: "GET /a HTTP/1.1\r\nHost: shop.test:443\r\n\r\n", statuses: &[421], reaches: &[] },
    Case { name: "Host in capitals with a trailing dot", bytes: "GET /private HTTP/1.1\r\nHost: SHOP.test.\r\n\r\n", statuses: &[403], reaches: &[] },
    Case { name: "two slashes are no host", bytes: "GET //shut.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\n", statuses: &[200], reaches: &["//shut.test/a"] },
    Case { name: "an upgrade to HTTP/2 that is not made", bytes: "GET /private HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n", statuses: &[403], reaches: &[] },
    Case { name: "the address itself", bytes: "GET /a HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", statuses: &[503], reaches: &[] },
    Case { name: "HTTP/1.0 without Host", bytes: "GET /a HTTP/1.0\r\n\r\n", statuses: &[503], reaches: &[] },
    Case { name: "an internal address", bytes: "GET /a HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n", statuses: &[502], reaches: &[] },
    Case { name: "an internal address in hexadecimal", bytes: "GET /a HTTP/1.1\r\nHost: 0xa9fea9fe\r\n\r\n", statuses: &[502], reaches: &[] },
    malformed("another host in X-Forwarded-Host", "GET /a HTTP/1.1\r\nHost: shop.test\r\nX-Forwarded-Host: shut.test\r\n\r\n"),
    malformed("a disallowed path in X-Original-URI", "GET /a HTTP/1.1\r\nHost: shop.test\r\nX-Original-URI: /private\r\n\r\n"),
    malformed("no Host in HTTP/1.1", "GET /a HTTP/1.1\r\n\r\n"),
    malformed("an empty Host", "GET /a HTTP/1.1\r\nHost: \r\n\r\n"),
    malformed("two Hosts", "GET /a HTTP/1.1\r\nHost: shop.test\r\nHost: shut.test\r\n\r\n"),
    malformed("userinfo in Host", "GET /a HTTP/1.1\r\nHost: shop.test@shut.test\r\n\r\n"),
    malformed("two ports in Host", "GET /a HTTP/1.1\r\nHost: shop.test:80:443\r\n\r\n"),
    malformed("a path without slash", "GET private HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    malformed("CONNECT", "CONNECT shut.test:443 HTTP/1.1\r\nHost: shut.test\r\n\r\n"),
    malformed("a folded Host", "GET /a HTTP/1.1\r\nHost: shop.test\r\n shut.test\r\n\r\n"),
    malformed("lines that end in LF", "GET /a HTTP/1.1\nHost: shop.test\n\n"),
    Case { name: "a version that does not exist", bytes: "GET /a HTTP/3.0\r\nHost: shop.test\r\n\r\n", statuses: &[505], reaches: &[] },
];

/// `(name, the port that is dialled, the server name or an address for none, what is sent inside, statuses, what reaches the origin)`
type InsideRow =
    (&'static str, u16, &'static str, &'static str, &'static [u16], &'static [&'static str]);

#[rustfmt::skip]
const INSIDE: &[InsideRow] = &[
    ("an allowed path in TLS", 443, "shop.test", "GET /a HTTP/1.1\r\nHost: shop.test\r\n\r\n", &[200], &["/a"]),
    ("a disallowed path in TLS", 443, "shop.test", "GET /private HTTP/1.1\r\nHost: shop.test\r\n\r\n", &[403], &[]),
    ("the server name of an allowed host, and Host of a disallowed one", 443, "shop.test", "GET /b HTTP/1.1\r\nHost: shut.test\r\n\r\n", &[421], &[]),
    ("the server name of a disallowed host, and Host of an allowed one", 443, "shut.test", "GET /a HTTP/1.1\r\nHost: shop.test\r\n\r\n", &[421], &[]),
    ("the server name of a disallowed host", 443, "shut.test", "GET /b HTTP/1.1\r\nHost: shut.test\r\n\r\n", &[403], &[]),
    ("the second in TLS is for another host", 443, "shop.test", "GET /a HTTP/1.1\r\nHost: shop.test\r\n\r\nGET /b HTTP/1.1\r\nHost: shut.test\r\n\r\n", &[200, 421], &["/a"]),
    ("absolute form of another host in TLS", 443, "shop.test", "GET https://shut.test/b HTTP/1.1\r\nHost: shop.test\r\n\r\n", &[421], &[]),
    ("Host with another port in TLS", 443, "shop.test", "GET /a HTTP/1.1\r\nHost: shop.test:80\r\n\r\n", &[421], &[]),
    ("no server name, and Host of a host", 443, "127.0.0.1", "GET /a HTTP/1.1\r\nHost: shop.test\r\n\r\n", &[421], &[]),
    ("no server name", 443, "127.0.0.1", "GET /a HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", &[503], &[]),
    ("another host in X-Forwarded-Host in TLS", 443, "shop.test", "GET /a HTTP/1.1\r\nHost: shop.test\r\nX-Forwarded-Host: shut.test\r\n\r\n", &[400], &[]),
    ("another host in Forwarded in TLS", 443, "shop.test", "GET /a HTTP/1.1\r\nHost: shop.test\r\nForwarded: host=shut.test\r\n\r\n", &[400], &[]),
    ("the host itself in X-Forwarded-Host in TLS", 443, "shop.test", "GET /a HTTP/1.1\r\nHost: shop.test\r\nX-Forwarded-Host: shop.test\r\n\r\n", &[200], &["/a"]),
    ("CONNECT in TLS", 443, "shop.test", "CONNECT shut.test:443 HTTP/1.1\r\nHost: shut.test:443\r\n\r\n", &[400], &[]),
    ("TLS to the port of HTTP, and Host without the port", 80, "shop.test", "GET /a HTTP/1.1\r\nHost: shop.test\r\n\r\n", &[421], &[]),
];

/// `(name, the first bytes)` of what is neither TLS nor HTTP.
#[rustfmt::skip]
const OTHERS: &[(&str, &[u8])] = &[
    ("SSH", b"SSH-2.0-OpenSSH_9.6\r\n"),
    ("SMTP", b"EHLO mail.test\r\n"),
    ("FTP", b"USER anonymous\r\n"),
    ("HTTP/0.9", b"GET /private\r\n"),
    ("Redis", b"*1\r\n$4\r\nPING\r\n"),
    ("SOCKS4", b"\x04\x01\0\x50\x7f\0\0\x01\0"),
    ("SOCKS5 inside", b"\x05\x01\0"),
    ("DNS over TCP", b"\0\x1d\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x04shut\x04test\0\0\x01\0\x01"),
    ("BitTorrent", b"\x13BitTorrent protocol\0\0\0\0\0\0\0\0"),
    ("a WireGuard packet", b"\x01\0\0\0\x11\x22\x33\x44"),
    ("PostgreSQL", b"\0\0\0\x08\x04\xd2\x16\x2f"),
    ("MQTT", b"\x10\x0d\0\x04MQTT\x04\x02\0\x3c\0\x01a"),
    ("RDP", b"\x03\0\0\x13\x0e\xe0\0\0\0\0\0\x01\0\x08\0\x03\0\0\0"),
    ("SSL 2", b"\x80\x2e\x01\x03\x01\0\x15\0\0\0\x10"),
    ("a PROXY header", b"PROXY TCP4 203.0.113.7 127.0.0.1 40000 80\r\n"),
    ("TLS without a ClientHello", b"\x16\x03\x01\0\x05\x09\x09\x09\x09\x09"),
    ("a ClientHello that is too long", b"\x16\x03\x01\x40\0\x01\xff\xff\xff"),
    ("a TLS alert", b"\x15\x03\x03\0\x02\x02\x28"),
    ("UTF-8", "GÉT / HTTP/1.1\r\n".as_bytes()),
    ("NULs", &[0; 64]),
];

/// The names of attempts with ClientHellos.
const HELLOS: &[&str] = &[
    "a ClientHello byte by byte",
    "a ClientHello in many records",
    "a ClientHello with another one encrypted in it",
    "early data",
];

pub fn names() -> Vec<String> {
    let plain = PLAIN.iter().map(|case| case.name);
    let names = plain.chain(INSIDE.iter().map(|row| row.0)).chain(OTHERS.iter().map(|row| row.0));
    names.chain(HELLOS.iter().copied()).map(|name| format!("captured: {name}")).collect()
}

fn start_shop() -> (Origin, SocksProxy) {
    let origin = shop();
    let socks = start(&origin, |settings| settings);
    (origin, socks)
}

#[test]
fn each_request_is_judged_by_its_own_host() {
    let (origin, socks) = start_shop();
    for case in PLAIN {
        check(case, &origin, socks.open("127.0.0.1", 80));
    }
}

#[test]
fn http_on_the_port_of_tls_is_judged_there() {
    let (origin, socks) = start_shop();
    let mut wire = socks.open("127.0.0.1", 443);
    wire.send(b"GET /a HTTP/1.1\r\nHost: shop.test\r\n\r\n");
    // The origin speaks TLS there.
    let answer = wire.try_response(false);
    assert!(!answer.is_ok_and(|answer| answer.is_some_and(|answer| answer.status < 400)));
    eventually("it is judged at this port", || {
        socks.proxy.log().contains("\"http://shop.test:443/a\"")
    });
    assert_eq!(reached(&origin, 0), [""; 0]);
}

#[test]
fn tls_is_for_its_server_name_only() {
    let (origin, socks) = start_shop();
    for (name, port, server_name, bytes, expected, reaches) in INSIDE {
        let before = origin.requests().len();
        let wire = socks.open("127.0.0.1", *port);
        let tls = wire.start_tls(server_name, &socks.proxy.ca_pem(), &["http/1.1"]);
        let mut wire = tls.unwrap_or_else(|error| panic!("{name}: {error}")).wire;
        let last =
            format!("OPTIONS * HTTP/1.1\r\nHost: {server_name}\r\nConnection: close\r\n\r\n");
        let _maybe_closed = wire.try_send(format!("{bytes}{last}"));
        let found = statuses(&mut wire);
        assert_eq!(found[..expected.len()], **expected, "{name}");
        let reached = reached(&origin, before);
        let reached: Vec<_> = reached.iter().filter(|target| *target != "*").collect();
        assert_eq!(reached, reaches.iter().collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn other_protocols_are_refused_by_name() {
    let (origin, socks) = start_shop();
    for (count, (name, bytes)) in OTHERS.iter().enumerate() {
        let mut wire = socks.open("127.0.0.1", 80);
        let long;
        let bytes = if name.contains("too long") {
            // Records of the longest size, so that the message never ends.
            long = [bytes, &[0; 40_000][..]].concat();
            &long
        } else {
            *bytes
        };
        let _maybe_closed = wire.try_send(bytes);
        let problem = wire.response().expect_refusal(400, None, "http_request_error");
        assert_eq!(problem["reason"], "not-http", "{name}");
        wire.expect_close();
        assert_eq!(refused(&socks.proxy, "not-http"), (count + 1) as f64, "{name}");
    }
    assert_eq!(origin.connections(), 0);
}

/// A client whose first flight can be changed on its way.
struct TlsClient {
    session: ClientConnection,
    tcp: std::net::TcpStream,
}

impl TlsClient {
    fn new(wire: Wire, server_name: &str, config: Arc<rustls::ClientConfig>) -> Self {
        let name = ServerName::try_from(server_name.to_owned()).expect("a name");
        Self { session: ClientConnection::new(config, name).expect("a session"), tcp: wire.tcp }
    }

    /// Returns the first flight: the records of a ClientHello.
    fn hello(&mut self) -> Vec<u8> {
        let mut hello = Vec::new();
        self.session.write_tls(&mut hello).expect("memory can be written");
        hello
    }

    /// Sends a request, and returns all that comes until the end.
    fn get(mut self, host: &str, path: &str) -> String {
        let mut stream = rustls::Stream::new(&mut self.session, &mut self.tcp);
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("the proxy reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("the proxy answers");
        text
    }
}

#[test]
fn a_client_hello_in_pieces_is_read_whole() {
    let (origin, socks) = start_shop();
    let config = tls::client_config(&socks.proxy.ca_pem(), &["http/1.1"]);
    let in_records = |hello: &[u8]| {
        let (header, message) = hello.split_at(5);
        let record = |piece: &[u8]| [&header[..3], &[0, piece.len() as u8], piece].concat();
        message.chunks(3).map(record).collect::<Vec<_>>().concat()
    };
    for (host, path, status) in
        [("shop.test", "/a", 200), ("shop.test", "/private", 403), ("shut.test", "/b", 403)]
    {
        let mut slow = TlsClient::new(socks.open("127.0.0.1", 443), host, Arc::clone(&config));
        for byte in slow.hello() {
            slow.tcp.write_all(&[byte]).expect("the proxy reads");
        }
        let mut split = TlsClient::new(socks.open("127.0.0.1", 443), host, Arc::clone(&config));
        let hello = split.hello();
        split.tcp.write_all(&in_records(&hello)).expect("the proxy reads");
        for client in [slow, split] {
            let answer = client.get(host, path);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{host}{path}: {answer}");
        }
    }
    assert_eq!(reached(&origin, 0), ["/a", "/a"]);
}

#[test]
fn an_encrypted_client_hello_is_judged_by_its_outer_name() {
    let (origin, socks) = start_shop();
    for mode in ["intercept", "tunnel"] {
        socks.proxy.reload(&socks.proxy.settings.clone().set("https.mode", &format!("{mode:?}")));
        let config = tls::client_config(&socks.proxy.ca_pem(), &["http/1.1"]);
        let mut client = TlsClient::new(socks.open("127.0.0.1", 443), "shut.test", config);
        // The outer form: HKDF-SHA256 and AES-128-GCM, a configuration, a key and a payload.
        let encrypted = [&[0, 0, 1, 0, 1, 42, 0, 32][..], &[9; 32], &[0, 16], &[7; 16]].concat();
        let hello = with_extension(&client.hello(), 0xfe0d, &encrypted);
        client.tcp.write_all(&hello).expect("the proxy reads");
        // The handshake fails, because the client did not send that; nothing was forwarded meanwhile.
        let mut stream = rustls::Stream::new(&mut client.session, &mut client.tcp);
        assert!(stream.write_all(b"GET /b HTTP/1.1\r\nHost: shut.test\r\n\r\n").is_err());
        assert_eq!(reached(&origin, 0), [""; 0], "{mode}");
        assert!(
            !origin.requests().iter().any(|request| request.sni.as_deref() != Some("shut.test"))
        );
    }
}

/// Appends an extension to a ClientHello in one record.
fn with_extension(hello: &[u8], kind: u16, value: &[u8]) -> Vec<u8> {
    let extension = [&kind.to_be_bytes()[..], &(value.len() as u16).to_be_bytes(), value].concat();
    let added = extension.len();
    let mut longer = hello.to_vec();
    let mut grow = |at: usize, bytes: usize| {
        let old = longer[at..at + bytes].iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        let new = (old + added).to_be_bytes();
        longer[at..at + bytes].copy_from_slice(&new[new.len() - bytes..]);
    };
    // The lengths of the record and the message.
    grow(3, 2);
    grow(6, 3);
    // Before the extensions: versions, random, session, cipher suites, compression.
    let mut at = 5 + 4 + 2 + 32;
    at += 1 + usize::from(hello[at]);
    at += 2 + usize::from(u16::from_be_bytes([hello[at], hello[at + 1]]));
    at += 1 + usize::from(hello[at]);
    grow(at, 2);
    // Not last: that place belongs to the pre-shared key, if there is one.
    longer.splice(at + 2..at + 2, extension);
    longer
}

#[test]
fn early_data_is_not_offered() {
    let (origin, socks) = start_shop();
    let mut config = (*tls::client_config(&socks.proxy.ca_pem(), &["http/1.1"])).clone();
    config.enable_early_data = true;
    let config = Arc::new(config);
    for _ in 0..2 {
        let wire = socks.open("127.0.0.1", 443);
        let mut client = TlsClient::new(wire, "shop.test", Arc::clone(&config));
        assert!(client.session.early_data().is_none());
        assert!(client.get("shop.test", "/a").starts_with("HTTP/1.1 200 "));
    }
    assert_eq!(reached(&origin, 0), ["/a", "/a"]);
}

#[test]
fn hostile_bytes_end_their_own_connection_only() {
    let (origin, socks) = start_shop();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).expect("small")
    };
    // Beginnings of what is understood, cut and followed by anything.
    let beginnings: [&[u8]; 6] = [
        &[5, 1, 0, 5, 1, 0, 3, 9],
        &[5, 2, 0, 2, 1, 200],
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\nHost: ",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"",
    ];
    for number in 0..300 {
        let beginning = beginnings[number % beginnings.len()];
        let mut bytes = beginning[..beginning.len() - next(beginning.len() + 1)].to_vec();
        for _ in 0..next(80) {
            bytes.push(u8::try_from(next(256)).expect("a byte"));
        }
        let mut wire = match number % 2 {
            0 => Wire::connect(socks.socks),
            _ => socks.open("127.0.0.1", 80),
        };
        let _maybe_closed = wire.try_send(&bytes);
        let _maybe_closed = wire.tcp.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        let _maybe_reset = wire.tcp.read_to_end(&mut rest);
    }
    assert_eq!(socks.proxy.metric("wayleave_panics_total", &[]), 0.0);
    let mut wire = socks.open("127.0.0.1", 80);
    wire.send(b"GET /after HTTP/1.1\r\nHost: shop.test\r\n\r\n");
    assert_eq!(wire.response().status, 200);
    assert_eq!(reached(&origin, 0), ["/after"]);
}
