//! The drill: the proxy asks itself for what it must refuse.

use serde_json::Value;

use crate::harness::dns::NameServer;
use crate::harness::wayleave::Settings;
use crate::harness::{Origin, Wayleave, decisions, eventually};

const TABLES: &str = r#"
[[crawler]]
name = "news"
tokens = ["NewsBot"]
purposes = ["train-ai"]
match = { user_agent = "NewsBot" }
[[rule]]
action = "refuse"
hosts = ["never.test"]
"#;

fn status(proxy: &Wayleave) -> Value {
    serde_json::from_str(&proxy.admin_get("/v1/status").text()).expect("JSON")
}

/// Waits for the first drill after `act`, and returns its families with their results.
fn results(proxy: &Wayleave, act: impl FnOnce()) -> Vec<(String, String)> {
    let before = status(proxy)["drill"]["at"].clone();
    act();
    let mut drill = Value::Null;
    eventually("there is another drill", || {
        drill = status(proxy)["drill"].clone();
        !drill.is_null() && drill["at"] != before
    });
    let word = |value: &Value| value.as_str().expect("a word").to_owned();
    let families = drill["families"].as_array().expect("families").iter();
    families.map(|found| (word(&found["family"]), word(&found["result"]))).collect()
}

fn result(results: &[(String, String)], family: &str) -> String {
    let found = results.iter().find(|(name, _)| name == family);
    found.unwrap_or_else(|| panic!("no {family}: {results:?}")).1.clone()
}

/// Returns settings with a drill after each change of the configuration, and hardly ever otherwise.
fn drilled(settings: Settings) -> Settings {
    settings.set("drill.every", "\"1h\"").table(TABLES)
}

#[test]
fn a_drill_asks_for_each_family_and_leaves_no_trace() {
    let origin = Origin::start();
    let names = NameServer::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        drilled(settings)
            .set("drill.every", "\"5s\"")
            .set("dns.servers", &format!("[\"{}\"]", names.address))
            .set("upstream.allow_private", "[]")
    });
    for _ in 0..2 {
        let results = results(&proxy, || {});
        assert_eq!(results.len(), 7);
        for (family, result) in results {
            assert_eq!(result, "right", "{family}: {}", status(&proxy)["drill"]);
        }
    }
    assert!(proxy.metric("wayleave_drill_results_total", &[("result", "right")]) >= 14.0);
    for result in ["wrong", "failed", "not-enforced"] {
        assert_eq!(proxy.metric("wayleave_drill_results_total", &[("result", result)]), 0.0);
    }
    assert_eq!(proxy.admin_get("/v1/problems").text(), "{\"problems\":[]}");
    // Nothing left this machine, and nothing was recorded.
    assert!(names.queried().is_empty(), "{:?}", names.queried());
    assert_eq!(proxy.metric("wayleave_requests_total", &[]), 0.0);
    assert_eq!(proxy.metric("wayleave_decision_duration_seconds_count", &[]), 0.0);
    assert_eq!(proxy.metric("wayleave_user_agent_mismatches_total", &[]), 0.0);
    for path in ["/v1/decisions", "/v1/robots", "/v1/top?by=host", "/v1/rules", "/v1/crawlers"] {
        let text = proxy.admin_get(path).text();
        assert!(!text.contains("invalid") && !text.contains("WayleaveDrill"), "{path}: {text}");
    }
    let log = std::fs::read_to_string(proxy.dir.path().join("state/decisions.jsonl"));
    let log = log.expect("there is a log");
    assert_eq!(decisions(&log).count(), 0, "{log}");
    assert!(!proxy.log().contains(".invalid"), "{}", proxy.log());
}

#[test]
fn what_the_configuration_does_not_refuse_is_not_enforced() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, drilled);
    eventually("there is a drill", || !status(&proxy)["drill"].is_null());
    let base = proxy.settings.clone();
    let exception = "[[rule]]\naction = \"allow\"\nhosts = [\"*\"]\nowner = \"a@b.test\"\nreason = \"x\"\n\
                     expires = \"2999-01-01\"\n";
    let whitelist = "[[rule]]\naction = \"refuse\"\nhosts = [\"*\"]\n";
    let observed = "[[crawler]]\nname = \"seen\"\ntokens = [\"SeenBot\"]\nmode = \"observe\"\nmatch = { user_agent = \"Seen\" }\n";
    for (settings, changed) in [
        (
            base.clone().set("proxy.mode", "\"observe\""),
            &["robots", "rule", "preference", "pace", "identity"][..],
        ),
        (base.clone().table(observed), &["identity"]),
        (base.clone().table(exception), &["robots", "rule", "preference", "pace", "identity"]),
        (base.clone().table(whitelist), &["control", "robots", "preference", "pace"]),
        (base.clone().set("politeness.crawl_delay", "\"ignore\""), &["pace"]),
        (base.clone().set("politeness.crawl_delay", "\"wait\""), &[]),
        (base.clone().set("politeness.share", "\"address\""), &[]),
        (base.clone().set("robots.dialect", "\"koster1996\""), &[]),
        (base.clone().set("upstream.allow_private", "[\"0.0.0.0/0\"]"), &["internal"]),
        (base.clone().without_tables(), &["preference"]),
        (base.clone().set("https.mode", "\"tunnel\""), &[]),
        (base.clone().set("proxy.require_crawler", "true"), &[]),
    ] {
        let results = results(&proxy, || proxy.reload(&settings));
        for (family, found) in &results {
            let is_changed = changed.contains(&family.as_str());
            let expected = if is_changed { "not-enforced" } else { "right" };
            assert_eq!(found, expected, "{family}: {}", status(&proxy)["drill"]);
        }
    }
}

#[test]
fn a_reload_turns_it_on_and_off() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    assert_eq!(status(&proxy)["drill"], Value::Null);
    let base = proxy.settings.clone();
    let on = base.clone().set("drill.every", "\"10s\"");
    let results = results(&proxy, || proxy.reload(&on));
    assert_eq!(result(&results, "robots"), "right");
    proxy.reload(&base);
    eventually("the drill has ended", || status(&proxy)["drill"].is_null());
    assert_eq!(proxy.metric("wayleave_config_last_reload_successful", &[]), 1.0);
}
