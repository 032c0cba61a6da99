//! The answer of `wayleave check` about one URL, as text and as JSON.

use serde::Serialize;
use wayleave_decision::stated_delay;
use wayleave_notation::harmless::escape_controls;
use wayleave_robots_txt::{
    AccessReason, AccessResult, AccessVerdict, DecisionDetails, Dialect, Origin, ProductToken,
    UrlPath, decide, decide_all_spellings,
};
use wayleave_usage_preferences::{CrawlerDeclaration, Preference, PreferenceSettings};

use super::live::FetchedFiles;
use super::preference::{self, UseSubject};
use crate::cli::paint::Tone;
use crate::cli::terminal::{INCOMPLETE, json_line};

/// The decision about one URL, with the file's other statements.
#[derive(Debug, Serialize)]
pub(super) struct CheckAnswer<'a> {
    url: &'a str,
    #[serde(flatten)]
    decision: DecisionDetails,
    crawl_delay: Option<f64>,
    sitemaps: Vec<String>,
    /// The preference about the use, if a purpose was given.
    #[serde(flatten)]
    preference: Option<preference::UseAnswer>,
}

/// The part of the question that is the same for every URL.
#[derive(Clone, Copy, Debug)]
pub(super) struct CheckQuery<'a> {
    pub(super) tokens: &'a [ProductToken],
    pub(super) dialect: Dialect,
    pub(super) strict: bool,
    pub(super) declaration: &'a CrawlerDeclaration,
    pub(super) reading: &'a PreferenceSettings,
}

impl<'a> CheckAnswer<'a> {
    /// Decides about a path by `access` and, for preferences about use, by the documents that are fetched `live`.
    pub(super) fn new(
        url: &'a str,
        access: &AccessResult,
        path: &UrlPath<'_>,
        query: CheckQuery<'_>,
        live: Option<(&FetchedFiles, &Origin)>,
    ) -> Self {
        let CheckQuery { tokens, dialect, strict, declaration, reading } = query;
        // Other readers of robots.txt judge only the spelling that is given, and so does this command unless asked.
        let judge = if strict { decide_all_spellings } else { decide };
        let decision = judge(access, dialect, tokens, path);
        let (crawl_delay, sitemaps) = match access {
            AccessResult::Successful(robots) => (
                stated_delay(access, dialect, tokens).map(|(delay, _)| delay.as_secs_f64()),
                robots.sitemaps().collect(),
            ),
            _ => (None, Vec::new()),
        };
        let subject = UseSubject {
            url,
            path: path.as_str(),
            tokens,
            dialect,
            access,
            decision: &decision,
            strict,
        };
        Self {
            url,
            preference: subject.preference((declaration, reading), live),
            decision: decision.details(),
            crawl_delay,
            sitemaps,
        }
    }

    /// Formats the answer as `disallow /private: rule, line 2: Disallow: /private`, followed by the preference about the use.
    pub(super) fn to_text(&self) -> String {
        let DecisionDetails { verdict, reason, dialect, line, rule, .. } = &self.decision;
        let mut text = format!(" {}: {reason}", self.url);
        if let Some(line) = line {
            text += &format!(", line {line}");
        }
        if let Some(rule) = rule {
            text += &format!(": {rule}");
        }
        if *dialect != Dialect::default() {
            text += &format!(" ({dialect})");
        }
        if let Some(preference) = &self.preference {
            text += &format!("; {preference}");
        }
        // Undecided rather than disallowed: the next fetch may bring rules.
        let tone = match (verdict, reason) {
            (_, AccessReason::Unreachable) => Tone::Doubtful,
            (AccessVerdict::Allow, _) => Tone::Good,
            (AccessVerdict::Disallow, _) => Tone::Bad,
        };
        tone.paint(verdict.as_str()) + &escape_controls(&text)
    }

    pub(super) fn to_json(&self) -> String {
        json_line(self)
    }
}

/// Returns 3 if anything could not be decided, else 1 if anything is disallowed or its use refused, else 0.
pub(super) fn exit_status(answers: &[CheckAnswer<'_>]) -> u8 {
    if answers.iter().any(|answer| answer.decision.reason == AccessReason::Unreachable) {
        return INCOMPLETE;
    }
    u8::from(answers.iter().any(|answer| {
        let preference = answer.preference.as_ref().map(|preference| preference.preference);
        answer.decision.verdict == AccessVerdict::Disallow
            || preference == Some(Preference::Refuse.as_str())
    }))
}
