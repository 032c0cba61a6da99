//! Requests that wait for a slot: what is decided again when they get it, clients that close, and fairness.

use std::io::Read as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::harness::origin::reply::Step;
use crate::harness::wayleave::Settings;
use crate::harness::{
    DEADLINE, Gate, Origin, Reply, Request, Wayleave, Wire, decisions, eventually,
};

/// Starts a site that sends the head of `/slow` at once and its body when the gate opens, and nothing of `/late` before.
fn site(gate: &Gate) -> Origin {
    let origin = Origin::start();
    origin.site("shop.test").page("/slow", Reply::in_halves(gate)).page("/late", late(gate));
    origin.site("other.test");
    origin
}

/// Returns a response whose head, too, waits for the gate. It says that it is the last: on a connection that closes unannounced,
/// the next request may be sent in vain, and needs another slot.
fn late(gate: &Gate) -> Reply {
    let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\n";
    let response = Step::Bytes([head, "late"].concat().into_bytes());
    Reply::raw("", Step::Wait(gate.clone())).step(response).step(Step::Close)
}

fn one_at_a_time(settings: Settings) -> Settings {
    settings
        .set("politeness.crawl_delay", "\"wait\"")
        .set("politeness.max_wait", "\"1h\"")
        .set("politeness.max_concurrent_per_origin", "1")
}

fn send(proxy: &Wayleave, agent: &str, url: &str) -> Wire {
    let mut wire = proxy.connect();
    wire.send(Request::get(url).agent(agent).absolute_form());
    wire
}

#[track_caller]
fn expect_connections(proxy: &Wayleave, count: f64) {
    eventually("this many connections are open", || {
        proxy.metric("wayleave_client_connections", &[]) == count
    });
}

/// Sends a request that the origin delays, and one that waits for a slot behind it.
fn one_waits(proxy: &Wayleave, origin: &Origin) -> (Wire, Wire) {
    let first = send(proxy, "NewsBot/1", "http://shop.test/late");
    origin.wait_for_target("/late");
    let second = send(proxy, "NewsBot/1", "http://shop.test/b");
    expect_connections(proxy, 2.0);
    (first, second)
}

/// Starts a proxy that opens one blind tunnel at a time. Returns it with an open tunnel, and one that waits for a slot.
fn one_tunnel_waits(origin: &Origin) -> (Wayleave, Wire, Wire) {
    let proxy = Wayleave::start_with(origin, |settings| {
        one_at_a_time(settings).set("https.mode", "\"tunnel\"")
    });
    let mut first = proxy.connect();
    assert_eq!(first.connect_tunnel("shop.test:443").status, 200);
    let mut second = proxy.connect();
    second.send_connect("shop.test:443", "");
    expect_connections(&proxy, 2.0);
    eventually("robots.txt was fetched and a tunnel is open", || origin.connections() == 2);
    (proxy, first, second)
}

#[test]
fn settings_changed_during_a_wait_apply_when_the_slot_comes() {
    let gate = Gate::closed();
    let origin = site(&gate);
    let proxy = Wayleave::start_with(&origin, one_at_a_time);
    let (mut first, mut second) = one_waits(&proxy, &origin);
    let rule = "[[rule]]\naction = \"refuse\"\nhosts = [\"shop.test\"]\npaths = [\"/b\"]\n";
    proxy.reload(&proxy.settings.clone().table(rule));
    gate.open();
    assert_eq!(first.response().status, 200);
    let refused = second.response();
    refused.expect_refusal(403, Some("Refused by policy"), "http_request_denied");
    assert!(!origin.seen().contains(&"GET http://shop.test/b".to_owned()));
}

#[test]
fn settings_changed_during_a_robots_txt_fetch_apply() {
    let gate = Gate::closed();
    let origin = Origin::start();
    origin.site("shop.test").robots_reply(late(&gate));
    let proxy = Wayleave::start(&origin);
    let mut wire = send(&proxy, "NewsBot/1", "http://shop.test/b");
    origin.wait_for_target("/robots.txt");
    let rule = "[[rule]]\naction = \"refuse\"\nhosts = [\"shop.test\"]\n";
    proxy.reload(&proxy.settings.clone().table(rule));
    gate.open();
    let refused = wire.response();
    refused.expect_refusal(403, Some("Refused by policy"), "http_request_denied");
    assert!(!origin.seen().contains(&"GET http://shop.test/b".to_owned()));
}

#[test]
fn a_request_without_a_slot_needs_one_after_a_reload_to_enforce() {
    let gate = Gate::closed();
    let origin = Origin::start();
    origin.site("shop.test").robots_reply(late(&gate));
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .set("politeness.default_delay", "\"1h\"")
            .set("politeness.max_delay", "\"1h\"")
            .set("proxy.mode", "\"observe\"")
    });
    let urls = ["http://shop.test/a", "http://shop.test/b"];
    let clients = urls.map(|url| send(&proxy, "NewsBot/1", url));
    eventually("both wait for robots.txt", || {
        proxy.metric("wayleave_robots_lookups_total", &[("result", "joined")]) == 1.0
    });
    proxy.reload(&proxy.settings.clone().set("proxy.mode", "\"enforce\""));
    gate.open();
    let mut statuses = clients.map(|mut client| client.response().status);
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 429]);
    let sent = urls.map(|url| origin.seen().contains(&format!("GET {url}")));
    assert_eq!(sent.iter().filter(|sent| **sent).count(), 1);
}

#[test]
fn robots_txt_changed_during_a_wait_applies_when_the_slot_comes() {
    let gate = Gate::closed();
    let origin = site(&gate);
    let proxy = Wayleave::start_with(&origin, one_at_a_time);
    let (mut first, mut second) = one_waits(&proxy, &origin);
    origin.site("shop.test").disallows("/b");
    let refresh = proxy.admin_request("POST", "/v1/robots/http%3A%2F%2Fshop.test/refresh");
    assert_eq!(refresh.status, 200, "{refresh:?}");
    gate.open();
    assert_eq!(first.response().status, 200);
    let refused = second.response();
    refused.expect_disallowed("http://shop.test/robots.txt", 2, "Disallow: /b");
    assert!(!origin.seen().contains(&"GET http://shop.test/b".to_owned()));
}

#[test]
fn a_tunnel_that_waits_is_decided_again() {
    let origin = site(&Gate::closed());
    let (proxy, first, mut second) = one_tunnel_waits(&origin);
    let rule = "[[rule]]\naction = \"refuse\"\nhosts = [\"shop.test\"]\n";
    proxy.reload(&proxy.settings.clone().table(rule));
    drop(first);
    let refused = second.response();
    refused.expect_refusal(403, Some("Refused by policy"), "http_request_denied");
    assert_eq!(origin.connections(), 2);
}

#[test]
fn a_tunnel_that_waits_is_inspected_after_a_reload_to_intercept() {
    let origin = site(&Gate::closed());
    let (proxy, first, mut second) = one_tunnel_waits(&origin);
    proxy.reload(&proxy.settings.clone().set("https.mode", "\"intercept\""));
    drop(first);
    assert_eq!(second.response_head().status, 200);
    let inspected = second.start_tls("shop.test", &proxy.ca_pem(), &["http/1.1"]);
    inspected.expect("the certificate inside is the proxy's");
}

#[test]
fn a_request_that_waits_at_shutdown_keeps_its_decision() {
    let origin = site(&Gate::closed());
    let mut proxy = Wayleave::start_with(&origin, one_at_a_time);
    let waiting = one_waits(&proxy, &origin);
    for _ in 0..2 {
        proxy.signal("TERM");
        eventually("it stops", || proxy.log().contains("stopping under_way="));
    }
    assert_eq!(proxy.wait().code(), Some(0));
    drop(waiting);
    let log = proxy.dir.path().join("state/decisions.jsonl");
    let log = std::fs::read_to_string(log).expect("it is there");
    let line = decisions(&log).find(|line| line.contains("http://shop.test/b")).expect("a line");
    assert!(line.contains("\"reason\":\"shutdown\"") && line.contains("\"basis\":"), "{line}");
}

#[test]
fn a_client_that_closes_while_it_waits_leaves_the_queue() {
    let gate = Gate::closed();
    let origin = site(&gate);
    let proxy = Wayleave::start_with(&origin, one_at_a_time);
    let (first, second) = one_waits(&proxy, &origin);
    drop(second);
    expect_connections(&proxy, 1.0);
    let labels = [("outcome", "failed"), ("reason", "client-closed")];
    assert_eq!(proxy.metric("wayleave_requests_total", &labels), 1.0);
    let mut tunnel = proxy.connect();
    tunnel.send_connect("shop.test:443", "");
    drop((first, tunnel));
    gate.open();
    expect_connections(&proxy, 0.0);
    assert!(!origin.seen().contains(&"GET http://shop.test/b".to_owned()));
}

#[test]
fn a_tunnel_whose_client_closes_leaves_the_queue() {
    let origin = site(&Gate::closed());
    let (proxy, _first, second) = one_tunnel_waits(&origin);
    drop(second);
    expect_connections(&proxy, 1.0);
}

#[test]
fn an_http_1_0_client_may_end_its_side_and_wait() {
    let gate = Gate::closed();
    let origin = site(&gate);
    let proxy = Wayleave::start_with(&origin, one_at_a_time);
    let mut first = send(&proxy, "NewsBot/1", "http://shop.test/late");
    origin.wait_for_target("/late");
    let mut old = proxy.connect();
    old.send(
        "GET http://shop.test/old HTTP/1.0\r\nHost: shop.test\r\nUser-Agent: NewsBot/1\r\n\r\n",
    );
    old.end_sending();
    let mut new = proxy.connect();
    new.send("GET http://shop.test/new HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: NewsBot/1\r\nConnection: close\r\n\r\n");
    new.end_sending();
    new.expect_close();
    gate.open();
    assert_eq!(first.response().status, 200);
    assert_eq!(old.response().status, 200);
    assert!(!origin.seen().contains(&"GET http://shop.test/new".to_owned()));
}

#[test]
fn clients_that_time_out_do_not_stop_the_others() {
    let origin = Origin::start();
    let robots = "User-agent: *\nDisallow:\nCrawl-delay: 0.2\n";
    origin.site("shop.test").robots(robots);
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("politeness.crawl_delay", "\"wait\"").set("politeness.max_wait", "\"1h\"")
    });
    let (served, started) = (AtomicUsize::new(0), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                while served.load(Ordering::SeqCst) < 20 && started.elapsed() < DEADLINE {
                    let mut wire = send(&proxy, "NewsBot/1", "http://shop.test/a");
                    let timeout = Some(Duration::from_millis(700));
                    wire.tcp.set_read_timeout(timeout).expect("not zero");
                    if wire.tcp.read(&mut [0; 12]).is_ok_and(|read| read > 0) {
                        served.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    let served = served.into_inner();
    assert!(served >= 20, "only {served} were served");
}

#[test]
fn slow_readers_of_one_crawler_hold_no_slot_of_another() {
    let gate = Gate::closed();
    let origin = site(&gate);
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .set("politeness.max_concurrent_per_origin", "2")
            .crawler("news", "NewsBot")
            .crawler("images", "ImageBot")
    });
    let mut slow: Vec<_> =
        (0..2).map(|_| send(&proxy, "NewsBot/1", "http://shop.test/slow")).collect();
    for wire in &mut slow {
        assert_eq!(wire.response_head().status, 200);
    }
    assert_eq!(proxy.get_as("ImageBot/1", "http://shop.test/b").status, 200);
    let refused = proxy.get_as("NewsBot/1", "http://shop.test/b");
    let problem = refused.expect_refusal(429, Some("Crawl delay"), "http_request_denied");
    assert_eq!(problem["reason"], "concurrency");
    gate.open();
}

#[test]
fn asserted_clients_share_the_pace_of_their_group() {
    let origin = Origin::start();
    let robots = "User-agent: NewsBot\nUser-agent: FeedBot\nDisallow:\nCrawl-delay: 300\n\n\
                  User-agent: *\nDisallow:\nCrawl-delay: 300\n";
    origin.site("shop.test").robots(robots);
    let proxy = Wayleave::start_with(&origin, |settings| settings.crawler("images", "ImageBot"));
    let status = |agent: &str| proxy.get_as(agent, "http://shop.test/a").status;
    assert_eq!(status("Rotating-a/1"), 200);
    for agent in ["Rotating-b/1", "Rotating-c/2", "Mozilla/5.0", ""] {
        assert_eq!(status(agent), 429, "{agent}");
    }
    assert_eq!(status("newsbot/1"), 200, "another group");
    assert_eq!(status("FeedBot/1"), 429, "one group with NewsBot");
    assert_eq!(status("ImageBot/1"), 200, "a configured crawler has its own pace");
    assert_eq!(status("ImageBot/2"), 429);
    let pages = origin.seen();
    let pages = pages.iter().filter(|seen| seen.ends_with("/a"));
    assert_eq!(pages.count(), 3);
}

#[test]
fn asserted_clients_share_a_default_delay() {
    let origin = Origin::start();
    origin.site("shop.test");
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("politeness.default_delay", "\"60s\"")
    });
    let status = |agent: &str| proxy.get_as(agent, "http://shop.test/a").status;
    assert_eq!(status("Rotating-a/1"), 200);
    assert_eq!(status("Rotating-b/1"), 429);
}

/// Sends six requests of one client, and then one of another, that all wait behind `/late`. Returns the other's place in the order
/// of arrival at the origin, from 1.
fn place_behind_six(proxy: &Wayleave, origin: &Origin, gate: &Gate) -> usize {
    let send = |from: [u8; 4], url: &str| {
        let mut wire = Wire::connect_from(from, proxy.proxy);
        wire.send(Request::get(url).agent("NewsBot/1").absolute_form());
        wire
    };
    let mut first = send([127, 0, 0, 1], "http://shop.test/late");
    origin.wait_for_target("/late");
    let waiting = |count: usize| proxy.metric("wayleave_client_connections", &[]) == count as f64;
    let mut many = Vec::new();
    for page in 0..6 {
        many.push(send([127, 0, 0, 1], &format!("http://shop.test/many/{page}")));
        eventually("it waits", || waiting(page + 2));
    }
    let mut other = send([127, 0, 0, 2], "http://shop.test/other");
    eventually("the other client's waits", || waiting(8));
    gate.open();
    assert_eq!(first.response().status, 200);
    for wire in &mut many {
        assert_eq!(wire.response().status, 200);
    }
    assert_eq!(other.response().status, 200);
    let requests = origin.requests();
    let mut pages =
        requests.iter().filter(|request| !matches!(&*request.target, "/late" | "/robots.txt"));
    let place = pages.position(|request| request.target == "/other");
    place.expect("it arrived") + 1
}

#[test]
fn clients_that_wait_for_a_delay_are_served_alternately() {
    let gate = Gate::closed();
    let origin = site(&gate);
    // Long enough for all of them to arrive before the turn passes on.
    origin.site("shop.test").robots("User-agent: *\nCrawl-delay: 1\n");
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("politeness.crawl_delay", "\"wait\"").set("politeness.max_wait", "\"1h\"")
    });
    let place = place_behind_six(&proxy, &origin, &gate);
    assert!(place <= 2, "{place}");
}

#[test]
fn clients_that_wait_for_a_slot_are_served_alternately() {
    let gate = Gate::closed();
    let origin = site(&gate);
    let proxy = Wayleave::start_with(&origin, one_at_a_time);
    let place = place_behind_six(&proxy, &origin, &gate);
    assert!(place <= 2, "{place}");
}

/// Sends the head of a POST and the first byte of its content.
fn begin_upload(proxy: &Wayleave, origin: &Origin) -> Wire {
    let url = "http://shop.test/upload";
    let mut wire = proxy.connect();
    wire.send(format!(
        "POST {url} HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: NewsBot/1\r\nContent-Length: 5\r\n\r\nh"
    ));
    origin.wait_for("the upload begins", |arrived| {
        let mut requests = arrived.requests.iter();
        requests.any(|request| request.body().length == 1)
    });
    wire
}

#[test]
fn a_slow_upload_does_not_hold_the_slot_of_a_delayed_origin() {
    let origin = Origin::start();
    origin.site("shop.test").robots("User-agent: *\nCrawl-delay: 0.05\n");
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.set("proxy.idle_timeout", "\"1h\""));
    let mut upload = begin_upload(&proxy, &origin);
    eventually("another client is served", || {
        proxy.get_as("NewsBot/2", "http://shop.test/a").status == 200
    });
    upload.send("ello");
    assert_eq!(upload.response().status, 200, "the upload continues");
}

#[test]
fn an_upload_that_holds_a_slot_has_a_minimum_rate() {
    let origin = Origin::start();
    origin.site("shop.test");
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .set("proxy.idle_timeout", "\"1h\"")
            .set("politeness.max_concurrent_per_origin", "1")
    });
    let mut upload = begin_upload(&proxy, &origin);
    eventually("another client has the slot", || {
        proxy.get_as("NewsBot/2", "http://shop.test/a").status == 200
    });
    upload.response().expect_refusal(408, None, "http_request_error");
}

#[test]
fn a_page_that_hangs_does_not_hold_the_turn() {
    let gate = Gate::closed();
    let origin = site(&gate);
    origin.site("shop.test").robots("User-agent: *\nCrawl-delay: 0.05\n");
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.set("proxy.idle_timeout", "\"1h\""));
    let mut hanging = send(&proxy, "NewsBot/1", "http://shop.test/late");
    origin.wait_for_target("/late");
    eventually("another request is served", || {
        proxy.get_as("NewsBot/2", "http://shop.test/a").status == 200
    });
    gate.open();
    assert_eq!(hanging.response().status, 200, "it is still answered");
}

#[test]
fn a_slow_reader_loses_a_slot_that_others_want() {
    let origin = Origin::start();
    let big = Reply::text(vec![b'x'; 64 << 20]);
    origin.site("shop.test").page("/big", big);
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .set("proxy.idle_timeout", "\"1h\"")
            .set("politeness.max_concurrent_per_origin", "1")
    });
    let mut reader = send(&proxy, "NewsBot/1", "http://shop.test/big");
    assert_eq!(reader.response_head().status, 200);
    eventually("another client has the slot", || {
        proxy.get_as("NewsBot/2", "http://shop.test/a").status == 200
    });
    let log = proxy.dir.path().join("state/decisions.jsonl");
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    eventually("it is logged", || logged().contains("/big"));
    let log = logged();
    let line = decisions(&log).find(|line| line.contains("/big")).expect("a line");
    assert!(line.contains("read too slowly"), "{line}");
}
