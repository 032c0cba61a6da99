//! Contradictory and incomplete HTTP/2 heads inside a tunnel to `other.test`, where everything is allowed.

use super::{reached, shop};
use crate::harness::h2_frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, begin, block, frame, get, open, request,
};
use crate::harness::origin::reply::Framing;
use crate::harness::{Origin, Reply, Request, Response, Wayleave, Wire};
use crate::requests::captured::start;

/// The expected outcome of a request. Nothing of `Refused` reaches the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    Refused,
    Reaches(&'static str),
}
use Expect::{Reaches, Refused};

/// `(name, fields in their order, what is expected)`
type Row = (&'static str, &'static [(&'static str, &'static str)], Expect);

const M: (&str, &str) = (":method", "GET");
const S: (&str, &str) = (":scheme", "https");
const A: (&str, &str) = (":authority", "other.test");
const P: (&str, &str) = (":path", "/a");

#[rustfmt::skip]
const HEADS: &[Row] = &[
    ("as it should be", &[M, S, A, P], Reaches("/a")),
    ("another order", &[P, A, S, M], Reaches("/a")),
    ("another authority", &[M, S, (":authority", "shop.test"), P], Refused),
    ("another port", &[M, S, (":authority", "other.test:8443"), P], Refused),
    ("its own port", &[M, S, (":authority", "other.test:443"), P], Reaches("/a")),
    ("userinfo", &[M, S, (":authority", "shop.test@other.test"), P], Refused),
    ("an authority with a path", &[M, S, (":authority", "other.test/private"), P], Refused),
    ("an authority with a space", &[M, S, (":authority", "other.test shop.test"), P], Refused),
    ("an authority with a line end", &[M, S, (":authority", "other.test\r\nx: y"), P], Refused),
    ("an empty authority", &[M, S, (":authority", ""), P], Refused),
    ("Host of another origin", &[M, S, A, P, ("host", "shop.test")], Refused),
    ("Host of another origin alone", &[M, S, P, ("host", "shop.test")], Refused),
    ("Host alone", &[M, S, P, ("host", "other.test")], Reaches("/a")),
    ("another host in X-Forwarded-Host", &[M, S, A, P, ("x-forwarded-host", "shop.test")], Refused),
    ("another host in Forwarded", &[M, S, A, P, ("forwarded", "for=192.0.2.1;host=shop.test")], Refused),
    ("another path in X-Original-URI", &[M, S, A, P, ("x-original-uri", "/b")], Refused),
    ("the same host in X-Forwarded-Host", &[M, S, A, P, ("x-forwarded-host", "other.test")], Reaches("/a")),
    ("two Hosts", &[M, S, A, P, ("host", "other.test"), ("host", "shop.test")], Refused),
    ("two authorities", &[M, S, A, (":authority", "shop.test"), P], Refused),
    ("two paths", &[M, S, A, P, (":path", "/b")], Refused),
    ("two methods", &[M, (":method", "POST"), S, A, P], Refused),
    ("two schemes", &[M, S, (":scheme", "http"), A, P], Refused),
    ("no path", &[M, S, A], Refused),
    ("an empty path", &[M, S, A, (":path", "")], Refused),
    ("no method", &[S, A, P], Refused),
    ("no scheme", &[M, A, P], Refused),
    ("the scheme http", &[M, (":scheme", "http"), A, P], Refused),
    ("an unknown scheme", &[M, (":scheme", "ftp"), A, P], Refused),
    ("a path without slash", &[M, S, A, (":path", "private")], Refused),
    ("a URL for a path", &[M, S, A, (":path", "https://shop.test/private")], Refused),
    ("an asterisk with GET", &[M, S, A, (":path", "*")], Refused),
    ("a path with a space", &[M, S, A, (":path", "/a /b")], Refused),
    ("a path with a line end", &[M, S, A, (":path", "/a HTTP/1.1\r\nHost: shop.test")], Refused),
    ("a path with a tab", &[M, S, A, (":path", "/a\tb")], Refused),
    ("a path with a NUL", &[M, S, A, (":path", "/a\0b")], Refused),
    ("a path with a fragment", &[M, S, A, (":path", "/a#/../b")], Reaches("/a")),
    ("CONNECT", &[(":method", "CONNECT"), (":authority", "shop.test:443")], Refused),
    ("extended CONNECT", &[(":method", "CONNECT"), (":protocol", "websocket"), S, A, P], Refused),
    ("a method with a space", &[(":method", "GET /b"), S, A, P], Refused),
    ("an unknown pseudo-header field", &[M, S, A, P, (":other", "x")], Refused),
    ("a status", &[M, S, A, P, (":status", "200")], Refused),
    ("a pseudo-header field behind others", &[M, S, A, ("x", "y"), P], Refused),
    ("a name in capitals", &[M, S, A, P, ("X-Y", "z")], Refused),
    ("a name with a colon", &[M, S, A, P, ("x:y", "z")], Refused),
    ("a name with a space", &[M, S, A, P, ("x y", "z")], Refused),
    ("a name with a line end", &[M, S, A, P, ("x\r\nhost", "shop.test")], Refused),
    ("an empty name", &[M, S, A, P, ("", "z")], Refused),
    ("a value with a line end", &[M, S, A, P, ("x", "y\r\nhost: shop.test")], Refused),
    ("a value with a NUL", &[M, S, A, P, ("x", "y\0z")], Refused),
    ("Transfer-Encoding", &[M, S, A, P, ("transfer-encoding", "chunked")], Refused),
    ("Connection", &[M, S, A, P, ("connection", "close")], Refused),
    ("Upgrade", &[M, S, A, P, ("upgrade", "websocket")], Refused),
    ("Proxy-Connection", &[M, S, A, P, ("proxy-connection", "keep-alive")], Refused),
    ("TE with more than trailers", &[M, S, A, P, ("te", "gzip")], Refused),
    ("a length without a body", &[M, S, A, P, ("content-length", "5")], Refused),
    ("a length that is none", &[M, S, A, P, ("content-length", "x")], Refused),
    ("an empty length", &[M, S, A, P, ("content-length", "")], Refused),
    ("a length with a plus", &[M, S, A, P, ("content-length", "+0")], Refused),
    ("a list of lengths", &[M, S, A, P, ("content-length", "0, 0")], Refused),
    ("a length of zero", &[M, S, A, P, ("content-length", "0")], Reaches("/a")),
    ("user_agent", &[M, S, A, P, ("user-agent", "x"), ("user_agent", "y")], Refused),
    ("content_length", &[M, S, A, P, ("content_length", "5")], Refused),
    ("another name with an underscore", &[M, S, A, P, ("x_y", "z")], Reaches("/a")),
    ("Keep-Alive", &[M, S, A, P, ("keep-alive", "timeout=5")], Refused),
    ("TE with trailers", &[M, S, A, P, ("te", "trailers")], Reaches("/a")),
    ("a method in small letters", &[(":method", "get"), S, A, P], Refused),
    ("OPTIONS of a path with a scheme in it", &[(":method", "OPTIONS"), S, A, (":path", "/public://x")], Reaches("/public://x")),
    ("OPTIONS of a path that begins with a scheme", &[(":method", "OPTIONS"), S, A, (":path", "/://x")], Reaches("/://x")),
    ("OPTIONS with an asterisk", &[(":method", "OPTIONS"), S, A, (":path", "*")], Reaches("*")),
    ("two lengths", &[M, S, A, P, ("content-length", "0"), ("content-length", "0")], Refused),
];

/// The rows that name another host unambiguously.
const ANOTHER_HOST: [&str; 2] = ["another authority", "Host of another origin alone"];

pub fn names() -> Vec<String> {
    let heads = HEADS.iter().map(|(name, ..)| format!("http2: {name}"));
    heads.collect()
}

#[test]
fn no_head_of_http_2_has_two_meanings() {
    let origin = shop();
    let proxy = Wayleave::start(&origin);
    for (name, fields, expected) in HEADS {
        let wire = open(&proxy, "other.test:443");
        check_head(&origin, wire, name, fields, *expected);
    }
}

/// Over a captured connection each request names its host, as in HTTP/1.
#[test]
fn no_head_in_the_clear_has_two_meanings() {
    let origin = shop();
    let captured = start(&origin, |settings| settings);
    for (name, fields, expected) in HEADS {
        let in_clear = |value| match value {
            "https" => "http",
            "http" => "https",
            "other.test:443" => "other.test:80",
            value => value,
        };
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, in_clear(value))).collect();
        let expected = if ANOTHER_HOST.contains(name) { Reaches("/a") } else { *expected };
        check_head(&origin, begin(captured.open("other.test", 80)), name, &fields, expected);
    }
}

#[track_caller]
fn check_head(
    origin: &Origin,
    mut wire: Wire,
    name: &str,
    fields: &[(&str, &str)],
    expected: Expect,
) {
    let before = origin.requests().len();
    wire.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(fields)));
    let outcome = wire.outcome(1);
    let is_200 = outcome.is_some_and(|frame| frame.is_200());
    let reached = reached(origin, before);
    match expected {
        Reaches(target) => {
            assert_eq!((is_200, reached), (true, vec![target.to_owned()]), "{name}");
        }
        Refused => assert_eq!((is_200, reached), (false, vec![]), "{name}"),
    }
}

#[test]
fn a_body_is_as_long_as_its_length() {
    let origin = shop();
    origin.site("old.test").http1_only();
    let proxy = Wayleave::start(&origin);
    for host in ["other.test", "old.test"] {
        for (length, body) in [("3", "hello"), ("9", "hello")] {
            let fields =
                [(":method", "POST"), S, (":authority", host), P, ("content-length", length)];
            let mut wire = open(&proxy, &format!("{host}:443"));
            wire.send(frame(HEADERS, END_HEADERS, 1, &block(&fields)));
            wire.send(frame(DATA, END_STREAM, 1, body.as_bytes()));
            let outcome = wire.outcome(1);
            assert!(!outcome.is_some_and(|frame| frame.is_200()), "{host} {length}");
        }
    }
    let complete = origin.requests().into_iter();
    let complete: Vec<_> =
        complete.filter(|request| request.target == "/a" && request.body().complete).collect();
    assert!(complete.is_empty(), "{complete:?}");
    // The next message on the origin's connection is not taken for the rest of a body.
    assert_eq!(proxy.get("https://old.test/b").status, 200);
}

#[test]
fn content_has_one_length_that_is_a_number_or_none() {
    let origin = shop();
    origin.site("old.test").http1_only();
    let proxy = Wayleave::start(&origin);
    let lengths: [&[&str]; 5] = [&[""], &["", ""], &["5", "5"], &["05", "5"], &["0", ""]];
    for host in ["other.test", "old.test"] {
        for content in ["", "hello"] {
            for values in lengths {
                let mut fields = vec![(":method", "POST"), S, (":authority", host), P];
                fields.extend(values.iter().map(|value| ("content-length", *value)));
                let mut wire = open(&proxy, &format!("{host}:443"));
                wire.send(frame(HEADERS, END_HEADERS, 1, &block(&fields)));
                wire.send(frame(DATA, END_STREAM, 1, content.as_bytes()));
                let outcome = wire.outcome(1);
                assert!(
                    !outcome.is_some_and(|frame| frame.is_200()),
                    "{host} {values:?} {content:?}"
                );
            }
        }
    }
    assert_eq!(reached(&origin, 0), [""; 0]);
}

#[test]
fn an_origins_lengths_are_one_number_or_an_error() {
    let origin = shop();
    let site = origin.site("new.test").http2_only();
    let page = |values: &[&str]| {
        let reply = Reply::new(200).framing(Framing::Chunked).body("ok");
        let add = |reply: Reply, value: &&str| reply.header("content-length", value);
        values.iter().fold(reply, add)
    };
    site.page("/one", page(&["2"]))
        .page("/two", page(&["2", "2"]))
        .page("/zeros", page(&["02", "2"]))
        .page("/none", page(&[]))
        .page("/different", page(&["2", "3"]))
        .page("/empty", page(&[""]))
        .page("/list", page(&["2, 2"]))
        .page("/sign", page(&["+2"]));
    let proxy = Wayleave::start(&origin);
    let lengths = |answer: &Response| {
        let named = answer.headers.iter();
        let named = named.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        named.map(|(_, value)| value.clone()).collect::<Vec<_>>()
    };
    let client = proxy.http2("new.test:443");
    for path in ["/one", "/two", "/zeros", "/none"] {
        let url = format!("https://new.test{path}");
        for answer in [proxy.get(&url), client.get(path)] {
            assert_eq!((answer.status, answer.text().as_str()), (200, "ok"), "{path}");
            let expected: &[&str] = if path == "/none" { &[] } else { &["2"] };
            assert_eq!(lengths(&answer), expected, "{path}");
        }
    }
    for path in ["/different", "/empty", "/list", "/sign"] {
        let url = format!("https://new.test{path}");
        for method in ["GET", "HEAD"] {
            let answer = proxy.exchange(&Request::new(method, &url));
            assert_eq!(answer.status, 502, "{method} {path}: {answer:?}");
        }
        assert_eq!(client.get(path).status, 502, "{path}");
    }
}

#[test]
fn a_head_in_pieces_is_one_head() {
    let origin = shop();
    let proxy = Wayleave::start(&origin);
    let mut wire = open(&proxy, "shop.test:443");
    let fields = block(&get("shop.test", "/private"));
    let (first, second) = fields.split_at(fields.len() / 2);
    wire.send(frame(HEADERS, END_STREAM, 1, first));
    wire.send(frame(CONTINUATION, END_HEADERS, 1, second));
    let outcome = wire.outcome(1).expect("a response");
    assert!(outcome.kind == HEADERS && !outcome.is_200(), "{outcome:?}");
    // Nothing may come between the pieces.
    let mut wire = open(&proxy, "shop.test:443");
    wire.send(frame(HEADERS, END_STREAM, 1, first));
    wire.send(request(3, "shop.test", "/a"));
    assert!(!wire.stream_is_200(3));
    assert_eq!(reached(&origin, 0), [""; 0]);
}

#[test]
fn trailers_do_not_affect_framing_and_routing() {
    let origin = shop();
    origin.site("old.test").http1_only();
    let proxy = Wayleave::start(&origin);
    let trailers =
        [("content-length", "60"), ("host", "shop.test"), ("cookie", "a=b"), ("x-sum", "42")];
    for host in ["old.test", "new.test"] {
        let mut wire = open(&proxy, &format!("{host}:443"));
        let head = [(":method", "POST"), S, (":authority", host), P];
        wire.send(frame(HEADERS, END_HEADERS, 1, &block(&head)));
        wire.send(frame(DATA, 0, 1, b"hello"));
        let ends = END_HEADERS | END_STREAM;
        wire.send(frame(HEADERS, ends, 1, &block(&trailers)));
        assert!(wire.stream_is_200(1), "{host}");
        let requests = origin.requests();
        let request = requests.last().expect("it arrived");
        let passed: Vec<_> = request.body().trailers;
        assert_eq!(passed, [("x-sum".to_owned(), "42".to_owned())], "{host}");
    }
}
