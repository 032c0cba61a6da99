//! What an answer says about its use: it is labelled with all that is said, or withheld.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use wayleave_robots_txt::excerpt;
use wayleave_robots_txt::preferences::{Duty, Preference, Purpose, Source};

use super::page::Page;
use crate::decide::documents::Documents;
use crate::decide::permit::Permit;
use crate::decide::preference::Said;
use crate::decide::refusal::Refusal;
use crate::decide::resolve::Scope;
use crate::decide::rules;
use crate::decide::settings::Preferences;
use crate::http::client::{Field, field};
use crate::http::field_pairs::{Pair, first};
use crate::http::http1::has_content;
use crate::http::received::Received;
use crate::origin::OriginHead;

/// A copy of the content is still good.
const NOT_MODIFIED: u16 = 304;

/// Judges the answer to one request of a crawler with purposes.
pub(super) struct Label<'a> {
    /// What was said before the origin was asked.
    said: &'a Said,
    documents: Documents<'a>,
    permit: &'a Permit,
    method: &'a str,
    /// What was said, the answer included.
    judged: Mutex<Option<Said>>,
}

/// What becomes of an answer whose head is there.
pub(super) enum HandOn {
    /// It is handed on, with these fields besides its own.
    With(Vec<Field<'static>>),
    /// Its beginning may say more.
    AfterPage(Page),
}

impl<'a> Label<'a> {
    /// Of the answer to a request that may be sent; `said`: about its use, so far. `documents`: where licences come from that
    /// the answer names.
    pub(super) fn new(
        said: &'a Said,
        documents: Documents<'a>,
        permit: &'a Permit,
        method: &'a str,
    ) -> Self {
        Self {
            said,
            documents,
            permit,
            method,
            judged: Mutex::default(),
        }
    }

    /// What was said, the answer included; nothing if there was none.
    pub(super) fn into_judged(self) -> Option<Said> {
        self.judged
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Judges by the head.
    ///
    /// # Errors
    ///
    /// The refusal, if the answer is to be withheld: it has content, and its use is refused.
    pub(super) async fn judge(&self, head: &OriginHead) -> Result<HandOn, Box<Refusal>> {
        let status = head.status();
        if status == 101 {
            return Ok(HandOn::With(Vec::new()));
        }
        let fields = head.fields();
        let said = self.and_by_fields(status, &fields).await;
        let reading = &self.preferences().reading;
        let limit = self.preferences().meta_scan_bytes;
        let has_page = limit > 0 && self.has_page(status, &fields) && said.awaits_page(reading);
        let is_final = said.is_final_refusal();
        match self.come_to(said, status) {
            Err(refusal) if is_final || !has_page => Err(refusal),
            _ if has_page => Ok(HandOn::AfterPage(Page::new(&fields, limit))),
            judged => judged.map(HandOn::With),
        }
    }

    /// What is said, the head included, and the licences that it names where it is about content.
    async fn and_by_fields(&self, status: u16, fields: &[Pair<'_>]) -> Said {
        let said = {
            let texts: Vec<_> = fields
                .iter()
                .map(|(name, value)| (text(name), text(value)))
                .collect();
            let texts = texts.iter().map(|(name, value)| (&**name, &**value));
            let reading = &self.preferences().reading;
            self.said.and_by_fields(reading, status, &texts)
        };
        if is_judged(status) || status == NOT_MODIFIED {
            said.and_by_licences(&self.documents).await
        } else {
            said
        }
    }

    fn preferences(&self) -> &'a Preferences {
        &self.documents.settings.preferences
    }

    /// Judges by the beginning of the page, too.
    ///
    /// # Errors
    ///
    /// As [`Self::judge`].
    pub(super) async fn judge_page(
        &self,
        page: &Page,
    ) -> Result<Vec<Field<'static>>, Box<Refusal>> {
        let judged = self
            .judged
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let said = judged.unwrap_or_else(|| self.said.clone());
        let reading = &self.preferences().reading;
        let (text, parser) = (page.text().into_owned(), self.documents.robots.parser());
        let said = said.and_by_page(reading, text, parser).await;
        let said = said.and_by_licences(&self.documents).await;
        self.come_to(said, 200)
    }

    /// Whether the answer has content that is the beginning of what was asked for.
    fn has_page(&self, status: u16, fields: &[Pair<'_>]) -> bool {
        let begins = || {
            let range = first(fields, "content-range").unwrap_or_default();
            range.trim_ascii_start().starts_with(b"bytes 0-")
        };
        is_judged(status) && has_content(status, self.method) && (status != 206 || begins())
    }

    /// What is said, as fields or as a refusal.
    fn come_to(&self, said: Said, status: u16) -> Result<Vec<Field<'static>>, Box<Refusal>> {
        let refusal = said.refusal(&self.permit.resolved);
        let is_withheld = self.preferences().withholds && !said.is_only_observed();
        let refusal = refusal.filter(|_| is_withheld && is_judged(status));
        let labels = labels(&said, self.permit);
        *self.judged.lock().unwrap_or_else(PoisonError::into_inner) = Some(said);
        match refusal {
            Some(refusal) => Err(Box::new(refusal)),
            None => Ok(labels),
        }
    }
}

/// Whether an answer is content whose use can be refused. Of others the status itself is what is handed on: an error, a redirect, or
/// that a copy is still good.
pub(super) fn is_judged(status: u16) -> bool {
    matches!(status, 200..=299)
}

fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// `Wayleave-Preferences` and, where there are any, `Wayleave-Duties`: dictionaries (RFC 9651).
fn labels(said: &Said, permit: &Permit) -> Vec<Field<'static>> {
    let by_rule = by_rule(permit);
    let each = said.judgement.each.iter();
    let each = each.map(|say| {
        let source = say.statement.as_ref().map(|it| it.source);
        let (preference, source) = by_rule.unwrap_or((say.preference, source));
        member(say.purpose, preference, source)
    });
    let mut fields = vec![preferences(each)];
    let duties: Vec<String> = said.duties.iter().map(duty).collect();
    if !duties.is_empty() {
        fields.push(field("Wayleave-Duties", duties.join(", ")));
    }
    fields
}

/// The label of what goes on to a crawler with purposes although the site was not asked about its use: by a `[[rule]]` of one's own, or
/// because a refusal is only observed.
pub(super) fn settled(permit: &Permit, received: &Received) -> Option<Field<'static>> {
    let is_content = matches!(permit.resolved.scope, Scope::Path | Scope::Server);
    if !is_content || !received.only_reads() {
        return None;
    }
    let (preference, source) = match (by_rule(permit), &permit.observed) {
        (Some(settled), _) => settled,
        (None, Some(refusal)) => {
            let source = refusal.robots_url.is_some().then_some(Source::Disallow);
            (Preference::Refuse, source)
        }
        (None, None) => return None,
    };
    let each = permit.purposes.iter();
    let each = each.map(|purpose| member(purpose, preference, source));
    Some(preferences(each))
}

/// What a `[[rule]]` of one's own settles, whatever the site says; its refusal is only observed.
fn by_rule(permit: &Permit) -> Option<(Preference, Option<Source>)> {
    let observed = permit.observed.as_ref().map(|refusal| refusal.reason);
    let preference = match observed {
        _ if permit.reason == rules::EXCEPTION => Preference::Allow,
        Some(rules::REFUSAL) => Preference::Refuse,
        _ => return None,
    };
    Some((preference, Some(Source::Rule)))
}

/// `Wayleave-Preferences`, of its members.
fn preferences(each: impl Iterator<Item = String>) -> Field<'static> {
    let each: Vec<_> = each.collect();
    field("Wayleave-Preferences", each.join(", "))
}

/// `search=allow;from="content-signal"`
fn member(purpose: Purpose, preference: Preference, source: Option<Source>) -> String {
    let mut text = format!("{purpose}={}", preference.as_str());
    if let Some(source) = source {
        // Writing to a string does not fail.
        let _ = write!(text, ";from=\"{source}\"");
    }
    text
}

/// `nofollow`, `max-snippet=50`, or with a value that is no number a string.
fn duty(duty: &Duty) -> String {
    match &duty.value {
        None => duty.name.to_owned(),
        Some(value) => {
            let number = value.parse::<u32>().ok();
            if let Some(number) = number.filter(|number| *number < 1_000_000_000) {
                return format!("{}={number}", duty.name);
            }
            let plain = |c: &char| matches!(c, ' '..='~') && !matches!(c, '"' | '\\');
            let value: String = excerpt(value).chars().filter(plain).collect();
            format!("{}=\"{value}\"", duty.name)
        }
    }
}
