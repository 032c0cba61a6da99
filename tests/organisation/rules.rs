//! The organisation's own rules: the first that matches applies, before robots.txt.

use crate::harness::wayleave::Settings;
use crate::harness::{Origin, Request, Response, Wayleave, eventually};
use crate::preferences::purposes::{CORPUS, INDEX, PLAIN, example_bot};

const RULES: &str = r#"
[[rule]]
action = "refuse"
hosts = [".shop.test"]
paths = ["/carts/"]
methods = ["POST"]
reason = "no orders"
owner = "shop@example.com"
[[rule]]
action = "allow"
hosts = ["*.partner.test"]
paths = ["/feeds/"]
crawlers = ["news"]
owner = "data@example.com"
reason = "contract 2026-17"
expires = "2999-01-01"
[[rule]]
action = "refuse"
legal = true
hosts = ["gone-*.test"]
owner = "legal@example.com"
[[rule]]
action = "allow"
hosts = ["*"]
owner = "data@example.com"
reason = "an old exception"
expires = "2020-01-01"
"#;

/// Adds two crawlers and the rules.
fn with_rules(settings: Settings) -> Settings {
    settings.crawler("news", "NewsBot").crawler("images", "ImageBot").table(RULES)
}

/// Starts three sites: a shop, a partner that disallows everything, and one that no crawler may request.
fn sites() -> Origin {
    let origin = Origin::start();
    origin.site("www.shop.test");
    let everything = "User-agent: *\nDisallow: /\n";
    origin.site("api.partner.test").robots(everything);
    origin.site("gone-7.test");
    origin
}

fn send(proxy: &Wayleave, agent: &str, method: &str, url: &str) -> Response {
    proxy.exchange(&Request::new(method, url).agent(agent))
}

#[test]
fn a_rule_refuses_what_robots_txt_allows() {
    let origin = sites();
    let proxy = Wayleave::start_with(&origin, with_rules);
    for agent in ["NewsBot/1", "Other/1"] {
        let answer = send(&proxy, agent, "POST", "https://www.shop.test/x/../%63arts/1");
        let problem = answer.expect_refusal(403, Some("Refused by policy"), "http_request_denied");
        assert_eq!(problem["reason"], "policy-rule");
        let detail = "[[rule]] 1: no orders (owner shop@example.com)";
        assert_eq!(problem["detail"], detail);
        assert_eq!(send(&proxy, agent, "GET", "http://www.shop.test/carts/1").status, 200);
    }
    assert!(!origin.seen().iter().any(|seen| seen.starts_with("POST")));
}

#[test]
fn a_rule_applies_to_every_spelling_of_its_hosts() {
    let origin = Origin::start();
    for name in ["www.xn--bcher-kva.test", "a.dotted.test", "127.0.0.1", "[::ffff:7f00:1]"] {
        origin.site(name);
    }
    let rule = "[[rule]]\naction = \"refuse\"\nhosts = [\"*.B\u{fc}cher.test\", \"*.dotted.test.\", \"127.0.0.1\"]\n";
    let port = origin.http.port();
    let proxy = Wayleave::start_with(&origin, |settings| settings.table(rule));
    for host in [
        "www.xn--bcher-kva.test".to_owned(),
        "a.dotted.test.".to_owned(),
        format!("127.0.0.1:{port}"),
        format!("0x7f.1:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        format!("[::FFFF:7f00:1]:{port}"),
    ] {
        let answer = send(&proxy, "NewsBot/1", "GET", &format!("http://{host}/a"));
        assert_eq!(answer.status, 403, "{host}");
        assert_eq!(answer.json()["reason"], "policy-rule", "{host}");
    }
    assert!(origin.seen().is_empty());
}

#[test]
fn an_exception_allows_what_robots_txt_disallows() {
    let origin = sites();
    let proxy = Wayleave::start_with(&origin, with_rules);
    let get = |agent, url| send(&proxy, agent, "GET", url).status;
    assert_eq!(get("NewsBot/1", "http://api.partner.test/feeds/1"), 200);
    assert_eq!(get("NewsBot/1", "http://api.partner.test/feeds/../1"), 403);
    assert_eq!(get("ImageBot/1", "http://api.partner.test/feeds/1"), 403);
    let query = "/v1/decision?crawler=news&url=http://api.partner.test/feeds/2";
    let decision = proxy.admin_get(query).json();
    assert_eq!(decision["reason"], "policy-exception", "{decision}");
    assert_eq!(decision["policy"]["number"], 2);
    assert_eq!(decision["policy"]["reason"], "contract 2026-17");
}

#[test]
fn legal_refusals_are_451_and_name_who_blocks() {
    let origin = sites();
    let proxy = Wayleave::start_with(&origin, with_rules);
    let answer = send(&proxy, "ImageBot/1", "GET", "http://gone-7.test/");
    answer.expect_refusal(451, None, "http_request_denied");
    let link = "<mailto:legal@example.com>; rel=\"blocked-by\"";
    assert_eq!(answer.header("link"), Some(link));
    assert_eq!(origin.seen(), Vec::<String>::new(), "robots.txt is not fetched");
    let robots = send(&proxy, "ImageBot/1", "GET", "http://gone-7.test/robots.txt");
    assert_ne!(robots.status, 451, "robots.txt may always be fetched");
}

#[test]
fn rules_exempt_only_get_and_head_of_robots_txt() {
    let origin = sites();
    let rule =
        "[[rule]]\naction = \"refuse\"\nhosts = [\"paths.test\"]\npaths = [\"/robots.txt\"]\n";
    let proxy = Wayleave::start_with(&origin, |settings| with_rules(settings).table(rule));
    for (host, status) in [("gone-7.test", 451), ("paths.test", 403)] {
        let url = format!("http://{host}/robots.txt");
        for (method, content) in [
            ("POST", "hello"),
            ("POST", ""),
            ("PUT", "hello"),
            ("PATCH", "hello"),
            ("DELETE", ""),
            ("DELETE", "hello"),
            ("OPTIONS", ""),
            ("TRACE", ""),
            ("GET", "hello"),
            ("HEAD", "hello"),
        ] {
            let answer = proxy.exchange(&Request::new(method, &url).body(content));
            assert_eq!(answer.status, status, "{method} {content:?} {url}");
        }
        for method in ["GET", "HEAD"] {
            assert_eq!(proxy.exchange(&Request::new(method, &url)).status, 404);
        }
        let decision = proxy.admin_get(&format!("/v1/decision?method=POST&url={url}")).json();
        assert_eq!(decision["reason"], "policy-rule", "{decision}");
    }
    for request in origin.requests() {
        let is_read = ["GET", "HEAD"].contains(&request.method.as_str());
        assert!(is_read && !request.has_content(), "{request:?}");
    }
}

#[test]
fn another_spelling_of_a_method_does_not_evade_its_rule() {
    let origin = sites();
    let proxy = Wayleave::start_with(&origin, with_rules);
    for (method, status) in [("POST", 403), ("post", 400), ("Post", 400), ("pOST", 400)] {
        let url = "http://www.shop.test/carts/1";
        let answer = proxy.exchange(&Request::new(method, url));
        assert_eq!(answer.status, status, "{method}");
    }
    let arrived = origin.seen();
    assert!(!arrived.iter().any(|line| line.contains("/carts/")), "{arrived:?}");
}

/// An exception about training for one site, and a rule against it for another.
const BY_PURPOSE: &str = r#"
[[rule]]
action = "allow"
hosts = ["agreed.test"]
purposes = ["train-ai", "tdm"]
owner = "data@example.com"
reason = "contract 2026-18"
expires = "2999-01-01"
[[rule]]
action = "refuse"
hosts = ["kept.test"]
purposes = ["train-ai"]
"#;

#[test]
fn a_rule_can_be_limited_to_purposes() {
    let origin = Origin::start();
    let site = origin.site("agreed.test");
    site.robots("User-agent: *\nDisallow: /closed/\nContent-Signal: ai-train=no\n");
    origin.site("kept.test");
    let crawlers = [
        example_bot("index", INDEX).purposes(["search", "train-ai"]),
        example_bot("corpus", CORPUS).purposes(["train-ai"]),
        example_bot("plain", PLAIN),
    ];
    let proxy = Wayleave::start_with(&origin, |settings| {
        let settings = settings.set("https.bypass", "[\"kept.test\"]");
        settings.table(BY_PURPOSE).with_all(crawlers)
    });
    // The exception is about training only: for search, too, the site's preference applies.
    for (agent, url, reason) in [
        (CORPUS, "https://agreed.test/a", None),
        (CORPUS, "https://agreed.test/closed/a", None),
        (INDEX, "https://agreed.test/a", Some("preference")),
        (PLAIN, "https://agreed.test/a", None),
        (PLAIN, "https://agreed.test/closed/a", Some("rule")),
        (CORPUS, "http://kept.test/a", Some("policy-rule")),
        (INDEX, "http://kept.test/a", Some("policy-rule")),
        (PLAIN, "http://kept.test/a", None),
    ] {
        let before = origin.seen().len();
        let answer = proxy.get_as(agent, url);
        match reason {
            None => assert_eq!(answer.status, 200, "{agent} {url}"),
            Some(reason) => assert_eq!(answer.json()["reason"], reason, "{agent} {url}"),
        }
        let arrived = origin.seen().split_off(before);
        assert_eq!(arrived.contains(&format!("GET {url}")), reason.is_none());
    }
    for (agent, status) in [(CORPUS, 403), (PLAIN, 200)] {
        let mut wire = proxy.connect();
        wire.send_connect("kept.test:443", &format!("User-Agent: {agent}\r\n"));
        assert_eq!(wire.response_head().status, status, "{agent}");
    }
    for (query, reason) in [
        ("crawler=plain&purpose=tdm", "policy-exception"),
        ("user_agent=Other/1&purpose=train-ai,tdm", "policy-exception"),
        ("crawler=corpus&purpose=search", "no-matching-rule"),
        ("crawler=corpus&purpose=search,train-ai", "preference"),
    ] {
        let path = format!("/v1/decision?url=https://agreed.test/a&{query}");
        let decision = proxy.admin_get(&path).json();
        assert_eq!(decision["reason"], reason, "{query}: {decision}");
    }
    let rules = proxy.admin_get("/v1/rules").json();
    assert_eq!(rules["rules"][0]["purposes"], serde_json::json!(["train-ai", "tdm"]), "{rules}");
}

#[test]
fn an_expired_exception_has_no_effect_and_is_reported() {
    let origin = sites();
    let proxy = Wayleave::start_with(&origin, with_rules);
    let answer = send(&proxy, "Other/1", "GET", "http://api.partner.test/");
    assert_eq!(answer.status, 403);
    let rules = |state| proxy.metric("wayleave_rules", &[("state", state)]);
    assert_eq!((rules("active"), rules("expired")), (3.0, 1.0));
    let next = proxy.metric("wayleave_exception_expiry_timestamp_seconds", &[]);
    assert_eq!(next, 32472144000.0, "2999-01-01");
    eventually("it is logged", || proxy.log().contains("this rule has expired"));
}

#[test]
fn rules_are_only_observed_in_observe_mode() {
    let origin = sites();
    let proxy = Wayleave::start_with(&origin, |settings| {
        with_rules(settings).set("proxy.mode", "\"observe\"")
    });
    let url = "http://www.shop.test/carts/1";
    assert_eq!(send(&proxy, "Other/1", "POST", url).status, 200);
    eventually("it is counted", || {
        let observed = [("outcome", "observed"), ("reason", "policy-rule")];
        proxy.metric("wayleave_requests_total", &observed) == 1.0
    });
}

#[test]
fn legal_rules_are_enforced_in_observe_mode() {
    let origin = sites();
    origin.site("both.test").disallows("/");
    let both = r#"
[[rule]]
action = "refuse"
hosts = ["both.test"]
[[rule]]
action = "refuse"
legal = true
owner = "legal@example.com"
hosts = ["both.test"]
paths = ["/gone"]
[[rule]]
action = "refuse"
legal = true
owner = "legal@example.com"
hosts = ["both.test"]
crawlers = ["images"]
"#;
    let proxy = Wayleave::start_with(&origin, |settings| {
        with_rules(settings)
            .set("proxy.mode", "\"observe\"")
            .set("https.bypass", "[\"gone-8.test\", \"both.test\"]")
            .table(both)
    });
    for (agent, url, status) in [
        ("Other/1", "http://gone-7.test/", 451),
        ("NewsBot/1", "https://gone-7.test/a", 451),
        // The reserved token would refuse it as well, but is only observed.
        ("Googlebot/2.1", "http://gone-7.test/", 451),
        // The first rule that matches is only observed, which does not lift the second.
        ("Other/1", "http://both.test/gone", 451),
        ("Other/1", "http://both.test/a", 200),
        ("ImageBot/1", "http://both.test/a", 451),
    ] {
        assert_eq!(send(&proxy, agent, "GET", url).status, status, "{agent} {url}");
    }
    let tunnel = proxy.connect().connect_tunnel("gone-8.test:443");
    assert_eq!(tunnel.status, 451);
    let pages = origin.seen();
    let pages: Vec<_> = pages.iter().filter(|seen| !seen.ends_with("/robots.txt")).collect();
    assert_eq!(pages, ["GET http://both.test/a"]);
    let decision = proxy.admin_get("/v1/decision?url=http://gone-7.test/").json();
    assert_eq!(decision["outcome"], "refused", "{decision}");
    assert_eq!(decision["status"], 451, "{decision}");
}
