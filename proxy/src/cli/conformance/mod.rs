//! `wayleave-conformance`: a decision for each JSON line of standard input. A tool for tests of the workspace, which is not shipped.

mod files;
mod proxy_row;
mod use_row;

use std::borrow::Cow;
use std::io::{self, BufRead, BufWriter, ErrorKind, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use clap::Parser;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use wayleave_notation::harmless::escape_json;
use wayleave_robots_txt::{Dialect, ProductToken, decide, decide_all_spellings};

use self::files::{FileCache, ParsedFile};
use self::proxy_row::{RowSettings, RowVerdict};
use self::use_row::UseRow;
use super::check::preference::{UseAnswer, UseSubject};
use super::check::url_list::{find_mistake, path_of};
use super::terminal::unusable;

/// Read JSON objects from standard input, one per line, and answer each with one, in order. Members: id, url, robots or
/// robots_base64, user_agent or tokens or token, dialect; about use: purpose, status, headers, html, tdmrep, rsl and
/// config; for the proxy's verdict: as ("proxy"), crawler, client and method
#[derive(Debug, Parser)]
#[command(
    name = "wayleave-conformance",
    version,
    max_term_width = 100,
    after_help = "proxy/conformance/README.md describes rows and answers. Exit status: 0 all answered, 2 at least one not."
)]
struct ConformanceArguments {
    /// Configuration file for rows with "as" [default: ./config.toml if it exists, else the built-in defaults]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The dialect in which robots.txt is read: rfc9309, google, koster1996, selfhtml or strictest
    #[arg(long, value_name = "D")]
    dialect: Option<Dialect>,
    /// Judge every equivalent spelling of the URL, as the proxy does, not only the URL as given
    #[arg(long)]
    strict: bool,
}

/// The longest line; a longer one is answered with an error. A file of 500 KiB fits even if every byte of it is escaped.
const MAX_LINE_BYTES: u64 = 64 * 1024 * 1024;
/// The bytes with which some programs begin a text.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
/// The size of the buffers for input and output.
const BUFFER_BYTES: usize = 256 * 1024;

/// The members of a line. An unknown one is a mistake, because ignoring it could change the answer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConformanceRow<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    robots: Option<&'a RawValue>,
    #[serde(borrow)]
    robots_base64: Option<&'a RawValue>,
    #[serde(borrow)]
    user_agent: Option<&'a RawValue>,
    #[serde(borrow)]
    tokens: Option<&'a RawValue>,
    /// The only name, instead of a list in `tokens`.
    #[serde(borrow)]
    token: Option<&'a RawValue>,
    #[serde(borrow)]
    url: Option<&'a RawValue>,
    #[serde(borrow)]
    dialect: Option<&'a RawValue>,
    /// With this or `config`, the line is parsed again for its members about use.
    #[serde(borrow)]
    purpose: Option<&'a RawValue>,
    #[serde(borrow)]
    config: Option<&'a RawValue>,
    /// With this, the line is parsed again as a row to the proxy.
    #[serde(borrow, rename = "as")]
    asked_as: Option<&'a RawValue>,
    #[serde(default, rename = "crawler")]
    _crawler: IgnoredAny,
    #[serde(default, rename = "client")]
    _client: IgnoredAny,
    #[serde(default, rename = "method")]
    _method: IgnoredAny,
    // The members about use.
    #[serde(default, rename = "status")]
    _status: IgnoredAny,
    #[serde(default, rename = "headers")]
    _headers: IgnoredAny,
    #[serde(default, rename = "html")]
    _html: IgnoredAny,
    #[serde(default, rename = "tdmrep")]
    _tdmrep: IgnoredAny,
    #[serde(default, rename = "rsl")]
    _rsl: IgnoredAny,
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

impl<'a> ConformanceRow<'a> {
    fn read(line: &'a [u8]) -> Result<Self, RowFailure<'a>> {
        if !line.trim_ascii_start().starts_with(b"{") {
            // serde would read an array as the members in their order.
            return Err(RowFailure { id: None, error: "this is not a JSON object".to_owned() });
        }
        // The id by itself, so that the failure has one even if another member is wrong.
        serde_json::from_slice(line)
            .map_err(|error| RowFailure { id: id_of(line), error: error.to_string() })
    }

    fn is_about_use(&self) -> bool {
        self.purpose.is_some() || self.config.is_some()
    }
}

#[derive(Serialize)]
struct RowAnswer<'a> {
    id: Option<&'a RawValue>,
    verdict: &'static str,
    reason: &'static str,
    line: Option<u32>,
    rule: Option<String>,
    crawl_delay: Option<f64>,
    sitemaps: &'a RawValue,
    #[serde(flatten)]
    preference: Option<UseAnswer>,
}

/// The proxy's verdict, preceded by the row's id.
#[derive(Serialize)]
struct WithId<'a> {
    id: Option<&'a RawValue>,
    #[serde(flatten)]
    verdict: RowVerdict,
}

#[derive(Serialize)]
struct RowFailure<'a> {
    id: Option<&'a RawValue>,
    error: String,
}

/// A row whose values are parsed.
struct ParsedRow<'a> {
    file: Arc<ParsedFile>,
    tokens: Vec<ProductToken>,
    url: Cow<'a, str>,
    dialect: Dialect,
}

/// Answers every line of standard input on standard output, in the same order, as the process's arguments say.
#[must_use]
pub fn run() -> ExitCode {
    let arguments = ConformanceArguments::parse();
    match answer_all(&arguments) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failures) => {
            let lines = if failures == 1 { "line" } else { "lines" };
            unusable(&format!(
                "{failures} {lines} could not be answered: see \"error\" in their answers"
            ))
        }
        // The program that reads the answers has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => unusable(&format!("standard input or output: {error}")),
    }
}

/// Returns how many lines could not be answered.
///
/// # Errors
///
/// Returns an error if standard input or output fails.
fn answer_all(arguments: &ConformanceArguments) -> io::Result<usize> {
    let mut input = io::BufReader::with_capacity(BUFFER_BYTES, io::stdin().lock());
    let mut output = BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
    let mut rows = RowReader {
        files: FileCache::default(),
        dialect: arguments.dialect,
        strict: arguments.strict,
        settings: RowSettings { config: arguments.config.as_deref(), loaded: None },
        failures: 0,
    };
    let mut line = Vec::new();
    // RFC 8259 section 8.1 lets parsers ignore it, but serde's does not.
    if input.fill_buf()?.starts_with(BYTE_ORDER_MARK) {
        input.consume(BYTE_ORDER_MARK.len());
    }
    loop {
        line.clear();
        if input.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)? == 0 {
            output.flush()?;
            return Ok(rows.failures);
        }
        if line.len() as u64 == MAX_LINE_BYTES && !line.ends_with(b"\n") {
            skip_line(&mut input)?;
            let error = format!("the line is longer than {MAX_LINE_BYTES} bytes");
            rows.fail(&RowFailure { id: None, error }, &mut output)?;
        } else if !line.trim_ascii().is_empty() {
            rows.answer(&line, &mut output)?;
        }
        // A program may wait for each answer before it sends the next row.
        if memchr::memchr(b'\n', input.buffer()).is_none() {
            output.flush()?;
        }
    }
}

fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        let (skipped, ended) = match memchr::memchr(b'\n', buffer) {
            Some(end) => (end + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        input.consume(skipped);
        if ended {
            return Ok(());
        }
    }
}

fn write(output: &mut impl Write, answer: &impl Serialize) -> io::Result<()> {
    output.write_all(&escape_json(serde_json::to_vec(answer)?))?;
    output.write_all(b"\n")
}

struct RowReader<'a> {
    files: FileCache,
    dialect: Option<Dialect>,
    strict: bool,
    settings: RowSettings<'a>,
    failures: usize,
}

impl RowReader<'_> {
    fn fail(&mut self, failure: &RowFailure<'_>, output: &mut impl Write) -> io::Result<()> {
        self.failures += 1;
        write(output, failure)
    }

    fn answer(&mut self, line: &[u8], output: &mut impl Write) -> io::Result<()> {
        let row = match ConformanceRow::read(line) {
            Ok(row) => row,
            Err(failure) => return self.fail(&failure, output),
        };
        let id = row.id;
        if row.asked_as.is_some() {
            let decided = self.file(&row).and_then(|file| {
                let dialect = self.dialect;
                self.settings.decide(line, &file.access, dialect)
            });
            return match decided {
                Ok(verdict) => write(output, &WithId { id, verdict }),
                Err(error) => self.fail(&RowFailure { id, error }, output),
            };
        }
        let ParsedRow { file, tokens, url, dialect } = match self.parse(&row) {
            Ok(parsed) => parsed,
            Err(error) => return self.fail(&RowFailure { id, error }, output),
        };
        let path = path_of(&url);
        let judge = if self.strict { decide_all_spellings } else { decide };
        let decision = judge(&file.access, dialect, &tokens, &path);
        let subject = UseSubject {
            url: &url,
            path: path.as_str(),
            tokens: &tokens,
            dialect,
            access: &file.access,
            decision: &decision,
            strict: self.strict,
        };
        let judged = if row.is_about_use() {
            UseRow::parse(line).and_then(|row| row.answer(&subject))
        } else {
            Ok(None)
        };
        let preference = match judged {
            Ok(preference) => preference,
            Err(error) => return self.fail(&RowFailure { id, error }, output),
        };
        let crawl_delay = file.robots.longest_delay(dialect, &tokens);
        let answer = RowAnswer {
            id,
            verdict: decision.verdict().as_str(),
            reason: decision.reason().as_str(),
            line: decision.line(),
            rule: decision.rule(),
            crawl_delay: crawl_delay.map(|(delay, _)| delay.as_secs_f64()),
            sitemaps: &file.sitemaps,
            preference,
        };
        write(output, &answer)
    }

    fn parse<'a>(&mut self, row: &ConformanceRow<'a>) -> Result<ParsedRow<'a>, String> {
        let url = row.url.ok_or("url is missing")?;
        let dialect = match row.dialect {
            Some(name) => string("dialect", name)?.parse().map_err(|error| format!("{error}"))?,
            None => self.dialect.unwrap_or_default(),
        };
        let tokens = tokens(row)?;
        let url = string("url", url)?;
        if let Some(error) = find_mistake(&url, true) {
            return Err(format!("url: {url:?}: {error}"));
        }
        let file = self.file(row)?;
        Ok(ParsedRow { file, tokens, url, dialect })
    }

    fn file(&mut self, row: &ConformanceRow<'_>) -> Result<Arc<ParsedFile>, String> {
        match (row.robots, row.robots_base64) {
            (Some(text), None) => self
                .files
                .file(text.get(), || Ok(string("robots", text)?.into_owned().into_bytes())),
            // A blank keeps the two apart: a value of `robots` never starts with one.
            (None, Some(text)) => self.files.file(&format!(" {}", text.get()), || {
                BASE64_STANDARD
                    .decode(string("robots_base64", text)?.as_bytes())
                    .map_err(|error| format!("robots_base64: {error}"))
            }),
            (Some(_), Some(_)) => Err("give either robots or robots_base64, not both".to_owned()),
            // Preferences about use may be stated without a robots.txt.
            (None, None) if row.is_about_use() || row.asked_as.is_some() => {
                self.files.file("\"\"", || Ok(Vec::new()))
            }
            (None, None) => Err("robots or robots_base64 is missing".to_owned()),
        }
    }
}

/// Returns the names of the crawler. An empty one, or a field that names no product, stands for the crawler that only `*` can
/// mean.
fn tokens(row: &ConformanceRow<'_>) -> Result<Vec<ProductToken>, String> {
    let names = row.tokens.or(row.token);
    match (row.user_agent, names) {
        (Some(field), None) => {
            let field = string("user_agent", field)?;
            Ok(vec![
                ProductToken::from_user_agent(field.as_bytes())
                    .unwrap_or_else(ProductToken::anonymous),
            ])
        }
        (None, Some(names)) => {
            let names = match row.tokens {
                Some(_) => parse("tokens", names)?,
                None => vec![string("token", names)?],
            };
            names.iter().map(|name| token(name)).collect()
        }
        (Some(_), Some(_)) => Err("give either user_agent or tokens, not both".to_owned()),
        (None, None) => Err("user_agent or tokens is missing".to_owned()),
    }
}

fn token(name: &str) -> Result<ProductToken, String> {
    if name.is_empty() {
        return Ok(ProductToken::anonymous());
    }
    // Rows are for comparing with other readers of robots.txt, whose tests have odd names.
    ProductToken::verbatim(name).map_err(|error| error.to_string())
}

fn string<'a>(field: &str, text: &'a RawValue) -> Result<Cow<'a, str>, String> {
    // A `Cow` alone would be owned: serde borrows only where a field says so.
    parse::<BorrowedText<'a>>(field, text).map(|text| text.0)
}

fn parse<'a, T: Deserialize<'a>>(field: &str, text: &'a RawValue) -> Result<T, String> {
    serde_json::from_str(text.get()).map_err(|error| format!("{field}: {error}"))
}

/// A string, borrowed if it has no escapes.
#[derive(Deserialize)]
struct BorrowedText<'a>(#[serde(borrow)] Cow<'a, str>);

/// Returns the id of a line that is JSON but not a row.
fn id_of(line: &[u8]) -> Option<&RawValue> {
    #[derive(Deserialize)]
    struct Id<'a> {
        #[serde(borrow)]
        id: Option<&'a RawValue>,
    }
    serde_json::from_slice::<Id<'_>>(line).ok()?.id
}
