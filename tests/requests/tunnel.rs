//! HTTPS without interception: `https.mode` other than "intercept", and the hosts of `https.bypass`.

use serde_json::Value;

use crate::harness::client::reset_when_dropped;
use crate::harness::crawler::crawler;
use crate::harness::origin::reply::Step;
use crate::harness::tls::Authority;
use crate::harness::{Origin, Reply, Request, Wayleave, Wire, eventually};

/// Starts a proxy that tunnels blindly to origins where every path is allowed.
fn tunnelling(origin: &Origin) -> Wayleave {
    Wayleave::start_with(origin, |settings| settings.set("https.mode", "\"tunnel\""))
}

/// Opens a blind tunnel, and TLS with the origin itself inside.
#[track_caller]
fn end_to_end(proxy: &Wayleave, authority: &str) -> Wire {
    let mut wire = proxy.connect();
    let answer = wire.connect_tunnel(authority);
    assert_eq!(answer.status, 200, "CONNECT {authority}: {answer:?}");
    let host = authority.rsplit_once(':').expect("a port").0;
    wire.start_tls(host, Authority::trusted().pem.as_bytes(), &["http/1.1"])
        .expect("the origin's own certificate is trusted")
        .wire
}

#[track_caller]
fn get_inside(wire: &mut Wire, host: &str, path: &str) -> u16 {
    wire.send(Request::get(&format!("https://{host}{path}")).origin_form());
    wire.response().status
}

/// Returns the decisions about `CONNECT`s, the newest first.
#[track_caller]
fn connects(proxy: &Wayleave) -> Vec<Value> {
    let decisions = proxy.admin_get("/v1/decisions?limit=20").json();
    let list = decisions["decisions"].as_array().expect("a list");
    list.iter().filter(|entry| entry["method"] == "CONNECT").cloned().collect()
}

/// Returns the newest decision about a `CONNECT`.
#[track_caller]
fn decision(proxy: &Wayleave) -> Value {
    connects(proxy).into_iter().next().expect("a CONNECT is among them")
}

#[test]
fn a_tunnel_opens_where_every_path_is_allowed_and_is_blind() {
    let origin = Origin::start();
    origin
        .site("shop.test")
        .robots("User-agent: *\nDisallow:\n\nUser-agent: OtherBot\nDisallow: /\n");
    let proxy = tunnelling(&origin);
    let mut wire = end_to_end(&proxy, "shop.test:443");
    assert_eq!(get_inside(&mut wire, "shop.test", "/secret?q=1"), 200);
    let request = origin.only_request();
    assert_eq!(request.header("via"), None, "nothing was changed");
    let labels = [("outcome", "tunnelled"), ("reason", "no-matching-rule")];
    assert_eq!(proxy.metric("wayleave_requests_total", &labels), 1.0);
    let decision = decision(&proxy);
    assert_eq!(
        [&decision["outcome"], &decision["url"], &decision["origin"]],
        ["tunnelled", "shop.test:443", "https://shop.test"],
        "{decision}"
    );
    eventually("the decision log has it", || {
        let log = proxy.dir.path().join("state/decisions.jsonl");
        std::fs::read_to_string(log)
            .is_ok_and(|text| text.contains("\"tunnelled\"") && !text.contains("secret"))
    });
}

#[test]
fn no_tunnel_opens_where_any_path_is_disallowed() {
    let origin = Origin::start();
    origin.site("shop.test").robots("User-agent: *\nAllow: /a\nDisallow: /private/*.pdf$\n");
    let proxy = tunnelling(&origin);
    let answer = proxy.connect().connect_tunnel("shop.test:443");
    answer.expect_disallowed("https://shop.test/robots.txt", 3, "Disallow: /private/*.pdf$");
    assert_eq!(origin.seen(), ["GET https://shop.test/robots.txt"]);
    let labels = [("outcome", "refused"), ("reason", "rule")];
    assert_eq!(proxy.metric("wayleave_requests_total", &labels), 1.0);
    assert_eq!(decision(&proxy)["line"], 3);
}

#[test]
fn a_tunnel_needs_an_available_robots_txt() {
    let origin = Origin::start();
    origin.site("none.test").robots_reply(Reply::new(404));
    origin.site("down.test").robots_reply(Reply::new(500));
    let proxy = tunnelling(&origin);
    let mut wire = end_to_end(&proxy, "none.test:443");
    assert_eq!(get_inside(&mut wire, "none.test", "/a"), 200);
    let answer = proxy.connect().connect_tunnel("down.test:443");
    answer.expect_unreachable("https://down.test/robots.txt");
}

#[test]
fn a_tunnel_is_decided_for_the_crawler_that_opens_it() {
    let origin = Origin::start();
    origin.site("shop.test").robots("User-agent: *\nDisallow: /\n\nUser-agent: news\nAllow: /\n");
    let proxy = Wayleave::start_with(&origin, |settings| {
        let news = crawler("news", "news").matched_by("user_agent", "News/");
        settings.set("https.mode", "\"tunnel\"").with(news)
    });
    let refused = proxy.connect().connect_tunnel("shop.test:443");
    refused.expect_disallowed("https://shop.test/robots.txt", 2, "Disallow: /");
    let mut wire = proxy.connect();
    wire.send_connect("shop.test:443", "User-Agent: News/2\r\n");
    assert_eq!(wire.response_head().status, 200);
    let roots = Authority::trusted().pem.as_bytes();
    let mut wire = wire.start_tls("shop.test", roots, &[]).expect("end to end").wire;
    assert_eq!(get_inside(&mut wire, "shop.test", "/a"), 200);
    let labels = [("crawler", "news"), ("outcome", "tunnelled")];
    assert_eq!(proxy.metric("wayleave_requests_total", &labels), 1.0);
}

#[test]
fn the_organisations_rules_apply_to_tunnels() {
    let origin = Origin::start();
    origin.site("excepted.test").disallows("/");
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("https.mode", "\"tunnel\"").table(
            "[[rule]]\naction = \"refuse\"\nhosts = [\"partly.test\"]\npaths = [\"/never\"]\nreason = \"ours\"\n\
             [[rule]]\naction = \"allow\"\nhosts = [\"excepted.test\"]\nowner = \"o@x.test\"\nreason = \"r\"\nexpires = \"2999-01-01\"\n",
        )
    });
    let answer = proxy.connect().connect_tunnel("partly.test:443");
    answer.expect_refusal(403, Some("Refused by policy"), "http_request_denied");
    assert_eq!(origin.connections(), 0);
    let mut wire = end_to_end(&proxy, "excepted.test:443");
    assert_eq!(get_inside(&mut wire, "excepted.test", "/a"), 200);
    assert_eq!(decision(&proxy)["reason"], "policy-exception");
}

#[test]
fn a_tunnel_is_limited_to_its_host() {
    let origin = Origin::start();
    origin.site("other.test").disallows("/");
    let proxy = tunnelling(&origin);
    let mut wire = proxy.connect();
    assert_eq!(wire.connect_tunnel("shop.test:443").status, 200);
    let roots = Authority::trusted().pem.as_bytes();
    assert!(wire.start_tls("other.test", roots, &[]).is_err());
    let labels = [("outcome", "refused"), ("reason", "misdirected")];
    eventually("it is counted", || proxy.metric("wayleave_requests_total", &labels) == 1.0);
    assert_eq!(origin.seen(), ["GET https://shop.test/robots.txt"]);
}

#[test]
fn plain_http_inside_a_tunnel_is_decided_by_request() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("https.mode", "\"tunnel\"").resolve("mixed.test:8080", origin.http)
    });
    origin.site("shop.test").disallows("/private");
    let answer = proxy.connect().connect_tunnel("shop.test:80");
    answer.expect_disallowed("http://shop.test/robots.txt", 2, "Disallow: /private");
    let mut wire = proxy.connect();
    assert_eq!(wire.connect_tunnel("open.test:80").status, 200);
    wire.send(Request::get("http://open.test/a").origin_form());
    assert_eq!(wire.response().status, 200);
    assert_eq!(origin.wait_for_target("/a").header("via"), Some("1.1 wayleave"));
    origin.site("open.test").disallows("/late");
    // A decision for http does not apply to https.
    let mut wire = proxy.connect();
    assert_eq!(wire.connect_tunnel("open.test:80").status, 200);
    let roots = Authority::trusted().pem.as_bytes();
    assert!(wire.start_tls("open.test", roots, &[]).is_err());
    assert!(origin.requests().iter().all(|request| request.scheme == "http"));
}

#[test]
fn an_unreachable_origin_is_reported_before_the_tunnel_opens() {
    let origin = Origin::start();
    let proxy = tunnelling(&origin);
    assert_eq!(proxy.connect().connect_tunnel("shop.test:443").status, 200);
    origin.stop_listening();
    let answer = proxy.connect().connect_tunnel("shop.test:443");
    answer.expect_refusal(502, None, "connection_refused");
    // The first tunnel, which nobody used, failed as well, for another reason.
    let refused = [("outcome", "failed"), ("reason", "connection_refused")];
    assert_eq!(proxy.metric("wayleave_requests_total", &refused), 1.0);
}

#[test]
fn https_is_refused_in_mode_refuse() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("https.mode", "\"refuse\"").set("https.bypass", "[\"bank.test\"]")
    });
    let answer = proxy.connect().connect_tunnel("shop.test:443");
    answer.expect_refusal(403, Some("HTTPS refused"), "http_request_denied");
    let url = "https://shop.test/a";
    let mut wire = proxy.connect();
    wire.send_get(url);
    wire.response().expect_refusal(403, None, "http_request_denied");
    assert_eq!(origin.connections(), 0);
    assert_eq!(proxy.get("http://shop.test/a").status, 200);
    let mut wire = end_to_end(&proxy, "bank.test:443");
    assert_eq!(get_inside(&mut wire, "bank.test", "/a"), 200);
}

#[test]
fn hosts_of_the_bypass_are_tunnelled() {
    let origin = Origin::start();
    origin.site("*").disallows("/");
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("https.bypass", "[\"bank.test\", \"*.pay.test\"]")
    });
    for host in ["bank.test", "BANK.test", "a.b.pay.test"] {
        let mut wire = end_to_end(&proxy, &format!("{host}:443"));
        assert_eq!(get_inside(&mut wire, host, "/a"), 200);
    }
    assert!(!origin.seen().iter().any(|line| line.ends_with("robots.txt")));
    let labels = [("outcome", "tunnelled"), ("reason", "bypass")];
    assert_eq!(proxy.metric("wayleave_requests_total", &labels), 3.0);
    assert_eq!(decision(&proxy)["reason"], "bypass");
    for host in ["pay.test", "www.bank.test", "xpay.test", "bank.test.evil.test"] {
        let answer = proxy.get(&format!("https://{host}/a"));
        answer.expect_disallowed(&format!("https://{host}/robots.txt"), 2, "Disallow: /");
    }
    // The bypass applies to HTTPS only.
    assert_eq!(proxy.get("http://bank.test/a").status, 403);
}

#[test]
fn bypassed_hosts_still_obey_egress_checks_rules_and_identity() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .set("https.bypass", "[\"bank.test\", \"inside.test\", \"ours.test\"]")
            .set("dns.overrides.\"inside.test\"", "\"127.0.0.2\"")
            .table("[[rule]]\naction = \"refuse\"\nhosts = [\"ours.test\"]\nreason = \"ours\"\n")
    });
    let answer = proxy.connect().connect_tunnel("inside.test:443");
    answer.expect_refusal(502, None, "destination_ip_prohibited");
    let answer = proxy.connect().connect_tunnel("ours.test:443");
    answer.expect_refusal(403, Some("Refused by policy"), "http_request_denied");
    let mut wire = proxy.connect();
    wire.send_connect("bank.test:443", "User-Agent: Googlebot/2.1\r\n");
    wire.response().expect_refusal(403, None, "http_request_denied");
    assert_eq!(origin.connections(), 0);
}

#[test]
fn a_blind_tunnel_passes_any_bytes_both_ways_and_half_closes() {
    let origin = Origin::start();
    let reply = Reply::new(200).step(Step::Echo);
    origin.site("bank.test").page("/echo", reply);
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.set("https.bypass", "[\"bank.test\"]"));
    let mut wire = proxy.connect();
    assert_eq!(wire.connect_tunnel("bank.test:80").status, 200);
    wire.send(Request::get("http://bank.test/echo").origin_form());
    wire.send("one");
    wire.response_head();
    wire.send("two");
    wire.end_sending();
    // The origin's side is open until it has sent everything.
    let mut all = Vec::new();
    while !String::from_utf8_lossy(&all).contains("onetwo") {
        all.extend(wire.bytes(1));
    }
    wire.expect_close();
}

#[test]
fn a_silent_tunnel_ends() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("https.bypass", "[\"bank.test\"]").set("proxy.idle_timeout", "\"3s\"")
    });
    let mut wire = proxy.connect();
    assert_eq!(wire.connect_tunnel("bank.test:443").status, 200);
    wire.expect_close();
}

/// A way in which a tunnel ends: its name, how the client ends it, and the outcome and the reason in the log.
type TunnelEnding<'a> = (&'a str, fn(Wire), [&'a str; 2]);

/// Opens a blind tunnel for each ending, and expects one decision of each.
#[track_caller]
fn expect_unused(proxy: &Wayleave, endings: &[TunnelEnding<'_>]) {
    for (number, (name, end, decided)) in endings.iter().enumerate() {
        let mut wire = proxy.connect();
        assert_eq!(wire.connect_tunnel("shop.test:443").status, 200, "{name}");
        end(wire);
        eventually(name, || connects(proxy).len() > number);
        let decisions = connects(proxy);
        assert_eq!(decisions.len(), number + 1, "{name}: {decisions:?}");
        let newest = &decisions[0];
        assert_eq!([&newest["outcome"], &newest["reason"]], *decided, "{name}: {newest}");
    }
}

#[test]
fn a_blind_tunnel_is_recorded_though_its_client_leaves() {
    let origin = Origin::start();
    let left = ["failed", "client-closed"];
    expect_unused(
        &tunnelling(&origin),
        &[
            ("an end", drop, left),
            ("a reset", |wire| reset_when_dropped(&wire.tcp), left),
            ("an end in the ClientHello", |mut wire| wire.send([0x16, 3, 1]), left),
        ],
    );
}

#[test]
fn a_blind_tunnel_is_recorded_though_no_hello_comes() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("https.mode", "\"tunnel\"").set("proxy.header_timeout", "\"1s\"")
    });
    let late = ["refused", "head-timeout"];
    expect_unused(
        &proxy,
        &[
            ("silence", |mut wire| wire.expect_close(), late),
            (
                "silence in the ClientHello",
                |mut wire| {
                    wire.send([0x16, 3, 1]);
                    wire.expect_close();
                },
                late,
            ),
            (
                "a record that is too long",
                |mut wire| {
                    wire.send([0x16, 3, 1, 0xff, 0xff]);
                    wire.expect_close();
                },
                ["refused", "malformed-request"],
            ),
        ],
    );
}

#[test]
fn refusals_of_tunnels_are_only_observed_in_observe_mode() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/private");
    for mode in ["tunnel", "refuse"] {
        let proxy = Wayleave::start_with(&origin, |settings| {
            settings.set("https.mode", &format!("{mode:?}")).set("proxy.mode", "\"observe\"")
        });
        let mut wire = end_to_end(&proxy, "shop.test:443");
        assert_eq!(get_inside(&mut wire, "shop.test", "/private"), 200, "{mode}");
        let decision = decision(&proxy);
        assert_eq!(
            (&decision["outcome"], &decision["would_be"]),
            (&Value::from("observed"), &Value::from(403)),
            "{mode}: {decision}"
        );
    }
}

#[test]
fn the_admin_api_previews_decisions_about_tunnels() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/private");
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("https.mode", "\"tunnel\"").set("https.bypass", "[\"bank.test\"]")
    });
    let preview = |url: &str| {
        let answer =
            proxy.admin_get(&format!("/v1/decision?url={url}&user_agent=ExampleBot")).json();
        [answer["outcome"].clone(), answer["reason"].clone()]
    };
    assert_eq!(preview("https://shop.test/a"), ["refused", "rule"]);
    assert_eq!(preview("http://shop.test/a"), ["forwarded", "no-matching-rule"]);
    assert_eq!(preview("https://bank.test/a"), ["tunnelled", "bypass"]);
}

#[test]
fn the_mode_changes_with_the_file() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("https://shop.test/a").status, 200);
    let refusing = proxy.settings.clone().set("https.mode", "\"refuse\"");
    proxy.write_config(&refusing.to_toml());
    eventually("HTTPS is refused", || {
        proxy.connect().connect_tunnel("shop.test:443").status == 403
    });
}
