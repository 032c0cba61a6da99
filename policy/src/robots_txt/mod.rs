//! RobotsTxt: the file, parsed once; a crawler's group in it; the rule that decides.

mod agent;
mod beside;
mod build;
mod choose;
mod compiled;
mod every_path;
mod found;
mod index;
mod indexes;
mod line;
mod numbers;
mod octets;
mod parse;
mod pattern;
#[cfg(feature = "preferences")]
mod preference;
mod reader;
mod rules;
mod search;
mod skim;
mod stream;
mod usual;

use std::borrow::Cow;
use std::collections::HashSet;
use std::time::Duration;

use beside::Timing;
pub(crate) use beside::seconds;
pub use beside::{CleanParam, Directive, RequestRate, TimeOfDay, TimeSpan};
use compiled::{Compiled, Kept};
pub(crate) use found::{Found, Match};
pub use line::lines as numbered_lines;
pub(crate) use line::{
    Field, GOOGLE_LINE_BYTES, Statement, google_statement, statement as exact_statement,
};
pub(crate) use pattern::Path;
#[cfg(feature = "preferences")]
pub(crate) use preference::specificity;
pub(crate) use reader::Reader;
pub(crate) use rules::Search;

use crate::{Dialect, Origin, ProductToken};
use agent::Agent;
use memchr::memrchr2;
use numbers::numbered;
use stream::{AGENT, ALLOW, EXACT, Event, OTHER, RECORD, events};

/// What is read of a file at most: 500 KiB, the least that RFC 9309 §2.5 asks for and the most
/// that Google reads.
pub(crate) const DEFAULT_LIMIT_BYTES: usize = 500 * 1024;

/// No file is read further than this, whatever limit is given: offsets have four octets, and a
/// statement takes at most a few octets more than its line.
const MAX_LIMIT_BYTES: usize = 256 * 1024 * 1024;

/// A parsed robots.txt. Any [`Dialect`] can be asked of it; it never changes.
///
/// Kept are the statements, not the bytes: comments, prose and markup are gone. A clone is another
/// handle to the same file, and costs next to nothing.
#[derive(Clone, Debug)]
pub struct RobotsTxt(Kept);

impl RobotsTxt {
    /// Reads a file's first 500 KiB (RFC 9309 §2.5). Whatever the bytes are, this succeeds:
    /// what cannot be understood is passed over.
    #[must_use]
    pub fn parse(body: &[u8]) -> Self {
        Self::parse_with_limit(body, DEFAULT_LIMIT_BYTES)
    }

    /// Reads a file's first `limit_bytes`, at most 256 MiB. A line cut by the limit counts as in
    /// [`parse_beginning`](Self::parse_beginning).
    #[must_use]
    pub fn parse_with_limit(body: &[u8], limit_bytes: usize) -> Self {
        match body.split_at_checked(limit_bytes.min(MAX_LIMIT_BYTES)) {
            Some((whole, [] | [b'\n' | b'\r', ..])) => Self(parse::parse(whole)),
            Some((beginning, _)) => Self::parse_beginning(beginning),
            None => Self(parse::parse(body)),
        }
    }

    /// Reads the beginning of a file whose rest was not received. The last line, if no line end
    /// follows it, is taken for a part of one: it counts only if it disallows, since a part of a
    /// rule matches more than the rule.
    #[must_use]
    pub fn parse_beginning(beginning: &[u8]) -> Self {
        let last = memrchr2(b'\n', b'\r', beginning).map_or(0, |end| end + 1);
        let (lines, part) = beginning.split_at(last);
        let statements = [exact_statement(part), google_statement(part)];
        let disallows = |it: Statement<'_>| it.field == Field::Disallow;
        let counts = statements.into_iter().flatten().any(disallows);
        Self(parse::parse(if counts { beginning } else { lines }))
    }

    /// Whether two handles are to one file, not only to equal ones.
    #[cfg(test)]
    pub(crate) fn is_same_handle(&self, other: &Self) -> bool {
        self.0.is_same(&other.0)
    }

    /// The bytes this file occupies on the heap, all that goes with it and indexes built by decisions
    /// so far included.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }

    /// The sitemaps named anywhere in the file, in its order, as written, each once. A value that
    /// is not UTF-8 names none.
    pub fn sitemaps(&self) -> impl Iterator<Item = String> + '_ {
        let mut seen = HashSet::new();
        self.directives_named(&["sitemap", "site-map", "site map"])
            .map(|directive| directive.value)
            .filter(move |value| !value.contains('\u{FFFD}') && seen.insert(value.clone()))
    }

    /// The sitemaps as absolute URIs: a value without a scheme is taken as a path on this origin,
    /// as crawlers do although the sitemap protocol asks for the whole URI.
    pub fn absolute_sitemaps(&self, origin: &Origin) -> impl Iterator<Item = String> + '_ {
        let origin = origin.to_string();
        self.sitemaps().map(move |value| {
            let scheme = value.split_once("://").map_or("", |(scheme, _)| scheme);
            let has_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
            match value.strip_prefix('/') {
                _ if has_scheme => value,
                Some(path) => format!("{origin}/{path}"),
                None => format!("{origin}/{value}"),
            }
        })
    }

    /// The preferred host (`Host`, Yandex): the first value that could be a host name.
    #[must_use]
    pub fn host(&self) -> Option<String> {
        self.directives_named(&["host"])
            .map(|directive| directive.value)
            .find(|value| beside::is_host(value))
    }

    /// The parameters that do not change a page (`Clean-param`, Yandex).
    pub fn clean_params(&self) -> impl Iterator<Item = CleanParam> + '_ {
        self.directives_named(&["clean-param"])
            .filter_map(|directive| CleanParam::read(&directive.value))
    }

    /// How long a crawler should wait between requests: the first `Crawl-delay` of its group that
    /// is a number of seconds, fractions allowed.
    #[must_use]
    pub fn crawl_delay(&self, dialect: Dialect, tokens: &[ProductToken]) -> Option<Duration> {
        self.timings(Timing::CrawlDelay, dialect, tokens)
            .find_map(|value| seconds(&value))
    }

    /// How many requests in how much time a crawler may make, and when (`Request-rate`).
    #[must_use]
    pub fn request_rates(&self, dialect: Dialect, tokens: &[ProductToken]) -> Vec<RequestRate> {
        self.timings(Timing::RequestRate, dialect, tokens)
            .filter_map(|value| RequestRate::read(&value))
            .collect()
    }

    /// The times of day, UTC, at which a crawler may come (`Visit-time`).
    #[must_use]
    pub fn visit_times(&self, dialect: Dialect, tokens: &[ProductToken]) -> Vec<TimeSpan> {
        self.timings(Timing::VisitTime, dialect, tokens)
            .filter_map(|value| TimeSpan::read(&value))
            .collect()
    }

    /// Every statement that is neither a rule nor a user-agent line, in the file's order, if its
    /// name could be one: at most 40 letters, digits, `-`, `_` and spaces.
    pub fn directives(&self) -> impl Iterator<Item = Directive> + '_ {
        numbered(events(self.compiled().stream, 0), 0)
            .filter(|(_, event)| event.kind() == OTHER && event.tag & EXACT != 0)
            .map(|(line, event)| directive(line, &event))
    }

    /// The directives of the groups chosen for a crawler. One between user-agent lines counts for
    /// the crawlers named before it. `strictest` chooses as `rfc9309` does.
    pub fn group_directives<'a>(
        &'a self,
        dialect: Dialect,
        tokens: &'a [ProductToken],
    ) -> impl Iterator<Item = Directive> + 'a {
        self.group_others(dialect, tokens)
            .map(|(line, event)| directive(line, &event))
    }

    /// The values of a timing in the groups chosen for a crawler. Asked for with every request that goes on, so a file
    /// that states none is not searched.
    fn timings<'a>(
        &'a self,
        timing: Timing,
        dialect: Dialect,
        tokens: &'a [ProductToken],
    ) -> impl Iterator<Item = Cow<'a, str>> + 'a {
        let states = self.0.states(timing);
        let others = states.then(|| self.group_others(dialect, tokens));
        let others = others.into_iter().flatten().map(|(_, event)| event.other());
        others
            .filter(move |(name, _)| Timing::named(name) == Some(timing))
            .map(|(_, value)| String::from_utf8_lossy(value))
    }

    /// The events of directives in the groups chosen for a crawler, with the numbers of their lines.
    fn group_others<'a>(
        &'a self,
        dialect: Dialect,
        tokens: &'a [ProductToken],
    ) -> impl Iterator<Item = (u32, Event<'a>)> + 'a {
        let reader = Reader::new(dialect);
        self.group_events(reader, tokens)
            .filter(|(_, event)| event.kind() == OTHER && event.tag & EXACT != 0)
            .filter(move |(_, event)| !reader.takes_first || event.tag & RECORD != 0)
    }

    /// The numbers of the user-agent lines and rules of the groups chosen for a crawler.
    pub(crate) fn group_lines(&self, dialect: Dialect, tokens: &[ProductToken]) -> Vec<u32> {
        let reader = Reader::new(dialect);
        self.group_events(reader, tokens)
            .filter(|(_, event)| event.kind() == AGENT || event.is_rule())
            .filter(|(_, event)| event.tag & reader.sees != 0)
            .map(|(line, _)| line)
            .collect()
    }

    /// The events of the groups chosen for a crawler, with the numbers of their lines.
    fn group_events<'a>(
        &'a self,
        reader: Reader,
        tokens: &'a [ProductToken],
    ) -> impl Iterator<Item = (u32, Event<'a>)> + 'a {
        let choice = self.compiled().choice(reader, tokens).into_iter();
        let events = choice.flat_map(move |choice| self.compiled().chosen_events(reader, choice));
        numbered(events, 0)
    }

    #[inline]
    fn compiled(&self) -> Compiled<'_> {
        self.0.compiled()
    }

    fn directives_named<'a>(
        &'a self,
        names: &'a [&'a str],
    ) -> impl Iterator<Item = Directive> + 'a {
        self.directives().filter(|directive| directive.is(names))
    }

    /// The rule that decides about a path.
    #[inline]
    pub(crate) fn find(
        &self,
        reader: Reader,
        tokens: &[ProductToken],
        path: &Path<'_>,
        search: &mut Search,
    ) -> Found {
        self.compiled().find(reader, tokens, path, search)
    }

    /// The first rule by which some path could be disallowed.
    pub(crate) fn find_disallow(
        &self,
        reader: Reader,
        tokens: &[ProductToken],
        search: &mut Search,
    ) -> Found {
        self.compiled()
            .find_disallow(reader, tokens, &mut search.budget)
    }

    /// The values of all user-agent lines of the groups chosen for a crawler.
    pub(crate) fn group_names(&self, dialect: Dialect, tokens: &[ProductToken]) -> Vec<String> {
        let reader = Reader::new(dialect);
        let choice = self.compiled().choice(reader, tokens).into_iter();
        let chosen = choice.flat_map(|choice| self.compiled().chosen_agents(reader, choice));
        let mut chosen = chosen.map(Agent::offset).peekable();
        let mut names = Vec::new();
        // Where the group being read begins among the names, and whether it is chosen.
        let (mut start, mut is_chosen) = (0, false);
        for event in events(self.compiled().stream, 0) {
            if reader.ends_at(&event) {
                names.truncate(if is_chosen { names.len() } else { start });
                (start, is_chosen) = (names.len(), false);
            } else if event.kind() == AGENT && event.tag & reader.sees != 0 {
                is_chosen |= chosen.next_if_eq(&event.offset).is_some();
                names.push(String::from_utf8_lossy(event.agent().1).into_owned());
            }
        }
        names.truncate(if is_chosen { names.len() } else { start });
        names
    }

    /// The directives before any user-agent line.
    #[cfg(feature = "preferences")]
    pub(crate) fn directives_before_groups(&self) -> Vec<Directive> {
        self.compiled().directives_before_groups()
    }

    /// The directives of a kind in the groups chosen for a crawler, to which they end a run of user-agent lines.
    #[cfg(feature = "preferences")]
    pub(crate) fn group_preferences(
        &self,
        dialect: Dialect,
        tokens: &[ProductToken],
        is_preference: fn(&str) -> bool,
    ) -> Vec<Directive> {
        let reader = Reader::new(dialect);
        let compiled = self.compiled();
        compiled.group_preferences(reader, tokens, is_preference)
    }

    /// Whether a group names a crawler, not only everyone.
    #[cfg(feature = "preferences")]
    pub(crate) fn has_group_of(&self, dialect: Dialect, token: &ProductToken) -> bool {
        self.compiled().has_group_of(Reader::new(dialect), token)
    }

    /// The number of the line whose event is at an offset.
    pub(crate) fn line(&self, offset: usize) -> u32 {
        self.compiled().line(offset)
    }

    /// The rule whose event is at an offset, as `Disallow: /private`.
    pub(crate) fn rule_text(&self, offset: usize) -> Option<String> {
        let event = events(self.compiled().stream, offset)
            .next()
            .filter(Event::is_rule)?;
        let name = match event.kind() {
            ALLOW => "Allow:",
            _ => "Disallow:",
        };
        let (value, _) = event.rule();
        let mut text = String::with_capacity(name.len() + 1 + value.len());
        text.push_str(name);
        if !value.is_empty() {
            text.push(' ');
            text.push_str(&String::from_utf8_lossy(value));
        }
        Some(text)
    }
}

fn directive(line: u32, event: &Event<'_>) -> Directive {
    let (name, value) = event.other();
    Directive::new(line, name, value)
}
