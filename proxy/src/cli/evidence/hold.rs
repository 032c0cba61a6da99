//! `wayleave evidence hold`: keeps decisions, and the files that they rest on, beyond every retention.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Subcommand};
use serde::Serialize;
use wayleave_audit::PastMaterials as _;
use wayleave_clock::{Clock, TimeArgument};
use wayleave_config::Config;
use wayleave_decision_log::{
    ChosenCrawler, DecisionQuery, OpenLog, ScanStep, TimeRange, crawler_in_words, scan_log,
};
use wayleave_evidence::files::FileBegin;
use wayleave_evidence::holds::{HeldEvidence, Hold, HoldFolder};
use wayleave_evidence::recorded_holds::RecordedHolds;
use wayleave_evidence::{HeadFiles, Sha256Digest};
use wayleave_notation::harmless::escape_lines;
use wayleave_robots_txt::HostPattern;
use wayleave_signing::SigningKey;

use super::sources::MaterialSources;
use crate::cli::config_file::{EVIDENCE_KEYS, load_keys};
use crate::cli::crawler_names;
use crate::cli::terminal::{counted, incomplete, pretty_json, print, print_errors, unusable};

/// The exit status if something that was held is missing.
const MISSING: u8 = 1;

#[derive(Debug, Subcommand)]
#[command(
    after_help = "A hold is a file in the folder holds of state.dir; a running proxy takes notice of it at once. Files of the decision \
                  log with a decision that is held are not deleted, whatever log.decisions_keep and log.decisions_max_total say, \
                  nor are the robots.txt files of the hosts from the store, whatever state.max_size says."
)]
pub(crate) enum HoldCommand {
    /// Begin a hold, and print its number
    Add(AddArgs),
    /// List the holds, and what of them is missing or altered; exit status 1 if something is
    List(ListArgs),
    /// End a hold; it remains listed
    Release(ReleaseArgs),
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// The host of the origins, or a pattern such as .example.com
    #[arg(long, value_name = "H")]
    host: HostPattern,
    /// Only decisions about this crawler, by its configured name; `unnamed`: of clients that match no [[crawler]]
    #[arg(long, value_name = "C")]
    crawler: Option<ChosenCrawler>,
    /// Only decisions since then: 2026-11-21T08:00:00Z, 2026-11-21 or 3d (3 days ago)
    #[arg(long, value_name = "T")]
    since: Option<TimeArgument>,
    /// Only decisions up to then; without it, all that are still to come
    #[arg(long, value_name = "T")]
    until: Option<TimeArgument>,
    /// The reason, for those who find the hold later
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    reason: String,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Print the holds as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    /// The number of the hold
    id: u64,
}

pub(super) fn run(command: &HoldCommand, file: Option<&Path>) -> ExitCode {
    let config = match load_keys(file, &EVIDENCE_KEYS) {
        Ok((config, _)) => config,
        Err(status) => return status,
    };
    let folder = HoldFolder::in_state_dir(&config.state.dir);
    let done = match command {
        HoldCommand::Add(arguments) => add(arguments, &config, &folder),
        HoldCommand::List(arguments) => list(arguments, &config, &folder),
        HoldCommand::Release(arguments) => release(arguments, &config, &folder),
    };
    done.unwrap_or_else(|error| unusable(&format!("{error:#}")))
}

fn add(arguments: &AddArgs, config: &Config, folder: &HoldFolder) -> anyhow::Result<ExitCode> {
    let now = Clock::start().now();
    let (since, until) = (
        arguments.since.map(|since| since.start(now)),
        arguments.until.map(|until| until.end(now)),
    );
    if let Some((since, until)) = since.zip(until) {
        anyhow::ensure!(since <= until, "--since is after --until");
    }
    if let Some(name) = &arguments.crawler
        && let Some(mistake) = crawler_names::find_unknown(name, config)
    {
        let (is_there, unread) = look_for(name, config)?;
        if !is_there && !unread.is_empty() {
            return Ok(incomplete(&[vec![mistake], unread].concat()));
        }
        anyhow::ensure!(is_there, mistake);
    }
    // Before anything is read: whatever is there now stays.
    let hold = Hold {
        id: 0,
        host: arguments.host.to_string(),
        crawler: arguments.crawler.clone().map(String::from),
        since,
        until,
        reason: arguments.reason.clone(),
        made_at: now,
        released_at: None,
    };
    let key = log_key(config)?;
    let hold = folder.add(&hold, key.as_ref().map(SigningKey::pair))?;
    let held = find_held(&hold, config)?;
    folder.save_held(hold.id, &held)?;
    Ok(print(&format!("hold {}: {}\n", hold.id, describe_held(&held))))
}

/// Returns whether the log has a decision about a crawler, which may be configured no longer, and a phrase for each part of the log
/// that could not be looked at.
fn look_for(crawler: &ChosenCrawler, config: &Config) -> anyhow::Result<(bool, Vec<String>)> {
    let Some(log) = &config.log.decisions else {
        return Ok((false, Vec::new()));
    };
    let query = DecisionQuery { crawler: Some(crawler.clone()), ..DecisionQuery::default() };
    let mut is_there = false;
    let gaps = scan_log(log.place(), TimeRange::default(), &query, |step| {
        if let ScanStep::Decision(decision, _) = step {
            // A query ignores case, a hold does not.
            is_there = *decision.crawler == **crawler;
        }
        if is_there { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok((is_there, gaps.phrases(false)))
}

/// Reads the log's key, by which holds and releases are signed; none if there is no log yet.
fn log_key(config: &Config) -> anyhow::Result<Option<SigningKey>> {
    let log = config.log.decisions.as_ref().filter(|log| log.key.exists());
    log.map(|log| SigningKey::read(&log.key).context("evidence.key")).transpose()
}

/// Reads the holds that the log records, with the key that signed it; none if there is no log yet.
fn recorded_holds(config: &Config) -> anyhow::Result<Option<(RecordedHolds, SigningKey)>> {
    let (Some(log), Some(key)) = (&config.log.decisions, log_key(config)?) else {
        return Ok(None);
    };
    let heads = HeadFiles::for_log(&log.path, &log.state_dir);
    let head = heads.newest_signed_by(&key.public_base64());
    let recorded = head.map(|head| RecordedHolds::read(&log.path, &head)).transpose()?;
    Ok(Some((recorded.unwrap_or_default(), key)))
}

fn release(
    arguments: &ReleaseArgs,
    config: &Config,
    folder: &HoldFolder,
) -> anyhow::Result<ExitCode> {
    let id = arguments.id;
    let recorded = recorded_holds(config)?;
    let (public, in_log) = match &recorded {
        Some((recorded, key)) => (key.public_base64(), recorded.active()),
        None => (String::new(), Vec::new()),
    };
    let in_log = in_log.into_iter().find(|hold| hold.id == id);
    let stored = folder.read_stored(&public)?.into_iter().find(|stored| stored.hold.id == id);
    let is_released = stored.as_ref().is_some_and(|stored| !stored.hold.is_active());
    // A release that somebody wrote by hand does not count, nor does the loss of the file.
    let counts = stored.as_ref().is_some_and(|stored| stored.is_signed) || in_log.is_none();
    anyhow::ensure!(!(is_released && counts), "hold {id} was released before");
    let hold = in_log.or(stored.map(|stored| stored.hold));
    let mut hold = hold.with_context(|| format!("there is no hold {id}"))?;
    hold.released_at = Some(Clock::start().now());
    folder.replace(&hold, recorded.as_ref().map(|(_, key)| key.pair()))?;
    Ok(print(&format!("hold {id} is released\n")))
}

/// A hold with its evidence, and the missing part of it.
#[derive(Serialize)]
struct ListedHold {
    #[serde(flatten)]
    hold: Hold,
    decisions: u64,
    /// Files of the log, by their numbers.
    missing_files: BTreeSet<u64>,
    missing_bodies: BTreeSet<Sha256Digest>,
    missing_configurations: BTreeSet<Sha256Digest>,
}

impl ListedHold {
    fn is_missing_something(&self) -> bool {
        let documents = self.missing_bodies.len() + self.missing_configurations.len();
        self.missing_files.len() + documents > 0
    }
}

fn list(arguments: &ListArgs, config: &Config, folder: &HoldFolder) -> anyhow::Result<ExitCode> {
    let sources = MaterialSources::open(config)?;
    let mut listed = Vec::new();
    for hold in folder.read()? {
        listed.push(check(hold, config, folder, &sources)?);
    }
    let printed = if arguments.json {
        print(&pretty_json(&listed))
    } else {
        print(&escape_lines(&listed.iter().map(describe).collect::<String>()))
    };
    let mut is_complete = true;
    for hold in listed.iter().filter(|hold| hold.is_missing_something()) {
        is_complete = false;
        print_errors(&describe_missing(hold));
    }
    let opened = config.log.decisions.as_ref().map(|log| OpenLog::open(log.place()));
    let forged = find_forged(config, folder)?;
    for finding in opened.unwrap_or_default().findings.into_iter().chain(forged) {
        is_complete = false;
        print_errors(&escape_lines(&format!("wayleave: {finding}\n")));
    }
    if let Err(error) = check_deletions(config, folder) {
        is_complete = false;
        print_errors(&escape_lines(&format!("wayleave: {error:#}\n")));
    }
    Ok(if is_complete { printed } else { ExitCode::from(MISSING) })
}

/// Returns the changes to the holds by somebody without the log's key.
fn find_forged(config: &Config, folder: &HoldFolder) -> anyhow::Result<Vec<String>> {
    let Some((recorded, key)) = recorded_holds(config)? else {
        return Ok(Vec::new());
    };
    Ok(recorded.compare(&folder.read_stored(&key.public_base64())?).findings)
}

/// Checks that nobody but the proxy has changed the list of files that retention deleted between those that are held.
fn check_deletions(config: &Config, folder: &HoldFolder) -> anyhow::Result<()> {
    // Without a key nothing was ever deleted.
    if let Some(log) = config.log.decisions.as_ref().filter(|log| log.key.exists()) {
        let key = SigningKey::read(&log.key).context("evidence.key")?;
        folder.deletions(&log.path, &key.public_base64())?;
    }
    Ok(())
}

/// Looks up the evidence that a hold has now, and the evidence that it had earlier and is gone. Of a released one nothing
/// is missing.
fn check(
    hold: Hold,
    config: &Config,
    folder: &HoldFolder,
    sources: &MaterialSources<'_>,
) -> anyhow::Result<ListedHold> {
    let earlier = folder.held(hold.id)?;
    let mut listed = ListedHold {
        decisions: earlier.decisions,
        hold,
        missing_files: BTreeSet::new(),
        missing_bodies: BTreeSet::new(),
        missing_configurations: BTreeSet::new(),
    };
    if !listed.hold.is_active() {
        return Ok(listed);
    }
    let now = find_held(&listed.hold, config)?;
    listed.missing_files = earlier.files.difference(&now.files).copied().collect();
    let mut all = now;
    all.add_earlier(earlier);
    for digest in &all.bodies {
        if sources.body(*digest)?.is_none() {
            listed.missing_bodies.insert(*digest);
        }
    }
    let configurations = all.configurations.iter().copied();
    listed.missing_configurations =
        configurations.filter(|digest| sources.configuration(*digest).is_none()).collect();
    listed.decisions = all.decisions;
    // Those who may only read see the losses of now; later ones are then noticed by others.
    if let Err(error) = folder.save_held(listed.hold.id, &all)
        && !is_permission_denied(&error)
    {
        return Err(error);
    }
    Ok(listed)
}

fn is_permission_denied(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == io::ErrorKind::PermissionDenied)
}

/// Reads the log for the evidence of a hold.
fn find_held(hold: &Hold, config: &Config) -> anyhow::Result<HeldEvidence> {
    let mut held = HeldEvidence::default();
    let Some(log) = &config.log.decisions else {
        return Ok(held);
    };
    for (name, file) in OpenLog::open(log.place()).files {
        let collect = || -> io::Result<()> {
            let file = file?;
            // A file outside of the chain has no number, and nothing that could be proved.
            match FileBegin::read(&file) {
                Some(begin) => hold.collect(&file, begin.number, &mut held),
                None => Ok(()),
            }
        };
        collect().with_context(|| name.display().to_string())?;
    }
    Ok(held)
}

fn describe_held(held: &HeldEvidence) -> String {
    let verb = if held.decisions == 1 { "rests" } else { "rest" };
    format!(
        "{} in {} of the log, which {verb} on {}",
        counted(held.decisions, "decision"),
        counted(held.files.len(), "file"),
        counted(held.bodies.len(), "document")
    )
}

fn describe(listed: &ListedHold) -> String {
    let hold = &listed.hold;
    let time = |at| humantime::format_rfc3339_seconds(at).to_string();
    let mut text = format!("{}  {}", hold.id, hold.host);
    let parts = [
        hold.crawler.as_deref().map(|name| format!("crawler {}", crawler_in_words(name))),
        hold.since.map(|since| format!("since {}", time(since))),
        hold.until.map(|until| format!("until {}", time(until))),
        Some(counted(listed.decisions, "decision")),
        Some(format!("held {}", time(hold.made_at))),
        hold.released_at.map(|at| format!("released {}", time(at))),
        Some(hold.reason.clone()),
    ];
    for part in parts.into_iter().flatten() {
        write!(text, "  {part}").expect("writing to a String cannot fail");
    }
    text + "\n"
}

fn describe_missing(listed: &ListedHold) -> String {
    let id = listed.hold.id;
    let files = listed.missing_files.iter().map(|file| format!("file {file} of the decision log"));
    let bodies = listed.missing_bodies.iter().map(|digest| format!("the document {digest}"));
    let configurations =
        listed.missing_configurations.iter().map(|digest| format!("the configuration {digest}"));
    let missing = files.chain(bodies).chain(configurations);
    missing.map(|what| format!("wayleave: hold {id}: {what} is missing\n")).collect()
}
