//! Problem details (RFC 9457): a refusal for programs, and the text of the page for people.

use std::time::Duration;

use wayleave_decision::{Identity, Refusal, RefusalBasis};
use wayleave_decision_log::{DecisionId, UsePreference};
use wayleave_notation::json_object::JsonObject;
use wayleave_robots_txt::ProductToken;

use crate::record::NamedDecision;

/// The initial capacity of the problem details in bytes.
const USUAL_PROBLEM_BYTES: usize = 768;

/// Problem details with wayleave's members. Those that do not apply are left out.
#[derive(Debug)]
pub(crate) struct ProblemDetails<'a> {
    pub(crate) title: &'a str,
    pub(crate) status: u16,
    pub(crate) detail: &'a str,
    pub(crate) decision_id: DecisionId,
    pub(crate) reason: &'a str,
    pub(crate) url: Option<&'a str>,
    /// The crawler's configured name, or `asserted`.
    pub(crate) crawler: Option<&'a str>,
    /// The product tokens that robots.txt is searched for, in this order.
    pub(crate) tokens: Vec<&'a str>,
    pub(crate) owner: Option<&'a str>,
    pub(crate) contact: Option<&'a str>,
    pub(crate) robots_url: Option<&'a str>,
    /// The name in the `User-agent` line by which the rule's group is the crawler's.
    pub(crate) group: Option<&'a str>,
    pub(crate) line: Option<u32>,
    pub(crate) rule: Option<&'a str>,
    preference: Option<UsePreference>,
    pub(crate) retry_after: Option<u64>,
}

impl<'a> ProblemDetails<'a> {
    /// Describes a refusal.
    pub(crate) fn new(decision: &'a NamedDecision, refusal: &'a Refusal) -> Self {
        let (rule, preference) = match refusal.basis.as_deref() {
            Some(RefusalBasis::Rule(rule)) => (Some(rule), None),
            Some(RefusalBasis::Preference(preference)) => (None, Some(preference.into())),
            Some(RefusalBasis::ParentProxy(_)) | None => (None, None),
        };
        let identity = decision.identity.as_ref();
        let tokens = identity.map(Identity::tokens).unwrap_or_default();
        let known = identity.and_then(Identity::crawler);
        Self {
            title: refusal.title,
            status: refusal.status,
            detail: &refusal.details,
            decision_id: decision.id,
            reason: refusal.reason.as_str(),
            url: decision.url.as_deref(),
            crawler: identity.map(Identity::label),
            tokens: tokens.iter().map(ProductToken::as_str).collect(),
            owner: known.and_then(|known| known.owner.as_deref()),
            contact: known.and_then(|known| known.contact.as_deref()),
            robots_url: refusal.robots_url.as_deref(),
            group: rule.and_then(|rule| rule.group.as_deref()),
            line: rule.map(|rule| rule.line),
            rule: rule.map(|rule| &*rule.text),
            preference,
            retry_after: refusal.retry_after.map(whole_seconds),
        }
    }

    /// Returns the body for programs.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(USUAL_PROBLEM_BYTES);
        let mut object = JsonObject::begin(&mut body);
        object.display("type", Some(format_args!("urn:wayleave:problem:{}", self.reason)));
        object.text("title", Some(self.title));
        object.unescaped("status", Some(self.status));
        object.text("detail", Some(self.detail));
        object.display("decision_id", Some(self.decision_id));
        object.text("reason", Some(self.reason));
        object.text("url", self.url);
        object.text("crawler", self.crawler);
        object.texts("tokens", &self.tokens);
        object.text("owner", self.owner);
        object.text("contact", self.contact);
        object.text("robots_url", self.robots_url);
        object.text("group", self.group);
        object.unescaped("line", self.line);
        object.text("rule", self.rule);
        if let Some(preference) = &self.preference {
            preference.write_members(&mut object);
        }
        object.unescaped("retry_after", self.retry_after);
        object.end();
        body.push(b'\n');
        body
    }
}

/// Returns `Retry-After` in whole seconds (RFC 9110 section 10.2.3), rounded up.
pub(crate) fn whole_seconds(duration: Duration) -> u64 {
    (duration.as_secs() + u64::from(duration.subsec_nanos() > 0)).max(1)
}

#[cfg(test)]
mod tests {
    use wayleave_decision::Reason;

    use super::*;

    #[test]
    fn problem_has_its_members_in_order() {
        let url = Some("http://shop.test/\"\u{202e}".to_owned());
        let decision =
            NamedDecision { id: wayleave_decision_log::new_decision_id(), identity: None, url };
        let refusal = Refusal::new(Reason::Rule, "no\n");
        let least = ProblemDetails::new(&decision, &refusal);
        let start = concat!(
            r#"{"type":"urn:wayleave:problem:rule","title":"Disallowed by robots.txt","status":403,"#,
            r#""detail":"no\n","decision_id":"ID","reason":"rule","url":"http://shop.test/\"\u202e""#,
        )
        .replace("ID", &decision.id.to_string());
        assert_eq!(String::from_utf8(least.to_json()).unwrap(), format!("{start}}}\n"));
        let preference =
            serde_json::json!({ "purpose": "tdm", "preference": "refuse", "policy": "\u{9b}" });
        let most = ProblemDetails {
            crawler: Some("news"),
            tokens: vec!["One", "Two"],
            owner: Some("Ann"),
            contact: Some("mailto:ann@example.com"),
            robots_url: Some("http://shop.test/robots.txt"),
            group: Some("*"),
            line: Some(2),
            rule: Some("Disallow: /\u{1b}"),
            preference: Some(serde_json::from_value(preference).unwrap()),
            retry_after: Some(3),
            ..least
        };
        let rest = concat!(
            r#","crawler":"news","tokens":["One","Two"],"owner":"Ann","contact":"mailto:ann@example.com","#,
            r#""robots_url":"http://shop.test/robots.txt","#,
            r#""group":"*","line":2,"rule":"Disallow: /\u001b","purpose":"tdm","preference":"refuse","policy":"\u009b","#,
            r#""retry_after":3}"#,
        );
        assert_eq!(String::from_utf8(most.to_json()).unwrap(), format!("{start}{rest}\n"));
    }
}
