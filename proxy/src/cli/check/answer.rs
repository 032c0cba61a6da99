//! The answer of `wayleave check` about one URL, as text and as JSON.

use serde::Serialize;
use wayleave_robots_txt::{
    AccessReason, AccessResult, AccessVerdict, DecisionDetails, Dialect, Origin, ProductToken,
    UrlPath, decide, decide_all_spellings,
};
use wayleave_usage_preferences::{CrawlerDeclaration, Preference, PreferenceSettings};

use super::live::FetchedFiles;
use super::preference::{self, UseSubject};
use crate::cli::paint::Tone;
use crate::cli::terminal::json_line;
use crate::telemetry::harmless::escape_controls;

/// The decision about one URL, with what the file says beside rules.
#[derive(Debug)]
pub(super) struct CheckAnswer<'a> {
    url: &'a str,
    explanation: DecisionDetails,
    crawl_delay: Option<f64>,
    sitemaps: Vec<String>,
    /// If a purpose was given.
    preference: Option<preference::UseAnswer>,
}

/// How every URL is judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct CheckQuery<'a> {
    pub(super) tokens: &'a [ProductToken],
    pub(super) dialect: Dialect,
    pub(super) strict: bool,
    pub(super) declaration: &'a CrawlerDeclaration,
    pub(super) reading: &'a PreferenceSettings,
}

#[derive(Serialize)]
struct CheckAnswerJson<'a> {
    url: &'a str,
    verdict: &'a str,
    reason: &'a str,
    line: Option<u32>,
    rule: Option<&'a str>,
    dialect: &'a str,
    group: &'a [String],
    crawl_delay: Option<f64>,
    sitemaps: &'a [String],
    #[serde(flatten)]
    preference: Option<&'a preference::UseAnswer>,
}

impl<'a> CheckAnswer<'a> {
    /// What `access` says about a path, and documents that are asked for if it is `live`.
    pub(super) fn new(
        url: &'a str,
        access: &AccessResult,
        path: &UrlPath<'_>,
        asking: CheckQuery<'_>,
        live: Option<(&mut FetchedFiles, &Origin)>,
    ) -> Self {
        let CheckQuery { tokens, dialect, strict, declaration, reading } = asking;
        let judge = if strict { decide_all_spellings } else { decide };
        let decision = judge(access, dialect, tokens, path);
        let (crawl_delay, sitemaps) = match access {
            AccessResult::Successful(robots) => {
                let delay = robots.crawl_delay(dialect, tokens);
                let delay = delay.map(|delay| delay.as_secs_f64());
                (delay, robots.sitemaps().collect())
            }
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
            explanation: decision.details(),
            crawl_delay,
            sitemaps,
        }
    }

    /// `disallow /private: rule, line 2: Disallow: /private`, and behind that what is said about use.
    pub(super) fn to_text(&self) -> String {
        let DecisionDetails { verdict, reason, dialect, line, rule, .. } = &self.explanation;
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
        let tone = match (verdict, reason) {
            (_, AccessReason::Unreachable) => Tone::Doubtful,
            (AccessVerdict::Allow, _) => Tone::Good,
            (AccessVerdict::Disallow, _) => Tone::Bad,
        };
        tone.paint(verdict.as_str()) + &escape_controls(&text)
    }

    pub(super) fn to_json(&self) -> String {
        let DecisionDetails { verdict, reason, dialect, line, rule, group } = &self.explanation;
        json_line(&CheckAnswerJson {
            url: self.url,
            verdict: verdict.as_str(),
            reason: reason.as_str(),
            line: *line,
            rule: rule.as_deref(),
            dialect: dialect.as_str(),
            group,
            crawl_delay: self.crawl_delay,
            sitemaps: &self.sitemaps,
            preference: self.preference.as_ref(),
        })
    }
}

/// 3 if anything could not be decided, else 1 if anything is disallowed or its use refused, else 0.
pub(super) fn exit_status(answers: &[CheckAnswer<'_>]) -> u8 {
    let any = |test: fn(&DecisionDetails) -> bool| answers.iter().any(|it| test(&it.explanation));
    if any(|it| it.reason == AccessReason::Unreachable) {
        3
    } else {
        let is_refused = |it: &CheckAnswer<'_>| {
            let preference = it.preference.as_ref();
            preference.is_some_and(|it| it.preference == Preference::Refuse.as_str())
        };
        let is_disallowed = any(|it| it.verdict == AccessVerdict::Disallow);
        u8::from(is_disallowed || answers.iter().any(is_refused))
    }
}
