//! `wayleave evidence export`: decisions with everything they rest on, and the proof that nothing was changed or removed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};

use super::bundle::{Bundle, writable};
use super::exchange::{About, Exchange};
use super::log::{self, Log, LogFile};
use super::manifest::{Manifest, Window};
use super::select::{Chosen, Wanted, select};
use super::sources::Sources;
use super::standins::StandIns;
use crate::cli::moment::Moment;
use crate::cli::progress::{LINES, Progress};
use crate::cli::source::load_config;
use crate::cli::terminal::{complain, print, unusable};
use crate::clock::{Clock, calendar};
use crate::config::Config;
use crate::observe::chain::event::{START, program};
use crate::observe::chain::{head, link};
use crate::observe::decisions::Decision;
use crate::observe::digest::Digest;
use crate::signing::Key;

#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("wanted").required(true),
    after_help = "Lines that are not wanted are left out, and digests stand for them. Needs the files below state.dir; \
                  a running proxy is asked for the robots.txt files.\n\
                  Exit status: 0 exported, 2 nothing found or not exported."
)]
pub(crate) struct Arguments {
    /// The decision with this id
    #[arg(long, group = "wanted")]
    id: Option<String>,
    /// The last decision about this URL at --at, and the first after it
    #[arg(long, group = "wanted", requires = "at")]
    url: Option<String>,
    /// 2026-11-21T08:00:00Z, 2026-11-21 (the whole day) or 3d (3 days ago)
    #[arg(long, value_name = "TIME", requires = "url")]
    at: Option<Moment>,
    /// All decisions since then: a span back from now, or a time
    #[arg(long, group = "wanted", value_name = "SPAN")]
    since: Option<Moment>,
    /// Only those of this crawler, by its configured name
    #[arg(long, value_name = "C", conflicts_with = "id")]
    crawler: Option<String>,
    /// A folder that does not exist yet, or a file that ends in .warc.gz or .warc
    #[arg(long, value_name = "DIR|FILE.warc.gz", value_parser = PathBufValueParser::new().try_map(writable))]
    out: PathBuf,
}

pub(super) fn run(arguments: &Arguments, file: Option<&Path>) -> ExitCode {
    let config = match load_config(file) {
        Ok((config, _)) => config,
        Err(status) => return status,
    };
    match export(arguments, &config) {
        Ok(told) => print(&told),
        Err(error) => unusable(&format!("{error:#}")),
    }
}

impl Arguments {
    fn wanted(&self) -> anyhow::Result<Wanted> {
        let now = Clock::start().now();
        let crawler = self.crawler.clone();
        Ok(match (&self.id, &self.url, self.since) {
            (Some(id), ..) => Wanted::Id(id.replace('-', "")),
            (_, Some(url), _) => Wanted::Url {
                url: wayleave_robots_txt::Target::parse(url)
                    .with_context(|| format!("--url {url:?}"))?,
                at: self.at.context("--at is missing")?.end_seen_from(now),
                crawler,
            },
            (_, _, since) => Wanted::Since {
                since: since.context("--since is missing")?.seen_from(now),
                crawler,
            },
        })
    }
}

pub(super) fn export(arguments: &Arguments, config: &Config) -> anyhow::Result<String> {
    let options = config.log.decisions.as_ref();
    let options = options.context("log.decisions is empty: there is no decision log")?;
    // Read first, since nothing can be exported without it, and selecting may take minutes.
    let key = Key::read(&options.key).context("an export is signed with the log's key")?;
    let wanted = arguments.wanted()?;
    let log = log::open_log(options)?;
    let chosen = select(&log.files, &wanted)?;
    anyhow::ensure!(
        chosen.iter().any(|chosen| !chosen.lines.is_empty()),
        "no such decision is in the log {}{}",
        options.path.display(),
        lacking(&log, &chosen)
    );
    let made_at = humantime::format_rfc3339_seconds(calendar()).to_string();
    let out = arguments.out.display();
    let bundle = Bundle::create(&arguments.out, &made_at);
    let mut exporting = Exporting::to(bundle.with_context(|| format!("--out {out}"))?);
    for index in shown(&log, &chosen, &wanted) {
        let file = &log.files[index];
        let name = file.path.display().to_string();
        exporting.log(file, &chosen[index].lines).context(name)?;
    }
    let sources = Sources::open(config)?;
    let manifest = Manifest {
        evidence: 1,
        program: program(),
        made_at,
        wanted: serde_json::to_value(&wanted)?,
        decisions: exporting.decisions,
        missing: exporting.grounds(&sources)?,
        window: Some(Window::of(&log)),
        records_sha256: exporting.bundle.records_sha256(),
        logs: exporting.bundle.logs.clone(),
        files: exporting.bundle.files.clone(),
        key: key.public(),
    };
    for missing in &manifest.missing {
        complain(&format!("wayleave: not kept any more: {missing}\n"));
    }
    let line = head::signed(&serde_json::to_vec(&manifest)?, &key);
    exporting.bundle.finish(&line)?;
    Ok(format!(
        "{out}: {} decisions, {} files of the log, {} files that they rest on\n",
        manifest.decisions,
        manifest.logs.len(),
        manifest.files.len()
    ))
}

/// Describes the first file that is missing although no line says that it was deleted.
fn lacking(log: &Log, chosen: &[Chosen]) -> String {
    let is_deleted = |file: &u64| chosen.iter().any(|it| it.deleted.contains(file));
    let mut lacking = log.missing.iter().filter(|file| !is_deleted(file));
    lacking.next().map_or(String::new(), |file| {
        format!(": file {file} of it is missing, and no line says that it was deleted")
    })
}

/// Returns the indexes of the files to export: the range of all files that hold selected lines, that explain a missing file, or
/// that lack lines. A selection since a time extends to the last file.
fn shown(log: &Log, chosen: &[Chosen], wanted: &Wanted) -> RangeInclusive<usize> {
    let is_shown = |index: usize| {
        let (file, chosen) = (&log.files[index], &chosen[index]);
        let mut deleted = chosen.deleted.iter();
        let explains = deleted.any(|gone| log.missing.contains(gone));
        !chosen.lines.is_empty() || explains || file.is_short
    };
    let all = 0..log.files.len();
    let first = all.clone().find(|index| is_shown(*index));
    let is_last = |index: usize| matches!(wanted, Wanted::Since { .. }) || is_shown(index);
    let last = all.rev().find(|index| is_last(*index));
    first.unwrap_or(0)..=last.unwrap_or(0)
}

/// Everything that the exported decisions rest on.
#[derive(Default)]
struct Rests {
    configurations: BTreeSet<Digest>,
    bodies: BTreeSet<Digest>,
    exchanges: BTreeSet<Exchange>,
}

struct Exporting {
    bundle: Bundle,
    rests: Rests,
    decisions: u64,
    progress: Progress,
}

impl Exporting {
    fn to(bundle: Bundle) -> Self {
        Self {
            bundle,
            rests: Rests::default(),
            decisions: 0,
            progress: Progress::open_ended("decisions"),
        }
    }

    /// Writes a log file: the selected lines and all events. Digests stand in for other lines.
    fn log(&mut self, file: &LogFile, chosen: &[u64]) -> anyhow::Result<()> {
        self.bundle.begin_log(file.number)?;
        let mut chosen = chosen.iter().copied().peekable();
        let mut left_out = StandIns::default();
        file.read(|number, line| {
            let is_chosen = chosen.next_if_eq(&number).is_some();
            // All events are exported: they say which files were deleted and which lines are not authentic.
            if !is_chosen && !line.starts_with(START) {
                left_out.leave_out(number - 1, Digest::of(line));
                return Ok(());
            }
            for standin in left_out.lines() {
                self.bundle.line(&standin, None)?;
            }
            if is_chosen {
                self.decision(line)
            } else {
                self.bundle.line(line, None)
            }
        })?;
        for standin in left_out.lines() {
            self.bundle.line(&standin, None)?;
        }
        if let Some(head) = &file.head {
            self.bundle.line(head, None)?;
        }
        self.bundle.end_log()
    }

    fn decision(&mut self, line: &[u8]) -> anyhow::Result<()> {
        let decision: Decision = serde_json::from_slice(line)?;
        let at = humantime::format_rfc3339_micros(decision.at).to_string();
        let about = About {
            url: &decision.url,
            at: &at,
        };
        self.bundle.line(line, Some(about))?;
        self.rests.note(&decision, link::configuration(line));
        self.decisions += 1;
        if self.decisions.is_multiple_of(LINES) {
            self.progress.reached(self.decisions);
        }
        Ok(())
    }

    /// Writes everything that the decisions rest on. Returns the digests of what is no longer stored.
    fn grounds(&mut self, sources: &Sources<'_>) -> anyhow::Result<Vec<String>> {
        let mut missing = Vec::new();
        let mut by_body: BTreeMap<Digest, Vec<&Exchange>> = BTreeMap::new();
        for exchange in &self.rests.exchanges {
            // The first exchange of each body carries it in a WARC file; the others refer to the first.
            match exchange.sha256 {
                Some(sha256) => by_body.entry(sha256).or_default().push(exchange),
                None => self.bundle.exchange(exchange)?,
            }
        }
        for &sha256 in &self.rests.bodies {
            match sources.body(sha256)? {
                Some(bytes) => {
                    let exchanges = by_body.remove(&sha256).unwrap_or_default();
                    self.bundle.body(sha256, &bytes, &exchanges)?;
                }
                None => missing.push(sha256.to_string()),
            }
        }
        for &sha256 in &self.rests.configurations {
            match sources.configuration(sha256) {
                Some(bytes) => self.bundle.configuration(sha256, &bytes)?,
                None => missing.push(sha256.to_string()),
            }
        }
        Ok(missing)
    }
}

impl Rests {
    fn note(&mut self, decision: &Decision, configuration: Option<Digest>) {
        self.configurations.extend(configuration);
        for document in &decision.documents {
            let Some((sha256, at)) = document.sha256.zip(document.fetched_at) else {
                continue;
            };
            self.bodies.insert(sha256);
            self.exchanges.insert(Exchange {
                url: document.url.clone(),
                at: humantime::format_rfc3339_micros(at).to_string(),
                status: 200,
                is_cut: document.cut,
                sha256: Some(sha256),
            });
        }
        let Some(finding) = &decision.finding else {
            return;
        };
        let sha256 = finding.robots_sha256;
        self.bodies.extend(sha256);
        let origin = decision.origin.as_deref();
        let (Some(origin), Some(at)) = (origin, finding.robots_fetched_at) else {
            return;
        };
        self.exchanges.insert(Exchange {
            url: format!("{origin}/robots.txt"),
            at: humantime::format_rfc3339_micros(at).to_string(),
            status: match finding.robots_status {
                Some(status) if sha256.is_none() => status,
                _ => 200,
            },
            is_cut: finding.robots_cut,
            sha256,
        });
    }
}
