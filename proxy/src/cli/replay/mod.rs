//! `wayleave replay`: decides about the requests of the decision log again, under another configuration. The deciding is in
//! `wayleave-audit`; `tables` shows its summary as text or Markdown.

mod log_file;
mod robots_now;
mod tables;

use std::io::{self, Read as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context, bail};
use clap::Args;
use wayleave_audit::WhatIf;
use wayleave_audit::replay::{ReplaySummary, Replayer, replay_log};
use wayleave_clock::{Clock, TimeArgument};
use wayleave_config::Config;
use wayleave_decision_log::{ChosenCrawler, DecisionQuery, LogPlace, TimeRange};
use wayleave_evidence::regular_file;
use wayleave_usage_preferences::Purpose;

use self::log_file::{check_damage, log_path};
use super::config_file::load_config;
use super::evidence::sources::MaterialSources;
use super::progress::ProgressLine;
use super::terminal::{CommandResult, incomplete, pretty_json, print, unusable};

/// The exit status if a request would be decided differently.
const DIFFERENT: u8 = 1;
/// The first bytes of a store (redb's design.md, "Magic number").
const STORE_MAGIC: [u8; 9] = *b"redb\x1a\x0a\xa9\x0d\x0a";

#[derive(Debug, Args)]
#[command(
    after_help = "Reads the decision log, and the robots.txt files and configurations that its decisions are based on, from where \
                  --config says they are, or --from. Gets the robots.txt files from the proxy if it is running. Sends no request \
                  to any origin, except with --robots: then it fetches robots.txt, documents and pages as the crawlers did, at the \
                  pace of each site, and keeps its answers and their evidence below state.dir.\n\
                  Exit status: 0 no request would be decided differently, 1 some would be, 2 the configuration has a mistake, or \
                  the log or the store cannot be read, 3 some cannot be decided, because a robots.txt, a file of the log or another \
                  document is missing, a file does not belong to the log, or there is none in the span. If several apply: 2, else 3, else 1."
)]
pub(super) struct ReplayArguments {
    /// What if refusals were enforced for these crawlers? Names, or `unnamed` for requests that match no [[crawler]]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    enforce: Vec<ChosenCrawler>,
    /// What if robots.txt were read in this dialect for all crawlers?
    #[arg(long)]
    dialect: Option<String>,
    /// What if the [[rule]] tables of this file came before those of the configuration?
    #[arg(long, value_name = "FILE")]
    rule: Option<PathBuf>,
    /// Decide about what was forwarded by what its origins say now: their robots.txt, their documents about use and, for crawlers
    /// with purposes, the pages, which are fetched again
    #[arg(long, value_parser = ["now"], conflicts_with_all = ["enforce", "dialect", "rule", "markdown"])]
    robots: Option<String>,
    /// With --robots: the purpose of all crawlers, instead of those that they declare
    #[arg(long, requires = "robots")]
    purpose: Option<Purpose>,
    /// Only decisions since then: a span before now, or a time such as 2026-11-22T08:00:00Z or 2026-11-22 [default: the whole log]
    #[arg(long, value_name = "SPAN")]
    since: Option<TimeArgument>,
    /// The configuration whose decision log and state directory are read [default: that of --config]
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Print everything as one JSON object; with --robots, an object for each request that would be refused
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print tables in Markdown, for a comment on a change
    #[arg(long)]
    markdown: bool,
}

pub(super) fn run(arguments: &ReplayArguments, file: Option<&Path>) -> CommandResult {
    let (new, _) = load_config(file)?;
    let from = arguments.from.as_deref().map(|from| load_config(Some(from))).transpose()?;
    let from = from.as_ref().map_or(&new, |(config, _)| config);
    let since = arguments.since.map(|since| since.start(Clock::start().now()));
    if arguments.robots.is_some() {
        return robots_now::run((&new, from), arguments.purpose, arguments.since, arguments.json);
    }
    let what_if = arguments.what_if().map_err(|error| unusable(&format!("{error:#}")))?;
    let summary =
        replay((&new, &what_if), from, since).map_err(|error| unusable(&format!("{error:#}")))?;
    let printed = if arguments.json {
        print(&pretty_json(&summary))
    } else if arguments.markdown {
        print(&tables::markdown(&summary))
    } else {
        print(&tables::text(&summary))
    };
    // After printing: the readable part is worth seeing all the same.
    check_damage(summary.damaged_lines).map_err(|error| unusable(&error.to_string()))?;
    if printed != ExitCode::SUCCESS {
        return Err(printed);
    }
    if !summary.missing.is_empty() {
        return Err(incomplete(&summary.missing));
    }
    Ok(if summary.has_differences() { ExitCode::from(DIFFERENT) } else { printed })
}

impl ReplayArguments {
    /// Returns the change of the configuration that is to be tried.
    ///
    /// # Errors
    ///
    /// Returns an error if the file of rules cannot be read, or has something else.
    fn what_if(&self) -> anyhow::Result<WhatIf> {
        let rules = self.rule.as_deref().map(read_rules).transpose()?.unwrap_or_default();
        Ok(WhatIf { enforce: self.enforce.clone(), dialect: self.dialect.clone(), rules })
    }
}

fn read_rules(path: &Path) -> anyhow::Result<Vec<toml::Table>> {
    let file = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("{file} cannot be read"))?;
    let mut all: toml::Table = text.parse().with_context(|| format!("{file}"))?;
    let rules = all.remove("rule");
    if let Some(other) = all.keys().next() {
        bail!("{file}: only [[rule]] tables are tried, not {other:?}");
    }
    let rules = rules.with_context(|| format!("{file} has no [[rule]]"))?;
    rules.try_into().with_context(|| format!("{file}: rule"))
}

fn replay(
    (new, what_if): (&Config, &WhatIf),
    from: &Config,
    since: Option<SystemTime>,
) -> anyhow::Result<ReplaySummary> {
    let path = log_path(from)?;
    let log = LogPlace { path: &path, state_dir: &from.state.dir };
    let has_store = check_store(&from.state.dir.join("robots.redb"))?;
    let sources = MaterialSources::open(from)?;
    // As it would be archived: settings that are not archived decide nothing that can be derived.
    let settings = what_if
        .settings(&new.to_string())
        .map_err(|mistakes| anyhow::Error::msg(mistakes.join("; ")))?;
    let replayer = Replayer::new(settings, &sources);
    let progress = ProgressLine::of_bytes("0 decisions");
    let span = TimeRange { since, until: None };
    let all = DecisionQuery::default();
    let mut summary = replay_log(log, span, &all, replayer, |summary, bytes| {
        progress.set_bytes(bytes.read, bytes.total, &format!("{} decisions", summary.decisions));
        ControlFlow::Continue(())
    })?;
    if !has_store {
        let dir = from.state.dir.display();
        summary.missing.push(format!("there is no store of robots.txt files in {dir}"));
    }
    Ok(summary)
}

/// Returns whether there is a store at `path`.
///
/// # Errors
///
/// Returns an error if it cannot be read, or is not a store: opening it would put a new one in its place.
fn check_store(path: &Path) -> anyhow::Result<bool> {
    let mut begin = [0; STORE_MAGIC.len()];
    match regular_file::open(path).and_then(|mut file| file.read_exact(&mut begin)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
        Ok(()) if begin != STORE_MAGIC => bail!("{} is not a store, or damaged", path.display()),
        Ok(()) => Ok(true),
    }
}
