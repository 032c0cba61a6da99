//! Problem details (RFC 9457): what a refusal says to programs, and the text of the page for people.

use std::time::Duration;

use serde::Serialize;
use wayleave_decision::{Identity, Refusal, RefusalBasis};
use wayleave_robots_txt::ProductToken;

use super::record::NamedDecision;
use crate::decision_log::{DecisionId, UsePreference};
use crate::telemetry::harmless::escape_json;

/// The initial capacity of the problem details in bytes.
const USUAL_PROBLEM_BYTES: usize = 768;

/// Problem details with wayleave's members. Those that do not apply are left out.
#[derive(Debug, Serialize)]
pub(super) struct ProblemDetails<'a> {
    r#type: String,
    pub(super) title: &'a str,
    pub(super) status: u16,
    pub(super) detail: &'a str,
    pub(super) decision_id: DecisionId,
    pub(super) reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) url: Option<&'a str>,
    /// The crawler's configured name, or `asserted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) crawler: Option<&'a str>,
    /// The product tokens that robots.txt is searched for, in this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tokens: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) owner: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) robots_url: Option<&'a str>,
    /// The name in the `User-agent` line by which the rule's group is the crawler's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) group: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rule: Option<&'a str>,
    #[serde(flatten)]
    preference: Option<UsePreference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry_after: Option<u64>,
}

impl<'a> ProblemDetails<'a> {
    /// Describes a refusal.
    pub(super) fn new(decision: &'a NamedDecision, refusal: &'a Refusal) -> Self {
        let (rule, preference) = match refusal.basis.as_deref() {
            Some(RefusalBasis::Rule(rule)) => (Some(rule), None),
            Some(RefusalBasis::Preference(preference)) => (None, Some(preference.into())),
            Some(RefusalBasis::ParentProxy(_)) | None => (None, None),
        };
        let identity = decision.identity.as_ref();
        let tokens = identity.map(Identity::tokens).unwrap_or_default();
        Self {
            r#type: format!("urn:wayleave:problem:{}", refusal.reason),
            title: refusal.title,
            status: refusal.status,
            detail: &refusal.details,
            decision_id: decision.id,
            reason: refusal.reason.as_str(),
            url: decision.url.as_deref(),
            crawler: identity.map(Identity::label),
            tokens: tokens.iter().map(ProductToken::as_str).collect(),
            owner: identity.and_then(Identity::crawler).and_then(|it| it.owner.as_deref()),
            robots_url: refusal.robots_url.as_deref(),
            group: rule.and_then(|rule| rule.group.as_deref()),
            line: rule.map(|rule| rule.line),
            rule: rule.map(|rule| &*rule.text),
            preference,
            retry_after: refusal.retry_after.map(whole_seconds),
        }
    }

    /// Returns the body for programs.
    pub(super) fn to_json(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(USUAL_PROBLEM_BYTES);
        serde_json::to_writer(&mut body, self).expect("strings and numbers serialise");
        // URLs and rules are in it as strangers wrote them, and people read it in terminals.
        let mut body = escape_json(body);
        body.push(b'\n');
        body
    }
}

/// Returns `Retry-After` in whole seconds (RFC 9110 section 10.2.3), rounded up.
pub(super) fn whole_seconds(duration: Duration) -> u64 {
    (duration.as_secs() + u64::from(duration.subsec_nanos() > 0)).max(1)
}
