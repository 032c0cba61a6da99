//! The files that a page loads, for crawlers with `subresources = "page"`. tests/security has the attempts to misuse it.

use serde_json::Value;

use crate::evidence::export::{evidence, expect};
use crate::harness::crawler::crawler;
use crate::harness::wayleave::Settings;
use crate::harness::{Origin, Reply, Request, Response, Wayleave, eventually};

/// Adds three crawlers that load what a page loads, one of them for training and one observed, and one that judges each URL.
fn with_crawlers(settings: Settings) -> Settings {
    let page = |name: &str, token: &str| crawler(name, token).set("subresources", "page");
    settings
        .with(page("page", "PageBot"))
        .with(page("careful", "CarefulBot").purposes(["train-ai"]))
        .with(page("watched", "WatchedBot").observed())
        .crawler("judge", "JudgeBot")
}

fn typed(content_type: &str) -> Reply {
    Reply::new(200).header("Content-Type", content_type).body(content_type)
}

/// Starts a shop whose robots.txt disallows what its pages load, here and at another host.
fn shop() -> Origin {
    let origin = Origin::start();
    let site = origin.site("shop.test").disallows("/static");
    site.page("/open.css", typed("text/css"))
        .page("/static/a.css", typed("text/css"))
        .page("/static/a.js", typed("text/javascript; charset=utf-8"))
        .page("/static/a.svg", typed("image/svg+xml"))
        .page("/static/a.woff2", typed("font/woff2"))
        .page("/static/a.mp4", Reply { status: 206, ..typed("video/mp4") })
        .page("/static/a.vtt", typed("text/vtt"))
        .page("/static/same", Reply::new(304))
        .page("/static/nothing", Reply::new(204))
        .page("/static/page", Reply::html("page"));
    origin
        .site("cdn.test")
        .disallows("/")
        .page("/b.css", typed("text/css"))
        .page("/b.woff2", typed("font/woff2"))
        .page("/no-training.png", typed("image/png").header("Content-Usage", "train-ai=n"));
    origin
}

fn load(proxy: &Wayleave, agent: &str, url: &str, dest: &str, referrer: &str) -> Response {
    let request = Request::get(url).agent(agent).header("Sec-Fetch-Dest", dest);
    proxy.exchange(&request.header("Sec-Fetch-Mode", "no-cors").header("Referer", referrer))
}

const PAGE: &str = "https://shop.test/page";

#[test]
fn files_that_an_allowed_page_loads_pass_robots_txt() {
    let origin = shop();
    let proxy = Wayleave::start_with(&origin, with_crawlers);
    let first = load(&proxy, "PageBot/1", "https://shop.test/static/a.css", "style", PAGE);
    assert_eq!(first.status, 403, "no page was allowed yet");
    for agent in ["PageBot/1", "JudgeBot/1"] {
        assert_eq!(proxy.get_as(agent, PAGE).status, 200);
    }
    for (path, dest, status) in [
        ("/static/a.css", "style", 200),
        ("/static/a.js", "script", 200),
        ("/static/a.js", "worker", 200),
        ("/static/a.svg", "image", 200),
        ("/static/a.woff2", "font", 200),
        ("/static/a.mp4", "video", 206),
        ("/static/a.vtt", "track", 200),
        ("/static/same", "image", 304),
        ("/static/nothing", "image", 204),
    ] {
        let url = format!("https://shop.test{path}");
        let answer = load(&proxy, "PageBot/1", &url, dest, PAGE);
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert_eq!(load(&proxy, "JudgeBot/1", &url, dest, PAGE).status, 403, "{path}");
    }
    let url = "https://shop.test/static/nothing";
    let _refused = load(&proxy, "PageBot/1", "https://shop.test/static/page", "image", PAGE);
    let forwarded = [("crawler", "page"), ("outcome", "forwarded"), ("reason", "subresource-of")];
    eventually("all are counted", || proxy.metric("wayleave_requests_total", &forwarded) == 9.0);
    let refused = [("crawler", "page"), ("outcome", "refused"), ("reason", "subresource-type")];
    assert_eq!(proxy.metric("wayleave_requests_total", &refused), 1.0);
    let decision =
        proxy.admin_get("/v1/decisions?crawler=page&reason=subresource-of&limit=1").json();
    let decision = &decision["decisions"][0];
    assert_eq!((&decision["url"], &decision["verdict"]), (&url.into(), &"disallow".into()));
    assert_eq!(decision["subresource"]["page"], PAGE);
    assert_eq!(decision["subresource"]["kind"], "image");
    let of_page = decision["subresource"]["decision"].as_str().expect("an id");
    let page = proxy.admin_get(&format!("/v1/decisions/{of_page}")).json();
    assert_eq!((&page["url"], &page["crawler"]), (&PAGE.into(), &"page".into()));
    // Without a page, it is judged.
    let preview = proxy.admin_get(&format!("/v1/decision?crawler=page&url={url}")).json();
    assert_eq!(preview["reason"], "rule", "{preview}");
}

#[test]
fn a_style_sheet_loads_more_for_its_page() {
    let origin = shop();
    let proxy = Wayleave::start_with(&origin, with_crawlers);
    assert_eq!(proxy.get_as("PageBot/1", PAGE).status, 200);
    let get = |url: &str, dest: &str, referrer: &str| {
        load(&proxy, "PageBot/1", url, dest, referrer).status
    };
    let font = "https://shop.test/static/a.woff2";
    assert_eq!(get(font, "font", "https://shop.test/open.css"), 403, "nothing loaded it yet");
    // One that robots.txt allows, and one at another origin, to which browsers name only the page's origin.
    assert_eq!(get("https://shop.test/open.css", "style", PAGE), 200);
    assert_eq!(get(font, "font", "https://shop.test/open.css"), 200);
    assert_eq!(proxy.newest_decision(font)["subresource"]["page"], PAGE);
    assert_eq!(get("https://cdn.test/b.css", "style", "https://shop.test/"), 200);
    assert_eq!(get("https://cdn.test/b.woff2", "font", "https://cdn.test/b.css"), 200);
    assert_eq!(proxy.newest_decision("https://cdn.test/b.woff2")["subresource"]["page"], PAGE);
}

#[test]
fn preferences_and_mode_apply_as_always() {
    let origin = shop();
    let proxy = Wayleave::start_with(&origin, with_crawlers);
    for agent in ["CarefulBot/1", "WatchedBot/1"] {
        assert_eq!(proxy.get_as(agent, PAGE).status, 200);
    }
    let reserved = "https://cdn.test/no-training.png";
    let answer = load(&proxy, "CarefulBot/1", reserved, "image", "https://shop.test/");
    assert_eq!((answer.status, &answer.json()["reason"]), (403, &"preference".into()));
    let svg = "https://shop.test/static/a.svg";
    assert_eq!(load(&proxy, "CarefulBot/1", svg, "image", PAGE).text(), "image/svg+xml");
    // In mode "observe", what would have been withheld is forwarded.
    assert_eq!(load(&proxy, "WatchedBot/1", svg, "image", PAGE).status, 200);
    assert_eq!(proxy.newest_decision(svg)["outcome"], "forwarded");
    let page = "https://shop.test/static/page";
    assert_eq!(load(&proxy, "WatchedBot/1", page, "image", PAGE).text(), "page");
    let observed = proxy.newest_decision(page);
    assert_eq!(observed["outcome"], "observed", "{observed}");
    assert_eq!(
        (&observed["reason"], &observed["would_be"]),
        (&"subresource-type".into(), &403.into())
    );
    // It was only observed, so it is not a page that was allowed.
    assert_eq!(load(&proxy, "WatchedBot/1", svg, "image", page).status, 200);
    assert_eq!(proxy.newest_decision(svg)["outcome"], "observed");
}

#[test]
fn evidence_derives_what_passed_and_what_was_withheld() {
    let origin = shop();
    let proxy = Wayleave::start_with(&origin, with_crawlers);
    for agent in ["PageBot/1", "WatchedBot/1", "CarefulBot/1"] {
        assert_eq!(proxy.get_as(agent, PAGE).status, 200);
        for (path, dest) in [("a.css", "style"), ("a.svg", "image"), ("page", "image")] {
            let url = format!("https://shop.test/static/{path}");
            let _answer = load(&proxy, agent, &url, dest, PAGE);
        }
    }
    let (dir, _settings) = proxy.stop();
    expect(&evidence(dir.path(), &["export", "--since", "1h", "--out", "export"]), 0);
    let printed = expect(&evidence(dir.path(), &["verify", "export", "--json"]), 0);
    let report: Value = serde_json::from_str(printed.trim()).expect("JSON");
    assert_eq!(report["derived"]["robots"], 12, "{report}");
}

#[test]
fn a_refused_file_of_a_page_is_empty_if_its_crawler_wants_that() {
    let origin = shop();
    origin.site("down.test").robots_reply(Reply::new(503));
    let proxy = Wayleave::start_with(&origin, |settings| {
        let crawler = |name, token| crawler(name, token).set("refused_subresources", "empty");
        settings
            .with(crawler("page", "PageBot"))
            .with(crawler("other", "OtherBot"))
            .crawler("judge", "JudgeBot")
    });
    let url = "https://shop.test/static/a";
    for (dest, content_type, content) in [
        ("script", "text/javascript", ""),
        ("worker", "text/javascript", ""),
        ("style", "text/css", ""),
        ("image", "image/gif", "GIF89a"),
        ("font", "font/woff2", ""),
        ("video", "video/mp4", ""),
        ("track", "text/vtt", "WEBVTT"),
    ] {
        let request = Request::get(url).agent("PageBot/1").header("Sec-Fetch-Dest", dest);
        let response = proxy.exchange(&request.header("Origin", "https://shop.test"));
        assert_eq!((response.status, response.header("content-type")), (200, Some(content_type)));
        assert!(response.body.starts_with(content.as_bytes()), "{dest}: {response:?}");
        assert_eq!(response.body.is_empty(), content.is_empty(), "{dest}");
        let why = response.header("proxy-status").expect("it says why");
        assert!(why.contains("Disallow: /static (line 2"), "{why}");
        assert_eq!(response.header("access-control-allow-origin"), Some("https://shop.test"));
        let decision = proxy.newest_decision(url);
        assert_eq!((&decision["status"], &decision["outcome"]), (&403.into(), &"refused".into()));
    }
    let get = Request::get(url).agent("PageBot/1");
    let style = |request: Request| request.header("Sec-Fetch-Dest", "style");
    for request in [
        get.clone(),
        get.clone().header("Sec-Fetch-Dest", "document"),
        get.clone().header("Sec-Fetch-Dest", "iframe"),
        get.clone().header("Sec-Fetch-Dest", "empty"),
        style(get.clone()).header("Sec-Fetch-Dest", "document"),
        style(Request::new("POST", url).agent("PageBot/1")),
        style(Request::get(url).agent("JudgeBot/1")),
    ] {
        assert_eq!(proxy.exchange(&request).status, 403, "{request:?}");
    }
    let down = proxy.exchange(&style(Request::get("https://down.test/a.css").agent("PageBot/1")));
    assert_eq!(down.status, 503, "a file that cannot be had is an error");
    assert!(!origin.seen().iter().any(|line| line.contains("/static/a")));
}
