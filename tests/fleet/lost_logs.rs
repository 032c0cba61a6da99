//! Nodes that lose their decision logs, or parts of them: the heads in the engine say what is missing.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::engines::{Product, Server};
use super::proxies::{is_up, joined, key_file, node};
use crate::evidence::export::{evidence, expect};
use crate::harness::tools::status_and_output;
use crate::harness::wayleave::{Settings, command};
use crate::harness::{Origin, Request, Wayleave, eventually};

const URL: &str = "http://shop.test/private/0";

/// A fleet with a key, whose nodes have names.
struct NamedFleet {
    origin: Origin,
    server: Server,
    key: String,
    _dir: tempfile::TempDir,
}

impl NamedFleet {
    fn start() -> Self {
        let origin = Origin::start();
        for host in ["shop.test", "held.test"] {
            origin.site(host).disallows("/private");
        }
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let key = key_file(&dir);
        Self { origin, server: Server::start(Product::Redis), key, _dir: dir }
    }

    fn settings(&self, name: &str, settings: Settings) -> Settings {
        joined(settings, &self.server)
            .set("store.node", &format!("{name:?}"))
            .set("store.key_file", &self.key)
            .set("log.events", "false")
    }

    fn node(&self, name: &str) -> Wayleave {
        node(&self.origin, &self.server, |settings| self.settings(name, settings))
    }

    /// Evaluates Lua in the engine. `KEYS[1]` has the heads.
    fn eval(&self, code: &str) -> String {
        self.server.command(&["eval", code, "1", "wl:{0}:heads"]).trim().to_owned()
    }
}

/// Sends so many requests that are refused.
fn crawl(node: &Wayleave, host: &str, requests: usize) {
    let mut wire = node.connect();
    for n in 0..requests {
        wire.send(Request::get(&format!("http://{host}/private/{n}")).absolute_form());
        assert_eq!(wire.response().status, 403);
    }
}

/// Returns the logs that a node knows.
fn logs(node: &Wayleave) -> Vec<Value> {
    let found: Value = serde_json::from_str(&node.admin_get("/v1/fleet").text()).expect("JSON");
    found["logs"].as_array().expect("a list").clone()
}

/// Waits until a node knows so many decisions, and lost ones, of another's newest log.
#[track_caller]
fn wait_for(knower: &Wayleave, name: &str, decisions: u64, lost: u64) {
    eventually("its head is known", || {
        logs(knower).iter().any(|log| {
            log["node"] == name && log["decisions"] == decisions && log["lost_decisions"] == lost
        })
    });
}

/// Asks nodes about a URL. Returns the exit status and both streams.
fn ask(nodes: &[&Wayleave], more: &[&str]) -> (Option<i32>, String) {
    let urls: Vec<_> = nodes.iter().map(|node| format!("http://{}", node.admin)).collect();
    let mut command = command();
    command.args(["evidence", "ask", URL, "--at", "0s", "--nodes", &urls.join(",")]).args(more);
    status_and_output(&mut command)
}

/// Expects one log to be named as missing, by this beginning of the line.
#[track_caller]
fn expect_missing(nodes: &[&Wayleave], beginning: &str) {
    let (status, printed) = ask(nodes, &[]);
    assert_eq!(status, Some(2), "{printed}");
    let named: Vec<_> = printed.lines().filter(|line| line.contains(" are missing (")).collect();
    assert_eq!(named.len(), 1, "{printed}");
    assert!(named[0].starts_with(&format!("wayleave: {beginning} (log ")), "{printed}");
    assert!(printed.contains("request     GET http://shop.test/private/0\n"), "{printed}");
}

#[test]
fn decisions_lost_with_a_node_are_named_by_the_others() {
    let mut fleet = NamedFleet::start();
    let nodes = ["a", "b", "c", "d"].map(|name| fleet.node(name));
    let counts = [3, 5, 7, 11];
    for (node, count) in nodes.iter().zip(counts) {
        crawl(node, "shop.test", count);
    }
    for (name, count) in ["a", "b", "c", "d"].into_iter().zip(counts) {
        for node in &nodes {
            wait_for(node, name, count as u64, 0);
        }
    }
    let [a, b, c, d] = nodes;
    let (status, printed) = ask(&[&a, &b, &c, &d], &[]);
    assert_eq!(status, Some(1), "all is there, and was refused: {printed}");
    assert!(!printed.contains("missing"), "{printed}");
    expect_missing(&[&a, &b, &c], "node d: no answer has its log: 11 decisions are missing");

    let (dir, settings) = d.kill();
    drop(dir);
    expect_missing(&[&a, &b, &c], "node d: no answer has its log: 11 decisions are missing");
    let (status, printed) = ask(&[&a, &b, &c], &["--json"]);
    assert_eq!(status, Some(2), "{printed}");
    let lines = printed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let missing = lines.filter(|line| line.get("missing").is_some()).collect::<Vec<_>>();
    assert_eq!(missing.len(), 1, "{printed}");
    assert_eq!(missing[0]["node"], "d");
    let missing = &missing[0]["missing"];
    assert_eq!((&missing["reason"], &missing["decisions"]), (&"no-answer".into(), &11.into()));
    assert!(missing["head"].as_str().expect("a line").contains("\"signature\":"), "{missing}");
    let (status, printed) = ask(&[&a, &b, &c], &["--accept-missing"]);
    assert_eq!(status, Some(1), "{printed}");

    // Neither an engine that comes back empty, nor one that was away, changes that.
    fleet.server.kill();
    eventually("the loss is noticed", || [&a, &b, &c].iter().all(|node| !is_up(node)));
    crawl(&a, "shop.test", 1);
    fleet.server.revive();
    wait_for(&b, "a", 4, 0);
    eventually("all heads are in the engine again", || {
        fleet.eval("return redis.call('HLEN', KEYS[1])") == "4"
    });
    assert_eq!(a.log().matches("the fleet's engine is unreachable").count(), 1, "{}", a.log());
    expect_missing(&[&a, &b, &c], "node d: no answer has its log: 11 decisions are missing");
    let mut status = command();
    status.args(["fleet", "status", "--config"]).arg(a.config_with_ports());
    let (_, printed) = status_and_output(&mut status);
    assert!(printed.contains("\nlog        d: 11 decisions at 20"), "{printed}");

    // Its successor under the same name does not pass for it.
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    drop(settings);
    let settings = fleet.settings("d", Settings::for_origin(dir.path(), &fleet.origin));
    let d = Wayleave::start_in(dir, settings);
    crawl(&d, "shop.test", 2);
    wait_for(&a, "d", 2, 0);
    let lost = "node d: it answers with another log: 11 decisions are missing";
    expect_missing(&[&a, &b, &c, &d], lost);
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.expect("cp can be started").success());
}

#[test]
fn a_log_restored_from_a_backup_says_what_it_lacks() {
    let fleet = NamedFleet::start();
    let [a, b] = ["a", "b"].map(|name| fleet.node(name));
    crawl(&a, "shop.test", 4);
    let (dir, settings) = a.stop();
    let (state, backup) = (dir.path().join("state"), dir.path().join("backup"));
    copy(&state, &backup);
    let a = Wayleave::start_in(dir, settings);
    crawl(&a, "shop.test", 6);
    wait_for(&b, "a", 10, 0);
    let (dir, settings) = a.kill();
    copy(&backup, &state);

    // An export from the backup is sound in itself.
    let mut number = 0;
    eventually("it is made later than the head that the others know, by the second", || {
        number += 1;
        let out = format!("export{number}");
        expect(&evidence(dir.path(), &["export", "--since", "1d", "--out", &out]), 0);
        expect(&evidence(dir.path(), &["verify", &out]), 0);
        let nodes = format!("http://{}", b.admin);
        let mut verify = command();
        verify.current_dir(dir.path()).args(["evidence", "verify", &out, "--nodes", &nodes]);
        let (status, printed) = status_and_output(&mut verify);
        let says = "which other nodes know: 6 decisions are missing";
        status == Some(2) && printed.contains(says)
    });

    let a = Wayleave::start_in(dir, settings);
    crawl(&a, "shop.test", 20);
    wait_for(&b, "a", 24, 6);
    expect_missing(&[&a, &b], "node a: its log was cut back: 6 decisions are missing");
    assert!(a.metric("wayleave_decision_log_altered_total", &[]) >= 1.0);
    assert!(a.log().contains("was cut back behind a head that the fleet knows"), "{}", a.log());
    let (dir, settings) = a.stop();
    expect(&evidence(dir.path(), &["export", "--since", "1d", "--out", "later"]), 0);
    let printed = expect(&evidence(dir.path(), &["verify", "later"]), 2);
    assert!(printed.contains("altered"), "{printed}");

    // That was all: the next process finds its own head.
    let a = Wayleave::start_in(dir, settings);
    crawl(&a, "shop.test", 1);
    wait_for(&b, "a", 25, 6);
    assert_eq!(a.metric("wayleave_decision_log_altered_total", &[]), 0.0);
}

#[test]
fn statements_for_sites_say_which_node_is_lost() {
    let fleet = NamedFleet::start();
    let [a, b] = ["a", "b"].map(|name| fleet.node(name));
    crawl(&a, "shop.test", 3);
    crawl(&b, "held.test", 5);
    crawl(&b, "shop.test", 2);
    wait_for(&a, "b", 7, 0);
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let mut keys = command();
    let (status, printed) =
        status_and_output(keys.args(["keys", "new", "news"]).current_dir(dir.path()));
    assert_eq!(status, Some(0), "{printed}");
    fs::write(dir.path().join("config.toml"), "").expect("it can be written");
    let urls = [&a, &b].map(|node| format!("http://{}", node.admin)).join(",");
    let publish = || {
        let mut publish = command();
        publish.current_dir(dir.path()).args(["publish", "--config", "config.toml"]);
        publish.args(["--sites", "sites", "--since", "1d", "--nodes", &urls]);
        status_and_output(&mut publish)
    };
    let statement = |host: &str| {
        let name = wayleave_evidence::Sha256Digest::of(host.as_bytes());
        let text = fs::read_to_string(dir.path().join(format!("sites/{name}.json")));
        serde_json::from_str::<Value>(&text.expect("a file")).expect("JSON")["statement"].take()
    };
    let refused = |statement: &Value| {
        let rows = statement["requests"].as_array().expect("a list").iter();
        rows.filter_map(|row| row["outcomes"]["refused"].as_u64()).sum::<u64>()
    };
    assert_eq!(publish(), (Some(0), String::new()));
    let [shop, held] = ["shop.test", "held.test"].map(statement);
    assert_eq!([refused(&shop), refused(&held)], [5, 5]);
    assert_eq!(shop["missing"], serde_json::json!([]));

    drop(b.kill());
    let (status, printed) = publish();
    assert_eq!(status, Some(3), "{printed}");
    let shop = statement("shop.test");
    assert_eq!(refused(&shop), 3);
    let missing = shop["missing"].as_array().expect("a list");
    let lost = missing.iter().find(|part| part["node"] == "b").expect("it is named");
    assert_eq!(lost["what"], "no answer has its log: 7 decisions are missing");
    assert_eq!([&lost["from"], &lost["to"]], [&shop["from"], &shop["to"]]);
    let unasked = missing.iter().find(|part| part["node"] == "node 2 of 2").expect("it is named");
    assert_eq!(
        (&unasked["what"], &unasked["from"]),
        (&"its log could not be read".into(), &shop["from"])
    );
    assert_eq!(
        statement("held.test")["missing"],
        serde_json::json!([]),
        "the last that is known of it remains"
    );
    let page = fs::read_to_string(dir.path().join("sites/index.html")).expect("the page");
    assert!(page.contains("7 decisions are missing"), "it says so of hosts without a statement");
}

#[test]
fn heads_that_were_forged_deleted_or_restored_are_replaced() {
    let fleet = NamedFleet::start();
    let [a, b] = ["a", "b"].map(|name| fleet.node(name));
    crawl(&a, "shop.test", 2);
    wait_for(&b, "a", 2, 0);
    let of_a = logs(&b).into_iter().find(|log| log["node"] == "a").expect("its log");
    let log = of_a["log"].as_str().expect("an id").to_owned();
    let set = |value: &str| fleet.eval(&format!("redis.call('HSET', KEYS[1], '{log}', {value})"));
    let is_back = |was: &str| {
        eventually(was, || {
            fleet.eval(&format!(
                "return redis.call('HGET', KEYS[1], '{log}') == redis.call('GET', 'newest') and 1 or 0"
            )) == "1"
        });
    };
    let keep = |name: &str| {
        fleet.eval(&format!("redis.call('SET', '{name}', redis.call('HGET', KEYS[1], '{log}'))"));
    };
    keep("oldest");
    crawl(&a, "shop.test", 3);
    wait_for(&b, "a", 5, 0);
    keep("newest");
    set("redis.call('GET', 'oldest')");
    is_back("the older one was replaced");
    fleet.eval(&format!("redis.call('HDEL', KEYS[1], '{log}')"));
    is_back("the deleted one was replaced");
    let errors =
        |node: &Wayleave| node.metric("wayleave_fleet_errors_total", &[("kind", "corrupt")]);
    assert_eq!(errors(&a) + errors(&b), 0.0);
    set("'forged'");
    is_back("the forged one was replaced");
    assert!(errors(&a) + errors(&b) >= 1.0);
    // A head that is signed, and not sealed by the fleet, for a log that nobody knows.
    let head = of_a["head"].as_str().expect("a line").replace('\\', "\\\\");
    let record = serde_json::json!({ "node": "stranger", "kept_until": u64::MAX, "head": head });
    fleet.eval(&format!("redis.call('HSET', KEYS[1], 'other', [==[{record}]==])"));
    let before = errors(&a);
    eventually("it is counted", || errors(&a) > before);
    assert!(logs(&a).iter().all(|log| log["node"] != "stranger"));
    fleet.eval("redis.call('DEL', KEYS[1]) redis.call('SET', KEYS[1], 'no hash')");
    eventually("a value of the wrong type was replaced", || {
        fleet.eval("return redis.call('TYPE', KEYS[1]).ok") == "hash"
    });
    is_back("it is there again");
}

#[test]
fn held_decisions_outlive_retention_but_not_deletion_by_hand() {
    let fleet = NamedFleet::start();
    let small = |settings: Settings| {
        let settings = settings.set("log.decisions_max_size", "\"64KiB\"");
        fleet.settings("a", settings).set("log.decisions_max_total", "\"512KiB\"")
    };
    let a = node(&fleet.origin, &fleet.server, small);
    let b = fleet.node("b");
    crawl(&a, "held.test", 3);
    crawl(&a, "shop.test", 1);
    let dir = a.dir.path().to_owned();
    let hold = ["hold", "add", "--host", "held.test", "--reason", "a letter"];
    expect(&evidence(&dir, &hold), 0);
    let deletions = dir.join("state/holds/deletions.json");
    let mut decisions = 4;
    let signed = || {
        let known = a.admin_get("/v1/evidence").json();
        let head = serde_json::from_str::<Value>(known["head"].as_str().expect("a line"));
        let head = head.expect("JSON");
        let counted = |name: &str| head[name].as_u64().expect("a number");
        counted("earlier_decisions") + counted("decisions")
    };
    eventually("retention has deleted files", || {
        crawl(&a, "shop.test", 50);
        decisions += 50;
        // What is written at once is in one file.
        eventually("they are written", || signed() == decisions);
        deletions.exists()
    });
    wait_for(&b, "a", decisions, 0);
    let (status, printed) = ask(&[&a, &b], &[]);
    assert_eq!(status, Some(1), "what retention deleted is not missing: {printed}");
    let (_dir, _) = a.stop();
    assert!(expect(&evidence(&dir, &["hold", "list"]), 0).contains("  3 decisions  held "));
    let exported = |out: &str, status: i32| {
        expect(&evidence(&dir, &["export", "--since", "1d", "--out", out]), 0);
        let nodes = format!("http://{}", b.admin);
        expect(&evidence(&dir, &["verify", out, "--nodes", &nodes]), status)
    };
    exported("sound", 0);
    let state = fs::read_dir(dir.join("state")).expect("it can be listed");
    let mut files: Vec<_> = state.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| {
        let name = file.file_name().expect("a name").to_string_lossy();
        name.starts_with("decisions.") && name.ends_with("Z.jsonl")
    });
    files.sort();
    let has = |file: &Path| fs::read_to_string(file).expect("text").contains("http://held.test/");
    let held = files.iter().position(|file| has(file)).expect("it is held");
    fs::remove_file(files.swap_remove(held)).expect("it can be deleted");
    let listed = expect(&evidence(&dir, &["hold", "list"]), 1);
    assert!(listed.contains(" of the decision log is missing"), "{listed}");
    files.sort();
    fs::remove_file(files.pop().expect("a file")).expect("it can be deleted");
    let printed = exported("purged", 2);
    assert!(printed.contains("missing"), "{printed}");
}
