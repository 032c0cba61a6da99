//! Fetches of robots.txt that fail for a reason on this side: they are repeated soon, and say nothing about the origin.

use std::net::TcpStream;

use serde_json::Value;

use crate::harness::dns::{Answer, NameServer};
use crate::harness::{Origin, Reply, Wayleave, eventually};

const RULES: &str = "User-agent: *\nDisallow: /private\n";

/// Returns what the proxy knows of an origin.
fn known(proxy: &Wayleave, host: &str) -> Value {
    proxy.admin_get(&format!("/v1/robots/http%3A%2F%2F{host}")).json()
}

/// Expects that a fetch was postponed for this reason, and that the origin is not said to have failed.
#[track_caller]
fn expect_postponed(proxy: &Wayleave, host: &str, error: &str) {
    let known = known(proxy, host);
    assert_eq!(known["error"], error, "{known}");
    assert_eq!(known["failures"], 0, "{known}");
    assert!(known["unreachable_since"].is_null(), "{known}");
    let fetches = |result| proxy.metric("wayleave_robots_fetches_total", &[("result", result)]);
    assert!(fetches("postponed") >= 1.0);
    assert_eq!(fetches("unreachable"), 0.0);
}

#[test]
fn a_redirect_that_our_pace_holds_back_is_tried_again_soon() {
    let origin = Origin::start();
    for host in ["a.test", "b.test"] {
        let target = format!("/rules?{host}");
        origin.site(host).robots_reply(Reply::redirect(301, &format!("http://rules.test{target}")));
        origin.site("rules.test").page(&target, Reply::text(RULES));
    }
    let mut slow = None;
    let proxy = Wayleave::start_with(&origin, |settings| {
        let settings = settings.set("politeness.min_delay", "\"100s\"");
        slow = Some(settings.clone());
        settings
    });
    assert_eq!(proxy.get("http://a.test/a").status, 200);
    let refused = proxy.get("http://b.test/a");
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("2")));
    expect_postponed(&proxy, "b.test", "own-pace");
    let settings = slow.expect("it has started");
    proxy.reload(&settings.set("politeness.min_delay", "\"0s\""));
    eventually("it is fetched again", || proxy.get("http://b.test/a").status == 200);
    assert_eq!(proxy.get("http://b.test/private").status, 403);
}

#[test]
fn origins_are_asked_soon_after_dns_was_silent() {
    let origin = Origin::start();
    origin.site("shop.example").robots(RULES);
    let names = NameServer::start();
    names.set("shop.example", Answer::Silence);
    let port = origin.http.port();
    let proxy = Wayleave::start_with(&origin, |settings| {
        let servers = format!("[\"{}\"]", names.address);
        settings.set("dns.servers", &servers).set("robots.fetch_timeout", "\"1s\"")
    });
    let host = format!("shop.example:{port}");
    let refused = proxy.get(&format!("http://{host}/a"));
    let problem = refused.expect_refusal(503, None, "destination_unavailable");
    assert_eq!(problem["reason"], "dns_timeout");
    expect_postponed(&proxy, &host.replace(':', "%3A"), "dns-timeout");
    names.set("shop.example", Answer::Addresses(vec!["127.0.0.1".parse().unwrap()]));
    eventually("it is found", || proxy.get(&format!("http://{host}/a")).status == 200);
}

#[test]
fn idle_connections_make_room_for_new_ones() {
    let origin = Origin::start();
    let proxy = Wayleave::start_after(&origin, "ulimit -n 160");
    for number in 0..200 {
        let answer = proxy.get(&format!("http://site{number}.test/a"));
        assert_eq!(answer.status, 200, "{number}");
    }
    assert_eq!(proxy.metric("wayleave_robots_fetches_total", &[("result", "unreachable")]), 0.0);
}

#[test]
fn operators_are_served_when_clients_hold_all_descriptors() {
    let origin = Origin::start();
    let proxy = Wayleave::start_after(&origin, "ulimit -n 160");
    assert_eq!(proxy.get("http://known.test/a").status, 200);
    let mut idle: Vec<_> = (0..300).map(|_| TcpStream::connect(proxy.proxy)).collect();
    eventually("there is no room", || {
        let refused = [("outcome", "refused"), ("reason", "connection_limit_reached")];
        proxy.metric("wayleave_requests_total", &refused) > 0.0
    });
    assert_eq!(proxy.admin_get("/livez").status, 200);
    let known = || proxy.metric("wayleave_robots_fetches_total", &[("result", "unreachable")]);
    assert_eq!(known(), 0.0);
    idle.clear();
    eventually("there is room again", || {
        let mut wire = proxy.connect();
        let request = crate::harness::Request::get("http://new.test/a").absolute_form();
        wire.try_send(request).is_ok()
            && wire.try_response(false).is_ok_and(|it| it.is_some_and(|it| it.status == 200))
    });
    assert_eq!(known(), 0.0, "nothing is said of the origin");
}

#[test]
fn a_limit_of_descriptors_that_is_too_low_is_warned_of() {
    let origin = Origin::start();
    let proxy = Wayleave::start_after(&origin, "ulimit -n 160");
    eventually("it is said", || proxy.log().contains("RLIMIT_NOFILE"));
}
