//! The lines of robots.txt that count for a decision, in the API and in `wayleave decision`.

use serde_json::{Value, json};

use crate::harness::crawler::crawler;
use crate::harness::wayleave::{Settings, command};
use crate::harness::{Origin, Wayleave, eventually};

const RULES: &str = "[[rule]]\naction = \"refuse\"\nhosts = [\"shop.test\"]\npaths = [\"/legal/\"]\n\
                     [[rule]]\naction = \"allow\"\nhosts = [\"shop.test\"]\npaths = [\"/private/feed\"]\nowner = \"us\"\n\
                     reason = \"agreed\"\nexpires = \"2100-01-01\"\n";

fn with_rules(settings: Settings) -> Settings {
    settings
        .with(crawler("trainer", "TrainerBot").purposes(["train-ai"]))
        .with(crawler("watched", "WatchedBot").observed())
        .table(RULES)
}

fn start() -> (Origin, Wayleave) {
    let origin = Origin::start();
    origin
        .site("shop.test")
        .robots("User-agent: *\nDisallow: /private\nAllow: /\nDisallow: /legal/\n");
    origin.site("usage.test").robots("User-agent: *\nAllow: /\nContent-Usage: train-ai=n\n");
    origin
        .site("slow.test")
        .robots("User-agent: *\nCrawl-delay: 1\nRequest-rate: 1/5m\nAllow: /\n");
    let proxy = Wayleave::start_with(&origin, with_rules);
    (origin, proxy)
}

/// Returns the id of the decision about a URL.
fn id_of(proxy: &Wayleave, url: &str) -> String {
    let list = || proxy.admin_get(&format!("/v1/decisions?q={url}")).json();
    eventually("the decision is recorded", || list()["decisions"][0]["url"] == url);
    list()["decisions"][0]["id"].as_str().expect("an id").to_owned()
}

/// Returns the lines that `wayleave decision` marks.
fn printed(proxy: &Wayleave, id: &str) -> Vec<String> {
    let mut asked = command();
    asked.args(["decision", id, "--config"]).arg(proxy.config_with_ports());
    let output = asked.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter(|line| line.starts_with(['>', '-'])).map(str::to_owned).collect()
}

fn mark(line: u32, effect: &str, note: &str) -> Value {
    json!({ "line": line, "effect": effect, "note": note })
}

#[test]
fn the_line_that_decided_is_marked_not_the_one_that_matches() {
    let (_origin, proxy) = start();
    let allow_refused = |reason: &str| format!("allow, but refused: {reason}");
    for (url, agent, status, marks) in [
        ("http://shop.test/a", "Bot/1", 200, vec![mark(3, "allow", "decides: allow")]),
        (
            "http://shop.test/private/a",
            "Bot/1",
            403,
            vec![mark(2, "disallow", "decides: disallow")],
        ),
        (
            "http://shop.test/private/b",
            "WatchedBot/1",
            200,
            vec![mark(2, "disallow", "decides: disallow")],
        ),
        (
            "http://usage.test/a",
            "TrainerBot/1",
            403,
            vec![
                mark(2, "overridden", &allow_refused("preference")),
                mark(3, "disallow", "decides: train-ai is refused"),
            ],
        ),
        ("http://slow.test/a", "Bot/1", 200, vec![mark(4, "allow", "decides: allow")]),
        (
            "http://slow.test/b",
            "Bot/1",
            429,
            vec![
                mark(3, "disallow", "decides: too soon after the last request"),
                mark(4, "overridden", &allow_refused("crawl-delay")),
            ],
        ),
        (
            "http://shop.test/private/feed",
            "Bot/1",
            200,
            vec![mark(2, "overridden", "would have decided: disallow; overridden by rule 2")],
        ),
        (
            "http://shop.test/legal/a",
            "Bot/1",
            403,
            vec![mark(4, "overridden", "would have decided: disallow; overridden by rule 1")],
        ),
    ] {
        assert_eq!(proxy.get_as(agent, url).status, status, "{url}");
        let id = id_of(&proxy, url);
        let found = proxy.admin_get(&format!("/v1/decisions/{id}/robots")).json();
        assert_eq!(found["marks"], json!(marks), "{url}: {found}");
        let is_by_rule = found["marks"].to_string().contains("overridden by rule");
        assert_eq!(found["is_consulted"], !is_by_rule, "{url}: {found}");
        expect_printed(&printed(&proxy, &id), &marks);
    }
}

/// Checks that the command marks the same lines.
#[track_caller]
fn expect_printed(lines: &[String], marks: &[Value]) {
    assert_eq!(lines.len(), marks.len(), "{lines:?}");
    for (line, mark) in lines.iter().zip(marks) {
        assert_eq!(line.starts_with('>'), mark["effect"] != "overridden", "{line}");
        let note = mark["note"].as_str().expect("text");
        assert!(line.ends_with(&format!("    <- {note}")), "{line}");
    }
}

#[test]
fn a_preview_marks_what_an_exception_overrides() {
    let (_origin, proxy) = start();
    let preview = |query: &str| proxy.admin_get(&format!("/v1/decision?{query}")).json();
    let found = preview("url=http://shop.test/private/feed&user_agent=Bot/1");
    let note = "would have decided: disallow; overridden by rule 2";
    assert_eq!((&found["outcome"], &found["read_as"]), (&json!("forwarded"), &json!("rfc9309")));
    assert_eq!(found["marks"], json!([mark(2, "overridden", note)]));
    let found = preview("url=http://usage.test/a&crawler=trainer&dialect=google");
    let marks = found["marks"].as_array().expect("a list");
    assert_eq!(marks.last(), Some(&mark(3, "disallow", "decides: train-ai is refused")), "{found}");
    assert_eq!(found["read_as"], "google");
}
