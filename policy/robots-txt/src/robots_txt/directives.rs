//! Directives: the statements of a file other than rules and user-agent lines.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::time::Duration;

use super::directive_topic::DirectiveTopic;
use super::directive_values::{CleanParam, DailyHours, RequestRate, is_host, parse_seconds};
use super::file::RobotsTxt;
use super::groups::semantics::DialectSemantics;
use super::statements::StatementKind;
use crate::origin::is_scheme;
use crate::{Dialect, Origin, ProductToken};

/// A line that is neither a rule nor a user-agent line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Directive {
    /// The line's number, from 1.
    pub line: u32,
    /// The field name as written.
    pub name: String,
    /// The value without white space around it and without a comment.
    pub value: String,
}

impl Directive {
    pub(crate) fn new(line: u32, name: &[u8], value: &[u8]) -> Self {
        Self {
            line,
            name: String::from_utf8_lossy(name).into_owned(),
            value: String::from_utf8_lossy(value).into_owned(),
        }
    }

    pub(crate) fn is_named(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.name.eq_ignore_ascii_case(name))
    }
}

impl RobotsTxt {
    /// Returns the sitemaps named anywhere in the file, in its order, as written, each once. A value that is not UTF-8
    /// names none.
    pub fn sitemaps(&self) -> impl Iterator<Item = String> + '_ {
        // Generators repeat the same line in every group.
        let mut seen = HashSet::new();
        self.directives_named(&["sitemap", "site-map", "site map"])
            .map(|directive| directive.value)
            // The replacement character stands for bytes that are not UTF-8.
            .filter(move |value| !value.contains('\u{FFFD}') && seen.insert(value.clone()))
    }

    /// Returns the sitemaps as absolute URIs: a value without a scheme is taken as a path on this origin, as crawlers
    /// do although the sitemap protocol requires the whole URI.
    pub fn absolute_sitemaps(&self, origin: &Origin) -> impl Iterator<Item = String> + '_ {
        let base = origin.to_string();
        self.sitemaps().map(move |value| {
            // Only a value with `scheme://` is absolute: `example.com:80/map` would have the scheme `example.com`.
            let is_absolute = value.split_once("://").is_some_and(|(scheme, _)| is_scheme(scheme));
            if is_absolute {
                return value;
            }
            format!("{base}/{}", value.strip_prefix('/').unwrap_or(&value))
        })
    }

    /// Returns the preferred host (`Host`, Yandex): the first value that could be a host name.
    #[must_use]
    pub fn host(&self) -> Option<String> {
        self.directives_named(&["host"])
            .map(|directive| directive.value)
            .find(|value| is_host(value))
    }

    /// Returns the parameters that do not change a page (`Clean-param`, Yandex).
    pub fn clean_params(&self) -> impl Iterator<Item = CleanParam> + '_ {
        self.directives_named(&["clean-param"])
            .filter_map(|directive| CleanParam::read(&directive.value))
    }

    /// Returns the time that a crawler should wait between requests: the longest `Crawl-delay` of its group. A value is a
    /// number of seconds, possibly fractional, with a unit after it (`10 sec`, `1m`) or in brackets.
    #[must_use]
    pub fn crawl_delay(&self, dialect: Dialect, tokens: &[ProductToken]) -> Option<Duration> {
        let delays = self.timing_values(DirectiveTopic::CrawlDelay, dialect, tokens, parse_seconds);
        delays.map(|(_, delay)| delay).max()
    }

    /// Returns the longest time between requests that the crawler's group asks for, and the number of the line that does:
    /// a `Crawl-delay` as [`crawl_delay`](Self::crawl_delay) reads it, or a `Request-rate` kept evenly, at all hours.
    #[must_use]
    pub fn longest_delay(
        &self,
        dialect: Dialect,
        tokens: &[ProductToken],
    ) -> Option<(Duration, u32)> {
        let pause = |value: &str| Some(RequestRate::read(value)?.pause());
        let rates = self.timing_values(DirectiveTopic::RequestRate, dialect, tokens, pause);
        let delays = self.timing_values(DirectiveTopic::CrawlDelay, dialect, tokens, parse_seconds);
        // The first line that asks for the longest is named.
        let longest = rates.chain(delays).min_by_key(|(at, delay)| (Reverse(*delay), *at));
        longest.map(|(at, delay)| (delay, self.parsed().line(at)))
    }

    /// Returns the rates at which a crawler may make requests, with their hours (`Request-rate`).
    #[must_use]
    pub fn request_rates(&self, dialect: Dialect, tokens: &[ProductToken]) -> Vec<RequestRate> {
        self.timing_values(DirectiveTopic::RequestRate, dialect, tokens, RequestRate::read)
            .map(|(_, rate)| rate)
            .collect()
    }

    /// Returns the times of day, UTC, at which a crawler may visit (`Visit-time`).
    #[must_use]
    pub fn visit_times(&self, dialect: Dialect, tokens: &[ProductToken]) -> Vec<DailyHours> {
        self.timing_values(DirectiveTopic::VisitTime, dialect, tokens, DailyHours::read)
            .map(|(_, hours)| hours)
            .collect()
    }

    /// Returns every statement that is neither a rule nor a user-agent line, in the file's order, if its name could be
    /// one: at most 40 letters, digits, `-`, `_` and spaces.
    pub fn directives(&self) -> impl Iterator<Item = Directive> + '_ {
        let statements = self.parsed().statements.iter().enumerate();
        statements.filter(|(_, it)| it.is_directive()).map(|(at, _)| self.directive(at))
    }

    /// Returns the directives of the groups chosen for a crawler. One between user-agent lines applies to the crawlers
    /// named before it. `strictest` chooses like `rfc9309`.
    pub fn group_directives<'a>(
        &'a self,
        dialect: Dialect,
        tokens: &'a [ProductToken],
    ) -> impl Iterator<Item = Directive> + 'a {
        self.group_directive_indices(dialect, tokens).map(|at| self.directive(at))
    }

    /// Returns the readable values of a timing directive in the groups chosen for a crawler, with the indices of its
    /// statements.
    ///
    /// Many files have groups of such directives alone, which RFC 9309 §2.2.1 joins with the next one, since only rules
    /// end a group. So of a name, those count that come before the next name, if there are any.
    fn timing_values<'a, T>(
        &'a self,
        topic: DirectiveTopic,
        dialect: Dialect,
        tokens: &'a [ProductToken],
        read: impl Fn(&str) -> Option<T> + 'a,
    ) -> impl Iterator<Item = (usize, T)> + 'a {
        let semantics = DialectSemantics::for_dialect(dialect);
        // This is called for every forwarded request, so a file without such a directive is not searched.
        let choice = self
            .has_directives_on(topic)
            .then(|| self.parsed().choose_group(semantics, tokens))
            .flatten();
        let mut agents = choice
            .into_iter()
            .flat_map(move |choice| self.parsed().chosen_agents(semantics, choice))
            .map(|agent| agent.statement as usize)
            .peekable();
        let mut is_own = true;
        let mut has_value = false;
        let statements = choice
            .into_iter()
            .flat_map(move |choice| self.parsed().chosen_statements(semantics, choice));
        statements.filter_map(move |(at, statement)| {
            // A line that names the crawler begins its own directives, be it the one before this statement.
            if agents.next_if(|agent| *agent <= at).is_some() {
                while agents.next_if(|agent| *agent <= at).is_some() {}
                is_own = true;
                has_value = false;
            } else if statement.kind() == StatementKind::Agent {
                // One that only another dialect reads was still meant to name somebody else.
                is_own &= !has_value;
            }
            if !is_own || !statement.is_directive() || !semantics.is_in_group(statement) {
                return None;
            }
            let (name, value) = self.parsed().name_and_value(at);
            if DirectiveTopic::of_name(name) != Some(topic) {
                return None;
            }
            let value = read(&String::from_utf8_lossy(value))?;
            has_value = true;
            Some((at, value))
        })
    }

    /// Returns the indices of the directives of the groups chosen for a crawler.
    fn group_directive_indices<'a>(
        &'a self,
        dialect: Dialect,
        tokens: &'a [ProductToken],
    ) -> impl Iterator<Item = usize> + 'a {
        let semantics = DialectSemantics::for_dialect(dialect);
        self.group_statements(semantics, tokens)
            .filter(move |(_, it)| it.is_directive() && semantics.is_in_group(it))
            .map(|(at, _)| at)
    }

    pub(super) fn directive(&self, at: usize) -> Directive {
        let (name, value) = self.parsed().name_and_value(at);
        Directive::new(self.parsed().line(at), name, value)
    }

    fn directives_named<'a>(
        &'a self,
        names: &'a [&'a str],
    ) -> impl Iterator<Item = Directive> + 'a {
        self.directives().filter(|directive| directive.is_named(names))
    }
}
