//! The judgement of a site's statements about use, for a crawler that declares its purposes. Each source of statements
//! is added as it arrives: robots.txt, other documents, the response's head, the page.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use wayleave_robots_txt::{AccessResult, MatchContext, Origin, Target};
use wayleave_usage_preferences::{
    Preference, PreferenceJudgement, PreferenceQuery, PreferenceSettings, PreferenceSource,
    PreferenceState, PreferenceStatement, StatementCarrier, UsageDuty,
};

use crate::crawler::{Crawler, EnforcementMode};
use crate::documents::{
    ConsultedDocument, DocumentBatch, DocumentPending, DocumentResult, DocumentToFetch,
    documents_to_fetch, licences_to_fetch,
};
use crate::reason::Reason;
use crate::refusal::{Refusal, RefusalBasis};
use crate::robots::RobotsCopy;
use crate::stated_preference::{DocumentSeen, StatedPreference};
use crate::target::{ResolvedTarget, TargetScope};

/// Everything a site has stated so far about the use of the requested content, and the resulting judgement.
#[derive(Clone, Debug)]
pub struct PreferenceFinding {
    crawler: Arc<Crawler>,
    origin: Origin,
    robots_txt: RobotsCopy,
    state: PreferenceState,
    /// The preference for each purpose of the crawler.
    pub judgement: PreferenceJudgement,
    /// Duties that only the user of the response can fulfil.
    pub duties: Vec<UsageDuty>,
    documents: Vec<ConsultedDocument>,
}

impl PreferenceFinding {
    /// Begins with the statements of robots.txt. Returns `None` where no preference is judged: for requests that do more than
    /// read, because preferences are about fetched content, for robots.txt itself, and for bypassed hosts.
    pub(crate) fn from_robots_txt(
        robots_txt: RobotsCopy,
        settings: &PreferenceSettings,
        crawler: &Arc<Crawler>,
        method: &str,
        resolved: &ResolvedTarget,
        context: MatchContext,
    ) -> Option<Self> {
        // The methods inside an uninspected tunnel are not seen, so it counts as a read.
        let only_reads =
            resolved.scope == TargetScope::EveryPath || matches!(method, "GET" | "HEAD");
        if !only_reads {
            return None;
        }
        let query = query_of(crawler, settings, robots_txt.at());
        let access = robots_txt.access();
        let state = robots_txt_state(query, access, &resolved.target, resolved.scope, context)?;
        Some(Self {
            crawler: Arc::clone(crawler),
            origin: resolved.target.origin().clone(),
            judgement: state.judge(query),
            duties: state.duties(query),
            state,
            robots_txt,
            documents: Vec::new(),
        })
    }

    /// Makes the brief budget of the request a whole one. Returns false if it was spent, so that the finding is not whole.
    pub(crate) fn extend_budget(&mut self) -> bool {
        let mut context = self.state.match_context().clone();
        let is_whole = !context.is_spent();
        context.budget.extend();
        self.state.set_match_context(context);
        is_whole
    }

    /// Returns the crawler's query. It borrows all of `self`, so methods that change the state while they use one call
    /// [`query_of`] instead.
    fn query<'a>(&'a self, settings: &'a PreferenceSettings) -> PreferenceQuery<'a> {
        query_of(&self.crawler, settings, self.robots_txt.at())
    }

    fn judge_again(&mut self, settings: &PreferenceSettings) {
        let query = query_of(&self.crawler, settings, self.robots_txt.at());
        self.judgement = self.state.judge(query);
        self.duties = self.state.duties(query);
    }

    /// Returns the origin's files and the licences that could still change the judgement; `None` if there are none, or if a
    /// purpose is refused whatever they state.
    pub(crate) fn documents_to_fetch(
        &self,
        settings: &PreferenceSettings,
    ) -> Option<DocumentBatch> {
        let query = self.query(settings);
        if self.state.is_already_refused(query) {
            return None;
        }
        let documents = documents_to_fetch(query, &self.origin, &self.state);
        if documents.is_empty() { None } else { Some(self.batch(documents)) }
    }

    /// Returns the licences that a response named, unless they could only repeat a refusal.
    pub fn licences_to_fetch(&self, settings: &PreferenceSettings) -> Option<DocumentBatch> {
        let licences = licences_to_fetch(&self.state);
        if licences.is_empty() || self.state.is_already_refused(self.query(settings)) {
            return None;
        }
        Some(self.batch(licences))
    }

    fn batch(&self, documents: Vec<DocumentToFetch>) -> DocumentBatch {
        DocumentBatch {
            documents,
            // Matching robots.txt against the documents spends the request's budget, which comes back with the results. It is
            // copied, not taken: if this batch is dropped, the next one must not start with a full budget.
            context: self.state.match_context().clone(),
            crawler: Arc::clone(&self.crawler),
            origin: self.origin.clone(),
            robots_txt: self.robots_txt.clone(),
        }
    }

    /// Adds documents, in the order of the batch.
    ///
    /// # Errors
    ///
    /// Returns an error if a document that could refuse has not arrived.
    pub(crate) fn add_documents(
        &mut self,
        settings: &PreferenceSettings,
        batch: DocumentBatch,
        results: &[DocumentResult],
    ) -> Result<(), DocumentPending> {
        self.state.set_match_context(batch.context);
        for (document, result) in batch.documents.iter().zip(results) {
            let query = query_of(&self.crawler, settings, self.robots_txt.at());
            document.add_to(&mut self.state, query, result)?;
            self.documents.extend(document.consulted(result));
        }
        self.judge_again(settings);
        Ok(())
    }

    /// Adds licences that a response named, in the order of the batch. An unavailable licence refuses.
    pub fn add_licences(
        &mut self,
        settings: &PreferenceSettings,
        batch: DocumentBatch,
        results: &[DocumentResult],
    ) {
        self.state.set_match_context(batch.context);
        for (licence, result) in batch.documents.iter().zip(results) {
            licence.add_licence_to(&mut self.state, result);
            self.documents.extend(licence.consulted(result));
        }
        self.judge_again(settings);
    }

    /// Returns the finding with the statements in a response's head added.
    #[must_use]
    pub fn with_head<'f>(
        mut self,
        settings: &PreferenceSettings,
        status: u16,
        fields: &(impl Iterator<Item = (&'f str, &'f str)> + Clone),
    ) -> Self {
        let query = query_of(&self.crawler, settings, self.robots_txt.at());
        self.state.add_response_head(query, status, fields);
        self.judge_again(settings);
        self
    }

    /// Returns the finding with the statements in the beginning of a page added.
    #[must_use]
    pub fn with_page(mut self, settings: &PreferenceSettings, page: &str) -> Self {
        let query = query_of(&self.crawler, settings, self.robots_txt.at());
        self.state.add_page(query, page);
        self.judge_again(settings);
        self
    }

    /// Returns whether the beginning of the response's body may state more.
    #[must_use]
    pub fn needs_page(&self, settings: &PreferenceSettings) -> bool {
        self.state.needs_page(self.query(settings))
    }

    /// Returns whether a purpose is refused whatever the page states. A page can lift a refusal for lack of a statement, and a
    /// TDMRep reservation, which the page's own supersedes.
    #[must_use]
    pub fn is_final_refusal(&self) -> bool {
        let mut by_purpose = self.judgement.by_purpose.iter();
        by_purpose.any(|judged| {
            let source = judged.statement.as_ref().map(|statement| statement.source);
            judged.preference == Preference::Refuse
                && source.is_some_and(|source| source != PreferenceSource::Tdmrep)
        })
    }

    /// Returns whether a refusal is only counted and logged.
    #[must_use]
    pub fn is_only_observed(&self) -> bool {
        self.crawler.mode == EnforcementMode::Observe
    }

    /// Returns the preference for each purpose, with its document.
    pub fn stated_preferences(&self) -> impl Iterator<Item = StatedPreference> {
        self.judgement.by_purpose.iter().map(|preference| {
            let document = self.document_of(preference.statement.as_ref());
            // Only the deciding preference has a stage other than its statement's.
            StatedPreference {
                preference: preference.clone(),
                stage: None,
                document: document.map(|document| Box::new(document.seen.clone())),
            }
        })
    }

    /// Returns the documents that were requested.
    pub fn documents_seen(&self) -> impl Iterator<Item = &DocumentSeen> {
        self.documents.iter().map(|document| &document.seen)
    }

    /// Returns the document that holds a statement.
    fn document_of(&self, statement: Option<&PreferenceStatement>) -> Option<&ConsultedDocument> {
        let statement = statement?;
        self.documents.iter().find(|document| {
            document.source == statement.source
                && match (document.source, &statement.carrier) {
                    // There may be several licences, each with its own URL.
                    (PreferenceSource::Rsl, _) => {
                        statement.policy.as_ref() == Some(&document.named)
                    }
                    (_, StatementCarrier::Tdmrep { .. } | StatementCarrier::File { .. }) => true,
                    _ => false,
                }
        })
    }

    /// Returns the refusal if no response can change it: the site states it, or the target is an uninspected tunnel, whose
    /// responses are not seen.
    pub(crate) fn refusal_before_request(&self, resolved: &ResolvedTarget) -> Option<Refusal> {
        let is_stated = self.judgement.statement().is_some();
        let sees_no_response = resolved.scope == TargetScope::EveryPath;
        self.refusal(resolved).filter(|_| is_stated || sees_no_response)
    }

    /// Returns the refusal, if one of the purposes is refused.
    #[must_use]
    pub fn refusal(&self, resolved: &ResolvedTarget) -> Option<Refusal> {
        if self.judgement.preference != Preference::Refuse {
            return None;
        }
        let judgement = &self.judgement;
        let mut by_purpose = judgement.by_purpose.iter();
        let deciding = by_purpose.find(|purpose| Some(purpose.purpose) == judgement.purpose)?;
        let purpose = deciding.purpose;
        let statement = deciding.statement.as_ref();
        let is_too_costly = statement.is_some_and(PreferenceStatement::is_too_costly);
        let details = match statement {
            Some(statement) if is_too_costly => format!(
                "finding what {} says about use of this URL for {purpose} takes too long",
                statement.carrier
            ),
            Some(statement) => {
                format!("{} ({}) refuses use for {purpose}", statement.text, statement.carrier)
            }
            None => format!(
                "the site says nothing about use for {purpose}, which counts as a refusal (unstated = \"refuse\")"
            ),
        };
        let document = self.document_of(statement);
        let deciding = StatedPreference {
            preference: deciding.clone(),
            stage: Some(self.judgement.stage),
            document: document.map(|document| Box::new(document.seen.clone())),
        };
        let reason = if is_too_costly { Reason::TooCostly } else { Reason::Preference };
        Some(Refusal {
            // Also for `TooCostly`, whose own title is about robots.txt.
            title: Reason::Preference.default_answer().title,
            robots_url: Some(resolved.target.origin().robots_txt_uri().into()),
            basis: Some(Box::new(RefusalBasis::Preference(deciding))),
            retry_after: document.and_then(|document| document.retry_after),
            ..Refusal::by_policy(reason, details)
        })
    }
}

/// Returns the temporary refusal of a request while a document that could refuse its use has not been fetched.
pub(crate) fn document_pending(retry_after: Duration) -> Refusal {
    let unavailable = Reason::DestinationUnavailable.default_answer();
    let details = "a document that could refuse the use has not been fetched: try again later";
    Refusal {
        // Not the 403 of other refusals by preference, since another attempt may succeed.
        status: 503,
        title: "Usage preferences unreachable",
        proxy_error: unavailable.proxy_error,
        retry_after: Some(retry_after),
        ..Refusal::by_policy(Reason::Preference, details)
    }
}

/// Returns the statements of robots.txt about the use of a target; `None` where no preference is judged.
fn robots_txt_state(
    query: PreferenceQuery<'_>,
    access: &AccessResult,
    target: &Target,
    scope: TargetScope,
    context: MatchContext,
) -> Option<PreferenceState> {
    let mut state = match scope {
        TargetScope::Path | TargetScope::Server => {
            PreferenceState::new(query, &target.to_string(), target.path().as_str())
        }
        TargetScope::EveryPath => PreferenceState::for_every_path(&target.to_string()),
        // Reading robots.txt is always allowed, and a bypassed host is not judged.
        TargetScope::RobotsTxt | TargetScope::Bypass => return None,
    }
    .with_context(context);
    state.add_access_result(query, access);
    Some(state)
}

/// Returns a crawler's query about use at `now`.
fn query_of<'a>(
    crawler: &'a Crawler,
    settings: &'a PreferenceSettings,
    now: SystemTime,
) -> PreferenceQuery<'a> {
    PreferenceQuery {
        declaration: &crawler.declaration,
        settings,
        tokens: &crawler.tokens,
        dialect: crawler.dialect,
        all_spellings: true,
        now,
    }
}
