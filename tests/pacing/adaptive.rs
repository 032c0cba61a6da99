//! The pace that adapts to what a server shows of its capacity.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::origin::reply::Step;
use crate::harness::wayleave::Settings;
use crate::harness::{Origin, Reply, Wayleave, Wire, eventually};

fn adaptive(settings: Settings) -> Settings {
    settings.set("politeness.adaptive", "true").set("politeness.crawl_delay", "\"wait\"")
}

/// Returns the paces that the API lists.
fn slowed(proxy: &Wayleave) -> Vec<Value> {
    let found = proxy.admin_get("/v1/pace").json();
    let paces = found["paces"].as_array().expect("an array").clone();
    assert_eq!(found["total"], paces.len());
    paces
}

fn slow_downs(proxy: &Wayleave, cause: &str) -> f64 {
    proxy.metric("wayleave_slow_downs_total", &[("cause", cause)])
}

/// Returns the arrival times of pages of a host.
fn arrivals(origin: &Origin, host: &str) -> Vec<Instant> {
    let requests = origin.requests();
    let pages = requests.iter().filter(|it| it.host() == host && it.target != "/robots.txt");
    pages.map(|request| request.at).collect()
}

#[test]
fn a_refusal_slows_a_server_down_for_all_to_see() {
    let origin = Origin::start();
    origin.site("busy.shop.test").page("/429", Reply::new(429)).page("/503", Reply::new(503));
    for (share, unit) in [("origin", "http://busy.shop.test"), ("domain", "domain:shop.test")] {
        let proxy = Wayleave::start_with(&origin, |settings| {
            adaptive(settings).set("politeness.share", &format!("{share:?}"))
        });
        assert_eq!(proxy.get("http://busy.shop.test/").status, 200);
        assert_eq!(proxy.get("http://free.test/").status, 200);
        assert_eq!(slowed(&proxy), Vec::<Value>::new());
        // The 503 may be the fault of its page, so only its client's requests become slower.
        for (cause, client) in [("429", Value::Null), ("503", "127.0.0.1".into())] {
            let url = format!("http://busy.shop.test/{cause}");
            assert_eq!(proxy.get(&url).status.to_string(), cause);
            let paces = slowed(&proxy);
            let slowed_by: Vec<_> = paces.iter().filter(|pace| pace["cause"] == cause).collect();
            assert_eq!(slowed_by.len(), 1, "{paces:?}");
            assert_eq!((&slowed_by[0]["unit"], &slowed_by[0]["client"]), (&unit.into(), &client));
            assert!(slowed_by[0]["requests_per_second"].as_f64().expect("a number") < 10.0);
            assert_eq!(slow_downs(&proxy, cause), 1.0);
        }
        assert_eq!(proxy.metric("wayleave_slowed_paces", &[]), 2.0);
        assert_eq!(proxy.get("http://busy.shop.test/").status, 200, "after its turn");
    }
}

#[test]
fn a_reset_connection_slows_down() {
    let origin = Origin::start();
    origin.site("shop.test").page("/reset", Reply::nothing(Step::Close));
    let proxy = Wayleave::start_with(&origin, adaptive);
    assert_eq!(proxy.get("http://shop.test/reset").status, 502);
    eventually("it was counted", || slow_downs(&proxy, "reset") == 1.0);
    assert_eq!(slowed(&proxy)[0]["cause"], "reset");
}

#[test]
fn by_default_nothing_is_slowed_down() {
    let origin = Origin::start();
    origin.site("shop.test").page("/429", Reply::new(429));
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("http://shop.test/429").status, 429);
    assert_eq!(slowed(&proxy), Vec::<Value>::new());
    assert_eq!(slow_downs(&proxy, "429"), 0.0);
    // A reload turns it on.
    proxy.reload(&adaptive(proxy.settings.clone()));
    eventually("the pause is over", || proxy.get("http://shop.test/429").status == 429);
    eventually("it is slowed down", || slow_downs(&proxy, "429") > 0.0);
}

#[test]
fn an_unknown_server_is_asked_slowly_at_first_and_never_before_its_delay() {
    let origin = Origin::start();
    origin.site("slow.test").robots("User-agent: *\nDisallow:\nCrawl-delay: 0.3\n");
    let proxy = Wayleave::start_with(&origin, adaptive);
    for (host, least) in [("new.test", 90), ("slow.test", 300)] {
        std::thread::scope(|scope| {
            for page in 0..5 {
                let (proxy, url) = (&proxy, format!("http://{host}/{page}"));
                scope.spawn(move || assert_eq!(proxy.get(&url).status, 200));
            }
        });
        let mut arrivals = arrivals(&origin, host);
        arrivals.sort();
        let took = arrivals[4] - arrivals[0];
        assert!(took >= 4 * Duration::from_millis(least), "{took:?} {host}");
    }
}

#[test]
fn a_request_that_would_wait_long_for_its_turn_is_refused() {
    let origin = Origin::start();
    let limited = Reply::new(429).header("Retry-After", "0");
    origin.site("shop.test").page("/429", limited);
    let proxy = Wayleave::start_with(&origin, |settings| {
        adaptive(settings).set("politeness.crawl_delay", "\"ignore\"")
    });
    // Its pauses are ignored, but each refusal halves the pace.
    eventually("the pace is slower than a request a second", || {
        let refused = proxy.get("http://shop.test/429");
        refused.status == 429 && refused.text().contains("politeness.adaptive")
    });
    assert!(slowed(&proxy)[0]["requests_per_second"].as_f64().expect("a number") < 2.0);
}

/// Sends a GET from the client's own address, and returns the status.
fn status_for(proxy: &Wayleave, client: u8, url: &str) -> u16 {
    let mut wire = Wire::connect_from([127, 0, 0, client], proxy.proxy);
    wire.send_get(url);
    wire.response().status
}

#[test]
fn one_clients_broken_pages_slow_that_client_alone() {
    let origin = Origin::start();
    origin.site("shop.test").page("/a", Reply::new(503)).page("/b", Reply::nothing(Step::Close));
    let proxy = Wayleave::start_with(&origin, |settings| {
        adaptive(settings)
            .set("politeness.crawl_delay", "\"ignore\"")
            .set("upstream.connect_timeout", "\"30s\"")
    });
    for _ in 0..5 {
        for (page, failure) in [("a", 503), ("b", 502)] {
            let status = status_for(&proxy, 1, &format!("http://shop.test/{page}"));
            assert!([failure, 429].contains(&status), "{status}");
        }
    }
    let paces = slowed(&proxy);
    assert_eq!(paces.len(), 1, "{paces:?}");
    assert_eq!(paces[0]["client"], "127.0.0.1");
    for page in 0..5 {
        assert_eq!(status_for(&proxy, 2, &format!("http://shop.test/{page}")), 200);
    }
    // The second client that gets one for another page.
    assert_eq!(status_for(&proxy, 2, "http://shop.test/b"), 502);
    eventually("all are slowed down", || {
        slowed(&proxy).iter().any(|pace| pace["client"].is_null())
    });
}

#[test]
fn a_quota_with_a_far_reset_slows_no_neighbour() {
    let origin = Origin::start();
    let told = Reply::text("page").header("RateLimit", "\"endless\";r=1;t=90000000");
    origin.site("a.shop.test").page("/", told);
    let proxy = Wayleave::start_with(&origin, |settings| {
        adaptive(settings)
            .set("politeness.share", "\"domain\"")
            .set("politeness.max_delay", "\"2s\"")
    });
    assert_eq!(proxy.get("http://a.shop.test/").status, 200);
    let paces = slowed(&proxy);
    assert_eq!(paces.len(), 1, "{paces:?}");
    assert_eq!(paces[0]["unit"], "http://a.shop.test");
    let rate = paces[0]["requests_per_second"].as_f64().expect("a number");
    assert!((0.5..0.6).contains(&rate), "one in max_delay: {rate}");
    assert_eq!(proxy.get("http://b.shop.test/").status, 200);
    assert_eq!(proxy.get("http://a.shop.test/other").status, 200, "after its turn");
}
