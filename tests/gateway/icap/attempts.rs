//! Attempts to ask about one request and send another: a message that could be read in two ways gets no leave.

use super::{IcapGated, chunked, get, reqmod, respmod};
use crate::gateway::ROBOTS;
use crate::harness::Origin;

const PRIVATE: &str = "GET http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\n\r\n";

/// Fields of a REQMOD about a head of N bytes, and the status by which it is refused.
const OF_REQUESTS: &[(&str, &str, u16)] = &[
    ("no parts", "", 400),
    ("a head that ends too early", "Encapsulated: req-hdr=0, null-body=N-2\r\n", 400),
    ("a body where none is", "Encapsulated: req-hdr=0, res-body=N\r\n", 400),
    (
        "parts twice",
        "Encapsulated: req-hdr=0, null-body=N\r\nEncapsulated: req-hdr=0, null-body=N\r\n",
        400,
    ),
    ("another length", "Encapsulated: req-hdr=0, null-body=N\r\nContent-Length: 5\r\n", 400),
    ("chunks", "Encapsulated: req-hdr=0, null-body=N\r\nTransfer-Encoding: chunked\r\n", 400),
    ("a folded field", "Encapsulated: req-hdr=0, null-body=N\r\n x\r\n", 400),
    ("a bare LF", "Encapsulated: req-hdr=0, null-body=N\nX: y\r\n", 400),
    ("a NUL", "Encapsulated: req-hdr=0, null-body=N\r\nX: \0\r\n", 400),
    (
        "two clients",
        "Encapsulated: req-hdr=0, null-body=N\r\nX-Client-IP: 10.0.0.1\r\nX-Client-IP: 10.0.0.2\r\n",
        400,
    ),
    (
        "a client that is none",
        "Encapsulated: req-hdr=0, null-body=N\r\nX-Client-IP: shop.test\r\n",
        400,
    ),
    ("long heads inside", "Encapsulated: req-hdr=0, null-body=600000\r\n", 413),
];

/// Fields of a RESPMOD about a request's head of N bytes and a response's of 19.
const OF_RESPONSES: &[(&str, &str)] = &[
    ("offsets that do not increase", "Encapsulated: req-hdr=0, res-hdr=N, res-body=N\r\n"),
    ("a response without its request", "Encapsulated: res-hdr=0, res-body=19\r\n"),
    ("a request's body", "Encapsulated: req-hdr=0, req-body=N\r\n"),
    (
        "a decision that is none",
        "Encapsulated: req-hdr=0, res-hdr=N, res-body=N+19\r\nWayleave-Decision: x\r\n",
    ),
];

/// Fields and bodies of a REQMOD.
const BODIES: &[(&str, &str, &str)] = &[
    ("a preview that is too long", "Preview: 4\r\n", "5\r\nhello\r\n0\r\n\r\n"),
    (
        "a message hidden behind a preview",
        "Preview: 0\r\n",
        "0\r\n\r\nREQMOD icap://a/request ICAP/1.0\r\n",
    ),
    ("ieof without a preview", "Allow: 204\r\n", "5\r\nhello\r\n0; ieof\r\n\r\n"),
    ("a chunk longer than its size", "Allow: 204\r\n", "3\r\nhello\r\n0\r\n\r\n"),
    ("trailers", "Allow: 204\r\n", "0\r\nX-Sum: 1\r\n\r\n"),
    ("a chunk extension", "Allow: 204\r\n", "1;a=b\r\nx\r\n0\r\n\r\n"),
    ("a long size", "Allow: 204\r\n", "00000000000000001\r\nx\r\n0\r\n\r\n"),
];

/// Returns messages with the status by which each is refused, after which the connection closes.
fn malformed() -> Vec<(&'static str, String, u16)> {
    let head = get("http://shop.test/a", "");
    let length = head.len();
    let with_lengths = |fields: &str| {
        let fields = fields.replace("=N-2", &format!("={}", length - 2));
        let fields = fields.replace("=N+19", &format!("={}", length + 19));
        fields.replace("=N", &format!("={length}"))
    };
    let of_requests = OF_REQUESTS.iter().map(|(name, fields, status)| {
        let fields = with_lengths(fields);
        let line = "REQMOD icap://a/request ICAP/1.0\r\nAllow: 204\r\n";
        (*name, format!("{line}{fields}\r\n{head}"), *status)
    });
    let of_responses = OF_RESPONSES.iter().map(|(name, fields)| {
        let fields = with_lengths(fields);
        let line = "RESPMOD icap://a/response ICAP/1.0\r\n";
        let rest = "HTTP/1.1 200 OK\r\n\r\n0\r\n\r\n";
        (*name, format!("{line}{fields}\r\n{head}{rest}"), 400)
    });
    let bodies =
        BODIES.iter().map(|(name, fields, body)| (*name, reqmod(&head, fields, Some(body)), 400));
    let asked = |head: &str| reqmod(head, "Allow: 204\r\n", None);
    let whole = asked(&head);
    let others = [
        ("two heads in one part", asked(&format!("{head}{PRIVATE}")), 400),
        ("an empty line before the head", asked(&format!("\r\n{head}")), 400),
        ("an empty line behind the head", asked(&format!("{head}\r\n")), 400),
        ("an empty line before the message", format!("\r\n{whole}"), 400),
        ("another service", whole.replacen("/request", "/scan", 1), 404),
        ("another method", whole.replacen("REQMOD", "RESPMOD", 1), 405),
        ("another version", whole.replacen("ICAP/1.0", "ICAP/1.1", 1), 505),
        ("a long head", whole.replacen("Host: ", &"x".repeat(17_000), 1), 413),
        ("HTTP", head.clone(), 400),
    ];
    of_requests.chain(of_responses).chain(bodies).chain(others).collect()
}

#[test]
fn a_message_that_could_be_read_in_two_ways_ends_the_connection() {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    let gated = IcapGated::start(&origin);
    for (name, message, status) in malformed() {
        let mut wire = gated.connect();
        wire.0.send(&message);
        let answer = wire.answer().icap;
        assert_eq!(answer.status, status, "{name}: {answer:?}");
        assert_eq!(answer.header("connection"), Some("close"), "{name}");
        wire.0.expect_close();
    }
    let seen = origin.seen();
    assert!(seen.iter().all(|line| line.ends_with("/robots.txt")), "{seen:?}");
    assert_eq!(gated.request(&get("http://shop.test/a", "")).icap.status, 204);
}

/// Heads inside that the proxy would not have read, or not for this target.
const HEADS: &[(&str, &str)] = &[
    ("a folded field", "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n x\r\n\r\n"),
    ("a NUL", "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nX: \0\r\n\r\n"),
    ("two hosts", "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nHost: b.test\r\n\r\n"),
    (
        "the same host twice",
        "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nHost: shop.test\r\n\r\n",
    ),
    ("another host", "GET http://shop.test/a HTTP/1.1\r\nHost: b.test\r\n\r\n"),
    ("another port", "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test:81\r\n\r\n"),
    ("no host", "GET http://shop.test/a HTTP/1.1\r\n\r\n"),
    ("userinfo in Host", "GET http://shop.test/a HTTP/1.1\r\nHost: a@shop.test\r\n\r\n"),
    ("a path alone", "GET /a HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    (
        "a target in two words",
        "GET http://shop.test/a /private HTTP/1.1\r\nHost: shop.test\r\n\r\n",
    ),
    (
        "two names",
        "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: a\r\nUser-Agent: b\r\n\r\n",
    ),
    (
        "two lengths",
        "POST http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    ),
    (
        "a length beside chunks",
        "POST http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    ),
    (
        "another path for the server",
        "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nX-Original-URL: /private\r\n\r\n",
    ),
    (
        "a spelling of a private path",
        "GET http://shop.test/a/../%70rivate HTTP/1.1\r\nHost: shop.test\r\n\r\n",
    ),
    ("another version", "GET http://shop.test/a HTTP/2.0\r\nHost: shop.test\r\n\r\n"),
    (
        "a tunnel in which nobody looks",
        "CONNECT shop.test:443 HTTP/1.1\r\nHost: shop.test:443\r\n\r\n",
    ),
];

#[test]
fn a_head_inside_that_is_not_clear_is_refused_as_the_proxy_does() {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    let gated = IcapGated::start(&origin);
    let mut wire = gated.connect();
    for (name, head) in HEADS {
        for (fields, body) in [("Allow: 204\r\n", None), ("Preview: 0\r\n", Some("0\r\n\r\n"))] {
            wire.0.send(reqmod(head, fields, body));
            let answer = wire.answer();
            let status = answer.http_status();
            assert!(matches!(status, Some(400 | 403 | 421 | 505)), "{name}: {answer:?}");
        }
        wire.0.send(respmod(head, "HTTP/1.1 200 OK\r\n\r\n", "Preview: 0\r\n", Some("0\r\n\r\n")));
        let answer = wire.answer();
        assert!(answer.http_status().is_some_and(|status| status >= 400), "{name}: {answer:?}");
    }
    // A bare LF ends no line of ICAP, nor one inside.
    let bare = "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\nX: y\r\n\r\n";
    wire.0.send(reqmod(bare, "Allow: 204\r\n", None));
    assert_eq!(wire.answer().http_status(), Some(400));
    // One that is longer than the proxy reads gets the proxy's answer, and keeps its gateway.
    let long = get("http://shop.test/a", &format!("X: {}\r\n", "x".repeat(70_000)));
    wire.0.send(reqmod(&long, "Allow: 204\r\n", None));
    assert_eq!(wire.answer().http_status(), Some(431));
    wire.0.send(reqmod(&get("http://shop.test/a", ""), "Allow: 204\r\n", Some(&chunked("x"))));
    assert_eq!(wire.answer().icap.status, 204);
    let seen = origin.seen();
    assert!(seen.iter().all(|line| line.ends_with("/robots.txt")), "{seen:?}");
}

#[test]
fn a_body_that_is_cut_short_gets_no_leave() {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    let gated = IcapGated::start(&origin);
    let head = get("http://shop.test/a", "");
    for (fields, body) in [
        ("Allow: 204\r\n", "5\r\nhel"),
        ("Allow: 204\r\n", "5\r\nhello\r\n"),
        ("Allow: 204\r\n", "5\r\nhello\r\n0\r\n"),
        ("Preview: 5\r\n", "5\r\nhello\r\n"),
    ] {
        let mut wire = gated.connect();
        wire.0.send(reqmod(&head, fields, Some(body)));
        wire.0.tcp.shutdown(std::net::Shutdown::Write).expect("it is open");
        assert!(wire.head().is_none(), "{fields} {body}");
    }
}
