//! Attempts to ask about one request and send another: questions that could be read in two ways get no leave.

use super::{Gated, ROBOTS, check, forwarded};
use crate::harness::Origin;

type Fields = &'static [(&'static str, &'static str)];

/// Questions that state their request in more than one way, or not at all.
const UNCLEAR: &[(&str, &str, Fields)] = &[
    ("two methods", "/check?method=GET&method=GET&url=http://shop.test/a", &[]),
    ("two URLs", "/check?method=GET&url=http://shop.test/a&url=http://shop.test/private", &[]),
    ("another parameter", "/check?method=GET&url=http://shop.test/a&host=other.test", &[]),
    ("a query that was not escaped", "/check?method=GET&url=http://shop.test/a?b&c", &[]),
    ("another case", "/check?METHOD=GET&url=http://shop.test/a", &[]),
    ("no URL", "/check?method=GET", &[]),
    ("no method", "/check?url=http://shop.test/a", &[]),
    ("an empty URL", "/check?method=GET&url=", &[]),
    ("an empty method", "/check?method=&url=http://shop.test/a", &[]),
    ("an empty query", "/check?", &[]),
    ("nothing", "/check", &[]),
    (
        "a URL beside a target",
        "/check?method=GET&url=http://shop.test/a",
        &[("X-Forwarded-Uri", "/private")],
    ),
    (
        "a URL beside a host",
        "/check?method=GET&url=http://shop.test/a",
        &[("X-Forwarded-Host", "b.test")],
    ),
    (
        "a URL beside a method",
        "/check?method=GET&url=http://shop.test/a",
        &[("X-Forwarded-Method", "POST")],
    ),
    (
        "a URL beside a scheme",
        "/check?method=GET&url=http://shop.test/a",
        &[("X-Forwarded-Proto", "https")],
    ),
    ("a relative URL", "/check?method=GET&url=/a", &[]),
    ("no scheme", "/check?method=GET&url=shop.test/a", &[]),
    ("another scheme", "/check?method=GET&url=gopher://shop.test/a", &[]),
    (
        "a line end in the URL",
        "/check?method=GET&url=http://shop.test/a%0d%0aX-Original-URL:%20/private",
        &[],
    ),
    ("a line feed in the URL", "/check?method=GET&url=http://shop.test/a%0aHost:%20b.test", &[]),
    ("a version in the URL", "/check?method=GET&url=http://shop.test/a%20HTTP/1.1", &[]),
    ("a NUL in the URL", "/check?method=GET&url=http://shop.test/a%00", &[]),
    (
        "a line end in the method",
        "/check?method=GET%0d%0aHost:%20b.test&url=http://shop.test/a",
        &[],
    ),
    (
        "a target in the method",
        "/check?method=GET%20http://shop.test/a&url=http://shop.test/b",
        &[],
    ),
    ("a tab in the method", "/check?method=GET%09&url=http://shop.test/a", &[]),
    ("userinfo without a host", "/check?method=GET&url=http://shop.test@/a", &[]),
    ("a port that is none", "/check?method=GET&url=http://shop.test:99999/a", &[]),
    ("a tunnel to a URL", "/check?method=CONNECT&url=http://shop.test/a", &[]),
    ("a tunnel with a path", "/check?method=CONNECT&url=shop.test:443/a", &[]),
    ("a path of its own", "/checks?method=GET&url=http://shop.test/a", &[]),
    ("a question as to a proxy", "http://shop.test/check?method=GET&url=http://shop.test/a", &[]),
    (
        "a path without a slash",
        "/requesta",
        &[("Host", "shop.test"), ("X-Forwarded-Proto", "http")],
    ),
    ("a path without a scheme", "/request/a", &[("Host", "shop.test")]),
    (
        "two schemes",
        "/request/a",
        &[("Host", "shop.test"), ("X-Forwarded-Proto", "http"), ("X-Forwarded-Proto", "https")],
    ),
    (
        "a list of schemes",
        "/request/a",
        &[("Host", "shop.test"), ("X-Forwarded-Proto", "https, http")],
    ),
    (
        "two hosts in Host",
        "/request/a",
        &[("Host", "shop.test,b.test"), ("X-Forwarded-Proto", "http")],
    ),
    ("userinfo in Host", "/request/a", &[("Host", "a@shop.test"), ("X-Forwarded-Proto", "http")]),
    ("a path in Host", "/request/a", &[("Host", "shop.test/b"), ("X-Forwarded-Proto", "http")]),
];

/// Further fields of a question in fields about `http://shop.test/a`, or other values of them.
const FORWARDED: &[(&str, Fields)] = &[
    ("two targets", &[("X-Forwarded-Uri", "/private")]),
    ("the same target twice", &[("X-Forwarded-Uri", "/a")]),
    ("two hosts", &[("X-Forwarded-Host", "b.test")]),
    ("two methods", &[("X-Forwarded-Method", "POST")]),
    ("two schemes", &[("X-Forwarded-Proto", "https")]),
    ("another path for the server", &[("X-Original-URL", "/private")]),
    ("another path for its router", &[("X-Rewrite-URL", "/private")]),
    ("another path in underscores", &[("X_Original_Url", "/private")]),
    ("another host for the server", &[("X-Host", "b.test")]),
    ("another host in Forwarded", &[("Forwarded", "for=192.0.2.1;host=b.test")]),
    ("another method", &[("X-HTTP-Method-Override", "DELETE")]),
    ("another method by its second name", &[("X-Method-Override", "PUT")]),
    ("two names", &[("User-Agent", "One/1"), ("User-Agent", "Two/1")]),
    ("a name in underscores", &[("User_Agent", "Two/1")]),
];

/// Values of the four fields.
const VALUES: &[(&str, [&str; 4])] = &[
    ("a URL for a target", ["GET", "http", "shop.test", "http://shop.test/private"]),
    ("a host in the target", ["GET", "http", "shop.test", "@b.test/private"]),
    ("a port in the target", ["GET", "http", "shop.test", ":81/private"]),
    ("a server for a target", ["GET", "http", "shop.test", "*"]),
    ("no target", ["GET", "http", "shop.test", ""]),
    ("no host", ["GET", "http", "", "/a"]),
    ("a list of hosts", ["GET", "http", "shop.test, b.test", "/a"]),
    ("userinfo", ["GET", "http", "b.test@shop.test", "/a"]),
    ("a path in the host", ["GET", "http", "shop.test/private", "/a"]),
    ("a query in the host", ["GET", "http", "shop.test?", "/a"]),
    ("a fragment in the host", ["GET", "http", "shop.test#", "/a"]),
    ("a backslash in the host", ["GET", "http", "shop.test\\b.test", "/a"]),
    ("another scheme", ["GET", "ftp", "shop.test", "/a"]),
    ("a list of schemes", ["GET", "https, http", "shop.test", "/a"]),
    ("a method in two words", ["GET /private", "http", "shop.test", "/a"]),
    ("a target in two words", ["GET", "http", "shop.test", "/a /private"]),
    ("a tunnel without a port", ["CONNECT", "https", "shop.test", "shop.test"]),
];

#[test]
fn nobody_gets_leave_for_a_request_that_is_not_clear() {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    let gated = Gated::start(&origin);
    let mut tried = 0;
    let mut expect_none = |name: &str, answer: crate::harness::Response| {
        assert!(
            matches!(answer.status, 400 | 403 | 404 | 421 | 501),
            "{name}: {answer:?} {}",
            answer.text()
        );
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{name}");
        tried += 1;
    };
    for (name, target, fields) in UNCLEAR {
        expect_none(name, gated.ask(target, fields));
    }
    let usual = forwarded("GET", "http", "shop.test", "/a");
    assert_eq!(gated.ask("/forwarded", &usual).status, 200);
    for (name, further) in FORWARDED {
        expect_none(name, gated.ask("/forwarded", &[&usual, *further].concat()));
    }
    for (name, [method, scheme, host, target]) in VALUES {
        expect_none(name, gated.ask("/forwarded", &forwarded(method, scheme, host, target)));
    }
    for missing in 0..usual.len() {
        let mut fields = usual.to_vec();
        let (name, _) = fields.remove(missing);
        expect_none(name, gated.ask("/forwarded", &fields));
    }
    expect_none("parameters", gated.ask("/forwarded?url=http://shop.test/a", &usual));
    // The target of Envoy's form is its own, whatever its client says in these fields.
    let envoy = [("Host", "shop.test"), ("X-Forwarded-Proto", "http"), ("X-Forwarded-Uri", "/a")];
    expect_none("a client's own target", gated.ask("/request/private", &envoy));
    let tunnel = check("CONNECT", "shop.test:443");
    expect_none("a tunnel in which nobody looks", gated.ask(&tunnel, &[]));
    assert!(tried >= 60, "{tried}");
    let seen = origin.seen();
    assert!(seen.iter().all(|line| line.ends_with("/robots.txt")), "{seen:?}");
}

#[test]
fn a_mistake_of_a_gateway_names_the_field() {
    let origin = Origin::start();
    let gated = Gated::start(&origin);
    for (index, name) in
        ["X-Forwarded-Method", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Uri"]
            .into_iter()
            .enumerate()
    {
        let mut fields = forwarded("GET", "http", "shop.test", "/a").to_vec();
        fields.remove(index);
        let answer = gated.ask("/forwarded", &fields);
        assert_eq!(answer.status, 400);
        assert_eq!(answer.json()["detail"], format!("{name} must be there once"));
    }
}
