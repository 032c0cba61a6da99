//! The members of a row that are about use, and the preference that its statements amount to.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use bytesize::ByteSize;
use serde::Deserialize;
use wayleave_usage_preferences::{
    CrawlerDeclaration, PreferenceSettings, PreferenceStage, Purpose, RslLicence, TdmrepFile,
};

use crate::cli::check::preference::{UseAnswer, UseSubject};

/// The length of a page's beginning that is read, unless the row sets another.
const META_SCAN_BYTES: u64 = 64 * 1024;

/// The members of a row that are about use. The others are in [`ConformanceRow`](super::ConformanceRow).
#[derive(Deserialize)]
pub(super) struct UseRow {
    purpose: Option<OneOrMany>,
    status: Option<u16>,
    headers: Option<Vec<(String, String)>>,
    html: Option<String>,
    tdmrep: Option<String>,
    #[serde(default)]
    rsl: BTreeMap<String, String>,
    #[serde(default)]
    config: UseRowConfig,
}

/// A member that is a word or a list of words.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    pub(super) fn words(&self) -> &[String] {
        match self {
            Self::One(word) => std::slice::from_ref(word),
            Self::Many(words) => words,
        }
    }
}

impl Default for OneOrMany {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

/// Keys of `[[crawler]]` and `[preferences]`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct UseRowConfig {
    /// The purposes, if the row itself names none.
    purposes: Vec<String>,
    purpose_tokens: BTreeMap<String, String>,
    content_use: Option<String>,
    unstated: Option<String>,
    sources: Option<Vec<String>>,
    meta_scan: Option<String>,
    rsl_user: String,
    rsl_geo: String,
    /// Only checked: no response is forwarded here.
    on_answer: Option<String>,
    /// `allow` or `refuse`, as if a `[[rule]]` matched.
    rule: Option<String>,
}

impl UseRow {
    /// Parses the members about use of a line.
    ///
    /// # Errors
    ///
    /// Returns a message if the line is wrong.
    pub(super) fn parse(line: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(line).map_err(|error| error.to_string())
    }

    /// Returns the preference about the use; `None` if the row names no purpose.
    ///
    /// # Errors
    ///
    /// Returns a message if the row is wrong.
    pub(super) fn answer(&self, subject: &UseSubject<'_>) -> Result<Option<UseAnswer>, String> {
        let declaration = self.declaration()?;
        let reading = self.config.reading()?;
        if declaration.purposes.is_empty() {
            return Ok(None);
        }
        let query = subject.query(&declaration, &reading);
        // In the order of the stages, because the answer names the latest.
        let mut state = subject.state(query);
        if let Some(rule) = &self.config.rule {
            state.add_rule(one_of("rule", rule, ["allow", "refuse"])? == 0);
        }
        if let Some(file) = &self.tdmrep {
            state.add_tdmrep(query, &TdmrepFile::parse(file.as_bytes()));
        }
        if self.headers.is_some() || self.status.is_some() {
            let status = self.status.unwrap_or(200);
            let fields = self
                .headers
                .iter()
                .flatten()
                .filter(|_| has_relevant_fields(status))
                .map(|(name, value)| (name.as_str(), value.as_str()));
            state.add_response_head(query, status, &fields);
        }
        let meta_scan = self.config.meta_scan_bytes()?;
        // As in the proxy: a request that is refused brings no page, and neither does an error.
        let is_refused_before =
            state.is_already_refused(query) && state.judge(query).stage == PreferenceStage::Before;
        let has_page = !is_refused_before && self.status.is_none_or(is_content) && meta_scan > 0;
        if let Some(page) = self.html.as_deref().filter(|_| has_page) {
            // The limit counts bytes, and may lie within a character.
            state.add_page(query, &page[..page.floor_char_boundary(meta_scan)]);
        }
        // Last: a licence counts only if a statement has named it.
        for (url, document) in &self.rsl {
            state.add_licence(url, &RslLicence::parse(document.as_bytes()).into());
        }
        Ok(Some(state.judge(query).into()))
    }

    fn declaration(&self) -> Result<CrawlerDeclaration, String> {
        let purposes = self.purpose.as_ref().map_or(&self.config.purposes[..], OneOrMany::words);
        let tokens = self.config.purpose_tokens.iter().map(|(purpose, token)| {
            let purpose = parse("purpose_tokens", purpose)?;
            Ok((purpose, parse("purpose_tokens", token)?))
        });
        let unstated = self.config.unstated.as_deref().unwrap_or("allow");
        let content_use = self.config.content_use.as_deref();
        Ok(CrawlerDeclaration {
            purposes: purposes
                .iter()
                .map(|name| parse::<Purpose>("purpose", name))
                .collect::<Result<_, _>>()?,
            purpose_tokens: tokens.collect::<Result<_, String>>()?,
            content_use: content_use.map(|words| parse("content_use", words)).transpose()?,
            refuse_unstated: one_of("unstated", unstated, ["allow", "refuse"])? == 1,
        })
    }
}

impl UseRowConfig {
    fn reading(&self) -> Result<PreferenceSettings, String> {
        let default = PreferenceSettings::default();
        let sources = self
            .sources
            .as_ref()
            .map(|names| names.iter().map(|name| parse("sources", name)).collect::<Result<_, _>>());
        let on_answer = self.on_answer.as_deref().unwrap_or("withhold");
        one_of("on_answer", on_answer, ["withhold", "label"])?;
        Ok(PreferenceSettings {
            sources: sources.transpose()?.unwrap_or(default.sources),
            rsl_user: self.rsl_user.clone(),
            rsl_geo: self.rsl_geo.clone(),
        })
    }

    fn meta_scan_bytes(&self) -> Result<usize, String> {
        let size = match &self.meta_scan {
            Some(text) => parse("meta_scan", text)?,
            None => ByteSize(META_SCAN_BYTES),
        };
        Ok(usize::try_from(size.as_u64()).unwrap_or(usize::MAX))
    }
}

/// Returns whether the fields of a response with this status count: it has content, or asks for a licence or for payment.
fn has_relevant_fields(status: u16) -> bool {
    is_content(status) || matches!(status, 401 | 402)
}

fn is_content(status: u16) -> bool {
    matches!(status, 200..=299)
}

fn parse<T: FromStr<Err: fmt::Display>>(member: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|error| format!("{member}: {error}"))
}

/// Returns the index of the word that a member is.
fn one_of(member: &str, text: &str, words: [&str; 2]) -> Result<usize, String> {
    let index = words.iter().position(|word| *word == text);
    index.ok_or_else(|| format!("{member}: {text:?} is neither {} nor {}", words[0], words[1]))
}
