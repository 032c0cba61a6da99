//! The verdicts about a path: in every dialect, by the new file and by the old one.

use std::collections::HashSet;

use wayleave_decision::WellKnownCrawler;
use wayleave_robots_txt::{
    AccessDecision, AccessResult, Dialect, ProductToken, RobotsTxt, UrlPath, decide, lint,
};

use crate::roster::{NamedCrawler, Roster};

/// The most groups whose rules are tried on the files that pages load.
const MAX_GROUPS: usize = 32;
/// The most names of the files that are known as crawlers' for certain.
const MAX_NAMES: usize = 1_000;

/// A robots.txt to be rehearsed, and the one that it replaces, if that is compared.
#[derive(Debug)]
pub struct RobotsPair {
    pub(crate) body: Vec<u8>,
    pub(crate) body_before: Option<Vec<u8>>,
    new: AccessResult,
    before: Option<AccessResult>,
    /// Names that count as crawlers' because the files have them.
    pub(crate) roster: Roster,
    /// One crawler for each set of rules that applies to anybody.
    groups: Vec<NamedCrawler>,
}

/// The verdicts about a path for one crawler.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct JudgedPath {
    /// The dialects that disallow the path by the new file, as bits in the order of [`dialects`].
    disallowed_by: u8,
    /// Whether the crawler is shut out in its own dialect, and whether the old file shut it out.
    pub(crate) is_shut_out: bool,
    pub(crate) was_shut_out: bool,
    /// The lines that decided in the crawler's own dialect; 0 if none did.
    pub(crate) line: u32,
    pub(crate) line_before: u32,
}

/// Returns the four dialects.
pub(crate) fn dialects() -> &'static [Dialect] {
    Dialect::Strictest.each()
}

impl JudgedPath {
    /// Returns whether the dialect at this place among the four disallows the path.
    pub(crate) fn is_disallowed_by(self, dialect: usize) -> bool {
        self.disallowed_by & 1 << dialect != 0
    }
}

impl RobotsPair {
    /// Parses a robots.txt, and the one that it replaces. Any bytes parse, of which 500 KiB are read (RFC 9309 section 2.5).
    #[must_use]
    pub fn new(body: Vec<u8>, body_before: Option<Vec<u8>>) -> Self {
        let access = |body: &Vec<u8>| AccessResult::from(RobotsTxt::parse(body));
        let names: Vec<ProductToken> = [Some(&body), body_before.as_ref()]
            .into_iter()
            .flatten()
            .flat_map(|body| names(body))
            .take(MAX_NAMES)
            .collect();
        let mut pair = Self {
            new: access(&body),
            before: body_before.as_ref().map(access),
            body,
            body_before,
            roster: Roster::new(names.iter().cloned()),
            groups: Vec::new(),
        };
        pair.groups = pair.distinct_groups(&names);
        pair
    }

    /// Returns whether an old file is compared.
    pub(crate) fn has_before(&self) -> bool {
        self.before.is_some()
    }

    /// Judges a path for a crawler.
    pub(crate) fn judge(&self, crawler: &NamedCrawler, path: &UrlPath<'_>) -> JudgedPath {
        let mut judged = JudgedPath::default();
        // Whoever obeys robots.txt fetches it, whatever Google's parser would say about its path.
        if path.as_str() == "/robots.txt" {
            return judged;
        }
        for (index, dialect) in dialects().iter().enumerate() {
            let decision = decide(&self.new, *dialect, &crawler.tokens, path);
            let shuts_out = shuts_out(crawler, &decision);
            judged.disallowed_by |= u8::from(shuts_out) << index;
            if *dialect == crawler.dialect {
                judged.is_shut_out = shuts_out;
                judged.line = decision.line().unwrap_or_default();
            }
        }
        if let Some(before) = &self.before {
            let decision = decide(before, crawler.dialect, &crawler.tokens, path);
            judged.was_shut_out = shuts_out(crawler, &decision);
            judged.line_before = decision.line().unwrap_or_default();
        }
        judged
    }

    /// Returns whether any group keeps its crawlers out of a path.
    pub(crate) fn shuts_out_anybody(&self, path: &UrlPath<'_>) -> bool {
        self.groups.iter().any(|crawler| {
            shuts_out(crawler, &decide(&self.new, crawler.dialect, &crawler.tokens, path))
        })
    }

    /// Returns the name of the group that a crawler follows in its own dialect, in the new file or the old one.
    pub(crate) fn group(&self, crawler: &NamedCrawler, is_before: bool) -> Option<String> {
        let access = if is_before { self.before.as_ref()? } else { &self.new };
        decide(access, crawler.dialect, &crawler.tokens, &UrlPath::ROOT).group_name()
    }

    /// Returns the dialect and the lines that decide about a crawler by the new file: crawlers for which they are the same get
    /// the same verdicts. Without lines, everything is allowed.
    pub(crate) fn rules_of(&self, crawler: &NamedCrawler) -> (Dialect, Vec<u32>) {
        let root = decide(&self.new, crawler.dialect, &crawler.tokens, &UrlPath::ROOT);
        let counts = crawler.listed.is_none_or(WellKnownCrawler::reads_star)
            || !root.group_name().is_some_and(|name| name.starts_with('*'));
        (crawler.dialect, if counts { root.group_lines() } else { Vec::new() })
    }

    fn distinct_groups(&self, names: &[ProductToken]) -> Vec<NamedCrawler> {
        let anonymous = NamedCrawler {
            name: String::new(),
            tokens: vec![ProductToken::anonymous()],
            dialect: Dialect::default(),
            listed: None,
        };
        let listed = WellKnownCrawler::all().map(NamedCrawler::listed);
        let named = names.iter().map(NamedCrawler::new);
        let mut known = HashSet::new();
        [anonymous]
            .into_iter()
            .chain(named)
            .chain(listed)
            .filter(|crawler| known.insert(self.rules_of(crawler)))
            .take(MAX_GROUPS)
            .collect()
    }
}

/// Returns whether a decision keeps a crawler out.
fn shuts_out(crawler: &NamedCrawler, decision: &AccessDecision<'_>) -> bool {
    !decision.verdict().is_allow()
        && (crawler.listed.is_none_or(WellKnownCrawler::reads_star)
            || !decision.group_name().is_some_and(|name| name.starts_with('*')))
}

/// Returns the names that a file has, without versions, as far as a crawler can have them.
fn names(body: &[u8]) -> impl Iterator<Item = ProductToken> {
    let agents = lint::statements(body).into_iter();
    agents.filter(|(_, statement)| statement.field == lint::LineField::UserAgent).filter_map(
        |(_, statement)| {
            let value = str::from_utf8(statement.value).ok()?;
            ProductToken::new(value.split('/').next()?.trim_ascii_end()).ok()
        },
    )
}
