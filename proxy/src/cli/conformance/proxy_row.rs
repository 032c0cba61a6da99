//! Rows with `"as": "proxy"`: the proxy's verdict, by its configuration and the files of the row.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use wayleave_admission::offline::InputSource;
use wayleave_admission::preview::{PurposeWords, Question};
use wayleave_clock::system_time;
use wayleave_decision::{DocumentResult, RobotsCopy};
use wayleave_lifecycle::Resource;
use wayleave_robots_txt::{AccessResult, Dialect, Origin, ProductToken};
use wayleave_usage_preferences::TDMREP_PATH;

use super::use_row::OneOrMany;
use crate::cli::check::url_list::with_escaped_spaces;
use crate::cli::check::verdict::{ProxySettings, word};
use crate::cli::config_file::load_config;

/// The members of such a row. Those that describe a response are mistakes: the verdict is about the request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProxyRow {
    r#as: String,
    url: String,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    tokens: Vec<String>,
    token: Option<String>,
    crawler: Option<String>,
    client: Option<String>,
    method: Option<String>,
    dialect: Option<String>,
    #[serde(default)]
    purpose: OneOrMany,
    tdmrep: Option<String>,
    #[serde(default)]
    rsl: BTreeMap<String, String>,
    // These are read with any row.
    #[serde(default, rename = "id")]
    _id: IgnoredAny,
    #[serde(default, rename = "robots")]
    _robots: IgnoredAny,
    #[serde(default, rename = "robots_base64")]
    _robots_base64: IgnoredAny,
    // Remarks on a test case, which have no effect.
    #[serde(default, rename = "expect")]
    _expect: IgnoredAny,
    #[serde(default, rename = "stage")]
    _stage: IgnoredAny,
    #[serde(default, rename = "because")]
    _because: IgnoredAny,
    #[serde(default, rename = "source")]
    _source: IgnoredAny,
    #[serde(default, rename = "note")]
    _note: IgnoredAny,
}

/// The proxy's verdict on a row.
#[derive(Serialize)]
pub(super) struct RowVerdict {
    verdict: &'static str,
    reason: String,
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    would_be: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<String>,
}

/// The configuration of the proxy, loaded when the first row needs it.
pub(super) struct RowSettings<'a> {
    pub(super) config: Option<&'a Path>,
    pub(super) loaded: Option<Result<ProxySettings, String>>,
}

impl RowSettings<'_> {
    /// Decides about a row, whose robots.txt is `access`.
    ///
    /// # Errors
    ///
    /// Returns a message if the row or the configuration is wrong.
    pub(super) fn decide(
        &mut self,
        line: &[u8],
        access: &AccessResult,
        dialect: Option<Dialect>,
    ) -> Result<RowVerdict, String> {
        let row: ProxyRow = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        if row.r#as != "proxy" {
            return Err(format!("as: {:?} is not \"proxy\"", row.r#as));
        }
        // The error is kept as well: its details are printed once, not for every row.
        let loaded = self.loaded.get_or_insert_with(|| {
            load_config(self.config)
                .map(|(config, _)| ProxySettings::new(&config))
                .map_err(|_| "the configuration cannot be used".to_owned())
        });
        let settings = loaded.as_ref().map_err(String::clone)?;
        let tokens = row.product_tokens()?;
        let question = row.question(dialect)?;
        let mut files = RowFiles { access: Arc::new(access.clone()), at: system_time(), row: &row };
        let verdict = settings.decide(&question, &tokens, &mut files)?;
        Ok(RowVerdict {
            verdict: word(&verdict),
            reason: verdict.reason().to_owned(),
            status: verdict.status(),
            would_be: verdict.would_be(),
            details: verdict.details().map(str::to_owned),
        })
    }
}

impl ProxyRow {
    fn names(&self) -> impl Iterator<Item = &String> {
        self.tokens.iter().chain(&self.token)
    }

    fn product_tokens(&self) -> Result<Vec<ProductToken>, String> {
        // An empty name stands for the crawler that only `*` can mean, which has no token.
        self.names()
            .filter(|name| !name.is_empty())
            .map(|name| ProductToken::new(name))
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())
    }

    fn question(&self, dialect: Option<Dialect>) -> Result<Question, String> {
        let names: Vec<&str> = self.names().map(String::as_str).collect();
        let dialect = match &self.dialect {
            Some(name) => Some(name.parse().map_err(|error| format!("{error}"))?),
            None => dialect,
        };
        Ok(Question {
            url: with_escaped_spaces(&self.url),
            // Tokens stand for a `User-Agent` that names them, as on the command line.
            user_agent: if names.is_empty() { self.user_agent.clone() } else { names.join(" ") },
            crawler: self.crawler.clone(),
            dialect,
            client: self.client.clone(),
            method: self.method.clone(),
            purpose: self.purpose.words().iter().cloned().map(PurposeWords).collect(),
        })
    }
}

/// The files of a row.
struct RowFiles<'a> {
    access: Arc<AccessResult>,
    at: SystemTime,
    row: &'a ProxyRow,
}

impl InputSource for RowFiles<'_> {
    fn robots_txt(&mut self, _: &Origin) -> RobotsCopy {
        RobotsCopy::Archived { access: Arc::clone(&self.access), error_kind: None, at: self.at }
    }

    fn document(&mut self, resource: &Resource) -> DocumentResult {
        let path = resource.path();
        let text = match path.as_str() {
            TDMREP_PATH => self.row.tdmrep.as_ref(),
            _ => self.row.rsl.get(&resource.uri()),
        };
        // A document that the row does not have is one that the origin does not serve.
        let document = text.and_then(|text| resource.kind().parse(text.as_bytes(), false));
        DocumentResult::Archived(document)
    }
}
