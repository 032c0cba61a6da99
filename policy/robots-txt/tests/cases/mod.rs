//! The cases: one JSON object a line, as `README.md` beside this file describes.

#![allow(
    clippy::disallowed_methods,
    reason = "cases are in files; the crate itself reads none (clippy.toml)"
)]

use std::collections::BTreeMap;
use std::path::Path;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::{Deserialize, Deserializer};
use wayleave_robots_txt::{AccessResult, Dialect, Origin, ProductToken, RobotsTxt};

/// The name of an expectation, and how it failed if it did.
pub(crate) type Judged = (String, Option<String>);

/// Requests, seconds, from and to.
pub(crate) type ExpectedRate = (u32, u64, Option<(String, String)>);

#[derive(Deserialize)]
pub(crate) struct Case {
    pub(crate) id: String,
    #[serde(default)]
    robots: String,
    robots_b64: Option<String>,
    #[serde(default)]
    agent: String,
    agents: Option<Vec<String>>,
    pub(crate) url: Option<String>,
    allow: Option<bool>,
    dialect: Option<String>,
    #[serde(default)]
    verdicts: BTreeMap<String, Option<bool>>,
    holds_in: Option<Vec<String>>,
    #[serde(default)]
    note: String,
    #[serde(default, deserialize_with = "present")]
    pub(crate) crawl_delay: Option<Option<f64>>,
    pub(crate) sitemaps: Option<Vec<String>>,
    pub(crate) sitemaps_distinct: Option<Vec<String>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) host: Option<Option<String>>,
    #[serde(default, deserialize_with = "present")]
    request_rate: Option<Option<Rate>>,
    request_rates: Option<Vec<Rate>>,
    #[serde(default, deserialize_with = "present")]
    visit_time: Option<Option<(String, String)>>,
    visit_times: Option<Vec<(String, String)>>,
    pub(crate) clean_param: Option<Vec<CleanParam>>,
    #[serde(default, deserialize_with = "present")]
    cache_delay: Option<Option<f64>>,
    comments: Option<Vec<String>>,
    robot_version: Option<String>,
    #[serde(default)]
    extensions: BTreeMap<String, String>,
}

#[derive(Clone, Deserialize)]
struct Rate {
    requests: u32,
    seconds: u64,
    from: Option<String>,
    to: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct CleanParam {
    pub(crate) params: Vec<String>,
    pub(crate) path: String,
}

#[derive(Deserialize)]
pub(crate) struct Exception {
    pub(crate) id: String,
    /// The dialect or the statement that does not hold.
    pub(crate) expects: String,
    pub(crate) source: String,
    pub(crate) clause: String,
    pub(crate) reason: String,
}

impl Exception {
    pub(crate) fn key(&self) -> (String, String) {
        (self.id.clone(), self.expects.clone())
    }
}

impl Case {
    /// The file, read whole: the limit of 500 KiB has its own tests.
    pub(crate) fn robots_txt(&self) -> RobotsTxt {
        let body = match &self.robots_b64 {
            Some(text) => BASE64_STANDARD.decode(text).expect("base64"),
            None => self.robots.clone().into_bytes(),
        };
        RobotsTxt::parse_with_limit(&body, usize::MAX)
    }

    pub(crate) fn access(&self) -> AccessResult {
        AccessResult::Successful(self.robots_txt())
    }

    pub(crate) fn tokens(&self) -> Vec<ProductToken> {
        let names = match &self.agents {
            Some(names) => names.iter().map(String::as_str).collect(),
            None => vec![self.agent.as_str()],
        };
        let token =
            |name| ProductToken::verbatim(name).unwrap_or_else(|_| ProductToken::anonymous());
        names.into_iter().map(token).collect()
    }

    /// Returns the verdicts expected in each dialect: by the source, and by the plain models beside it,
    /// which judge a single name only.
    pub(crate) fn expectations(&self) -> BTreeMap<Dialect, bool> {
        let mut expected = BTreeMap::new();
        if let (Some(allow), Some(holds_in), None) = (self.allow, &self.holds_in, &self.agents) {
            for dialect in [Dialect::Rfc9309, Dialect::Google, Dialect::Koster1996] {
                let holds = holds_in.iter().any(|name| name == dialect.as_str());
                expected.insert(dialect, allow == holds);
            }
        }
        for (name, allow) in &self.verdicts {
            if let (Ok(dialect), Some(allow)) = (name.parse(), allow) {
                expected.insert(dialect, *allow);
            }
        }
        let own = self.dialect.as_ref().and_then(|name| name.parse().ok());
        if let (Some(dialect), Some(allow)) = (own, self.allow) {
            expected.insert(dialect, allow);
        }
        expected
    }

    /// Returns the base of relative sitemaps, if the case names one.
    pub(crate) fn base(&self) -> Option<Origin> {
        Origin::parse(self.note.strip_prefix("base URL ")?).ok()
    }

    /// The rates expected, and whether only the first is meant.
    pub(crate) fn expected_rates(&self) -> Option<(Vec<ExpectedRate>, bool)> {
        let single = self.request_rate.clone().map(|rate| rate.into_iter().collect());
        let rates: Vec<Rate> = self.request_rates.clone().or(single)?;
        let tuple = |rate: Rate| (rate.requests, rate.seconds, rate.from.zip(rate.to));
        Some((rates.into_iter().map(tuple).collect(), self.request_rates.is_none()))
    }

    pub(crate) fn expected_times(&self) -> Option<Vec<(String, String)>> {
        let single = self.visit_time.clone().map(|time| time.into_iter().collect());
        self.visit_times.clone().or(single)
    }

    /// Directives that are kept as they stand: names in snake case, values.
    pub(crate) fn directives(&self) -> Vec<(String, Vec<String>)> {
        let mut all: Vec<(String, Vec<String>)> = Vec::new();
        for (name, values) in &self.extensions {
            let values = values.trim_start_matches('[').trim_end_matches(']');
            all.push((name.to_lowercase(), values.split(", ").map(str::to_owned).collect()));
        }
        if let Some(comments) = &self.comments {
            all.push(("comment".to_owned(), comments.clone()));
        }
        all
    }

    /// Directives of which the first counts.
    pub(crate) fn first_directives(&self) -> Vec<(String, Option<String>)> {
        let version =
            self.robot_version.clone().map(|version| ("robot_version".to_owned(), Some(version)));
        let delay = self
            .cache_delay
            .map(|delay| ("cache_delay".to_owned(), delay.map(|seconds| seconds.to_string())));
        version.into_iter().chain(delay).collect()
    }
}

pub(crate) fn read_cases(file: &str) -> Vec<Case> {
    read(file)
}

pub(crate) fn exceptions() -> Vec<Exception> {
    read("exceptions")
}

fn read<T: for<'de> Deserialize<'de>>(file: &str) -> Vec<T> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/cases/{file}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
    text.lines().map(parse).collect()
}

/// Tells a field that is null from one that is not there.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}
