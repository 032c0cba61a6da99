//! Counts of a time range, from memory and from the decision log, and the problems that the page shows on every view.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::harness::crawler::crawler;
use crate::harness::tls::Authority;
use crate::harness::{Origin, Wayleave, decisions, eventually};

const RULES: &str = "User-agent: *\nDisallow: /private\nDisallow: /images\n";
const VISITOR: &str = "VisitorBot/1 (+https://visitor.example)";

/// Starts a proxy with a crawler that is refused and one that is observed, and their requests.
fn start(origin: &Origin) -> Wayleave {
    origin.site("shop.test").robots(RULES);
    origin.site("news.test").robots("User-agent: *\nDisallow:\n");
    let proxy = Wayleave::start_with(origin, |settings| {
        settings
            .crawler("news", "NewsBot")
            .with(crawler("images", "ImageBot").observed())
            .crawler("idle", "Idle")
    });
    for (agent, url, status) in [
        ("NewsBot/2", "http://shop.test/private/a", 403),
        ("NewsBot/2", "http://shop.test/private/b", 403),
        ("NewsBot/2", "http://shop.test/images/a", 403),
        ("NewsBot/2", "http://news.test/", 200),
        ("ImageBot/1", "http://shop.test/images/a", 200),
        ("ImageBot/1", "http://news.test/", 200),
        (VISITOR, "http://shop.test/private/c", 403),
        (VISITOR, "http://news.test/", 200),
        ("OtherBot/9", "http://news.test/", 200),
    ] {
        assert_eq!(proxy.get_as(agent, url).status, status, "{agent} {url}");
    }
    proxy
}

fn overview(proxy: &Wayleave, query: &str) -> Value {
    proxy.admin_get(&format!("/v1/overview{query}")).json()
}

/// Returns the row of a table with this name.
#[track_caller]
fn row<'a>(rows: &'a Value, name: &str) -> &'a Value {
    let mut rows = rows.as_array().expect("rows").iter();
    rows.find(|row| row["name"] == name).unwrap_or_else(|| panic!("no row {name}"))
}

fn expect_counts(found: &Value) {
    let totals = ["requests", "refused", "would_be_refused", "failed"].map(|name| &found[name]);
    assert_eq!(totals, [9, 4, 1, 0], "{found}");
    assert_eq!(found["is_complete"], true);
    let news = row(&found["by_crawler"], "news");
    assert_eq!((&news["requests"], &news["refused"]), (&json!(4), &json!(3)));
    assert_eq!((&news["refused_share"], &news["mode"]), (&json!(0.75), &json!("enforce")));
    assert_eq!(news["first_host"], "shop.test");
    assert_eq!(news["first_rule"], "Disallow: /private (http://shop.test/robots.txt:2)");
    let images = row(&found["by_crawler"], "images");
    assert_eq!((&images["refused"], &images["would_be_refused"]), (&json!(0), &json!(1)));
    assert_eq!(
        (&images["would_be_refused_share"], &images["mode"]),
        (&json!(0.5), &json!("observe"))
    );
    // The worst comes first.
    assert_eq!(found["by_crawler"][0]["name"], "news");
    assert_eq!(found["by_host"][0]["name"], "shop.test");
    assert_eq!(row(&found["by_reason"], "rule")["refused"], 4);
    let observed = &found["observed"][0];
    assert_eq!(observed["example"], "http://shop.test/images/a");
    assert_eq!((&observed["crawler"], &observed["count"]), (&json!("images"), &json!(1)));
    let visitor = row(&found["unnamed"]["by_token"], "VisitorBot");
    assert_eq!((&visitor["requests"], &visitor["refused"]), (&json!(2), &json!(1)));
    assert_eq!(visitor["first_user_agent"], VISITOR);
    assert_eq!(row(&found["unnamed"]["by_user_agent"], VISITOR)["first_token"], "VisitorBot");
    assert_eq!(row(&found["unnamed"]["by_client"], "127.0.0.1")["requests"], 3);
    assert_eq!(found["unnamed"]["by_token"].as_array().map(Vec::len), Some(2));
    let points = found["timeline"]["points"].as_array().expect("points");
    let sum = |map: &str, name: &str| -> u64 {
        points.iter().filter_map(|point| point[map][name].as_u64()).sum()
    };
    assert_eq!((sum("outcomes", "refused"), sum("outcomes", "observed")), (4, 1));
    assert_eq!(sum("refused_by_crawler", "news"), 3);
    assert_eq!(sum("refused_by_reason", "rule"), 4);
}

#[test]
fn counts_of_a_range_are_the_same_from_memory_and_from_the_log() {
    let origin = Origin::start();
    let proxy = start(&origin);
    let log = proxy.dir.path().join("state/decisions.jsonl");
    eventually("all are logged", || {
        decisions(&std::fs::read_to_string(&log).unwrap_or_default()).count() == 9
    });
    // The log may have decisions from before the start, which memory does not.
    let from_log = overview(&proxy, "?since=24h");
    assert_eq!(from_log["from"], "log");
    expect_counts(&from_log);
    let started_at = proxy.admin_get("/v1/status").json()["started_at"].as_str().map(str::to_owned);
    let since_start = started_at.expect("a time");
    let from_memory = overview(&proxy, &format!("?since={since_start}"));
    assert_eq!(from_memory["from"], "memory", "{from_memory}");
    expect_counts(&from_memory);
    let (dir, settings) = proxy.stop();
    let proxy = Wayleave::start_in(dir, settings);
    expect_counts(&overview(&proxy, "?since=1h"));
    assert_eq!(overview(&proxy, "?since=1h&until=50m")["requests"], 0);
    assert_eq!(overview(&proxy, "?until=now")["requests"], 9);
    assert_eq!(overview(&proxy, "?since=1h&limit=1")["by_host"].as_array().map(Vec::len), Some(1));
}

/// Returns for each value of a member of the log's decisions how many were refused, and how many would have been.
fn refusals_in_log(lines: &[Value], member: &str) -> BTreeMap<String, (u64, u64)> {
    let mut counts = BTreeMap::new();
    for line in lines {
        let name = line[member].as_str().expect("a word").to_owned();
        let (refused, would_be) = counts.entry(name).or_insert((0, 0));
        *refused += u64::from(line["outcome"] == "refused");
        *would_be += u64::from(line["outcome"] == "observed");
    }
    counts
}

fn refusals_in_table(rows: &Value) -> BTreeMap<String, (u64, u64)> {
    let number = |row: &Value, name: &str| row[name].as_u64().expect("a number");
    let of_row = |row: &Value| {
        let name = row["name"].as_str().expect("a name").to_owned();
        (name, (number(row, "refused"), number(row, "would_be_refused")))
    };
    rows.as_array().expect("rows").iter().map(of_row).collect()
}

/// The origins of one host that several clients crawl at once.
const ORIGINS: [&str; 3] = ["http://shop.test", "http://shop.test:8080", "http://shop.test:8081"];

#[test]
fn counts_under_load_are_those_of_the_log() {
    let origin = Origin::start();
    origin.site("shop.test").robots(RULES);
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .resolve("shop.test:8080", origin.http)
            .resolve("shop.test:8081", origin.http)
            .crawler("news", "NewsBot")
            .with(crawler("images", "ImageBot").observed())
    });
    let crawl = |client: usize| {
        for number in client..client + 30 {
            let agent = ["NewsBot/2", "ImageBot/1", VISITOR][number % 3];
            // The shares differ by origin.
            let port = [0, 1, 1, 2, 2, 2][number / 3 % 6];
            let path = ["/a", "/private/a", "/images/a", "/b", "/private/b"][number % 5];
            proxy.get_as(agent, &format!("{}{path}", ORIGINS[port]));
        }
    };
    std::thread::scope(|scope| {
        for client in 0..20 {
            scope.spawn(move || crawl(client));
        }
    });
    let log = proxy.dir.path().join("state/decisions.jsonl");
    let read = || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        decisions(&text).filter_map(|line| serde_json::from_str(line).ok()).collect::<Vec<Value>>()
    };
    eventually("all are logged", || read().len() == 600);
    let lines = read();
    let by_origin = refusals_in_log(&lines, "origin");
    let sizes: Vec<_> = ORIGINS.map(|name| by_origin[name]).into();
    assert!(sizes.iter().all(|(refused, would_be)| *refused > 0 && *would_be > 0), "{sizes:?}");
    assert!(sizes[0] < sizes[1] && sizes[1] < sizes[2], "{sizes:?}");
    let started_at = proxy.admin_get("/v1/status").json()["started_at"].clone();
    let since_start = format!("?since={}", started_at.as_str().expect("a time"));
    for (query, from) in [("?since=24h", "log"), (&since_start, "memory")] {
        let found = overview(&proxy, query);
        assert_eq!((&found["from"], &found["requests"]), (&json!(from), &json!(600)));
        assert_eq!(refusals_in_table(&found["by_origin"]), by_origin, "{from}");
        let by_crawler = refusals_in_log(&lines, "crawler");
        assert_eq!(refusals_in_table(&found["by_crawler"]), by_crawler, "{from}");
        let by_reason = refusals_in_log(&lines, "reason");
        assert_eq!(refusals_in_table(&found["by_reason"]), by_reason, "{from}");
        let host = row(&found["by_host"], "shop.test");
        let sum = |of: fn(&(u64, u64)) -> u64| by_origin.values().map(of).sum::<u64>();
        let expected = (json!(sum(|(refused, _)| *refused)), json!(sum(|(_, would)| *would)));
        assert_eq!((&host["refused"], &host["would_be_refused"]), (&expected.0, &expected.1));
        let unnamed = row(&found["unnamed"]["by_client"], "127.0.0.1");
        assert_eq!(unnamed["refused"], by_crawler["asserted"].0, "{from}");
    }
}

#[test]
fn names_that_belong_to_others_have_an_owner() {
    let origin = Origin::start();
    origin.site("news.test").robots("User-agent: *\nDisallow:\n");
    let proxy = Wayleave::start(&origin);
    let google = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
    for (agent, status) in [(google, 403), (google, 403), ("gptbot/1", 403), (VISITOR, 200)] {
        assert_eq!(proxy.get_as(agent, "http://news.test/").status, status, "{agent}");
    }
    eventually("all are counted", || overview(&proxy, "?since=1h")["requests"] == 4);
    let unnamed = &overview(&proxy, "?since=1h")["unnamed"];
    for (by, name, owner) in [
        ("by_token", "Googlebot", json!("Google")),
        ("by_token", "gptbot", json!("OpenAI")),
        ("by_token", "VisitorBot", Value::Null),
        ("by_user_agent", google, json!("Google")),
        ("by_user_agent", VISITOR, Value::Null),
        ("by_client", "127.0.0.1", json!("Google")),
    ] {
        assert_eq!(row(&unnamed[by], name)["foreign_owner"], owner, "{by} {name}");
        let naming = &row(&unnamed[by], name)["naming"];
        assert_eq!(naming["table"].is_string(), owner.is_null(), "{by} {name}: {naming}");
    }
}

#[test]
fn crawlers_and_rankings_are_counted_in_a_range() {
    let origin = Origin::start();
    let proxy = start(&origin);
    let (dir, settings) = proxy.stop();
    let proxy = Wayleave::start_in(dir, settings);
    let crawlers = |query: &str| {
        let found = proxy.admin_get(&format!("/v1/crawlers{query}")).json()["crawlers"].clone();
        ["news", "images", "idle", "asserted"].map(|name| row(&found, name)["requests"].clone())
    };
    assert_eq!(crawlers(""), [0, 0, 0, 0], "since the start");
    assert_eq!(crawlers("?since=7d"), [4, 2, 0, 3]);
    assert_eq!(crawlers("?since=2020-01-01&until=2020-01-02"), [0, 0, 0, 0]);
    let listed = proxy.admin_get("/v1/crawlers?since=7d").json();
    assert_eq!(row(&listed["crawlers"], "news")["first_host"], "shop.test");
    let top = |query: &str| {
        let top = proxy.admin_get(&format!("/v1/top?{query}")).json()["top"].clone();
        let rows = top.as_array().expect("rows").clone();
        let of =
            |row: &Value| (row["name"].as_str().expect("a name").to_owned(), row["count"].clone());
        rows.iter().map(of).collect::<Vec<_>>()
    };
    let named = |rows: &[(&str, u64)]| {
        rows.iter().map(|(name, count)| ((*name).to_owned(), json!(count))).collect::<Vec<_>>()
    };
    assert_eq!(top("by=host"), [], "this process has seen no request");
    assert_eq!(top("by=host&since=1d"), named(&[("shop.test", 5), ("news.test", 4)]));
    assert_eq!(top("by=host&since=1d&outcome=refused&crawler=news"), named(&[("shop.test", 3)]));
    let senders = "since=1d&crawler=asserted";
    assert_eq!(top(&format!("by=token&{senders}")), named(&[("VisitorBot", 2), ("OtherBot", 1)]));
    assert_eq!(top(&format!("by=user_agent&{senders}&limit=1")), named(&[(VISITOR, 2)]));
    assert_eq!(top(&format!("by=client&{senders}")), named(&[("127.0.0.1", 3)]));
    proxy.get_as(VISITOR, "http://news.test/");
    // A decision is recorded when its response has ended.
    eventually("it is a recent decision", || top("by=token") == named(&[("VisitorBot", 1)]));
}

#[test]
fn without_a_log_memory_is_counted_and_said_to_be_incomplete() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| settings.set("log.decisions", "\"\""));
    proxy.get("http://shop.test/");
    eventually("it is counted", || overview(&proxy, "?since=1h")["requests"] == 1);
    let found = overview(&proxy, "?since=1h");
    assert_eq!((&found["from"], &found["is_complete"]), (&json!("memory"), &json!(false)));
}

#[test]
fn a_log_that_is_no_file_is_not_read() {
    let origin = Origin::start();
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.set("log.decisions", "\"/dev/full\""));
    proxy.get("http://shop.test/");
    let found = overview(&proxy, "?since=1h");
    assert_eq!((&found["from"], &found["is_complete"]), (&json!("memory"), &json!(false)));
}

fn problems(proxy: &Wayleave) -> Vec<Value> {
    let found = proxy.admin_get("/v1/problems").json();
    found["problems"].as_array().expect("a list").clone()
}

#[track_caller]
fn expect_problem(proxy: &Wayleave, kind: &str, words: &[&str]) {
    let all = problems(proxy);
    let found = all.iter().find(|problem| problem["kind"] == kind);
    let found = found.unwrap_or_else(|| panic!("no {kind} in {all:?}")).to_string();
    assert!(words.iter().all(|word| found.contains(word)), "{words:?} in {found}");
}

#[test]
fn a_rejected_reload_and_an_expired_rule_are_problems() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    assert_eq!(problems(&proxy), Vec::<Value>::new());
    let rule = "[[rule]]\naction = \"allow\"\nhosts = [\"old.test\"]\nowner = \"data@example.com\"\nreason = \"pilot\"\nexpires = \"2026-01-01\"\n";
    let settings = proxy.settings.clone().table(rule);
    proxy.reload(&settings);
    expect_problem(
        &proxy,
        "rules-expired",
        &[
            "A rule of yours has expired",
            "[[rule]] 1 (allow) for old.test, data@example.com: pilot",
        ],
    );
    proxy.write_config(&format!("nonsense = 1\n{}", settings.to_toml()));
    assert_eq!(proxy.admin_request("POST", "/v1/reload").status, 422);
    expect_problem(
        &proxy,
        "reload-rejected",
        &["config.toml:1: nonsense: unknown key", "version 2 is still in use"],
    );
    assert_eq!(problems(&proxy)[0]["kind"], "reload-rejected", "the most urgent is first");
    proxy.reload(&settings);
    assert_eq!(problems(&proxy).len(), 1);
}

#[test]
fn a_client_that_does_not_trust_the_ca_is_a_problem() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let problems = || proxy.admin_get("/v1/problems").json();
    assert_eq!(problems()["problems"], json!([]));
    let other_roots = Authority::trusted().pem.as_bytes();
    for _ in 0..3 {
        let mut wire = proxy.connect();
        assert_eq!(wire.connect_tunnel("shop.test:443").status, 200);
        assert!(wire.start_tls("shop.test", other_roots, &[]).is_err());
    }
    let text = "1 client does not trust the CA: 127.0.0.1, 3 times in 5 minutes, last for https://shop.test";
    eventually("all three are counted", || problems()["problems"][0]["text"] == text);
    for _ in 3..101 {
        let mut wire = proxy.connect();
        assert_eq!(wire.connect_tunnel("shop.test:443").status, 200);
        assert!(wire.start_tls("shop.test", other_roots, &[]).is_err());
    }
    let text = text.replace("3 times", "at least 100 times");
    eventually("more are not counted", || problems()["problems"][0]["text"] == *text);
    assert_eq!(problems()["problems"][0]["kind"], "ca-untrusted");
}

/// Node.js says nothing when it closes such a connection; but browsers connect in advance, too.
#[test]
fn a_silent_client_is_a_problem_unless_it_sends_requests() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let close_silently = || {
        let mut wire = proxy.connect();
        assert_eq!(wire.connect_tunnel("news.test:443").status, 200);
        drop(wire.start_tls("news.test", &proxy.ca_pem(), &[]).expect("trusted"));
    };
    close_silently();
    let text = || {
        let found = proxy.admin_get("/v1/problems").json();
        found["problems"][0]["text"].as_str().unwrap_or_default().to_owned()
    };
    let expected = "1 client does not trust the CA: 127.0.0.1, once in 5 minutes, last for https://news.test; \
                    it closed TLS connections without a request, as Node.js does then";
    eventually("it is known", || text() == expected);
    assert_eq!(proxy.get("https://news.test/").status, 200);
    eventually("it has sent a request", || text().is_empty());
}

#[test]
fn clients_without_a_name_are_a_problem() {
    let origin = Origin::start();
    origin.site("news.test");
    let proxy = Wayleave::start(&origin);
    let chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36";
    let problems = || proxy.admin_get("/v1/problems").json()["problems"].clone();
    for _ in 0..19 {
        proxy.get_as(chrome, "http://news.test/");
        proxy.get_as(VISITOR, "http://news.test/");
    }
    eventually("all are known", || overview(&proxy, "?since=1h")["requests"] == 38);
    assert_eq!(problems(), json!([]));
    proxy.get_as(chrome, "http://news.test/");
    eventually("enough come", || problems()[0]["kind"] == "clients-without-name");
    let text = problems()[0]["text"].as_str().map(str::to_owned).expect("a sentence");
    assert!(
        text.starts_with("20 requests in 5 minutes come from clients whose User-Agent has no"),
        "{text}"
    );
    assert_eq!(problems()[0]["details"], json!(["127.0.0.1"]));
}

#[test]
fn parts_that_are_well_are_named() {
    let origin = Origin::start();
    origin.site("news.test").robots("User-agent: *\nDisallow:\n");
    let proxy = Wayleave::start(&origin);
    let well = || {
        let found = proxy.admin_get("/v1/problems").json()["well"].clone();
        found.as_array().expect("a list").clone()
    };
    let before = well();
    assert!(before.contains(&json!("decision log written")), "{before:?}");
    assert!(
        before.iter().any(|part| part.as_str().is_some_and(|it| it.starts_with("CA until 20")))
    );
    assert!(!before.contains(&json!("DNS")), "nothing was looked up: {before:?}");
    assert_eq!(proxy.get("http://news.test/").status, 200);
    eventually("a request got through", || well().contains(&json!("DNS")));
    let without = Wayleave::start_with(&origin, |settings| settings.set("log.decisions", "\"\""));
    let found = without.admin_get("/v1/problems").json()["well"].clone();
    assert!(!found.to_string().contains("decision log"), "{found}");
}

#[test]
fn lost_decisions_are_a_problem() {
    let origin = Origin::start();
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.set("log.decisions", "\"/dev/full\""));
    proxy.get("http://shop.test/");
    eventually("it is lost", || !problems(&proxy).is_empty());
    expect_problem(
        &proxy,
        "decisions-lost",
        &["The decision log cannot be written: 1 lost so far"],
    );
}
