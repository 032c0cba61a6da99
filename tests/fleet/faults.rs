//! Faults in a fleet: an engine that stops, is unreachable for one node, or fails over; a node that is killed.

use std::time::Duration;

use wayleave_fleet::engine::{EngineFailure, SharedEngine};
use wayleave_fleet::redis::{RedisAddress, RedisSettings};

use super::engines::{Cluster, Product, Server};
use super::proxies::{arrivals, expect_gaps, is_up, joined, node};
use super::relay::Relay;
use super::{engine, options, run};
use crate::harness::origin::reply::Step;
use crate::harness::tls::Authority;
use crate::harness::tools::status_and_output;
use crate::harness::wayleave::{Settings, command};
use crate::harness::{Gate, Origin, Reply, Wayleave, eventually};

const DELAY: Duration = Duration::from_millis(500);

/// Starts a site with a delay and one without.
fn sites() -> Origin {
    let origin = Origin::start();
    let slow = "User-agent: *\nDisallow: /private\nCrawl-delay: 0.5\n";
    origin.site("slow.test").robots(slow);
    origin.site("free.test").disallows("/private");
    origin
}

fn waiting(settings: Settings) -> Settings {
    settings.set("politeness.crawl_delay", "\"wait\"")
}

/// Sends requests that every node decides, with or without the engine.
fn expect_free(node: &Wayleave) {
    assert_eq!(node.get("http://free.test/").status, 200);
    assert_eq!(node.get("http://free.test/private").status, 403);
}

fn slow_is_served(node: &Wayleave) -> bool {
    node.get("http://slow.test/").status == 200
}

#[test]
fn a_silent_engine_is_not_used_until_it_responds() {
    let origin = sites();
    let server = Server::start(Product::Redis);
    let quick = |settings| waiting(settings).set("store.timeout", "\"1s\"");
    let nodes = [(); 2].map(|()| node(&origin, &server, quick));
    for node in &nodes {
        expect_free(node);
        eventually("slow.test is served", || slow_is_served(node));
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
        eventually("slow.test is served again", || slow_is_served(node));
        assert!(is_up(node));
    }
    expect_gaps(&arrivals(&origin, "slow.test"), DELAY);
}

#[test]
fn the_next_beat_replaces_a_connection_that_a_router_forgot() {
    let server = Server::start(Product::Redis);
    let relay = Relay::to(server.port);
    let urls = vec![format!("redis://127.0.0.1:{}", relay.port)];
    let timeout = Duration::from_millis(500);
    let options = options(RedisAddress { urls, ..server.address() }, "a");
    let engine = engine(RedisSettings { timeout, ..options });
    run(async {
        engine.beat("0.1.0").await.expect("it joins");
        for connections in 2..4 {
            relay.forget();
            assert_eq!(engine.heads().await.unwrap_err(), EngineFailure::Timeout);
            engine.beat("0.1.0").await.expect("it joins again");
            engine.heads().await.expect("the new connection works");
            assert_eq!(relay.accepted(), connections);
        }
        relay.cut();
        engine.beat("0.1.0").await.expect_err("it is away");
        relay.restore();
        engine.beat("0.1.0").await.expect("it is back");
    });
}

#[test]
fn a_node_finds_its_engine_again_after_a_router_forgot_it() {
    let origin = sites();
    let server = Server::start(Product::Valkey);
    let relay = Relay::to(server.port);
    let node = node(&origin, &server, |settings| {
        let url = format!("\"redis://127.0.0.1:{}\"", relay.port);
        waiting(settings).set("store.url", &url)
    });
    eventually("slow.test is served", || slow_is_served(&node));
    eventually("one connection is for calls, one waits for notes", || relay.accepted() == 2);
    for connections in [4, 6] {
        relay.forget();
        expect_free(&node);
        eventually("it dials again", || relay.accepted() == connections && is_up(&node));
        eventually("slow.test is served", || slow_is_served(&node));
    }
    expect_gaps(&arrivals(&origin, "slow.test"), DELAY);
}

#[test]
fn an_engine_is_verified_by_the_roots_of_the_moment() {
    let origin = sites();
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let (server, port) = Server::start_with_tls(Product::Redis, dir.path());
    let file = |name: &str| dir.path().join(name);
    for name in ["ca.pem", "roots.pem"] {
        std::fs::write(file(name), Authority::new(name).pem).expect("it can be written");
    }
    let node = Wayleave::start_with_after(
        &origin,
        |settings| {
            joined(settings, &server)
                .set("store.url", &format!("\"rediss://127.0.0.1:{port}\""))
                .set("store.ca_file", &format!("{:?}", file("ca.pem")))
        },
        &format!("unset SSL_CERT_DIR; export SSL_CERT_FILE={}", file("roots.pem").display()),
    );
    assert!(!is_up(&node));
    std::fs::write(file("roots.pem"), &Authority::trusted().pem).expect("it can be written");
    eventually("it joins", || is_up(&node));
}

#[test]
fn an_isolated_node_refuses_delayed_origins_and_others_do_not() {
    let origin = sites();
    let server = Server::start(Product::Valkey);
    let relay = Relay::to(server.port);
    let connected = node(&origin, &server, waiting);
    let isolated = node(&origin, &server, |settings| {
        let url = format!("\"redis://127.0.0.1:{}\"", relay.port);
        waiting(settings).set("store.url", &url)
    });
    for node in [&connected, &isolated] {
        eventually("slow.test is served", || slow_is_served(node));
        expect_free(node);
    }
    relay.cut();
    eventually("the loss is noticed", || !is_up(&isolated));
    for _ in 0..3 {
        assert!(slow_is_served(&connected) && is_up(&connected));
        assert_eq!(isolated.get("http://slow.test/cut").status, 429);
        expect_free(&isolated);
    }
    relay.restore();
    eventually("slow.test is served again", || slow_is_served(&isolated));
    assert!(slow_is_served(&connected));
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
        eventually("slow.test is served", || slow_is_served(node));
    }
    // The server that has the origin's keys.
    let keys = |server: &Server| server.command(&["keys", "*slow.test*"]);
    let is_primary = |server: &Server| server.command(&["role"]).starts_with("master");
    let owner = cluster
        .servers
        .iter()
        .position(|server| is_primary(server) && !keys(server).trim().is_empty());
    cluster.servers[owner.expect("one has them")].kill();
    for node in &nodes {
        expect_free(node);
        eventually("slow.test is served again", || slow_is_served(node));
        expect_free(node);
    }
    expect_gaps(&arrivals(&origin, "slow.test"), DELAY);
}

#[test]
fn another_node_fetches_after_the_fetching_one_was_killed() {
    let gate = Gate::closed();
    let origin = Origin::start();
    let hangs = Reply::raw("", Step::Wait(gate.clone()));
    origin.site("shop.test").robots_reply(hangs);
    let server = Server::start(Product::Redis);
    let short = |settings: Settings| settings.set("robots.fetch_timeout", "\"2s\"");
    let killed = node(&origin, &server, short);
    let survivor = node(&origin, &server, short);
    let mut wire = killed.connect();
    wire.send_get("http://shop.test/");
    origin.wait_for_target("/robots.txt");
    killed.signal("KILL");
    origin.site("shop.test").disallows("/private");
    eventually("its lease has ended", || survivor.get("http://shop.test/").status == 200);
    assert_eq!(survivor.get("http://shop.test/private").status, 403);
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
        eventually("slow.test is served", || slow_is_served(node));
    }
    server.kill();
    for node in &nodes {
        eventually("the loss is noticed", || !is_up(node));
    }
    for _ in 0..3 {
        assert_eq!(nodes.iter().filter(|node| slow_is_served(node)).count(), 1);
    }
    expect_gaps(&arrivals(&origin, "slow.test"), DELAY);
}

fn fleet_command(node: &Wayleave, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = command();
    command.arg("fleet").args(arguments).arg("--config").arg(node.config_with_ports());
    status_and_output(&mut command)
}

#[test]
fn fleet_status_and_check_report_what_is_missing() {
    let origin = sites();
    let mut server = Server::start(Product::Redis);
    let named = |settings: Settings| settings.set("store.node", "\"first\"");
    let first = node(&origin, &server, named);
    let (status, text) = fleet_command(&first, &["status"]);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("state      up") && text.contains("first 0.1.0 (this one)"), "{text}");
    let (status, text) = fleet_command(&first, &["check"]);
    assert_eq!((status, text.matches(" ok\n").count()), (Some(0), 12), "{text}");
    server.command(&["acl", "setuser", "default", "-xadd"]);
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
    for part in ["ready, but the fleet's engine", "\"fleet\":\"lost\""] {
        assert!(text.contains(part), "{text}");
    }
    let (status, text) = fleet_command(&first, &["check"]);
    assert_eq!(status, Some(2), "{text}");
}
