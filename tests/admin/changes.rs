//! Changes of robots.txt files: the metric, `/v1/changes` and `wayleave robots changes`.

use serde_json::{Value, json};

use crate::harness::wayleave::command;
use crate::harness::{Origin, Reply, Wayleave, eventually};

/// Fetches a site's robots.txt again, as soon as that is allowed.
fn refresh(proxy: &Wayleave, site: &str) {
    let path = format!("/v1/robots/http%3A%2F%2F{site}/refresh");
    eventually("it may be fetched", || proxy.admin_request("POST", &path).status == 200);
}

fn count(proxy: &Wayleave, effect: &str) -> f64 {
    proxy.metric("wayleave_robots_changes_total", &[("effect", effect)])
}

fn listed(proxy: &Wayleave, query: &str) -> Value {
    proxy.admin_get(&format!("/v1/changes{query}")).json()
}

/// Checks what `wayleave robots changes` prints.
#[track_caller]
fn expect_rows(proxy: &Wayleave) {
    let file = proxy.config_with_ports();
    let mut changes = command();
    changes.args(["robots", "changes", "--since", "yesterday", "--config"]).arg(file);
    let output = changes.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][1..], ["opens", "1", "0", "http://shop.test"], "{text}");
    assert_eq!(rows[1][1..], ["both", "1", "1", "http://shop.test"], "{text}");
}

#[test]
fn a_changed_robots_txt_is_listed_with_what_it_opens_and_closes() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/old");
    origin.site("calm.test").disallows("/old");
    let proxy = Wayleave::start(&origin);
    for url in ["shop.test/a", "shop.test/b", "shop.test/old/1", "calm.test/a"] {
        proxy.get(&format!("http://{url}"));
    }
    refresh(&proxy, "calm.test");
    assert_eq!(listed(&proxy, "")["changes"], json!([]), "nothing has changed");

    origin.site("shop.test").disallows("/a");
    refresh(&proxy, "shop.test");
    eventually("the change is counted", || count(&proxy, "both") == 1.0);
    origin.site("shop.test").robots_reply(Reply::new(404));
    refresh(&proxy, "shop.test");
    eventually("that it is gone is counted", || count(&proxy, "opens") == 1.0);
    // A file that cannot be fetched has not changed.
    origin.site("shop.test").robots_reply(Reply::new(500));
    refresh(&proxy, "shop.test");
    assert_eq!(proxy.metric("wayleave_robots_changes_total", &[]), 2.0);

    let expected = json!([
        {
            "origin": "http://shop.test", "effect": "opens", "asked": 3, "opened": 1, "closed": 0,
            "opened_urls": ["http://shop.test/a"], "closed_urls": [],
        },
        {
            "origin": "http://shop.test", "effect": "both", "asked": 3, "opened": 1, "closed": 1,
            "opened_urls": ["http://shop.test/old/1"], "closed_urls": ["http://shop.test/a"],
        },
    ]);
    let without_versions = |mut listed: Value| {
        for change in listed["changes"].as_array_mut().expect("a list") {
            let members = change.as_object_mut().expect("an object");
            let [before, after] = ["before", "after"].map(|name| members.remove(name));
            assert_ne!(before.expect("a version")["sha256"], after.expect("a version")["sha256"]);
            members.remove("at");
        }
        listed["changes"].take()
    };
    assert_eq!(without_versions(listed(&proxy, "?since=1h")), expected);
    let newest = listed(&proxy, "?limit=1");
    assert_eq!(
        (&newest["is_cut"], newest["changes"][0]["after"]["status"].as_u64()),
        (&json!(true), Some(404))
    );
    assert_eq!(listed(&proxy, "?since=1h&until=1h")["changes"], json!([]));
    let wrong = proxy.admin_get("/v1/changes?since=someday");
    assert_eq!(
        (wrong.status, &wrong.json()["error"].as_str().expect("text")[..6]),
        (400, "since:")
    );

    expect_rows(&proxy);

    // The history and the decision log survive a restart.
    let (dir, settings) = proxy.stop();
    let proxy = Wayleave::start_in(dir, settings);
    assert_eq!(without_versions(listed(&proxy, "")), expected);
    assert_eq!(proxy.metric("wayleave_robots_changes_total", &[]), 0.0);
}
