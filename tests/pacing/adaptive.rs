//! The pace that adapts to what a server shows of its capacity.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::origin::reply::Step;
use crate::harness::wayleave::Settings;
use crate::harness::{Origin, Reply, Wayleave, eventually};

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
        for cause in ["429", "503"] {
            let url = format!("http://busy.shop.test/{cause}");
            assert_eq!(proxy.get(&url).status.to_string(), cause);
            let paces = slowed(&proxy);
            assert_eq!(paces.len(), 1, "{paces:?}");
            assert_eq!((&paces[0]["unit"], &paces[0]["cause"]), (&unit.into(), &cause.into()));
            assert!(paces[0]["requests_per_second"].as_f64().expect("a number") < 10.0);
            assert_eq!(slow_downs(&proxy, cause), 1.0);
        }
        assert_eq!(proxy.metric("wayleave_slowed_paces", &[]), 1.0);
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
