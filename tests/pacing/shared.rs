//! One pace for the origins of a registrable domain or of a network, measured at their server.

use std::time::{Duration, Instant};

use crate::harness::dns::{Answer, NameServer};
use crate::harness::tools::status_and_output;
use crate::harness::wayleave::{Settings, command};
use crate::harness::{Origin, Reply, Response, Wayleave};

fn sharing(settings: Settings, share: &str, crawl_delay: &str) -> Settings {
    settings
        .set("politeness.share", &format!("{share:?}"))
        .set("politeness.crawl_delay", &format!("{crawl_delay:?}"))
}

/// Returns the arrival times of requests for pages of `*.shop.test`.
fn arrivals(origin: &Origin) -> Vec<Instant> {
    let requests = origin.requests();
    let pages = requests.iter().filter(|request| request.target != "/robots.txt");
    let of_shop = pages.filter(|request| request.host().ends_with("shop.test"));
    let mut arrivals: Vec<_> = of_shop.map(|request| request.at).collect();
    arrivals.sort();
    arrivals
}

/// Expects a refusal for this reason, whose details name `unit`.
#[track_caller]
fn expect_429(answer: &Response, reason: &str, unit: &str) -> u64 {
    let problem = answer.expect_refusal(429, Some("Crawl delay"), "http_request_denied");
    assert_eq!(problem["reason"], reason);
    assert!(answer.text().contains(unit), "{}", answer.text());
    problem["retry_after"].as_u64().expect("a number of seconds")
}

#[test]
fn tenants_of_a_domain_are_a_delay_apart() {
    let origin = Origin::start();
    for tenant in 0..3 {
        let robots = format!("User-agent: *\nDisallow:\nCrawl-delay: 0.{tenant}\n");
        origin.site(&format!("t{tenant}.shop.test")).robots(robots);
    }
    origin.site("shop.test");
    let proxy = Wayleave::start_with(&origin, |settings| {
        sharing(settings, "domain", "wait").set("politeness.min_delay", "\"150ms\"")
    });
    std::thread::scope(|scope| {
        for crawler in ["NewsBot/1", "ImageBot/1"] {
            for host in ["t0.shop.test", "t1.shop.test", "t2.shop.test", "shop.test"] {
                let proxy = &proxy;
                scope.spawn(move || {
                    for scheme in ["http", "https"] {
                        let url = format!("{scheme}://{host}/");
                        assert_eq!(proxy.get_as(crawler, &url).status, 200, "{url}");
                    }
                });
            }
        }
    });
    let arrivals = arrivals(&origin);
    assert_eq!(arrivals.len(), 16);
    for pair in arrivals.windows(2) {
        let gap = pair[1] - pair[0];
        assert!(gap >= Duration::from_millis(150), "{gap:?}");
    }
}

#[test]
fn origins_share_a_pace_as_configured() {
    let origin = Origin::start();
    let literal = format!("http://127.0.0.1:{}/", origin.http.port());
    for (share, statuses) in [
        ("origin", [200, 200, 200, 200, 200]),
        ("domain", [429, 429, 200, 429, 200]),
        ("address", [429, 429, 429, 429, 429]),
    ] {
        let proxy = Wayleave::start_with(&origin, |settings| {
            sharing(settings, share, "reject").set("politeness.min_delay", "\"100s\"")
        });
        assert_eq!(proxy.get_as("NewsBot/1", "http://a.shop.test/").status, 200, "{share}");
        let urls = [
            "http://b.shop.test/",
            "https://a.shop.test/",
            "http://a.other.test/",
            "http://b.other.test/",
            &literal,
        ];
        for (url, status) in urls.into_iter().zip(statuses) {
            assert_eq!(proxy.get_as("ImageBot/1", url).status, status, "{share} {url}");
        }
    }
}

#[test]
fn a_429_of_one_tenant_counts_for_all() {
    let origin = Origin::start();
    let limited = Reply::new(429).header("Retry-After", "100");
    origin.site("a.shop.test").page("/busy", limited);
    for (share, unit) in [("domain", "domain:shop.test"), ("address", "address:127.0.0.0/24")] {
        let proxy = Wayleave::start_with(&origin, |settings| sharing(settings, share, "reject"));
        // Without a delay, nothing else holds them back.
        for tenant in ["a", "b", "c"] {
            let url = format!("http://{tenant}.shop.test/");
            assert_eq!(proxy.get_as("NewsBot/1", &url).status, 200);
        }
        assert_eq!(proxy.get_as("NewsBot/1", "http://a.shop.test/busy").status, 429);
        let before = arrivals(&origin).len();
        for crawler in ["NewsBot/1", "ImageBot/1", "Other/1"] {
            for tenant in ["a", "b", "c"] {
                let answer = proxy.get_as(crawler, &format!("http://{tenant}.shop.test/"));
                let retry_after = expect_429(&answer, "origin-rests", unit);
                assert!((51..=100).contains(&retry_after), "{retry_after}");
            }
        }
        assert_eq!(arrivals(&origin).len(), before, "{share}");
        let status = proxy.get_as("NewsBot/1", "http://other.test/").status;
        assert_eq!(status, if share == "domain" { 200 } else { 429 });
    }
}

#[test]
fn the_longest_delay_of_two_tenants_counts() {
    let origin = Origin::start();
    origin.site("fast.shop.test").robots("User-agent: *\nDisallow:\nCrawl-delay: 0.1\n");
    origin.site("slow.shop.test").robots("User-agent: *\nDisallow:\nCrawl-delay: 200\n");
    origin.site("free.shop.test");
    let proxy = Wayleave::start_with(&origin, |settings| sharing(settings, "domain", "reject"));
    assert_eq!(proxy.get_as("NewsBot/1", "http://slow.shop.test/").status, 200);
    for host in ["fast.shop.test", "free.shop.test", "slow.shop.test"] {
        let answer = proxy.get_as("ImageBot/1", &format!("http://{host}/"));
        let retry_after = expect_429(&answer, "crawl-delay", "domain:shop.test");
        assert!((100..=200).contains(&retry_after), "{retry_after} {host}");
    }
}

#[test]
fn a_crawl_delay_below_min_delay_waits_for_min_delay() {
    let origin = Origin::start();
    origin.site("a.shop.test").robots("User-agent: *\nDisallow:\nCrawl-delay: 0.1\n");
    origin.site("b.shop.test").robots("User-agent: *\nDisallow:\nCrawl-delay: 0.1\n");
    for share in ["origin", "domain", "address"] {
        let proxy = Wayleave::start_with(&origin, |settings| {
            sharing(settings, share, "reject").set("politeness.min_delay", "\"20s\"")
        });
        assert_eq!(proxy.get_as("NewsBot/1", "http://a.shop.test/").status, 200);
        let again = if share == "origin" { "http://a.shop.test/" } else { "http://b.shop.test/" };
        let retry_after = expect_429(&proxy.get_as("NewsBot/1", again), "crawl-delay", "");
        assert!((11..=20).contains(&retry_after), "{retry_after} {share}");
    }
}

#[test]
fn a_reload_changes_who_shares_a_pace() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        sharing(settings, "origin", "reject").set("politeness.min_delay", "\"100s\"")
    });
    for tenant in ["a", "b"] {
        let url = format!("http://{tenant}.shop.test/");
        assert_eq!(proxy.get_as("NewsBot/1", &url).status, 200);
    }
    proxy.reload(&sharing(proxy.settings.clone(), "domain", "reject"));
    let answer = proxy.get_as("NewsBot/1", "http://b.shop.test/");
    expect_429(&answer, "crawl-delay", "domain:shop.test");
    assert_eq!(proxy.get_as("NewsBot/1", "http://a.other.test/").status, 200);
    let answer = proxy.get_as("NewsBot/1", "http://b.other.test/");
    expect_429(&answer, "crawl-delay", "domain:other.test");
}

#[test]
fn a_pace_by_address_behind_a_parent_proxy_is_warned_of() {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let file = dir.path().join("config.toml");
    for (share, is_warned) in [("address", true), ("domain", false)] {
        let text =
            format!("upstream.proxy = \"http://192.0.2.1:3128\"\npoliteness.share = {share:?}\n");
        std::fs::write(&file, text).expect("it can be written");
        let mut check = command();
        check.args(["config", "check", "--config"]).arg(&file);
        let (status, output) = status_and_output(&mut check);
        assert_eq!(status, Some(0), "{output}");
        assert_eq!(output.contains("politeness.share"), is_warned, "{output}");
    }
}

#[test]
fn an_answer_from_outside_of_a_network_pauses_nothing_in_it() {
    let victim = Origin::start();
    let attacker = Origin::start_at("127.0.1.1");
    let limited = Reply::new(429).header("Retry-After", "200");
    attacker.site("*").robots("User-agent: *\nDisallow:\n").page("/busy", limited);
    let names = NameServer::start();
    // Nothing listens at the first address, which lies in the network of the others.
    let addresses = vec![[127, 0, 0, 99].into(), [127, 0, 1, 1].into()];
    names.set("attacker.example", Answer::Addresses(addresses));
    let proxy = Wayleave::start_with(&victim, |settings| {
        sharing(settings, "address", "reject")
            .resolver(&names)
            .set("upstream.allow_private", r#"["127.0.0.0/8"]"#)
            .set("politeness.adaptive", "true")
    });
    let url = |path: &str| format!("http://attacker.example:{}{path}", attacker.http.port());
    assert_eq!(proxy.get_as("NewsBot/1", &url("/")).status, 200);
    // On a connection that is used again, too.
    assert_eq!(proxy.get_as("NewsBot/1", &url("/busy")).status, 429);
    assert_eq!(proxy.get_as("NewsBot/1", "http://victim.test/").status, 200);
    let slowed = proxy.admin_get("/v1/pace").json()["paces"].to_string();
    assert!(!slowed.contains("127.0.0.0"), "{slowed}");
    // Where it came from, and for its origin, it counts.
    for url in [url("/other"), format!("http://{}/", attacker.http)] {
        let answer = proxy.get_as("NewsBot/1", &url);
        assert_eq!(answer.json()["reason"], "origin-rests", "{url}");
    }
}
