//! The feature `serde`: the texts that it writes, and that they are read back unchanged.

#![cfg(feature = "serde")]

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use wayleave_robots_txt::{
    AccessReason, AccessResult, AccessVerdict, DecisionDetails, Dialect, Origin, ProductToken,
    RobotsTxt, UrlScheme, lint,
};

/// Checks that a value is written as expected, and read back.
#[track_caller]
fn check<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T, expected: Value) {
    assert_eq!(serde_json::to_value(value).unwrap(), expected);
    assert_eq!(serde_json::from_value::<T>(expected).unwrap(), *value);
}

#[test]
fn words_are_those_of_as_str() {
    for dialect in Dialect::ALL {
        check(dialect, json!(dialect.as_str()));
    }
    for verdict in [AccessVerdict::Allow, AccessVerdict::Disallow] {
        check(&verdict, json!(verdict.as_str()));
    }
    for reason in [
        AccessReason::Rule,
        AccessReason::NoMatchingRule,
        AccessReason::NoMatchingGroup,
        AccessReason::RobotsTxtItself,
        AccessReason::Unavailable,
        AccessReason::RedirectLost,
        AccessReason::Unreachable,
        AccessReason::TooCostly,
    ] {
        check(&reason, json!(reason.as_str()));
    }
    for scheme in [UrlScheme::Http, UrlScheme::Https, UrlScheme::Ftp] {
        check(&scheme, json!(scheme.as_str()));
    }
    for severity in [lint::Severity::Error, lint::Severity::Warning, lint::Severity::Note] {
        check(&severity, json!(severity.as_str()));
    }
}

#[test]
fn decisions_keep_every_detail() {
    let robots = RobotsTxt::parse(b"User-agent: ExampleBot\nDisallow: /private\n");
    let crawler = robots.for_crawler("ExampleBot").unwrap();
    check(
        &crawler.decide("/private/diary").unwrap().details(),
        json!({
            "verdict": "disallow",
            "reason": "rule",
            "line": 2,
            "rule": "Disallow: /private",
            "dialect": "rfc9309",
            "group": ["ExampleBot"],
        }),
    );
    let unreachable = AccessResult::Unreachable.for_crawler("ExampleBot").unwrap();
    let details: DecisionDetails = unreachable.decide("/").unwrap().details();
    check(
        &details,
        json!({
            "verdict": "disallow",
            "reason": "unreachable",
            "line": null,
            "rule": null,
            "dialect": "rfc9309",
            "group": [],
        }),
    );
}

#[test]
fn directives_and_findings_are_written_by_field() {
    let robots = RobotsTxt::parse(
        b"User-agent: *\nRequest-rate: 1/10s 0600-0845\nClean-param: a&b /x\nSitemap: /s\n",
    );
    let hours = json!({"from": {"hour": 6, "minute": 0}, "to": {"hour": 8, "minute": 45}});
    check(
        &robots.request_rates(Dialect::Rfc9309, &[])[0],
        json!({"requests": 1, "within": {"secs": 10, "nanos": 0}, "at": hours}),
    );
    check(&robots.clean_params().next().unwrap(), json!({"params": ["a", "b"], "path": "/x"}));
    let sitemap = robots.directives().last().unwrap();
    check(&sitemap, json!({"line": 4, "name": "Sitemap", "value": "/s"}));
    check(
        &lint(b"Disallow: /a\n", &[])[0],
        json!({
            "line": 1,
            "severity": "error",
            "message": "a rule before any user-agent line applies to nobody",
        }),
    );
}

#[test]
fn origins_and_names_are_checked_when_read() {
    check(&Origin::parse("https://Example.com:8443").unwrap(), json!("https://example.com:8443"));
    check(&ProductToken::new("ExampleBot").unwrap(), json!("ExampleBot"));
    let error = serde_json::from_value::<ProductToken>(json!("ExampleBot/1.0")).unwrap_err();
    assert_eq!(error.to_string(), r#""ExampleBot/1.0" contains a version: write "ExampleBot""#);
    let error = serde_json::from_value::<Origin>(json!("https://example.com/path")).unwrap_err();
    assert!(error.to_string().starts_with("invalid host"), "{error}");
}
