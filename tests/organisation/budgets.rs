//! Daily budgets of crawlers, over restarts and over a fleet.

use serde_json::{Value, json};

use crate::fleet::engines::{Product, Server};
use crate::fleet::proxies::joined;
use crate::fleet::relay::Relay;
use crate::harness::crawler::{Crawler, crawler};
use crate::harness::tls::Authority;
use crate::harness::wayleave::Settings;
use crate::harness::{Origin, Reply, Request, Response, Wayleave, Wire, eventually};

/// Returns a crawler with a budget.
fn news(key: &str, budget: impl Into<Value>) -> Crawler {
    crawler("news", "NewsBot").set("owner", "news@bot.test").set(key, budget)
}

fn start(origin: &Origin, crawler: Crawler) -> Wayleave {
    Wayleave::start_with(origin, |settings| settings.with(crawler))
}

fn get(proxy: &Wayleave, url: &str) -> Response {
    proxy.get_as("NewsBot/1", url)
}

/// Checks a refusal until midnight.
#[track_caller]
fn expect_spent(answer: &Response, key: &str) {
    let problem = answer.expect_refusal(429, Some("Daily budget spent"), "http_request_denied");
    assert_eq!(
        (&problem["reason"], &problem["owner"]),
        (&"budget".into(), &"news@bot.test".into())
    );
    let details = problem["detail"].as_str().expect("a sentence");
    assert!(details.contains(key) && details.contains("T00:00:0"), "{details}");
    let seconds: u64 = answer.header("retry-after").expect("a time").parse().expect("seconds");
    assert!((1..=86_401).contains(&seconds), "{seconds}");
}

/// Returns what the API says of the crawler's budgets.
fn budgets(proxy: &Wayleave) -> Value {
    proxy.admin_get("/v1/crawlers").json()["crawlers"][0]["budgets"].clone()
}

/// Returns the requests for pages that reached the origin.
fn pages(origin: &Origin) -> usize {
    origin.requests().iter().filter(|request| request.target != "/robots.txt").count()
}

#[test]
fn requests_are_counted_over_restarts_and_crashes() {
    let origin = Origin::start();
    let proxy = start(&origin, news("requests_per_day", 4));
    for path in ["/a", "/b"] {
        assert_eq!(get(&proxy, &format!("http://shop.test{path}")).status, 200);
    }
    for _ in 0..5 {
        assert_eq!(get(&proxy, "http://shop.test/robots.txt").status, 404, "it is free");
    }
    assert_eq!(proxy.get_as("Other/1", "http://shop.test/c").status, 200, "of no crawler");
    let used = json!([{ "budget": "requests", "used": 2, "limit": 4 }]);
    assert_eq!(budgets(&proxy), used);
    let (dir, settings) = proxy.stop();
    let proxy = Wayleave::start_in(dir, settings);
    assert_eq!(budgets(&proxy), used);
    for path in ["/d", "/e"] {
        assert_eq!(get(&proxy, &format!("https://shop.test{path}")).status, 200);
    }
    expect_spent(&get(&proxy, "http://shop.test/f"), "requests_per_day");
    let labels = [("crawler", "news"), ("budget", "requests")];
    assert_eq!(proxy.metric("wayleave_budget_used", &labels), 4.0);
    assert_eq!(proxy.metric("wayleave_budget_limit", &labels), 4.0);
    let file = proxy.dir.path().join("state/budgets.json");
    eventually("the counts are written", || {
        let text = std::fs::read(&file).unwrap_or_default();
        let counts: Value = serde_json::from_slice(&text).unwrap_or_default();
        counts["crawlers"]["news"]["requests"] == 4
    });
    let (dir, settings) = proxy.kill();
    let proxy = Wayleave::start_in(dir, settings);
    expect_spent(&get(&proxy, "http://shop.test/g"), "requests_per_day");
    assert_eq!(pages(&origin), 5, "{:?}", origin.seen());
    // A reload raises it at once.
    let settings = proxy.settings.clone().without_tables().with(news("requests_per_day", 5));
    proxy.reload(&settings);
    assert_eq!(get(&proxy, "http://shop.test/h").status, 200);
    expect_spent(&get(&proxy, "http://shop.test/i"), "requests_per_day");
}

#[test]
fn a_response_that_runs_over_the_bytes_is_finished() {
    let origin = Origin::start();
    let long = Reply::new(200).body(vec![b'x'; 3000]);
    origin.site("shop.test").page("/long", long);
    let proxy = start(&origin, news("bytes_per_day", "2KiB"));
    assert_eq!(get(&proxy, "http://shop.test/long").body.len(), 3000);
    expect_spent(&get(&proxy, "http://shop.test/a"), "bytes_per_day");
    assert_eq!(budgets(&proxy), json!([{ "budget": "bytes", "used": 3000, "limit": 2048 }]));
    assert_eq!(pages(&origin), 1);
}

#[test]
fn known_origins_stay_reachable() {
    let origin = Origin::start();
    let proxy = start(&origin, news("new_origins_per_day", 2));
    for (host, is_known) in [("a", true), ("b", true), ("c", false), ("a", true), ("d", false)] {
        let answer = get(&proxy, &format!("http://{host}.test/"));
        if is_known {
            assert_eq!(answer.status, 200, "{host}");
        } else {
            expect_spent(&answer, "new_origins_per_day");
        }
    }
    assert_eq!(get(&proxy, "https://a.test/").status, 429, "another origin");
    assert_eq!(pages(&origin), 3);
}

#[test]
fn an_observed_budget_refuses_nothing() {
    let origin = Origin::start();
    let proxy = start(&origin, news("requests_per_day", 1).observed());
    for _ in 0..3 {
        assert_eq!(get(&proxy, "http://shop.test/").status, 200);
    }
    let observed = [("crawler", "news"), ("outcome", "observed"), ("reason", "budget")];
    eventually("they are counted", || proxy.metric("wayleave_requests_total", &observed) == 2.0);
    assert_eq!(budgets(&proxy), json!([{ "budget": "requests", "used": 3, "limit": 1 }]));
}

#[test]
fn tunnels_count_as_requests() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("https.bypass", "[\"shop.test\"]").with(news("requests_per_day", 1))
    });
    let connect = |url: &str| Request::new("CONNECT", url).agent("NewsBot/1");
    let open = || {
        let mut wire = proxy.connect();
        wire.send(connect("http://shop.test:443").bytes("shop.test:443"));
        wire
    };
    assert_eq!(open().response_head().status, 200);
    expect_spent(&open().response(), "requests_per_day");
}

/// Reloads the proxy while it connects, through `relay`, for a request that `send` sends. Returns the status.
#[track_caller]
fn status_after_reload(proxy: &Wayleave, relay: &Relay, send: impl FnOnce() -> Wire) -> u16 {
    let before = relay.accepted();
    relay.hold_answers();
    let mut wire = send();
    eventually("it connects", || relay.accepted() > before);
    assert_eq!(budgets(proxy)[0]["used"], 1, "it is counted before that");
    proxy.reload(&proxy.settings.clone().set("proxy.name", "\"other\""));
    relay.release_answers();
    wire.response_head().status
}

#[test]
fn a_reload_while_it_connects_counts_no_request_twice() {
    let origin = Origin::start();
    let relay = Relay::to(origin.https.port());
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.resolve("shop.test:443", relay.address()).with(news("requests_per_day", 9))
    });
    assert_eq!(get(&proxy, "https://shop.test/robots.txt").status, 404, "it is known");
    // The next request needs a connection of its own.
    relay.cut();
    relay.restore();
    let status = status_after_reload(&proxy, &relay, || {
        let mut wire = proxy.tunnel("shop.test:443");
        wire.send(Request::get("https://shop.test/a").agent("NewsBot/1").origin_form());
        wire
    });
    assert_eq!((status, pages(&origin)), (200, 1));
    assert_eq!(budgets(&proxy)[0]["used"], 1);
}

#[test]
fn a_reload_while_it_connects_counts_no_tunnel_twice() {
    let origin = Origin::start();
    let bypass = |settings: Settings| settings.set("https.bypass", "[\"shop.test\"]");
    let parent =
        Wayleave::start_with(&origin, |settings| bypass(settings).set("proxy.name", "\"parent\""));
    let relay = Relay::to(parent.proxy.port());
    let proxy = Wayleave::start_with(&origin, |settings| {
        let parent = format!("\"http://{}\"", relay.address());
        bypass(settings).set("upstream.proxy", &parent).with(news("requests_per_day", 9))
    });
    let status = status_after_reload(&proxy, &relay, || {
        let mut wire = proxy.connect();
        let connect = Request::new("CONNECT", "http://shop.test:443").agent("NewsBot/1");
        wire.send(connect.bytes("shop.test:443"));
        wire
    });
    assert_eq!((status, relay.accepted()), (200, 2), "it connects again");
    assert_eq!(budgets(&proxy)[0]["used"], 1);
}

#[test]
fn a_fleet_has_one_budget() {
    let server = Server::start(Product::Redis);
    let origin = Origin::start();
    let crawler = news("requests_per_day", 5).set("new_origins_per_day", 3);
    let start = || {
        Wayleave::start_with(&origin, |settings| joined(settings, &server).with(crawler.clone()))
    };
    let nodes = [start(), start()];
    let answers = (0..8).map(|number| get(&nodes[number % 2], "http://shop.test/").status);
    let answers: Vec<_> = answers.collect();
    assert_eq!(answers, [200, 200, 200, 200, 200, 429, 429, 429]);
    assert_eq!(pages(&origin), 5);
}

#[test]
fn bytes_of_tunnels_count_and_end_them() {
    let origin = Origin::start();
    origin.site("shop.test").page("/long", Reply::new(200).body(vec![b'x'; 300_000]));
    for (mode, gets_all) in [("enforce", false), ("observe", true)] {
        let proxy = Wayleave::start_with(&origin, |settings| {
            let crawler = news("bytes_per_day", "100KiB").set("mode", mode);
            settings.set("https.bypass", "[\"shop.test\"]").with(crawler)
        });
        let open = || {
            let mut wire = proxy.connect();
            let connect = Request::new("CONNECT", "http://shop.test:443").agent("NewsBot/1");
            wire.send(connect.bytes("shop.test:443"));
            wire
        };
        let mut wire = open();
        assert_eq!(wire.response_head().status, 200);
        let ca = &Authority::trusted().pem;
        let mut wire = wire.start_tls("shop.test", ca.as_bytes(), &[]).expect("TLS").wire;
        wire.send(Request::get("https://shop.test/long").origin_form());
        let answer = wire.try_response(false);
        let whole = answer.is_ok_and(|found| found.is_some_and(|it| it.body.len() == 300_000));
        assert_eq!(whole, gets_all, "{mode}");
        eventually("they are counted", || {
            budgets(&proxy)[0]["used"].as_u64().is_some_and(|used| used >= 100 * 1024)
        });
        // At most what was on its way at once.
        let used = budgets(&proxy)[0]["used"].as_u64();
        assert!(gets_all || used < Some(150 * 1024), "{used:?}");
        let mut wire = open();
        if gets_all {
            assert_eq!(wire.response_head().status, 200);
        } else {
            expect_spent(&wire.response(), "bytes_per_day");
        }
    }
}

#[test]
fn bytes_of_websockets_count_and_end_them() {
    let origin = Origin::start();
    origin.site("shop.test").page("/socket", Reply::websocket());
    let proxy = start(&origin, news("bytes_per_day", "2KiB"));
    let mut wire = proxy.connect();
    let upgrade = Request::get("http://shop.test/socket").agent("NewsBot/1").websocket();
    wire.send(upgrade.absolute_form());
    assert_eq!(wire.response_head().status, 101);
    for sent in 1..=4 {
        wire.send([b'x'; 512]);
        assert_eq!(wire.bytes(512), [b'x'; 512]);
        eventually("they are counted", || budgets(&proxy)[0]["used"] == sent * 512);
    }
    wire.expect_close();
    expect_spent(&get(&proxy, "http://shop.test/a"), "bytes_per_day");
}

#[test]
fn two_hundred_requests_at_once_do_not_overshoot() {
    let origin = Origin::start();
    let proxy = start(&origin, news("requests_per_day", 25));
    for _ in 0..20 {
        assert_eq!(get(&proxy, "http://shop.test/a").status, 200);
    }
    let passed = std::thread::scope(|scope| {
        let clients =
            (0..200).map(|_| scope.spawn(|| get(&proxy, "http://shop.test/b").status == 200));
        // All of them begin before the first is waited for.
        let clients: Vec<_> = clients.collect();
        clients.into_iter().filter_map(|client| client.join().ok()).filter(|passed| *passed).count()
    });
    assert_eq!((passed, pages(&origin)), (5, 25));
}

#[test]
fn a_robots_txt_that_the_origin_answers_is_free_as_well() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        let settings = settings.set("robots.answer", "\"origin\"");
        settings.with(news("requests_per_day", 1).set("new_origins_per_day", 1))
    });
    for host in ["a", "b", "c"] {
        let url = format!("http://{host}.test/robots.txt");
        assert_eq!(get(&proxy, &url).status, 404, "{host}");
        assert!(origin.count_gets(&url) >= 1);
    }
    assert_eq!(get(&proxy, "http://a.test/").status, 200);
    expect_spent(&get(&proxy, "http://a.test/b"), "requests_per_day");
    assert_eq!(get(&proxy, "http://d.test/robots.txt").status, 404);
    // Another path that looks like it is not.
    expect_spent(&get(&proxy, "http://a.test/robots.txt?b"), "requests_per_day");
}
