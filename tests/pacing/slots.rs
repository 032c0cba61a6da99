//! Waiting for a slot at an origin: what is decided again when it comes, clients that are gone, and fairness.

use std::io::Read as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::harness::origin::reply::Step;
use crate::harness::wayleave::Settings;
use crate::harness::{DEADLINE, Gate, Origin, Reply, Request, Wayleave, Wire, eventually};

/// Two crawlers told apart by User-Agent.
const CRAWLERS: &str = r#"
[[crawler]]
name = "news"
tokens = ["NewsBot"]
match = { user_agent = "NewsBot" }
[[crawler]]
name = "images"
tokens = ["ImageBot"]
match = { user_agent = "ImageBot" }
"#;

/// An origin whose page `/slow` answers its head at once and its body when the gate opens; `/late` answers nothing before.
fn site(gate: &Gate) -> Origin {
    let origin = Origin::start();
    origin.site("shop.test").page("/slow", Reply::in_halves(gate)).page("/late", late(gate));
    origin.site("other.test");
    origin
}

/// An answer that waits, its head too.
fn late(gate: &Gate) -> Reply {
    let answer = Step::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate".to_vec());
    let waiting = Reply::raw("", Step::Wait(gate.clone()));
    waiting.step(answer).step(Step::Close)
}

fn one_at_a_time(settings: Settings) -> Settings {
    settings
        .set("politeness.crawl_delay", "\"wait\"")
        .set("politeness.max_wait", "\"1h\"")
        .set("politeness.max_concurrent_per_origin", "1")
}

fn ask(proxy: &Wayleave, agent: &str, url: &str) -> Wire {
    let mut wire = proxy.connect();
    wire.send(Request::get(url).agent(agent).absolute_form());
    wire
}

fn open_connections(proxy: &Wayleave, count: f64) {
    eventually("as many connections are open", || {
        proxy.metric("wayleave_client_connections", &[]) == count
    });
}

/// One request that the origin holds, and one that waits for its turn behind it.
fn one_waits(proxy: &Wayleave, origin: &Origin) -> (Wire, Wire) {
    let first = ask(proxy, "NewsBot/1", "http://shop.test/late");
    origin.wait_for_target("/late");
    let second = ask(proxy, "NewsBot/1", "http://shop.test/b");
    open_connections(proxy, 2.0);
    (first, second)
}

fn post(proxy: &Wayleave, path: &str) {
    let mut wire = Wire::connect(proxy.admin);
    wire.send(format!(
        "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        proxy.admin
    ));
    assert_eq!(wire.response().status, 200, "{path}");
}

#[test]
fn settings_changed_during_a_wait_apply_when_the_slot_comes() {
    let gate = Gate::closed();
    let origin = site(&gate);
    let mut base = None;
    let proxy = Wayleave::start_with(&origin, |settings| {
        let settings = one_at_a_time(settings);
        base = Some(settings.clone());
        settings
    });
    let (mut first, mut second) = one_waits(&proxy, &origin);
    let rule = "[[rule]]\naction = \"refuse\"\nhosts = [\"shop.test\"]\npaths = [\"/b\"]\n";
    let settings = base.expect("it was started with settings").table(rule);
    std::fs::write(proxy.dir.path().join("config.toml"), settings.to_toml()).expect("a file");
    post(&proxy, "/v1/reload");
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
    let mut base = None;
    let proxy = Wayleave::start_with(&origin, |settings| {
        base = Some(settings.clone());
        settings
    });
    let mut wire = ask(&proxy, "NewsBot/1", "http://shop.test/b");
    origin.wait_for_target("/robots.txt");
    let rule = "[[rule]]\naction = \"refuse\"\nhosts = [\"shop.test\"]\n";
    let settings = base.expect("it was started with settings").table(rule);
    std::fs::write(proxy.dir.path().join("config.toml"), settings.to_toml()).expect("a file");
    post(&proxy, "/v1/reload");
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
    let mut base = None;
    let proxy = Wayleave::start_with(&origin, |settings| {
        let settings = settings
            .set("politeness.default_delay", "\"1h\"")
            .set("politeness.max_delay", "\"1h\"");
        base = Some(settings.clone());
        settings.set("proxy.mode", "\"observe\"")
    });
    let urls = ["http://shop.test/a", "http://shop.test/b"];
    let clients = urls.map(|url| ask(&proxy, "NewsBot/1", url));
    eventually("both wait for robots.txt", || {
        proxy.metric("wayleave_robots_lookups_total", &[("result", "joined")]) == 1.0
    });
    let settings = base.expect("it was started with settings");
    std::fs::write(proxy.dir.path().join("config.toml"), settings.to_toml()).expect("a file");
    post(&proxy, "/v1/reload");
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
    origin.site("shop.test").robots("User-agent: *\nDisallow: /b\n");
    post(&proxy, "/v1/robots/http%3A%2F%2Fshop.test/refresh");
    gate.open();
    assert_eq!(first.response().status, 200);
    let refused = second.response();
    refused.expect_disallowed("http://shop.test/robots.txt", 2, "Disallow: /b");
    assert!(!origin.seen().contains(&"GET http://shop.test/b".to_owned()));
}

#[test]
fn a_tunnel_that_waits_is_asked_about_again_too() {
    let gate = Gate::closed();
    let origin = site(&gate);
    let mut base = None;
    let proxy = Wayleave::start_with(&origin, |settings| {
        let settings = one_at_a_time(settings).set("https.mode", "\"tunnel\"");
        base = Some(settings.clone());
        settings
    });
    let mut first = proxy.connect();
    assert_eq!(first.connect_tunnel("shop.test:443").status, 200);
    let mut second = proxy.connect();
    second.send("CONNECT shop.test:443 HTTP/1.1\r\nHost: shop.test:443\r\n\r\n");
    open_connections(&proxy, 2.0);
    eventually("robots.txt was fetched and a tunnel is open", || origin.connections() == 2);
    let rule = "[[rule]]\naction = \"refuse\"\nhosts = [\"shop.test\"]\n";
    let settings = base.expect("it was started with settings").table(rule);
    std::fs::write(proxy.dir.path().join("config.toml"), settings.to_toml()).expect("a file");
    post(&proxy, "/v1/reload");
    drop(first);
    let refused = second.response();
    refused.expect_refusal(403, Some("Refused by policy"), "http_request_denied");
    assert_eq!(origin.connections(), 2);
}

#[test]
fn a_tunnel_that_waits_is_inspected_after_a_reload_to_intercept() {
    let origin = site(&Gate::closed());
    let mut base = None;
    let proxy = Wayleave::start_with(&origin, |settings| {
        let settings = one_at_a_time(settings);
        base = Some(settings.clone());
        settings.set("https.mode", "\"tunnel\"")
    });
    let mut first = proxy.connect();
    assert_eq!(first.connect_tunnel("shop.test:443").status, 200);
    let mut second = proxy.connect();
    second.send("CONNECT shop.test:443 HTTP/1.1\r\nHost: shop.test:443\r\n\r\n");
    open_connections(&proxy, 2.0);
    eventually("robots.txt was fetched and a tunnel is open", || origin.connections() == 2);
    let settings = base.expect("it was started with settings").set("https.mode", "\"intercept\"");
    std::fs::write(proxy.dir.path().join("config.toml"), settings.to_toml()).expect("a file");
    post(&proxy, "/v1/reload");
    drop(first);
    assert_eq!(second.response_head().status, 200);
    let inspected = second.start_tls("shop.test", &proxy.ca_pem(), &["http/1.1"]);
    inspected.expect("the certificate inside is the proxy's");
}

#[test]
fn a_client_that_closes_while_it_waits_gives_its_turn_up() {
    let gate = Gate::closed();
    let origin = site(&gate);
    let proxy = Wayleave::start_with(&origin, one_at_a_time);
    let (first, second) = one_waits(&proxy, &origin);
    drop(second);
    open_connections(&proxy, 1.0);
    let labels = [("outcome", "failed"), ("reason", "client-closed")];
    assert_eq!(proxy.metric("wayleave_requests_total", &labels), 1.0);
    let mut tunnel = proxy.connect();
    tunnel.send("CONNECT shop.test:443 HTTP/1.1\r\nHost: shop.test:443\r\n\r\n");
    drop((first, tunnel));
    gate.open();
    open_connections(&proxy, 0.0);
    assert!(!origin.seen().contains(&"GET http://shop.test/b".to_owned()));
}

#[test]
fn a_tunnel_whose_waiting_client_closes_gives_up_its_slot() {
    let origin = site(&Gate::closed());
    let proxy = Wayleave::start_with(&origin, |settings| {
        one_at_a_time(settings).set("https.mode", "\"tunnel\"")
    });
    let mut first = proxy.connect();
    assert_eq!(first.connect_tunnel("shop.test:443").status, 200);
    let mut second = proxy.connect();
    second.send("CONNECT shop.test:443 HTTP/1.1\r\nHost: shop.test:443\r\n\r\n");
    open_connections(&proxy, 2.0);
    drop(second);
    open_connections(&proxy, 1.0);
}

#[test]
fn a_client_of_http_1_0_may_end_its_side_and_still_waits() {
    let gate = Gate::closed();
    let origin = site(&gate);
    let proxy = Wayleave::start_with(&origin, one_at_a_time);
    let mut first = ask(&proxy, "NewsBot/1", "http://shop.test/late");
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
fn workers_that_give_up_early_do_not_stop_the_others() {
    let origin = Origin::start();
    let robots = "User-agent: *\nDisallow:\nCrawl-delay: 0.2\n";
    origin.site("shop.test").robots(robots);
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("politeness.crawl_delay", "\"wait\"").set("politeness.max_wait", "\"1h\"")
    });
    let (answered, started) = (AtomicUsize::new(0), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                while answered.load(Ordering::SeqCst) < 20 && started.elapsed() < DEADLINE {
                    let mut wire = ask(&proxy, "NewsBot/1", "http://shop.test/a");
                    let patience = Some(Duration::from_millis(700));
                    wire.tcp.set_read_timeout(patience).expect("not zero");
                    if wire.tcp.read(&mut [0; 12]).is_ok_and(|read| read > 0) {
                        answered.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    let answered = answered.into_inner();
    assert!(answered >= 20, "only {answered} were answered");
}

#[test]
fn slow_readers_of_one_crawler_hold_no_slot_of_another() {
    let gate = Gate::closed();
    let origin = site(&gate);
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("politeness.max_concurrent_per_origin", "2").table(CRAWLERS)
    });
    let mut slow: Vec<_> =
        (0..2).map(|_| ask(&proxy, "NewsBot/1", "http://shop.test/slow")).collect();
    for wire in &mut slow {
        assert_eq!(wire.response_head().status, 200);
    }
    let get = |agent| {
        let mut wire = ask(&proxy, agent, "http://shop.test/b");
        wire.response()
    };
    assert_eq!(get("ImageBot/1").status, 200);
    let refused = get("NewsBot/1");
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
    let images = &CRAWLERS[CRAWLERS.find("[[crawler]]\nname = \"images\"").expect("it is there")..];
    let proxy = Wayleave::start_with(&origin, |settings| settings.table(images));
    let status = |agent: &str| ask(&proxy, agent, "http://shop.test/a").response().status;
    assert_eq!(status("Rotating-a/1"), 200);
    for agent in ["Rotating-b/1", "Rotating-c/2", "Mozilla/5.0", ""] {
        assert_eq!(status(agent), 429, "{agent}");
    }
    assert_eq!(status("newsbot/1"), 200, "its group is another");
    assert_eq!(status("FeedBot/1"), 429, "one group with NewsBot");
    assert_eq!(status("ImageBot/1"), 200, "a configured one has a pace of its own");
    assert_eq!(status("ImageBot/2"), 429);
    let pages = origin.seen();
    let pages = pages.iter().filter(|seen| seen.ends_with("/a"));
    assert_eq!(pages.count(), 3);
}

#[test]
fn clients_by_their_own_word_share_a_default_delay() {
    let origin = Origin::start();
    origin.site("shop.test");
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("politeness.default_delay", "\"60s\"")
    });
    let status = |agent: &str| ask(&proxy, agent, "http://shop.test/a").response().status;
    assert_eq!(status("Rotating-a/1"), 200);
    assert_eq!(status("Rotating-b/1"), 429);
}

/// Six requests of one client, and then one of another, that all wait behind `/late`. Returns where the other's comes in the
/// order in which they arrive at the origin, from 1.
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
        eventually("it waits, too", || waiting(page + 2));
    }
    let mut other = send([127, 0, 0, 2], "http://shop.test/other");
    eventually("the other client's waits, too", || waiting(8));
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
fn clients_that_wait_for_one_delay_take_turns() {
    let gate = Gate::closed();
    let origin = site(&gate);
    origin.site("shop.test").robots("User-agent: *\nCrawl-delay: 0.05\n");
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("politeness.crawl_delay", "\"wait\"").set("politeness.max_wait", "\"1h\"")
    });
    let place = place_behind_six(&proxy, &origin, &gate);
    assert!(place <= 2, "{place}");
}

#[test]
fn clients_that_wait_for_one_slot_take_turns() {
    let gate = Gate::closed();
    let origin = site(&gate);
    let proxy = Wayleave::start_with(&origin, one_at_a_time);
    let place = place_behind_six(&proxy, &origin, &gate);
    assert!(place <= 2, "{place}");
}

/// The head of a POST and the first byte of its content.
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
    eventually("another client has its turn", || {
        ask(&proxy, "NewsBot/2", "http://shop.test/a").response().status == 200
    });
    upload.send("ello");
    assert_eq!(upload.response().status, 200, "the upload goes on");
}

#[test]
fn an_upload_that_holds_a_slot_has_a_least_rate() {
    let origin = Origin::start();
    origin.site("shop.test");
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .set("proxy.idle_timeout", "\"1h\"")
            .set("politeness.max_concurrent_per_origin", "1")
    });
    let mut upload = begin_upload(&proxy, &origin);
    eventually("another client has the slot", || {
        ask(&proxy, "NewsBot/2", "http://shop.test/a").response().status == 200
    });
    upload.response().expect_refusal(408, None, "http_request_error");
}
