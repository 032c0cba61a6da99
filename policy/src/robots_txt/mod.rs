//! RobotsTxt: the file, parsed once; a crawler's group in it; the rule that decides.

mod agent;
mod beside;
mod line;
mod pattern;
mod record;

use std::time::Duration;

use crate::{Dialect, ProductToken};

pub use beside::{CleanParam, Directive, RequestRate, TimeOfDay, TimeSpan};
pub(crate) use pattern::Path;
pub(crate) use record::Found;
use record::Record;

/// What is read of a file at most: 500 KiB, the least that RFC 9309 §2.5 asks for and the most
/// that Google reads.
const DEFAULT_LIMIT_BYTES: usize = 500 * 1024;

/// A parsed robots.txt. Any [`Dialect`] can be asked of it; it never changes.
#[derive(Clone, Debug, Default)]
pub struct RobotsTxt {
    lines: Box<[Line]>,
}

#[derive(Clone, Debug)]
struct Line {
    number: u32,
    blank: bool,
    exact: Option<Statement>,
    google: Option<Statement>,
}

#[derive(Clone, Debug)]
struct Statement {
    field: line::Field,
    name: Box<[u8]>,
    value: Box<[u8]>,
}

impl Statement {
    fn from_line(statement: line::Statement<'_>) -> Self {
        Self {
            field: statement.field,
            name: statement.name.into(),
            value: statement.value.into(),
        }
    }

    fn heap_bytes(&self) -> usize {
        self.name.len() + self.value.len()
    }
}

impl RobotsTxt {
    /// Reads a file's first 500 KiB (RFC 9309 §2.5). Whatever the bytes are, this succeeds:
    /// what cannot be understood is passed over.
    #[must_use]
    pub fn parse(body: &[u8]) -> Self {
        Self::parse_with_limit(body, DEFAULT_LIMIT_BYTES)
    }

    /// Reads a file's first `limit_bytes`; a line cut by the limit counts as far as it goes.
    #[must_use]
    pub fn parse_with_limit(body: &[u8], limit_bytes: usize) -> Self {
        const BOM: &[u8] = b"\xEF\xBB\xBF";
        let body = &body[..body.len().min(limit_bytes)];
        // Google's parser skips a part of a byte order mark too; for the others it is text.
        let partial_bom = BOM
            .iter()
            .zip(body)
            .take_while(|(bom, byte)| bom == byte)
            .count();
        let body = body.strip_prefix(BOM).unwrap_or(body);
        let partial_bom = if partial_bom == BOM.len() {
            0
        } else {
            partial_bom
        };
        let lines = line::lines(body)
            .map(|(number, text)| Line {
                number,
                blank: line::is_blank(text),
                exact: line::statement(text).map(Statement::from_line),
                google: line::google_statement(if number == 1 {
                    &text[partial_bom..]
                } else {
                    text
                })
                .map(Statement::from_line),
            })
            .filter(|line| line.blank || line.exact.is_some() || line.google.is_some())
            .collect();
        Self { lines }
    }

    /// The bytes this file occupies beside itself.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let texts = self
            .lines
            .iter()
            .flat_map(|line| [&line.exact, &line.google]);
        size_of_val(&*self.lines) + texts.flatten().map(Statement::heap_bytes).sum::<usize>()
    }

    /// The sitemaps named anywhere in the file, in its order, as written.
    pub fn sitemaps(&self) -> impl Iterator<Item = String> + '_ {
        self.directives_named(&["sitemap", "site-map", "site map"])
            .map(|directive| directive.value)
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
        self.group_directives(dialect, tokens)
            .filter(|directive| directive.is(&["crawl-delay", "crawldelay", "crawl delay"]))
            .find_map(|directive| beside::seconds(&directive.value))
    }

    /// How many requests in how much time a crawler may make, and when (`Request-rate`).
    #[must_use]
    pub fn request_rates(&self, dialect: Dialect, tokens: &[ProductToken]) -> Vec<RequestRate> {
        self.group_directives(dialect, tokens)
            .filter(|directive| directive.is(&["request-rate", "requestrate", "request rate"]))
            .filter_map(|directive| RequestRate::read(&directive.value))
            .collect()
    }

    /// The times of day, UTC, at which a crawler may come (`Visit-time`).
    #[must_use]
    pub fn visit_times(&self, dialect: Dialect, tokens: &[ProductToken]) -> Vec<TimeSpan> {
        self.group_directives(dialect, tokens)
            .filter(|directive| directive.is(&["visit-time", "visittime", "visit time"]))
            .filter_map(|directive| TimeSpan::read(&directive.value))
            .collect()
    }

    /// Every line that is neither a rule nor a user-agent line, in the file's order.
    pub fn directives(&self) -> impl Iterator<Item = Directive> + '_ {
        self.lines.iter().filter_map(|line| {
            let statement = line.exact.as_ref()?;
            (statement.field == line::Field::Other)
                .then(|| Directive::new(line.number, &statement.name, &statement.value))
        })
    }

    /// The other lines of the group chosen for a crawler. A line between user-agent lines counts
    /// for the crawlers named before it.
    pub fn group_directives<'a>(
        &'a self,
        dialect: Dialect,
        tokens: &'a [ProductToken],
    ) -> impl Iterator<Item = Directive> + 'a {
        self.choose(dialect, tokens)
            .unwrap_or_default()
            .into_iter()
            .flat_map(|record| record.others)
            .map(|(number, name, value)| Directive::new(number, name, value))
    }

    fn directives_named<'a>(
        &'a self,
        names: &'a [&'a str],
    ) -> impl Iterator<Item = Directive> + 'a {
        self.directives().filter(|directive| directive.is(names))
    }

    /// The records for a crawler: those of the first of its names that has any, else those of
    /// `*`. Each holds what counts for this crawler only.
    pub(crate) fn choose(
        &self,
        dialect: Dialect,
        tokens: &[ProductToken],
    ) -> Option<Vec<Record<'_>>> {
        record::choose(record::records(&self.lines, dialect), dialect, tokens)
    }

    /// The rule that decides about a path.
    pub(crate) fn find(&self, dialect: Dialect, tokens: &[ProductToken], path: &Path) -> Found {
        match self.choose(dialect, tokens) {
            None => Found::NoGroup,
            Some(records) => record::decide(&records, dialect, path),
        }
    }

    /// The text of a line as the dialect reads it.
    pub(crate) fn rule_text(&self, dialect: Dialect, number: u32) -> Option<String> {
        let line = self.lines.iter().find(|line| line.number == number)?;
        let statement = match dialect {
            Dialect::Google => line.google.as_ref()?,
            _ => line.exact.as_ref()?,
        };
        let name = if statement.field == line::Field::Allow {
            "Allow"
        } else {
            "Disallow"
        };
        Some(
            format!("{name}: {}", String::from_utf8_lossy(&statement.value))
                .trim_end()
                .to_owned(),
        )
    }
}
