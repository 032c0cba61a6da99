//! The answer of `wayleave check` about one URL, as text and as JSON.

use serde::Serialize;
use wayleave_policy::{
    AccessResult, Dialect, Explanation, ProductToken, Reason, Verdict, decide, decide_strictly,
};

use crate::observe::harmless::{harmless, harmless_json};

/// The decision about one URL, with what the file says beside rules.
#[derive(Debug)]
pub(super) struct Answer<'a> {
    url: &'a str,
    explanation: Explanation,
    crawl_delay: Option<f64>,
    sitemaps: Vec<String>,
}

#[derive(Serialize)]
struct Json<'a> {
    url: &'a str,
    verdict: &'a str,
    reason: &'a str,
    line: Option<u32>,
    rule: Option<&'a str>,
    dialect: &'a str,
    group: &'a [String],
    crawl_delay: Option<f64>,
    sitemaps: &'a [String],
}

impl<'a> Answer<'a> {
    pub(super) fn new(
        url: &'a str,
        access: &AccessResult,
        dialect: Dialect,
        tokens: &[ProductToken],
        path: &str,
        strict: bool,
    ) -> Self {
        let judge = if strict { decide_strictly } else { decide };
        let (crawl_delay, sitemaps) = match access {
            AccessResult::Successful(robots) => {
                let delay = robots.crawl_delay(dialect, tokens);
                (
                    delay.map(|delay| delay.as_secs_f64()),
                    robots.sitemaps().collect(),
                )
            }
            _ => (None, Vec::new()),
        };
        Self {
            url,
            explanation: judge(access, dialect, tokens, path).explain(),
            crawl_delay,
            sitemaps,
        }
    }

    /// `disallow /private: rule, line 2: Disallow: /private`
    pub(super) fn to_text(&self) -> String {
        let Explanation {
            verdict,
            reason,
            dialect,
            line,
            rule,
            ..
        } = &self.explanation;
        let mut text = format!("{verdict} {}: {reason}", self.url);
        if let Some(line) = line {
            text += &format!(", line {line}");
        }
        if let Some(rule) = rule {
            text += &format!(": {rule}");
        }
        if *dialect != Dialect::default() {
            text += &format!(" ({dialect})");
        }
        harmless(&text).into_owned()
    }

    pub(super) fn to_json(&self) -> String {
        let Explanation {
            verdict,
            reason,
            dialect,
            line,
            rule,
            group,
        } = &self.explanation;
        let json = Json {
            url: self.url,
            verdict: verdict.as_str(),
            reason: reason.as_str(),
            line: *line,
            rule: rule.as_deref(),
            dialect: dialect.as_str(),
            group,
            crawl_delay: self.crawl_delay,
            sitemaps: &self.sitemaps,
        };
        let json = serde_json::to_vec(&json).expect("strings and numbers are JSON");
        String::from_utf8(harmless_json(json)).expect("JSON is UTF-8")
    }
}

/// 3 if anything could not be decided, else 1 if anything is disallowed, else 0.
pub(super) fn exit_status(answers: &[Answer<'_>]) -> u8 {
    let any = |test: fn(&Explanation) -> bool| answers.iter().any(|it| test(&it.explanation));
    if any(|it| it.reason == Reason::Unreachable) {
        3
    } else {
        u8::from(any(|it| it.verdict == Verdict::Disallow))
    }
}
