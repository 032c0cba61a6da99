//! Requests hidden in content that an origin does not read. They are never executed, and their responses reach no client.
//!
//! An origin that reads no content takes it for the next request on the connection (CL.0 request smuggling; RFC 9112
//! section 11.2). Only the end of the connection keeps the two apart.

use crate::harness::origin::reply::{Framing, Step};
use crate::harness::program::Program;
use crate::harness::tools::program;
use crate::harness::{ContentHandling, Gate, Origin, Reply, Request, Wayleave, Wire, eventually};

use super::shop;

/// A response that no client may get.
const POISON: &str = "HTTP/1.1 200 OK\r\nContent-Length: 19\r\n\r\na foreign response!";

const METHODS: &[&str] =
    &["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"];

/// A request for a disallowed path.
const HIDDEN: &str = "GET /private/page HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: x\r\n\r\n";

/// `(name, version, fields, content)`; `HIDDEN` stands for the request, `LENGTH` and `SIZE` for its length in decimal and hexadecimal.
type Row = (&'static str, &'static str, &'static str, &'static str);

#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("a length", "1.1", "Content-Length: LENGTH\r\n", "HIDDEN"),
    ("a length, kept alive", "1.1", "Connection: keep-alive\r\nContent-Length: LENGTH\r\n", "HIDDEN"),
    ("a length with zeros before it", "1.1", "Content-Length: 00LENGTH\r\n", "HIDDEN"),
    ("one chunk", "1.1", "Transfer-Encoding: chunked\r\n", "SIZE\r\nHIDDEN\r\n0\r\n\r\n"),
    ("no chunk but the last", "1.1", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n"),
    ("a trailer", "1.1", "Transfer-Encoding: chunked\r\n", "SIZE\r\nHIDDEN\r\n0\r\nX-Sum: 1\r\n\r\n"),
    ("a length, with Expect", "1.1", "Expect: 100-continue\r\nContent-Length: LENGTH\r\n", "HIDDEN"),
    ("chunks, with Expect", "1.1", "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n", "SIZE\r\nHIDDEN\r\n0\r\n\r\n"),
    ("a length, in HTTP/1.0", "1.0", "Content-Length: LENGTH\r\n", "HIDDEN"),
    ("a length, in HTTP/1.0 kept alive", "1.0", "Connection: keep-alive\r\nContent-Length: LENGTH\r\n", "HIDDEN"),
];

pub fn names() -> Vec<String> {
    let rows = ROWS.iter().flat_map(|(name, ..)| {
        let named = move |method| format!("content: {method} with {name}");
        METHODS.iter().map(named)
    });
    rows.collect()
}

/// Returns a request with the hidden one in its content.
fn hiding(method: &str, (_, version, fields, content): &Row) -> String {
    let request = format!(
        "{method} http://shop.test/a HTTP/{version}\r\nHost: shop.test\r\nUser-Agent: ExampleBot\r\n{fields}\r\n{content}"
    );
    request
        .replace("LENGTH", &HIDDEN.len().to_string())
        .replace("SIZE", &format!("{:x}", HIDDEN.len()))
        .replace("HIDDEN", HIDDEN)
}

/// Sends a GET and expects the response to it.
#[track_caller]
fn expect_service(victim: &mut Wire, path: &str, after: &str) {
    victim.send_get(&format!("http://shop.test{path}"));
    let answer = victim.response();
    let body = answer.text();
    assert!(
        answer.status == 200 && body.ends_with(path),
        "{path} after {after}: {} {body}",
        answer.status
    );
}

/// Sends all rows by all methods, after each of which two other clients request their own pages.
#[track_caller]
fn hide_in_everything(proxy: &Wayleave, methods: &[&str]) {
    let mut victims = [proxy.connect(), proxy.connect()];
    for row in ROWS {
        for method in methods {
            let name = format!("{method} with {}", row.0);
            let mut attacker = proxy.connect();
            attacker.send(hiding(method, row));
            let answer = attacker.try_response(*method == "HEAD");
            assert!(matches!(answer, Ok(Some(_))), "{name}: {answer:?}");
            for (number, victim) in victims.iter_mut().enumerate() {
                expect_service(victim, &format!("/victim/{number}"), &name);
            }
        }
    }
}

/// Expects that each request with content announced to close its connection, and was the last on it.
#[track_caller]
fn expect_content_last(origin: &Origin) {
    let requests = origin.requests();
    let arrived = |target: &str| requests.iter().any(|request| request.target == target);
    assert!(arrived("/a") && arrived("/victim/1"), "{:?}", origin.seen());
    for (index, request) in requests.iter().enumerate() {
        if !request.has_content() {
            continue;
        }
        assert!(request.closes(), "{request:?}");
        let later = requests[index + 1..].iter();
        let mut later = later.filter(|later| later.connection == request.connection);
        assert!(later.all(|later| later.target == "/private/page"), "{request:?}");
    }
}

/// Expects that the origin executed no hidden request.
#[track_caller]
fn expect_none_executed(origin: &Origin) {
    let executed = origin.seen();
    assert!(!executed.iter().any(|line| line.contains("/private")), "{executed:?}");
    expect_content_last(origin);
}

#[test]
fn no_content_is_executed_by_an_origin_that_ignores_it() {
    let origin = shop();
    origin.site("shop.test").content_handling(ContentHandling::IgnoresContent);
    let proxy = Wayleave::start(&origin);
    hide_in_everything(&proxy, METHODS);
    expect_none_executed(&origin);
}

#[test]
fn no_http_2_content_is_executed_by_an_origin_that_ignores_it() {
    let origin = shop();
    let site = origin.site("shop.test").http1_only();
    site.content_handling(ContentHandling::IgnoresContent);
    let proxy = Wayleave::start(&origin);
    let (attacker, victim) = (proxy.http2("shop.test:443"), proxy.http2("shop.test:443"));
    for method in METHODS {
        for has_length in [true, false] {
            let mut request = Request::new(method, "https://shop.test/a").body(HIDDEN);
            if has_length {
                request = request.header("Content-Length", &HIDDEN.len().to_string());
            }
            assert_eq!(attacker.exchange(&request).status, 200, "{method}");
            let answer = victim.get("/victim/1");
            assert!(answer.text().ends_with("/victim/1"), "{method}: {answer:?}");
        }
    }
    expect_none_executed(&origin);
}

#[test]
fn a_late_response_to_a_hidden_request_reaches_no_client() {
    let origin = shop();
    let proxy = Wayleave::start(&origin);
    let mut victims = [proxy.connect(), proxy.connect()];
    for method in ["GET", "POST"] {
        let gate = Gate::closed();
        let late = Reply::new(0).framing(Framing::Raw).step(Step::Wait(gate.clone())).body(POISON);
        let site = origin.site("shop.test").page("/private/page", late);
        site.content_handling(ContentHandling::IgnoresContentAndClose);
        let mut attacker = proxy.connect();
        attacker.send(hiding(method, &ROWS[0]));
        assert_eq!(attacker.response().status, 200);
        for (number, victim) in victims.iter_mut().enumerate() {
            victim.send_get(&format!("http://shop.test/victim/{number}"));
        }
        gate.open();
        for (number, victim) in victims.iter_mut().enumerate() {
            let body = victim.response().text();
            assert!(body.ends_with(&format!("/victim/{number}")), "{body}");
        }
    }
    expect_content_last(&origin);
}

/// Handlers that treat HEAD as GET send content after a response that has none. What looks like a response in it must not become
/// one.
#[test]
fn content_after_a_response_without_content_reaches_no_client() {
    let length = format!("Content-Length: {}", POISON.len());
    let origin = shop();
    let proxy = Wayleave::start(&origin);
    for (path, method, status) in [
        ("/head", "HEAD", "200 OK"),
        ("/none", "GET", "204 No Content"),
        ("/same", "GET", "304 Not Modified"),
    ] {
        for framing in [&length, "Transfer-Encoding: chunked"] {
            let gate = Gate::closed();
            let reply = Reply::new(0)
                .framing(Framing::Raw)
                .body(format!("HTTP/1.1 {status}\r\n{framing}\r\n\r\n"))
                .step(Step::Wait(gate.clone()))
                .body(POISON);
            let own = Reply::new(200).step(Step::Wait(gate.clone())).body("/victim");
            origin.site("shop.test").page(path, reply).page("/victim", own);
            let wait_for_connections = |count| {
                eventually("the connections are in use", || {
                    proxy.metric("wayleave_upstream_connections", &[]) == count
                });
            };
            let url = format!("http://shop.test{path}");
            let mut attacker = proxy.connect();
            attacker.send(Request::new(method, &url).absolute_form());
            let answer = attacker.response_head().status.to_string();
            assert!(status.starts_with(&answer), "{path}: {answer}");
            wait_for_connections(0.0);
            let mut victim = proxy.connect();
            victim.send_get("http://shop.test/victim");
            wait_for_connections(1.0);
            gate.open();
            let body = victim.response().text();
            assert!(body.ends_with("/victim"), "{path} with {framing}: {body}");
        }
    }
}

/// A connection is not used again after a second response arrived on it.
#[test]
fn a_second_response_to_one_request_reaches_no_client() {
    let origin = shop();
    let gate = Gate::closed();
    let twice = Reply::new(0)
        .framing(Framing::Raw)
        .body("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nown")
        .step(Step::Wait(gate.clone()))
        .body(POISON);
    origin.site("shop.test").page("/twice", twice).page("/victim", Reply::text("/victim"));
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("http://shop.test/twice").text(), "own");
    let open = || proxy.metric("process_open_fds", &[]);
    let (kept, connections) = (open(), origin.connections());
    gate.open();
    eventually("the connection is closed", || open() < kept);
    assert_eq!(proxy.get("http://shop.test/victim").text(), "/victim");
    assert_eq!(origin.connections(), connections + 1);
}

/// Does the same against another program, and pipelines, often enough to win a race.
#[track_caller]
fn hide_from(program: &Program, methods: &[&str]) {
    let proxy = Wayleave::start_with(&Origin::start(), |settings| {
        settings.resolve("shop.test:80", program.address())
    });
    hide_in_everything(&proxy, methods);
    for _ in 0..20 {
        let mut attacker = proxy.connect();
        let next = Request::get("http://shop.test/next").absolute_form();
        attacker.send([hiding("GET", &ROWS[0]).as_bytes(), &next].concat());
        assert_eq!(attacker.response().text(), "/a");
        // If the response to the first request came before its content, the connection ends.
        if let Ok(Some(next)) = attacker.try_response(false) {
            assert_eq!(next.text(), "/next");
        }
    }
    let executed = program.executed();
    assert!(executed.contains(&"GET /victim/1".to_owned()));
    assert!(!executed.iter().any(|line| line.contains("/private")), "{executed:?}");
}

#[test]
fn no_content_is_executed_by_pythons_http_server() {
    hide_from(&Program::start(&program("python3"), "ignores_content.py"), METHODS);
}

#[test]
fn no_content_is_executed_by_nodes_http_server() {
    // It knows a fixed set of methods.
    let (known, _) = METHODS.split_at(METHODS.len() - 1);
    hide_from(&Program::start(&program("node"), "ignores_content.cjs"), known);
}
