//! The three forms of a question, and its answers.

use serde_json::Value;

use super::{Gated, ROBOTS, check, forwarded};
use crate::harness::client::Wire;
use crate::harness::crawler::crawler;
use crate::harness::origin::reply::Step;
use crate::harness::wayleave::Settings;
use crate::harness::{Gate, Origin, Reply, Request, eventually};

/// `printf %s open-sesame | sha256sum`.
const TOKEN: &str = "Bearer open-sesame";
const TOKEN_SHA256: &str = "d7ecdf25eaf3deba0f2628771dbdd22d4138ab6cf38f91ed02a2ca0dec7c8ab7";

fn with_token(settings: Settings) -> Settings {
    let token = format!("[{{ sha256 = \"{TOKEN_SHA256}\", crawler = \"news\" }}]");
    settings.crawler("news", "NewsBot").set("gateway.tokens", &token)
}

#[test]
fn every_form_gets_the_verdict_of_robots_txt() {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    let gated = Gated::start(&origin);
    let host = ("Host", "shop.test");
    let scheme = ("X-Forwarded-Proto", "http");
    for (path, is_allowed) in [("/public?q=1", true), ("/private/a", false), ("/robots.txt", true)]
    {
        let url = format!("http://shop.test{path}");
        let answers = [
            gated.check("GET", &url, &[]),
            gated.ask("/forwarded", &forwarded("GET", "http", "shop.test", path)),
            gated.ask("/check", &forwarded("GET", "http", "shop.test", path)),
            gated.ask(&format!("/request{path}"), &[host, scheme]),
        ];
        for answer in answers {
            assert!(answer.header("wayleave-decision").is_some(), "{answer:?}");
            if is_allowed {
                assert_eq!((answer.status, answer.body.len()), (200, 0), "{answer:?}");
                continue;
            }
            answer.expect_disallowed("http://shop.test/robots.txt", 2, "Disallow: /private");
            assert_eq!(answer.json()["url"], url);
            let id = answer.header("wayleave-decision").map(Value::from);
            assert_eq!(Some(answer.json()["decision_id"].clone()), id);
        }
    }
    assert_eq!(origin.seen(), ["GET http://shop.test/robots.txt"]);
}

#[test]
fn a_tunnel_is_allowed_only_where_every_path_is() {
    let origin = Origin::start();
    origin.site("open.test").allows_all();
    origin.site("shop.test").robots(ROBOTS);
    let gated = Gated::start(&origin);
    assert_eq!(gated.check("CONNECT", "open.test:443", &[]).status, 200);
    let refused = gated.check("CONNECT", "shop.test:443", &[]);
    assert_eq!(refused.status, 403, "{refused:?}");
    assert_eq!(gated.check("CONNECT", "open.test", &[]).status, 400);
    assert_eq!(gated.check("CONNECT", "http://open.test:443/", &[]).status, 400);
}

#[test]
fn the_client_behind_a_gateway_is_identified_as_at_the_proxy() {
    let origin = Origin::start();
    origin.site("shop.test").robots("User-agent: NewsBot\nDisallow: /\n");
    let gated = Gated::start_with(&origin, |settings| {
        settings.table(
            "[[crawler]]\nname = \"news\"\ntokens = [\"NewsBot\"]\nmatch = { addresses = [\"192.0.2.7\"] }\n",
        )
    });
    let of = |fields: &[(&str, &str)]| gated.check("GET", "http://shop.test/a", fields).status;
    assert_eq!(of(&[]), 200);
    assert_eq!(of(&[("X-Forwarded-For", "192.0.2.7")]), 403);
    assert_eq!(of(&[("X-Forwarded-For", "192.0.2.7, 192.0.2.8")]), 200);
    assert_eq!(
        of(&[("X-Forwarded-For", "192.0.2.8"), ("X-Forwarded-For", "1.1.1.1, 192.0.2.7")]),
        403
    );
    assert_eq!(of(&[("User-Agent", "NewsBot/1.0")]), 403);
}

#[test]
fn a_token_proves_whose_requests_they_are() {
    let origin = Origin::start();
    origin.site("shop.test").robots("User-agent: NewsBot\nDisallow: /\n");
    let gated = Gated::start_with(&origin, with_token);
    let of = |value: &str| {
        gated.check("GET", "http://shop.test/a", &[("Authorization", value), ("User-Agent", "x")])
    };
    let refused = of(TOKEN);
    assert_eq!((refused.status, &refused.json()["crawler"]), (403, &Value::from("news")));
    for wrong in
        ["Bearer open-sesam", "Bearer open-sesame2", "Bearer", "Basic open-sesame", TOKEN_SHA256]
    {
        let answer = of(wrong);
        assert_eq!(answer.status, 401, "{wrong}: {answer:?}");
        assert!(answer.header("www-authenticate").is_some_and(|field| field.starts_with("Bearer")));
    }
    let both = [("Authorization", TOKEN), ("Authorization", TOKEN)];
    assert_eq!(gated.check("GET", "http://shop.test/a", &both).status, 401);
    assert_eq!(gated.check("GET", "http://shop.test/a", &[]).status, 200);
    // A token that was removed is no longer accepted after the reload.
    let other =
        format!("[{{ sha256 = \"{}\", crawler = \"news\" }}]", TOKEN_SHA256.replace('4', "5"));
    gated.proxy.reload(&gated.proxy.settings.clone().set("gateway.tokens", &other));
    assert_eq!(of(TOKEN).status, 401);
}

#[test]
fn an_answer_comes_when_the_slot_does() {
    let origin = Origin::start();
    origin.site("shop.test").robots("User-agent: *\nCrawl-delay: 1\n");
    let gated =
        Gated::start_with(&origin, |settings| settings.set("politeness.crawl_delay", "\"wait\""));
    let first = gated.check("GET", "http://shop.test/a", &[]);
    assert_eq!(first.status, 200);
    assert!(first.header("ratelimit").is_some(), "{first:?}");
    let second = gated.check("GET", "http://shop.test/b", &[]);
    assert_eq!(second.status, 200);
    let id = second.header("wayleave-decision").expect("an id").to_owned();
    let decision = gated.proxy.admin_get(&format!("/v1/decisions/{id}")).json();
    assert!(decision["waited_us"].as_u64().is_some_and(|waited| waited > 500_000), "{decision}");
}

#[test]
fn a_question_too_soon_is_told_when_to_come_again() {
    let origin = Origin::start();
    origin.site("shop.test").robots("User-agent: *\nCrawl-delay: 100\n");
    let gated = Gated::start(&origin);
    assert_eq!(gated.check("GET", "http://shop.test/a", &[]).status, 200);
    let refused = gated.check("GET", "http://shop.test/b", &[]);
    let problem = refused.expect_refusal(429, None, "http_request_denied");
    assert_eq!(problem["reason"], "crawl-delay");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    // The proxy's own requests keep the same pace.
    assert_eq!(gated.proxy.get("http://shop.test/c").status, 429);
}

#[test]
fn a_gateway_that_leaves_ends_its_wait() {
    let origin = Origin::start();
    let gate = Gate::closed();
    origin
        .site("shop.test")
        .robots_reply(Reply::new(200).step(Step::Wait(gate.clone())).body(ROBOTS));
    let gated = Gated::start(&origin);
    let mut wire = Wire::connect(gated.gateway);
    let target = check("GET", "http://shop.test/a");
    wire.send(format!("GET {target} HTTP/1.1\r\nHost: {}\r\n\r\n", gated.gateway));
    eventually("robots.txt is fetched", || !origin.seen().is_empty());
    drop(wire);
    eventually("it is recorded", || {
        let list = gated.proxy.admin_get("/v1/decisions?via=gateway").json();
        list["decisions"][0]["reason"] == "client-closed"
    });
    gate.open();
}

#[test]
fn a_dead_origin_is_refused_as_at_the_proxy() {
    let origin = Origin::start();
    origin.site("down.test").robots_reply(Reply::new(500));
    let gated = Gated::start(&origin);
    gated.check("GET", "http://down.test/a", &[]).expect_unreachable("http://down.test/robots.txt");
    let answer = gated.check("GET", "http://192.168.1.1/a", &[]);
    assert_eq!(answer.json()["reason"], gated.proxy.get("http://192.168.1.1/a").json()["reason"]);
    let robots = gated.check("GET", "http://192.168.1.1/robots.txt", &[]);
    assert_ne!(robots.status, 200, "{robots:?}");
}

#[test]
fn a_file_of_a_page_passes_only_where_its_response_is_seen() {
    let origin = Origin::start();
    let script = Reply::new(200).header("Content-Type", "text/javascript").body("1");
    origin.site("shop.test").robots(ROBOTS).page("/private/a.js", script);
    let gated = Gated::start_with(&origin, |settings| {
        settings.with(crawler("news", "NewsBot").set("subresources", "page"))
    });
    let page = "http://shop.test/page";
    let url = "http://shop.test/private/a.js";
    assert_eq!(gated.proxy.get_as("NewsBot/1.0", page).status, 200);
    let fields = [
        ("User-Agent", "NewsBot/1.0"),
        ("Referer", page),
        ("Sec-Fetch-Dest", "script"),
        ("Sec-Fetch-Mode", "no-cors"),
        ("Sec-Fetch-Site", "same-origin"),
    ];
    let mut request = Request::get(url);
    for (name, value) in fields {
        request = request.header(name, value);
    }
    assert_eq!(gated.proxy.exchange(&request).status, 200);
    assert_eq!(gated.check("GET", url, &fields).status, 403);
}
