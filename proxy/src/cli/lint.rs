//! `wayleave lint`: mistakes in a robots.txt, and where dialects read it differently.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::{fs, io};

use clap::Args;
use wayleave_policy::{Target, lint};

use super::fetched;
use super::source::load_config;
use super::terminal::{print, unusable};
use crate::observe::harmless::harmless;

/// What is read of a file on the way to find out how large it is.
const MAX_BYTES: usize = 16 * 1024 * 1024;

#[derive(Debug, Args)]
#[command(after_help = "Exit status: 0 clean, 1 findings, 2 error.")]
pub(super) struct Arguments {
    /// Files ("-": standard input), or http(s) URLs of robots.txt files
    #[arg(value_name = "FILE|URL", required = true)]
    sources: Vec<String>,
}

pub(super) fn run(arguments: &Arguments, config: Option<&Path>) -> ExitCode {
    let mut text = String::new();
    for source in &arguments.sources {
        let body = match read(source, config) {
            Ok(body) => body,
            Err(status) => return status,
        };
        for finding in lint(&body) {
            text += &harmless(&format!("{source}:{finding}"));
            text += "\n";
        }
    }
    match print(&text) {
        printed if printed == ExitCode::SUCCESS => ExitCode::from(u8::from(!text.is_empty())),
        printed => printed,
    }
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
    config.robots.max_size = config.robots.max_size.max(MAX_BYTES);
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
