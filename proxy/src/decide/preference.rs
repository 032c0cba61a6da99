//! What is said about the use of what is asked for, to crawlers that declare what they fetch for.

use std::sync::Arc;
use std::time::SystemTime;

use wayleave_robots_txt::{AccessReason, AccessResult, MatchContext, Target};
use wayleave_usage_preferences::{
    Preference, PreferenceJudgement, PreferenceQuery, PreferenceSettings, PreferenceSource,
    PreferenceState, PreferenceStatement, PurposePreference, StatementCarrier, UsageDuty,
};

use super::documents::{ConsultedDocument, DocumentSource};
use super::refusal::{Refusal, RefusalBasis};
use super::target::{ResolvedTarget, TargetScope};
use crate::decision_log::{DocumentRecord, UsePreference};
use crate::http::proxy_status::ProxyErrorType;
use crate::identity::{Crawler, EnforcementMode};
use crate::parser_pool::ParserPool;
use crate::robots_cache::{CachedDocument, FetchPending};

/// What a site said so far about the use of what is asked for, and what that comes to.
#[derive(Clone, Debug)]
pub(crate) struct PreferenceDecision {
    crawler: Arc<Crawler>,
    /// The origin's robots.txt.
    robots_txt: CachedDocument,
    preferences: PreferenceState,
    pub(crate) judgement: PreferenceJudgement,
    /// What only whoever uses the answer can keep.
    pub(crate) duties: Vec<UsageDuty>,
    /// The documents beside robots.txt that were asked for.
    documents: Vec<ConsultedDocument>,
}

impl PreferenceDecision {
    /// What robots.txt says about a crawler's purposes; nothing for requests that do more than read: preferences are about content
    /// that is fetched.
    pub(super) fn by_robots_txt(
        known: &CachedDocument,
        reading: &PreferenceSettings,
        crawler: &Arc<Crawler>,
        method: &str,
        resolved: &ResolvedTarget,
        work: MatchContext,
    ) -> Option<Self> {
        let only_reads =
            resolved.scope == TargetScope::EveryPath || matches!(method, "GET" | "HEAD");
        if !only_reads {
            return None;
        }
        let asker = asker(crawler, reading, known.checked_at);
        let (access, target) = (known.access(), &resolved.target);
        let heard = hear_robots_txt(asker, access, target, resolved.scope, work)?;
        Some(Self {
            crawler: Arc::clone(crawler),
            robots_txt: known.clone(),
            judgement: heard.judge(asker),
            duties: heard.duties(asker),
            preferences: heard,
            documents: Vec::new(),
        })
    }

    fn asker<'a>(&'a self, reading: &'a PreferenceSettings) -> PreferenceQuery<'a> {
        asker(&self.crawler, reading, self.robots_txt.checked_at)
    }

    /// The same, judged by what is heard now.
    fn judged(self, reading: &PreferenceSettings) -> Self {
        let asker = self.asker(reading);
        let (judgement, duties) = (
            self.preferences.judge(asker),
            self.preferences.duties(asker),
        );
        Self {
            judgement,
            duties,
            ..self
        }
    }

    /// The same with what documents beside robots.txt say, unless that can only repeat a refusal.
    ///
    /// # Errors
    ///
    /// As [`Documents::added_to`].
    pub(super) async fn with_documents(
        self,
        documents: &DocumentSource<'_>,
    ) -> Result<Self, FetchPending> {
        let reading = &documents.settings.preferences.reading;
        if self.preferences.is_already_refused(self.asker(reading)) {
            return Ok(self);
        }
        let (heard, asker) = (self.preferences.clone(), self.asker(reading));
        let adding = documents.added_to(heard, asker, &self.crawler, &self.robots_txt);
        let (heard, consulted) = adding.await?;
        Ok(self.with(heard, consulted).judged(reading))
    }

    /// The same with what the licences say that the answer names, unless that can only repeat a refusal. What cannot be had
    /// refuses.
    pub(crate) async fn with_licences(self, documents: &DocumentSource<'_>) -> Self {
        let reading = &documents.settings.preferences.reading;
        let has_all = self.preferences.missing_licences().is_empty();
        if has_all || self.preferences.is_already_refused(self.asker(reading)) {
            return self;
        }
        let (heard, asker) = (self.preferences.clone(), self.asker(reading));
        let adding = documents.licences_added_to(heard, asker, &self.crawler, &self.robots_txt);
        // Few answers name any: in a box it takes no room in every exchange.
        let (heard, consulted) = Box::pin(adding).await;
        self.with(heard, consulted).judged(reading)
    }

    fn with(mut self, heard: PreferenceState, consulted: Vec<ConsultedDocument>) -> Self {
        self.documents.extend(consulted);
        Self {
            preferences: heard,
            ..self
        }
    }

    /// The same with what the head of the answer says.
    pub(crate) fn with_headers<'f>(
        &self,
        reading: &PreferenceSettings,
        status: u16,
        fields: &(impl Iterator<Item = (&'f str, &'f str)> + Clone),
    ) -> Self {
        let mut said = self.clone();
        said.preferences
            .add_response_head(self.asker(reading), status, fields);
        said.judged(reading)
    }

    /// Whether the beginning of the answer, whose head was heard, may say more.
    pub(crate) fn needs_page(&self, reading: &PreferenceSettings) -> bool {
        self.preferences.needs_page(self.asker(reading))
    }

    /// The same with what the beginning of the page says.
    pub(crate) async fn with_page(
        mut self,
        reading: &PreferenceSettings,
        page: String,
        parser: &ParserPool,
    ) -> Self {
        let reading = reading.clone();
        let bytes = page.len();
        let hear = move || {
            let asker = asker(&self.crawler, &reading, self.robots_txt.checked_at);
            self.preferences.add_page(asker, &page);
            self.judged(&reading)
        };
        // In a box it takes no room in every exchange.
        Box::pin(parser.parse(bytes, hear)).await
    }

    /// Whether a refusal stands whatever the page says: not one because nothing is said, nor a reservation, whose place one in the
    /// page takes.
    pub(crate) fn is_final_refusal(&self) -> bool {
        let each = self.judgement.by_purpose.iter();
        let mut refused = each.filter(|it| it.preference == Preference::Refuse);
        refused.any(|it| {
            it.statement
                .as_ref()
                .is_some_and(|it| it.source != PreferenceSource::Tdmrep)
        })
    }

    /// Whether the origin asks for payment or a licence, whatever the purpose.
    pub(crate) fn asks_for_payment(&self) -> bool {
        let statement = self.judgement.statement();
        statement.is_some_and(|it| it.source == PreferenceSource::Payment)
    }

    /// Whether it is refused because what is said takes too long to match.
    fn is_too_costly(&self) -> bool {
        let statement = self.judgement.statement();
        statement.is_some_and(PreferenceStatement::is_too_costly)
    }

    /// Whether a refusal is only counted and logged.
    pub(crate) fn is_only_observed(&self) -> bool {
        self.crawler.mode == EnforcementMode::Observe
    }

    /// What is said about each purpose.
    pub(crate) fn use_preferences(&self) -> Vec<UsePreference> {
        let each = self.judgement.by_purpose.iter();
        let say = |say: &PurposePreference| UsePreference {
            document: self
                .document(say.statement.as_ref())
                .map(|it| Box::new(it.seen.clone())),
            ..say.into()
        };
        each.map(say).collect()
    }

    /// The documents beside robots.txt that were asked.
    pub(crate) fn documents_seen(&self) -> Vec<DocumentRecord> {
        let documents = self.documents.iter();
        documents.map(|it| it.seen.clone()).collect()
    }

    /// The document that a statement stands in.
    fn document(&self, statement: Option<&PreferenceStatement>) -> Option<&ConsultedDocument> {
        let statement = statement?;
        let mut documents = self.documents.iter();
        documents.find(|it| {
            it.source == statement.source
                && match (it.source, &statement.carrier) {
                    // Each by its name, wherever that stands.
                    (PreferenceSource::Rsl, _) => statement.policy.as_ref() == Some(&it.named),
                    (_, StatementCarrier::Tdmrep { .. } | StatementCarrier::File { .. }) => true,
                    _ => false,
                }
        })
    }

    /// The refusal that needs no answer: of a purpose, or of what nothing is said about to who will not show what it is.
    pub(super) fn refusal_before(&self, resolved: &ResolvedTarget) -> Option<Refusal> {
        let is_stated = self.judgement.statement().is_some();
        let is_last = resolved.scope == TargetScope::EveryPath;
        self.refusal(resolved).filter(|_| is_stated || is_last)
    }

    /// The refusal, if one of the purposes is refused.
    pub(crate) fn refusal(&self, resolved: &ResolvedTarget) -> Option<Refusal> {
        let document = self.document(self.judgement.statement());
        let deciding = UsePreference {
            document: document.map(|it| Box::new(it.seen.clone())),
            ..UsePreference::deciding(&self.judgement)?
        };
        if self.judgement.preference != Preference::Refuse {
            return None;
        }
        let purpose = &deciding.purpose;
        let is_too_costly = self.is_too_costly();
        let details = match (&deciding.statement, &deciding.carrier) {
            (_, Some(carrier)) if is_too_costly => {
                format!(
                    "finding what {carrier} says about use of this URL for {purpose} takes too long"
                )
            }
            (Some(statement), Some(carrier)) => {
                format!("{statement} ({carrier}) refuses use for {purpose}")
            }
            _ => format!(
                "nothing is said about use for {purpose}, and the crawler goes without (unstated = \"refuse\")"
            ),
        };
        Some(Refusal {
            is_policy: true,
            robots_url: Some(resolved.target.origin().robots_txt_uri().into()),
            statement: Some(Box::new(RefusalBasis::Preference(deciding))),
            retry_after: document.and_then(|it| it.retry_after),
            ..Refusal::new(
                403,
                "Refused by usage preference",
                ProxyErrorType::HttpRequestDenied,
                match is_too_costly {
                    true => AccessReason::TooCostly.as_str(),
                    false => "preference",
                },
                details,
            )
        })
    }
}

/// What robots.txt says about the use of what is asked for; nothing where no preference is judged.
pub(crate) fn hear_robots_txt(
    asker: PreferenceQuery<'_>,
    access: &AccessResult,
    target: &Target,
    scope: TargetScope,
    work: MatchContext,
) -> Option<PreferenceState> {
    let heard = match scope {
        TargetScope::Path | TargetScope::Server => {
            PreferenceState::new(asker, &target.to_string(), target.path().as_str())
        }
        TargetScope::EveryPath => PreferenceState::for_every_path(&target.to_string()),
        // It is always fetched, and where nothing is judged no preference is either.
        TargetScope::RobotsTxt | TargetScope::Bypass => return None,
    };
    let mut heard = heard.with_context(work);
    heard.add_access_result(asker, access);
    Some(heard)
}

/// A crawler as it asks at a moment.
pub(crate) fn asker<'a>(
    crawler: &'a Crawler,
    reading: &'a PreferenceSettings,
    now: SystemTime,
) -> PreferenceQuery<'a> {
    PreferenceQuery {
        declaration: &crawler.declaration,
        settings: reading,
        tokens: &crawler.tokens,
        dialect: crawler.dialect,
        all_spellings: true,
        now,
    }
}
