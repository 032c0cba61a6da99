//! Contradictory and incomplete HTTP/2 heads to the proxy itself, which can name any origin.

use crate::harness::h2_frames::{
    CANCEL, DATA, END_HEADERS, END_STREAM, Frame, HEADERS, RST_STREAM, block, connect, frame,
    open_proxied,
};
use crate::harness::{Origin, eventually};
use crate::requests::tls_listener::start;
use crate::security::shop;

/// The expected outcome of a request. Nothing of `Refused` reaches an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    Refused,
    Reaches(&'static str),
    /// A tunnel opens, and no request was sent by it yet.
    Opens,
}
use Expect::{Opens, Reaches, Refused};

/// `(name, fields in their order, what is expected)`
type Row = (&'static str, &'static [(&'static str, &'static str)], Expect);

const M: (&str, &str) = (":method", "GET");
const S: (&str, &str) = (":scheme", "http");
const A: (&str, &str) = (":authority", "other.test");
const P: (&str, &str) = (":path", "/a");
const C: (&str, &str) = (":method", "CONNECT");
const T: (&str, &str) = (":authority", "other.test:443");

#[rustfmt::skip]
const HEADS: &[Row] = &[
    ("as it should be", &[M, S, A, P], Reaches("GET http://other.test/a")),
    ("the scheme https", &[M, (":scheme", "https"), A, P], Reaches("GET https://other.test/a")),
    ("a disallowed path", &[M, S, (":authority", "shop.test"), (":path", "/private")], Refused),
    ("a disallowed path in another spelling", &[M, S, (":authority", "SHOP.test:80"), (":path", "/%70rivate")], Refused),
    ("no authority", &[M, S, P], Refused),
    ("an empty authority", &[M, S, (":authority", ""), P], Refused),
    ("Host alone", &[M, S, P, ("host", "other.test")], Refused),
    ("Host of another origin", &[M, S, A, P, ("host", "shop.test")], Refused),
    ("Host of another port", &[M, S, A, P, ("host", "other.test:81")], Refused),
    ("the same Host", &[M, S, A, P, ("host", "other.test")], Reaches("GET http://other.test/a")),
    ("another host in X-Forwarded-Host", &[M, S, A, P, ("x-forwarded-host", "shop.test")], Refused),
    ("another host in Forwarded", &[M, S, A, P, ("forwarded", "host=shop.test")], Refused),
    ("another path in X-Forwarded-Uri", &[M, S, A, P, ("x-forwarded-uri", "/b")], Refused),
    ("the same host in X-Forwarded-Host", &[M, S, A, P, ("x-forwarded-host", "other.test")], Reaches("GET http://other.test/a")),
    ("two Hosts", &[M, S, A, P, ("host", "other.test"), ("host", "shop.test")], Refused),
    ("two authorities", &[M, S, A, (":authority", "shop.test"), P], Refused),
    ("two schemes", &[M, S, (":scheme", "https"), A, P], Refused),
    ("an authority with a path", &[M, S, (":authority", "other.test/x"), P], Refused),
    ("an authority with a path that hides one", &[M, S, (":authority", "shop.test/private?"), P], Refused),
    ("an authority with a fragment", &[M, S, (":authority", "shop.test#"), P], Refused),
    ("an authority with a question mark", &[M, S, (":authority", "shop.test?x="), P], Refused),
    ("an authority with a backslash", &[M, S, (":authority", "shop.test\\"), P], Refused),
    ("a path without slash", &[M, S, A, (":path", "private")], Refused),
    ("a path that would go on the host", &[M, S, (":authority", "shop"), (":path", ".test/private")], Refused),
    ("a path that would make userinfo of the authority", &[M, S, (":authority", "other.test"), (":path", "@shop.test/private")], Refused),
    ("a URL for a path", &[M, S, A, (":path", "http://shop.test/private")], Refused),
    ("a path that begins with two slashes", &[M, S, A, (":path", "//shop.test/private")], Reaches("GET http://other.test//shop.test/private")),
    ("a query for a path", &[M, S, A, (":path", "?x")], Refused),
    ("an asterisk with GET", &[M, S, A, (":path", "*")], Refused),
    ("OPTIONS with an asterisk", &[(":method", "OPTIONS"), S, A, (":path", "*")], Reaches("OPTIONS http://other.test*")),
    ("an unknown scheme", &[M, (":scheme", "gopher"), A, P], Refused),
    ("a scheme with more behind it", &[M, (":scheme", "http://shop.test/private?"), A, P], Refused),
    ("a scheme that is a whole URL's begin", &[M, (":scheme", "http://shop.test"), A, P], Refused),
    ("no scheme", &[M, A, P], Refused),
    ("FTP with another method", &[(":method", "POST"), (":scheme", "ftp"), A, P], Refused),
    ("Transfer-Encoding", &[M, S, A, P, ("transfer-encoding", "chunked")], Refused),
    ("Connection", &[M, S, A, P, ("connection", "close")], Refused),
    ("Upgrade", &[M, S, A, P, ("upgrade", "websocket")], Refused),
    ("Proxy-Connection", &[M, S, A, P, ("proxy-connection", "keep-alive")], Refused),
    ("a length without a body", &[M, S, A, P, ("content-length", "5")], Refused),
    ("TRACE that ends here", &[(":method", "TRACE"), S, A, P, ("max-forwards", "0")], Opens),
    ("CONNECT as it should be", &[C, T], Opens),
    ("CONNECT where something is disallowed", &[C, (":authority", "shop.test:443")], Opens),
    ("CONNECT with the same Host", &[C, T, ("host", "other.test:443")], Opens),
    ("CONNECT with another Host", &[C, T, ("host", "shop.test:443")], Refused),
    ("CONNECT without a port", &[C, A], Refused),
    ("CONNECT without an authority", &[C], Refused),
    ("CONNECT with Host alone", &[C, ("host", "other.test:443")], Refused),
    ("CONNECT with a scheme", &[C, S, T], Refused),
    ("CONNECT with a path", &[C, T, P], Refused),
    ("CONNECT with all", &[C, S, T, P], Refused),
    ("CONNECT for a path", &[C, (":authority", "other.test/a:443")], Refused),
    ("CONNECT to an internal address", &[C, (":authority", "169.254.169.254:80")], Refused),
    ("CONNECT with a length", &[C, T, ("content-length", "5")], Refused),
    ("CONNECT with two lengths", &[C, T, ("content-length", "0"), ("content-length", "0")], Refused),
    ("extended CONNECT", &[C, (":protocol", "websocket"), S, A, P], Refused),
    ("extended CONNECT with a port for a path", &[C, (":protocol", "websocket"), S, A, (":path", "/:443")], Refused),
    ("extended CONNECT without a path", &[C, (":protocol", "websocket"), T], Refused),
];

pub fn names() -> Vec<String> {
    let heads = HEADS.iter().map(|(name, ..)| format!("proxied http2: {name}"));
    heads.collect()
}

fn reached(origin: &Origin, before: usize) -> Vec<String> {
    let seen = origin.seen().into_iter().skip(before);
    seen.filter(|line| !line.ends_with("/robots.txt")).collect()
}

#[test]
fn no_head_to_the_proxy_has_two_meanings() {
    let origin = shop();
    let tls_proxy = start(&origin, |settings| settings);
    origin.site("shop.test").disallows("/private");
    for (name, fields, expected) in HEADS {
        let before = origin.requests().len();
        let mut wire = open_proxied(tls_proxy.tls);
        let mut fields = fields.to_vec();
        fields.push(("user-agent", "ExampleBot/1.0"));
        // A tunnel is not ended with its head.
        let flags = match fields[0] {
            C => END_HEADERS,
            _ => END_HEADERS | END_STREAM,
        };
        wire.send(frame(HEADERS, flags, 1, &block(&fields)));
        let outcome = wire.outcome(1);
        let is_200 = outcome.as_ref().is_some_and(Frame::is_200);
        let reached = reached(&origin, before);
        let targets: Vec<&str> = reached.iter().map(String::as_str).collect();
        match expected {
            Reaches(target) => assert_eq!((is_200, targets), (true, vec![*target]), "{name}"),
            Opens => assert_eq!((is_200, targets), (true, vec![]), "{name}"),
            Refused => assert_eq!((is_200, targets), (false, vec![]), "{name}: {outcome:?}"),
        }
    }
}

#[test]
fn a_tunnel_inside_a_tunnel_is_refused_and_trailers_end_one() {
    let origin = shop();
    let tls_proxy = start(&origin, |settings| settings);
    // Plain HTTP/1 inside.
    let mut wire = open_proxied(tls_proxy.tls);
    wire.send(connect(1, "other.test:80"));
    assert!(wire.stream_is_200(1));
    let inner = b"CONNECT shop.test:443 HTTP/1.1\r\nHost: shop.test:443\r\n\r\n";
    wire.send(frame(DATA, 0, 1, inner));
    let answer = wire.data(1);
    assert!(answer.starts_with(b"HTTP/1.1 400 "), "{}", String::from_utf8_lossy(&answer));
    // Content after the head of a CONNECT is the tunnel's, and trailers have no effect.
    let mut wire = open_proxied(tls_proxy.tls);
    wire.send(connect(1, "other.test:80"));
    wire.send(frame(DATA, 0, 1, b"GET /a HTTP/1.1\r\nHost: other.test\r\n\r\n"));
    assert!(wire.stream_is_200(1));
    assert!(wire.data(1).starts_with(b"HTTP/1.1 200 "));
    let trailers = [("host", "shop.test"), ("x-sum", "42")];
    let ends = END_HEADERS | END_STREAM;
    wire.send(frame(HEADERS, ends, 1, &block(&trailers)));
    wire.send(frame(HEADERS, ends, 3, &block(&[M, S, A, P])));
    assert!(wire.stream_is_200(3));
    let expected = ["GET http://other.test/a"; 2];
    assert_eq!(reached(&origin, 0), expected);
}

#[test]
fn a_reset_ends_a_tunnel_and_frees_its_connection() {
    let origin = shop();
    let tls_proxy =
        start(&origin, |settings| settings.set("proxy.max_connections_per_client", "2"));
    let mut wire = open_proxied(tls_proxy.tls);
    wire.send(connect(1, T.1));
    assert!(wire.stream_is_200(1));
    // The connection and the tunnel are counted as two.
    wire.send(connect(3, T.1));
    assert!(!wire.stream_is_200(3));
    wire.send(frame(RST_STREAM, 0, 1, &CANCEL));
    let mut stream = 3;
    eventually("the connection is free", || {
        stream += 2;
        wire.send(connect(stream, T.1));
        wire.stream_is_200(stream)
    });
}
