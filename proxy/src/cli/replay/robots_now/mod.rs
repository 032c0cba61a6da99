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
use wayleave_clock::{Clock, TimeArgument};
use wayleave_config::Config;
use wayleave_decision_log::{DecisionRecord, LogGaps, LogPlace, crawler_in_words};
use wayleave_notation::harmless::escape_controls;
use wayleave_notation::{Sha256Digest, rfc3339};
use wayleave_record::Word;
use wayleave_signing::create_private_dir;
use wayleave_telemetry::logging;
use wayleave_usage_preferences::Purpose;

use self::answers::{Answers, RefusedNow, RunQuestion};
use crate::cli::paint::Tone;
use crate::cli::progress::ProgressLine;
use crate::cli::replay::log_file::{check_damage, log_path};
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
    /// The id of the decision about that fetch.
    id: String,
}

/// The numbers in the last line.
#[derive(Default)]
struct ListCounts {
    fetches: u64,
    refused: u64,
    undecided: u64,
    /// Whether the reader of the list had seen enough before its end.
    is_cut: bool,
}

/// Decides again about each logged fetch by what its origin says today, for `purpose` if given. `from` names the log.
pub(super) fn run(
    (config, from): (&Config, &Config),
    purpose: Option<Purpose>,
    since: Option<TimeArgument>,
    json: bool,
) -> CommandResult {
    let done = ask_and_print((config, from), purpose, since, json);
    done.map_err(|error| unusable(&format!("{error:#}")))
}

fn ask_and_print(
    (config, from): (&Config, &Config),
    purpose: Option<Purpose>,
    since: Option<TimeArgument>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let path = log_path(from)?;
    let log = LogPlace { path: &path, state_dir: &from.state.dir };
    let started_at = Clock::start().now();
    let question = RunQuestion {
        log: path.clone(),
        since_argument: since.map(|since| format!("{since:?}")),
        since: since.map(|since| since.start(started_at)),
        purpose: purpose.map(Word::from),
        unnamed: None,
        started_at,
    };
    let Some((run, gaps)) = Run::open(config, log, question)?.ask(log)? else {
        print_errors("wayleave: interrupted: the same command goes on where it ended\n");
        return Ok(ExitCode::from(INTERRUPTED));
    };
    match run.print(log, json)? {
        Ok(counts) => run.sum_up(&counts, &gaps),
        // The answers are kept: the same command prints the whole list.
        Err(status) => Ok(status),
    }
}

/// A run, or the rest of an interrupted one.
struct Run {
    dir: PathBuf,
    config: Config,
    answers: Answers,
    /// That of the run that is continued, if one is.
    question: RunQuestion,
}

impl Run {
    /// Continues the run that was interrupted with this question, or begins one.
    fn open(config: &Config, log: LogPlace<'_>, mut question: RunQuestion) -> anyhow::Result<Self> {
        let derive = |dir: &Path, question: &RunQuestion| {
            let unnamed = question.unnamed.as_deref().unwrap_or_default();
            settings::derive(config, dir, question.purpose.as_deref(), unnamed)
        };
        let runs = config.state.dir.join(RUNS_DIR);
        for dir in answers::unfinished(&runs, &question) {
            let (answers, kept) = Answers::open(&dir)?;
            let (derived, text) = derive(&dir, &kept)?;
            if fs::read_to_string(settings::file(&dir)).is_ok_and(|saved| saved == text) {
                print_errors(&format!(
                    "wayleave: going on with the run of {}, which has {}\n",
                    format_rfc3339_seconds(kept.started_at),
                    counted(answers.count(), "answer")
                ));
                return Ok(Self { dir, config: derived, answers, question: kept });
            }
        }
        if question.purpose.is_some() {
            question.unnamed = Some(pages::unnamed_tokens(log, question.range())?);
        }
        let dir = runs.join(answers::dir_name(question.started_at));
        let (derived, text) = derive(&dir, &question)?;
        create_private_dir(&dir).with_context(|| format!("creating {}", dir.display()))?;
        settings::save(&dir, &text)?;
        let answers = Answers::create(&dir, &question)?;
        Ok(Self { dir, config: derived, answers, question })
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
            let span = self.question.span(log);
            let asking = asking::ask_all(&proxy, span, &mut self.answers, &progress);
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

    /// Prints the fetches that would be refused, in the order of the log. Returns the exit status instead if the list cannot be
    /// written.
    fn print(&self, log: LogPlace<'_>, json: bool) -> anyhow::Result<Result<ListCounts, ExitCode>> {
        let mut counts = ListCounts::default();
        let mut printed = Ok(());
        let is_wanted = || true;
        self.question.span(log).read(is_wanted, |decision, page| {
            counts.fetches += 1;
            match self.answers.refused(page.key) {
                Some(refused) => {
                    counts.refused += 1;
                    if printed.is_ok() {
                        printed = print_part(&row(decision, refused, json));
                    }
                }
                None => counts.undecided += u64::from(!self.answers.is_known(page.key)),
            }
            ControlFlow::Continue(())
        })?;
        counts.is_cut = printed.is_err();
        Ok(match printed {
            // What the list means is counted all the same.
            Ok(()) | Err(ExitCode::SUCCESS) => Ok(counts),
            Err(status) => Err(status),
        })
    }

    /// Prints the counts, and returns the exit status.
    fn sum_up(mut self, counts: &ListCounts, gaps: &LogGaps) -> anyhow::Result<ExitCode> {
        let refused = counts.refused;
        let words = format!(
            "wayleave: {refused} of {} would be refused now; evidence: wayleave evidence export --config {} --since {}\n",
            counted(counts.fetches, "logged request"),
            settings::file(&self.dir).display(),
            format_rfc3339_seconds(self.question.started_at),
        );
        print_errors(&words);
        // All pages were asked about, with an answer or without: the next run asks anew.
        if !counts.is_cut {
            self.answers.finish()?;
        }
        let mut missing = gaps.phrases(self.question.since.is_some());
        for (reason, count) in self.answers.undecided_reasons().into_iter().take(MAX_REASONS) {
            missing.push(format!("{}: {reason}", counted(count, "page")));
        }
        if counts.fetches == 0 {
            missing.push("the log has no forwarded request in this span".to_owned());
        }
        check_damage(gaps.damaged_lines)?;
        if counts.undecided > 0 || !missing.is_empty() {
            return Ok(incomplete(&missing));
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
