//! Trailers, which may not have fields for decisions, framing or routing, because the decision has been made.

use crate::harness::h2_frames::{DATA, END_HEADERS, END_STREAM, HEADERS, block, frame, open};
use crate::harness::{Origin, Reply, Request, Wayleave};

use super::shop;

/// Fields that do not pass in either direction.
const STOPPED: &[&str] = &[
    "user-agent",
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "proxy-connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "via",
    "cookie",
    "set-cookie",
    "authorization",
    "proxy-authorization",
    "proxy-status",
    "forwarded",
    "from",
    "referer",
    "origin",
    "accept",
    "accept-encoding",
    "range",
    "if-none-match",
    "expect",
    "max-forwards",
    "cache-control",
    "location",
    "content-type",
    "content-encoding",
    "alt-svc",
    "sec-websocket-key",
    "signature",
    "wayleave-preferences",
    "anything-else",
];

/// Fields that pass: those whose definitions allow them in trailers, and those without a definition.
const PASSED: &[&str] = &[
    "content-digest",
    "repr-digest",
    "digest",
    "etag",
    "server-timing",
    "grpc-status",
    "grpc-message",
    "x-sum",
];

/// Fields that HTTP/2 forbids anywhere (RFC 9113 section 8.2.2).
const NOT_IN_HTTP_2: &[&str] =
    &["transfer-encoding", "connection", "proxy-connection", "keep-alive", "upgrade", "te"];

pub fn names() -> Vec<String> {
    let names = STOPPED.iter().chain(PASSED);
    names.map(|name| format!("trailer: {name}")).collect()
}

/// Returns the names of the trailers that reached the origin.
fn arrived(origin: &Origin) -> Vec<String> {
    let body = origin.requests().last().expect("a request").body();
    body.trailers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect()
}

#[test]
fn trailers_of_requests_pass_by_an_allowlist() {
    let origin = shop();
    let proxy = Wayleave::start(&origin);
    for name in STOPPED.iter().chain(PASSED) {
        let trailer = format!("0\r\n{name}: 1\r\n\r\n");
        let request = Request::new("POST", "http://shop.test/a")
            .header("Trailer", name)
            .header("Transfer-Encoding", "chunked")
            .body(trailer);
        assert_eq!(proxy.exchange(&request).status, 200, "{name}");
        let passes = PASSED.contains(name);
        assert_eq!(arrived(&origin) == [*name], passes, "{name}");
    }
}

#[test]
fn trailers_of_http_2_pass_by_the_same_list() {
    let origin = shop();
    origin.site("old.test").http1_only();
    let proxy = Wayleave::start(&origin);
    let names = STOPPED.iter().chain(PASSED);
    let names: Vec<_> = names.filter(|name| !NOT_IN_HTTP_2.contains(name)).collect();
    let trailers: Vec<_> = names.iter().map(|name| (**name, "1")).collect();
    let trailers: Vec<_> =
        trailers.into_iter().filter(|(name, _)| *name != "content-length").collect();
    for host in ["old.test", "new.test"] {
        let mut wire = open(&proxy, &format!("{host}:443"));
        let head =
            [(":method", "POST"), (":scheme", "https"), (":authority", host), (":path", "/a")];
        wire.send(frame(HEADERS, END_HEADERS, 1, &block(&head)));
        wire.send(frame(DATA, 0, 1, b"hello"));
        let ends = END_HEADERS | END_STREAM;
        wire.send(frame(HEADERS, ends, 1, &block(&trailers)));
        assert!(wire.stream_is_200(1), "{host}");
        let (mut arrived, mut passed) = (arrived(&origin), PASSED.to_vec());
        arrived.sort();
        passed.sort_unstable();
        assert_eq!(arrived, passed, "{host}");
    }
}

#[test]
fn pseudo_header_fields_in_trailers_have_no_effect() {
    let origin = shop();
    let proxy = Wayleave::start(&origin);
    for trailer in [(":path", "/private"), (":authority", "other.test")] {
        let mut wire = open(&proxy, "shop.test:443");
        let head = [
            (":method", "POST"),
            (":scheme", "https"),
            (":authority", "shop.test"),
            (":path", "/a"),
        ];
        wire.send(frame(HEADERS, END_HEADERS, 1, &block(&head)));
        let ends = END_HEADERS | END_STREAM;
        wire.send(frame(HEADERS, ends, 1, &block(&[trailer])));
        assert!(wire.outcome(1).is_some(), "{trailer:?}");
    }
    for request in origin.requests() {
        assert_eq!(request.authority, "shop.test");
        assert!(["/robots.txt", "/a"].contains(&&*request.target));
        assert!(request.body().trailers.is_empty(), "{request:?}");
    }
}

#[test]
fn trailers_of_responses_pass_by_the_same_allowlist() {
    let origin = shop();
    for name in STOPPED.iter().chain(PASSED) {
        let reply = Reply::text("ok").trailer(name, "1");
        origin.site("shop.test").page(&format!("/{name}"), reply);
    }
    let proxy = Wayleave::start(&origin);
    for name in STOPPED.iter().chain(PASSED) {
        let answer = proxy.get(&format!("http://shop.test/{name}"));
        assert_eq!(answer.text(), "ok", "{name}");
        let passes = PASSED.contains(name);
        assert_eq!(answer.trailers.len(), usize::from(passes), "{name}");
    }
}
