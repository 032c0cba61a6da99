//! A gateway gets the proxy's own answer, whatever the request is.

use serde_json::Value;

use super::{Gated, check};
use crate::harness::{Origin, Request, Response};

pub(super) const METHODS: [&str; 5] = ["GET", "HEAD", "POST", "OPTIONS", "get"];
pub(super) const AUTHORITIES: [&str; 9] = [
    "http://shop.test",
    "http://SHOP.test:80",
    "http://shop.test.",
    "http://shop.test:81",
    "https://shop.test",
    "http://user:secret@shop.test",
    "http://closed.test",
    "http://192.168.1.1",
    "http://[::1]",
];
pub(super) const PATHS: [&str; 18] = [
    "",
    "/",
    "/a?b=c",
    "/private",
    "/private/a?b",
    "/%70rivate",
    "/a/../private",
    "/a/%2e%2e/private",
    "/a%2f..%2fprivate",
    "//private",
    "/./private",
    "/PRIVATE",
    "/private;x",
    "/robots.txt",
    "/a%",
    "/rule",
    "/\u{e9}",
    "*",
];
pub(super) const FIELDS: [&[(&str, &str)]; 9] = [
    &[],
    &[("User-Agent", "NewsBot/1.0")],
    &[("User-Agent", "Googlebot/2.1")],
    &[("X-Original-URL", "/private")],
    &[("X-Forwarded-Prefix", "/private")],
    &[("X-HTTP-Method-Override", "DELETE")],
    &[("X-Host", "other.test")],
    &[("Wayleave-Purpose", "train-ai")],
    &[("Via", "1.1 wayleave")],
];

/// Returns what an answer decides: the status unless the request may leave, the reason, and Proxy-Status.
pub(super) fn verdict(answer: &Response) -> (u16, Value, Option<String>) {
    let Some(proxy_status) = answer.header("proxy-status") else {
        return (200, Value::Null, None);
    };
    let reason = if answer.body.is_empty() { Value::Null } else { answer.json()["reason"].clone() };
    (answer.status, reason, Some(proxy_status.to_owned()))
}

#[test]
fn every_verdict_is_that_of_the_proxy() {
    let origin = Origin::start();
    for host in ["shop.test", "shop.test."] {
        origin.site(host).robots(
            "User-agent: *\nDisallow: /private\n\nUser-agent: NewsBot\nDisallow: /a\nAllow: /private\n",
        );
    }
    origin.site("closed.test").disallows("/");
    let gated = Gated::start_with(&origin, |settings| {
        settings.crawler("news", "NewsBot").table(
            "[[rule]]\naction = \"refuse\"\nhosts = [\"*\"]\npaths = [\"/rule\"]\nmethods = [\"GET\", \"POST\"]\n",
        )
    });
    let mut reasons = std::collections::BTreeSet::new();
    let mut compared = 0;
    for (number, path) in PATHS.iter().enumerate() {
        for (other, authority) in AUTHORITIES.iter().enumerate() {
            let url = format!("{authority}{path}");
            // Each pair of a method and fields meets others of the hosts and paths.
            for shift in 0..3 {
                let method = METHODS[(number + other + shift) % METHODS.len()];
                let fields = FIELDS[(number + 2 * other + 4 * shift) % FIELDS.len()];
                let mut request = Request::new(method, &url);
                for (name, value) in fields {
                    request = request.header(name, value);
                }
                let host = authority.split("://").nth(1).unwrap_or_default();
                let host = host.rsplit('@').next().unwrap_or_default();
                let mut wire = gated.proxy.connect();
                wire.send(request.header("Host", host).bytes(&url));
                let by_proxy = wire.expect_response(method == "HEAD");
                let asked = gated.ask(&check(method, &url), &with_agent(fields));
                let (status, reason, proxy_status) = verdict(&by_proxy);
                let expected = if method == "HEAD" { Value::Null } else { reason };
                let (asked_status, asked_reason, asked_proxy_status) = verdict(&asked);
                reasons.insert(asked_reason.to_string());
                let asked_reason = if method == "HEAD" { Value::Null } else { asked_reason };
                assert_eq!(
                    (asked_status, asked_reason, asked_proxy_status),
                    (status, expected, proxy_status),
                    "{method} {url} {fields:?}: {by_proxy:?}"
                );
                compared += 1;
            }
        }
    }
    assert!(compared > 400 && reasons.len() > 7, "{compared} {reasons:?}");
}

/// Returns the fields with the `User-Agent` that clients of the tests have.
fn with_agent<'a>(fields: &'a [(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut all = fields.to_vec();
    if !all.iter().any(|(name, _)| *name == "User-Agent") {
        all.push(("User-Agent", crate::harness::client::AGENT));
    }
    all
}
