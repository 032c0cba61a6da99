//! Engines with foreign data, full or restored engines, and nodes that must not join, as seen by origins and clients.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::engines::{Product, Server};
use super::proxies::{arrivals, expect_gaps, is_up, joined, key_file, node, refresh};
use crate::harness::origin::reply::Step;
use crate::harness::tools::status_and_output;
use crate::harness::wayleave::{Settings, command};
use crate::harness::{Gate, Origin, Reply, Wayleave, eventually};
use crate::operations::over_time::{set_clock, with_clock};

const OPEN: &str = "User-agent: *\nDisallow:\n";
const DELAY: Duration = Duration::from_millis(500);
const SLOW: &str = "User-agent: *\nDisallow: /private\nCrawl-delay: 0.5\n";

fn private(node: &Wayleave) -> u16 {
    node.get("http://shop.test/private").status
}

fn corrupt(node: &Wayleave) -> f64 {
    node.metric("wayleave_fleet_errors_total", &[("kind", "corrupt")])
}

fn waiting(settings: Settings) -> Settings {
    settings.set("politeness.crawl_delay", "\"wait\"").set("politeness.max_wait", "\"60s\"")
}

fn state(node: &Wayleave) -> String {
    let found = node.admin_get("/v1/fleet").text();
    let found: serde_json::Value = serde_json::from_str(&found).expect("JSON");
    found["state"].as_str().expect("a state").to_owned()
}

/// Returns the only key that a pattern matches.
#[track_caller]
fn only_key(server: &Server, pattern: &str) -> String {
    let keys = server.command(&["keys", pattern]);
    let key = keys.trim().to_owned();
    assert!(!key.is_empty() && !key.contains('\n'), "{pattern}: {keys}");
    key
}

/// Starts two nodes that apply the open rules of `shop.test`.
fn two(origin: &Origin, server: &Server, change: impl Fn(Settings) -> Settings) -> [Wayleave; 2] {
    origin.site("shop.test").robots(OPEN);
    let nodes = [(); 2].map(|()| node(origin, server, &change));
    for node in &nodes {
        assert_eq!(private(node), 200);
    }
    nodes
}

/// Closes `shop.test`, has the first node fetch the new rules, and waits for the second.
fn close(origin: &Origin, nodes: &[Wayleave; 2]) {
    origin.site("shop.test").disallows("/private");
    refresh(&nodes[0], "shop.test");
    for node in nodes {
        eventually("it applies the new rules", || private(node) == 403);
    }
}

#[test]
fn a_malformed_member_stops_neither_beats_nor_changes() {
    let origin = Origin::start();
    let server = Server::start(Product::Redis);
    let nodes = two(&origin, &server, |settings| settings);
    for value in ["no time", "", "99999999999999999999 0.1.0"] {
        server.command(&["hset", "wl:{0}:nodes", "odd", value]);
    }
    server.command(&["hset", "wl:{0}:nodes", "worse", "no time"]);
    eventually("they are taken off the list", || {
        server.command(&["hexists", "wl:{0}:nodes", "odd"]).trim() == "0"
            && server.command(&["hexists", "wl:{0}:nodes", "worse"]).trim() == "0"
    });
    close(&origin, &nodes);
    assert_eq!(state(&nodes[1]), "up");
}

#[test]
fn changes_are_read_while_beats_fail() {
    let origin = Origin::start();
    let server = Server::start(Product::Redis);
    let nodes = two(&origin, &server, |settings| settings);
    server.command(&[
        "eval",
        "redis.call('DEL', KEYS[1]) return redis.call('SET', KEYS[1], 'x')",
        "1",
        "wl:{0}:nodes",
    ]);
    for node in &nodes {
        eventually("its beats are seen to fail", || state(node) == "beats-failing");
        let ready = node.admin_get("/readyz");
        assert_eq!(ready.status, 200);
        assert!(ready.text().contains("{\"fleet\":\"beats-failing\"}"), "{}", ready.text());
        let metric = |state| node.metric("wayleave_fleet_state", &[("state", state)]);
        assert_eq!(["up", "lost", "beats-failing"].map(metric), [0.0, 0.0, 1.0]);
        assert!(node.log().contains("the beats to the fleet's engine fail"), "{}", node.log());
    }
    close(&origin, &nodes);
    server.command(&["del", "wl:{0}:nodes"]);
    for node in &nodes {
        eventually("it beats again", || state(node) == "up" && is_up(node));
    }
}

/// Restores a saved record of `shop.test` with a changed head, and notifies the nodes.
const RESTORE: &str = "
local head, record = redis.call('GET', 'wl-saved'):sub(1, 24), redis.call('GET', 'wl-saved'):sub(25)
local version, fresh_until, learned_at = struct.unpack('>I8I8I8', head)
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
version = tonumber(ARGV[1]) > 0 and tonumber(ARGV[1]) or version
redis.call('SET', KEYS[1], struct.pack('>I8I8I8', version, now + 86400000000, now) .. record)
local seq = redis.call('HINCRBY', KEYS[2], 'seq', 1)
return redis.call('XADD', KEYS[3], string.format('%.0f-1', seq), 'n', 'x', 'o', 'http://shop.test', 'w', 'changed', 't', '0')
";

#[test]
fn an_old_record_that_is_restored_is_ignored_with_a_key() {
    // The version as it was, one that a double cannot count to, and the last that it can.
    for version in ["0", "1152921504606846976", "9007199254740991"] {
        let origin = Origin::start();
        let server = Server::start(Product::Redis);
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let key = key_file(&dir);
        let keyed = |settings: Settings| settings.set("store.key_file", &key);
        let nodes = two(&origin, &server, keyed);
        eventually("the engine has it", || {
            !server.command(&["keys", "*:e:http://shop.test"]).trim().is_empty()
        });
        let entry = only_key(&server, "*:e:http://shop.test");
        server.command(&["copy", &entry, "wl-saved"]);
        close(&origin, &nodes);
        let (log, born) = (
            entry.replace(":e:http://shop.test", ":l"),
            entry.replace(":e:http://shop.test", ":born"),
        );
        let before = nodes.each_ref().map(corrupt);
        server.command(&["eval", RESTORE, "3", &entry, &born, &log, version]);
        for (node, before) in nodes.iter().zip(before) {
            eventually("it has looked at it", || corrupt(node) > before || private(node) == 200);
            assert_eq!(private(node), 403, "{version}");
        }
        // What the first node fetches now has no lower version than that.
        refresh(&nodes[0], "shop.test");
        let settled = || nodes[0].metric("wayleave_fleet_settled_total", &[]);
        let settled_before = settled();
        refresh(&nodes[0], "shop.test");
        eventually("the engine has the record", || settled() > settled_before);
        for node in &nodes {
            assert_eq!(private(node), 403, "{version}");
        }
        let third = node(&origin, &server, keyed);
        assert_eq!(private(&third), 403, "{version}: it was replaced");
    }
}

#[test]
fn a_full_engine_delays_no_request() {
    let origin = Origin::start();
    let server = Server::start(Product::Redis);
    let nodes = two(&origin, &server, |settings| settings);
    server.command(&["config", "set", "maxmemory", "1"]);
    for number in 0..3 {
        let host = format!("new{number}.test");
        origin.site(&host).disallows("/private");
        for node in &nodes {
            assert_eq!(node.get(&format!("http://{host}/")).status, 200, "{host}");
            assert_eq!(node.get(&format!("http://{host}/private")).status, 403);
        }
    }
    assert!(nodes.iter().all(is_up));
    // What operators command takes effect all the same.
    let path = "/v1/robots/http%3A%2F%2Fshop.test";
    assert!(nodes[0].admin_request("DELETE", path).status < 300);
    eventually("the other one has forgotten it, too", || nodes[1].admin_get(path).status == 404);
}

#[test]
fn a_node_restarted_while_it_holds_a_slot_waits_for_its_end() {
    let gate = Gate::closed();
    let origin = Origin::start();
    let hangs = Reply::raw("", Step::Wait(gate.clone()));
    origin.site("slow.test").robots("User-agent: *\nCrawl-delay: 5\n").page("/hangs", hangs);
    let server = Server::start(Product::Redis);
    let named = |settings| waiting(settings).set("store.node", "\"first\"");
    let first = node(&origin, &server, named);
    let mut wire = first.connect();
    wire.send_get("http://slow.test/hangs");
    origin.wait_for_target("/hangs");
    let (dir, settings) = first.kill();
    let again = Wayleave::start_in(dir, settings);
    assert_eq!(again.get("http://slow.test/again").status, 200);
    expect_gaps(&arrivals(&origin, "slow.test"), Duration::from_secs(5));
    gate.open();
}

/// Runs a node that is not expected to start, or a command of it. Returns its exit status and output.
fn run_node(store: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let file = dir.path().join("config.toml");
    let text = format!(
        "[proxy]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n[state]\ndir = {:?}\n{store}",
        dir.path().join("state")
    );
    std::fs::write(&file, text).expect("it can be written");
    let mut command = command();
    command.args(arguments).arg("--config").arg(&file);
    status_and_output(&mut command)
}

#[test]
fn a_second_node_of_the_same_name_is_refused_and_reported() {
    let origin = Origin::start();
    let server = Server::start(Product::Redis);
    let named = |settings: Settings| settings.set("store.node", "\"first\"");
    let first = node(&origin, &server, named);
    let store = format!(
        "[store]\nkind = \"redis\"\nurl = \"{}\"\nnode = \"first\"\ntimeout = \"2s\"\n",
        server.url()
    );
    let (status, text) = run_node(&store, &["fleet", "check"]);
    assert_eq!(status, Some(0), "it names the node that runs: {text}");
    let (status, text) = run_node(&store, &["serve"]);
    assert!(status.is_some_and(|status| status != 0), "{text}");
    assert!(text.contains("another process is the node \"first\""), "{text}");
    let (status, text) = run_node(&store, &["fleet", "check"]);
    assert_eq!(status, Some(2), "{text}");
    assert!(text.contains("another process is the node \"first\""), "{text}");
    assert_eq!(state(&first), "up");
    // A node that was stopped in good order leaves at once.
    let (dir, settings) = first.stop();
    assert_eq!(server.command(&["hlen", "wl:{0}:nodes"]).trim(), "0");
    drop(Wayleave::start_in(dir, settings));
}

#[test]
fn a_delay_holds_while_home_nodes_find_the_engine_again() {
    let origin = Origin::start();
    origin.site("slow.test").robots(SLOW);
    let mut server = Server::start(Product::Redis);
    let home = |settings| waiting(settings).set("store.on_loss", "\"home\"");
    let nodes = [(); 4].map(|()| node(&origin, &server, home));
    for node in &nodes {
        eventually("all see each other", || node.metric("wayleave_fleet_members", &[]) == 4.0);
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for node in &nodes {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        // Those that are refused would come back at once, and keep the nodes from finding the engine.
                        if node.get("http://slow.test/").status != 200 {
                            std::thread::park_timeout(Duration::from_millis(20));
                        }
                    }
                });
            }
        }
        let more = |count: usize| {
            let before = arrivals(&origin, "slow.test").len();
            eventually("more requests arrive", || {
                arrivals(&origin, "slow.test").len() >= before + count
            });
        };
        more(2);
        for is_restarted in [true, false, true] {
            if is_restarted {
                server.kill();
            } else {
                server.signal("STOP");
            }
            eventually("all have noticed", || nodes.iter().all(|node| !is_up(node)));
            more(3);
            if is_restarted {
                server.revive();
            } else {
                server.signal("CONT");
            }
            eventually("all are back", || nodes.iter().all(is_up));
            more(6);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    expect_gaps(&arrivals(&origin, "slow.test"), DELAY);
}

#[test]
fn a_wrong_clock_is_reported_if_there_is_a_key() {
    let origin = Origin::start();
    let server = Server::start(Product::Redis);
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let key = key_file(&dir);
    let clock = dir.path().join("clock");
    set_clock(&clock, Duration::from_hours(24));
    let off = || with_clock(&clock);
    let keyed = |settings: Settings| joined(settings, &server).set("store.key_file", &key);
    let (wrong, settings) = Wayleave::start_inheriting(off(), &origin, &dir, keyed);
    eventually("it is reported", || state(&wrong) == "clock-off");
    let metric = wrong.metric("wayleave_fleet_state", &[("state", "clock-off")]);
    assert_eq!(metric, 1.0);
    let ready = wrong.admin_get("/readyz").text();
    assert!(ready.contains("{\"fleet\":\"clock-off\"}"), "{ready}");
    assert!(wrong.log().contains("this machine's clock is off"), "{}", wrong.log());
    let config = dir.path().join("command.toml");
    std::fs::write(&config, settings.to_toml()).expect("it can be written");
    let check = |mut command: Command| {
        command.args(["fleet", "check", "--config"]).arg(&config);
        status_and_output(&mut command)
    };
    let (status, text) = check(off());
    assert_eq!(status, Some(2), "{text}");
    assert!(
        text.contains("clock     denied: this machine's clock is 86400 s ahead of the engine's"),
        "{text}"
    );
    let (status, text) = check(command());
    assert_eq!(status, Some(0), "{text}");
}

#[test]
fn a_key_of_a_wrong_type_concerns_its_origin_only() {
    let origin = Origin::start();
    for host in ["odd.test", "slow.test"] {
        origin.site(host).robots(SLOW);
    }
    let server = Server::start(Product::Redis);
    let node = node(&origin, &server, waiting);
    for host in ["odd.test", "slow.test"] {
        assert_eq!(node.get(&format!("http://{host}/")).status, 200);
    }
    let slots = only_key(&server, "*:t:http://odd.test*");
    eventually("the slot was released", || server.command(&["hlen", &slots]).trim() == "1");
    let before = node.metric("wayleave_fleet_errors_total", &[("kind", "connection")]);
    server.command(&["set", &slots, "odd"]);
    for _ in 0..5 {
        assert_eq!(node.get("http://odd.test/").status, 429);
        assert_eq!(node.get("http://slow.test/").status, 200);
    }
    assert_eq!((is_up(&node), state(&node)), (true, "up".to_owned()));
    assert!(corrupt(&node) >= 5.0);
    assert_eq!(node.metric("wayleave_fleet_errors_total", &[("kind", "connection")]), before);
}

#[test]
fn faults_in_one_partition_stop_no_other() {
    let origin = Origin::start();
    let server = Server::start(Product::Redis);
    let nodes = two(&origin, &server, |settings| settings);
    let own = only_key(&server, "*:e:http://shop.test");
    let own = own.replace(":e:http://shop.test", "");
    let other = if own == "wl:{1}" { "wl:{2}" } else { "wl:{1}" };
    server.command(&["del", &format!("{other}:l"), &format!("{other}:born")]);
    for kind in ["l", "born"] {
        server.command(&["set", &format!("{other}:{kind}"), "odd"]);
    }
    // An entry that is not UTF-8, and a log at its highest number.
    server.command(&[
        "eval",
        "return redis.call('XADD', KEYS[1], '*', '\\255', '\\254')",
        "1",
        &format!("{other}0:l"),
    ]);
    close(&origin, &nodes);
    let end = "18446744073709551615-1";
    server.command(&[
        "xadd",
        &format!("{own}:l"),
        end,
        "n",
        "x",
        "o",
        "http://shop.test",
        "w",
        "changed",
    ]);
    origin.site("shop.test").robots(OPEN);
    refresh(&nodes[0], "shop.test");
    eventually("it applies the newest rules", || private(&nodes[1]) == 200);
    let late = node(&origin, &server, |settings| settings);
    assert_eq!((private(&late), state(&late)), (200, "up".to_owned()));
}

#[test]
fn a_lease_without_an_end_is_ignored() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/private");
    let server = Server::start(Product::Redis);
    let node = node(&origin, &server, |settings| settings);
    assert_eq!(private(&node), 403);
    eventually("the engine has it", || {
        !server.command(&["keys", "*:e:http://shop.test"]).trim().is_empty()
    });
    let lease = only_key(&server, "*:e:http://shop.test").replace(":e:", ":f:");
    for ends_in in [None, Some("31536000")] {
        let path = "/v1/robots/http%3A%2F%2Fshop.test";
        assert!(node.admin_request("DELETE", path).status < 300);
        server.command(&["set", &lease, "unknown"]);
        if let Some(seconds) = ends_in {
            server.command(&["expire", &lease, seconds]);
        }
        assert_eq!(private(&node), 403, "{ends_in:?}");
    }
}

#[test]
fn nodes_whose_settings_decide_differently_are_refused() {
    let origin = Origin::start();
    let server = Server::start(Product::Redis);
    let first = node(&origin, &server, |settings| settings);
    let store =
        format!("[store]\nkind = \"redis\"\nurl = \"{}\"\ntimeout = \"2s\"\n", server.url());
    let (status, text) = run_node(&store, &["fleet", "check"]);
    assert_eq!(status, Some(0), "{text}");
    let other = store + "[robots]\nmax_size = \"700KiB\"\n";
    for command in [&["fleet", "check"][..], &["serve"]] {
        let (status, text) = run_node(&other, command);
        assert!(status.is_some_and(|status| status != 0), "{text}");
        assert!(
            text.contains("max_size") && text.contains("716800") && text.contains("512000"),
            "{text}"
        );
    }
    first.stop();
    let (status, text) = run_node(&other, &["fleet", "check"]);
    assert_eq!(status, Some(0), "no other node is there: {text}");
}
