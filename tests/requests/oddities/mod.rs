//! Responses that do not quite conform to HTTP: repaired and counted where RFC 9112 lets a proxy do so, refused where two readers
//! could see two messages. The table of proxy/http-wire/README.md names these tests.

mod cases;
mod elsewhere;

use std::collections::BTreeSet;

use serde_json::Value;

use self::cases::{CUT_OFF, REFUSED, REPAIRED, ROBOTS, Row};
use crate::harness::h2_frames::{DATA, END_HEADERS, END_STREAM, HEADERS, block};
use crate::harness::origin::reply::Step;
use crate::harness::tools::{clean, program, project, run};
use crate::harness::{DEADLINE, Origin, Reply, Request, Response, Wayleave, eventually};
use crate::requests::http2::known_before_http2_only;

/// Requests `path` of `old.test` by plain HTTP, by HTTPS and by HTTP/2.
fn in_all_ways(proxy: &Wayleave, path: &str) -> [(&'static str, Response); 3] {
    [
        ("http", proxy.get(&format!("http://old.test{path}"))),
        ("https", proxy.get(&format!("https://old.test{path}"))),
        ("HTTP/2", proxy.http2("old.test:443").get(path)),
    ]
}

fn oddities(proxy: &Wayleave, kind: &str) -> f64 {
    proxy.metric("wayleave_origin_oddities_total", &[("kind", kind)])
}

#[test]
fn repairs_are_made_counted_and_recorded() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    for Row { kinds, name, bytes, status, field, body } in REPAIRED {
        let path = format!("/{name}");
        let page = Reply::raw(bytes, Step::Close);
        origin.site("old.test").http1_only().page(&path, page);
        let counted = || kinds.iter().map(|kind| oddities(&proxy, kind)).sum::<f64>();
        let before = counted();
        for (way, answer) in in_all_ways(&proxy, &path) {
            assert_eq!((answer.status, &*answer.text()), (*status, *body), "{name} {way}");
            let named =
                answer.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(field.0));
            let values: Vec<_> = named.map(|(_, value)| &**value).collect();
            assert_eq!(values, field.1, "{name} {way}: {answer:?}");
        }
        eventually("all three are counted", || counted() == before + 3.0 * kinds.len() as f64);
        let decision = proxy.newest_decision(&format!("https://old.test{path}"));
        assert_eq!(decision["oddities"], serde_json::json!(kinds), "{name}: {decision}");
    }
}

#[test]
fn a_status_beyond_599_passes_from_origins_of_http_2_too() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let head = block(&[(":status", "600"), ("content-length", "5")]);
    known_before_http2_only(&proxy, &origin, "new.test")
        .frames(&[(HEADERS, END_HEADERS, head), (DATA, END_STREAM, b"hello".to_vec())]);
    let by_http1 = proxy.get("https://new.test/a");
    let by_http2 = proxy.http2("new.test:443").get("/a");
    for answer in [by_http1, by_http2] {
        assert_eq!((answer.status, &*answer.text()), (600, "hello"));
    }
    eventually("both are counted", || oddities(&proxy, "status-out-of-range") == 2.0);
}

#[test]
fn an_interim_response_that_announces_content_has_none() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let final_response = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    for fields in ["Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"] {
        let interim = format!("HTTP/1.1 103 Early Hints\r\n{fields}\r\n");
        let page = Reply::raw(format!("{interim}{final_response}"), Step::Hang);
        origin.site("old.test").http1_only().page("/a", page);
        let answer = proxy.http2("old.test:443").get("/a");
        assert_eq!((&answer.interim[..], &*answer.text()), (&[103][..], "hello"), "{fields}");
    }
    eventually("both are counted", || oddities(&proxy, "framed-interim") == 2.0);
    let pages = origin.requests();
    let pages: Vec<_> = pages.iter().filter(|request| request.target == "/a").collect();
    assert_ne!(pages[0].connection, pages[1].connection);
}

#[test]
fn values_over_http_2_are_trimmed() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let head = block(&[(":status", "200"), ("x-a", " b\t"), ("content-length", "5")]);
    known_before_http2_only(&proxy, &origin, "new.test").frames(&[
        (HEADERS, END_HEADERS, head),
        (DATA, 0, b"hello".to_vec()),
        (HEADERS, END_HEADERS | END_STREAM, block(&[("x-sum", " 1 ")])),
    ]);
    let answer = proxy.http2("new.test:443").get("/a");
    assert_eq!((answer.header("x-a"), &*answer.text()), (Some("b"), "hello"));
    assert_eq!(answer.trailers, [("x-sum".to_owned(), "1".to_owned())]);
    eventually("it is counted", || oddities(&proxy, "padded-value") == 1.0);
}

#[test]
fn conforming_responses_are_not_reported_as_oddities() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("http://shop.test/a").status, 200);
    assert_eq!(proxy.newest_decision("http://shop.test/a")["oddities"], Value::Null);
    assert_eq!(proxy.metric("wayleave_origin_oddities_total", &[]), 0.0);
}

#[test]
fn a_connection_with_a_repaired_message_is_not_reused() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    // A status says nothing about the end of its message, and a body without length ends with its connection anyway.
    let concerned =
        |row: &&Row| row.kinds != ["status-out-of-range"] && row.name != "a-length-in-a-fold";
    for Row { name, bytes, body, .. } in REPAIRED.iter().filter(concerned) {
        let path = format!("/{name}");
        origin.site("old.test").page(&path, Reply::raw(bytes, Step::Hang));
        for _ in 0..2 {
            assert_eq!(proxy.get(&format!("http://old.test{path}")).text(), *body, "{name}");
        }
        let requests = origin.requests();
        let pages = requests.iter().filter(|request| request.target == path);
        let connections: Vec<_> = pages.map(|request| request.connection).collect();
        assert_ne!(connections[0], connections[1], "{name}");
    }
}

#[test]
fn ambiguous_messages_are_refused() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    for (name, bytes) in REFUSED {
        let path = format!("/{name}");
        let page = Reply::raw(bytes, Step::Close);
        origin.site("old.test").http1_only().page(&path, page);
        for (way, answer) in in_all_ways(&proxy, &path) {
            assert_eq!(answer.status, 502, "{name} {way}: {answer:?}");
            answer.expect_refusal(502, None, "http_protocol_error");
        }
    }
}

#[test]
fn ambiguous_chunks_are_refused() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    for (name, chunks) in CUT_OFF {
        let path = format!("/{name}");
        let page = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
        origin.site("old.test").page(&path, Reply::raw(page, Step::Close));
        let url = format!("http://old.test{path}");
        let mut wire = proxy.connect();
        wire.send_get(&url);
        let answer = wire.try_response(false);
        assert!(answer.is_err(), "{name}: {answer:?}");
    }
}

#[test]
fn an_https_page_without_close_notify_is_marked_incomplete() {
    let origin = Origin::start();
    let page = Reply::raw("HTTP/1.1 200 OK\r\n\r\nall there is", Step::Cut);
    origin.site("old.test").http1_only().page("/a", page);
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("https://old.test/a").text(), "all there is");
    assert_eq!(proxy.http2("old.test:443").get("/a").text(), "all there is");
    eventually("both are counted", || oddities(&proxy, "incomplete-close") == 2.0);
    let decision = proxy.newest_decision("https://old.test/a");
    assert_eq!(decision["outcome"], "forwarded", "{decision}");
    assert_eq!(decision["status"], 200, "{decision}");
    assert_eq!(decision["oddities"], serde_json::json!(["incomplete-close"]), "{decision}");
}

#[test]
fn an_https_page_that_ends_before_its_length_is_cut_off() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    for (name, head) in [
        ("length", "Content-Length: 50\r\n\r\nall there is"),
        ("chunked", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
    ] {
        let path = format!("/{name}");
        let page = Reply::raw(format!("HTTP/1.1 200 OK\r\n{head}"), Step::Cut);
        origin.site("old.test").http1_only().page(&path, page);
        let mut wire = proxy.tunnel("old.test:443");
        wire.send(Request::get(&format!("https://old.test{path}")).origin_form());
        let whole = wire
            .try_response(false)
            .is_ok_and(|answer| answer.is_some_and(|answer| answer.status == 200));
        assert!(!whole, "{name}");
    }
    assert_eq!(oddities(&proxy, "incomplete-close"), 0.0);
}

#[test]
fn robots_txt_without_close_notify_counts_to_its_last_full_line() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let rules = "User-agent: *\nDisallow: /private\n";
    let chunked = format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{rules}\r\n", rules.len());
    for (host, rest, status) in [
        ("whole.test", format!("\r\n{rules}"), 200),
        ("whole-by-cr.test", "\r\nUser-agent: *\rDisallow: /private\r".to_owned(), 200),
        ("in-a-line.test", format!("\r\n{rules}Disa"), 503),
        ("empty.test", "\r\n".to_owned(), 503),
        ("chunked.test", chunked, 503),
        ("length.test", format!("Content-Length: 90\r\n\r\n{rules}"), 503),
    ] {
        let robots = Reply::raw(format!("HTTP/1.1 200 OK\r\n{rest}"), Step::Cut);
        origin.site(host).http1_only().robots_reply(robots);
        assert_eq!(proxy.get(&format!("https://{host}/a")).status, status, "{host}");
        let private = if status == 200 { 403 } else { 503 };
        assert_eq!(proxy.get(&format!("https://{host}/private")).status, private, "{host}");
    }
    assert_eq!(oddities(&proxy, "incomplete-close"), 2.0);
}

#[test]
fn a_robots_txt_is_read_as_leniently_as_a_page_and_no_more() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    for (name, bytes, status) in ROBOTS {
        let host = format!("{name}.test");
        let robots = Reply::raw(bytes, Step::Close);
        origin.site(&host).robots_reply(robots);
        let answer = proxy.get(&format!("http://{host}/private"));
        assert_eq!(answer.status, *status, "{name}: {answer:?}");
    }
}

/// Whether the integration tests have a test of this name.
fn is_a_test(name: &str) -> bool {
    let tests = project().join("tests");
    let mut found = clean(program("grep"));
    found.args(["-rqE", &format!("^fn {name}\\(")]).arg(tests);
    run(&mut found, b"", DEADLINE).status.success()
}

#[test]
fn each_kind_has_its_row_in_the_design_with_its_tests() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let metrics = proxy.admin_get("/metrics").text();
    let kind = |line: &str| {
        let rest = line.strip_prefix("wayleave_origin_oddities_total{kind=\"")?;
        rest.split('"').next().map(str::to_owned)
    };
    let served: BTreeSet<_> = metrics.lines().filter_map(kind).collect();
    let text =
        std::fs::read_to_string(project().join("proxy/http-wire/README.md")).expect("it is there");
    let mut documented = BTreeSet::new();
    for row in text.lines().filter(|line| line.starts_with("| `")) {
        let words: Vec<_> = row.split('`').skip(1).step_by(2).collect();
        if served.contains(words[0]) {
            documented.insert(words[0].to_owned());
            assert!(is_a_test(words[words.len() - 1]), "{row}");
        }
    }
    assert_eq!(documented, served);
}
