//! What is said about the use of what is asked for, to crawlers that declare what they fetch for.

use std::sync::Arc;
use std::time::SystemTime;

use wayleave_robots_txt::preferences::{
    Asker, Carrier, Duty, Judgement, Preference, Preferences, Reading, Say, Source, Statement,
};
use wayleave_robots_txt::{AccessResult, Reason, Target, Work};

use super::documents::{Consulted, Documents};
use super::refusal::{Deciding, Refusal};
use super::resolve::{Resolved, Scope};
use crate::http::proxy_status::ErrorType;
use crate::identity::{Crawler, Mode};
use crate::observe::decisions::{DocumentSeen, UsePreference};
use crate::parsing::Parser;
use crate::robots::{Known, Pending};

/// What a site said so far about the use of what is asked for, and what that comes to.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    crawler: Arc<Crawler>,
    /// The origin's robots.txt.
    robots_txt: Known,
    heard: Preferences,
    pub(crate) judgement: Judgement,
    /// What only whoever uses the answer can keep.
    pub(crate) duties: Vec<Duty>,
    /// The documents beside robots.txt that were asked for.
    documents: Vec<Consulted>,
}

impl Said {
    /// What robots.txt says about a crawler's purposes; nothing for requests that do more than read: preferences are about content
    /// that is fetched.
    pub(super) fn by_robots_txt(
        known: &Known,
        reading: &Reading,
        crawler: &Arc<Crawler>,
        method: &str,
        resolved: &Resolved,
        work: Work,
    ) -> Option<Self> {
        let only_reads = resolved.scope == Scope::EveryPath || matches!(method, "GET" | "HEAD");
        if !only_reads {
            return None;
        }
        let asker = asker(crawler, reading, known.at);
        let (access, target) = (known.access(), &resolved.target);
        let heard = hear_robots_txt(asker, access, target, resolved.scope, work)?;
        Some(Self {
            crawler: Arc::clone(crawler),
            robots_txt: known.clone(),
            judgement: heard.judge(asker),
            duties: heard.duties(asker),
            heard,
            documents: Vec::new(),
        })
    }

    fn asker<'a>(&'a self, reading: &'a Reading) -> Asker<'a> {
        asker(&self.crawler, reading, self.robots_txt.at)
    }

    /// The same, judged by what is heard now.
    fn judged(self, reading: &Reading) -> Self {
        let asker = self.asker(reading);
        let (judgement, duties) = (self.heard.judge(asker), self.heard.duties(asker));
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
    pub(super) async fn and_by(self, documents: &Documents<'_>) -> Result<Self, Pending> {
        let reading = &documents.settings.preferences.reading;
        if self.heard.is_refused_already(self.asker(reading)) {
            return Ok(self);
        }
        let (heard, asker) = (self.heard.clone(), self.asker(reading));
        let adding = documents.added_to(heard, asker, &self.crawler, &self.robots_txt);
        let (heard, consulted) = adding.await?;
        Ok(self.with(heard, consulted).judged(reading))
    }

    /// The same with what the licences say that the answer names, unless that can only repeat a refusal. What cannot be had
    /// refuses.
    pub(crate) async fn and_by_licences(self, documents: &Documents<'_>) -> Self {
        let reading = &documents.settings.preferences.reading;
        let has_all = self.heard.missing_licences().is_empty();
        if has_all || self.heard.is_refused_already(self.asker(reading)) {
            return self;
        }
        let (heard, asker) = (self.heard.clone(), self.asker(reading));
        let adding = documents.licences_added_to(heard, asker, &self.crawler, &self.robots_txt);
        // Few answers name any: in a box it takes no room in every exchange.
        let (heard, consulted) = Box::pin(adding).await;
        self.with(heard, consulted).judged(reading)
    }

    fn with(mut self, heard: Preferences, consulted: Vec<Consulted>) -> Self {
        self.documents.extend(consulted);
        Self { heard, ..self }
    }

    /// The same with what the head of the answer says.
    pub(crate) fn and_by_fields<'f>(
        &self,
        reading: &Reading,
        status: u16,
        fields: &(impl Iterator<Item = (&'f str, &'f str)> + Clone),
    ) -> Self {
        let mut said = self.clone();
        said.heard.hear_head(self.asker(reading), status, fields);
        said.judged(reading)
    }

    /// Whether the beginning of the answer, whose head was heard, may say more.
    pub(crate) fn awaits_page(&self, reading: &Reading) -> bool {
        self.heard.awaits_page(self.asker(reading))
    }

    /// The same with what the beginning of the page says.
    pub(crate) async fn and_by_page(
        mut self,
        reading: &Reading,
        page: String,
        parser: &Parser,
    ) -> Self {
        let reading = reading.clone();
        let bytes = page.len();
        let hear = move || {
            let asker = asker(&self.crawler, &reading, self.robots_txt.at);
            self.heard.hear_page(asker, &page);
            self.judged(&reading)
        };
        // In a box it takes no room in every exchange.
        Box::pin(parser.parse(bytes, hear)).await
    }

    /// Whether a refusal stands whatever the page says: not one because nothing is said, nor a reservation, whose place one in the
    /// page takes.
    pub(crate) fn is_final_refusal(&self) -> bool {
        let each = self.judgement.each.iter();
        let mut refused = each.filter(|it| it.preference == Preference::Refuse);
        refused.any(|it| {
            it.statement
                .as_ref()
                .is_some_and(|it| it.source != Source::Tdmrep)
        })
    }

    /// Whether the origin asks for payment or a licence, whatever the purpose.
    pub(crate) fn asks_for_payment(&self) -> bool {
        let statement = self.judgement.statement();
        statement.is_some_and(|it| it.source == Source::Payment)
    }

    /// Whether it is refused because what is said takes too long to match.
    fn is_too_costly(&self) -> bool {
        let statement = self.judgement.statement();
        statement.is_some_and(Statement::is_too_costly)
    }

    /// Whether a refusal is only counted and logged.
    pub(crate) fn is_only_observed(&self) -> bool {
        self.crawler.mode == Mode::Observe
    }

    /// What is said about each purpose.
    pub(crate) fn each(&self) -> Vec<UsePreference> {
        let each = self.judgement.each.iter();
        let say = |say: &Say| UsePreference {
            document: self
                .document(say.statement.as_ref())
                .map(|it| Box::new(it.seen.clone())),
            ..say.into()
        };
        each.map(say).collect()
    }

    /// The documents beside robots.txt that were asked.
    pub(crate) fn documents(&self) -> Vec<DocumentSeen> {
        let documents = self.documents.iter();
        documents.map(|it| it.seen.clone()).collect()
    }

    /// The document that a statement stands in.
    fn document(&self, statement: Option<&Statement>) -> Option<&Consulted> {
        let statement = statement?;
        let mut documents = self.documents.iter();
        documents.find(|it| {
            it.source == statement.source
                && match (it.source, &statement.carrier) {
                    // Each by its name, wherever that stands.
                    (Source::Rsl, _) => statement.policy.as_ref() == Some(&it.named),
                    (_, Carrier::Tdmrep { .. } | Carrier::File { .. }) => true,
                    _ => false,
                }
        })
    }

    /// The refusal that needs no answer: of a purpose, or of what nothing is said about to who will not show what it is.
    pub(super) fn refusal_before(&self, resolved: &Resolved) -> Option<Refusal> {
        let is_stated = self.judgement.statement().is_some();
        let is_last = resolved.scope == Scope::EveryPath;
        self.refusal(resolved).filter(|_| is_stated || is_last)
    }

    /// The refusal, if one of the purposes is refused.
    pub(crate) fn refusal(&self, resolved: &Resolved) -> Option<Refusal> {
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
            statement: Some(Box::new(Deciding::Preference(deciding))),
            retry_after: document.and_then(|it| it.retry_after),
            ..Refusal::new(
                403,
                "Refused by usage preference",
                ErrorType::HttpRequestDenied,
                match is_too_costly {
                    true => Reason::TooCostly.as_str(),
                    false => "preference",
                },
                details,
            )
        })
    }
}

/// What robots.txt says about the use of what is asked for; nothing where no preference is judged.
pub(crate) fn hear_robots_txt(
    asker: Asker<'_>,
    access: &AccessResult,
    target: &Target,
    scope: Scope,
    work: Work,
) -> Option<Preferences> {
    let heard = match scope {
        Scope::Path | Scope::Server => {
            Preferences::new(asker, &target.to_string(), target.path().as_str())
        }
        Scope::EveryPath => Preferences::for_every_path(&target.to_string()),
        // It is always fetched, and where nothing is judged no preference is either.
        Scope::RobotsTxt | Scope::Bypass => return None,
    };
    let mut heard = heard.after(work);
    heard.hear_access_result(asker, access);
    Some(heard)
}

/// A crawler as it asks at a moment.
pub(crate) fn asker<'a>(crawler: &'a Crawler, reading: &'a Reading, now: SystemTime) -> Asker<'a> {
    Asker {
        declaration: &crawler.declaration,
        reading,
        tokens: &crawler.tokens,
        dialect: crawler.dialect,
        strict: true,
        now,
    }
}
