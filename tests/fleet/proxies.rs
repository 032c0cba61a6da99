//! Several proxies with one engine, as origins see them.

use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::harness::origin::reply::Step;
use crate::harness::wayleave::Settings;
use crate::harness::{Gate, Origin, Reply, Wayleave, Wire, eventually};

use super::engines::{Product, Server};

const RULES: &str = "User-agent: *\nDisallow: /private\n";

pub fn node(
    origin: &Origin,
    server: &Server,
    change: impl FnOnce(Settings) -> Settings,
) -> Wayleave {
    Wayleave::start_with(origin, |settings| change(joined(settings, server)))
}

pub fn joined(settings: Settings, server: &Server) -> Settings {
    settings
        .set("store.kind", "\"redis\"")
        .set("store.url", &format!("{:?}", server.url()))
        // An engine on a busy machine is not lost.
        .set("store.timeout", "\"2s\"")
}

/// Writes the key of a fleet to a file in `dir`, and returns its path as TOML.
pub fn key_file(dir: &TempDir) -> String {
    let file = dir.path().join("key");
    std::fs::write(&file, "0123456789abcdef".repeat(4)).expect("it can be written");
    format!("{file:?}")
}

fn fleet(origin: &Origin, server: &Server, count: usize) -> Vec<Wayleave> {
    let plain = |settings: Settings| settings.set("politeness.crawl_delay", "\"wait\"");
    (0..count).map(|_| node(origin, server, plain)).collect()
}

/// Returns the arrival times of requests for pages.
pub fn arrivals(origin: &Origin, host: &str) -> Vec<Instant> {
    let seen = origin.requests();
    let pages = seen.iter().filter(|request| request.target != "/robots.txt");
    let pages = pages.filter(|request| request.host() == host);
    let mut arrivals: Vec<_> = pages.map(|request| request.at).collect();
    arrivals.sort();
    arrivals
}

#[track_caller]
pub fn expect_gaps(arrivals: &[Instant], least: Duration) {
    for pair in arrivals.windows(2) {
        let gap = pair[1] - pair[0];
        assert!(gap >= least, "{gap:?} between two requests");
    }
}

/// Returns the path of the entry of a host in the admin API.
fn robots_path(host: &str) -> String {
    format!("/v1/robots/http%3A%2F%2F{host}")
}

/// Has a node fetch the robots.txt of a host again, as soon as it may.
pub fn refresh(proxy: &Wayleave, host: &str) {
    let path = robots_path(host) + "/refresh";
    eventually("the host is fetched again", || match proxy.admin_request("POST", &path).status {
        429 => false,
        status => {
            assert_eq!(status, 200, "{path}");
            true
        }
    });
}

pub fn is_up(proxy: &Wayleave) -> bool {
    proxy.metric("wayleave_fleet_state", &[("state", "up")]) == 1.0
}

#[test]
fn a_crawl_delay_holds_over_all_nodes_if_the_engine_loses_data() {
    let origin = Origin::start();
    let rules = "User-agent: *\nDisallow: /private\nCrawl-delay: 0.5\n";
    origin.site("slow.test").robots(rules);
    let mut server = Server::start(Product::Redis);
    let nodes = fleet(&origin, &server, 4);
    let send_all = |count: usize| {
        std::thread::scope(|scope| {
            for node in &nodes {
                for client in 0..count {
                    scope.spawn(move || {
                        let url = format!("http://slow.test/{client}");
                        assert_eq!(node.get(&url).status, 200);
                    });
                }
            }
        });
    };
    send_all(2);
    assert_eq!(arrivals(&origin, "slow.test").len(), 8);
    server.command(&["flushall"]);
    send_all(1);
    server.kill();
    server.revive();
    eventually("every node is back", || {
        nodes.iter().all(|node| node.get("http://slow.test/again").status == 200 && is_up(node))
    });
    send_all(1);
    expect_gaps(&arrivals(&origin, "slow.test"), Duration::from_millis(500));
}

#[test]
fn a_change_that_one_node_sees_counts_for_all() {
    let origin = Origin::start();
    origin.site("shop.test").robots("User-agent: *\nDisallow:\n");
    let server = Server::start(Product::Valkey);
    let nodes = fleet(&origin, &server, 3);
    for node in &nodes {
        assert_eq!(node.get("http://shop.test/private").status, 200);
    }
    origin.site("shop.test").robots(RULES);
    refresh(&nodes[0], "shop.test");
    for node in &nodes {
        eventually("it applies the new rules", || {
            node.get("http://shop.test/private").status == 403
        });
        assert_eq!(node.get("http://shop.test/robots.txt").text(), RULES);
    }
    assert_eq!(origin.robots_fetches("shop.test"), 2);
    let answer = nodes[1].admin_request("DELETE", &robots_path("shop.test"));
    assert!((200..300).contains(&answer.status), "{answer:?}");
    for node in &nodes {
        eventually("it has forgotten it", || {
            node.admin_get(&robots_path("shop.test")).status == 404
        });
    }
}

#[test]
fn a_retry_after_sent_to_one_node_holds_for_all() {
    let origin = Origin::start();
    let busy = "HTTP/1.1 429 Slow down\r\nRetry-After: 600\r\nContent-Length: 0\r\n\r\n";
    let busy = Reply::raw(busy, Step::Close);
    origin.site("busy.test").robots(RULES).page("/busy", busy);
    let server = Server::start(Product::Redis);
    let reject = |settings: Settings| settings.set("politeness.crawl_delay", "\"reject\"");
    let nodes = [(); 3].map(|()| node(&origin, &server, reject));
    for node in &nodes {
        assert_eq!(node.get("http://busy.test/").status, 200);
    }
    assert_eq!(nodes[0].get("http://busy.test/busy").status, 429);
    for node in &nodes {
        eventually("it sends the origin nothing", || {
            let refused = node.get("http://busy.test/");
            refused.status == 429 && refused.text().contains("origin-rests")
        });
    }
    let late = node(&origin, &server, reject);
    eventually("a node that joins later is informed", || {
        late.get("http://busy.test/").status == 429
    });
}

#[test]
fn whatever_lets_an_origin_rest_does_so_on_all_nodes() {
    let server = Server::start(Product::Redis);
    let reject = |settings: Settings| settings.set("politeness.crawl_delay", "\"reject\"");
    for (refusal, refused_clients, others_rest) in [
        (Reply::new(429).header("Retry-After", "200"), 1, true),
        (Reply::new(503).header("Retry-After", "200"), 2, true),
        (Reply::text("").header("RateLimit", "\"all\";r=0;t=200"), 1, true),
        (Reply::text("").header("RateLimit", "\"own\";r=0;t=200;pk=:YQ==:"), 1, false),
        (Reply::text("").header("RateLimit", "\"own\";r=0;t=200;pk=:YQ==:"), 2, true),
    ] {
        let origin = Origin::start();
        let site = origin.site("busy.test").robots(RULES);
        site.page("/busy1", refusal.clone()).page("/busy2", refusal.clone());
        let nodes = [(); 3].map(|()| node(&origin, &server, reject));
        let get = |node: &Wayleave, client: u8, path: &str| {
            let mut wire = Wire::connect_from([127, 0, 0, client], node.proxy);
            wire.send_get(&format!("http://busy.test{path}"));
            wire.response().status
        };
        for node in &nodes {
            assert_eq!(get(node, 3, "/"), 200);
        }
        for client in 1..=refused_clients {
            let path = format!("/busy{client}");
            let node = &nodes[usize::from(client) - 1];
            assert_eq!(get(node, client, &path), refusal.status);
            // The next node must know of this refusal before it gets one itself.
            eventually("the node after it knows", || {
                let next = &nodes[usize::from(client)];
                get(next, client, &path) == 429
            });
        }
        if others_rest {
            for node in &nodes {
                eventually("it sends the origin nothing", || get(node, 3, "/") == 429);
            }
            let before = origin.requests().len();
            for node in nodes.iter().cycle().take(30) {
                for client in 1..=4 {
                    assert_eq!(get(node, client, "/"), 429, "{refusal:?}");
                }
            }
            assert_eq!(origin.requests().len(), before, "{refusal:?}");
        } else {
            for node in &nodes {
                eventually("that client may send nothing", || get(node, 1, "/") == 429);
                assert_eq!(get(node, 3, "/"), 200, "others may");
            }
        }
        server.command(&["flushall"]);
    }
}

#[test]
fn the_limit_on_concurrency_holds_over_all_nodes() {
    let gate = Gate::closed();
    let origin = Origin::start();
    let late = Step::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate".to_vec());
    let late = Reply::raw("", Step::Wait(gate.clone())).step(late).step(Step::Close);
    origin.site("shop.test").robots(RULES).page("/late", late);
    let server = Server::start(Product::Redis);
    let two = |settings: Settings| {
        settings
            .set("politeness.crawl_delay", "\"wait\"")
            .set("politeness.max_concurrent_per_origin", "2")
    };
    let nodes = [(); 3].map(|()| node(&origin, &server, two));
    let mut wires: Vec<_> = nodes
        .iter()
        .map(|node| {
            let mut wire = node.connect();
            wire.send_get("http://shop.test/late");
            wire
        })
        .collect();
    eventually("two have arrived", || arrivals(&origin, "shop.test").len() == 2);
    for node in &nodes {
        eventually("its request was accepted", || {
            node.metric("wayleave_client_connections", &[]) == 1.0
        });
    }
    assert_eq!(arrivals(&origin, "shop.test").len(), 2);
    gate.open();
    for wire in &mut wires {
        assert_eq!(wire.response().status, 200);
    }
}

#[test]
fn without_the_engine_only_origins_with_a_delay_are_refused() {
    let origin = Origin::start();
    origin.site("free.test").robots(RULES);
    origin.site("new.test").robots(RULES);
    origin.site("slow.test").robots("User-agent: *\nDisallow: /private\nCrawl-delay: 0.1\n");
    let mut server = Server::start(Product::Redis);
    let nodes = fleet(&origin, &server, 2);
    for node in &nodes {
        for host in ["free.test", "slow.test"] {
            assert_eq!(node.get(&format!("http://{host}/")).status, 200);
        }
    }
    server.kill();
    for node in &nodes {
        eventually("the loss is noticed", || !is_up(node));
        assert_eq!(node.get("http://free.test/").status, 200);
        assert_eq!(node.get("http://free.test/private").status, 403);
        assert_eq!(node.get("http://new.test/").status, 200);
        let refused = node.get("http://slow.test/");
        assert_eq!(refused.status, 429, "{refused:?}");
        assert!(refused.text().contains("engine"), "{}", refused.text());
    }
    assert_eq!(origin.robots_fetches("new.test"), 2, "each for itself");
    server.revive();
    for node in &nodes {
        eventually("the engine is back", || is_up(node));
        eventually("it grants slots again", || node.get("http://slow.test/").status == 200);
    }
    let disallowed = |request: &String| request.ends_with("/private");
    assert!(!origin.seen().iter().any(disallowed));
}

#[test]
fn copies_stored_alone_are_shared_when_the_node_joins() {
    let origin = Origin::start();
    origin.site("shop.test").robots(RULES);
    let alone = Wayleave::start(&origin);
    assert_eq!(alone.get("http://shop.test/").status, 200);
    let (dir, settings) = alone.stop();
    let server = Server::start(Product::Redis);
    let first = Wayleave::start_in(dir, joined(settings, &server));
    assert_eq!(first.get("http://shop.test/").status, 200);
    eventually("the engine has the record", || {
        first.metric("wayleave_fleet_settled_total", &[("kind", "changed")])
            + first.metric("wayleave_fleet_settled_total", &[("kind", "same")])
            == 1.0
    });
    let second = node(&origin, &server, |settings| settings);
    assert_eq!(second.get("http://shop.test/").status, 200);
    assert_eq!(second.get("http://shop.test/private").status, 403);
    assert_eq!(origin.robots_fetches("shop.test"), 1);
}

#[test]
fn a_record_that_no_node_wrote_is_not_used() {
    let origin = Origin::start();
    origin.site("shop.test").robots(RULES);
    let server = Server::start(Product::Redis);
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let key = key_file(&dir);
    let keyed = |settings: Settings| settings.set("store.key_file", &key);
    let first = node(&origin, &server, keyed);
    assert_eq!(first.get("http://shop.test/private").status, 403);
    eventually("the engine has the record", || {
        first.metric("wayleave_fleet_settled_total", &[("kind", "changed")]) == 1.0
    });
    let second = node(&origin, &server, keyed);
    assert_eq!(second.get("http://shop.test/private").status, 403);
    assert_eq!(origin.robots_fetches("shop.test"), 1);
    // A node without the key writes that everything is allowed.
    let stranger = node(&origin, &server, |settings| settings);
    origin.site("shop.test").robots("User-agent: *\nDisallow:\n");
    refresh(&stranger, "shop.test");
    assert_eq!(stranger.get("http://shop.test/private").status, 200);
    for keyed in [&first, &second] {
        eventually("the record is found not to be signed by the fleet", || {
            keyed.metric("wayleave_fleet_errors_total", &[("kind", "corrupt")]) > 0.0
        });
        assert_eq!(keyed.get("http://shop.test/private").status, 403);
    }
}
