//! A decision for the tests of this folder, and its form in the log.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert_eq, proptest};
use wayleave_evidence::Sha256Digest;
use wayleave_notation::harmless::escape_json;
use wayleave_record::AskedVia;

use super::*;

pub(super) fn decision() -> DecisionRecord {
    DecisionRecord {
        id: new_decision_id(),
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
        reached_origin: false,
        from: None,
        edge: None,
        payment: None,
        finding: Some(finding()),
        would_be: None,
        would_wait_us: None,
        oddities: Vec::new(),
        signature: None,
        mode: "enforce".into(),
        configuration: 1,
        details: None,
        decided_us: 1,
        waited_us: 0,
        took_us: 2,
        robots_fetched_as: None,
        url_bytes: None,
        url_sha256: None,
        purposes: Vec::new(),
        agent: None,
        stated_purposes: Vec::new(),
        via: None,
        body_sha256: None,
    }
}

fn finding() -> FindingRecord {
    FindingRecord {
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
    }
}

const OUTCOMES: &[&str] = &["forwarded", "tunnelled", "observed", "refused", "failed"];
const REASONS: &[&str] = &[
    "rule",
    "preference",
    "policy-rule",
    "payment",
    "crawl-delay",
    "subresource-of",
    "https-refused",
    "unreachable",
    "client-closed",
    "dns_error",
];
const EDGES: &[&str] = &["challenge", "forbidden", "rate", "payment", "unavailable"];
const ODDITIES: &[&str] = &["bare-lf", "chunked-in-http-1.0", "incomplete-close"];
const BASES: &[&str] = &[
    "rule",
    "no-matching-rule",
    "no-matching-group",
    "robots-txt-itself",
    "unavailable",
    "redirect-lost",
    "unreachable",
    "too-costly",
];
const DIALECTS: &[&str] = &["rfc9309", "google", "koster1996", "selfhtml", "strictest"];
const ACCESSES: &[&str] = &[
    "successful",
    "unavailable",
    "redirect-lost",
    "unreachable",
    "long-unreachable",
    "lapsed",
    "long-lapsed",
];
const PURPOSES: &[&str] = &["search", "ai-input", "train-ai", "archive", "tdm", "other"];
const SOURCES: &[&str] = &["rule", "content-usage", "content-signal", "tdmrep", "rsl", "payment"];

/// Bits and texts for [`any_decision`]. The texts have characters of all kinds, also such as end lines or reorder text.
pub(super) fn draws() -> impl Strategy<Value = Draws> {
    (any::<u64>(), vec("(?s).{0,20}", 1..8)).prop_map(|(bits, texts)| Draws { bits, texts })
}

#[derive(Debug)]
pub(super) struct Draws {
    pub(super) bits: u64,
    pub(super) texts: Vec<String>,
}

impl Draws {
    fn number(&mut self) -> u64 {
        self.bits = self.bits.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.bits
    }

    fn coin(&mut self) -> bool {
        self.number().is_multiple_of(2)
    }

    fn text(&mut self) -> String {
        let at = self.number() as usize % self.texts.len();
        self.texts[at].clone()
    }

    /// Draws one of these words or, once in four times, one that another version may have written.
    fn word<T: for<'w> From<&'w str>>(&mut self, known: &[&'static str]) -> T {
        if self.number().is_multiple_of(4) {
            return self.text().as_str().into();
        }
        known[(self.number() >> 8) as usize % known.len()].into()
    }

    fn name(&mut self, known: &[&'static str]) -> LogWord {
        if self.number().is_multiple_of(4) {
            return self.text().into();
        }
        known[(self.number() >> 8) as usize % known.len()].into()
    }

    fn some<T>(&mut self, draw: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.coin().then(|| draw(self))
    }

    fn list<T>(&mut self, mut draw: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.number() % 3).map(|_| draw(self)).collect()
    }

    fn time(&mut self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_micros(self.number() >> 14)
    }

    fn document(&mut self) -> DocumentRecord {
        DocumentRecord {
            url: self.text(),
            sha256: self.some(|it| Sha256Digest::of(&it.number().to_be_bytes())),
            fetched_at: self.some(Self::time),
            cut: self.coin(),
        }
    }

    fn preference(&mut self) -> UsePreference {
        UsePreference {
            purpose: self.word(PURPOSES),
            preference: self.word(&["allow", "refuse", "unstated"]),
            source: self.some(|it| it.word(SOURCES)),
            carrier: self.some(Self::text),
            statement: self.some(Self::text),
            clause: self.some(Self::text),
            policy: self.some(Self::text),
            stage: self.some(|it| it.word(&["before", "head", "body"])),
            document: self.some(Self::document).map(Box::new),
        }
    }

    fn payment(&mut self) -> PaymentRecord {
        PaymentRecord {
            scheme: self.word(&["cloudflare", "x402", "rsl"]),
            price: self.some(Self::text),
            currency: self.some(Self::text),
        }
    }

    fn policy(&mut self) -> RuleRecord {
        RuleRecord {
            number: self.number() as usize,
            action: self.word(&["refuse", "allow"]),
            owner: self.some(Self::text),
            reason: self.some(Self::text),
        }
    }

    fn finding(&mut self) -> FindingRecord {
        FindingRecord {
            verdict: self.word(&["allow", "disallow"]),
            basis: self.word(BASES),
            dialect: self.word(DIALECTS),
            line: self.some(|it| it.number() as u32),
            rule: self.some(Self::text),
            robots_access: self.some(|it| it.word(ACCESSES)),
            robots_status: self.some(|it| it.number() as u16),
            robots_cut: self.coin(),
            robots_sha256: self.some(|it| Sha256Digest::of(&it.number().to_be_bytes())),
            robots_fetched_at: self.some(Self::time),
        }
    }
}

/// Returns a decision of any members. Each that can be missing is in some and not in others.
pub(super) fn any_decision(mut draws: Draws) -> DecisionRecord {
    let it = &mut draws;
    DecisionRecord {
        id: new_decision_id(),
        at: it.time(),
        outcome: it.word(OUTCOMES),
        reason: it.word(REASONS),
        status: it.number() as u16,
        crawler: it.name(&["news", "asserted", "wayleave"]),
        identity: it.word(&["known", "asserted"]),
        owner: it.some(Draws::text),
        proven_by: it.some(|it| it.word(&["certificate", "password", "address"])),
        certificate: it.some(Draws::text),
        tokens: it.list(Draws::text),
        user_agent: it.some(Draws::text),
        user_agent_cut: it.coin(),
        client: IpAddr::from((it.number() as u32).to_be_bytes()).into(),
        peer: it.some(|it| IpAddr::from(u128::from(it.number()).to_be_bytes())),
        method: it.text(),
        url: it.text(),
        origin: it.some(Draws::text),
        scope: it.some(|it| it.word(&["robots-txt", "server", "every-path", "bypass"])),
        username: it.some(Draws::text),
        robots_delay_us: it.some(Draws::number),
        trace_id: it.some(Draws::text),
        policy: it.some(Draws::policy),
        finding: it.some(Draws::finding),
        preferences: it.list(Draws::preference),
        documents: it.list(Draws::document),
        subresource: it.some(|it| SubresourceRecord {
            page: it.text(),
            kind: it.word(&["script", "style", "image", "font", "media", "track"]),
            decision: it.some(|_| new_decision_id()),
        }),
        reached_origin: it.coin(),
        from: it.some(|it| it.word(&["copy"])),
        edge: it.some(|it| it.word(EDGES)),
        payment: it.some(Draws::payment),
        would_be: it.some(|it| it.number() as u16),
        would_wait_us: it.some(Draws::number),
        body_bytes: it.some(Draws::number),
        oddities: it.list(|it| it.word(ODDITIES)),
        signature: it.some(|it| it.word(&["signed", "tunnel"])),
        mode: it.word(&["enforce", "observe"]),
        configuration: it.number(),
        details: it.some(Draws::text),
        decided_us: it.number() >> 14,
        waited_us: it.number(),
        took_us: it.number() >> 14,
        robots_fetched_as: it.some(Draws::text),
        url_bytes: it.some(|it| it.number() as usize),
        url_sha256: it.some(|it| Sha256Digest::of(it.text().as_bytes())),
        purposes: it.list(|it| it.word(PURPOSES)),
        agent: it.some(Draws::text),
        stated_purposes: it.list(Draws::text),
        via: it.some(|it| it.word(&["gateway"])),
        body_sha256: it.some(|it| Sha256Digest::of(&it.number().to_be_bytes())),
    }
}

proptest! {
    #[test]
    fn line_is_what_serde_would_write(draws in draws()) {
        let decision = any_decision(draws);
        let line = EncodedDecision::new(&decision).line;
        let expected = [escape_json(serde_json::to_vec(&decision).unwrap()), b"\n".to_vec()].concat();
        prop_assert_eq!(String::from_utf8(line).unwrap(), String::from_utf8(expected).unwrap());
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
fn query_finds_what_gateways_asked_about() {
    let by_gateway = DecisionQuery { via: Some(AskedVia::Gateway), ..DecisionQuery::default() };
    let mut asked = decision();
    assert!(!by_gateway.matches(&asked));
    asked.via = Some("gateway".into());
    assert!(by_gateway.matches(&asked) && DecisionQuery::default().matches(&asked));
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
