//! `wayleave config`: checks a configuration file, or prints the default one.

use std::path::Path;
use std::process::ExitCode;

use clap::Subcommand;
use wayleave_robots_txt::{Dialect, ProductToken, RobotsTxt, UrlPath};

use super::config_file::load_config;
use super::expired_rules;
use super::terminal::{print, print_errors};
use crate::clock::Clock;
use crate::config::{Config, DEFAULT_FILE};
use crate::identity::Crawler;
use crate::server::wiring::UNCHECKED_PARENT_WARNING;
use crate::tls::intercept::exposed_key_warning;

#[derive(Debug, Clone, Copy, Subcommand)]
pub(super) enum ConfigCommand {
    /// Report every mistake in the file, or print the configuration in full
    Check,
    /// Print the default file, with comments
    Default,
}

pub(super) fn run(command: ConfigCommand, file: Option<&Path>) -> ExitCode {
    match command {
        ConfigCommand::Check => check(file),
        ConfigCommand::Default => print(DEFAULT_FILE),
    }
}

fn check(file: Option<&Path>) -> ExitCode {
    let loaded = load_config(file);
    if let Ok((config, _)) = &loaded {
        warn_of_expired(config);
        for doubt in crawler_warnings(&config.crawlers.crawlers) {
            print_errors(&format!("wayleave: warning: {doubt}\n"));
        }
        if config.upstream.egress.parent.is_some() {
            print_errors(&format!("wayleave: warning: {UNCHECKED_PARENT_WARNING}\n"));
        }
        if let Some(exposed) = exposed_key_warning(&config.https.ca_dir) {
            print_errors(&format!("wayleave: warning: {exposed}\n"));
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
    for rule in expired_rules::find(config, Clock::start().now()) {
        print_errors(&format!("wayleave: warning: {rule}\n"));
    }
}

/// Returns warnings about crawlers that are valid but hardly intended: those that can never match because of an earlier one,
/// and those with tokens that their dialect cannot find in any robots.txt.
fn crawler_warnings(crawlers: &[Crawler]) -> Vec<String> {
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
