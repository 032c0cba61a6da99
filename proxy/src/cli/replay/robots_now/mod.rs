//! `wayleave replay --robots now`: which of the fetches in the log would be refused today?
//!
//! ```text
//!  mod ─┬─ pages       the fetches of the log, each page once
//!       ├─ asking      each page's verdict of today, host by host
//!       ├─ answers     the verdicts on disk, so that an interrupted run goes on
//!       └─ settings    the configuration in use, made to enforce and to wait
//! ```

mod answers;
mod asking;
mod pages;
mod settings;

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::Context as _;
use humantime::format_rfc3339_seconds;
use serde::Serialize;
use tokio::runtime::Runtime;
use wayleave_clock::Clock;
use wayleave_config::Config;
use wayleave_decision_log::{
    DecisionQuery, DecisionRecord, LogGaps, LogPlace, ScanStep, crawler_in_words, scan_log,
};
use wayleave_evidence::files::rotated_files;
use wayleave_notation::Sha256Digest;
use wayleave_notation::harmless::escape_controls;
use wayleave_notation::rfc3339;
use wayleave_record::Word;
use wayleave_signing::create_private_dir;
use wayleave_telemetry::logging;
use wayleave_usage_preferences::Purpose;

use self::answers::{Answers, RefusedNow, RunQuestion};
use self::pages::LoggedPage;
use crate::cli::paint::Tone;
use crate::cli::progress::ProgressLine;
use crate::cli::terminal::{
    CommandResult, counted, incomplete, json_line, print_errors, print_part, unusable,
};
use crate::server::in_process::InProcessProxy;

/// The directory of all runs, below `state.dir`.
const RUNS_DIR: &str = "replays";
/// The exit status of a command that SIGINT ended, as shells report it.
const INTERRUPTED: u8 = 130;
/// The most reasons for undecided pages that are printed.
const MAX_REASONS: usize = 10;

/// A fetch of the log that would be refused today.
#[derive(Serialize)]
struct ListedFetch<'a> {
    url: &'a str,
    #[serde(serialize_with = "rfc3339::serialize")]
    at: SystemTime,
    crawler: &'a str,
    #[serde(flatten)]
    refused: &'a RefusedNow,
    /// The digest of the body that was fetched, if the log has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_sha256: Option<Sha256Digest>,
    /// The id of the decision that let it through.
    id: String,
}

/// The fetches that were counted for the last line.
#[derive(Default)]
struct ListCounts {
    fetches: u64,
    refused: u64,
    undecided: u64,
}

/// Decides again about what the log of `from` says was forwarded, by what its origins say now, for a purpose if one is given.
pub(super) fn run(
    (config, from): (&Config, &Config),
    purpose: Option<Purpose>,
    since: Option<SystemTime>,
    json: bool,
) -> CommandResult {
    let question = RunQuestion {
        log: log_path(from).map_err(|error| unusable(&format!("{error:#}")))?,
        since,
        purpose: purpose.map(Word::from),
        started_at: Clock::start().now(),
    };
    let place = LogPlace { path: &question.log, state_dir: &from.state.dir };
    let opened =
        Run::open(config, place, &question).map_err(|error| unusable(&format!("{error:#}")))?;
    let Some((run, gaps)) = opened.ask(place).map_err(|error| unusable(&format!("{error:#}")))?
    else {
        print_errors("wayleave: interrupted: the same command goes on where it ended\n");
        return Err(ExitCode::from(INTERRUPTED));
    };
    let counts = run.print(place, json)?;
    run.sum_up(&counts, &gaps)
}

/// Returns the path of the decision log.
///
/// # Errors
///
/// Returns an error if there is none.
fn log_path(from: &Config) -> anyhow::Result<PathBuf> {
    let log =
        from.log.decisions.as_ref().context("log.decisions is empty: there is no decision log")?;
    let path = log.path.display();
    let rotated = rotated_files(&log.path).with_context(|| format!("the files of {path}"))?;
    anyhow::ensure!(
        log.path.exists() || !rotated.is_empty(),
        "there is no decision log {path}; --from names the configuration of another"
    );
    Ok(log.path.clone())
}

/// A run, or the rest of an interrupted one.
struct Run {
    dir: PathBuf,
    config: Config,
    answers: Answers,
    /// That of the run that is continued, if one is.
    question: RunQuestion,
    /// The names of the crawlers that stand for requests of no `[[crawler]]`.
    unnamed: Vec<Vec<String>>,
}

impl Run {
    /// Continues the run that was interrupted with this question, or begins one.
    fn open(config: &Config, log: LogPlace<'_>, question: &RunQuestion) -> anyhow::Result<Self> {
        let unnamed = match question.purpose {
            Some(_) => pages::unnamed_tokens(log, question.range())?,
            None => Vec::new(),
        };
        let runs = config.state.dir.join(RUNS_DIR);
        let derive =
            |dir: &Path| settings::derive(config, dir, question.purpose.as_deref(), &unnamed);
        for dir in answers::unfinished(&runs, question) {
            let (derived, text) = derive(&dir)?;
            if fs::read_to_string(settings::file(&dir)).is_ok_and(|kept| kept == text) {
                let (answers, question) = Answers::open(&dir)?;
                print_errors(&format!(
                    "wayleave: going on with the run of {}, which has {}\n",
                    format_rfc3339_seconds(question.started_at),
                    counted(answers.count(), "answer")
                ));
                return Ok(Self { dir, config: derived, answers, question, unnamed });
            }
        }
        let dir = runs.join(answers::dir_name(question.started_at));
        let (derived, text) = derive(&dir)?;
        create_private_dir(&dir).with_context(|| format!("creating {}", dir.display()))?;
        settings::save(&dir, &text)?;
        let answers = Answers::create(&dir, question)?;
        Ok(Self { dir, config: derived, answers, question: question.clone(), unnamed })
    }

    /// Asks about every page of the log that has no answer yet. Returns nothing if it was interrupted, else the gaps in the log.
    fn ask(mut self, log: LogPlace<'_>) -> anyhow::Result<Option<(Self, LogGaps)>> {
        let runtime = Runtime::new().context("starting the runtime")?;
        let path = self.dir.join("run.log");
        let file = File::options().create(true).append(true).open(&path);
        let file = file.with_context(|| format!("opening {}", path.display()))?;
        let (log_handle, _writing) = logging::start(file, self.config.log.format, false);
        let asked = runtime.block_on(async {
            let proxy = InProcessProxy::start(&self.config, &log_handle).await?;
            let progress = ProgressLine::open_ended("pages");
            let asking = asking::ask_all(
                &proxy,
                (log, self.question.range()),
                &self.unnamed,
                &mut self.answers,
                &progress,
            );
            let asked = tokio::select! {
                asked = asking => Some(asked),
                _ = tokio::signal::ctrl_c() => None,
            };
            drop(progress);
            proxy.close().await;
            asked.transpose()
        })?;
        Ok(asked.map(|gaps| (self, gaps)))
    }

    /// Prints the fetches that would be refused, in the order of the log.
    fn print(&self, log: LogPlace<'_>, json: bool) -> Result<ListCounts, ExitCode> {
        let mut counts = ListCounts::default();
        let mut printed = Ok(());
        let scanned = scan_log(log, self.question.range(), &DecisionQuery::default(), |step| {
            let ScanStep::Decision(decision, _) = step else { return ControlFlow::Continue(()) };
            let Some(page) = LoggedPage::of(&decision, &self.unnamed) else {
                return ControlFlow::Continue(());
            };
            counts.fetches += 1;
            let Some(refused) = self.answers.refused(page.key) else {
                counts.undecided += u64::from(!self.answers.is_known(page.key));
                return ControlFlow::Continue(());
            };
            counts.refused += 1;
            printed = print_part(&row(&decision, refused, json));
            if printed.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        printed?;
        scanned.map_err(|error| unusable(&format!("{}: {error}", log.path.display())))?;
        Ok(counts)
    }

    /// Prints the counts, and returns the exit status.
    fn sum_up(mut self, counts: &ListCounts, gaps: &LogGaps) -> CommandResult {
        let refused = counts.refused;
        let words = format!(
            "wayleave: {refused} of {} would be refused now; evidence: wayleave evidence export --config {} --since {}\n",
            counted(counts.fetches, "logged request"),
            settings::file(&self.dir).display(),
            format_rfc3339_seconds(self.question.started_at),
        );
        print_errors(&words);
        // All pages were asked about, with an answer or without: the next run asks anew.
        self.answers.finish().map_err(|error| unusable(&format!("{error:#}")))?;
        let mut missing = gaps.phrases(self.question.since.is_some());
        for (reason, count) in self.answers.undecided_reasons().take(MAX_REASONS) {
            missing.push(format!("{}: {reason}", counted(count, "page")));
        }
        if counts.fetches == 0 {
            missing.push("the log has no forwarded request in this span".to_owned());
        }
        if gaps.damaged_lines > 0 {
            let lines = gaps.damaged_lines;
            return Err(unusable(&format!(
                "the result is not complete: lines that cannot be read: {lines}"
            )));
        }
        if counts.undecided > 0 || !missing.is_empty() {
            return Err(incomplete(&missing));
        }
        Ok(ExitCode::from(u8::from(refused > 0)))
    }
}

/// Formats a fetch that would be refused: a JSON object, or a line.
fn row(decision: &DecisionRecord, refused: &RefusedNow, json: bool) -> String {
    let crawler = crawler_in_words(&decision.crawler);
    if json {
        let id = decision.id.to_string();
        return json_line(&ListedFetch {
            url: &decision.url,
            at: decision.at,
            crawler,
            refused,
            body_sha256: decision.body_sha256,
            id,
        }) + "\n";
    }
    let at = format_rfc3339_seconds(decision.at);
    let statement = refused.statement.as_ref().map_or(String::new(), |said| format!(" ({said})"));
    let refused = &refused.rule;
    let line = format!(" {at} {crawler} {}: {refused}{statement}", decision.url);
    Tone::Bad.paint("refuse") + &escape_controls(&line) + "\n"
}
