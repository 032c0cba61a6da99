//! What the head of an answer says about its use: the answer is labelled with all that is said, or withheld.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::OnceLock;

use wayleave_policy::preferences::{Duty, Say};

use crate::decide::permit::Permit;
use crate::decide::preference::Said;
use crate::decide::refusal::Refusal;
use crate::decide::settings::Preferences;
use crate::http::client::Field;
use crate::origin::OriginHead;

/// Judges the answer to one request of a crawler with purposes.
pub(super) struct Label<'a> {
    /// What was said before the origin was asked.
    pub(super) said: &'a Said,
    pub(super) preferences: &'a Preferences,
    pub(super) permit: &'a Permit,
    /// Whether a refusal is only observed.
    pub(super) observes: bool,
    pub(super) judged: &'a OnceLock<Said>,
}

impl Label<'_> {
    /// The fields that say what was said about use.
    ///
    /// # Errors
    ///
    /// The refusal, if the answer is to be withheld: it has content, and its use is refused.
    pub(super) fn judge(&self, head: &OriginHead) -> Result<Vec<Field<'static>>, Box<Refusal>> {
        if !matches!(head.status(), 200..=299) {
            return Ok(Vec::new());
        }
        let fields = head.fields();
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| {
                (
                    String::from_utf8_lossy(name),
                    String::from_utf8_lossy(value),
                )
            })
            .collect();
        let fields = fields.iter().map(|(name, value)| (&**name, &**value));
        let said = self.said.and_by_fields(&self.preferences.reading, &fields);
        let said = self.judged.get_or_init(|| said);
        let refusal = said.refusal(&self.permit.resolved);
        match refusal.filter(|_| self.preferences.withholds && !self.observes) {
            Some(refusal) => Err(Box::new(refusal)),
            None => Ok(labels(said)),
        }
    }
}

/// `Wayleave-Preferences` and, where there are any, `Wayleave-Duties`: dictionaries (RFC 9651).
fn labels(said: &Said) -> Vec<Field<'static>> {
    let each = said.judgement.each.iter();
    let preferences: Vec<String> = each.map(preference).collect();
    let duties: Vec<String> = said.duties.iter().map(duty).collect();
    let mut fields = vec![field("Wayleave-Preferences", preferences.join(", "))];
    if !duties.is_empty() {
        fields.push(field("Wayleave-Duties", duties.join(", ")));
    }
    fields
}

fn field(name: &'static str, value: String) -> Field<'static> {
    (
        Cow::Borrowed(name.as_bytes()),
        Cow::Owned(value.into_bytes()),
    )
}

/// `search=allow;from="content-signal"`
fn preference(say: &Say) -> String {
    let mut text = format!("{}={}", say.purpose, say.preference.as_str());
    if let Some(statement) = &say.statement {
        // Writing to a string does not fail.
        let _ = write!(text, ";from=\"{}\"", statement.source);
    }
    text
}

/// `nofollow`, `max-snippet=50`, or with a value that is no number a string.
fn duty(duty: &Duty) -> String {
    match &duty.value {
        None => duty.name.to_owned(),
        Some(value)
            if value
                .parse::<u32>()
                .is_ok_and(|number| number < 1_000_000_000) =>
        {
            format!("{}={}", duty.name, value.trim_start_matches('+'))
        }
        Some(value) => {
            let plain = |c: &char| matches!(c, ' '..='~') && !matches!(c, '"' | '\\');
            let value: String = value.chars().filter(plain).collect();
            format!("{}=\"{value}\"", duty.name)
        }
    }
}
