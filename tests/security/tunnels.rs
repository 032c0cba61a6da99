//! CONNECT, and requests inside a tunnel that name another host.

use super::{Case, malformed, reached, shop, statuses};
use crate::harness::{Origin, Wayleave};

/// Invalid requests for tunnels.
#[rustfmt::skip]
const CONNECTS: &[Case] = &[
    malformed("no port", "CONNECT shop.test HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    malformed("an empty port", "CONNECT shop.test: HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    malformed("port zero", "CONNECT shop.test:0 HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    malformed("a port past the last", "CONNECT shop.test:65979 HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    malformed("a port with a sign", "CONNECT shop.test:+443 HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    malformed("two ports", "CONNECT shop.test:443:80 HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    malformed("no host", "CONNECT :443 HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    malformed("a URL", "CONNECT https://shop.test:443/ HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    malformed("a path", "CONNECT shop.test:443/a HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    malformed("a query", "CONNECT shop.test:443?a HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    malformed("a fragment", "CONNECT shop.test:443#a HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    malformed("userinfo", "CONNECT user@shop.test:443 HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    malformed("a host as userinfo", "CONNECT shop.test:443@other.test:443 HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    malformed("a backslash", "CONNECT other.test\\@shop.test:443 HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    malformed("an address without brackets", "CONNECT ::1:443 HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    malformed("an unclosed bracket", "CONNECT [::1:443 HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    malformed("an address with a zone", "CONNECT [fe80::1%25eth0]:443 HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    malformed("a body", "CONNECT shop.test:443 HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 5\r\n\r\nhello"),
    malformed("a body in chunks", "CONNECT shop.test:443 HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    malformed("an asterisk", "CONNECT * HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    Case {
        name: "small letters",
        bytes: "connect shop.test:443 HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        statuses: &[501],
        reaches: &[],
    },
];

/// `(name, the CONNECT's authority, the handshake's server name, what is sent inside, statuses, what reaches the origin)`
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static [u16],
    &'static [&'static str],
);

#[rustfmt::skip]
const INSIDE: &[Row] = &[
    ("disallowed", "shop.test:443", "shop.test", "GET /private HTTP/1.1\r\nHost: shop.test\r\n\r\n", &[403], &[]),
    ("dot segments", "shop.test:443", "shop.test", "GET /a/%2e%2e/private HTTP/1.1\r\nHost: shop.test\r\n\r\n", &[403], &[]),
    ("disallowed in absolute form", "shop.test:443", "shop.test", "GET https://shop.test/private HTTP/1.1\r\nHost: shop.test\r\n\r\n", &[403], &[]),
    ("the second", "shop.test:443", "shop.test", "GET /a HTTP/1.1\r\nHost: shop.test\r\n\r\nGET /private HTTP/1.1\r\nHost: shop.test\r\n\r\n", &[200, 403], &["/a"]),
    ("in a body", "shop.test:443", "shop.test", "POST /a HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 43\r\n\r\nGET /private HTTP/1.1\r\nHost: shop.test\r\n\r\nx", &[200], &["/a"]),
    ("Host of another origin", "other.test:443", "other.test", "GET /private HTTP/1.1\r\nHost: shop.test\r\n\r\n", &[421], &[]),
    ("Host of another origin in the second", "other.test:443", "other.test", "GET /a HTTP/1.1\r\nHost: other.test\r\n\r\nGET /private HTTP/1.1\r\nHost: shop.test\r\n\r\n", &[200, 421], &["/a"]),
    ("Host with another port", "other.test:443", "other.test", "GET /a HTTP/1.1\r\nHost: other.test:8443\r\n\r\n", &[421], &[]),
    ("Host with the port of http", "other.test:443", "other.test", "GET /a HTTP/1.1\r\nHost: other.test:80\r\n\r\n", &[421], &[]),
    ("Host with its own port", "other.test:443", "other.test", "GET /a HTTP/1.1\r\nHost: other.test:443\r\n\r\n", &[200], &["/a"]),
    ("Host in capitals with a trailing dot", "other.test:443", "other.test", "GET /a HTTP/1.1\r\nHost: OTHER.test.\r\n\r\n", &[200], &["/a"]),
    ("Host below the origin", "other.test:443", "other.test", "GET /a HTTP/1.1\r\nHost: a.other.test\r\n\r\n", &[421], &[]),
    ("Host that is empty", "other.test:443", "other.test", "GET /a HTTP/1.1\r\nHost: \r\n\r\n", &[400], &[]),
    ("Host of an address", "other.test:443", "other.test", "GET /a HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", &[421], &[]),
    ("no Host", "other.test:443", "other.test", "GET /private HTTP/1.1\r\n\r\n", &[400], &[]),
    ("two Hosts", "other.test:443", "other.test", "GET /private HTTP/1.1\r\nHost: other.test\r\nHost: shop.test\r\n\r\n", &[400], &[]),
    ("absolute form of another origin", "other.test:443", "other.test", "GET https://shop.test/private HTTP/1.1\r\nHost: other.test\r\n\r\n", &[421], &[]),
    ("absolute form of http", "other.test:443", "other.test", "GET http://other.test/a HTTP/1.1\r\nHost: other.test\r\n\r\n", &[421], &[]),
    ("absolute form and Host of another origin", "other.test:443", "other.test", "GET https://other.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\n", &[421], &[]),
    ("userinfo in absolute form", "other.test:443", "other.test", "GET https://other.test@shop.test/private HTTP/1.1\r\nHost: other.test\r\n\r\n", &[421], &[]),
    ("the handshake names another host", "other.test:443", "shop.test", "GET /private HTTP/1.1\r\nHost: shop.test\r\n\r\n", &[], &[]),
    ("a tunnel inside", "other.test:443", "other.test", "CONNECT shop.test:443 HTTP/1.1\r\nHost: shop.test:443\r\n\r\n", &[400], &[]),
    ("a path without slash", "other.test:443", "other.test", "GET private HTTP/1.1\r\nHost: other.test\r\n\r\n", &[400], &[]),
    ("two slashes at the start are no host", "other.test:443", "other.test", "GET //shop.test/private HTTP/1.1\r\nHost: other.test\r\n\r\n", &[200], &["//shop.test/private"]),
    ("OPTIONS of a path with a scheme in it", "shop.test:443", "shop.test", "OPTIONS /private://x HTTP/1.1\r\nHost: shop.test\r\n\r\n", &[403], &[]),
    ("OPTIONS of an allowed path with a scheme in it", "shop.test:443", "shop.test", "OPTIONS /public://x HTTP/1.1\r\nHost: shop.test\r\n\r\n", &[200], &["/public://x"]),
    ("OPTIONS of a path that begins with a scheme", "shop.test:443", "shop.test", "OPTIONS /:// HTTP/1.1\r\nHost: shop.test\r\n\r\n", &[200], &["/://"]),
    ("OPTIONS of a URL in a query", "shop.test:443", "shop.test", "OPTIONS /?http://x HTTP/1.1\r\nHost: shop.test\r\n\r\n", &[200], &["/?http://x"]),
    ("OPTIONS of a URL without a path", "shop.test:443", "shop.test", "OPTIONS https://shop.test HTTP/1.1\r\nHost: shop.test\r\n\r\n", &[200], &["*"]),
    ("HTTP/2's preface without ALPN", "other.test:443", "other.test", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[505], &[]),
];

pub fn names() -> Vec<String> {
    let connects = CONNECTS.iter().map(|case| format!("connect: {}", case.name));
    let inside = INSIDE.iter().map(|(name, ..)| format!("inside: {name}"));
    connects.chain(inside).collect()
}

#[test]
fn invalid_connects_open_no_tunnel() {
    super::check_all(CONNECTS);
}

#[test]
fn requests_inside_a_tunnel_go_to_its_origin_only() {
    let origin = shop();
    let proxy = Wayleave::start(&origin);
    for row in INSIDE {
        check_inside(row, &origin, &proxy);
    }
}

#[track_caller]
fn check_inside(row: &Row, origin: &Origin, proxy: &Wayleave) {
    let (name, authority, server_name, bytes, expected, reaches) = row;
    let before = origin.requests().len();
    let mut wire = proxy.connect();
    assert_eq!(wire.connect_tunnel(authority).status, 200, "{name}");
    let Ok(secured) = wire.start_tls(server_name, &proxy.ca_pem(), &["http/1.1"]) else {
        // The certificate is not for the name of the handshake, which the client checks.
        assert!(expected.is_empty(), "{name}");
        return;
    };
    let mut wire = secured.wire;
    // Further requests are served in order, up to this last one.
    let last = format!("GET /last HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
    let _maybe_closed = wire.try_send(format!("{bytes}{last}"));
    let closes = expected.iter().any(|status| matches!(status, 400 | 505));
    let (mut expected, mut reaches) = (expected.to_vec(), reaches.to_vec());
    if !closes {
        expected.push(200);
        reaches.push("/last");
    }
    assert_eq!(statuses(&mut wire), expected, "{name}");
    assert_eq!(reached(origin, before), reaches, "{name}");
}
