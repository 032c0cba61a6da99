//! Attempts to get a page, a document or data past robots.txt as what a page loads (`subresources = "page"`).

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::harness::crawler::{Crawler, crawler};
use crate::harness::wayleave::Settings;
use crate::harness::{Origin, Reply, Request, Response, Wayleave, Wire, eventually};

const RULE: &str = r#"
[[rule]]
action = "refuse"
hosts = ["shop.test"]
paths = ["/static/ruled.png"]
"#;

/// Returns a crawler that may load what an allowed page loads.
fn page() -> Crawler {
    crawler("page", "PageBot").set("subresources", "page")
}

/// Adds another one of this kind, one that judges each URL, and a rule.
fn with_others(settings: Settings) -> Settings {
    settings
        .with(crawler("other", "OtherBot").set("subresources", "page"))
        .crawler("judge", "JudgeBot")
        .table(RULE)
}

/// The words of every body that no client may get.
const SECRET: &str = "what robots.txt keeps";

/// An attempt, made after `/page` was allowed.
struct Attempt {
    name: &'static str,
    /// The method and the path, or the URL.
    request: &'static str,
    /// The fields, in addition to or instead of those of an image that `/page` loads.
    fields: &'static [(&'static str, &'static str)],
    /// The reason of the refusal.
    reason: &'static str,
}

const fn attempt(
    name: &'static str,
    request: &'static str,
    fields: &'static [(&'static str, &'static str)],
    reason: &'static str,
) -> Attempt {
    Attempt { name, request, fields, reason }
}

const TYPE: &str = "subresource-type";

/// The field that names the kind of what is loaded.
const DEST: &str = "Sec-Fetch-Dest";

/// A page behind a forged destination: the origin is asked, and the client gets nothing of what it answers.
const RESPONSES: &[Attempt] = &[
    attempt("a page as a script", "GET /static/page", &[(DEST, "script")], TYPE),
    attempt("a page as a style sheet", "GET /static/page", &[(DEST, "style")], TYPE),
    attempt("a page as an image", "GET /static/page", &[(DEST, "image")], TYPE),
    attempt("a page as a font", "GET /static/page", &[(DEST, "font")], TYPE),
    attempt("a page as audio", "GET /static/page", &[(DEST, "audio")], TYPE),
    attempt("a page as video", "GET /static/page", &[(DEST, "video")], TYPE),
    attempt("a page as captions", "GET /static/page", &[(DEST, "track")], TYPE),
    attempt("a page as a worker", "GET /static/page", &[(DEST, "worker")], TYPE),
    attempt("a page as a shared worker", "GET /static/page", &[(DEST, "sharedworker")], TYPE),
    attempt("a page as a worklet", "GET /static/page", &[(DEST, "paintworklet")], TYPE),
    attempt("a page without Sec-Fetch-Mode", "GET /static/page", &[("Sec-Fetch-Mode", "")], TYPE),
    attempt(
        "a page by its origin alone",
        "GET /static/page",
        &[("Referer", "http://shop.test/")],
        TYPE,
    ),
    attempt(
        "a page of another origin",
        "GET http://cdn.test/",
        &[("Sec-Fetch-Site", "cross-site")],
        TYPE,
    ),
    attempt("JSONP as a script", "GET /static/jsonp.js", &[(DEST, "script")], TYPE),
    attempt("checked JSONP as a script", "GET /static/checked.js", &[(DEST, "script")], TYPE),
    attempt("JSON that is called a script", "GET /static/json.js", &[(DEST, "script")], TYPE),
    attempt("a page behind 600 blanks", "GET /static/blanks.js", &[(DEST, "script")], TYPE),
    attempt("a page behind a long comment", "GET /static/comment.png", &[], TYPE),
    attempt("white space without end", "GET /static/endless.js", &[(DEST, "script")], TYPE),
    attempt("a page that is labelled gzip", "GET /static/plain.png", &[], TYPE),
    attempt("a page that is labelled br", "GET /static/plain-br.png", &[], TYPE),
    attempt("an image that cannot be decoded", "GET /static/damaged.png", &[], TYPE),
    attempt("a page with a query", "GET /static/page?a.png", &[], TYPE),
    attempt("XHTML", "GET /static/page.xhtml", &[], TYPE),
    attempt("JSON as a script", "GET /static/data", &[(DEST, "script")], TYPE),
    attempt("JSON as an image", "GET /static/data", &[], TYPE),
    attempt("XML as a style sheet", "GET /static/feed", &[(DEST, "style")], TYPE),
    attempt("PDF as an image", "GET /static/paper", &[], TYPE),
    attempt("octets as a font", "GET /static/octets", &[(DEST, "font")], TYPE),
    attempt("text as a script", "GET /static/text", &[(DEST, "script")], TYPE),
    attempt("text as captions", "GET /static/text", &[(DEST, "track")], TYPE),
    attempt("no type", "GET /static/untyped", &[], TYPE),
    attempt("an empty type", "GET /static/empty-type", &[], TYPE),
    attempt("two types", "GET /static/two-types", &[], TYPE),
    attempt("two types in one field", "GET /static/listed-types", &[], TYPE),
    attempt("several parts", "GET /static/parts", &[("Range", "bytes=0-1,3-4")], TYPE),
    attempt("a script as an image", "GET /static/script", &[], TYPE),
    attempt("an image as a script", "GET /static/image", &[(DEST, "script")], TYPE),
    attempt("an error page", "GET /static/missing", &[], TYPE),
    attempt("an error page of the server", "GET /static/broken", &[(DEST, "script")], TYPE),
    attempt("a page that is called an image", "GET /static/page.png", &[], TYPE),
    attempt("one behind a prolog", "GET /static/prolog.svg", &[], TYPE),
    attempt(
        "a page that is called a style sheet",
        "GET /static/page.css",
        &[(DEST, "style")],
        TYPE,
    ),
    attempt("a compressed page that is called an image", "GET /static/packed.png", &[], TYPE),
    attempt("a page in two pieces that is called an image", "GET /static/pieces.png", &[], TYPE),
    attempt("PDF that is called an image", "GET /static/paper.png", &[], TYPE),
    attempt("a page in UTF-16 that is called an image", "GET /static/utf-16.png", &[], TYPE),
    attempt(
        "the middle of a page that is called an image",
        "GET /static/middle.png",
        &[("Range", "bytes=30-")],
        TYPE,
    ),
    attempt("a page that is packed twice", "GET /static/twice.png", &[], TYPE),
    attempt("a page in an unknown coding", "GET /static/coded.png", &[], TYPE),
];

/// A request that is judged as any other: the origin is not asked.
const REQUESTS: &[Attempt] = &[
    attempt("navigation", "GET /static/image", &[(DEST, "document")], "rule"),
    attempt("a frame", "GET /static/image", &[(DEST, "iframe")], "rule"),
    attempt("a frame of a frameset", "GET /static/image", &[(DEST, "frame")], "rule"),
    attempt("a fenced frame", "GET /static/image", &[(DEST, "fencedframe")], "rule"),
    attempt("an embedded document", "GET /static/image", &[(DEST, "embed")], "rule"),
    attempt("an object", "GET /static/image", &[(DEST, "object")], "rule"),
    attempt("fetch() or a download", "GET /static/image", &[(DEST, "empty")], "rule"),
    attempt("a JSON module", "GET /static/data", &[(DEST, "json")], "rule"),
    attempt("a manifest", "GET /static/data", &[(DEST, "manifest")], "rule"),
    attempt("a service worker", "GET /static/script", &[(DEST, "serviceworker")], "rule"),
    attempt("a report", "GET /static/image", &[(DEST, "report")], "rule"),
    attempt("a style sheet for XML", "GET /static/image", &[(DEST, "xslt")], "rule"),
    attempt("no destination", "GET /static/image", &[(DEST, "")], "rule"),
    attempt("two destinations", "GET /static/image", &[("+Sec-Fetch-Dest", "document")], "rule"),
    attempt(
        "two destinations in one field",
        "GET /static/image",
        &[(DEST, "image, document")],
        "rule",
    ),
    attempt("a destination in capitals", "GET /static/image", &[(DEST, "IMAGE")], "rule"),
    attempt(
        "an image as navigation",
        "GET /static/image",
        &[("Sec-Fetch-Mode", "navigate")],
        "rule",
    ),
    attempt(
        "the mode of a WebSocket",
        "GET /static/image",
        &[("Sec-Fetch-Mode", "websocket")],
        "rule",
    ),
    attempt("two modes", "GET /static/image", &[("+Sec-Fetch-Mode", "navigate")], "rule"),
    attempt("another site as the same origin", "GET http://cdn.test/a.png", &[], "rule"),
    attempt(
        "another site as the same site",
        "GET http://cdn.test/a.png",
        &[("Sec-Fetch-Site", "same-site")],
        "rule",
    ),
    attempt(
        "another host of the site as the same origin",
        "GET http://static.shop.test/a.png",
        &[],
        "rule",
    ),
    attempt("a person's own request", "GET /static/image", &[("Sec-Fetch-Site", "none")], "rule"),
    attempt("no referrer", "GET /static/image", &[("Referer", "")], "rule"),
    attempt("two referrers", "GET /static/image", &[("+Referer", "http://shop.test/x")], "rule"),
    attempt("a referrer that is no URL", "GET /static/image", &[("Referer", "/page")], "rule"),
    attempt(
        "a page that was never asked for",
        "GET /static/image",
        &[("Referer", "http://shop.test/never")],
        "rule",
    ),
    attempt(
        "another query",
        "GET /static/image",
        &[("Referer", "http://shop.test/page?1")],
        "rule",
    ),
    attempt(
        "another scheme",
        "GET /static/image",
        &[("Referer", "https://shop.test/page")],
        "rule",
    ),
    attempt("another port", "GET /static/image", &[("Referer", "http://shop.test:8080/")], "rule"),
    attempt("another host", "GET /static/image", &[("Referer", "http://www.shop.test/")], "rule"),
    attempt(
        "a page that was refused",
        "GET /static/image",
        &[("Referer", "http://shop.test/private/page")],
        "rule",
    ),
    attempt(
        "a page that was withheld",
        "GET /static/image",
        &[("Referer", "http://shop.test/static/page")],
        "rule",
    ),
    attempt(
        "a page that failed",
        "GET /static/image",
        &[("Referer", "http://down.test/page")],
        "rule",
    ),
    attempt(
        "a page of another crawler",
        "GET /static/image",
        &[("Referer", "http://news.test/")],
        "rule",
    ),
    attempt(
        "text that was allowed",
        "GET /static/image",
        &[("Referer", "http://texts.test/readme")],
        "rule",
    ),
    attempt(
        "an error that was allowed",
        "GET /static/image",
        &[("Referer", "http://texts.test/gone")],
        "rule",
    ),
    attempt(
        "an image as the cause",
        "GET /static/script",
        &[("Referer", "http://media.test/a.png")],
        "rule",
    ),
    attempt(
        "a style sheet of no page",
        "GET /static/image",
        &[("Referer", "http://media.test/own.css")],
        "rule",
    ),
    attempt("HEAD", "HEAD /static/image", &[], "rule"),
    attempt("POST", "POST /static/image", &[], "rule"),
    attempt("OPTIONS", "OPTIONS /static/image", &[], "rule"),
    attempt("a body", "GET /static/image", &[("Content-Length", "1")], "rule"),
    attempt(
        "a WebSocket",
        "GET /static/image",
        &[
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ],
        "rule",
    ),
    attempt(
        "a crawler that is judged",
        "GET /static/image",
        &[("User-Agent", "JudgeBot/1"), ("Referer", "http://judged.test/")],
        "rule",
    ),
    attempt(
        "a client that is no crawler",
        "GET /static/image",
        &[("User-Agent", "Unknown/1"), ("Referer", "http://unknown.test/")],
        "rule",
    ),
    attempt("a [[rule]]", "GET /static/ruled.png", &[], "policy-rule"),
    attempt("an unreachable robots.txt", "GET http://down.test/a.png", &[], "unreachable"),
    attempt(
        "another path in a field",
        "GET /static/image",
        &[("X-Original-URL", "/static/page")],
        "malformed-request",
    ),
    attempt(
        "another method in a field",
        "GET /static/image",
        &[("X-HTTP-Method-Override", "POST")],
        "malformed-request",
    ),
];

fn packed(text: impl AsRef<[u8]>) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(text.as_ref()).expect("memory");
    packer.finish().expect("memory")
}

/// Returns a text in UTF-16 with its byte order mark.
fn utf_16(text: &str) -> Vec<u8> {
    let marked = format!("\u{feff}{text}");
    marked.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn image(body: Vec<u8>) -> Reply {
    Reply::new(200).header("Content-Type", "image/png").body(body)
}

/// Adds pages that are called images and do not begin as pages do.
fn add_unreadable(origin: &Origin, html: &str) {
    origin
        .site("shop.test")
        .page("/static/utf-16.png", image(utf_16(html)))
        .page(
            "/static/middle.png",
            Reply { status: 206, ..image(SECRET.into()) }
                .header("Content-Range", "bytes 30-99/100"),
        )
        .page(
            "/static/twice.png",
            image(packed(packed(html))).header("Content-Encoding", "gzip, gzip"),
        )
        .page("/static/coded.png", image(packed(html)).header("Content-Encoding", "x-own"))
        .page("/static/plain.png", image(html.into()).header("Content-Encoding", "gzip"))
        .page("/static/plain-br.png", image(html.into()).header("Content-Encoding", "br"))
        .page(
            "/static/damaged.png",
            image([b"\x1f\x8b\x08\0", SECRET.as_bytes()].concat())
                .header("Content-Encoding", "gzip"),
        );
    let script =
        |body: String| Reply::new(200).header("Content-Type", "text/javascript").body(body);
    let json = format!("{{\"a\": \"{SECRET}\"}}");
    origin
        .site("shop.test")
        .page("/static/jsonp.js", script(format!("/**/callback({json});")))
        .page("/static/checked.js", script(format!("typeof cb === 'function' && cb({json});")))
        .page("/static/json.js", script(json.clone()))
        .page("/static/blanks.js", script(format!("{}{html}", " ".repeat(600))))
        .page("/static/comment.png", image(format!("<!--{}-->{html}", "x".repeat(600)).into()))
        .page("/static/endless.js", script(format!("{}{html}", " ".repeat(70_000))))
        .page("/static/licence.js", script(format!("/*{}*/x(\"{SECRET}\")", " ".repeat(6000))));
}

/// Starts sites of which everything worth having is disallowed.
fn sites() -> Origin {
    let origin = Origin::start();
    let html = format!("<!doctype html><title>x</title><p>{SECRET}");
    let typed = |content_type: &str, body: &str| {
        Reply::new(200).header("Content-Type", content_type).body(body)
    };
    let secret = |content_type: &str| typed(content_type, SECRET);
    let prolog = format!("<?xml version=\"1.0\"?>\n<!-- x -->\n<!DOCTYPE html><p>{SECRET}");
    let pdf = format!("%PDF-1.7 {SECRET}");
    origin
        .site("shop.test")
        .robots("User-agent: *\nDisallow: /static\nDisallow: /private\n")
        .page("/private/page", Reply::html(&html))
        .page("/static/page", Reply::html(&html))
        .page("/static/page?a.png", Reply::html(&html))
        .page("/static/page.xhtml", secret("application/xhtml+xml"))
        .page("/static/data", secret("application/json"))
        .page("/static/feed", secret("application/xml"))
        .page("/static/paper", secret("application/pdf"))
        .page("/static/octets", secret("application/octet-stream"))
        .page("/static/text", secret("text/plain"))
        .page("/static/untyped", Reply::new(200).body(SECRET))
        .page("/static/empty-type", secret(""))
        .page("/static/two-types", secret("image/png").header("Content-Type", "text/html"))
        .page("/static/listed-types", secret("image/png, text/html"))
        .page("/static/parts", Reply { status: 206, ..secret("multipart/byteranges; boundary=x") })
        .page("/static/script", secret("text/javascript"))
        .page("/static/image", secret("image/png"))
        .page("/static/missing", Reply { status: 404, ..Reply::html(&html) })
        .page("/static/broken", Reply { status: 500, ..Reply::html(&html) })
        .page("/static/page.png", typed("image/png", &html))
        .page("/static/prolog.svg", typed("image/svg+xml", &prolog))
        .page("/static/page.css", typed("text/css", &html))
        .page(
            "/static/packed.png",
            Reply::new(200)
                .header("Content-Type", "image/png")
                .header("Content-Encoding", "gzip")
                .body(packed(&html)),
        )
        .page("/static/pieces.png", typed("image/png", "<!doc").body(format!("type html>{SECRET}")))
        .page("/static/paper.png", typed("image/png", &pdf));
    add_unreadable(&origin, &html);
    for host in ["cdn.test", "static.shop.test"] {
        let site = origin.site(host).disallows("/");
        site.page("/", Reply::html(&html)).page("/a.png", typed("image/png", SECRET));
    }
    origin.site("down.test").robots_reply(Reply::new(503));
    origin
        .site("texts.test")
        .page("/readme", Reply::text("x"))
        .page("/gone", Reply { status: 404, ..Reply::html("gone") });
    origin
        .site("media.test")
        .page("/a.png", typed("image/png", "x"))
        .page("/own.css", typed("text/css", "x"));
    origin
}

/// Returns the request of an image that `/page` loads, changed as the attempt says. An empty value leaves a field out, and "+"
/// adds a second one.
fn request(attempt: &Attempt) -> Request {
    let (method, place) = attempt.request.split_once(' ').expect("a method");
    let url = match place.strip_prefix('/') {
        Some(path) => format!("http://shop.test/{path}"),
        None => place.to_owned(),
    };
    let usual = [
        ("User-Agent", "PageBot/1"),
        (DEST, "image"),
        ("Sec-Fetch-Mode", "no-cors"),
        ("Sec-Fetch-Site", "same-origin"),
        ("Referer", "http://shop.test/page"),
    ];
    let is_replaced = |name: &str| attempt.fields.iter().any(|(field, _)| *field == name);
    let kept = usual.into_iter().filter(|(name, _)| !is_replaced(name));
    let fields = kept.chain(attempt.fields.iter().copied()).filter(|(_, value)| !value.is_empty());
    let mut request = Request::new(method, &url);
    for (name, value) in fields {
        request = request.header(name.trim_start_matches('+'), value);
    }
    if is_replaced("Content-Length") { request.body("x") } else { request }
}

/// Visits the pages that attempts name as causes.
fn visit_pages(proxy: &Wayleave) {
    for (agent, url, status) in [
        ("PageBot/1", "http://shop.test/page", 200),
        ("PageBot/1", "http://shop.test/private/page", 403),
        ("PageBot/1", "http://down.test/page", 503),
        ("PageBot/1", "http://texts.test/readme", 200),
        ("PageBot/1", "http://texts.test/gone", 404),
        ("PageBot/1", "http://media.test/own.css", 200),
        ("OtherBot/1", "http://news.test/", 200),
        ("JudgeBot/1", "http://judged.test/", 200),
        ("Unknown/1", "http://unknown.test/", 200),
    ] {
        assert_eq!(proxy.get_as(agent, url).status, status, "{url}");
    }
    // An image that the page loads is no cause of anything itself.
    let image =
        Attempt { name: "", request: "GET http://media.test/a.png", fields: &[], reason: "" };
    assert_eq!(proxy.exchange(&request(&image)).status, 200);
}

#[track_caller]
fn expect_nothing(name: &str, answer: &Response, reason: &str) {
    assert!(answer.status >= 400, "{name}: {answer:?}");
    assert!(!answer.text().contains(SECRET), "{name}: {answer:?}");
    if !answer.body.is_empty() {
        assert_eq!(answer.json()["reason"], reason, "{name}: {answer:?}");
    }
}

/// Returns the number of requests that reached the origins, except those for robots.txt.
fn arrived(origin: &Origin) -> usize {
    origin.requests().iter().filter(|request| request.target != "/robots.txt").count()
}

#[test]
fn no_attempt_gets_a_page_as_a_subresource() {
    assert!(RESPONSES.len() + REQUESTS.len() >= 60);
    let origin = sites();
    let proxy = Wayleave::start_with(&origin, |settings| with_others(settings.with(page())));
    visit_pages(&proxy);
    for attempt in RESPONSES {
        let before = arrived(&origin);
        let answer = proxy.exchange(&request(attempt));
        expect_nothing(attempt.name, &answer, attempt.reason);
        assert_eq!(answer.status, 403, "{}: {answer:?}", attempt.name);
        assert_eq!(arrived(&origin), before + 1, "{}", attempt.name);
    }
    let before = arrived(&origin);
    for attempt in REQUESTS {
        let answer = proxy.exchange(&request(attempt));
        expect_nothing(attempt.name, &answer, attempt.reason);
        assert_eq!(arrived(&origin), before, "{}", attempt.name);
    }
    // A script after a long licence passes, and so does what another site serves to the page.
    for (request_line, fields) in [
        ("GET /static/licence.js", &[(DEST, "script")][..]),
        ("GET http://cdn.test/a.png", &[("Sec-Fetch-Site", "cross-site")]),
        ("GET http://static.shop.test/a.png", &[("Sec-Fetch-Site", "same-site")]),
    ] {
        let attempt = Attempt { name: "", request: request_line, fields, reason: "" };
        assert!(proxy.exchange(&request(&attempt)).text().contains(SECRET), "{request_line}");
    }
    // What the attempts forge is right: the image itself passes.
    let image = Attempt { name: "", request: "GET /static/image", fields: &[], reason: "" };
    assert_eq!(proxy.exchange(&request(&image)).text(), SECRET);
    let passed = [("outcome", "forwarded"), ("reason", "subresource-of")];
    eventually("they are counted", || proxy.metric("wayleave_requests_total", &passed) == 4.0);
}

#[test]
fn the_page_of_one_client_is_no_cause_for_another() {
    let origin = sites();
    let proxy = Wayleave::start_with(&origin, |settings| with_others(settings.with(page())));
    assert_eq!(proxy.get_as("PageBot/1", "http://shop.test/page").status, 200);
    let image = Attempt { name: "", request: "GET /static/image", fields: &[], reason: "" };
    for (client, status) in [([127, 0, 0, 2], 403), ([127, 0, 0, 1], 200)] {
        let mut wire = Wire::connect_from(client, proxy.proxy);
        wire.send(request(&image).absolute_form());
        assert_eq!(wire.response().status, status, "{client:?}");
    }
}

#[test]
fn a_redirect_leads_to_what_is_judged_by_its_own_type() {
    let origin = sites();
    let body = format!("<a href=\"/static/page\">{SECRET}</a>");
    let redirect =
        |to: &str| Reply::redirect(302, to).header("Content-Type", "text/html").body(&body);
    origin
        .site("shop.test")
        .page("/static/away", redirect("/static/page"))
        .page("/static/on", redirect("http://cdn.test/a.png"));
    let png = Reply::new(200).header("Content-Type", "image/png").body("png");
    origin.site("cdn.test").page("/a.png", png);
    let proxy = Wayleave::start_with(&origin, |settings| with_others(settings.with(page())));
    assert_eq!(proxy.get_as("PageBot/1", "http://shop.test/page").status, 200);
    let get = |request_line: &'static str| {
        let is_there = request_line.contains("cdn.test");
        let fields: &[_] = if is_there { &[("Sec-Fetch-Site", "cross-site")] } else { &[] };
        let attempt = Attempt { name: "", request: request_line, fields, reason: "" };
        proxy.exchange(&request(&attempt))
    };
    for (from, to) in
        [("GET /static/away", "/static/page"), ("GET /static/on", "http://cdn.test/a.png")]
    {
        let answer = get(from);
        assert_eq!((answer.status, answer.header("location")), (302, Some(to)), "{answer:?}");
        assert_eq!((answer.text().as_str(), answer.header("content-type")), ("", None));
    }
    expect_nothing("where it leads", &get("GET /static/page"), TYPE);
    assert_eq!(get("GET http://cdn.test/a.png").text(), "png");
}

#[test]
fn a_restart_forgets_the_pages() {
    let origin = sites();
    let proxy = Wayleave::start_with(&origin, |settings| with_others(settings.with(page())));
    assert_eq!(proxy.get_as("PageBot/1", "http://shop.test/page").status, 200);
    let (dir, settings) = proxy.stop();
    let proxy = Wayleave::start_in(dir, settings);
    let image = Attempt { name: "", request: "GET /static/image", fields: &[], reason: "" };
    expect_nothing("a page from before", &proxy.exchange(&request(&image)), "rule");
}

#[test]
fn a_page_that_was_only_observed_is_no_cause() {
    let origin = sites();
    let proxy =
        Wayleave::start_with(&origin, |settings| with_others(settings.with(page().observed())));
    assert_eq!(proxy.get_as("PageBot/1", "http://shop.test/private/page").status, 200);
    let image = Attempt {
        name: "",
        request: "GET /static/image",
        fields: &[("Referer", "http://shop.test/private/page")],
        reason: "",
    };
    assert_eq!(proxy.exchange(&request(&image)).status, 200);
    let observed = [("outcome", "observed"), ("reason", "rule")];
    eventually("both are observed", || proxy.metric("wayleave_requests_total", &observed) == 2.0);
    let passed = [("outcome", "forwarded"), ("reason", "subresource-of")];
    assert_eq!(proxy.metric("wayleave_requests_total", &passed), 0.0);
}
