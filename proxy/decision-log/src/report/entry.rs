//! A line of the decision log, as far as a report counts it.

use std::borrow::Cow;
use std::fmt;

use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use wayleave_decision::{Reason, RequestOutcome};
use wayleave_record::{AskedVia, PaymentScheme, RequestSignature, WAYLEAVE, Word, host};
use wayleave_robots_txt::AccessVerdict;
use wayleave_usage_preferences::{Preference, PreferenceSource, PreferenceStage, Purpose};

use super::super::query::DecisionQuery;
use super::super::rule_name;

/// The members of a line that are counted.
// Borrowed from the line where they have no escapes: a log may have millions of lines.
#[derive(Deserialize)]
pub(super) struct ReportEntry<'a> {
    #[serde(borrow)]
    pub(super) at: Cow<'a, str>,
    pub(super) outcome: Word<RequestOutcome>,
    pub(super) reason: Word<Reason>,
    #[serde(borrow)]
    pub(super) crawler: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) url: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) owner: Option<Cow<'a, str>>,
    #[serde(default, borrow, rename = "tokens", deserialize_with = "first_of")]
    first_token: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    user_agent: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    client: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    origin: Option<Cow<'a, str>>,
    pub(super) status: u16,
    #[serde(default)]
    pub(super) would_be: Option<u16>,
    #[serde(default)]
    would_wait_us: Option<u64>,
    #[serde(default)]
    pub(super) waited_us: u64,
    #[serde(default)]
    line: Option<u32>,
    #[serde(default, borrow)]
    rule: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    policy: Option<PolicyEntry<'a>>,
    #[serde(default)]
    preferences: Vec<PreferenceEntry>,
    #[serde(default)]
    pub(super) verdict: Option<Word<AccessVerdict>>,
    #[serde(default)]
    pub(super) scope: Option<IgnoredAny>,
    #[serde(default)]
    pub(super) from: Option<IgnoredAny>,
    #[serde(default)]
    pub(super) edge: Option<IgnoredAny>,
    #[serde(default)]
    via: Option<Word<AskedVia>>,
    #[serde(default)]
    signature: Option<Word<RequestSignature>>,
    #[serde(default)]
    pub(super) purposes: Vec<Word<Purpose>>,
    #[serde(default, borrow)]
    pub(super) agent: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) scheme: Option<Word<PaymentScheme>>,
    #[serde(default, borrow)]
    pub(super) price: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(super) currency: Option<Cow<'a, str>>,
}

/// Reads the first element of an array of strings, and no other.
fn first_of<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Cow<'a, str>>, D::Error> {
    struct First;

    impl<'de> Visitor<'de> for First {
        type Value = Option<Element<'de>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array of strings")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
            let first = array.next_element()?;
            while array.next_element::<IgnoredAny>()?.is_some() {}
            Ok(first)
        }
    }

    Ok(deserializer.deserialize_seq(First)?.map(|Element(text)| text))
}

/// A string that is borrowed where it has no escapes.
#[derive(Deserialize)]
struct Element<'a>(#[serde(borrow)] Cow<'a, str>);

/// The usage preference for one purpose.
#[derive(Deserialize)]
struct PreferenceEntry {
    purpose: Word<Purpose>,
    preference: Word<Preference>,
    #[serde(default)]
    source: Option<Word<PreferenceSource>>,
    #[serde(default)]
    stage: Option<Word<PreferenceStage>>,
}

#[derive(Deserialize)]
struct PolicyEntry<'a> {
    number: usize,
    #[serde(default, borrow)]
    reason: Option<Cow<'a, str>>,
}

impl ReportEntry<'_> {
    /// Returns the outcome, unless another version wrote a word that is not known here.
    pub(super) fn request_outcome(&self) -> Option<RequestOutcome> {
        self.outcome.known()
    }

    /// Returns whether the request was refused, or would have been.
    pub(super) fn is_refusal(&self) -> bool {
        self.request_outcome().is_some_and(RequestOutcome::is_refusal)
    }

    /// Returns the microseconds for which enforcement would have held the request, if it would, and not have refused it.
    pub(super) fn would_wait_us(&self) -> Option<u64> {
        self.would_wait_us.filter(|_| !self.is_refusal())
    }

    /// Returns whether the request is one of those. The text is not looked for.
    pub(super) fn matches(&self, query: &DecisionQuery) -> bool {
        let is = |expected: Option<&str>, value: &str| {
            expected.is_none_or(|expected| expected.eq_ignore_ascii_case(value))
        };
        query.owner.as_deref().is_none_or(|owner| self.owner.as_deref() == Some(owner))
            && is(query.crawler.as_deref(), &self.crawler)
            && query.has_outcome(&self.outcome)
            && is(query.reason.as_deref(), &self.reason)
            && is(query.host.as_deref(), self.host().unwrap_or_default())
            && (query.rules.is_empty() || query.rules.iter().any(|name| *name == self.rule_name()))
            && query.via.is_none_or(|via| self.via.as_ref().is_some_and(|word| *word == via))
    }

    /// Returns whether the response asked for payment.
    pub(super) fn asks_for_payment(&self) -> bool {
        self.scheme.is_some() || self.reason == Reason::Payment
    }

    /// Returns whether the request was signed with the crawler's key.
    pub(super) fn is_signed(&self) -> bool {
        self.signature.as_ref().is_some_and(|word| *word == RequestSignature::Signed)
    }

    /// Returns whether the proxy itself made the request.
    pub(super) fn is_own_request(&self) -> bool {
        self.crawler == WAYLEAVE && self.first_token.is_none()
    }

    /// Returns the first of the product tokens that were matched against robots.txt.
    pub(super) fn token(&self) -> Option<&str> {
        self.first_token.as_deref()
    }

    pub(super) fn user_agent(&self) -> Option<&str> {
        self.user_agent.as_deref()
    }

    /// Returns the client as the log names it: its address, its network, or a digest.
    pub(super) fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }

    /// Returns the origin of the request, unless its target could not be parsed.
    pub(super) fn origin(&self) -> Option<&str> {
        self.origin.as_deref()
    }

    /// Returns the host of the request, unless its target could not be parsed.
    pub(super) fn host(&self) -> Option<&str> {
        self.origin.as_deref().and_then(host)
    }

    /// Returns the deciding line of robots.txt, the `[[rule]]`, or the refused purpose with the statement's source.
    pub(super) fn rule(&self) -> Option<String> {
        // By the reason: a line may also name a rule of robots.txt that allowed the request.
        match (self.reason.known()?, &self.policy, self.line, &self.rule) {
            (Reason::PolicyRule, Some(policy), ..) => {
                Some(rule_name::of_policy(policy.number, policy.reason.as_deref()))
            }
            (Reason::Rule, _, Some(line), Some(rule)) => {
                Some(rule_name::of_line(rule, self.origin.as_deref(), line))
            }
            (Reason::Preference, ..) => self.preference(),
            _ => None,
        }
    }

    /// Returns the name of the rule that decided; the reason if no rule did.
    pub(super) fn rule_name(&self) -> Cow<'_, str> {
        self.rule().map_or(Cow::Borrowed(&*self.reason), Cow::Owned)
    }

    /// Returns the deciding preference, such as `train-ai by content-signal`.
    fn preference(&self) -> Option<String> {
        let ranked = self.preferences.iter().filter_map(|found| {
            Some((rule_name::rank_of_preference(&found.preference, found.stage.as_ref())?, found))
        });
        let (_, deciding) = ranked.min_by_key(|(rank, _)| *rank)?;
        Some(rule_name::of_preference(&deciding.purpose, deciding.source.as_deref()))
    }
}
