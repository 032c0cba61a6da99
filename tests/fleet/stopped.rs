//! A node that is suspended while it holds a slot, or fetches a robots.txt, until another has taken over.

use std::time::Duration;

use super::engines::{Product, Server};
use super::proxies::{arrivals, expect_gaps, node};
use super::relay::Relay;
use crate::harness::origin::reply::Step;
use crate::harness::wayleave::Settings;
use crate::harness::{Gate, Origin, Reply, Response, Wayleave, eventually, runtime};
use crate::requests::upstream::parent::{Scripted, behind};

const DELAY: Duration = Duration::from_millis(500);
/// With `DELAY`.
const SLOW: &str = "User-agent: *\nDisallow: /private\nCrawl-delay: 0.5\n";

/// Sets that requests wait for their slots, and connections for their origins.
fn waiting(settings: Settings) -> Settings {
    settings
        .set("politeness.crawl_delay", "\"wait\"")
        .set("politeness.max_wait", "\"60s\"")
        // The lease of a fetch ends before that of a slot.
        .set("robots.fetch_timeout", "\"5s\"")
        // The first node notices only by its slot that it was suspended.
        .set("store.timeout", "\"60s\"")
        .set("upstream.connect_timeout", "\"60s\"")
}

/// The traffic that the test delays.
struct HeldTraffic {
    origin: Origin,
    /// The gate of the robots.txt of `fetched.test`.
    robots: Gate,
    /// The first node's connection to `https://handshake.test`.
    handshake: Relay,
    server: Server,
    /// The first node's connection to the engine.
    engine: Relay,
}

impl HeldTraffic {
    fn start() -> Self {
        let origin = Origin::start();
        for host in ["handshake.test", "waiting.test"] {
            origin.site(host).robots(SLOW);
        }
        let robots = Gate::closed();
        let hangs = Reply::text("User-agent: *\nDisallow:\n");
        let hangs =
            Reply { steps: [vec![Step::Wait(robots.clone())], hangs.steps].concat(), ..hangs };
        origin.site("fetched.test").robots_reply(hangs);
        let server = Server::start(Product::Redis);
        Self {
            robots,
            handshake: Relay::to(origin.https.port()),
            engine: Relay::to(server.port),
            origin,
            server,
        }
    }

    /// Starts a node whose traffic the test delays, and one without delays.
    fn nodes(&self) -> [Wayleave; 2] {
        let first = node(&self.origin, &self.server, |settings| {
            let engine = format!("\"redis://127.0.0.1:{}\"", self.engine.port);
            waiting(settings)
                .set("store.url", &engine)
                .resolve("handshake.test:443", self.handshake.address())
        });
        [first, node(&self.origin, &self.server, waiting)]
    }

    /// Waits until `node` has begun what another may take over.
    fn wait_until_begun(&self, node: &Wayleave) {
        eventually("the robots.txt is being fetched", || {
            self.origin.robots_fetches("fetched.test") == 1
        });
        eventually("the connection is being made", || self.handshake.accepted() == 1);
        assert_eq!(node.metric("wayleave_fleet_state", &[("state", "up")]), 1.0);
    }

    /// Returns the slots of a host in the engine: fields and values, one a line.
    fn slots(&self, host: &str) -> String {
        let key = self.server.command(&["keys", &format!("*:t:*{host}*")]);
        self.server.command(&["hgetall", key.trim()])
    }

    fn has_slot(&self, host: &str) -> bool {
        self.slots(host).contains("h:")
    }

    /// Whether the next request may be sent at once.
    fn has_rested(&self, host: &str) -> bool {
        let slots = self.slots(host);
        let next_at = slots.lines().skip_while(|line| *line != "n").nth(1);
        let next_at: u64 = next_at.and_then(|at| at.parse().ok()).expect("a time");
        let time = self.server.command(&["time"]);
        let time: Vec<u64> = time.lines().filter_map(|part| part.parse().ok()).collect();
        next_at < time[0] * 1_000_000 + time[1]
    }
}

#[test]
fn a_suspended_node_sends_nothing_that_another_took_over() {
    let held = HeldTraffic::start();
    let [first, second] = held.nodes();
    // The first node has the rules from the second's fetch, and no connection to either origin.
    let known = ["https://handshake.test", "http://waiting.test"];
    for url in known {
        assert_eq!(second.get(&format!("{url}/known")).status, 200);
        assert_eq!(first.get(&format!("{url}/private")).status, 403);
    }
    std::thread::scope(|scope| {
        let first = &first;
        let send = |url: &'static str| scope.spawn(move || first.get(url));
        held.handshake.hold_answers();
        let handshake = send("https://handshake.test/stopped");
        let fetched = send("http://fetched.test/private");
        held.wait_until_begun(first);
        eventually("a request may be sent at once", || held.has_rested("waiting.test"));
        held.engine.hold_answers();
        let waiting = send("http://waiting.test/stopped");
        eventually("the engine has granted the slot", || held.has_slot("waiting.test"));
        first.signal("STOP");
        held.origin.site("fetched.test").robots(SLOW);
        for (url, status) in [
            ("http://fetched.test/private", 403),
            ("http://waiting.test/taken-over", 200),
            ("https://handshake.test/taken-over", 200),
        ] {
            eventually(url, || second.get(url).status == status);
        }
        held.robots.open();
        held.handshake.release_answers();
        held.engine.release_answers();
        first.signal("CONT");
        expect_ended(&handshake.join().expect("a response"));
        // It requests a slot again, and waits for it.
        assert_eq!(waiting.join().expect("a response").status, 200);
        drop(fetched.join());
    });
    eventually("it applies what the other one fetched", || {
        first.get("http://fetched.test/private").status == 403
    });
    assert_eq!(held.origin.robots_fetches("fetched.test"), 2);
    eventually("it gets slots again", || first.get("https://handshake.test/again").status == 200);
    let seen = held.origin.seen();
    let stopped = |line: &&String| line.ends_with("handshake.test/stopped");
    assert_eq!(seen.iter().find(stopped), None);
    for host in ["handshake.test", "waiting.test"] {
        expect_gaps(&arrivals(&held.origin, host), DELAY);
    }
}

#[test]
fn a_tunnel_does_not_open_if_its_node_was_suspended_while_it_connected() {
    let origin = Origin::start();
    origin.site("tunnel.test").robots("User-agent: *\nDisallow:\nCrawl-delay: 0.5\n");
    let server = Server::start(Product::Redis);
    let gate = Gate::closed();
    let opened = gate.clone();
    let parent = Scripted::start(move |_| {
        runtime().block_on(opened.passed());
        b"HTTP/1.1 200 OK\r\n\r\n".to_vec()
    });
    let second = node(&origin, &server, waiting);
    // The first node has the rules from the second's fetch.
    assert_eq!(second.get("https://tunnel.test/known").status, 200);
    let first = node(&origin, &server, |settings| {
        let settings = waiting(settings).set("https.mode", "\"tunnel\"");
        behind(&format!("http://{}", parent.address), settings)
    });
    let mut wire = first.connect();
    wire.send_connect("tunnel.test:443", "User-Agent: ExampleBot/1.0\r\n");
    eventually("the node connects", || {
        parent.request_lines() == ["CONNECT tunnel.test:443 HTTP/1.1"]
    });
    first.signal("STOP");
    eventually("another node takes the slot", || {
        second.get("https://tunnel.test/taken-over").status == 200
    });
    gate.open();
    first.signal("CONT");
    expect_ended(&wire.response());
}

fn expect_ended(answer: &Response) {
    assert_eq!(answer.status, 429, "{answer:?}");
    assert!(answer.text().contains("of the fleet hung"), "{}", answer.text());
}
