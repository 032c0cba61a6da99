//! `wayleave lint`: mistakes in a robots.txt, and where a dialect reads it differently.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::{fs, io};

use clap::Args;
use serde::Serialize;
use wayleave_policy::{Dialect, Finding, Level, Target, lint};

use super::fetched;
use super::source::load_config;
use super::terminal::{json_line, print, unusable};
use crate::observe::harmless::harmless;

/// What is read of a file on the way to find out how large it is.
const MAX_BYTES: usize = 16 * 1024 * 1024;

#[derive(Debug, Args)]
#[command(after_help = "Exit status: 0 no errors in the files, 1 errors, 2 a file cannot be read.")]
pub(super) struct Arguments {
    /// Report also what is merely worth knowing: notes, beside errors and warnings
    #[arg(long)]
    notes: bool,
    /// Report where this dialect differs from RFC 9309 (rfc9309: nowhere)
    #[arg(long, value_name = "D", default_value = "google")]
    dialect: Dialect,
    /// Print one JSON object per finding
    #[arg(long)]
    json: bool,
    /// Files ("-": standard input), or http(s) URLs of robots.txt files
    #[arg(value_name = "FILE|URL", required = true)]
    sources: Vec<String>,
}

/// A finding as JSON.
#[derive(Serialize)]
struct Json<'a> {
    file: &'a str,
    line: u32,
    level: &'a str,
    message: &'a str,
}

pub(super) fn run(arguments: &Arguments, config: Option<&Path>) -> ExitCode {
    let compared: &[Dialect] = match arguments.dialect {
        Dialect::Rfc9309 => &[],
        _ => std::slice::from_ref(&arguments.dialect),
    };
    let (mut text, mut has_errors) = (String::new(), false);
    for source in &arguments.sources {
        let body = match read(source, config) {
            Ok(body) => body,
            Err(status) => return status,
        };
        for finding in lint(&body, compared) {
            has_errors |= finding.level == Level::Error;
            if arguments.notes || finding.level != Level::Note {
                text += &line(source, &finding, arguments.json);
                text += "\n";
            }
        }
    }
    match print(&text) {
        printed if printed == ExitCode::SUCCESS => ExitCode::from(u8::from(has_errors)),
        printed => printed,
    }
}

fn line(source: &str, finding: &Finding, is_json: bool) -> String {
    if !is_json {
        return harmless(&format!("{source}:{finding}")).into_owned();
    }
    json_line(&Json {
        file: source,
        line: finding.line,
        level: finding.level.as_str(),
        message: &finding.message,
    })
}

fn read(source: &str, config: Option<&Path>) -> Result<Vec<u8>, ExitCode> {
    if source.starts_with("http://") || source.starts_with("https://") {
        return fetch(source, config);
    }
    let body = if source == "-" {
        let mut body = Vec::new();
        io::stdin().lock().read_to_end(&mut body).map(|_| body)
    } else {
        fs::read(source)
    };
    body.map_err(|error| unusable(&format!("{source}: {error}")))
}

/// Fetches the robots.txt of a URL's origin as the proxy would, but beyond its limit, so that what
/// lies there can be told.
fn fetch(url: &str, config: Option<&Path>) -> Result<Vec<u8>, ExitCode> {
    let (mut config, _) = load_config(config)?;
    let limit = &mut config.robots.fetch.max_size;
    *limit = MAX_BYTES.max(*limit);
    let fail = |error: &dyn std::fmt::Display| unusable(&format!("{url}: {error}"));
    let target = Target::parse(url).map_err(|error| fail(&error))?;
    let origin = target.origin();
    let fetched = fetched::fetch(&config, std::iter::once(origin));
    let fetched = fetched.map_err(|error| fail(&format!("{error:#}")))?;
    let facts = &fetched[origin];
    match facts.outcome.body() {
        Some(body) => Ok(body.bytes.to_vec()),
        None => Err(fail(&fetched::why_not(facts))),
    }
}
