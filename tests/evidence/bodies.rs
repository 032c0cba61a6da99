//! `log.body_digest`: which request a body came from.

use serde_json::Value;

use super::export::{evidence, expect};
use super::{sha256_hex, wait_until_written};
use crate::harness::client::reset_when_dropped;
use crate::harness::crawler::crawler;
use crate::harness::origin::reply::{Framing, Step, pattern};
use crate::harness::wayleave::Settings;
use crate::harness::{Gate, Origin, Reply, Request, Wayleave, decisions, eventually};

const MEBIBYTE: u64 = 1 << 20;

/// The word `packed`, by gzip.
const PACKED: &[u8] = b"\x1f\x8b\x08\0\0\0\0\0\x02\x03+HL\xceNM\x01\0\x10\xb4\xf6!\x06\0\0\0";

fn with_digests(settings: Settings) -> Settings {
    settings.set("log.body_digest", "\"sha-256\"")
}

/// Returns the sites `shop.test`, and `old.test` without HTTP/2, whose pages are framed in every way.
fn sites() -> Origin {
    let origin = Origin::start();
    let chunked = Reply::new(200).framing(Framing::Chunked);
    for site in [origin.site("shop.test"), origin.site("old.test").http1_only()] {
        site.page("/sized", Reply::text("sized"))
            .page("/chunked", chunked.clone().body("in ").body("three ").body("chunks"))
            .page("/packed", Reply::new(200).header("Content-Encoding", "gzip").body(PACKED))
            .page("/part", Reply::new(206).header("Content-Range", "bytes 2-4/9").body("cde"))
            .page("/closed", Reply::text("until close").framing(Framing::UntilClose))
            .page("/trailers", Reply::text("before trailers").trailer("X-Sum", "42"))
            .page("/error", Reply::new(500).body("an error"))
            .page("/big", Reply::new(200).step(Step::Pattern(5 * MEBIBYTE)))
            .page("/big-chunked", chunked.clone().step(Step::Pattern(5 * MEBIBYTE + 1)));
    }
    origin.site("plain.test").page("/1.0", Reply::raw("HTTP/1.0 200 OK\r\n\r\nold", Step::Close));
    origin
}

/// The paths of both sites, with their bodies.
fn bodies() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("/sized", b"sized".to_vec()),
        ("/chunked", b"in three chunks".to_vec()),
        ("/packed", PACKED.to_vec()),
        ("/part", b"cde".to_vec()),
        ("/closed", b"until close".to_vec()),
        ("/trailers", b"before trailers".to_vec()),
        ("/error", b"an error".to_vec()),
        ("/big", pattern(5 * MEBIBYTE)),
        ("/big-chunked", pattern(5 * MEBIBYTE + 1)),
    ]
}

/// Checks that a decision has the digest of these bytes, which its client got.
#[track_caller]
fn assert_digest(decision: &Value, got: &[u8]) {
    assert_eq!(decision["body_bytes"], got.len(), "{decision}");
    assert_eq!(decision["body_sha256"], sha256_hex(got), "{decision}");
}

/// Checks that a decision about a response of which its client got the beginning has the digest of that. Returns its length.
#[track_caller]
fn assert_digest_of_beginning(decision: &Value, whole: &[u8]) -> usize {
    let length = decision["body_bytes"].as_u64().expect("a length");
    let length = usize::try_from(length).expect("it was sent");
    assert_digest(decision, &whole[..length]);
    length
}

#[test]
fn the_digest_is_of_the_body_that_the_client_got() {
    let origin = sites();
    let proxy = Wayleave::start_with(&origin, with_digests);
    for (path, body) in bodies() {
        for site in ["http://shop.test", "https://shop.test", "https://old.test"] {
            let url = format!("{site}{path}");
            let got = proxy.get(&url).body;
            assert!(got == body, "{url}: {} bytes", got.len());
            assert_digest(&proxy.newest_decision(&url), &got);
        }
    }
    let url = "http://plain.test/1.0";
    assert_eq!(proxy.get(url).text(), "old");
    assert_digest(&proxy.newest_decision(url), b"old");
    // A client of HTTP/1.0 gets a chunked body without its chunks.
    let url = "http://shop.test/chunked";
    origin.site("shop.test").page("/chunked?1", Reply::text("loose").framing(Framing::Chunked));
    let mut wire = proxy.connect();
    wire.send(format!("GET {url}?1 HTTP/1.0\r\nUser-Agent: ExampleBot\r\n\r\n"));
    assert_eq!(wire.response().text(), "loose");
    assert_digest(&proxy.newest_decision(&format!("{url}?1")), b"loose");
}

#[test]
fn the_digest_over_http2_is_of_the_body_that_the_client_got() {
    let origin = sites();
    let proxy = Wayleave::start_with(&origin, with_digests);
    for site in ["shop.test", "old.test"] {
        let client = proxy.http2(&format!("{site}:443"));
        // HTTP/2 has no body that ends with its connection.
        for (path, body) in bodies().into_iter().filter(|body| body.0 != "/closed") {
            let got = client.get(path).body;
            assert!(got == body, "{site}{path}: {} bytes", got.len());
            assert_digest(&proxy.newest_decision(&format!("https://{site}{path}")), &got);
        }
    }
}

#[test]
fn an_answer_without_content_of_the_origin_has_no_digest() {
    let origin = Origin::start();
    origin
        .site("shop.test")
        .disallows("/private")
        .page("/full", Reply::text("content"))
        .page("/none", Reply::new(204))
        .page("/same", Reply::new(304).header("ETag", "\"v1\""))
        .page("/empty", Reply::new(200))
        .page("/empty-chunked", Reply::new(200).framing(Framing::Chunked))
        .page("/silent", Reply::nothing(Step::Close))
        .page("/socket", Reply::websocket());
    let proxy = Wayleave::start_with(&origin, with_digests);
    let url = |path: &str| format!("http://shop.test{path}");
    for (request, status) in [
        (Request::get(&url("/robots.txt")), 200),
        (Request::get(&url("/private")), 403),
        (Request::new("HEAD", &url("/full")), 200),
        (Request::get(&url("/none")), 204),
        (Request::get(&url("/same")), 304),
        (Request::get(&url("/empty")), 200),
        (Request::get(&url("/empty-chunked")), 200),
        (Request::get(&url("/silent")), 502),
        (Request::new("OPTIONS", &url("/full")).header("Max-Forwards", "0"), 200),
    ] {
        assert_eq!(proxy.exchange(&request).status, status, "{request:?}");
        let decision = proxy.newest_decision(&request.url);
        assert_eq!((&decision["status"], &decision["body_sha256"]), (&status.into(), &Value::Null));
    }
    let mut wire = proxy.connect();
    let request = Request::get(&url("/socket")).websocket();
    wire.send(request.absolute_form());
    assert_eq!(wire.response_head().status, 101);
    wire.send("echo");
    assert_eq!(wire.bytes(4), b"echo");
    drop(wire);
    assert_eq!(proxy.newest_decision(&request.url)["body_sha256"], Value::Null);
}

#[test]
fn a_body_in_an_uninspected_tunnel_has_no_digest() {
    let origin = sites();
    let proxy = Wayleave::start_with(&origin, |settings| {
        with_digests(settings).set("https.mode", "\"tunnel\"")
    });
    let mut wire = proxy.connect();
    assert_eq!(wire.connect_tunnel("shop.test:443").status, 200);
    let roots = std::fs::read(proxy.dir.path().join("origins.pem")).expect("it was written");
    let mut inside = wire.start_tls("shop.test", &roots, &["http/1.1"]).expect("its own").wire;
    inside.send(Request::get("https://shop.test/sized").origin_form());
    assert_eq!(inside.response().text(), "sized");
    drop(inside);
    let decision = proxy.newest_decision("shop.test:443");
    assert_eq!(
        (&decision["outcome"], &decision["body_sha256"]),
        (&"tunnelled".into(), &Value::Null)
    );
}

#[test]
fn a_response_that_its_origin_cuts_has_the_digest_of_its_beginning() {
    let origin = Origin::start();
    let part = Reply::new(200).body("the first part");
    origin
        .site("shop.test")
        .page("/sized", part.clone().claims_length(100).step(Step::Close))
        .page("/chunked", part.framing(Framing::Chunked).step(Step::Cut));
    let proxy = Wayleave::start_with(&origin, with_digests);
    for path in ["/sized", "/chunked"] {
        let url = format!("http://shop.test{path}");
        let mut wire = proxy.connect();
        wire.send_get(&url);
        let head = wire.response_head();
        if head.header("transfer-encoding").is_some() {
            assert_eq!(wire.bytes(3), b"E\r\n");
        }
        assert_eq!(wire.bytes(14), b"the first part");
        let decision = proxy.newest_decision(&url);
        assert_eq!((&decision["outcome"], &decision["status"]), (&"failed".into(), &200.into()));
        assert_digest(&decision, b"the first part");
    }
    // Longer than the windows of flow control, so that the reset does not overtake all of it.
    let reset = Reply::new(200).step(Step::Pattern(MEBIBYTE)).step(Step::Reset);
    origin.site("shop.test").page("/reset", reset.claims_length(2 * MEBIBYTE));
    let url = "https://shop.test/reset";
    proxy.http2("shop.test:443").try_exchange(&Request::get(url)).expect_err("it was cut");
    let decision = proxy.newest_decision(url);
    assert_eq!(decision["outcome"], "failed", "{decision}");
    assert_ne!(assert_digest_of_beginning(&decision, &pattern(MEBIBYTE)), 0);
}

#[test]
fn a_client_that_leaves_has_the_digest_of_what_was_sent() {
    let origin = Origin::start();
    let started = Reply::new(200).step(Step::Pattern(MEBIBYTE)).claims_length(2 * MEBIBYTE);
    origin
        .site("shop.test")
        .page("/waits", started.step(Step::Hang))
        .page("/endless", Reply::new(200).step(Step::Pattern(1 << 30)));
    let proxy = Wayleave::start_with(&origin, with_digests);
    // It has read all that there was.
    let url = "http://shop.test/waits";
    let mut wire = proxy.connect();
    wire.send_get(url);
    wire.response_head();
    let got = wire.bytes(MEBIBYTE as usize);
    reset_when_dropped(&wire.tcp);
    drop(wire);
    let decision = proxy.newest_decision(url);
    assert_eq!(decision["reason"], "client-closed", "{decision}");
    assert_digest(&decision, &got);
    // The rest is in buffers, or was never sent.
    let url = "http://shop.test/endless";
    let mut wire = proxy.connect();
    wire.send_get(url);
    wire.response_head();
    let got = wire.bytes(100_000);
    reset_when_dropped(&wire.tcp);
    drop(wire);
    let decision = proxy.newest_decision(url);
    let sent = decision["body_bytes"].as_u64().expect("a length");
    let sent = assert_digest_of_beginning(&decision, &pattern(sent));
    assert!(sent >= got.len() && sent < 1 << 30, "{sent}");
}

#[test]
fn a_response_that_grows_too_long_has_the_digest_of_its_beginning() {
    let origin = Origin::start();
    let gate = Gate::closed();
    let growing = Reply::new(200).framing(Framing::Chunked).step(Step::Pattern(1000));
    let growing = growing.step(Step::Wait(gate.clone())).step(Step::Pattern(1000));
    origin.site("shop.test").page("/growing", growing);
    let proxy = Wayleave::start_with(&origin, |settings| {
        with_digests(settings).with(crawler("small", "SmallBot").set("max_response_bytes", "1 KiB"))
    });
    let url = "http://shop.test/growing";
    let mut wire = proxy.connect();
    wire.send(Request::get(url).agent("SmallBot/1").absolute_form());
    wire.response_head();
    assert_eq!(wire.bytes(5), b"3E8\r\n");
    let got = wire.bytes(1000);
    gate.open();
    let decision = proxy.newest_decision(url);
    assert_eq!(decision["reason"], "response-too-large", "{decision}");
    assert_digest(&decision, &got);
}

#[test]
fn a_page_that_is_read_before_it_is_forwarded_has_the_same_digest() {
    let origin = Origin::start();
    let page = format!("<!doctype html><p>{}", "x".repeat(200_000));
    origin
        .site("shop.test")
        .page("/page", Reply::html(&page))
        .page("/short", Reply::html("<p>short").framing(Framing::Chunked))
        .page("/withheld", Reply::html("<meta name=robots content=noindex>"));
    let proxy = Wayleave::start_with(&origin, |settings| {
        with_digests(settings).with(crawler("index", "IndexBot").purposes(["search"]))
    });
    for (path, page) in [("/page", &*page), ("/short", "<p>short")] {
        let url = format!("http://shop.test{path}");
        assert_eq!(proxy.get_as("IndexBot/1", &url).text(), page);
        assert_digest(&proxy.newest_decision(&url), page.as_bytes());
    }
    let url = "http://shop.test/withheld";
    assert_eq!(proxy.get_as("IndexBot/1", url).status, 403);
    let decision = proxy.newest_decision(url);
    assert_eq!(
        (&decision["reached_origin"], &decision["body_sha256"]),
        (&true.into(), &Value::Null)
    );
}

#[test]
fn digests_begin_and_end_with_a_reload() {
    let origin = sites();
    let proxy = Wayleave::start(&origin);
    let settings = proxy.settings.clone();
    for (settings, path, digest) in [
        (settings.clone(), "/sized", None),
        (with_digests(settings.clone()), "/part", Some(sha256_hex(b"cde"))),
        (settings.set("log.body_digest", "\"none\""), "/chunked", None),
    ] {
        proxy.reload(&settings);
        let url = format!("http://shop.test{path}");
        proxy.get(&url);
        let decision = proxy.newest_decision(&url);
        assert_eq!(decision["body_sha256"].as_str(), digest.as_deref(), "{decision}");
    }
}

#[test]
fn ask_finds_the_requests_that_a_body_came_from() {
    let origin = sites();
    origin.site("copy.test").page("/same", Reply::text("sized"));
    let proxy = Wayleave::start_with(&origin, |settings| {
        with_digests(settings)
            .crawler("news", "NewsBot")
            .with(crawler("seen", "SeenBot").observed())
    });
    origin.site("shop.test").disallows("/part");
    proxy.get("http://shop.test/sized");
    proxy.get_as("NewsBot/1", "http://copy.test/same");
    proxy.get("http://old.test/part");
    proxy.get_as("SeenBot/1", "http://shop.test/part");
    for url in ["http://shop.test/sized", "http://copy.test/same", "http://shop.test/part"] {
        wait_until_written(&proxy, url);
    }
    let digest = sha256_hex(b"sized");
    let dir = proxy.dir.path();
    let ask = |arguments: &[&str]| evidence(dir, &[&["ask"], arguments].concat());
    eventually("the lines are signed", || {
        ask(&["--body-sha256", &digest]).status.code() == Some(0)
    });
    let printed = expect(&ask(&["--body-sha256", &digest.to_uppercase()]), 0);
    for words in [
        &format!("Asked: which responses had a body with the SHA-256 {digest}?\n"),
        "\nAnswer: 2 did.\n",
        "request     GET http://shop.test/sized\n",
        "request     GET http://copy.test/same\n",
        &format!("body        SHA-256 {digest}\n"),
    ] {
        assert!(printed.contains(words), "{words} in {printed}");
    }
    let printed = expect(&ask(&["--body-sha256", &digest, "--crawler", "news", "--json"]), 0);
    let [line] = printed.lines().collect::<Vec<_>>()[..] else { panic!("one line: {printed}") };
    let decision: Value = serde_json::from_str(line).expect("JSON");
    assert_eq!(
        (&decision["url"], &decision["crawler"]),
        (&"http://copy.test/same".into(), &"news".into())
    );
    // The second was not allowed, although it was sent.
    expect(&ask(&["--body-sha256", &sha256_hex(b"cde")]), 1);
    let printed = expect(&ask(&["--body-sha256", &sha256_hex(b"another")]), 2);
    assert!(printed.contains("the log has no response with this body"), "{printed}");
    for (wrong, message) in [
        (&digest[1..], "64 hexadecimal digits, and these are 63"),
        (&*digest.replace(&digest[..1], "g"), "64 hexadecimal digits, and 'g' is not one"),
        ("", "64 hexadecimal digits, and these are 0"),
    ] {
        let printed = expect(&ask(&["--body-sha256", wrong]), 2);
        assert!(printed.contains(message), "{message} in {printed}");
    }
    for arguments in [
        &["--body-sha256", &digest, "http://shop.test/sized", "--at", "0s"][..],
        &["--body-sha256", &digest, "--nodes", "http://127.0.0.1:1"],
        &["http://shop.test/sized"],
        &["--at", "0s"],
    ] {
        expect(&ask(arguments), 2);
    }
}

#[test]
fn a_digest_in_a_forged_line_is_not_trusted() {
    let origin = sites();
    let proxy = Wayleave::start_with(&origin, with_digests);
    proxy.get("http://shop.test/sized");
    wait_until_written(&proxy, "http://shop.test/sized");
    let (dir, settings) = proxy.stop();
    let log = dir.path().join("state/decisions.jsonl");
    let text = std::fs::read_to_string(&log).expect("it is there");
    let decision = decisions(&text).next().expect("there is one");
    let forged = decision.replace(&sha256_hex(b"sized"), &sha256_hex(b"forged"));
    assert_ne!(forged, decision);
    std::fs::write(&log, format!("{text}{forged}\n")).expect("it is ours");
    let (dir, _) = Wayleave::start_in(dir, settings).stop();
    for (body, status) in [("sized", 0), ("forged", 2)] {
        let ask = ["ask", "--body-sha256", &sha256_hex(body.as_bytes())];
        let printed = expect(&evidence(dir.path(), &ask), status);
        assert_eq!(printed.contains("was written by somebody else"), status == 2, "{printed}");
    }
}
