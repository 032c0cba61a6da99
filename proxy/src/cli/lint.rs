//! `wayleave lint`: reports mistakes in a robots.txt, lines that a dialect reads differently, and rules in the head of a response
//! that have no effect.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::{fs, io};

use clap::Args;
use serde::Serialize;
use wayleave_lifecycle::FetchIdentity;
use wayleave_notation::harmless::escape_controls;
use wayleave_robots_txt::lint::{Finding, Severity};
use wayleave_robots_txt::{Dialect, Target};
use wayleave_usage_preferences::{lint, lint_head};

use super::config_file::load_config;
use super::paint::Tone;
use super::progress::ProgressLine;
use super::robots_fetcher::{RobotsFetcher, failure_text};
use super::terminal::{CommandResult, UNUSABLE, json_line, print_errors, print_painted, unusable};

/// The size up to which a file is fetched in order to report how large it is.
const MAX_BYTES: usize = 16 * 1024 * 1024;

#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 no errors in the files, 1 errors, 2 a file cannot be read; the others are checked all the same."
)]
pub(super) struct LintArguments {
    /// Also report notes: findings that are merely worth knowing
    #[arg(long)]
    notes: bool,
    /// Report where this dialect differs from RFC 9309 (rfc9309: nowhere)
    #[arg(long, value_name = "D", default_value = "google")]
    dialect: Dialect,
    /// The files are heads of responses, as `curl -sI` prints them: report Robots-Tag and X-Robots-Tag
    #[arg(long, conflicts_with = "dialect")]
    head: bool,
    /// Print one JSON object per finding
    #[arg(long)]
    json: bool,
    /// Files ("-": standard input), or http(s) URLs of robots.txt files
    #[arg(value_name = "FILE|URL", required = true)]
    sources: Vec<String>,
}

/// A finding in its JSON form.
#[derive(Serialize)]
struct FindingJson<'a> {
    file: &'a str,
    line: u32,
    level: &'a str,
    message: &'a str,
}

pub(super) fn run(arguments: &LintArguments, config: Option<&Path>) -> CommandResult {
    // RFC 9309 does not differ from itself.
    let compared: &[Dialect] = match arguments.dialect {
        Dialect::Rfc9309 => &[],
        _ => std::slice::from_ref(&arguments.dialect),
    };
    let mut text = String::new();
    let mut count = FindingCounts::default();
    let progress = ProgressLine::new(arguments.sources.len());
    for source in &arguments.sources {
        progress.start_part(source);
        let read = if arguments.head { read_file(source) } else { read_source(source, config) };
        let Ok(file) = read else {
            // Why has been printed. The other files are worth seeing all the same.
            continue;
        };
        count.files += 1;
        let findings = if arguments.head { lint_head(&file) } else { lint(&file, compared) };
        for finding in findings {
            count.add(finding.severity);
            if arguments.notes || finding.severity != Severity::Note {
                text += &format_finding(source, &finding, arguments.json);
                text += "\n";
            }
        }
    }
    // The line has to be gone from the terminal before anything is printed.
    drop(progress);
    let printed = print_painted(&text);
    if !arguments.json && count.files > 0 {
        print_errors(&count.summary(arguments));
    }
    // The status of a failed print must not be hidden by that of findings.
    if printed == ExitCode::SUCCESS && count.files < arguments.sources.len() {
        return Err(ExitCode::from(UNUSABLE));
    }
    if printed == ExitCode::SUCCESS && count.errors > 0 {
        return Err(ExitCode::from(1));
    }
    Ok(printed)
}

/// The number of files that were read, and of findings of each level.
#[derive(Default)]
struct FindingCounts {
    files: usize,
    errors: usize,
    warnings: usize,
    notes: usize,
}

impl FindingCounts {
    fn add(&mut self, level: Severity) {
        match level {
            Severity::Error => self.errors += 1,
            Severity::Warning => self.warnings += 1,
            // Notes, and whatever a later version of the crate may rank below a warning.
            _ => self.notes += 1,
        }
    }

    /// Returns a line such as `3 files: 2 errors, 1 warning, 4 notes (--notes shows them)`.
    fn summary(&self, arguments: &LintArguments) -> String {
        let of = |count: usize, what: &str| match count {
            1 => format!("1 {what}"),
            _ => format!("{count} {what}s"),
        };
        let Self { files, errors, warnings, notes } = *self;
        if errors + warnings + notes == 0 {
            return format!("{}: nothing to report\n", of(files, "file"));
        }
        let hint = if notes > 0 && !arguments.notes { " (--notes shows them)" } else { "" };
        format!(
            "{}: {}, {}, {}{hint}\n",
            of(files, "file"),
            of(errors, "error"),
            of(warnings, "warning"),
            of(notes, "note"),
        )
    }
}

fn format_finding(source: &str, finding: &Finding, is_json: bool) -> String {
    if !is_json {
        let Finding { line, severity: level, message, .. } = finding;
        let tone = match level {
            Severity::Error => Tone::Bad,
            Severity::Warning => Tone::Doubtful,
            _ => Tone::Aside,
        };
        let place = Tone::Heading.paint(&escape_controls(&format!("{source}:{line}:")));
        let level = tone.paint(&format!("{level}:"));
        return format!("{place} {level} {}", escape_controls(message));
    }
    json_line(&FindingJson {
        file: source,
        line: finding.line,
        level: finding.severity.as_str(),
        message: &finding.message,
    })
}

fn read_source(source: &str, config: Option<&Path>) -> Result<Vec<u8>, ExitCode> {
    if source.starts_with("http://") || source.starts_with("https://") {
        return fetch_robots_txt(source, config);
    }
    read_file(source)
}

fn read_file(source: &str) -> Result<Vec<u8>, ExitCode> {
    let body = if source == "-" {
        let mut body = Vec::new();
        io::stdin().lock().read_to_end(&mut body).map(|_| body)
    } else {
        fs::read(source)
    };
    body.map_err(|error| {
        // A host, probably: `robots show` takes one.
        let is_host = error.kind() == io::ErrorKind::NotFound
            && !source.contains('/')
            && Target::parse(&format!("https://{source}/")).is_ok();
        let hint = if is_host && source.contains('.') {
            format!("; for the site's, write https://{source}/robots.txt")
        } else {
            String::new()
        };
        unusable(&format!("{source}: {error}{hint}"))
    })
}

/// Fetches the robots.txt of a URL's origin as the proxy would, but beyond its size limit, so that findings can mention the
/// part that the proxy would not read.
fn fetch_robots_txt(url: &str, config: Option<&Path>) -> Result<Vec<u8>, ExitCode> {
    let (mut config, _) = load_config(config)?;
    config.robots.fetch.max_size_bytes = config.robots.fetch.max_size_bytes.max(MAX_BYTES);
    let fail = |error: &dyn std::fmt::Display| unusable(&format!("{url}: {error}"));
    let target = Target::parse(url).map_err(|error| fail(&error))?;
    let fetcher = RobotsFetcher::new(&config).map_err(|error| fail(&format!("{error:#}")))?;
    let finished = fetcher.fetch(target.origin(), FetchIdentity::proxy());
    match finished.outcome.body() {
        Some(body) => Ok(body.bytes.to_vec()),
        None => Err(fail(&failure_text(&finished))),
    }
}
