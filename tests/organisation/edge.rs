//! Sites that turn away requests which their robots.txt allows: counted by crawler and kind, and listed by host.

use std::time::Duration;

use serde_json::{Value, json};

use super::signing;
use crate::harness::crawler::{Crawler, crawler};
use crate::harness::tools::output_of;
use crate::harness::wayleave::{Settings, command};
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
fn the_effect_of_signing_at_the_edge_is_shown() {
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

/// The kinds of made-up edges: whether they turn away names for training and search, and unsigned requests.
const EDGES: [(&str, bool, bool); 4] = [
    ("open", false, false),
    ("by-purpose", true, false),
    ("by-signature", false, true),
    ("by-both", true, true),
];
const HOSTS_OF_A_KIND: usize = 3;
const PAGES: usize = 2;

fn hosts() -> impl Iterator<Item = (String, bool, bool)> {
    let of_kind = |(kind, by_purpose, by_signature): (&'static str, bool, bool)| {
        (0..HOSTS_OF_A_KIND).map(move |n| (format!("{kind}-{n}.test"), by_purpose, by_signature))
    };
    EDGES.into_iter().flat_map(of_kind)
}

/// Sends two requests of each token to each host, and returns the numbers that were let in, by host.
fn crawl(proxy: &Wayleave, tokens: &[&str]) -> Vec<(String, usize)> {
    let let_in = |host: &String| {
        let urls = (0..PAGES).flat_map(|n| tokens.iter().map(move |token| (n, token)));
        let statuses = urls.map(|(n, token)| {
            proxy.get_as(&format!("{token}/1"), &format!("http://{host}/{n}")).status
        });
        statuses.filter(|status| *status == 200).count()
    };
    hosts().map(|(host, ..)| (host.clone(), let_in(&host))).collect()
}

/// Returns what the API says was let in of requests under these names, by host.
fn let_in_by_api(answer: &Value, crawlers: &[&str], signed: bool) -> Vec<(String, usize)> {
    let rows = answer["edge"].as_array().expect("a list");
    let of_host = |host: &String| {
        let row = rows.iter().find(|row| row["name"] == **host).expect("the host is listed");
        let names = row["names"].as_array().expect("a list").iter();
        let counted = names.filter(|name| {
            name["signed"] == signed && crawlers.iter().any(|it| name["crawler"] == *it)
        });
        counted.map(|name| name["let_in"].as_u64().expect("a number") as usize).sum()
    };
    hosts().map(|(host, ..)| (host.clone(), of_host(&host))).collect()
}

fn named(compared: &Value) -> Vec<&str> {
    let listed = compared["opened_hosts"].as_array().expect("a list");
    listed.iter().filter_map(|one| one["host"].as_str()).collect()
}

/// Crawls these hosts under one name, under one for each purpose, and with these signed. Returns the numbers let in, each by host.
fn crawl_in_stages() -> (signing::Signing, [Vec<(String, usize)>; 3]) {
    let signing = signing::start("off", |settings| settings);
    let dir = signing.proxy.dir.path().to_owned();
    for (host, by_purpose, by_signature) in hosts() {
        let mut site = signing.origin.site(&host);
        if by_purpose {
            site = site.pages_to("MixedBot", Reply::new(403));
        }
        if by_signature {
            site.unsigned(Reply::new(403));
        }
    }
    let key = signing.key_path();
    let mixed = crawler("mixed", "MixedBot").purposes(["search", "train-ai"]);
    let parts = [("search", "SearchBot", "search"), ("trainer", "TrainBot", "train-ai")];
    let parts = parts.map(|(name, token, purpose)| crawler(name, token).purposes([purpose]));
    let settings = |crawlers: &[Crawler], mode: &str| {
        let all = crawlers.iter().map(|it| it.clone().set("signing_key", key.clone()));
        Settings::for_origin(&dir, &signing.origin)
            .set("signing.mode", &format!("{mode:?}"))
            .set("signing.agent", "\"https://bot.test\"")
            .with_all(all)
    };
    signing.proxy.reload(&settings(&[mixed], "off"));
    let before = crawl(&signing.proxy, &["MixedBot"]);
    signing.proxy.reload(&settings(&parts, "off"));
    let split = crawl(&signing.proxy, &["SearchBot", "TrainBot"]);
    signing.proxy.reload(&settings(&parts, "always"));
    let signed = crawl(&signing.proxy, &["SearchBot", "TrainBot"]);
    let expected = (HOSTS_OF_A_KIND * 4 * (PAGES + PAGES * 2 * 2)) as f64;
    let requests = || signing.proxy.metric("wayleave_requests_total", &[]);
    eventually("all are counted", || requests() == expected);
    (signing, [before, split, signed])
}

#[test]
fn signing_and_splitting_let_in_more_host_by_host() {
    let (signing, [before, split, signed]) = crawl_in_stages();
    let answer = signing.proxy.admin_get("/v1/edge?by=signed").json();
    let parts = ["search", "trainer"];
    assert_eq!(let_in_by_api(&answer, &["mixed"], false), before);
    assert_eq!(let_in_by_api(&answer, &parts, false), split);
    assert_eq!(let_in_by_api(&answer, &parts, true), signed);
    let total = |counted: &[(String, usize)]| counted.iter().map(|(_, n)| n).sum::<usize>();
    assert_eq!([total(&before), total(&split), total(&signed)], [6, 24, 48]);
    let of_kinds = |kinds: &[&str]| -> Vec<String> {
        let of_kind = |kind: &&str| {
            (0..HOSTS_OF_A_KIND).map(move |n| format!("{kind}-{n}.test")).collect::<Vec<_>>()
        };
        kinds.iter().flat_map(of_kind).collect()
    };
    assert_eq!(named(&answer["signed"]), of_kinds(&["by-both", "by-signature"]));
    assert_eq!(named(&answer["split"]), of_kinds(&["by-both", "by-purpose", "by-signature"]));
    assert_eq!(answer["signed"]["before"], json!({ "let_in": 24, "refused": 24 }));
    assert_eq!(answer["signed"]["after"], json!({ "let_in": 48, "refused": 0 }));
    let name = |crawler: &str, signed: bool| {
        let names = answer["names"].as_array().expect("a list").iter();
        let mut found = names.filter(|it| it["crawler"] == crawler && it["signed"] == signed);
        found.next().expect("the name is listed").clone()
    };
    let signed = json!({
        "crawler": "search", "agent": "https://bot.test", "purposes": ["search"], "signed": true,
        "let_in": 24, "refused": 0, "hosts": 12, "hosts_let_in": 12,
    });
    assert_eq!(name("search", true), signed);
    assert_eq!(name("mixed", false)["hosts_let_in"], 6 / PAGES);
    let row = &answer["edge"][0];
    assert_eq!(
        (&row["name"], &row["signed"], &row["unsigned"]),
        (&json!("by-both-0.test"), &json!(0), &json!(6))
    );
    expect_in_report(&signing.proxy, &answer);
}

/// Expects that the report, from the decision log, says the same as the API once the log has all lines.
fn expect_in_report(proxy: &Wayleave, answer: &Value) {
    let config = proxy.config_with_ports();
    let report = |arguments: &[&str]| {
        let mut report = command();
        report.args(["report", "--since", "1h", "--config"]).arg(&config).args(arguments);
        output_of(&mut report, b"", Duration::from_secs(60))
    };
    eventually("the log says the same", || {
        let reported: Value = serde_json::from_str(&report(&["--json"])).expect("JSON");
        reported["edge"] == *answer
    });
    let printed = report(&[]);
    for sentence in [
        "Signed: 6 of 12 hosts let you in that did not before",
        "Split: 9 of 12 hosts let you in that did not before",
    ] {
        assert!(printed.contains(sentence), "{printed}");
    }
}
