//! `wayleave config`: checks a configuration file, or prints the default one.

use std::path::Path;
use std::process::ExitCode;

use clap::Subcommand;
use wayleave_robots_txt::{Dialect, Path as UrlPath, ProductToken, RobotsTxt};

use super::expired;
use super::source::load_config;
use super::terminal::{complain, print};
use crate::clock::Clock;
use crate::config::{Config, DEFAULT_FILE};
use crate::identity::Crawler;
use crate::run::wiring::UNCHECKED;
use crate::tls::intercept::exposed_key;

#[derive(Debug, Clone, Copy, Subcommand)]
pub(super) enum Command {
    /// Report every mistake in the file, or print the configuration in full
    Check,
    /// Print the default file, with comments
    Default,
}

pub(super) fn run(command: Command, file: Option<&Path>) -> ExitCode {
    match command {
        Command::Check => check(file),
        Command::Default => print(DEFAULT_FILE),
    }
}

fn check(file: Option<&Path>) -> ExitCode {
    let loaded = load_config(file);
    if let Ok((config, _)) = &loaded {
        warn_of_expired(config);
        for doubt in doubtful_crawlers(&config.crawlers.crawlers) {
            complain(&format!("wayleave: warning: {doubt}\n"));
        }
        if config.upstream.egress.parent.is_some() {
            complain(&format!("wayleave: warning: {UNCHECKED}\n"));
        }
        if let Some(exposed) = exposed_key(&config.https.ca_dir) {
            complain(&format!("wayleave: warning: {exposed}\n"));
        }
    }
    match loaded {
        Ok((config, Some(file))) => print(&format!("# from {}\n{config}", file.display())),
        Ok((config, None)) => print(&format!("# built-in defaults\n{config}")),
        Err(status) => status,
    }
}

/// Warns of rules that have expired: the file can be used, but they no longer have any effect.
fn warn_of_expired(config: &Config) {
    for rule in expired::rules(config, Clock::start().now()) {
        complain(&format!("wayleave: warning: {rule}\n"));
    }
}

/// Returns warnings about crawlers that are valid but hardly intended: those that can never match because of an earlier one,
/// and those with tokens that their dialect cannot find in any robots.txt.
fn doubtful_crawlers(crawlers: &[Crawler]) -> Vec<String> {
    let mut doubts = Vec::new();
    for (index, crawler) in crawlers.iter().enumerate() {
        let (number, name) = (index + 1, &crawler.name);
        if let Some(earlier) = crawlers[..index].iter().find(|it| it.covers(crawler)) {
            doubts.push(format!(
                "[[crawler]] {number} {name:?} can never match: {:?} before it matches every request that it would; put {name:?} first",
                earlier.name
            ));
        }
        let is_lost = |token: &&ProductToken| {
            crawler.dialect == Dialect::Google && !finds_own_group(token, Dialect::Google)
        };
        doubts.extend(crawler.tokens.iter().filter(is_lost).map(|token| {
            format!(
                "[[crawler]] {number} {name:?} ignores groups for {:?}: dialect \"google\" reads names only up to the first character \
                 that is no letter, \"-\" or \"_\"",
                token.as_str()
            )
        }));
    }
    doubts
}

/// Returns whether a crawler with this token obeys a group that names it.
fn finds_own_group(token: &ProductToken, dialect: Dialect) -> bool {
    let file = format!("User-agent: {}\nDisallow: /\n", token.as_str());
    let robots = RobotsTxt::parse(file.as_bytes());
    let decision = robots.decide(dialect, std::slice::from_ref(token), &UrlPath::ROOT);
    !decision.verdict().is_allow()
}
