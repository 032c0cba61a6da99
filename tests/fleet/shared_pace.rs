//! One pace for many tenants of a server, over the nodes of a fleet.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::engines::{Product, Server};
use super::proxies::{expect_gaps, node};
use crate::harness::wayleave::Settings;
use crate::harness::{Origin, Reply, Wayleave, eventually};

const TENANTS: usize = 15;
const CRAWLERS: [&str; 4] = ["NewsBot/1", "ImageBot/1", "ShopBot/1", "Other/1"];

fn tenants() -> Origin {
    let origin = Origin::start();
    for tenant in 0..TENANTS {
        let limited = Reply::new(429).header("Retry-After", "100");
        origin.site(&format!("t{tenant}.shop.test")).page("/busy", limited);
    }
    origin
}

fn nodes(origin: &Origin, server: &Server, share: &str, min_delay: &str) -> [Wayleave; 3] {
    [(); 3].map(|()| {
        node(origin, server, |settings: Settings| {
            settings
                .set("politeness.share", &format!("{share:?}"))
                .set("politeness.min_delay", &format!("{min_delay:?}"))
                .set("politeness.crawl_delay", "\"wait\"")
                .crawler("news", "NewsBot")
                .crawler("image", "ImageBot")
                .crawler("shop", "ShopBot")
        })
    })
}

/// Returns the arrival times of pages, and of the first that was answered with 429.
fn arrivals(origin: &Origin) -> (Vec<Instant>, Option<Instant>) {
    let mut requests = origin.requests();
    requests.retain(|request| request.target != "/robots.txt");
    requests.sort_by_key(|request| request.at);
    let refused = requests.iter().find(|request| request.target == "/busy").map(|it| it.at);
    (requests.iter().map(|request| request.at).collect(), refused)
}

/// Has four crawlers at each node request pages of all tenants, until one of them is refused by its server.
fn crawl(nodes: &[Wayleave; 3], requests_before: usize) {
    let is_refused = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (place, proxy) in nodes.iter().enumerate() {
            for (number, crawler) in CRAWLERS.into_iter().enumerate() {
                let is_refused = &is_refused;
                scope.spawn(move || {
                    let first = place * CRAWLERS.len() + number;
                    for at in 0..TENANTS {
                        let tenant = (first + at) % TENANTS;
                        let is_last = first == 0 && at >= requests_before;
                        let page = if is_last { "busy" } else { "" };
                        let url = format!("http://t{tenant}.shop.test/{page}");
                        let status = proxy.get_as(crawler, &url).status;
                        let expected = is_last || is_refused.load(Ordering::Relaxed);
                        // Others may notice before the crawler that was refused does.
                        assert!(status == 200 || (status == 429 && (expected || at > 0)), "{url}");
                        if is_last {
                            is_refused.store(true, Ordering::Relaxed);
                            return;
                        }
                    }
                });
            }
        }
    });
}

#[test]
fn after_a_429_of_one_tenant_at_most_one_more_request_is_sent() {
    let server = Server::start(Product::Redis);
    for share in ["domain", "address"] {
        let origin = tenants();
        let nodes = nodes(&origin, &server, share, "30ms");
        crawl(&nodes, 3);
        let (all, refused) = arrivals(&origin);
        let refused = refused.expect("a page was refused");
        let later = all.iter().filter(|at| **at > refused).count();
        assert!(later <= 1, "{later} after the first 429, by {share}");
        expect_gaps(&all, Duration::from_millis(30));
        server.command(&["flushall"]);
    }
}

#[test]
fn nodes_ask_the_engine_whether_a_tenant_without_a_delay_rests() {
    let server = Server::start(Product::Redis);
    let origin = tenants();
    let nodes = nodes(&origin, &server, "domain", "0s");
    for proxy in &nodes {
        for crawler in CRAWLERS {
            assert_eq!(proxy.get_as(crawler, "http://t1.shop.test/").status, 200);
        }
    }
    assert_eq!(nodes[0].get_as("NewsBot/1", "http://t0.shop.test/busy").status, 429);
    let before = arrivals(&origin).0.len();
    for crawler in CRAWLERS {
        for proxy in &nodes {
            for tenant in 0..TENANTS {
                // A robots.txt is fetched all the same.
                let url = format!("http://t{tenant}.shop.test/");
                proxy.get_as(crawler, &url);
            }
        }
    }
    let later = arrivals(&origin).0.len() - before;
    assert!(later <= 1, "{later} after the first 429");
    eventually("every node refuses", || {
        nodes.iter().all(|proxy| {
            let refused = proxy.get_as("Other/1", "http://t2.shop.test/");
            refused.status == 429 && refused.text().contains("origin-rests")
        })
    });
}

#[test]
fn a_pace_that_one_node_finds_slows_down_all() {
    let server = Server::start(Product::Redis);
    let origin = Origin::start();
    // Nothing rests, so that only the pace can tell.
    let limited = Reply::new(429).header("Retry-After", "0");
    origin.site("busy.test").page("/busy", limited);
    // The slower the machine, the slower the pace that is found, at which nine requests take their turns below.
    let adaptive = |settings: Settings| {
        let settings = settings.set("politeness.crawl_delay", "\"wait\"");
        settings.set("politeness.max_wait", "\"60s\"").set("politeness.adaptive", "true")
    };
    let mut nodes = [(); 3].map(|()| node(&origin, &server, adaptive));
    let rate = |proxy: &Wayleave| {
        let paces = &proxy.admin_get("/v1/pace").json()["paces"];
        paces[0]["requests_per_second"].as_f64()
    };
    for proxy in &nodes {
        assert_eq!(proxy.get("http://busy.test/").status, 200);
        assert_eq!(rate(proxy), None);
    }
    for _ in 0..3 {
        assert_eq!(nodes[0].get("http://busy.test/busy").status, 429);
    }
    let found = rate(&nodes[0]).expect("it is slowed down");
    assert!(found < 5.0, "{found}");
    for proxy in &nodes {
        assert_eq!(proxy.get("http://busy.test/").status, 200);
        assert_eq!(rate(proxy), Some(found));
    }
    // One that starts later learns it, too.
    let late = node(&origin, &server, adaptive);
    assert_eq!(late.get("http://busy.test/").status, 200);
    assert_eq!(rate(&late), Some(found));
    nodes[2] = late;
    // All together keep one pace.
    std::thread::scope(|scope| {
        for proxy in &nodes {
            for _ in 0..3 {
                scope.spawn(|| assert_eq!(proxy.get("http://busy.test/together").status, 200));
            }
        }
    });
    let mut together: Vec<_> = origin.requests();
    together.retain(|request| request.target == "/together");
    together.sort_by_key(|request| request.at);
    let took = together[8].at - together[0].at;
    assert!(took >= Duration::from_secs_f64(7.0 / found), "{took:?} at {found} a second");
}
