//! Responses that a gateway shows.

use serde_json::Value;

use super::{IcapAnswer, IcapGated, chunked, get, reqmod, respmod};
use crate::gateway::ROBOTS;
use crate::harness::crawler::crawler;
use crate::harness::wayleave::command;
use crate::harness::{Origin, decisions};

const PAGE: &str = "http://shop.test/page";
const INDEX: &str = "User-Agent: IndexBot/1.0\r\n";

/// Starts a proxy that knows a crawler that searches, one that loads pages whole, and one that wants short responses.
fn start(origin: &Origin) -> IcapGated {
    origin.site("shop.test").robots(ROBOTS);
    IcapGated::start_with(origin, |settings| {
        settings
            .with(crawler("index", "IndexBot").purposes(["search"]))
            .with(crawler("page", "PageBot").set("subresources", "page"))
            .with(crawler("small", "SmallBot").set("max_response_bytes", "1 KiB"))
            .set("log.body_digest", "\"sha-256\"")
    })
}

fn html(fields: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{fields}\r\n")
}

fn preferences(decision: &Value) -> (&Value, &Value) {
    (&decision["outcome"], &decision["reason"])
}

#[test]
fn a_page_that_refuses_its_use_is_withheld() {
    let origin = Origin::start();
    let gated = start(&origin);
    let request = get(PAGE, INDEX);
    let noindex = chunked("<!doctype html><meta name=robots content=noindex><p>the page");
    let field = html("X-Robots-Tag: noindex\r\n");
    let plain = html("");
    let mut wire = gated.connect();
    for (response, fields, body) in [
        (&field, "Allow: 204\r\nPreview: 0\r\n", Some("0\r\n\r\n")),
        (&field, "", Some(noindex.as_str())),
        (&plain, "", Some(noindex.as_str())),
        (&plain, "Allow: 204\r\n", Some(noindex.as_str())),
    ] {
        wire.0.send(respmod(&request, response, fields, body));
        let answer = wire.answer();
        assert_eq!(answer.http_status(), Some(403), "{answer:?}");
        assert_eq!(answer.json()["reason"], "preference");
    }
    // The page is read only after leave to go on.
    wire.0.send(respmod(&request, &plain, "Preview: 0\r\n", Some("0\r\n\r\n")));
    assert_eq!(wire.head().expect("an answer").status, 100);
    wire.0.send(&noindex);
    assert_eq!(wire.answer().http_status(), Some(403));
    let decision = gated.gated.proxy.newest_decision(PAGE);
    assert_eq!(preferences(&decision), (&"refused".into(), &"preference".into()));
    assert_eq!((&decision["reached_origin"], &decision["via"]), (&true.into(), &"gateway".into()));
}

#[test]
fn a_page_that_passes_is_labelled_and_kept() {
    let origin = Origin::start();
    let gated = start(&origin);
    let request = get(PAGE, INDEX);
    // What a page says of itself is not ours.
    let response = html(
        "Wayleave-Preferences: search=allow;from=\"forged\"\r\nX-Kept: yes\r\nContent-Length: 70002\r\n",
    );
    let body = format!("<p>{}", "x".repeat(69_999));
    let mut wire = gated.connect();
    wire.0.send(respmod(&request, &response, "Allow: 204\r\nPreview: 0\r\n", Some("0\r\n\r\n")));
    assert_eq!(wire.head().expect("an answer").status, 100);
    wire.0.send(chunked(&body));
    let answer = wire.answer();
    assert!(answer.has("Wayleave-Preferences: search=unstated"), "{}", answer.inside);
    assert!(!answer.inside.contains("forged"), "{}", answer.inside);
    assert!(answer.has("X-Kept: yes") && answer.has("Content-Length: 70002"));
    assert_eq!(answer.body, body.as_bytes());
    let decision = gated.gated.proxy.newest_decision(PAGE);
    assert_eq!(decision["outcome"], "forwarded");
    // The gateway sends the body, not the proxy.
    assert_eq!(decision["body_sha256"], Value::Null);
}

#[test]
fn other_responses_remain_as_they_are() {
    let origin = Origin::start();
    let gated = start(&origin);
    let request = get(PAGE, "");
    let body = chunked("hello");
    let mut wire = gated.connect();
    for (fields, sent, status) in [
        ("Preview: 0\r\n", Some("0\r\n\r\n"), 204),
        ("Allow: 204\r\n", None, 204),
        ("", None, 200),
        ("", Some(body.as_str()), 200),
        // A peer that keeps nothing gets the body back.
        ("Allow: 204\r\n", Some(body.as_str()), 200),
    ] {
        wire.0.send(respmod(&request, &html("X: y\r\n"), fields, sent));
        let answer = wire.answer();
        assert_eq!(answer.icap.status, status, "{fields} {sent:?}");
        if status == 200 {
            assert_eq!(answer.inside, html("X: y\r\n"));
            assert_eq!(answer.body, sent.map_or(&b""[..], |_| b"hello"));
        }
    }
    // They say nothing more than their requests, about which nobody asked.
    let asked = gated.gated.proxy.admin_get("/v1/decisions").json();
    assert_eq!(asked["decisions"].as_array().map(Vec::len), Some(0), "{asked}");
}

#[test]
fn the_response_to_a_disallowed_request_is_withheld() {
    let origin = Origin::start();
    let gated = start(&origin);
    let request = get("http://shop.test/private", "");
    let answer = gated.ask(respmod(&request, &html(""), "Preview: 0\r\n", Some("0\r\n\r\n")));
    assert_eq!((answer.http_status(), &answer.json()["reason"]), (Some(403), &"rule".into()));
    let decision = gated.gated.proxy.newest_decision("http://shop.test/private");
    assert_eq!(
        (&decision["outcome"], &decision["reached_origin"]),
        (&"refused".into(), &true.into())
    );
}

#[test]
fn a_response_that_no_reader_would_take_is_replaced() {
    let origin = Origin::start();
    let gated = start(&origin);
    let request = get(PAGE, "");
    for fields in [
        "Content-Length: 1\r\nContent-Length: 2\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Content-Length: 1\x01\r\n",
    ] {
        let answer =
            gated.ask(respmod(&request, &html(fields), "Preview: 0\r\n", Some("0\r\n\r\n")));
        assert_eq!(answer.http_status(), Some(502), "{fields:?} {answer:?}");
    }
    let decision = gated.gated.proxy.newest_decision(PAGE);
    assert_eq!(preferences(&decision), (&"failed".into(), &"http_protocol_error".into()));
}

/// Shows the response to a request that a page causes.
fn load(gated: &IcapGated, path: &str, content_type: &str, body: &str) -> (IcapAnswer, IcapAnswer) {
    let fields =
        "User-Agent: PageBot/1.0\r\nReferer: http://shop.test/page\r\nSec-Fetch-Dest: script\r\n";
    let request = get(&format!("http://shop.test{path}"), fields);
    let asked = gated.request(&request);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n\r\n");
    let shown = gated.ask(respmod(&request, &head, "Allow: 204\r\n", Some(&chunked(body))));
    (asked, shown)
}

#[test]
fn a_file_of_a_page_passes_where_its_response_is_shown() {
    let origin = Origin::start();
    let gated = start(&origin);
    let (asked, shown) = load(&gated, "/private/a.js", "text/javascript", "1");
    assert_eq!((asked.http_status(), shown.http_status()), (Some(403), Some(403)), "no page yet");
    let page = get(PAGE, "User-Agent: PageBot/1.0\r\n");
    assert_eq!(gated.request(&page).icap.status, 204);
    let shown = gated.ask(respmod(&page, &html(""), "Allow: 204\r\n", Some("0\r\n\r\n")));
    assert_eq!(shown.http_status(), Some(200), "{shown:?}");
    let (asked, shown) = load(&gated, "/private/a.js", "text/javascript", "let a;");
    assert_eq!((asked.icap.status, shown.icap.status), (204, 204), "{shown:?}");
    for (content_type, body) in [("text/html", "let a;"), ("text/javascript", "<!doctype html><p>")]
    {
        let (asked, shown) = load(&gated, "/private/a.js", content_type, body);
        assert_eq!(asked.icap.status, 204);
        assert_eq!(shown.json()["reason"], "subresource-type", "{content_type} {body}");
    }
    // The page's line is that by which its files name it.
    let file = gated.gated.proxy.newest_decision("http://shop.test/private/a.js");
    let id = file["subresource"]["decision"].as_str().expect("an id");
    assert_eq!(gated.gated.proxy.admin_get(&format!("/v1/decisions/{id}")).json()["url"], PAGE);
    // A gateway that shows no responses does not profit from it.
    let fields = [("User-Agent", "PageBot/1.0"), ("Referer", PAGE), ("Sec-Fetch-Dest", "script")];
    assert_eq!(gated.gated.check("GET", "http://shop.test/private/a.js", &fields).status, 403);
}

#[test]
fn a_response_that_is_too_long_is_cut() {
    let origin = Origin::start();
    let gated = start(&origin);
    let request = get(PAGE, "User-Agent: SmallBot/1.0\r\n");
    let stated = "HTTP/1.1 200 OK\r\nContent-Length: 1025\r\n\r\n";
    let refused = gated.ask(respmod(&request, stated, "Preview: 0\r\n", Some("0\r\n\r\n")));
    assert_eq!(refused.json()["reason"], "response-too-large");
    let unstated = "HTTP/1.1 200 OK\r\n\r\n";
    let fits = chunked(&"x".repeat(1024));
    let passed = gated.ask(respmod(&request, unstated, "Allow: 204\r\n", Some(&fits)));
    assert_eq!((passed.http_status(), passed.body.len()), (Some(200), 1024));
    let mut wire = gated.connect();
    let half = format!("200\r\n{}\r\n", "x".repeat(512));
    wire.0.send(respmod(&request, unstated, "", Some(&half.repeat(3))));
    let head = wire.head().expect("an answer");
    assert_eq!(head.status, 200);
    let rest = std::iter::from_fn(|| wire.0.fill(1).ok().map(|()| wire.0.take(1)[0]));
    let rest = String::from_utf8(rest.collect()).expect("text");
    assert!(rest.matches('x').count() <= 1024 && !rest.ends_with("0\r\n\r\n"), "{rest}");
    let decision = gated.gated.proxy.newest_decision(PAGE);
    assert_eq!(preferences(&decision), (&"failed".into(), &"response-too-large".into()));
}

#[test]
fn lines_about_responses_can_be_verified_and_replayed() {
    let origin = Origin::start();
    let gated = start(&origin);
    let index = get(PAGE, INDEX);
    let show = |request: &str, response: &str| {
        gated.ask(respmod(request, response, "", Some("0\r\n\r\n"))).http_status()
    };
    assert_eq!(gated.ask(reqmod(&index, "Allow: 204\r\n", None)).icap.status, 204);
    assert_eq!(show(&index, &html("X-Robots-Tag: noindex\r\n")), Some(403));
    assert_eq!(show(&index, &html("")), Some(200));
    assert_eq!(show(&get("http://shop.test/private", ""), &html("")), Some(403));
    assert_eq!(
        show(&get(PAGE, ""), "HTTP/1.1 402 Pay\r\nCrawler-Price: USD 0.01\r\n\r\n"),
        Some(402)
    );
    assert_eq!(show(&get(PAGE, ""), &html("Content-Length: x\r\n")), Some(502));
    let (dir, _) = gated.gated.proxy.stop();
    let log = std::fs::read_to_string(dir.path().join("state/decisions.jsonl")).expect("a log");
    assert_eq!(
        decisions(&log).filter(|line| line.contains("\"via\":\"gateway\"")).count(),
        6,
        "{log}"
    );
    assert!(log.contains("\"price\":\"0.01\""), "{log}");
    for arguments in [
        &["replay", "--config", "config.toml"][..],
        &["evidence", "export", "--config", "config.toml", "--out", "export", "--since", "1h"],
        &["evidence", "verify", "export"],
    ] {
        let output = command().args(arguments).current_dir(dir.path()).output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    }
}
