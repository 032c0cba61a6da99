//! `wayleave config`: checks a configuration file, or shows it in full.

use std::path::Path;

use clap::Subcommand;
use wayleave_assembly::wiring::{UNCHECKED_PARENT_WARNING, UNSHARED_PARENT_WARNING};
use wayleave_clock::Clock;
use wayleave_config::{Config, ConfigSources, DEFAULT_FILE, matches_all};
use wayleave_decision::Crawler;
use wayleave_notation::harmless::escape_lines;
use wayleave_pacing::PaceShare;
use wayleave_robots_txt::{Dialect, ProductToken, RobotsTxt, UrlPath, decide};
use wayleave_transport::tls::intercept::exposed_key_warning;

use super::config_file::load_config;
use super::expired_rules;
use super::lax_settings;
use super::terminal::{CommandResult, counted, pretty_json, print, print_errors};

#[derive(Debug, Clone, Copy, Subcommand)]
pub(super) enum ConfigCommand {
    /// Report every mistake in the file, or that there is none
    Check,
    /// Print the configuration in effect, every key of it, without secrets
    Show,
    /// Print the default file, with comments
    Default,
    /// Print the JSON Schema of the file, for editors
    Schema,
}

pub(super) fn run(command: ConfigCommand, file: Option<&Path>) -> CommandResult {
    match command {
        ConfigCommand::Check => check(file),
        ConfigCommand::Show => show(file),
        ConfigCommand::Default => Ok(print(DEFAULT_FILE)),
        ConfigCommand::Schema => Ok(print(&pretty_json(&Config::schema()))),
    }
}

fn check(file: Option<&Path>) -> CommandResult {
    let (config, sources) = load_config(file)?;
    let unmatched = sources.iter().flat_map(ConfigSources::unmatched);
    let unmatched = unmatched.map(|item| format!("include: no file matches {item:?}"));
    // The defaults are in no file.
    let lax = sources
        .iter()
        .flat_map(|sources| lax_settings::find(&config, &sources.places(), Clock::start().now()));
    for warning in unmatched.chain(warnings(&config)).chain(lax) {
        print_errors(&format!("wayleave: warning: {warning}\n"));
    }
    let main_path = sources.as_ref().map(ConfigSources::main_path);
    let source = main_path.map_or("built-in defaults".into(), Path::to_string_lossy);
    let crawlers = counted(config.crawlers.crawlers.len(), "crawler");
    let rules = counted(config.rules.len(), "rule");
    let included = match config.included.len() {
        0 => String::new(),
        count => format!(", {}", counted(count, "included file")),
    };
    let gateways: String =
        config.gateway.listen.iter().map(|listen| format!(", asked at {listen}")).collect();
    Ok(print(&escape_lines(&format!(
        "{source}: no mistakes, {crawlers}, {rules}{included}{gateways}\n"
    ))))
}

fn show(file: Option<&Path>) -> CommandResult {
    let (config, sources) = load_config(file)?;
    let from = |sources: ConfigSources| format!("from {}", sources.main_path().display());
    let source = sources.map_or("built-in defaults".to_owned(), from);
    let included = config.included.iter().map(|file| format!("# including {}\n", file.name));
    let included = escape_lines(&included.collect::<String>());
    Ok(print(&format!("# {source}\n{included}{config}")))
}

/// Returns warnings about a valid configuration: settings that are hardly intended, or unsafe.
fn warnings(config: &Config) -> Vec<String> {
    let expired = expired_rules::find(config, Clock::start().now());
    let mut warnings: Vec<String> = expired.iter().map(ToString::to_string).collect();
    warnings.extend(team_rule_warnings(config));
    warnings.extend(crawler_warnings(&config.crawlers.crawlers));
    if config.upstream.egress.parent.is_some() {
        warnings.push(UNCHECKED_PARENT_WARNING.to_owned());
        if config.politeness.share == PaceShare::Address {
            warnings.push(UNSHARED_PARENT_WARNING.to_owned());
        }
    }
    let owners: Vec<_> =
        config.crawlers.crawlers.iter().filter_map(|crawler| crawler.owner.as_deref()).collect();
    let teams = config.admin.tokens.iter().filter_map(|token| token.team.as_deref());
    let unknown = teams.filter(|team| !owners.contains(team));
    warnings
        .extend(unknown.map(|team| format!("admin.tokens: no [[crawler]] has the owner {team:?}")));
    warnings.extend(exposed_key_warning(&config.https.ca_dir));
    warnings
}

/// Returns warnings about rules of included files that decide for the crawlers of others, too.
fn team_rule_warnings(config: &Config) -> Vec<String> {
    let crawlers = &config.crawlers.crawlers;
    let (mut rule, mut crawler) = config.main_file_counts();
    let mut warnings = Vec::new();
    for file in &config.included {
        let own = crawler..crawler + file.crawlers;
        crawler = own.end;
        let others_tables = crawlers[..own.start].iter().chain(&crawlers[own.end..]);
        for line in &file.rule_lines {
            rule += 1;
            let found = &config.rules[rule - 1];
            let is_for_all = found.purposes.is_empty();
            let others = others_tables.clone().filter(|other| {
                is_for_all || !other.declaration.purposes.intersection(found.purposes).is_empty()
            });
            let mut others: Vec<_> = others.map(|other| format!("{:?}", other.name)).collect();
            if is_for_all && !config.crawlers.require_crawler {
                others.push("requests that match no [[crawler]]".to_owned());
            }
            if found.crawlers.is_empty() && !others.is_empty() {
                let name = &file.name;
                let action = found.action.as_str();
                let others = first_of(&others);
                warnings.push(format!(
                    "{name}:{line}: [[rule]] {rule} ({action}) has no crawlers, so it decides for all: also for {others}"
                ));
            }
        }
    }
    warnings
}

/// Returns the first names of a list, and how many more there are.
fn first_of(names: &[String]) -> String {
    let shown = names.iter().take(5).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(5) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Returns warnings about crawlers that are valid but hardly intended: those that can never match because of an earlier one,
/// those that take every request, and those with tokens that their dialect cannot find in any robots.txt.
fn crawler_warnings(crawlers: &[Crawler]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, crawler) in crawlers.iter().enumerate() {
        let number = index + 1;
        let name = &crawler.name;
        // The first table that matches a request decides about it.
        if let Some(earlier) = crawlers[..index].iter().find(|earlier| earlier.covers(crawler)) {
            warnings.push(format!(
                "[[crawler]] {number} {name:?} can never match: {:?}, which comes first, matches all the same requests; put {name:?} first",
                earlier.name
            ));
        } else if let Some(earlier) = crawlers[..index].iter().find(|it| it.covers_match(crawler)) {
            warnings.push(format!(
                "[[crawler]] {number} {name:?} only matches requests that state by Wayleave-Purpose a purpose that {:?}, which comes first, does not declare",
                earlier.name
            ));
        }
        if matches_all(crawler) {
            let others = if index == 0 { "" } else { " that no earlier [[crawler]] matches" };
            warnings.push(format!(
                "[[crawler]] {number} {name:?} has no match: it takes every request{others}, whoever sends it; \
                 if that is not meant, add one such as match = {{ user_agent = \"{}\" }}",
                crawler.tokens.first().map_or("ExampleBot", ProductToken::as_str)
            ));
        }
        let lost = crawler.tokens.iter().filter(|token| {
            crawler.dialect == Dialect::Google && !finds_own_group(token, Dialect::Google)
        });
        warnings.extend(lost.map(|token| {
            format!(
                "[[crawler]] {number} {name:?} ignores groups for {:?}: dialect \"google\" reads names only up to the first character \
                 that is not a letter, \"-\" or \"_\"",
                token.as_str()
            )
        }));
    }
    warnings
}

/// Returns whether a crawler with this token obeys a group that names it.
fn finds_own_group(token: &ProductToken, dialect: Dialect) -> bool {
    // A file that disallows everything in that group alone: the dialect itself decides, not a second copy of its rules.
    let file = format!("User-agent: {}\nDisallow: /\n", token.as_str());
    let robots = RobotsTxt::parse(file.as_bytes());
    let tokens = std::slice::from_ref(token);
    !decide(&robots.into(), dialect, tokens, &UrlPath::ROOT).verdict().is_allow()
}
