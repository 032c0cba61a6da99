//! Allowed requests whose origin fails. Each fault has its own error, and a truncated response never looks complete.

use std::io::Write;
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::evidence::export::{evidence, expect};
use crate::harness::client::reset_when_dropped;
use crate::harness::dns::{Answer, NameServer};
use crate::harness::h2_frames::{self, CANCEL, DATA, END_HEADERS, HEADERS, RST_STREAM};
use crate::harness::origin::reply::{Framing, Step};
use crate::harness::program::Program;
use crate::harness::{Certificate, Gate, Origin, Reply, Request, Wayleave, eventually, tools};

/// Has robots.txt of `url`'s origin fetched, so that what follows is a fault of the request itself.
#[track_caller]
fn fetch_robots(proxy: &Wayleave, url: &str) {
    assert_eq!(proxy.get(url).status, 200, "{url}");
}

/// Returns a robots.txt that ends its connection, so that the next request has to open one.
pub fn closing_robots() -> Reply {
    Reply::text("User-agent: *\nDisallow: /private\n").framing(Framing::UntilClose)
}

#[test]
fn a_refused_connection_is_named() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    origin.site("shop.test").robots_reply(closing_robots());
    assert_eq!(proxy.get("http://shop.test/private").status, 403);
    origin.stop_listening();
    let problem = proxy.get("http://shop.test/a").expect_refusal(502, None, "connection_refused");
    assert_eq!(problem["robots_url"], Value::Null, "robots.txt is not to blame: {problem}");
}

#[test]
fn a_failure_is_recorded_before_the_response_is_sent() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    origin.site("shop.test").robots_reply(closing_robots());
    assert_eq!(proxy.get("http://shop.test/private").status, 403);
    origin.stop_listening();
    let request = Request::new("POST", "http://shop.test/a").header("Content-Length", "5");
    let mut wire = proxy.connect();
    wire.send(request.absolute_form());
    eventually("the failure is counted", || {
        proxy.metric("wayleave_requests_total", &[("outcome", "failed")]) > 0.0
    });
    wire.send("hello");
    let failed = wire.response();
    failed.expect_refusal(502, None, "connection_refused");
    // The content was awaited: the connection can be used again.
    assert_eq!(failed.header("connection"), None);
}

#[test]
fn names_that_stop_resolving_are_named() {
    let origin = Origin::start();
    let names = NameServer::start();
    let port = origin.http.port();
    for host in ["gone.example", "broken.example", "silent.example"] {
        names.set(host, Answer::Addresses(vec![[127, 0, 0, 1].into()]));
        origin.site(host).robots_reply(closing_robots());
    }
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.resolver(&names).set("upstream.connect_timeout", "\"2s\"")
    });
    for host in ["gone.example", "broken.example", "silent.example"] {
        assert_eq!(proxy.get(&format!("http://{host}:{port}/private")).status, 403);
    }
    names.set("gone.example", Answer::NameError);
    names.set("broken.example", Answer::ServerFailure);
    names.set("silent.example", Answer::Silence);
    for (host, status, error) in [
        ("gone.example", 502, "dns_error"),
        ("broken.example", 502, "dns_error"),
        ("silent.example", 504, "dns_timeout"),
    ] {
        proxy.get(&format!("http://{host}:{port}/a")).expect_refusal(status, None, error);
    }
}

#[test]
fn bad_tls_is_named() {
    use Certificate::{
        Alert, Expired, NotYetValid, OtherName, PlainText, SelfSigned, UnknownAuthority,
    };
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let faults = [
        (Expired, "tls_certificate_error"),
        (NotYetValid, "tls_certificate_error"),
        (OtherName, "tls_certificate_error"),
        (SelfSigned, "tls_certificate_error"),
        (UnknownAuthority, "tls_certificate_error"),
        (Alert, "tls_alert_received"),
        (PlainText, "tls_protocol_error"),
    ];
    for (certificate, error) in faults {
        let host = format!("{certificate:?}.test").to_ascii_lowercase();
        origin.site(&host).robots_reply(closing_robots());
        assert_eq!(proxy.get(&format!("https://{host}/private")).status, 403, "{host}");
        origin.site(&host).certificate(certificate);
        proxy.get(&format!("https://{host}/a")).expect_refusal(502, None, error);
    }
    assert!(origin.seen().iter().all(|line| line.ends_with("/robots.txt")), "{:?}", origin.seen());
}

/// Responses that no proxy may forward: a name, the bytes, how the connection ends, and the possible errors.
const BROKEN_RESPONSES: &[(&str, &str, Step, &[&str])] = &[
    ("close", "", Step::Close, TERMINATED),
    ("reset", "", Step::Reset, TERMINATED),
    ("half-a-head", "HTTP/1.1 200 OK\r\nContent-Le", Step::Close, TERMINATED),
    ("no-http", "SSH-2.0-OpenSSH_9.2\r\n\r\n", Step::Close, PROTOCOL),
    (
        "two-lengths",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nhello",
        Step::Close,
        PROTOCOL,
    ),
    ("bad-length", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nhello", Step::Close, PROTOCOL),
    (
        "two-lengths-beside-chunks",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        Step::Close,
        PROTOCOL,
    ),
    (
        "unrequested-101",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
        Step::Hang,
        &["http_protocol_error", "http_upgrade_failed"],
    ),
    (
        "name-with-nul",
        "HTTP/1.1 200 OK\r\nX\0Y: a\r\nContent-Length: 0\r\n\r\n",
        Step::Close,
        PROTOCOL,
    ),
    (
        "length-below-zero",
        "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
        Step::Close,
        PROTOCOL,
    ),
    (
        "gzip-before-chunked",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        Step::Close,
        PROTOCOL,
    ),
    ("bare-cr", "HTTP/1.1 200 OK\r\nX: a\rContent-Length: 5\r\n\r\nhello", Step::Close, PROTOCOL),
    ("status-of-two-digits", "HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n", Step::Close, PROTOCOL),
    ("another-version", "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n", Step::Close, PROTOCOL),
    ("http-0.9", "hello", Step::Close, ANY),
];
const TERMINATED: &[&str] = &["connection_terminated", "http_response_incomplete"];
const PROTOCOL: &[&str] = &["http_protocol_error"];
const ANY: &[&str] = &["http_protocol_error", "connection_terminated", "http_response_incomplete"];

#[test]
fn malformed_responses_are_named() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    fetch_robots(&proxy, "http://shop.test/known");
    for (name, bytes, end, errors) in BROKEN_RESPONSES {
        let path = format!("/{name}");
        origin.site("shop.test").page(&path, Reply::raw(bytes, end.clone()));
        let answer = proxy.get(&format!("http://shop.test{path}"));
        assert_eq!(answer.status, 502, "{name}: {answer:?}");
        let error = answer.proxy_status().error;
        assert!(errors.contains(&error.as_str()), "{name}: {error}");
        answer.expect_refusal(502, None, &error);
    }
    assert_eq!(proxy.get("http://shop.test/known").status, 200);
}

#[test]
fn endless_interim_responses_are_cut_off() {
    let origin = Origin::start();
    let hints = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(10_000);
    origin.site("shop.test").page("/hints", Reply::raw(hints, Step::Hang));
    let proxy = Wayleave::start(&origin);
    let mut wire = proxy.connect();
    wire.send_get("http://shop.test/hints");
    let mut answer = wire.response();
    let mut interim = 0;
    while answer.status == 103 {
        interim += 1;
        answer = wire.response();
    }
    assert!(interim < 1000, "{interim}");
    answer.expect_refusal(502, None, "http_protocol_error");
}

#[test]
fn an_origin_that_does_not_respond_in_time_is_named() {
    let origin = Origin::start();
    origin.site("shop.test").page("/hangs", Reply::nothing(Step::Hang));
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("upstream.response_timeout", "\"1s\"")
    });
    fetch_robots(&proxy, "http://shop.test/known");
    proxy.get("http://shop.test/hangs").expect_refusal(504, None, "http_response_timeout");
    fetch_robots(&proxy, "https://shop.test/known");
    proxy.get("https://shop.test/hangs").expect_refusal(504, None, "http_response_timeout");
}

#[test]
fn a_truncated_body_never_looks_complete() {
    let origin = Origin::start();
    let start = Reply::new(200).body("the beginning");
    origin
        .site("shop.test")
        .page("/short", start.clone().claims_length(1000).step(Step::Close))
        .page("/reset", start.clone().claims_length(1000).step(Step::Reset))
        .page("/chunks", start.clone().framing(Framing::Chunked).step(Step::Close))
        .page(
            "/bad-chunk",
            Reply::raw(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n",
                Step::Close,
            ),
        )
        .page("/stalls", start.claims_length(1000).step(Step::Hang));
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("upstream.response_timeout", "\"1s\"")
    });
    fetch_robots(&proxy, "http://shop.test/known");
    for path in ["/short", "/reset", "/chunks", "/bad-chunk", "/stalls"] {
        let url = format!("http://shop.test{path}");
        let mut wire = proxy.connect();
        wire.send_get(&url);
        match wire.try_response(false) {
            Err(_) => {}
            Ok(Some(answer)) => {
                assert!((500..600).contains(&answer.status), "{path} looks complete: {answer:?}");
            }
            Ok(None) => panic!("{path}: no response"),
        }
    }
    eventually("each is counted", || {
        proxy.metric("wayleave_requests_total", &[("outcome", "failed")]) >= 5.0
    });
}

/// Returns the only decision about a URL once it is recorded: outcome, status, reason and details.
fn recorded(proxy: &Wayleave, url: &str) -> [Value; 4] {
    let found = || proxy.admin_get(&format!("/v1/decisions?q={url}")).json()["decisions"].clone();
    eventually("it is recorded", || found()[0].is_object());
    let decision = &found()[0];
    ["outcome", "status", "reason", "details"].map(|member| decision[member].clone())
}

/// Expects a cut response to be recorded with the status that its client got.
#[track_caller]
fn expect_cut(proxy: &Wayleave, url: &str, status: u16, reasons: &[&str]) {
    let [outcome, recorded, reason, details] = recorded(proxy, url);
    assert_eq!((&outcome, &recorded), (&json!("failed"), &json!(status)), "{url}: {details}");
    assert!(reasons.iter().any(|known| reason == *known), "{url}: {reason}");
    assert!(details.as_str().is_some_and(|details| !details.is_empty()), "{url}: {details}");
}

#[test]
fn a_cut_response_is_recorded_with_the_status_that_its_client_got() {
    let origin = Origin::start();
    let gate = Gate::closed();
    let half =
        Reply::new(203).claims_length(1000).body("first half,").step(Step::Wait(gate.clone()));
    origin
        .site("shop.test")
        .page("/closes", half.clone().step(Step::Close))
        .page("/resets", half.step(Step::Reset))
        .page("/early", Reply::nothing(Step::Close));
    let program = Program::start(&tools::python(), "dies.py");
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.resolve("dies.test:80", program.address())
    });
    let begin = |url: &'static str| {
        let (mut wire, request) = if url.starts_with("https") {
            (proxy.tunnel("shop.test:443"), Request::get(url).origin_form())
        } else {
            (proxy.connect(), Request::get(url).absolute_form())
        };
        wire.send(request);
        let head = wire.response_head();
        assert_eq!(head.status, 203, "{url}");
        (url, wire, head)
    };
    let urls = ["http://shop.test/closes", "http://shop.test/resets", "https://shop.test/closes"];
    let mut begun: Vec<_> = urls.into_iter().chain(["http://dies.test/cut"]).map(begin).collect();
    gate.open();
    TcpStream::connect(program.address())
        .and_then(|mut killer| killer.write_all(b"GET /die HTTP/1.1\r\nHost: dies.test\r\n\r\n"))
        .expect("it still listens");
    for (url, wire, head) in &mut begun {
        assert!(wire.counted_body(head).is_err(), "{url} looks complete");
        expect_cut(&proxy, url, 203, TERMINATED);
    }
    // Before its head, the failure is the response.
    assert_eq!(proxy.get("http://shop.test/early").status, 502);
    expect_cut(&proxy, "http://shop.test/early", 502, TERMINATED);
    let (dir, _) = proxy.stop();
    for (url, fetched) in [
        ("http://shop.test/closes", "in part, answered with 203, and cut after 11 bytes ("),
        ("http://shop.test/early", "no, the request failed ("),
    ] {
        let printed = expect(&evidence(dir.path(), &["ask", url, "--at", "0s"]), 0);
        assert!(printed.contains(&format!("fetched     {fetched}")), "{printed}");
    }
}

#[test]
fn a_client_that_gives_up_its_response_is_named() {
    let origin = Origin::start();
    origin
        .site("shop.test")
        .page("/left", Reply::new(203).step(Step::Pattern(64 << 20)))
        .page("/unread", Reply::new(203).step(Step::Pattern(64 << 20)))
        .page("/waits", Reply::nothing(Step::Hang));
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.set("proxy.idle_timeout", "\"2s\""));
    let begin = |path: &str| {
        let mut wire = proxy.connect();
        wire.send_get(&format!("http://shop.test{path}"));
        wire
    };
    let (mut left, mut unread) = (begin("/left"), begin("/unread"));
    assert_eq!((left.response_head().status, unread.response_head().status), (203, 203));
    drop(left);
    let waiting = begin("/waits");
    origin.wait_for_target("/waits");
    reset_when_dropped(&waiting.tcp);
    drop(waiting);
    for (path, status, how) in [
        ("/left", 203, "left"),
        ("/unread", 203, "stopped reading"),
        // It never had a status.
        ("/waits", 499, "left"),
    ] {
        expect_cut(&proxy, &format!("http://shop.test{path}"), status, &["client-closed"]);
        let details = format!("the client {how} before the response was complete");
        assert_eq!(recorded(&proxy, &format!("http://shop.test{path}"))[3], json!(details));
    }
    drop(unread);
}

#[test]
fn a_client_that_leaves_within_its_body_has_left_over_any_version() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    fetch_robots(&proxy, "http://shop.test/a");
    fetch_robots(&proxy, "https://shop.test/a");
    let left = |so_far: f64| {
        let labels = [("outcome", "failed"), ("reason", "client-closed")];
        eventually("it has left", || proxy.metric("wayleave_requests_total", &labels) == so_far);
    };
    let head =
        "POST http://shop.test/b HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 10\r\n\r\nabc";
    let mut wire = proxy.connect();
    wire.send(head);
    drop(wire);
    left(1.0);
    let mut wire = h2_frames::open(&proxy, "shop.test:443");
    let mut fields = h2_frames::get("shop.test", "/c");
    fields[0].1 = "POST";
    fields.push(("content-length", "10"));
    wire.send(h2_frames::frame(HEADERS, END_HEADERS, 1, &h2_frames::block(&fields)));
    wire.send(h2_frames::frame(DATA, 0, 1, b"abc"));
    wire.send(h2_frames::frame(RST_STREAM, 0, 1, &CANCEL));
    left(2.0);
}

#[test]
fn a_stream_reset_by_the_origin_is_not_a_whole_response() {
    let origin = Origin::start();
    let half = Reply::new(200).body("the beginning").claims_length(1000);
    origin
        .site("shop.test")
        .page("/reset", half.step(Step::Reset))
        .page("/before-the-head", Reply::nothing(Step::Reset));
    let proxy = Wayleave::start(&origin);
    let client = proxy.http2("shop.test:443");
    for path in ["/reset", "/before-the-head"] {
        let request = Request::get(&format!("https://shop.test{path}"));
        if let Ok(answer) = client.try_exchange(&request) {
            assert_eq!(answer.status, 502, "{path} looks complete: {answer:?}");
        }
    }
    assert_eq!(client.get("/a").status, 200);
    let versions: Vec<_> =
        origin.requests().iter().skip(1).map(|request| request.version).collect();
    assert!(versions.contains(&"HTTP/2"), "{versions:?}");
}

#[test]
fn a_response_in_very_small_chunks_arrives() {
    let origin = Origin::start();
    let mut reply = Reply::new(200).framing(Framing::Chunked);
    for _ in 0..500 {
        reply = reply.body("x");
    }
    origin.site("shop.test").page("/small", reply);
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("http://shop.test/small").text(), "x".repeat(500));
}

#[test]
fn an_early_response_to_an_upload_reaches_the_client() {
    let origin = Origin::start();
    origin.site("shop.test").page("/up", Reply::new(413).body("too much").early());
    let proxy = Wayleave::start(&origin);
    let mut wire = proxy.connect();
    wire.send(
        Request::new("POST", "http://shop.test/up")
            .header("Content-Length", "10000000")
            .absolute_form(),
    );
    wire.send("the first bytes");
    let head = wire.response_head();
    assert_eq!(head.status, 413);
}

#[test]
fn errors_of_the_origin_pass_unchanged() {
    let origin = Origin::start();
    // Otherwise the origin would rest after its 429.
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("politeness.crawl_delay", "\"ignore\"")
    });
    for status in [301, 400, 403, 404, 429, 500, 503] {
        let path = format!("/{status}");
        origin.site("shop.test").page(
            &path,
            Reply::new(status).header("Retry-After", "7").body("the origin's own text"),
        );
        let answer = proxy.get(&format!("http://shop.test{path}"));
        assert_eq!((answer.status, answer.text().as_str()), (status, "the origin's own text"));
        assert_eq!(
            (answer.header("retry-after"), answer.header("proxy-status")),
            (Some("7"), None)
        );
    }
}

#[test]
fn a_connection_closed_while_idle_costs_no_request() {
    let origin = Origin::start();
    let closes = Reply::text("bye").header("Keep-Alive", "timeout=1");
    origin
        .site("shop.test")
        .page("/bye", Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbye", Step::Close));
    origin.site("shop.test").page("/known", closes);
    let proxy = Wayleave::start(&origin);
    fetch_robots(&proxy, "http://shop.test/known");
    for _ in 0..20 {
        // The origin closes without announcing it: the pooled connection is closed, or about to be.
        assert_eq!(proxy.get("http://shop.test/bye").text(), "bye");
        assert_eq!(proxy.get("http://shop.test/known").text(), "bye");
    }
}
