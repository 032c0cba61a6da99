//! Origins that say what is left of their quota rest until there is more; clients are told their own pace.

use crate::harness::wayleave::Settings;
use crate::harness::{Origin, Reply, Request, Response, Wayleave, Wire};

fn start(origin: &Origin, change: impl FnOnce(Settings) -> Settings) -> Wayleave {
    Wayleave::start_with(origin, |settings| change(settings.crawler("news", "NewsBot")))
}

fn get(proxy: &Wayleave, url: &str) -> Response {
    proxy.get_as("NewsBot/1", url)
}

/// Returns the `Retry-After` of a refusal because the origin rests.
#[track_caller]
fn expect_rest(answer: &Response) -> u64 {
    let problem = answer.expect_refusal(429, Some("Crawl delay"), "http_request_denied");
    assert_eq!(problem["reason"], "origin-rests");
    problem["retry_after"].as_u64().expect("a number of seconds")
}

/// Returns all values of a field.
fn lines<'a>(answer: &'a Response, name: &str) -> Vec<&'a str> {
    let named = answer.headers.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name));
    named.map(|(_, value)| value.as_str()).collect()
}

type Fields = &'static [(&'static str, &'static str)];

/// Returns a page whose response has these fields.
fn page(fields: &[(&str, &str)]) -> Reply {
    fields.iter().fold(Reply::text("page"), |reply, (name, value)| reply.header(name, value))
}

#[test]
fn an_origin_rests_when_nothing_is_left() {
    let origin = Origin::start();
    let forms: [(&str, Fields, u64); 5] = [
        ("standard", &[("RateLimit", "\"default\";r=0;t=100")], 100),
        ("draft7", &[("RateLimit", "limit=9, remaining=0, reset=100")], 100),
        ("draft6", &[("RateLimit-Remaining", "0"), ("RateLimit-Reset", "100")], 100),
        ("x", &[("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "100")], 100),
        ("endless", &[("RateLimit", "\"daily\";r=0;t=86400")], 300),
    ];
    for (host, fields, _) in forms {
        origin.site(&format!("{host}.test")).page("/a", page(fields));
    }
    let proxy = start(&origin, |settings| settings);
    for (host, fields, rest) in forms {
        let first = get(&proxy, &format!("http://{host}.test/a"));
        assert_eq!((first.status, first.text()), (200, "page".to_owned()));
        for (name, value) in fields {
            assert_eq!(lines(&first, name), [*value], "{host}");
        }
        let next = get(&proxy, &format!("http://{host}.test/b"));
        let retry_after = expect_rest(&next);
        assert!((rest - 50..=rest).contains(&retry_after), "{host}: {retry_after}");
        // The proxy says so in the same field.
        let told = next.header("RateLimit").expect("it is told");
        assert_eq!(told, format!("\"wayleave\";r=0;t={retry_after}"), "{host}");
        assert_eq!(next.header("RateLimit-Policy"), None, "{host}: it has no delay");
        assert_eq!(origin.count_gets(&format!("http://{host}.test/b")), 0);
        // Every crawler's requests count, but another origin's do not.
        expect_rest(&proxy.get_as("OtherBot/1", &format!("http://{host}.test/b")));
        assert_eq!(get(&proxy, &format!("https://{host}.test/b")).status, 200);
    }
}

#[test]
fn no_origin_rests_without_reason() {
    let origin = Origin::start();
    let forms: [(&str, Fields); 5] = [
        ("left", &[("RateLimit", "\"default\";r=1;t=100")]),
        ("cached", &[("RateLimit", "\"default\";r=0;t=100"), ("Age", "7")]),
        ("untimed", &[("RateLimit", "\"default\";r=0")]),
        ("malformed", &[("RateLimit", "\"default\";r=0;t=100,")]),
        ("policy", &[("RateLimit-Policy", "\"default\";q=0;w=100")]),
    ];
    for (host, fields) in forms {
        origin.site(&format!("{host}.test")).page("/a", page(fields));
    }
    let proxy = start(&origin, |settings| settings);
    for (host, _) in forms {
        for _ in 0..2 {
            let answer = get(&proxy, &format!("http://{host}.test/a"));
            assert_eq!(answer.status, 200, "{host}");
        }
    }
    // Neither if the operator wants it otherwise.
    let exhausted = page(&[("RateLimit", "\"default\";r=0;t=100")]);
    origin.site("standard.test").page("/a", exhausted);
    for (key, value) in
        [("politeness.rate_limit_fields", "false"), ("politeness.crawl_delay", "\"ignore\"")]
    {
        let proxy = start(&origin, |settings| settings.set(key, value));
        for _ in 0..2 {
            assert_eq!(get(&proxy, "http://standard.test/a").status, 200, "{key}");
        }
    }
}

#[test]
fn retry_after_counts_before_the_quota() {
    let origin = Origin::start();
    let limited = |fields: &[(&str, &str)]| {
        let mut reply = page(fields);
        reply.status = 429;
        reply
    };
    let quota = ("RateLimit", "\"default\";r=0;t=250");
    origin.site("both.test").page("/a", limited(&[quota, ("Retry-After", "60")]));
    origin.site("quota.test").page("/a", limited(&[quota]));
    let proxy = start(&origin, |settings| settings);
    for (host, rest) in [("both", 1..=60), ("quota", 100..=250)] {
        assert_eq!(get(&proxy, &format!("http://{host}.test/a")).status, 429);
        let retry_after = expect_rest(&get(&proxy, &format!("http://{host}.test/b")));
        assert!(rest.contains(&retry_after), "{host}: {retry_after}");
    }
}

#[test]
fn clients_are_told_the_pace_of_a_slow_origin() {
    let origin = Origin::start();
    origin.site("slow.test").robots("User-agent: *\nCrawl-delay: 100\n");
    origin.site("quick.test").robots("User-agent: *\nCrawl-delay: 0.9\n");
    origin.site("free.test");
    let proxy = start(&origin, |settings| settings);
    for scheme in ["http", "https"] {
        let first = get(&proxy, &format!("{scheme}://slow.test/a"));
        assert_eq!(first.status, 200);
        assert_eq!(lines(&first, "RateLimit-Policy"), ["\"wayleave\";q=1;w=100"]);
        assert_eq!(lines(&first, "RateLimit"), ["\"wayleave\";r=0;t=100"]);
        let refused = get(&proxy, &format!("{scheme}://slow.test/b"));
        let problem = refused.expect_refusal(429, Some("Crawl delay"), "http_request_denied");
        assert_eq!(lines(&refused, "RateLimit-Policy"), ["\"wayleave\";q=1;w=100"]);
        let expected = format!("\"wayleave\";r=0;t={}", problem["retry_after"]);
        assert_eq!(lines(&refused, "RateLimit"), [expected]);
    }
    let quick = get(&proxy, "http://quick.test/");
    assert_eq!(lines(&quick, "RateLimit-Policy"), ["\"wayleave\";q=1;w=1"]);
    assert_eq!(lines(&quick, "RateLimit"), ["\"wayleave\";r=0;t=1"]);
    let free = get(&proxy, "http://free.test/");
    assert_eq!((free.header("RateLimit"), free.header("RateLimit-Policy")), (None, None));
    // The name is the proxy's, so that two in a chain can be told apart.
    let proxy = start(&origin, |settings| {
        settings.set("proxy.name", "\"edge-1\"").set("politeness.min_delay", "\"90s\"")
    });
    assert_eq!(lines(&get(&proxy, "http://free.test/"), "RateLimit"), ["\"edge-1\";r=0;t=90"]);
    let silent = start(&origin, |settings| settings.set("politeness.rate_limit_fields", "false"));
    let answer = get(&silent, "http://slow.test/a");
    assert_eq!((answer.header("RateLimit"), answer.header("RateLimit-Policy")), (None, None));
    assert_eq!(get(&silent, "http://slow.test/a").header("RateLimit"), None);
}

#[test]
fn the_origins_rate_limits_are_kept_and_added_to() {
    let origin = Origin::start();
    let policies = [("RateLimit-Policy", "\"burst\";q=9;w=5")];
    let list = [("RateLimit", "\"burst\";r=8;t=5"), ("RateLimit", "\"daily\";r=99;t=3600")];
    let older = [("RateLimit-Policy", "9;w=5"), ("RateLimit", "limit=9, remaining=8, reset=5")];
    for (host, reply) in [
        ("list", page(&[&policies[..], &list[..]].concat())),
        ("older", page(&older)),
        ("exhausted", page(&[("RateLimit", "\"burst\";r=0;t=120")])),
    ] {
        let site = origin.site(&format!("{host}.test"));
        site.robots("User-agent: *\nCrawl-delay: 100\n").page("/", reply);
    }
    let proxy = start(&origin, |settings| settings);
    let (own_policy, own) = ("\"wayleave\";q=1;w=100", "\"wayleave\";r=0;t=100");
    let list = get(&proxy, "http://list.test/");
    assert_eq!(lines(&list, "RateLimit"), ["\"burst\";r=8;t=5", "\"daily\";r=99;t=3600", own]);
    assert_eq!(lines(&list, "RateLimit-Policy"), ["\"burst\";q=9;w=5", own_policy]);
    // A dictionary takes no member of a list. The policy of the same draft happens to be a list, too.
    let older = get(&proxy, "http://older.test/");
    assert_eq!(lines(&older, "RateLimit"), ["limit=9, remaining=8, reset=5"]);
    assert_eq!(lines(&older, "RateLimit-Policy"), ["9;w=5", own_policy]);
    // The rest is longer than the delay.
    let exhausted = get(&proxy, "http://exhausted.test/");
    let expected = ["\"burst\";r=0;t=120", "\"wayleave\";r=0;t=120"];
    assert_eq!(lines(&exhausted, "RateLimit"), expected);
}

/// Sends a GET from the client's own address with these credentials, if any.
fn get_from(proxy: &Wayleave, client: u8, path: &str, credentials: &str) -> Response {
    let mut wire = Wire::connect_from([127, 0, 0, client], proxy.proxy);
    let request = Request::get(&format!("http://api.test{path}")).agent("NewsBot/1");
    let request =
        if credentials.is_empty() { request } else { request.header("Authorization", credentials) };
    wire.send(request.absolute_form());
    wire.response()
}

#[test]
fn a_quota_of_one_clients_own_rests_that_client_alone() {
    for (fields, [one, two]) in [
        ([("RateLimit", "\"key\";r=0;t=200")], ["Bearer a", "Bearer b"]),
        ([("RateLimit", "\"key\";r=0;t=200;pk=:YQ==:")], ["Bearer a", "Bearer b"]),
        ([("RateLimit", "\"key\";r=0;t=200;pk=:YQ==:")], ["", ""]),
    ] {
        let origin = Origin::start();
        origin.site("api.test").page("/used-up", page(&fields));
        let proxy = start(&origin, |settings| settings);
        assert_eq!(get_from(&proxy, 1, "/used-up", one).status, 200);
        expect_rest(&get_from(&proxy, 1, "/a", one));
        assert_eq!(get_from(&proxy, 2, "/b", "").status, 200, "{fields:?}");
        assert_eq!(get_from(&proxy, 2, "/used-up", two).status, 200);
        expect_rest(&get_from(&proxy, 3, "/c", ""));
        assert_eq!(origin.count_gets("http://api.test/a"), 0);
        assert_eq!(origin.count_gets("http://api.test/c"), 0);
    }
}
