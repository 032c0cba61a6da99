//! Refusals: each row of the contract, and nothing of a refused request reaches an origin.

use crate::harness::client::raw;
use crate::harness::crawler::crawler;
use crate::harness::{Origin, Request, Wayleave, eventually};

#[test]
fn a_disallowed_request_is_refused_with_line_and_rule() {
    let origin = Origin::start();
    origin
        .site("shop.test")
        .robots("# ours\nUser-agent: *\nAllow: /private/ok\nDisallow: /private # keep out\n");
    let proxy = Wayleave::start(&origin);
    proxy.get("http://shop.test/private/a").expect_disallowed(
        "http://shop.test/robots.txt",
        4,
        "Disallow: /private",
    );
    proxy.get("https://shop.test/private/a").expect_disallowed(
        "https://shop.test/robots.txt",
        4,
        "Disallow: /private",
    );
    assert_eq!(proxy.get("http://shop.test/private/ok").status, 200);
    assert_eq!(
        origin.seen(),
        [
            "GET http://shop.test/robots.txt",
            "GET https://shop.test/robots.txt",
            "GET http://shop.test/private/ok"
        ]
    );
}

#[test]
fn a_refusal_says_whom_it_was_decided_for() {
    let origin = Origin::start();
    let robots = "User-agent: *\nDisallow:\n\nUser-agent: examplebot\nDisallow: /private\n";
    origin.site("shop.test").robots(robots);
    let proxy = Wayleave::start_with(&origin, |settings| {
        let news = crawler("news", "NewsBot").set("tokens", ["NewsBot", "ExampleBot"]);
        settings.with(news.set("owner", "news-team"))
    });
    let url = "http://shop.test/private/a?b=c";
    let problem = proxy.get_as("NewsBot/2", url).json();
    for (member, expected) in [
        ("crawler", "news"),
        ("owner", "news-team"),
        ("group", "examplebot"),
        ("url", url),
        ("rule", "Disallow: /private"),
    ] {
        assert_eq!(problem[member], expected, "{member} of {problem}");
    }
    assert_eq!(problem["tokens"], serde_json::json!(["NewsBot", "ExampleBot"]));
    let problem = proxy.get_as("ExampleBot/1", url).json();
    assert_eq!((&problem["crawler"], &problem["owner"]), (&"asserted".into(), &().into()));
}

/// A browser shows the body, and to it the page is the origin's.
#[test]
fn a_browser_gets_a_page() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/*<script>");
    let proxy = Wayleave::start(&origin);
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    let url = "http://shop.test/a<script>alert(1)</script>";
    let request = || Request::get(url).header("Accept", browser);
    let answer = proxy.exchange(&request());
    assert_eq!(answer.status, 403);
    assert_eq!(answer.proxy_status().error, "http_request_denied");
    assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
    let policy = answer.header("content-security-policy").expect("a policy");
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    let page = answer.text();
    assert!(!page.contains("<script"), "{page}");
    assert!(page.contains("Disallow: /*&lt;script&gt;"), "{page}");
    assert!(page.contains("http://shop.test/robots.txt"), "{page}");

    let head = proxy.exchange(&Request::new("HEAD", url).header("Accept", browser));
    assert_eq!(head.header("content-type"), answer.header("content-type"));
    let json = proxy.exchange(&request().header("Accept", "application/problem+json"));
    assert_eq!(json.header("content-type"), Some("application/problem+json"));
    assert_eq!(origin.seen(), ["GET http://shop.test/robots.txt"]);
}

#[test]
fn decisions_that_take_too_long_are_refusals() {
    let origin = Origin::start();
    let rules = (0..20_000).map(|number| format!("Allow: /*ab*ba*c{number}\n"));
    let robots = format!("User-agent: *\n{}", rules.collect::<String>());
    origin.site("shop.test").robots(robots);
    let proxy = Wayleave::start(&origin);
    let answer = proxy.get(&format!("http://shop.test/{}", "ab".repeat(7_000)));
    let refusal = Some("Disallowed by robots.txt");
    let problem = answer.expect_refusal(403, refusal, "http_request_denied");
    assert_eq!(problem["reason"], "too-costly");
    let detail = problem["detail"].as_str().expect("a text");
    assert!(detail.ends_with("takes too long"), "{detail}");
    assert_eq!(proxy.get("http://shop.test/ab").status, 200);
    assert_eq!(origin.seen(), ["GET http://shop.test/robots.txt", "GET http://shop.test/ab"]);
    let refused = [("outcome", "refused"), ("reason", "too-costly")];
    eventually("it is counted", || proxy.metric("wayleave_requests_total", &refused) == 1.0);
    eventually("it is logged", || proxy.log().contains("too-costly"));
}

#[test]
fn every_method_is_refused_and_no_body_leaves() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/");
    let proxy = Wayleave::start(&origin);
    for method in ["GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PROPFIND"] {
        let answer = proxy.exchange(&Request::new(method, "http://shop.test/a").body("payload"));
        answer.expect_disallowed("http://shop.test/robots.txt", 2, "Disallow: /");
    }
    let head = proxy.exchange(&Request::new("HEAD", "http://shop.test/a"));
    assert_eq!(
        (head.status, head.reason.as_str(), head.body.len()),
        (403, "Disallowed by robots.txt", 0)
    );
    assert_eq!(head.proxy_status().error, "http_request_denied");
    assert_eq!(origin.seen(), ["GET http://shop.test/robots.txt"]);
}

#[test]
fn each_refusal_has_its_own_id() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/");
    let proxy = Wayleave::start(&origin);
    let id = || {
        proxy.get("http://shop.test/a").json()["decision_id"].as_str().expect("a string").to_owned()
    };
    let (first, second) = (id(), id());
    assert_ne!(first, second);
    eventually("the log's events name both decisions", || {
        let log = proxy.log();
        log.contains(&first) && log.contains(&second)
    });
}

#[test]
fn a_crawler_is_identified_by_its_user_agent() {
    let origin = Origin::start();
    origin.site("shop.test").robots("User-agent: GoodBot\nAllow: /\n\nUser-agent: MJ12bot\nDisallow: /mj\n\nUser-agent: *\nDisallow: /\n");
    let proxy = Wayleave::start(&origin);
    let status =
        |agent: &str, path: &str| proxy.get_as(agent, &format!("http://shop.test{path}")).status;
    for agent in [
        "GoodBot/2.1",
        "goodbot",
        "Mozilla/5.0 (compatible; GoodBot/2.1; +http://good.test/bot)",
        "GoodBot/1 (+mailto:a@b)",
    ] {
        assert_eq!(status(agent, "/a"), 200, "{agent}");
    }
    for agent in [
        "GoodBotNews/1.0",
        "OtherBot",
        "Mozilla/5.0 (compatible; OtherBot/1.0; like GoodBot)",
        "curl/8.0",
    ] {
        assert_eq!(status(agent, "/a"), 403, "{agent}");
    }
    assert_eq!((status("MJ12bot/v1.4.8", "/mj"), status("MJ12bot/v1.4.8", "/a")), (403, 200));
}

#[test]
fn a_request_without_a_user_agent_obeys_the_group_for_all() {
    let origin = Origin::start();
    origin
        .site("shop.test")
        .robots("User-agent: GoodBot\nAllow: /\n\nUser-agent: *\nDisallow: /no\n");
    let proxy = Wayleave::start(&origin);
    let refused = raw(proxy.proxy, "GET http://shop.test/no HTTP/1.1\r\nHost: shop.test\r\n\r\n")
        .expect("a response");
    refused.expect_disallowed("http://shop.test/robots.txt", 5, "Disallow: /no");
    let allowed = raw(
        proxy.proxy,
        "GET http://shop.test/yes HTTP/1.1\r\nHost: shop.test\r\nConnection: close\r\n\r\n",
    )
    .expect("a response");
    assert_eq!(allowed.status, 200);
}

#[test]
fn every_spelling_of_a_disallowed_path_is_refused() {
    let origin = Origin::start();
    origin
        .site("shop.test")
        .robots("User-agent: *\nDisallow: /private\nDisallow: /b%61r\nDisallow: /*.php$\n");
    let proxy = Wayleave::start(&origin);
    let spellings = [
        "/private",
        "/%70rivate",
        "/%70%72ivate/x",
        "/a/../private",
        "/./private",
        "/a/./.././private/",
        "/a/%2e%2e/private",
        "/a/%2E./private",
        "/bar",
        "/b%61r",
        "/b%61%72",
        "/x.php",
        "/x%2Ephp",
        "/x.ph%70",
    ];
    for path in spellings {
        let answer = proxy.get(&format!("http://shop.test{path}"));
        assert_eq!(answer.status, 403, "{path}");
        assert_eq!(answer.json()["robots_url"], "http://shop.test/robots.txt");
    }
    assert_eq!(origin.seen(), ["GET http://shop.test/robots.txt"]);
    for path in ["/priv%2Fate", "/PRIVATE", "/x.php5", "/a/../ba", "/?private"] {
        assert_eq!(proxy.get(&format!("http://shop.test{path}")).status, 200, "{path}");
    }
}

#[test]
fn an_internal_address_is_refused_before_any_connection() {
    let origin = Origin::start();
    let internal = Origin::start_at("127.0.0.2");
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.resolve_to("internal.test", &internal));
    let port = internal.http.port();
    let urls = [
        "http://internal.test/".to_owned(),
        "http://internal.test/robots.txt".to_owned(),
        "https://internal.test/".to_owned(),
        format!("http://127.0.0.2:{port}/"),
        format!("http://[::ffff:127.0.0.2]:{port}/"),
        "http://10.0.0.1/".to_owned(),
        "http://192.168.0.1/".to_owned(),
        "http://172.16.0.1/".to_owned(),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://100.64.0.1/".to_owned(),
        "http://0.0.0.0/".to_owned(),
        format!("http://[::1]:{port}/"),
        "http://[fd00::1]/".to_owned(),
        "http://[fe80::1]/".to_owned(),
    ];
    for url in urls {
        let mut wire = proxy.connect();
        wire.send_get(&url);
        let problem = wire.response().expect_refusal(
            502,
            Some("Prohibited address"),
            "destination_ip_prohibited",
        );
        assert!(problem["retry_after"].is_null(), "{url}: {problem}");
        let detail = problem["detail"].as_str().expect("a sentence");
        assert!(detail.ends_with("see upstream.allow_private"), "{url}: {problem}");
    }
    assert_eq!(internal.connections(), 0, "{:?}", internal.seen());
    assert_eq!(origin.connections(), 0, "{:?}", origin.seen());
}

#[test]
fn other_spellings_of_an_internal_address_reach_nothing() {
    let origin = Origin::start();
    let internal = Origin::start_at("127.0.0.2");
    let proxy = Wayleave::start(&origin);
    for host in ["2130706434", "0x7f000002", "0177.0.0.2", "127.2", "127.0.2"] {
        let url = format!("http://{host}:{}/", internal.http.port());
        let answer = proxy.get(&url);
        assert!(matches!(answer.status, 400 | 502 | 503), "{url}: {answer:?}");
    }
    assert_eq!(internal.connections(), 0, "{:?}", internal.seen());
}

#[test]
fn an_internal_address_behind_a_tunnel_is_refused() {
    let origin = Origin::start();
    let internal = Origin::start_at("127.0.0.2");
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.resolve_to("internal.test", &internal));
    let mut wire = proxy.connect();
    let answer = wire.connect_tunnel("internal.test:443");
    if answer.status == 200 {
        let secured =
            wire.start_tls("internal.test", &proxy.ca_pem(), &["http/1.1"]).expect("trusted");
        let mut wire = secured.wire;
        wire.send(Request::get("https://internal.test/a").origin_form());
        wire.response().expect_refusal(
            502,
            Some("Prohibited address"),
            "destination_ip_prohibited",
        );
    } else {
        answer.expect_refusal(502, Some("Prohibited address"), "destination_ip_prohibited");
    }
    assert_eq!(internal.connections(), 0);
}

#[test]
fn other_schemes_are_not_implemented() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    for url in [
        "gopher://shop.test/pub/a",
        "gopher://shop.test/",
        "ws://shop.test/",
        "file:///etc/passwd",
        "javascript:alert(1)",
    ] {
        let answer = raw(proxy.proxy, format!("GET {url} HTTP/1.1\r\nHost: shop.test\r\n\r\n"))
            .expect("a response");
        answer.expect_refusal(501, None, "http_request_error");
    }
    assert_eq!(origin.connections(), 0);
}

#[test]
fn a_loop_is_detected_by_via() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    for via in ["1.1 wayleave", "1.0 fred, 1.1 wayleave (0.1)", "HTTP/2 wayleave, 1.1 other"] {
        let answer = proxy.exchange(&Request::get("http://shop.test/a").header("Via", via));
        answer.expect_refusal(502, None, "proxy_loop_detected");
    }
    assert_eq!(origin.connections(), 0);
    assert_eq!(
        proxy
            .exchange(
                &Request::get("http://shop.test/a")
                    .header("Via", "1.1 wayleaver, 1.1 not-wayleave")
            )
            .status,
        200
    );
}

#[test]
fn a_request_to_the_proxy_itself_is_refused() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let url = format!("http://{}/", proxy.proxy);
    let answer = proxy.get(&url);
    assert!((400..600).contains(&answer.status), "{answer:?}");
    assert_eq!(proxy.admin_get("/livez").status, 200);
}

#[test]
fn clients_cannot_reach_the_admin_listener() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("dns.overrides.\"inside.test\"", "\"127.0.0.1\"")
    });
    let port = proxy.admin.port();
    for host in ["127.0.0.1", "inside.test"] {
        let answer = proxy.get(&format!("http://{host}:{port}/metrics"));
        assert!((400..600).contains(&answer.status), "{host}: {answer:?}");
    }
}

#[test]
fn the_pseudonym_of_the_configuration_is_used() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| settings.set("proxy.name", "\"edge-7\""));
    assert_eq!(proxy.get("http://shop.test/a").header("via"), Some("1.1 edge-7"));
    let refused = proxy.exchange(&Request::get("http://shop.test/a").header("Via", "1.1 edge-7"));
    assert_eq!((refused.status, refused.proxy_status().proxy.as_str()), (502, "edge-7"));
}

#[test]
fn connections_beyond_the_limit_get_503() {
    let origin = Origin::start();
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.set("proxy.max_connections", "2"));
    let mut first = proxy.connect();
    let mut second = proxy.connect();
    for wire in [&mut first, &mut second] {
        wire.send_get("http://shop.test/a");
        assert_eq!(wire.response().status, 200);
    }
    let answer = proxy.get("http://shop.test/a");
    answer.expect_refusal(503, None, "connection_limit_reached");
    assert!(answer.header("retry-after").is_some(), "{answer:?}");
    drop(first);
    eventually("a connection is free again", || proxy.get("http://shop.test/a").status == 200);
}
