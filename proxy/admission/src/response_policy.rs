//! The usage preferences of a response: it is labelled with all of them, or withheld.

use std::borrow::Cow;
use std::fmt::Write;
use std::time::Duration;

use wayleave_decision::{Permit, PreferenceFinding, Reason, Refusal, TargetScope};
use wayleave_fairness::{Holder, WorkPool};
use wayleave_http_wire::field_pairs::{FieldPair, first};
use wayleave_http_wire::http1::{SWITCHING_PROTOCOLS, has_content};
use wayleave_http_wire::page::PageBuffer;
use wayleave_http_wire::received::ReceivedHead;
use wayleave_robots_txt::excerpt;
use wayleave_transport::http::downstream::{ResponseField, response_field};
use wayleave_upstream::UpstreamHead;
use wayleave_usage_preferences::{
    Preference, PreferenceSource, PreferenceState, Purpose, UsageDuty,
};

use crate::documents::DocumentSource;
use crate::settings::{PreferencesConfig, RefusedResponse};

/// 304: the client's copy of the content is still good.
pub(crate) const NOT_MODIFIED: u16 = 304;

/// Judges the response to one request of a crawler with purposes.
pub struct ResponseLabeller<'a> {
    /// The preferences known before the request was sent.
    preferences_before: &'a PreferenceFinding,
    documents: DocumentSource<'a>,
    permit: &'a Permit,
    method: &'a str,
    /// The client, on whose behalf the page is read.
    holder: Holder,
    /// The preferences including those of the response.
    judged: Option<PreferenceFinding>,
}

/// The treatment of a response whose head has arrived.
pub enum LabelStep {
    /// It is relayed with these additional fields.
    Relay(Vec<ResponseField<'static>>),
    /// The start of the page may state more.
    ReadPage(PageBuffer),
}

impl<'a> ResponseLabeller<'a> {
    /// Creates the labeller of the response to a permitted request. `documents` supplies the licences that the response names.
    pub(crate) fn new(
        preferences_before: &'a PreferenceFinding,
        documents: DocumentSource<'a>,
        permit: &'a Permit,
        method: &'a str,
        holder: Holder,
    ) -> Self {
        Self { preferences_before, documents, permit, method, holder, judged: None }
    }

    /// Returns the preferences including those of the response; `None` if there was no response.
    pub(crate) fn into_preferences(self) -> Option<PreferenceFinding> {
        self.judged
    }

    /// Judges by the head.
    ///
    /// # Errors
    ///
    /// Returns the refusal if the response is to be withheld: it has content, and its use is refused.
    pub async fn judge(&mut self, head: &UpstreamHead) -> Result<LabelStep, Box<Refusal>> {
        let status = head.status();
        // The bytes after it are not HTTP content.
        if status == SWITCHING_PROTOCOLS {
            return Ok(LabelStep::Relay(Vec::new()));
        }
        let fields = head.fields();
        let finding = self.with_head(status, &fields).await;
        let PreferencesConfig { reading, meta_scan_bytes: limit, .. } = self.config();
        let has_page = *limit > 0 && self.has_page(status, &fields) && finding.needs_page(reading);
        // A page can only add statements: it cannot revoke a refusal that is final.
        let is_final = finding.is_final_refusal();
        match self.conclude(finding, status) {
            Err(refusal) if is_final || !has_page => Err(refusal),
            _ if has_page => Ok(LabelStep::ReadPage(PageBuffer::new(&fields, *limit))),
            judged => judged.map(LabelStep::Relay),
        }
    }

    /// Adds the statements of the head, and of the licences that it names if it describes content.
    async fn with_head(&self, status: u16, fields: &[FieldPair<'_>]) -> PreferenceFinding {
        let stating = fields.iter().filter(|(name, _)| PreferenceState::reads_field(name));
        let texts: Vec<(String, String)> =
            stating.map(|(name, value)| (text(name), text(value))).collect();
        let bytes = texts.iter().map(|(_, value)| value.len()).sum();
        let before = self.preferences_before.clone();
        let reading = self.config().reading.clone();
        let with_head = move || {
            let texts = texts.iter().map(|(name, value)| (&**name, &**value));
            before.with_head(&reading, status, &texts)
        };
        let parser = self.documents.robots.parser();
        // In a box it takes no room in every exchange.
        let finding =
            Box::pin(parser.run(self.holder, time_to_read_fields(bytes), with_head)).await;
        if is_judged(status) || status == NOT_MODIFIED {
            self.documents.with_licences(finding).await
        } else {
            finding
        }
    }

    fn config(&self) -> &'a PreferencesConfig {
        &self.documents.settings.preferences
    }

    /// Judges by the start of the page, too.
    ///
    /// # Errors
    ///
    /// As [`Self::judge`].
    pub async fn judge_page(
        &mut self,
        page: &PageBuffer,
    ) -> Result<Vec<ResponseField<'static>>, Box<Refusal>> {
        // Taken, not cloned: `conclude` puts the new finding in its place.
        let by_head = self.judged.take().unwrap_or_else(|| self.preferences_before.clone());
        // A statement in any reading of the page counts.
        let texts: Vec<String> = page.texts().map(Cow::into_owned).collect();
        let reading = self.config().reading.clone();
        let estimate = texts.iter().map(|text| time_to_read(text)).sum();
        let with_page =
            move || texts.iter().fold(by_head, |finding, text| finding.with_page(&reading, text));
        let parser = self.documents.robots.parser();
        // In a box it takes no room in every exchange.
        let by_page = Box::pin(parser.run(self.holder, estimate, with_page)).await;
        let finding = self.documents.with_licences(by_page).await;
        self.conclude(finding, 200)
    }

    /// Returns whether the response has content that begins with the start of the resource.
    fn has_page(&self, status: u16, fields: &[FieldPair<'_>]) -> bool {
        // A later part of a page has no head with statements.
        let begins = || {
            let range = first(fields, "content-range").unwrap_or_default();
            range.trim_ascii_start().starts_with(b"bytes 0-")
        };
        is_judged(status) && has_content(status, self.method) && (status != 206 || begins())
    }

    /// Returns the labels, or the refusal.
    fn conclude(
        &mut self,
        finding: PreferenceFinding,
        status: u16,
    ) -> Result<Vec<ResponseField<'static>>, Box<Refusal>> {
        let may_withhold = self.config().refused_response == RefusedResponse::Withhold
            && !finding.is_only_observed()
            && is_judged(status);
        let result = match finding.refusal(&self.permit.resolved) {
            Some(refusal) if may_withhold => Err(Box::new(refusal)),
            _ => Ok(labels(&finding, self.permit)),
        };
        // The record shows it even if the response is withheld.
        self.judged = Some(finding);
        result
    }
}

/// Returns whether a response is content whose use can be refused. In others the status itself is the message: an error, a
/// redirect, or that a copy is still good.
pub(crate) fn is_judged(status: u16) -> bool {
    matches!(status, 200..=299)
}

/// Returns the estimated time to read a page: a tag takes as long as a hundred letters.
fn time_to_read(page: &str) -> Duration {
    let tags = memchr::memchr_iter(b'<', page.as_bytes()).count();
    WorkPool::time_to_read(page.len() + 100 * tags)
}

/// Returns the estimated time to read values of fields: their statements are short, and each is compared with many names.
const fn time_to_read_fields(bytes: usize) -> Duration {
    WorkPool::time_to_read(50 * bytes)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns `Wayleave-Preferences` and, where there are any, `Wayleave-Duties`, as dictionaries (RFC 9651).
fn labels(finding: &PreferenceFinding, permit: &Permit) -> Vec<ResponseField<'static>> {
    let by_rule = rule_preference(permit);
    let members = finding.judgement.by_purpose.iter().map(|judged| {
        let source = judged.statement.as_ref().map(|statement| statement.source);
        let (preference, source) = by_rule.unwrap_or((judged.preference, source));
        preference_member(judged.purpose, preference, source)
    });
    let mut fields = vec![preferences_field(members)];
    let duties: Vec<String> = finding.duties.iter().map(duty_member).collect();
    if !duties.is_empty() {
        fields.push(response_field("Wayleave-Duties", duties.join(", ")));
    }
    fields
}

/// Returns the label of a response for a crawler with purposes where the site's statements were not evaluated: a `[[rule]]`
/// decided, or a refusal is only observed.
pub(crate) fn label_without_statements(
    permit: &Permit,
    received: &ReceivedHead,
) -> Option<ResponseField<'static>> {
    let is_content = matches!(permit.resolved.scope, TargetScope::Path | TargetScope::Server);
    if !is_content || !received.is_plain_read() {
        return None;
    }
    let (preference, source) = match (rule_preference(permit), &permit.observed) {
        (Some(by_rule), _) => by_rule,
        (None, Some(refusal)) => {
            let source = refusal.robots_url.is_some().then_some(PreferenceSource::Disallow);
            (Preference::Refuse, source)
        }
        (None, None) => return None,
    };
    let members = permit.purposes.iter();
    Some(preferences_field(members.map(|purpose| preference_member(purpose, preference, source))))
}

/// Returns the preference that a `[[rule]]` sets, whatever the site states; its refusal is only observed.
fn rule_preference(permit: &Permit) -> Option<(Preference, Option<PreferenceSource>)> {
    let observed = permit.observed.as_ref().map(|refusal| refusal.reason);
    let preference = match observed {
        _ if permit.reason == Reason::PolicyException => Preference::Allow,
        Some(Reason::PolicyRule) => Preference::Refuse,
        _ => return None,
    };
    Some((preference, Some(PreferenceSource::Rule)))
}

/// Returns `Wayleave-Preferences` with these members.
fn preferences_field(members: impl Iterator<Item = String>) -> ResponseField<'static> {
    let members: Vec<_> = members.collect();
    response_field("Wayleave-Preferences", members.join(", "))
}

/// Returns a member such as `search=allow;from="content-signal"`.
fn preference_member(
    purpose: Purpose,
    preference: Preference,
    source: Option<PreferenceSource>,
) -> String {
    let mut text = format!("{purpose}={}", preference.as_str());
    if let Some(source) = source {
        // Writing to a string does not fail.
        let _ = write!(text, ";from=\"{source}\"");
    }
    text
}

/// Returns a member such as `nofollow` or `max-snippet=50`; a value that is not a number becomes a string.
fn duty_member(duty: &UsageDuty) -> String {
    match &duty.value {
        None => duty.name.to_owned(),
        Some(value) => {
            let number = value.parse::<u32>().ok();
            if let Some(number) = number.filter(|number| *number < 1_000_000_000) {
                return format!("{}={number}", duty.name);
            }
            // A string holds printable ASCII, and escapes quotes and backslashes (RFC 9651 section 3.3.3).
            let plain = |c: &char| matches!(c, ' '..='~') && !matches!(c, '"' | '\\');
            let value: String = excerpt(value).chars().filter(plain).collect();
            format!("{}=\"{value}\"", duty.name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_tags_is_estimated_above_one_of_letters() {
        let letters = "x".repeat(60_000);
        let tags = "<x>".repeat(20_000);
        assert!(time_to_read(&letters) < Duration::from_micros(200));
        assert!(time_to_read(&tags) > Duration::from_millis(1));
    }
}
