//! Sites that turn away requests which their robots.txt allows: counted by crawler and kind, and listed by host.

use serde_json::{Value, json};

use super::signing;
use crate::harness::crawler::crawler;
use crate::harness::{Origin, Reply, Wayleave, eventually};

const KINDS: [&str; 5] = ["challenge", "forbidden", "rate", "payment", "unavailable"];

/// Starts a site that turns away requests in each way, and says so.
fn sites() -> Origin {
    let origin = Origin::start();
    let challenge = Reply::new(403).header("cf-mitigated", "challenge").body("prove it");
    origin
        .site("shop.test")
        .disallows("/private")
        .page("/challenge", challenge.clone())
        .page("/waf", Reply::new(202).header("x-amzn-waf-action", "challenge"))
        .page("/forbidden", Reply::new(403).body("no"))
        .page("/legal", Reply::new(451))
        .page("/rate", Reply::new(429).header("Retry-After", "0"))
        .page("/payment", Reply::new(402).body("pay"))
        .page("/unavailable", Reply::new(503).header("Retry-After", "0"))
        .page("/missing", Reply::new(404))
        .page("/broken", Reply::new(500));
    origin.site("closed.test").page("/", challenge);
    origin
}

fn counts(proxy: &Wayleave, crawler: &str) -> [u64; 5] {
    KINDS.map(|kind| {
        let labels = [("crawler", crawler), ("kind", kind)];
        proxy.metric("wayleave_edge_responses_total", &labels) as u64
    })
}

fn edge(proxy: &Wayleave, by: &str) -> Vec<Value> {
    let listed = proxy.admin_get(&format!("/v1/edge?by={by}")).json();
    let mut rows = listed["edge"].as_array().expect("a list").clone();
    for row in &mut rows {
        let last_at = row.as_object_mut().expect("an object").remove("last_at");
        assert!(last_at.is_some_and(|at| at.as_str().is_some_and(|at| at.ends_with('Z'))));
    }
    rows
}

#[test]
fn sites_that_allow_and_refuse_are_counted() {
    let origin = sites();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.crawler("news", "NewsBot").with(crawler("watched", "WatchedBot").observed())
    });
    for (path, status) in [
        ("challenge", 403),
        ("waf", 202),
        ("forbidden", 403),
        ("legal", 451),
        ("rate", 429),
        ("payment", 402),
        ("unavailable", 503),
        ("missing", 404),
        ("broken", 500),
        ("other", 200),
    ] {
        let answer = proxy.get_as("NewsBot/1", &format!("http://shop.test/{path}"));
        assert_eq!(answer.status, status, "{path}");
    }
    assert_eq!(proxy.get_as("NewsBot/1", "https://closed.test/").text(), "prove it");
    assert_eq!(proxy.get_as("OtherBot/1", "http://closed.test/").status, 403);
    // What robots.txt disallows was not turned away by the edge alone.
    origin.site("shop.test").page("/private", Reply::new(403));
    assert_eq!(proxy.get_as("WatchedBot/1", "http://shop.test/private").status, 403);
    assert_eq!(proxy.get_as("NewsBot/1", "http://shop.test/private").status, 403);
    eventually("all are counted", || proxy.metric("wayleave_requests_total", &[]) as u64 == 14);
    assert_eq!(counts(&proxy, "news"), [3, 2, 1, 1, 1]);
    assert_eq!(counts(&proxy, "asserted"), [1, 0, 0, 0, 0]);
    assert_eq!(counts(&proxy, "watched"), [0; 5]);
    let shop = json!({
        "name": "shop.test", "count": 7, "signed": 0,
        "challenge": 2, "forbidden": 2, "rate": 1, "payment": 1, "unavailable": 1,
    });
    let closed = json!({
        "name": "closed.test", "count": 2, "signed": 0,
        "challenge": 2, "forbidden": 0, "rate": 0, "payment": 0, "unavailable": 0,
    });
    assert_eq!(edge(&proxy, "host"), [shop, closed]);
    let by_crawler = edge(&proxy, "crawler");
    let named: Vec<_> = by_crawler.iter().map(|row| (&row["name"], &row["count"])).collect();
    assert_eq!(named, [(&json!("news"), &json!(8)), (&json!("asserted"), &json!(1))]);
    assert_eq!(
        proxy.admin_get("/v1/edge?by=host&limit=1").json()["edge"].as_array().map(Vec::len),
        Some(1)
    );
    let decisions = proxy.admin_get("/v1/decisions?host=closed.test").json();
    assert_eq!(decisions["decisions"][0]["edge"], "challenge");
    let decisions = proxy.admin_get("/v1/decisions?crawler=watched").json();
    assert_eq!(decisions["decisions"][0].get("edge"), None);
}

#[test]
fn what_signing_changes_at_the_edge_shows() {
    let signing = signing::start("on-request", |settings| settings);
    let blocked = || Reply::new(403).header("cf-mitigated", "challenge");
    let asks = "sig1=(\"@authority\");tag=\"web-bot-auth\"";
    // One site lets signed requests pass, one refuses all the same, and one is never asked for.
    signing.origin.site("opens.test").unsigned(blocked().header("Accept-Signature", asks));
    signing
        .origin
        .site("stays.test")
        .unsigned(blocked().header("Accept-Signature", asks))
        .page("/", blocked());
    signing.origin.site("plain.test").page("/", blocked());
    for (host, status) in [("opens", 200), ("stays", 403), ("plain", 403)] {
        let answer = signing.proxy.get_as("NewsBot/1", &format!("http://{host}.test/"));
        assert_eq!(answer.status, status, "{host}");
    }
    eventually("both are counted", || counts(&signing.proxy, "news")[0] == 2);
    let rows = edge(&signing.proxy, "host");
    let signed: Vec<_> = rows.iter().map(|row| (&row["name"], &row["signed"])).collect();
    assert_eq!(signed, [(&json!("plain.test"), &json!(0)), (&json!("stays.test"), &json!(1))]);
}
