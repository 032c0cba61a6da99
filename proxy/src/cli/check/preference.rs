//! `wayleave check` for a purpose: the statements about use, and the preference that they amount to.

use std::fmt;

use serde::Serialize;
use wayleave_clock as clock;
use wayleave_robots_txt::{
    AccessDecision, AccessResult, AccessVerdict, Dialect, Origin, ProductToken, excerpt,
};
use wayleave_usage_preferences::{
    CrawlerDeclaration, PreferenceJudgement, PreferenceQuery, PreferenceSettings, PreferenceState,
    Purpose,
};

use super::live::FetchedFiles;

/// The members of an answer that are about use.
#[derive(Debug, Serialize)]
pub(crate) struct UseAnswer {
    pub(super) preference: &'static str,
    purpose: Option<&'static str>,
    source: Option<&'static str>,
    carrier: Option<String>,
    statement: Option<String>,
    clause: Option<&'static str>,
    policy: Option<String>,
    stage: &'static str,
}

impl From<PreferenceJudgement> for UseAnswer {
    fn from(judgement: PreferenceJudgement) -> Self {
        let statement = judgement.statement();
        Self {
            preference: judgement.preference.as_str(),
            purpose: judgement.purpose.map(Purpose::as_str),
            source: statement.map(|statement| statement.source.as_str()),
            carrier: statement.map(|statement| statement.carrier.to_string()),
            statement: statement.map(|statement| statement.text.clone()),
            clause: statement.map(|statement| statement.clause),
            policy: statement
                .and_then(|statement| statement.policy.as_deref())
                .map(|policy| excerpt(policy).into_owned()),
            stage: judgement.stage.as_str(),
        }
    }
}

impl fmt::Display for UseAnswer {
    /// Writes `refuse train-ai: content-usage, robots.txt:2: Content-Usage: train-ai=n (aipref-vocab-08 §4.1)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.preference, self.purpose.unwrap_or_default())?;
        if let (Some(source), Some(carrier)) = (self.source, &self.carrier) {
            write!(f, ": {source}, {carrier}")?;
        }
        if let (Some(statement), Some(clause)) = (&self.statement, self.clause) {
            write!(f, ": {statement} ({clause})")?;
        }
        Ok(())
    }
}

/// The URL that a question is about, with the decision of robots.txt.
pub(crate) struct UseSubject<'a> {
    pub(crate) url: &'a str,
    pub(crate) path: &'a str,
    pub(crate) tokens: &'a [ProductToken],
    pub(crate) dialect: Dialect,
    pub(crate) access: &'a AccessResult,
    pub(crate) decision: &'a AccessDecision<'a>,
    pub(crate) strict: bool,
}

impl UseSubject<'_> {
    /// Returns the preference that robots.txt states and, with `live`, the documents next to it; `None` if no purpose is
    /// declared.
    pub(super) fn preference(
        &self,
        (declaration, reading): (&CrawlerDeclaration, &PreferenceSettings),
        live: Option<(&FetchedFiles, &Origin)>,
    ) -> Option<UseAnswer> {
        if declaration.purposes.is_empty() {
            return None;
        }
        let query = self.query(declaration, reading);
        let mut state = self.state(query);
        // As in the proxy, no documents are fetched for a request that is refused anyway.
        if let Some((files, origin)) = live
            && self.decision.verdict() == AccessVerdict::Allow
            && !state.is_already_refused(query)
        {
            state = files.with_documents(state, query, origin);
        }
        Some(state.judge(query).into())
    }

    /// Returns the query for a declaration and the settings by which statements are read.
    pub(crate) fn query<'b>(
        &'b self,
        declaration: &'b CrawlerDeclaration,
        reading: &'b PreferenceSettings,
    ) -> PreferenceQuery<'b> {
        PreferenceQuery {
            declaration,
            settings: reading,
            tokens: self.tokens,
            dialect: self.dialect,
            all_spellings: self.strict,
            now: clock::system_time(),
        }
    }

    /// Returns the state before the request, as far as robots.txt determines it.
    pub(crate) fn state(&self, query: PreferenceQuery<'_>) -> PreferenceState {
        let mut state = PreferenceState::new(query, self.url, self.path);
        state.add_access_decision(self.decision);
        state.add_access_result(query, self.access);
        state
    }
}
