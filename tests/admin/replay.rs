//! `/v1/replay`: a change of the configuration, tried on the decision log by a running proxy.

use serde_json::Value;

use crate::harness::crawler::crawler;
use crate::harness::{Origin, Reply, Response, Wayleave, Wire, eventually};

fn start(origin: &Origin) -> Wayleave {
    for host in ["one.test", "two.test"] {
        origin.site(host).disallows("/private");
    }
    let owned = |name: &str| crawler(name, &format!("Bot-{name}")).set("owner", name);
    let tokens = ["read-a", "read"].map(|token| {
        let digest = wayleave_evidence::Sha256Digest::of(token.as_bytes());
        let team = if token == "read-a" { ", team = \"a\"" } else { "" };
        format!("{{ sha256 = \"{digest}\", role = \"read\"{team} }}")
    });
    let proxy = Wayleave::start_with(origin, |settings| {
        settings
            .set("admin.tokens", &format!("[{}]", tokens.join(", ")))
            .with_all(["a", "b"].map(owned))
    });
    for agent in ["Bot-a/1", "Bot-b/1"] {
        for path in ["/page", "/page?2", "/private"] {
            proxy.get_as(agent, &format!("http://one.test{path}"));
            proxy.get_as(agent, &format!("http://two.test{path}"));
        }
    }
    let log = proxy.dir.path().join("state/decisions.jsonl");
    eventually("the log has them", || {
        std::fs::read_to_string(&log).is_ok_and(|text| text.matches("\"outcome\"").count() == 12)
    });
    proxy
}

fn replay(proxy: &Wayleave, token: &str, query: &str, body: &str) -> Response {
    let mut wire = Wire::connect(proxy.admin);
    wire.send(format!(
        "POST /v1/replay{query} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    ));
    wire.response()
}

fn replayed(proxy: &Wayleave, token: &str, body: &str) -> Value {
    let answer = replay(proxy, token, "", body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    serde_json::from_str(&answer.text()).expect("JSON")
}

const RULES: &str = r#"{ "rules": [
    { "action": "refuse", "hosts": ["one.test"], "paths": ["/page"] },
    { "action": "allow", "hosts": ["two.test"], "paths": ["/private"], "owner": "us", "reason": "contract", "expires": "2999-01-01" }
] }"#;

#[test]
fn changes_are_counted_for_all_teams_or_one() {
    let origin = Origin::start();
    let proxy = start(&origin);
    let before = std::fs::read(proxy.dir.path().join("state/decisions.jsonl")).expect("a log");
    for (token, teams) in [("read", 2), ("read-a", 1)] {
        let found = replayed(&proxy, token, RULES);
        let count = |kind: &str| found[kind]["count"].as_u64().expect("a number");
        assert_eq!(found["decisions"], 6 * teams, "{found}");
        assert_eq!(
            ["newly_refused", "newly_forwarded", "unchanged", "undecidable"].map(count),
            [2 * teams, teams, 3 * teams, 0],
            "{found}"
        );
        let group = &found["newly_refused"]["groups"][0];
        assert_eq!(
            (&group["crawler"], &group["host"], &group["rule"]),
            (&"a".into(), &"one.test".into(), &"[[rule]] 1".into())
        );
        assert_eq!(
            group["samples"],
            serde_json::json!(["http://one.test/page", "http://one.test/page?2"])
        );
        assert_eq!(found["newly_forwarded"]["groups"][0]["rule"], "Disallow: /private");
        let is_told_of_b = found.to_string().contains("\"b\"");
        assert_eq!(is_told_of_b, teams == 2, "{found}");
    }
    let nothing = replay(&proxy, "read", "?until=2020-01-01", RULES);
    assert!(nothing.text().contains("\"decisions\":0"), "{}", nothing.text());
    // Nothing has changed.
    assert_eq!(
        before,
        std::fs::read(proxy.dir.path().join("state/decisions.jsonl")).expect("a log")
    );
    let answer = proxy.get_as("Bot-a/1", "http://one.test/page");
    assert_eq!(answer.status, 200);
}

#[test]
fn crawlers_and_the_dialect_are_tried_on_what_was_observed() {
    let origin = Origin::start();
    origin
        .site("one.test")
        .robots("User-agent: *\nDisallow: /private\nAllow: /private\n")
        .page("/private", Reply::text("page"));
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .set("proxy.mode", "\"observe\"")
            .set("robots.dialect", "\"koster1996\"")
            .crawler("a", "Bot-a")
            .crawler("b", "Bot-b")
    });
    for agent in ["Bot-a/1", "Bot-b/1", "Other/1"] {
        assert_eq!(proxy.get_as(agent, "http://one.test/private").status, 200);
    }
    let refused = |body: &str| {
        let found = replayed(&proxy, "", body);
        let groups = found["newly_refused"]["groups"].as_array().expect("an array").clone();
        let names = groups.iter().map(|group| group["crawler"].as_str().expect("text").to_owned());
        (names.collect::<Vec<_>>(), found["undecidable"]["count"].clone())
    };
    let names = |names: &[&str]| (names.iter().map(|it| (*it).to_owned()).collect(), 0.into());
    eventually("the log has them", || {
        refused(r#"{"enforce": ["a", "b", "asserted"]}"#) == names(&["a", "asserted", "b"])
    });
    assert_eq!(refused(r#"{"enforce": ["b"]}"#), names(&["b"]));
    assert_eq!(refused(r#"{"enforce": ["asserted"]}"#), names(&["asserted"]));
    // The longest match, and the least restrictive of two: nothing is refused.
    let other = r#"{"enforce": ["a", "b", "asserted"], "dialect": "rfc9309"}"#;
    assert_eq!(refused(other), names(&[]));
}

#[test]
fn impossible_replays_get_an_error() {
    let origin = Origin::start();
    let proxy = start(&origin);
    for (query, body, status, said) in [
        ("", r#"{"rules": [{"action": "refuse"}]}"#, 422, "[[rule]] 1.hosts"),
        ("", r#"{"rules": [{"action": "refuse", "hosts": ["a.test"], "x": 1}]}"#, 422, "x"),
        ("", r#"{"dialect": "none"}"#, 422, "is not one of rfc9309"),
        ("", r#"{"enforce": ["nobody"]}"#, 422, "no [[crawler]] is named"),
        ("", "[[rule]]", 400, "the body"),
        ("", "", 400, "the body"),
        ("", "{}", 400, "names no change"),
        ("", r#"{"toml": "x = 1"}"#, 400, "unknown field"),
        ("?since=x", "", 400, "since"),
        ("?nonsense=1", "", 400, "nonsense"),
        ("", &" ".repeat((64 << 10) + 1), 413, "64 KiB"),
    ] {
        let answer = replay(&proxy, "read", query, body);
        assert_eq!(answer.status, status, "{query} {}: {}", body.len(), answer.text());
        assert!(answer.text().contains(said), "{}", answer.text());
    }
    assert_eq!(replay(&proxy, "wrong", "", RULES).status, 401);
}

#[test]
fn one_replay_runs_at_a_time() {
    let origin = Origin::start();
    let proxy = start(&origin);
    // Many times the same file, as the log of a busy day.
    let log = proxy.dir.path().join("state/decisions.jsonl");
    let text = std::fs::read_to_string(&log).expect("a log");
    let rotated = log.with_file_name("decisions.20200101T000000.000Z.jsonl");
    std::fs::write(rotated, text.repeat(500)).expect("the directory can be written");
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| replay(&proxy, "read", "?since=2000-01-01", RULES).status))
            .collect();
        asking.into_iter().map(|it| it.join().expect("no panic")).collect()
    });
    assert!(statuses.contains(&200) && statuses.contains(&429), "{statuses:?}");
    eventually("the turn is free again", || replay(&proxy, "read", "", RULES).status == 200);
}
