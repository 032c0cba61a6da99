//! A decision for the tests of this folder, and its form in the log.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use wayleave_evidence::Sha256Digest;

use super::*;

pub(super) fn decision() -> DecisionRecord {
    DecisionRecord {
        id: DecisionId::new(),
        at: SystemTime::UNIX_EPOCH + Duration::from_micros(1_800_000_000_000_001),
        outcome: "refused".into(),
        reason: "rule".into(),
        status: 403,
        crawler: "news".into(),
        identity: "known".into(),
        owner: None,
        proven_by: None,
        user_agent: None,
        user_agent_cut: false,
        certificate: None,
        tokens: vec!["ExampleBot".to_owned()],
        client: IpAddr::from([127, 0, 0, 1]).into(),
        body_bytes: None,
        peer: None,
        method: "GET".to_owned(),
        url: "https://[::1]:8443/a".to_owned(),
        origin: Some("https://[::1]:8443".to_owned()),
        scope: None,
        username: None,
        robots_delay_us: None,
        trace_id: None,
        policy: None,
        preferences: Vec::new(),
        documents: Vec::new(),
        subresource: None,
        reached_origin: None,
        from: None,
        edge: None,
        payment: None,
        finding: Some(FindingRecord {
            verdict: "disallow".into(),
            basis: "rule".into(),
            dialect: "rfc9309".into(),
            line: Some(2),
            rule: Some("Disallow: /a".to_owned()),
            robots_access: Some("successful".into()),
            robots_status: None,
            robots_cut: false,
            robots_sha256: Some(Sha256Digest::of(b"abc")),
            robots_fetched_at: Some(SystemTime::UNIX_EPOCH),
        }),
        would_be: None,
        oddities: Vec::new(),
        signature: None,
        mode: "enforce".into(),
        configuration: 1,
        details: None,
        decided_us: 1,
        waited_us: 0,
        took_us: 2,
    }
}

#[test]
fn decision_survives_serialisation() {
    let written = serde_json::to_value(decision()).unwrap();
    assert_eq!(written["at"], "2027-01-15T08:00:00.000001Z");
    assert_eq!(written["line"], 2);
    let read: DecisionRecord = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), written);
    let mut bare = decision();
    bare.finding = None;
    let written = serde_json::to_value(bare).unwrap();
    assert_eq!(written.get("verdict"), None);
    let read: DecisionRecord = serde_json::from_value(written).unwrap();
    assert!(read.finding.is_none());
}

#[test]
fn query_finds_text() {
    let query =
        |text: &str| DecisionQuery { text: Some(text.to_owned()), ..DecisionQuery::default() };
    for text in ["8443/A", "disallow: /a", "examplebot", "127.0.0", ""] {
        assert!(query(text).matches(&decision()), "{text}");
    }
    assert!(!query("shop").matches(&decision()));
}

#[test]
fn query_matches_host_without_port() {
    let query =
        |host: &str| DecisionQuery { host: Some(host.to_owned()), ..DecisionQuery::default() };
    assert!(query("[::1]").matches(&decision()));
    assert!(!query("::1").matches(&decision()));
    let mut named = decision();
    named.origin = Some("http://shop.test:8080".to_owned());
    assert!(query("Shop.test").matches(&named));
}
