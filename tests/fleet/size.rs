//! Eight nodes at full size: `cargo test --release --test integration -- --ignored --nocapture --test-threads 1 fleet::size`, or
//! smaller, with all other tests. docs/fleet.md has the results.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::engines::{Product, Server};
use super::proxies::{arrivals, expect_gaps, is_up, joined, node, refresh};
use crate::harness::wayleave::Settings;
use crate::harness::{Origin, Wayleave, Wire, eventually};

const NODES: usize = 8;
const RULES: &str = "User-agent: *\nDisallow: /private\n";

fn nodes(origin: &Origin, server: &Server) -> Vec<Wayleave> {
    let waiting = |settings: Settings| {
        settings
            .set("politeness.crawl_delay", "\"wait\"")
            // Enough for a slot of every node at the longest delay: a request that times out loses its place.
            .set("politeness.max_wait", "\"50s\"")
    };
    let nodes = (0..NODES).map(|_| node(origin, server, waiting));
    nodes.collect()
}

fn slow(origin: &Origin, host: &str, delay: Duration) {
    let rules = format!("{RULES}Crawl-delay: {}\n", delay.as_secs_f64());
    origin.site(host).robots(&rules);
}

/// Sends a GET on a persistent connection.
fn get(wire: &mut Wire, url: &str) -> u16 {
    wire.send_get(url);
    wire.response().status
}

fn expect_nothing_disallowed(origin: &Origin) {
    let disallowed = |request: &String| request.contains("/private");
    assert_eq!(origin.seen().into_iter().find(disallowed), None);
}

/// Has `clients` of each node request all hosts at once, `times` each.
fn fetch_once(hosts: usize, clients: usize, times: usize) {
    let origin = Origin::start();
    let hosts: Vec<String> = (0..hosts).map(|n| format!("host{n}.test")).collect();
    for host in &hosts {
        origin.site(host).robots(RULES);
    }
    let server = Server::start(Product::Redis);
    let nodes = nodes(&origin, &server);
    let started = Instant::now();
    std::thread::scope(|scope| {
        for (at, node) in nodes.iter().cycle().take(NODES * clients).enumerate() {
            let hosts = &hosts;
            scope.spawn(move || {
                let mut wire = node.connect();
                let mut rotated = hosts.clone();
                rotated.rotate_left((at * 7) % hosts.len());
                for host in &rotated {
                    assert_eq!(get(&mut wire, &format!("http://{host}/{at}")), 200);
                }
                for host in rotated.iter().cycle().take((times - 1) * hosts.len()) {
                    assert_eq!(get(&mut wire, &format!("http://{host}/private")), 403);
                }
            });
        }
    });
    let requests = NODES * clients * times * hosts.len();
    let took = started.elapsed();
    let fetches: Vec<_> = hosts.iter().map(|host| origin.robots_fetches(host)).collect();
    let all: usize = fetches.iter().sum();
    println!("{requests} requests for {} origins in {took:?}: {all} fetches", hosts.len());
    assert!(fetches.iter().all(|fetches| *fetches == 1));
    expect_nothing_disallowed(&origin);
}

#[test]
fn a_robots_txt_is_fetched_once_for_many_requests() {
    fetch_once(50, 2, 4);
}

#[test]
#[ignore = "sends WAYLEAVE_FLEET_REQUESTS requests (2000 by default) to each of 500 origins"]
fn full_size_a_robots_txt_is_fetched_once() {
    let requests = std::env::var("WAYLEAVE_FLEET_REQUESTS").ok();
    let requests = requests.map_or(2000, |text| text.parse().expect("a number"));
    fetch_once(500, 5, requests / NODES / 5);
}

/// Returns the nodes whose requests reached a host, in order. Each path begins with the node's number.
fn senders(origin: &Origin, host: &str) -> Vec<usize> {
    let seen = origin.requests();
    let pages = seen.iter().filter(|request| request.host() == host);
    let nodes = pages.filter_map(|request| request.target.split('/').nth(1)?.parse().ok());
    nodes.collect()
}

/// Returns Jain's index: 1 if all nodes have equal shares, 1/n if one node has everything.
fn fairness(senders: &[usize]) -> f64 {
    let mut shares = [0.0; NODES];
    for sender in senders {
        shares[*sender] += 1.0_f64;
    }
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (NODES as f64 * squares)
}

/// Has `clients` of each node send requests to `host` until `is_over`.
fn send_until(
    (origin, host): (&Origin, &str),
    nodes: &[Wayleave],
    clients: usize,
    is_over: &(dyn Fn() -> bool + Sync),
) {
    std::thread::scope(|scope| {
        for (number, node) in nodes.iter().enumerate() {
            for _ in 0..clients {
                scope.spawn(move || {
                    while !is_over() {
                        let status = node.get(&format!("http://{host}/{number}")).status;
                        assert!([200, 429].contains(&status), "{status}");
                        if status == 429 {
                            // Too many requests wait, or the engine is unreachable: pauses as clients should.
                            std::thread::sleep(Duration::from_millis(500));
                        }
                    }
                });
            }
        }
    });
    assert!(!senders(origin, host).is_empty());
}

/// Uses `count` slots at a delay. Prints the rate, relative to the ideal one, and how fairly nodes got slots.
fn use_slots(delay: Duration, clients: usize, count: usize) {
    let origin = Origin::start();
    slow(&origin, "slow.test", delay);
    let server = Server::start(Product::Redis);
    let nodes = nodes(&origin, &server);
    send_until((&origin, "slow.test"), &nodes, clients, &|| {
        arrivals(&origin, "slow.test").len() >= count
    });
    let arrived = arrivals(&origin, "slow.test");
    expect_gaps(&arrived, delay);
    // After these, fewer clients compete.
    let contended = &arrived[..count];
    let took = contended[count - 1] - contended[0];
    let rate = delay.as_secs_f64() * (count - 1) as f64 / took.as_secs_f64();
    let gap = contended.windows(2).map(|pair| pair[1] - pair[0]).min();
    let senders = &senders(&origin, "slow.test")[..count];
    let fair = fairness(senders);
    println!(
        "delay {delay:?}: {count} slots, least gap {gap:?}, rate {rate:.3}, fairness {fair:.3}"
    );
    assert!(fair >= 0.95, "{senders:?}");
}

#[test]
fn slots_go_to_all_nodes_evenly() {
    use_slots(Duration::from_millis(200), 2, 24);
}

#[test]
#[ignore = "minutes"]
fn full_size_slots_go_to_all_nodes_evenly() {
    use_slots(Duration::from_millis(200), 50, 300);
    use_slots(Duration::from_secs(1), 50, 80);
}

#[test]
#[ignore = "minutes"]
fn full_size_rare_slots_go_to_all_nodes_evenly() {
    use_slots(Duration::from_secs(5), 50, 24);
}

/// Has the engine lose its data, or suspends it, at several times after the arrival of a request.
fn disturb(server: &mut Server, origin: &Origin) {
    for after in [0.05, 0.45, 3.0, 60.0] {
        wait_for_arrival(origin);
        std::thread::sleep(Duration::from_secs_f64(after));
        server.kill();
        server.revive();
        println!("killed {after} s after an arrival");
    }
    wait_for_arrival(origin);
    server.command(&["flushall"]);
    wait_for_arrival(origin);
    server.signal("STOP");
    // Longer than slots of the delay of 1 s.
    std::thread::sleep(Duration::from_secs(2));
    server.signal("CONT");
    wait_for_arrival(origin);
}

/// Waits for the next request.
fn wait_for_arrival(origin: &Origin) {
    let before = arrivals(origin, "slow.test").len();
    eventually("another arrives", || arrivals(origin, "slow.test").len() > before);
}

#[test]
#[ignore = "minutes"]
fn full_size_a_delay_holds_while_the_engine_fails() {
    let origin = Origin::start();
    let delay = Duration::from_secs(1);
    slow(&origin, "slow.test", delay);
    let mut server = Server::start(Product::Redis);
    let nodes = nodes(&origin, &server);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients = scope.spawn(|| {
            send_until((&origin, "slow.test"), &nodes, 2, &|| is_over.load(Ordering::Relaxed));
        });
        disturb(&mut server, &origin);
        is_over.store(true, Ordering::Relaxed);
        clients.join().expect("200 or 429");
    });
    let arrived = arrivals(&origin, "slow.test");
    let gap = arrived.windows(2).map(|pair| pair[1] - pair[0]).min();
    println!("{} arrived, least gap {gap:?}", arrived.len());
    expect_gaps(&arrived, delay);
}

/// Prints how long a change takes from the node that fetches it to all nodes.
#[test]
#[ignore = "a minute"]
fn full_size_a_change_reaches_all_nodes_soon() {
    let origin = Origin::start();
    let server = Server::start(Product::Redis);
    let nodes = nodes(&origin, &server);
    let mut took = Vec::new();
    for round in 0..60 {
        let host = format!("host{round}.test");
        origin.site(&host).robots("User-agent: *\nDisallow:\n");
        let private = format!("http://{host}/open");
        for node in &nodes {
            assert_eq!(node.get(&private).status, 200);
        }
        origin.site(&host).disallows("/");
        refresh(&nodes[0], &host);
        let learned = Instant::now();
        std::thread::scope(|scope| {
            let seeing = nodes.iter().map(|node| {
                let private = &private;
                scope.spawn(move || {
                    eventually("it applies the new rules", || node.get(private).status == 403);
                    learned.elapsed()
                })
            });
            let seeing: Vec<_> = seeing.collect();
            took.extend(seeing.into_iter().map(|seen| seen.join().expect("it is seen")));
        });
    }
    took.sort();
    let at = |part: usize| took[(took.len() - 1) * part / 1000];
    println!("seen after p50 {:?}, p99 {:?}, at most {:?}", at(500), at(990), at(1000));
}

#[test]
#[ignore = "a minute"]
fn full_size_a_minute_without_the_engine_is_not_noticed() {
    let origin = Origin::start();
    origin.site("free.test").robots(RULES);
    let mut server = Server::start(Product::Redis);
    let nodes = nodes(&origin, &server);
    for node in &nodes {
        assert_eq!(node.get("http://free.test/").status, 200);
    }
    server.kill();
    let lost = Instant::now();
    let sent = std::thread::scope(|scope| {
        let clients = nodes.iter().map(|node| {
            scope.spawn(move || {
                let mut wire = node.connect();
                let mut sent = 0;
                while lost.elapsed() < Duration::from_secs(60) {
                    assert_eq!(get(&mut wire, "http://free.test/"), 200);
                    assert_eq!(get(&mut wire, "http://free.test/private"), 403);
                    sent += 2;
                }
                sent
            })
        });
        let clients: Vec<_> = clients.collect();
        let sent =
            clients.into_iter().map(|client| client.join().expect("every status is expected"));
        sent.sum::<usize>()
    });
    println!("{sent} requests without the engine");
    assert!(nodes.iter().all(|node| !is_up(node)));
    server.revive();
    for node in &nodes {
        eventually("the engine is back", || is_up(node));
    }
    expect_nothing_disallowed(&origin);
}

/// Runs the program of another version, in `WAYLEAVE_FLEET_BEFORE`, beside this one.
#[test]
#[ignore = "needs another version of the program"]
fn full_size_two_versions_form_one_fleet() {
    let before = std::env::var_os("WAYLEAVE_FLEET_BEFORE").map(PathBuf::from);
    let before = before.expect("WAYLEAVE_FLEET_BEFORE names the program");
    let origin = Origin::start();
    let delay = Duration::from_millis(500);
    slow(&origin, "slow.test", delay);
    origin.site("free.test").robots("User-agent: *\nDisallow:\n");
    let server = Server::start(Product::Redis);
    let waiting =
        |settings: Settings| joined(settings, &server).set("politeness.crawl_delay", "\"wait\"");
    let nodes: Vec<_> = (0..NODES)
        .map(|number| match number % 2 {
            0 => Wayleave::start_with(&origin, waiting),
            _ => Wayleave::start_version_with(&before, &origin, waiting),
        })
        .collect();
    for node in &nodes {
        assert_eq!(node.get("http://free.test/private").status, 200);
    }
    send_until((&origin, "slow.test"), &nodes, 2, &|| arrivals(&origin, "slow.test").len() >= 32);
    expect_gaps(&arrivals(&origin, "slow.test"), delay);
    let fair = fairness(&senders(&origin, "slow.test")[..32]);
    println!("two versions: fairness {fair:.3}");
    origin.site("free.test").robots(RULES);
    refresh(&nodes[1], "free.test");
    for node in &nodes {
        eventually("it applies the new rules", || {
            node.get("http://free.test/private").status == 403
        });
    }
    assert_eq!(origin.robots_fetches("free.test"), 2);
    assert_eq!(origin.robots_fetches("slow.test"), 1);
}
