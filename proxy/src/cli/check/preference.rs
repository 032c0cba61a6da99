//! `wayleave check` for a purpose: what is said about use, and what it comes to.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use bytesize::ByteSize;
use serde::{Deserialize, Serialize};
use wayleave_robots_txt::{
    AccessDecision, AccessResult, AccessVerdict, Dialect, Origin, ProductToken, RobotsTxt, excerpt,
};
use wayleave_usage_preferences::{
    CrawlerDeclaration, PreferenceJudgement, PreferenceQuery, PreferenceSettings, PreferenceStage,
    PreferenceState, Purpose, RslLicence, TdmrepFile,
};

use super::live::FetchedFiles;
use crate::clock;

/// How much of a page is read, unless the question says otherwise.
const META_SCAN_BYTES: u64 = 64 * 1024;

/// The members of a question that are about use. Those of any question are read elsewhere.
#[derive(Deserialize)]
pub(super) struct UseQuestion {
    purpose: Option<OneOrMany>,
    status: Option<u16>,
    headers: Option<Vec<(String, String)>>,
    html: Option<String>,
    tdmrep: Option<String>,
    #[serde(default)]
    rsl: BTreeMap<String, String>,
    ai_txt: Option<String>,
    #[serde(default)]
    config: UseQuestionConfig,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// Keys of `[[crawler]]` and `[preferences]`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct UseQuestionConfig {
    /// Where the question itself names none.
    purposes: Vec<String>,
    purpose_tokens: BTreeMap<String, String>,
    content_use: Option<String>,
    unstated: Option<String>,
    sources: Option<Vec<String>>,
    meta_scan: Option<String>,
    legacy_labels: Option<bool>,
    robots_meta: Option<String>,
    rsl_user: String,
    rsl_geo: String,
    /// Nothing is handed on here, so this is only checked.
    on_answer: Option<String>,
    /// `allow` or `refuse`, as if a rule of one's own matched.
    rule: Option<String>,
}

/// The members of an answer that are about use.
#[derive(Debug, Serialize)]
pub(super) struct UseAnswer {
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
        let policy = statement.and_then(|it| it.policy.as_deref());
        Self {
            preference: judgement.preference.as_str(),
            purpose: judgement.purpose.map(Purpose::as_str),
            source: statement.map(|it| it.source.as_str()),
            carrier: statement.map(|it| it.carrier.to_string()),
            statement: statement.map(|it| it.text.clone()),
            clause: statement.map(|it| it.clause),
            policy: policy.map(|it| excerpt(it).into_owned()),
            stage: judgement.stage.as_str(),
        }
    }
}

impl fmt::Display for UseAnswer {
    /// `refuse train-ai: content-usage, robots.txt:2: Content-Usage: train-ai=n (aipref-vocab-08 §4.1)`
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

/// What a question is about, whatever its purpose.
pub(super) struct UseSubject<'a> {
    pub(super) url: &'a str,
    pub(super) path: &'a str,
    pub(super) tokens: &'a [ProductToken],
    pub(super) dialect: Dialect,
    pub(super) access: &'a AccessResult,
    pub(super) decision: &'a AccessDecision<'a>,
    pub(super) strict: bool,
}

impl UseSubject<'_> {
    /// What its robots.txt says about use, and the documents beside it if it is `live`; nothing if no purpose is declared.
    pub(super) fn preference(
        &self,
        (declaration, reading): (&CrawlerDeclaration, &PreferenceSettings),
        live: Option<(&mut FetchedFiles, &Origin)>,
    ) -> Option<UseAnswer> {
        if declaration.purposes.is_empty() {
            return None;
        }
        let asker = self.asker(declaration, reading);
        let mut heard = self.hear(asker);
        // As in the proxy, nothing more is asked for what is refused anyway.
        let live = live.filter(|_| !heard.is_already_refused(asker));
        if let Some((live, origin)) =
            live.filter(|_| self.decision.verdict() == AccessVerdict::Allow)
        {
            heard = live.with_documents(heard, asker, origin);
        }
        Some(heard.judge(asker).into())
    }

    fn asker<'b>(
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

    fn hear(&self, asker: PreferenceQuery<'_>) -> PreferenceState {
        let mut heard = PreferenceState::new(asker, self.url, self.path);
        heard.add_access_decision(self.decision);
        heard.add_access_result(asker, self.access);
        heard
    }
}

impl UseQuestion {
    /// # Errors
    ///
    /// What is wrong with the line.
    pub(super) fn read(line: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(line).map_err(|error| error.to_string())
    }

    /// What is said about use; nothing if the question names no purpose.
    ///
    /// # Errors
    ///
    /// What is wrong with the question.
    pub(super) fn answer(&self, subject: &UseSubject<'_>) -> Result<Option<UseAnswer>, String> {
        let (declaration, reading) = (self.declaration()?, self.config.reading()?);
        if declaration.purposes.is_empty() {
            return Ok(None);
        }
        let asker = subject.asker(&declaration, &reading);
        let mut heard = subject.hear(asker);
        if let Some(rule) = &self.config.rule {
            heard.add_rule(one_of("rule", rule, ["allow", "refuse"])? == 0);
        }
        if let Some(file) = &self.tdmrep {
            heard.add_tdmrep(asker, &TdmrepFile::parse(file.as_bytes()));
        }
        if let Some(file) = &self.ai_txt {
            heard.add_ai_txt(asker, &RobotsTxt::parse(file.as_bytes()));
        }
        if self.headers.is_some() || self.status.is_some() {
            let fields = self.headers.iter().flatten();
            let fields = fields.map(|(name, value)| (name.as_str(), value.as_str()));
            let status = self.status.unwrap_or(200);
            let fields = fields.filter(|_| is_heard(status));
            heard.add_response_head(asker, status, &fields);
        }
        let meta_scan = self.config.meta_scan_bytes()?;
        // As in the proxy, a page that is not asked for, or that is none, says nothing.
        let is_refused_before =
            heard.is_already_refused(asker) && heard.judge(asker).stage == PreferenceStage::Before;
        let has_page = !is_refused_before && self.status.is_none_or(is_content) && meta_scan > 0;
        if let Some(page) = self.html.as_deref().filter(|_| has_page) {
            heard.add_page(asker, &page[..page.floor_char_boundary(meta_scan)]);
        }
        for (url, document) in &self.rsl {
            heard.add_licence(url, &RslLicence::parse(document.as_bytes()).into());
        }
        Ok(Some(heard.judge(asker).into()))
    }

    fn declaration(&self) -> Result<CrawlerDeclaration, String> {
        let purposes = match &self.purpose {
            Some(OneOrMany::One(name)) => std::slice::from_ref(name),
            Some(OneOrMany::Many(names)) => names,
            None => &self.config.purposes,
        };
        let purposes = purposes.iter().map(|name| read::<Purpose>("purpose", name));
        let tokens = self.config.purpose_tokens.iter().map(|(purpose, token)| {
            let purpose = read("purpose_tokens", purpose)?;
            Ok((purpose, read("purpose_tokens", token)?))
        });
        let unstated = self.config.unstated.as_deref().unwrap_or("allow");
        let content_use = self.config.content_use.as_deref();
        Ok(CrawlerDeclaration {
            purposes: purposes.collect::<Result<_, _>>()?,
            purpose_tokens: tokens.collect::<Result<_, String>>()?,
            content_use: content_use.map(|it| read("content_use", it)).transpose()?,
            refuse_unstated: one_of("unstated", unstated, ["allow", "refuse"])? == 1,
        })
    }
}

impl UseQuestionConfig {
    fn reading(&self) -> Result<PreferenceSettings, String> {
        let default = PreferenceSettings::default();
        let sources = self.sources.as_ref().map(|names| {
            let sources = names.iter().map(|name| read("sources", name));
            sources.collect::<Result<_, _>>()
        });
        let robots_meta = self.robots_meta.as_deref();
        let on_answer = self.on_answer.as_deref().unwrap_or("withhold");
        one_of("on_answer", on_answer, ["withhold", "label"])?;
        Ok(PreferenceSettings {
            sources: sources.transpose()?.unwrap_or(default.sources),
            legacy_labels: self.legacy_labels.unwrap_or(default.legacy_labels),
            robots_meta: robots_meta
                .map_or(Ok(default.robots_meta), |it| read("robots_meta", it))?,
            rsl_user: self.rsl_user.clone(),
            rsl_geo: self.rsl_geo.clone(),
        })
    }

    fn meta_scan_bytes(&self) -> Result<usize, String> {
        let size = self.meta_scan.as_deref();
        let size = size.map_or(Ok(ByteSize(META_SCAN_BYTES)), |it| read("meta_scan", it))?;
        Ok(usize::try_from(size.as_u64()).unwrap_or(usize::MAX))
    }
}

/// Whether the fields of an answer with this status count: those of content, and of what asks for a licence or for payment.
fn is_heard(status: u16) -> bool {
    is_content(status) || matches!(status, 401 | 402)
}

fn is_content(status: u16) -> bool {
    matches!(status, 200..=299)
}

fn read<T: FromStr<Err: fmt::Display>>(member: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|error| format!("{member}: {error}"))
}

/// Which of two words a member is.
fn one_of(member: &str, text: &str, words: [&str; 2]) -> Result<usize, String> {
    let index = words.iter().position(|word| *word == text);
    index.ok_or_else(|| format!("{member}: {text:?} is neither {} nor {}", words[0], words[1]))
}
