//! A node that is suspended while it holds a slot, or fetches a robots.txt, until another has taken over.

use std::time::Duration;

use super::engines::{Product, Server};
use super::proxies::{arrivals, expect_gaps, node, robots_fetches};
use super::relay::Relay;
use crate::harness::origin::reply::Step;
use crate::harness::wayleave::Settings;
use crate::harness::{Gate, Origin, Reply, Response, Wayleave, eventually};

const DELAY: Duration = Duration::from_millis(500);
/// With `DELAY`.
const SLOW: &str = "User-agent: *\nDisallow: /private\nCrawl-delay: 0.5\n";

/// The traffic that the test delays.
struct Held {
    origin: Origin,
    /// The fetch of a robots.txt.
    robots: Gate,
    /// The first node's way to `https://shaking.test`.
    shaking: Relay,
    server: Server,
    /// The first node's way to the engine.
    engine: Relay,
}

impl Held {
    fn new() -> Self {
        let origin = Origin::start();
        for host in ["shaking.test", "asked.test"] {
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
            shaking: Relay::to(origin.https.port()),
            engine: Relay::to(server.port),
            origin,
            server,
        }
    }

    /// One by the ways that the test holds up, and one beside them.
    fn nodes(&self) -> [Wayleave; 2] {
        let waiting = |settings: Settings| {
            settings
                .set("politeness.crawl_delay", "\"wait\"")
                .set("politeness.max_wait", "\"60s\"")
                // Its lease ends before the term of a turn does.
                .set("robots.fetch_timeout", "\"5s\"")
                // Nothing but the turn itself tells the first node that it stood still.
                .set("store.timeout", "\"60s\"")
                .set("upstream.connect_timeout", "\"60s\"")
        };
        let first = node(&self.origin, &self.server, |settings| {
            let engine = format!("\"redis://127.0.0.1:{}\"", self.engine.port);
            waiting(settings)
                .set("store.url", &engine)
                .resolve("shaking.test:443", self.shaking.address())
        });
        [first, node(&self.origin, &self.server, waiting)]
    }

    /// Has `node` begin everything that another may take over, and go on with nothing of it.
    fn begin(&self, node: &Wayleave) {
        eventually("the robots.txt is being fetched", || {
            self.origin.robots_fetches("fetched.test") == 1
        });
        eventually("the connection is being made", || self.shaking.accepted() == 1);
        assert_eq!(node.metric("wayleave_fleet_state", &[("state", "up")]), 1.0);
    }

    /// Returns the turns of a host in the engine: fields and values, one a line.
    fn turns(&self, host: &str) -> String {
        let key = self.server.tell(&["keys", &format!("*:t:*{host}*")]);
        self.server.tell(&["hgetall", key.trim()])
    }

    fn has_turn(&self, host: &str) -> bool {
        self.turns(host).contains("h:")
    }

    /// Whether the next request may go at once.
    fn has_rested(&self, host: &str) -> bool {
        let turns = self.turns(host);
        let next_at = turns.lines().skip_while(|line| *line != "n").nth(1);
        let next_at: u64 = next_at.and_then(|at| at.parse().ok()).expect("a time");
        let time = self.server.tell(&["time"]);
        let time: Vec<u64> = time.lines().filter_map(|part| part.parse().ok()).collect();
        next_at < time[0] * 1_000_000 + time[1]
    }
}

#[test]
fn a_node_that_stood_still_sends_nothing_that_another_took_over() {
    let held = Held::new();
    let [first, second] = held.nodes();
    // The first node knows the rules by the second's fetch, and has no connection to any of them.
    let known = ["https://shaking.test", "http://asked.test"];
    for url in known {
        assert_eq!(second.get(&format!("{url}/known")).status, 200);
        assert_eq!(first.get(&format!("{url}/private")).status, 403);
    }
    std::thread::scope(|scope| {
        let first = &first;
        let ask = |url: &'static str| scope.spawn(move || first.get(url));
        held.shaking.hold_answers();
        let shaking = ask("https://shaking.test/stopped");
        let fetched = ask("http://fetched.test/private");
        held.begin(first);
        eventually("it may go at once", || held.has_rested("asked.test"));
        held.engine.hold_answers();
        let asked = ask("http://asked.test/stopped");
        eventually("the engine has given the turn", || held.has_turn("asked.test"));
        first.signal("STOP");
        held.origin.site("fetched.test").robots(SLOW);
        for (url, status) in [
            ("http://fetched.test/private", 403),
            ("http://asked.test/taken-over", 200),
            ("https://shaking.test/taken-over", 200),
        ] {
            eventually(url, || second.get(url).status == status);
        }
        held.robots.open();
        held.shaking.release_answers();
        held.engine.release_answers();
        first.signal("CONT");
        expect_ended(&shaking.join().expect("an answer"));
        // It asks anew, and waits for its turn.
        assert_eq!(asked.join().expect("an answer").status, 200);
        drop(fetched.join());
    });
    eventually("it goes by what the other one fetched", || {
        first.get("http://fetched.test/private").status == 403
    });
    assert_eq!(held.origin.robots_fetches("fetched.test"), 2);
    eventually("it has turns again", || first.get("https://shaking.test/again").status == 200);
    let seen = held.origin.seen();
    let stopped = |line: &&String| line.ends_with("shaking.test/stopped");
    assert_eq!(seen.iter().find(stopped), None);
    for host in ["shaking.test", "asked.test"] {
        expect_gaps(&arrivals(&held.origin, host), DELAY);
    }
}

fn expect_ended(answer: &Response) {
    assert_eq!(answer.status, 429, "{answer:?}");
    assert!(answer.text().contains("stood still"), "{}", answer.text());
}
