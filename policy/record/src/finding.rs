//! The findings behind a decision: those of robots.txt and the organisation's rules, the page that loads a subresource, and
//! the price that an origin demands.

use std::time::SystemTime;

use wayleave_decision::{AccessFinding, RuleAction, SubresourceKind};
use wayleave_notation::{Sha256Digest, rfc3339};
use wayleave_robots_txt::{AccessReason, AccessVerdict, Dialect};

use super::closed_sets::{PaymentScheme, RobotsAccess};
use super::decision_id::DecisionId;
use super::word::Word;

record! {
    /// A rule of the organisation that matched.
    #[derive(Clone, Debug)]
    #[schema(as = Policy)]
    pub struct RuleRecord {
        /// The number of the `[[rule]]` in the configuration, from 1.
        number: usize,
        /// `refuse` or `allow`.
        #[schema(value_type = String)]
        action: Word<RuleAction>,
        owner?: Option<String>,
        reason?: Option<String>,
    }
}

record! {
    /// A demand for payment, in the origin's response or in the licence by which a use is refused.
    #[derive(Clone, Debug)]
    #[schema(as = Payment)]
    pub struct PaymentRecord {
        /// `cloudflare` (`crawler-price`), `x402` or `rsl` (a licence is asked for).
        #[schema(value_type = String, required = false)]
        scheme: Word<PaymentScheme>,
        /// A decimal number, if one is stated.
        price?: Option<String>,
        /// The currency, such as `USD`; for x402 `USDC`, or another asset, of which the price is then in the smallest unit.
        currency?: Option<String>,
    }
}

record! {
    /// A page's subresource.
    #[derive(Clone, Debug)]
    #[schema(as = Subresource)]
    pub struct SubresourceRecord {
        /// The URL of the page.
        page: String,
        /// `script`, `style`, `image`, `font`, `media` or `track`.
        #[schema(value_type = String)]
        kind: Word<SubresourceKind>,
        /// The id of the decision about the page.
        #[schema(value_type = Option<String>, pattern = "^[0-9a-f]{32}$")]
        decision?: Option<DecisionId>,
    }
}

record! {
    /// The verdict of an origin's robots.txt about one request, and the copy that it is from.
    #[derive(Clone, Debug)]
    #[schema(as = Finding)]
    pub struct FindingRecord {
        /// `allow` or `disallow`.
        #[schema(value_type = String, required = false)]
        verdict: Word<AccessVerdict>,
        /// The basis of the verdict.
        #[schema(value_type = String, required = false)]
        basis: Word<AccessReason>,
        /// The dialect by which robots.txt was read.
        #[schema(value_type = String, required = false)]
        dialect: Word<Dialect>,
        /// The deciding rule's line, from 1.
        line?: Option<u32>,
        /// The deciding rule.
        rule?: Option<String>,
        /// The result of fetching robots.txt: `successful`, `unavailable`, `redirect-lost`, `unreachable`, `long-unreachable`,
        /// `lapsed` or `long-lapsed`; `pinned` if it was not fetched, because `[[robots.pinned]]` states its text.
        #[schema(value_type = Option<String>)]
        robots_access?: Option<Word<RobotsAccess>>,
        /// The status code of the response to that fetch, where it decided.
        robots_status?: Option<u16>,
        /// Present if the file is longer than what is read of it.
        #[schema(required = false)]
        robots_cut?: bool,
        /// The SHA-256 of the copy that decided, if it had rules.
        #[schema(value_type = Option<String>)]
        robots_sha256?: Option<Sha256Digest>,
        /// The time at which the copy that decided was fetched or last revalidated; of a pinned one, at which it was read.
        #[serde(serialize_with = "rfc3339::serialize_some", deserialize_with = "rfc3339::deserialize_some")]
        #[schema(value_type = Option<String>, format = DateTime)]
        robots_fetched_at?: Option<SystemTime>,
    }
}

impl From<AccessFinding> for FindingRecord {
    fn from(finding: AccessFinding) -> Self {
        Self {
            verdict: finding.verdict.into(),
            basis: finding.basis.into(),
            dialect: finding.dialect.into(),
            line: finding.line,
            rule: finding.rule,
            robots_access: Some(if finding.is_pinned {
                RobotsAccess::Pinned.into()
            } else {
                finding.access.into()
            }),
            robots_status: finding.status,
            robots_cut: finding.is_cut,
            robots_sha256: finding.sha256.map(Sha256Digest),
            robots_fetched_at: finding.fetched_at,
        }
    }
}
