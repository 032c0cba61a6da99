//! A fleet in trouble: an engine that stops, is unreachable for one node, or fails over; a node that dies.

use std::time::Duration;

use super::engines::{Cluster, Product, Server};
use super::proxies::{arrivals, expect_gaps, is_up, node, robots_fetches};
use super::relay::Relay;
use crate::harness::origin::reply::Step;
use crate::harness::tools::{clean, run};
use crate::harness::wayleave::{BINARY, Settings};
use crate::harness::{Gate, Origin, Reply, Wayleave, eventually};

const DELAY: Duration = Duration::from_millis(500);

/// An origin with a delay and one without.
fn sites() -> Origin {
    let origin = Origin::start();
    let slow = "User-agent: *\nDisallow: /private\nCrawl-delay: 0.5\n";
    origin.site("slow.test").robots(slow);
    origin.site("free.test").robots("User-agent: *\nDisallow: /private\n");
    origin
}

fn waiting(settings: Settings) -> Settings {
    settings.set("politeness.crawl_delay", "\"wait\"")
}

/// Requests that every node answers, with or without the engine.
fn expect_free(node: &Wayleave) {
    assert_eq!(node.get("http://free.test/").status, 200);
    assert_eq!(node.get("http://free.test/private").status, 403);
}

fn goes_slowly(node: &Wayleave) -> bool {
    node.get("http://slow.test/").status == 200
}

#[test]
fn a_silent_engine_is_left_alone_until_it_answers() {
    let origin = sites();
    let server = Server::start(Product::Redis);
    let quick = |settings| waiting(settings).set("store.timeout", "\"250ms\"");
    let nodes = [(); 2].map(|()| node(&origin, &server, quick));
    for node in &nodes {
        expect_free(node);
        eventually("it goes", || goes_slowly(node));
    }
    server.signal("STOP");
    for node in &nodes {
        expect_free(node);
        eventually("the loss is noticed", || !is_up(node));
        expect_free(node);
        assert_eq!(node.get("http://slow.test/").status, 429);
    }
    server.signal("CONT");
    for node in &nodes {
        eventually("it goes again", || goes_slowly(node));
        assert!(is_up(node));
    }
    expect_gaps(&arrivals(&origin, "slow.test"), DELAY);
}

#[test]
fn an_isolated_node_refuses_delayed_origins_and_others_do_not() {
    let origin = sites();
    let server = Server::start(Product::Valkey);
    let relay = Relay::to(server.port);
    let whole = node(&origin, &server, waiting);
    let cut = node(&origin, &server, |settings| {
        let url = format!("\"redis://127.0.0.1:{}\"", relay.port);
        waiting(settings).set("store.url", &url)
    });
    for node in [&whole, &cut] {
        eventually("it goes", || goes_slowly(node));
        expect_free(node);
    }
    relay.cut();
    eventually("the loss is noticed", || !is_up(&cut));
    for _ in 0..3 {
        assert!(goes_slowly(&whole) && is_up(&whole));
        assert_eq!(cut.get("http://slow.test/cut").status, 429);
        expect_free(&cut);
    }
    relay.mend();
    eventually("it goes again", || goes_slowly(&cut));
    assert!(goes_slowly(&whole));
    let arrivals = arrivals(&origin, "slow.test");
    expect_gaps(&arrivals, DELAY);
    assert!(!origin.seen().iter().any(|seen| seen.ends_with("/cut")));
}

#[test]
fn a_delay_holds_through_the_failover_of_a_cluster() {
    let origin = sites();
    let mut cluster = Cluster::start(Product::Redis);
    let urls = cluster.address().urls.join(",");
    let of_cluster = |settings: Settings| {
        let url = format!("{urls:?}");
        waiting(settings).set("store.url", &url).set("store.cluster", "true")
    };
    let nodes = [(); 2].map(|()| node(&origin, &cluster.servers[0], of_cluster));
    for node in &nodes {
        eventually("it goes", || goes_slowly(node));
    }
    // The server that has the origin's keys.
    let keys = |server: &Server| server.tell(&["keys", "*slow.test*"]);
    let is_primary = |server: &Server| server.tell(&["role"]).starts_with("master");
    let owner = cluster
        .servers
        .iter()
        .position(|server| is_primary(server) && !keys(server).trim().is_empty());
    cluster.servers[owner.expect("one has them")].kill();
    for node in &nodes {
        expect_free(node);
        eventually("it goes again", || goes_slowly(node));
        expect_free(node);
    }
    expect_gaps(&arrivals(&origin, "slow.test"), DELAY);
}

#[test]
fn another_node_fetches_when_the_one_that_did_has_died() {
    let gate = Gate::closed();
    let origin = Origin::start();
    let hangs = Reply::raw("", Step::Wait(gate.clone()));
    origin.site("shop.test").robots_reply(hangs);
    let server = Server::start(Product::Redis);
    let short = |settings: Settings| settings.set("robots.fetch_timeout", "\"2s\"");
    let dies = node(&origin, &server, short);
    let lives = node(&origin, &server, short);
    let mut wire = dies.connect();
    wire.send_get("http://shop.test/");
    origin.wait_for_target("/robots.txt");
    dies.signal("KILL");
    origin.site("shop.test").robots("User-agent: *\nDisallow: /private\n");
    eventually("its lease has ended", || lives.get("http://shop.test/").status == 200);
    assert_eq!(lives.get("http://shop.test/private").status, 403);
    assert_eq!(origin.robots_fetches("shop.test"), 2);
}

#[test]
fn without_the_engine_each_origin_has_a_home_node_if_set() {
    let origin = sites();
    let mut server = Server::start(Product::Redis);
    let home = |settings| waiting(settings).set("store.on_loss", "\"home\"");
    let nodes = [(); 3].map(|()| node(&origin, &server, home));
    for node in &nodes {
        eventually("all see each other", || node.metric("wayleave_fleet_members", &[]) == 3.0);
        eventually("it goes", || goes_slowly(node));
    }
    server.kill();
    for node in &nodes {
        eventually("the loss is noticed", || !is_up(node));
    }
    let going = || nodes.iter().filter(|node| goes_slowly(node)).count();
    for _ in 0..3 {
        assert_eq!(going(), 1);
    }
    expect_gaps(&arrivals(&origin, "slow.test"), DELAY);
}

fn fleet_command(node: &Wayleave, arguments: &[&str]) -> (Option<i32>, String) {
    let config = node.dir.path().join("config.toml");
    let text = node.settings.clone().set("admin.listen", &format!("\"{}\"", node.admin));
    let asking = config.with_file_name("asking.toml");
    std::fs::write(&asking, text.to_toml()).expect("it can be written");
    let mut command = clean(BINARY);
    command.arg("fleet").args(arguments).arg("--config").arg(&asking);
    let output = run(&mut command, b"", Duration::from_secs(60));
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn operators_see_the_fleet_and_what_it_lacks() {
    let origin = sites();
    let mut server = Server::start(Product::Redis);
    let named = |settings: Settings| settings.set("store.node", "\"first\"");
    let first = node(&origin, &server, named);
    let (status, text) = fleet_command(&first, &["status"]);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("state      up") && text.contains("first 0.1.0 (this one)"), "{text}");
    let (status, text) = fleet_command(&first, &["check"]);
    assert_eq!((status, text.matches(" ok\n").count()), (Some(0), 11), "{text}");
    server.tell(&["acl", "setuser", "default", "-xadd"]);
    let (status, text) = fleet_command(&first, &["check"]);
    assert_eq!(status, Some(2), "{text}");
    assert!(text.contains("settle    denied"), "{text}");
    let (_, text) = fleet_command(&first, &["check", "--json"]);
    assert!(text.contains("\"failure\": \"denied: "), "{text}");
    server.kill();
    eventually("the loss is shown", || {
        let (status, text) = fleet_command(&first, &["status", "--json"]);
        assert_eq!(status, Some(0), "{text}");
        text.contains("\"state\": \"lost\"")
    });
    let ready = first.admin_get("/readyz");
    assert_eq!(ready.status, 200);
    let text = ready.text();
    for words in ["ready, but the fleet's engine", "\"fleet\":\"lost\""] {
        assert!(text.contains(words), "{text}");
    }
    let (status, text) = fleet_command(&first, &["check"]);
    assert_eq!(status, Some(2), "{text}");
}
