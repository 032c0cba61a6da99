//! Crawl delays and back-off over all connections and clients, measured at the origin.

use std::io::Write as _;
use std::time::{Duration, Instant};

use crate::harness::client::reset_when_dropped;
use crate::harness::crawler::crawler;
use crate::harness::origin::reply::Step;
use crate::harness::wayleave::Settings;
use crate::harness::{Gate, Origin, Reply, Request, Response, Wayleave, Wire, eventually};

/// Starts three sites: one with delays, one without, and one whose pages the tests add.
fn sites() -> Origin {
    let origin = Origin::start();
    origin.site("slow.test").robots(
        "User-agent: NewsBot\nDisallow: /shut\nCrawl-delay: 0.2\n\nUser-agent: ImageBot\nDisallow:\nRequest-rate: 1/3600\n",
    );
    origin.site("free.test");
    origin.site("busy.test");
    origin
}

fn start(origin: &Origin, crawl_delay: &str) -> Wayleave {
    Wayleave::start_with(origin, |settings: Settings| {
        settings.set("politeness.crawl_delay", &format!("{crawl_delay:?}"))
    })
}

/// Starts a proxy that answers requests for robots.txt from its copy, or has its origin answer them.
fn start_answering(origin: &Origin, crawl_delay: &str, answer: &str) -> Wayleave {
    Wayleave::start_with(origin, |settings| {
        settings
            .set("politeness.crawl_delay", &format!("{crawl_delay:?}"))
            .set("robots.answer", &format!("{answer:?}"))
    })
}

fn start_waiting(origin: &Origin, max_wait: &str) -> Wayleave {
    Wayleave::start_with(origin, |settings| {
        settings
            .set("politeness.crawl_delay", "\"wait\"")
            .set("politeness.max_wait", &format!("{max_wait:?}"))
    })
}

/// Returns delay, pages a day, requests and those that came too soon, as the API adds them up, and whether any has waited.
fn cost(proxy: &Wayleave, crawler: &str) -> Option<(f64, u64, u64, u64, bool)> {
    let found = proxy.admin_get("/v1/pace").json();
    let costs = found["costs"].as_array().expect("an array");
    let mut costs =
        costs.iter().filter(|it| it["crawler"] == crawler && it["origin"] == "http://slow.test");
    let cost = costs.next()?;
    let number = |name: &str| cost[name].as_u64().expect("a number");
    let seconds = |name: &str| cost[name].as_f64().expect("seconds");
    Some((
        seconds("delay_seconds"),
        number("pages_a_day"),
        number("requests"),
        number("too_soon"),
        seconds("waited_seconds") > 0.0,
    ))
}

#[test]
fn the_cost_of_a_pace_is_told() {
    let origin = sites();
    let proxy = start_waiting(&origin, "10s");
    for _ in 0..3 {
        assert_eq!(proxy.get_as("NewsBot/1", "http://slow.test/").status, 200);
        proxy.get_as("NewsBot/1", "http://free.test/");
    }
    let expected = Some((0.2, 432_000, 3, 0, true));
    eventually("three are added up", || cost(&proxy, "asserted") == expected);
    // A refusal by a rule has no delay, and takes no slot.
    assert_eq!(proxy.get_as("NewsBot/1", "http://slow.test/shut").status, 403);
    let pace = || proxy.admin_get("/v1/pace").json();
    eventually("the refusal is in memory", || pace()["decisions"] == 7);
    assert_eq!(cost(&proxy, "asserted"), expected);
    let decisions = proxy.admin_get("/v1/decisions").json();
    let oldest = decisions["decisions"][6]["at"].as_str().expect("a time");
    // To the millisecond.
    assert_eq!(pace()["since"], format!("{}Z", &oldest[..23]));
    let free = pace().to_string();
    assert!(!free.contains("free.test"), "{free}");
    // A crawler's own delay counts, too, and nobody waits.
    let rejecting = Wayleave::start_with(&origin, |settings| {
        settings.with(crawler("images", "ImageBot").set("min_delay", "10m"))
    });
    assert_eq!(rejecting.get_as("ImageBot/1", "http://slow.test/").status, 200);
    assert_eq!(rejecting.get_as("ImageBot/1", "http://slow.test/").status, 429);
    let expected = Some((600.0, 144, 1, 1, false));
    eventually("both are added up", || cost(&rejecting, "images") == expected);
}

#[track_caller]
fn expect_429(answer: &Response, reason: &str) -> u64 {
    let problem = answer.expect_refusal(429, Some("Crawl delay"), "http_request_denied");
    assert_eq!(problem["reason"], reason);
    problem["retry_after"].as_u64().expect("a number of seconds")
}

/// Returns the arrival times of requests for pages of a host.
fn arrivals(origin: &Origin, host: &str) -> Vec<Instant> {
    let by = |scheme| arrivals_by(origin, scheme, host);
    [by("http"), by("https")].concat()
}

/// Returns the arrival times of requests for pages of an origin.
fn arrivals_by(origin: &Origin, scheme: &str, host: &str) -> Vec<Instant> {
    let requests = origin.requests();
    let pages = requests.iter().filter(|request| {
        let is_page = request.target != "/robots.txt";
        is_page && request.host() == host && request.scheme == scheme
    });
    pages.map(|request| request.at).collect()
}

#[test]
fn eight_clients_together_obey_the_delay() {
    let origin = sites();
    let proxy = start(&origin, "wait");
    std::thread::scope(|scope| {
        for client in 0..8 {
            let proxy = &proxy;
            scope.spawn(move || {
                for scheme in ["http", "https"] {
                    let url = format!("{scheme}://slow.test/{client}");
                    assert_eq!(proxy.get_as("NewsBot/1", &url).status, 200);
                    assert_eq!(proxy.get_as("NewsBot/1", "http://free.test/").status, 200);
                }
            });
        }
        scope.spawn(|| {
            let client = proxy.http2("slow.test:443");
            let urls = (0..4).map(|page| Request::get(&format!("https://slow.test/h{page}")));
            let requests: Vec<_> = urls.map(|request| request.agent("NewsBot/1")).collect();
            let answers = client.exchange_all(&requests);
            assert!(answers.iter().all(|answer| answer.status == 200));
        });
    });
    for (scheme, count) in [("http", 8), ("https", 12)] {
        let arrivals = arrivals_by(&origin, scheme, "slow.test");
        assert_eq!(arrivals.len(), count);
        for pair in arrivals.windows(2) {
            let gap = pair[1] - pair[0];
            assert!(gap >= Duration::from_millis(200), "{gap:?}");
        }
    }
    assert!(proxy.metric("wayleave_crawl_delay_wait_duration_seconds_count", &[]) >= 15.0);
}

#[test]
fn a_request_that_ends_here_takes_no_slot() {
    let origin = sites();
    let proxy = start(&origin, "reject");
    let last_hop = Request::new("OPTIONS", "http://slow.test/a").header("Max-Forwards", "0");
    let mut wire = proxy.connect();
    wire.send(last_hop.agent("ImageBot/1").absolute_form());
    assert_eq!(wire.response().status, 200);
    assert_eq!(proxy.get_as("ImageBot/1", "http://slow.test/a").status, 200);
    assert_eq!(arrivals(&origin, "slow.test").len(), 1);
}

#[test]
fn answers_to_requests_under_way_do_not_end_a_rest() {
    let origin = sites();
    let gate = Gate::closed();
    let answer = Step::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec());
    let held = Reply::raw("", Step::Wait(gate.clone())).step(answer).step(Step::Close);
    let later = Reply::new(429).header("Retry-After", "120");
    origin.site("busy.test").page("/held", held).page("/limited", later);
    let proxy = start(&origin, "reject");
    std::thread::scope(|scope| {
        let under_way: Vec<_> =
            (0..7).map(|_| scope.spawn(|| proxy.get("http://busy.test/held").status)).collect();
        origin.wait_for("seven requests are under way", |arrived| {
            arrived.requests.iter().filter(|request| request.target == "/held").count() == 7
        });
        assert_eq!(proxy.get("http://busy.test/limited").status, 429);
        gate.open();
        for request in under_way {
            assert_eq!(request.join().expect("no panic"), 200);
        }
    });
    for _ in 0..20 {
        let retry_after = expect_429(&proxy.get("http://busy.test/held"), "origin-rests");
        assert!((100..=120).contains(&retry_after), "{retry_after}");
    }
    assert_eq!(arrivals(&origin, "busy.test").len(), 8);
}

#[test]
fn requests_before_the_delay_has_passed_get_a_retry_after() {
    let origin = sites();
    let proxy = start(&origin, "reject");
    assert_eq!(proxy.get_as("ImageBot/1", "http://slow.test/a").status, 200);
    let too_soon = proxy.get_as("imagebot/2", "http://slow.test/b");
    let retry_after = expect_429(&too_soon, "crawl-delay");
    assert!((200..=300).contains(&retry_after), "max_delay bounds it: {retry_after}");
    assert_eq!(too_soon.json()["robots_url"], "http://slow.test/robots.txt");
    assert_eq!(proxy.get_as("Other/1", "http://slow.test/c").status, 200);
    assert_eq!(proxy.get_as("ImageBot/1", "https://slow.test/d").status, 200);
    assert_eq!(proxy.get_as("ImageBot/1", "http://free.test/e").status, 200);
    assert_eq!(arrivals(&origin, "slow.test").len(), 3);
}

#[test]
fn endless_delays_are_limited_to_max_delay() {
    let origin = Origin::start();
    for (host, value) in
        [("a.test", "inf"), ("b.test", "1e308"), ("c.test", "18446744073709551616")]
    {
        let robots = format!("User-agent: *\nDisallow:\nCrawl-delay: {value}\n");
        origin.site(host).robots(&robots);
    }
    let proxy = start(&origin, "reject");
    for host in ["a.test", "b.test", "c.test"] {
        let url = format!("http://{host}/page");
        assert_eq!(proxy.get_as("ImageBot/1", &url).status, 200);
        let retry_after = expect_429(&proxy.get_as("ImageBot/1", &url), "crawl-delay");
        assert!((200..=300).contains(&retry_after), "{retry_after} {host}");
    }
}

#[test]
fn requests_for_robots_txt_take_no_slot() {
    for answer in ["copy", "origin"] {
        let origin = sites();
        let proxy = start_answering(&origin, "reject", answer);
        for url in ["robots.txt", "a", "robots.txt"].map(|path| format!("http://slow.test/{path}"))
        {
            assert_eq!(proxy.get_as("ImageBot/1", &url).status, 200, "{url}");
        }
        expect_429(&proxy.get_as("ImageBot/1", "http://slow.test/b"), "crawl-delay");
    }
}

#[test]
fn a_delay_can_be_ignored_or_set_for_a_crawler() {
    let origin = sites();
    let ignoring = start(&origin, "ignore");
    for _ in 0..2 {
        let answer = ignoring.get_as("ImageBot/1", "http://slow.test/a");
        assert_eq!(answer.status, 200);
    }
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .set("politeness.default_delay", "\"60s\"")
            .with(crawler("news", "NewsBot").set("default_delay", "0s"))
            .with(crawler("slow", "SlowBot").set("default_delay", "100s"))
    });
    for (agent, delay) in [("NewsBot/1", None), ("SlowBot/1", Some(100)), ("Other/1", Some(60))] {
        assert_eq!(proxy.get_as(agent, "http://free.test/a").status, 200);
        let again = proxy.get_as(agent, "http://free.test/b");
        match delay {
            None => assert_eq!(again.status, 200),
            Some(delay) => {
                let retry_after = expect_429(&again, "crawl-delay");
                assert!((delay / 2..=delay).contains(&retry_after), "{retry_after}");
                let field = again.header("retry-after").map(str::to_owned);
                assert_eq!(field, Some(retry_after.to_string()));
            }
        }
    }
}

/// Sets a minimum for all crawlers, and for two of them their own.
fn with_min_delays(settings: Settings) -> Settings {
    settings
        .set("politeness.min_delay", "\"20s\"")
        .with(crawler("news", "NewsBot").set("min_delay", "1s"))
        .with(crawler("slow", "SlowBot").set("min_delay", "100s"))
}

/// Starts sites that ask for 0.1 s, nothing and 60 s.
fn sites_for_min_delay() -> Origin {
    let origin = Origin::start();
    origin.site("fast.test").robots("User-agent: *\nDisallow:\nCrawl-delay: 0.1\n");
    origin.site("free.test");
    origin.site("slow.test").robots("User-agent: *\nDisallow:\nCrawl-delay: 60\n");
    origin
}

#[test]
fn no_robots_txt_makes_a_crawler_faster_than_min_delay() {
    let origin = sites_for_min_delay();
    for crawl_delay in ["reject", "ignore"] {
        let proxy = Wayleave::start_with(&origin, |settings| {
            let crawl_delay = format!("{crawl_delay:?}");
            with_min_delays(settings).set("politeness.crawl_delay", &crawl_delay)
        });
        let asked = if crawl_delay == "ignore" { 0 } else { 60 };
        for (agent, floor) in [("NewsBot/1", 20), ("SlowBot/1", 100), ("Other/1", 20)] {
            for (host, asked) in [("fast.test", 0), ("free.test", 0), ("slow.test", asked)] {
                assert_eq!(proxy.get_as(agent, &format!("http://{host}/a")).status, 200);
                let answer = proxy.get_as(agent, &format!("http://{host}/b"));
                let (retry_after, delay) = (expect_429(&answer, "crawl-delay"), floor.max(asked));
                let expected = delay / 2..=delay;
                assert!(expected.contains(&retry_after), "{retry_after} {agent} {host}");
                // Only a robots.txt that asks for as much is named.
                let robots_url = answer.json().get("robots_url").is_some();
                assert_eq!(robots_url, asked >= floor, "{agent} {host}");
            }
        }
    }
}

#[test]
fn requests_wait_for_min_delay() {
    let origin = sites_for_min_delay();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .set("politeness.crawl_delay", "\"wait\"")
            .set("politeness.min_delay", "\"200ms\"")
            .with(crawler("slow", "SlowBot").set("min_delay", "400ms"))
    });
    for (agent, host, least) in [
        ("Other/1", "fast.test", 200),
        ("Other/1", "free.test", 200),
        ("SlowBot/1", "fast.test", 400),
    ] {
        let before = arrivals(&origin, host).len();
        for _ in 0..3 {
            assert_eq!(proxy.get_as(agent, &format!("http://{host}/a")).status, 200);
        }
        for pair in arrivals(&origin, host)[before..].windows(2) {
            let gap = pair[1] - pair[0];
            assert!(gap >= Duration::from_millis(least), "{gap:?} {agent} {host}");
        }
    }
}

#[test]
fn min_delay_is_only_observed_in_observe_mode() {
    let origin = sites_for_min_delay();
    let proxy = Wayleave::start_with(&origin, |settings| {
        with_min_delays(settings).set("proxy.mode", "\"observe\"")
    });
    for _ in 0..3 {
        assert_eq!(proxy.get_as("NewsBot/1", "http://fast.test/a").status, 200);
    }
    eventually("two would have been refused", || {
        let observed = [("outcome", "observed"), ("reason", "crawl-delay")];
        proxy.metric("wayleave_requests_total", &observed) == 2.0
    });
}

#[test]
fn a_reload_sets_min_delay() {
    let origin = sites_for_min_delay();
    let proxy = Wayleave::start(&origin);
    for _ in 0..2 {
        assert_eq!(proxy.get_as("Other/1", "http://free.test/a").status, 200);
    }
    proxy.reload(&with_min_delays(proxy.settings.clone()));
    assert_eq!(proxy.get_as("Other/1", "http://free.test/a").status, 200);
    expect_429(&proxy.get_as("Other/1", "http://free.test/a"), "crawl-delay");
}

#[test]
fn a_wait_longer_than_max_wait_is_refused_at_once() {
    let origin = sites();
    let proxy = start_waiting(&origin, "4m");
    assert_eq!(proxy.get_as("ImageBot/1", "http://slow.test/a").status, 200);
    expect_429(&proxy.get_as("ImageBot/1", "http://slow.test/b"), "crawl-delay");
}

#[test]
fn a_client_that_resets_its_connection_leaves_the_queue() {
    let origin = sites();
    let proxy = start_waiting(&origin, "1h");
    assert_eq!(proxy.get_as("ImageBot/1", "http://slow.test/a").status, 200);
    let url = "http://slow.test/b";
    let mut waiting = std::net::TcpStream::connect(proxy.proxy).expect("it listens");
    let request = Request::get(url).agent("ImageBot/1").absolute_form();
    waiting.write_all(&request).expect("it can be sent");
    let open = || proxy.metric("wayleave_client_connections", &[]);
    eventually("it waits", || open() == 1.0);
    reset_when_dropped(&waiting);
    drop(waiting);
    eventually("its connection is closed", || open() == 0.0);
    assert_eq!(arrivals(&origin, "slow.test").len(), 1);
}

#[test]
fn robots_txt_may_be_requested_while_an_origin_rests() {
    let origin = sites();
    origin.site("busy.test").page("/a", Reply::new(503));
    for crawl_delay in ["reject", "wait"] {
        let proxy = start_answering(&origin, crawl_delay, "origin");
        for _ in 0..2 {
            assert_eq!(proxy.get_as("NewsBot/1", "http://busy.test/a").status, 503);
        }
        let before = origin.requests().len();
        assert_eq!(proxy.get_as("NewsBot/1", "http://busy.test/robots.txt").status, 404);
        assert_eq!(origin.requests().len(), before + 1, "{crawl_delay}");
    }
}

#[test]
fn a_retry_after_applies_to_every_crawler() {
    let origin = sites();
    let limited = Reply::new(429).header("Retry-After", "100");
    origin.site("busy.test").page("/a", limited);
    let proxy = start(&origin, "reject");
    assert_eq!(proxy.get_as("NewsBot/1", "http://busy.test/a").status, 429);
    for agent in ["NewsBot/1", "ImageBot/1"] {
        let answer = proxy.get_as(agent, "http://busy.test/b");
        let retry_after = expect_429(&answer, "origin-rests");
        assert!((51..=100).contains(&retry_after), "{retry_after}");
        assert_eq!(proxy.get_as(agent, "http://free.test/b").status, 200);
    }
    assert_eq!(arrivals(&origin, "busy.test").len(), 1);
    let ignoring = start(&origin, "ignore");
    for _ in 0..2 {
        assert_eq!(ignoring.get_as("NewsBot/1", "http://busy.test/a").status, 429);
    }
    assert_eq!(arrivals(&origin, "busy.test").len(), 3);
}

#[test]
fn concurrent_requests_are_limited() {
    let origin = sites();
    let gate = Gate::closed();
    let slow = Reply::new(200).body("a").step(Step::Wait(gate.clone()));
    origin.site("busy.test").page("/slow", slow.body("b"));
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("politeness.max_concurrent_per_origin", "1")
    });
    let mut wire = proxy.connect();
    wire.send_get("http://busy.test/slow");
    wire.response_head();
    expect_429(&proxy.get_as("NewsBot/1", "http://busy.test/b"), "concurrency");
    assert_eq!(proxy.get_as("NewsBot/1", "http://free.test/b").status, 200);
    gate.open();
    eventually("the slot is free again", || {
        proxy.get_as("NewsBot/1", "http://busy.test/b").status == 200
    });
}

#[test]
fn delays_are_observed_without_waiting() {
    let origin = sites();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .set("politeness.crawl_delay", "\"wait\"")
            // A request that waited would exceed the deadline of the tests' client.
            .set("politeness.max_delay", "\"1h\"")
            .set("politeness.max_wait", "\"24h\"")
            .set("proxy.mode", "\"observe\"")
    });
    for _ in 0..3 {
        assert_eq!(proxy.get_as("ImageBot/1", "http://slow.test/a").status, 200);
    }
    // Enforcement would only hold two of them.
    eventually("all are forwarded", || {
        proxy.metric("wayleave_requests_total", &[("outcome", "forwarded")]) == 3.0
    });
    let observed = [("outcome", "observed"), ("reason", "crawl-delay")];
    assert_eq!(proxy.metric("wayleave_requests_total", &observed), 0.0);
    let found = proxy.admin_get("/v1/overview?since=1h").json();
    let counts = ["would_be_refused", "would_wait"].map(|name| found[name].as_u64());
    assert_eq!(counts, [Some(0), Some(2)], "{found}");
    let of_crawler = &found["by_crawler"][0];
    assert_eq!(of_crawler["would_wait"], 2, "{found}");
    let costs = proxy.admin_get("/v1/pace").json();
    let cost = &costs["costs"][0];
    for (name, row) in [("the overview", of_crawler), ("the cost of the pace", cost)] {
        let seconds = row["would_wait_seconds"].as_f64().expect("seconds");
        assert!(seconds > 0.0, "{name}: {row}");
        assert_eq!(row["waited_seconds"], 0.0, "{name}: {row}");
    }
}

#[test]
fn a_delay_beyond_max_wait_is_observed_as_a_refusal() {
    let origin = sites();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .set("politeness.crawl_delay", "\"wait\"")
            .set("politeness.max_delay", "\"1h\"")
            .set("politeness.max_wait", "\"1s\"")
            .set("proxy.mode", "\"observe\"")
    });
    for _ in 0..3 {
        assert_eq!(proxy.get_as("ImageBot/1", "http://slow.test/a").status, 200);
    }
    eventually("two would have been refused", || {
        let observed = [("outcome", "observed"), ("reason", "crawl-delay")];
        proxy.metric("wayleave_requests_total", &observed) == 2.0
    });
}

#[test]
fn exceptions_do_not_lift_crawl_delays() {
    let origin = Origin::start();
    let robots = "User-agent: *\nCrawl-delay: 100\nDisallow: /\n";
    origin.site("shop.test").robots(robots);
    let rule = "[[rule]]\naction = \"allow\"\nhosts = [\"shop.test\"]\nowner = \"us\"\nreason = \"test\"\nexpires = 2099-01-01\n";
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("politeness.crawl_delay", "\"reject\"").table(rule)
    });
    // After this the robots.txt is known.
    assert_eq!(proxy.get("http://shop.test/robots.txt").status, 200);
    assert_eq!(proxy.get("http://shop.test/a").status, 200);
    expect_429(&proxy.get("http://shop.test/b"), "crawl-delay");
}

/// Returns the response of a page that is temporarily unavailable.
fn down() -> Reply {
    Reply::new(503).header("Retry-After", "200")
}

/// Sends a GET from the client's own address, and returns the status.
fn status_for(proxy: &Wayleave, client: u8, path: &str) -> u16 {
    let url = format!("http://busy.test{path}");
    let mut wire = Wire::connect_from([127, 0, 0, client], proxy.proxy);
    wire.send_get(&url);
    let answer = wire.response();
    if answer.status == 429 {
        expect_429(&answer, "origin-rests");
    }
    answer.status
}

#[test]
fn a_503_rests_the_page_and_a_second_rests_the_client() {
    let origin = sites();
    let site = origin.site("busy.test");
    site.page("/down?1", down()).page("/down?2", down());
    let proxy = start(&origin, "reject");
    assert_eq!(status_for(&proxy, 1, "/down?1"), 503);
    assert_eq!(status_for(&proxy, 1, "/down?1"), 429, "the page rests");
    assert_eq!(status_for(&proxy, 2, "/down?1"), 429, "for every client");
    assert_eq!(status_for(&proxy, 1, "/a"), 200, "other pages do not");
    assert_eq!(status_for(&proxy, 1, "/down?2"), 503);
    assert_eq!(status_for(&proxy, 1, "/b"), 429, "this client rests");
    assert_eq!(status_for(&proxy, 2, "/b"), 200, "the other does not");
    assert_eq!(arrivals(&origin, "busy.test").len(), 4);
}

#[test]
fn a_503_to_two_clients_or_for_robots_txt_rests_the_origin() {
    let origin = sites();
    let site = origin.site("busy.test");
    site.page("/down?1", down()).page("/down?2", down());
    let proxy = start(&origin, "reject");
    assert_eq!(status_for(&proxy, 1, "/down?1"), 503);
    assert_eq!(status_for(&proxy, 2, "/down?2"), 503);
    assert_eq!(status_for(&proxy, 3, "/a"), 429, "the origin rests");
    let proxy = start_answering(&origin, "reject", "origin");
    assert_eq!(status_for(&proxy, 1, "/a"), 200);
    origin.site("busy.test").robots_reply(down());
    assert_eq!(status_for(&proxy, 1, "/robots.txt"), 503);
    assert_eq!(status_for(&proxy, 2, "/a"), 429);
}
