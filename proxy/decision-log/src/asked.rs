//! The URLs that crawlers asked for lately, by origin.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use wayleave_decision::TargetScope;
use wayleave_evidence::chain::event::EVENT_PREFIX;
use wayleave_record::{DecisionRecord, Word};
use wayleave_robots_txt::Dialect;

use super::files::{LogPlace, OpenLog, find_line};

/// The most URLs of one origin.
const MAX_URLS: usize = 200;
/// The number of lines of the log after which no further file is read: a second's work.
const MAX_LINES: usize = 500_000;

/// A URL that a crawler asked for, and the tokens that robots.txt is searched for on its behalf.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AskedUrl {
    pub url: String,
    pub tokens: Vec<String>,
    /// The dialect that decided, if robots.txt was consulted.
    pub dialect: Option<Word<Dialect>>,
    /// The scope of the request if it is not a path, as the log names it.
    pub scope: Option<Word<TargetScope>>,
}

/// The URLs that were asked for at some origins.
#[derive(Debug, Default)]
pub struct AskedUrls(HashMap<String, HashSet<AskedUrl>>);

/// The members of a line that matter here.
#[derive(Deserialize)]
struct AskedEntry<'a> {
    #[serde(borrow)]
    url: Cow<'a, str>,
    #[serde(default)]
    origin: Option<String>,
    #[serde(default)]
    tokens: Vec<String>,
    #[serde(default)]
    dialect: Option<Word<Dialect>>,
    #[serde(default)]
    scope: Option<Word<TargetScope>>,
}

impl AskedUrls {
    /// Creates an empty collection for these origins.
    pub(super) fn of(origins: impl IntoIterator<Item = String>) -> Self {
        Self(origins.into_iter().map(|origin| (origin, HashSet::new())).collect())
    }

    /// Returns the URLs of an origin.
    pub fn at(&self, origin: &str) -> impl Iterator<Item = &AskedUrl> {
        self.0.get(origin).into_iter().flatten()
    }

    pub(super) fn add(&mut self, decision: &DecisionRecord) {
        let finding = decision.finding.as_ref();
        self.insert(decision.origin.as_deref(), || AskedUrl {
            url: decision.url.clone(),
            tokens: decision.tokens.clone(),
            dialect: finding.map(|finding| finding.dialect.clone()),
            scope: decision.scope.clone(),
        });
    }

    fn insert(&mut self, origin: Option<&str>, asked: impl FnOnce() -> AskedUrl) {
        if let Some(urls) = origin.and_then(|origin| self.0.get_mut(origin))
            && urls.len() < MAX_URLS
        {
            urls.insert(asked());
        }
    }

    /// Adds those in a log, from its newest file on. Lines that cannot be read are left out.
    pub(super) fn add_from_log(&mut self, log: LogPlace<'_>) {
        let mut lines = 0;
        for (_, file) in OpenLog::open(log).files.into_iter().rev() {
            if lines >= MAX_LINES || self.0.values().all(|urls| urls.len() >= MAX_URLS) {
                return;
            }
            let Ok(file) = file else {
                continue;
            };
            // The rest of a file that cannot be read on is left out, too.
            let _ = find_line(&file, |line| {
                lines += 1;
                if let Ok(line) = line
                    && !line.starts_with(EVENT_PREFIX)
                {
                    self.add_line(line);
                }
                None::<()>
            });
        }
    }

    fn add_line(&mut self, line: &[u8]) {
        let Ok(entry) = serde_json::from_slice::<AskedEntry<'_>>(line) else {
            return;
        };
        self.insert(entry.origin.as_deref(), || AskedUrl {
            url: entry.url.into_owned(),
            tokens: entry.tokens,
            dialect: entry.dialect,
            scope: entry.scope,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::tests::decision;
    use super::*;

    #[test]
    fn urls_of_the_origins_that_matter_are_found_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("decisions.jsonl");
        let made = |origin: &str, page: &str| DecisionRecord {
            origin: Some(origin.to_owned()),
            url: format!("{origin}/{page}"),
            ..decision()
        };
        let all = [
            made("http://a.test", "1"),
            made("http://a.test", "1"),
            made("http://a.test", "2"),
            made("http://b.test", "1"),
        ];
        let lines = all.iter().map(|made| serde_json::to_string(made).unwrap() + "\n");
        fs::write(&path, lines.collect::<String>() + "{\"event\":\"stop\"}\nno JSON\n").unwrap();
        let mut asked = AskedUrls::of(["http://a.test".to_owned()]);
        asked.add(&all[0]);
        asked.add_from_log(LogPlace { path: &path, state_dir: dir.path() });
        let mut urls: Vec<_> = asked.at("http://a.test").map(|asked| &*asked.url).collect();
        urls.sort_unstable();
        assert_eq!(urls, ["http://a.test/1", "http://a.test/2"]);
        assert_eq!(asked.at("http://b.test").count(), 0);
    }

    #[test]
    fn the_number_of_urls_is_limited() {
        let origin = "http://a.test";
        let mut asked = AskedUrls::of([origin.to_owned()]);
        for number in 0..MAX_URLS + 5 {
            let url = format!("{origin}/{number}");
            asked.add(&DecisionRecord { origin: Some(origin.to_owned()), url, ..decision() });
        }
        assert_eq!(asked.at(origin).count(), MAX_URLS);
    }
}
