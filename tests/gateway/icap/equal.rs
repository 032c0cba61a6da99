//! A gateway that asks by ICAP gets the proxy's own answer, whatever the request is.

use serde_json::Value;

use super::{IcapAnswer, IcapGated, reqmod};
use crate::gateway::equal::{AUTHORITIES, FIELDS, METHODS, PATHS, verdict};
use crate::harness::client::AGENT;
use crate::harness::{Origin, Request};

/// Returns what an answer decides: the status unless the request may leave, the reason, and Proxy-Status.
fn icap_verdict(answer: &IcapAnswer) -> (u16, Value, Option<String>) {
    let Some(status) = answer.http_status() else {
        return (200, Value::Null, None);
    };
    let proxy_status = answer.inside.lines().find_map(|line| line.strip_prefix("Proxy-Status: "));
    let reason = if answer.body.is_empty() { Value::Null } else { answer.json()["reason"].clone() };
    (status, reason, proxy_status.map(str::to_owned))
}

#[test]
fn every_verdict_by_icap_is_that_of_the_proxy() {
    let origin = Origin::start();
    for host in ["shop.test", "shop.test."] {
        origin
            .site(host)
            .robots("User-agent: *\nDisallow: /private\n\nUser-agent: NewsBot\nDisallow: /a\n");
    }
    origin.site("closed.test").disallows("/");
    let gated = IcapGated::start_with(&origin, |settings| {
        settings.crawler("news", "NewsBot").table(
            "[[rule]]\naction = \"refuse\"\nhosts = [\"*\"]\npaths = [\"/rule\"]\nmethods = [\"GET\", \"POST\"]\n",
        )
    });
    let mut wire = gated.connect();
    let mut reasons = std::collections::BTreeSet::new();
    let mut compared = 0;
    for (number, path) in PATHS.iter().enumerate() {
        for (other, authority) in AUTHORITIES.iter().enumerate() {
            let url = format!("{authority}{path}");
            let method = METHODS[(number + other) % METHODS.len()];
            let fields = FIELDS[(number + 2 * other) % FIELDS.len()];
            let host = authority.split("://").nth(1).unwrap_or_default();
            let host = host.rsplit('@').next().unwrap_or_default();
            let mut request = Request::new(method, &url).header("Host", host);
            for (name, value) in fields {
                request = request.header(name, value);
            }
            let head = String::from_utf8(request.bytes(&url)).expect("text");
            assert!(head.contains(AGENT) || fields.iter().any(|(name, _)| *name == "User-Agent"));
            let mut proxied = gated.gated.proxy.connect();
            proxied.send(&head);
            let (status, reason, proxy_status) =
                verdict(&proxied.expect_response(method == "HEAD"));
            wire.0.send(reqmod(&head, "Allow: 204\r\n", None));
            let asked = icap_verdict(&wire.answer());
            reasons.insert(reason.to_string());
            assert_eq!(asked, (status, reason, proxy_status), "{head}");
            compared += 1;
        }
    }
    assert!(compared > 150 && reasons.len() > 6, "{compared} {reasons:?}");
}
