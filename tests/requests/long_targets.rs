//! Request targets beyond 16 KiB: refused with 414, and short in the log.

use std::fs;

use serde_json::Value;

use crate::evidence::export::{evidence, expect};
use crate::evidence::sha256_hex;
use crate::harness::client::raw;
use crate::harness::wayleave::command;
use crate::harness::{Origin, Request, Wayleave, decisions, tools};

const LONGEST: usize = 16 * 1024;
/// The most bytes of a line of the log about a request that was not understood.
const LINE: usize = 2_500;

/// Returns a URL of so many bytes.
fn url(start: &str, bytes: usize) -> String {
    format!("{start}{}", "a".repeat(bytes - start.len()))
}

/// Stops the proxy and returns its decision log.
fn decision_log(proxy: Wayleave) -> String {
    let (dir, _) = proxy.stop();
    fs::read_to_string(dir.path().join("state/decisions.jsonl")).expect("a log")
}

#[test]
fn a_target_beyond_16_kib_is_refused_and_logged_in_short() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let starts = ["http://shop.test/", "https://shop.test/"];
    let (plain, tls) = (url(starts[0], LONGEST + 1), url(starts[1], LONGEST + 1));
    let by_http2 = proxy.http2("shop.test:443");
    for answer in [
        proxy.get(&plain),
        proxy.get(&tls),
        by_http2.exchange(&Request::get(&tls)),
        proxy.get(&url(starts[0], 60_000)),
    ] {
        let problem = answer.expect_refusal(414, Some("URI too long"), "http_request_error");
        assert_eq!(problem["reason"], "target-too-long");
        let detail = "request target: longer than 16 KiB, the most that is judged";
        assert_eq!(problem["detail"], detail);
    }
    assert!(!origin.seen().iter().any(|line| line.ends_with("aaa")), "{:?}", origin.seen());
    for longest in starts.map(|start| url(start, LONGEST)) {
        assert_eq!(proxy.get(&longest).status, 200);
    }
    let longest = url(starts[1], LONGEST);
    assert_eq!(by_http2.exchange(&Request::get(&longest)).status, 200);
    drop(by_http2);
    let log = decision_log(proxy);
    let parse = |line| serde_json::from_str(line).expect("a line of JSON");
    let lines: Vec<Value> = decisions(&log).map(parse).collect();
    let refused: Vec<_> = lines.iter().filter(|line| line["reason"] == "target-too-long").collect();
    assert_eq!(refused.len(), 4);
    for line in &refused {
        assert!(line.to_string().len() < LINE, "{line}");
    }
    assert_eq!(refused[0]["url"], plain[..1024]);
    assert_eq!(refused[0]["url_bytes"], plain.len());
    assert_eq!(refused[0]["url_sha256"], sha256_hex(plain.as_bytes()));
    let whole = lines.iter().filter(|line| line["url"].as_str().map(str::len) == Some(LONGEST));
    assert_eq!(whole.count(), 3);
}

#[test]
fn no_long_part_of_a_request_that_is_refused_fills_the_log() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/");
    let proxy = Wayleave::start(&origin);
    let long = "a".repeat(30_000);
    for head in [
        format!("CONNECT {long}:443 HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
        format!("CONNECT {long} HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
        format!("GET /{long} HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
        format!("GET {long} HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
        format!("GET {long}://shop.test/ HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
        format!("GET http://shop.test:{long}/ HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
        format!("GET http://{long}/ HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
        format!("{long} http://shop.test/ HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
        format!("GET http://shop.test/ HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: {long}\r\n\r\n"),
        format!(
            "GET http://shop.test/ HTTP/1.1\r\nHost: shop.test\r\nReferer: http://{long}\r\n\r\n"
        ),
    ] {
        let answer = raw(proxy.proxy, &head).expect("an answer");
        assert!(answer.status >= 400, "{}", &head[..20]);
    }
    let mut inside = proxy.tunnel("shop.test:80");
    inside.send(format!("GET / HTTP/1.1\r\nHost: {long}.test\r\n\r\n"));
    assert_eq!(inside.response().status, 400);
    let log = decision_log(proxy);
    assert!(decisions(&log).count() >= 11, "{log}");
    for line in decisions(&log) {
        assert!(line.len() < LINE, "{} bytes: {line}", line.len());
    }
}

#[test]
fn a_preview_refuses_a_long_target_too() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let long = url("http://shop.test/", LONGEST + 1);
    let answer = proxy.admin_get(&format!("/v1/decision?url={long}"));
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(answer.text().contains("longer than 16 KiB"), "{}", answer.text());
    let longest = &long[..LONGEST];
    assert_eq!(proxy.admin_get(&format!("/v1/decision?url={longest}")).status, 200);
}

#[test]
fn the_log_of_a_long_target_is_sound_evidence() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    // The part of it that is kept is a URL by itself, which was never requested.
    let long = url("http://shop.test/", LONGEST + 1);
    assert_eq!(proxy.get(&long).status, 414);
    assert_eq!(proxy.get("http://shop.test/b").status, 200);
    let listed = proxy.admin_get(&format!("/v1/decisions?url={}", &long[..1024])).json();
    assert_eq!(listed["decisions"], serde_json::json!([]), "{listed}");
    let mut replay = command();
    replay.arg("replay").arg("--config").arg(proxy.config_with_ports());
    let (status, printed) = tools::status_and_output(replay.current_dir(proxy.dir.path()));
    assert_eq!(status, Some(0), "{printed}");
    assert!(printed.starts_with("2 decisions: "), "{printed}");
    let (dir, _) = proxy.stop();
    let directory = dir.path();
    let export = ["export", "--since", "1h", "--out", "out"];
    expect(&evidence(directory, &export), 0);
    let verified = expect(&evidence(directory, &["verify", "out"]), 0);
    assert!(verified.contains("nothing to derive"), "{verified}");
    let asked = expect(&evidence(directory, &["ask", &long[..1024], "--at", "0s"]), 2);
    assert!(asked.contains("the log has no request for"), "{asked}");
}
