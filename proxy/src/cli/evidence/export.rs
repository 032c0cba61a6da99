//! `wayleave evidence export`: decisions with everything they rest on, and the proof that nothing was changed or removed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};

use super::bundle::{ExportWriter, check_output_path};
use super::exchange::{DocumentExchange, LineSubject};
use super::manifest::{LogWindow, Manifest};
use super::select::{SelectedLines, Selection, select};
use super::signed_log::{self, SignedLog, SignedLogFile};
use super::sources::MaterialSources;
use super::stand_ins::OmittedLines;
use crate::cli::config_file::load_config;
use crate::cli::progress::{LINES_PER_UPDATE, ProgressLine};
use crate::cli::terminal::{print, print_errors, unusable};
use crate::cli::time_argument::TimeArgument;
use crate::clock::{Clock, system_time};
use crate::config::Config;
use crate::decision_log::DecisionRecord;
use crate::decision_log::chain::event::{EVENT_PREFIX, program_version};
use crate::decision_log::chain::{head, link};
use crate::signing::SigningKey;
use crate::telemetry::digest::Sha256Digest;

#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("wanted").required(true),
    after_help = "Lines that are not wanted are left out, and digests stand for them. Needs the files below state.dir; \
                  a running proxy is asked for the robots.txt files.\n\
                  Exit status: 0 exported, 2 nothing found or not exported."
)]
pub(crate) struct ExportArgs {
    /// The decision with this id
    #[arg(long, group = "wanted")]
    id: Option<String>,
    /// The last decision about this URL at --at, and the first after it
    #[arg(long, group = "wanted", requires = "at")]
    url: Option<String>,
    /// 2026-11-21T08:00:00Z, 2026-11-21 (the whole day) or 3d (3 days ago)
    #[arg(long, value_name = "TIME", requires = "url")]
    at: Option<TimeArgument>,
    /// All decisions since then: a span back from now, or a time
    #[arg(long, group = "wanted", value_name = "SPAN")]
    since: Option<TimeArgument>,
    /// Only those of this crawler, by its configured name
    #[arg(long, value_name = "C", conflicts_with = "id")]
    crawler: Option<String>,
    /// A folder that does not exist yet, or a file that ends in .warc.gz or .warc
    #[arg(long, value_name = "DIR|FILE.warc.gz", value_parser = PathBufValueParser::new().try_map(check_output_path))]
    out: PathBuf,
}

pub(super) fn run(arguments: &ExportArgs, file: Option<&Path>) -> ExitCode {
    let config = match load_config(file) {
        Ok((config, _)) => config,
        Err(status) => return status,
    };
    match export(arguments, &config) {
        Ok(told) => print(&told),
        Err(error) => unusable(&format!("{error:#}")),
    }
}

impl ExportArgs {
    fn selection(&self) -> anyhow::Result<Selection> {
        let now = Clock::start().now();
        let crawler = self.crawler.clone();
        Ok(match (&self.id, &self.url, self.since) {
            (Some(id), ..) => Selection::Id(id.replace('-', "")),
            (_, Some(url), _) => Selection::Url {
                url: wayleave_robots_txt::Target::parse(url)
                    .with_context(|| format!("--url {url:?}"))?,
                at: self.at.context("--at is missing")?.end(now),
                crawler,
            },
            (_, _, since) => Selection::Since {
                since: since.context("--since is missing")?.start(now),
                crawler,
            },
        })
    }
}

pub(super) fn export(arguments: &ExportArgs, config: &Config) -> anyhow::Result<String> {
    let options = config.log.decisions.as_ref();
    let options = options.context("log.decisions is empty: there is no decision log")?;
    // Read first, since nothing can be exported without it, and selecting may take minutes.
    let key = SigningKey::read(&options.key).context("an export is signed with the log's key")?;
    let wanted = arguments.selection()?;
    let log = signed_log::open_log(options)?;
    let chosen = select(&log.files, &wanted)?;
    anyhow::ensure!(
        chosen.iter().any(|chosen| !chosen.lines.is_empty()),
        "no such decision is in the log {}{}",
        options.path.display(),
        describe_missing_file(&log, &chosen)
    );
    let made_at = humantime::format_rfc3339_seconds(system_time()).to_string();
    let out = arguments.out.display();
    let bundle = ExportWriter::create(&arguments.out, &made_at);
    let mut exporting = ExportRun::to(bundle.with_context(|| format!("--out {out}"))?);
    for index in shown_files(&log, &chosen, &wanted) {
        let file = &log.files[index];
        let name = file.path.display().to_string();
        exporting
            .write_log_file(file, &chosen[index].lines)
            .context(name)?;
    }
    let sources = MaterialSources::open(config)?;
    let manifest = Manifest {
        evidence: 1,
        program: program_version(),
        made_at,
        wanted: serde_json::to_value(&wanted)?,
        decisions: exporting.decisions,
        missing: exporting.write_materials(&sources)?,
        window: Some(LogWindow::from_log(&log)),
        records_sha256: exporting.bundle.records_sha256(),
        logs: exporting.bundle.logs.clone(),
        files: exporting.bundle.files.clone(),
        key: key.public_base64(),
    };
    for missing in &manifest.missing {
        print_errors(&format!("wayleave: not kept any more: {missing}\n"));
    }
    let line = head::sign_line(&serde_json::to_vec(&manifest)?, &key);
    exporting.bundle.finish(&line)?;
    Ok(format!(
        "{out}: {} decisions, {} files of the log, {} files that they rest on\n",
        manifest.decisions,
        manifest.logs.len(),
        manifest.files.len()
    ))
}

/// Describes the first file that is missing although no line says that it was deleted.
fn describe_missing_file(log: &SignedLog, chosen: &[SelectedLines]) -> String {
    let is_deleted = |file: &u64| chosen.iter().any(|it| it.deleted.contains(file));
    let mut lacking = log.missing.iter().filter(|file| !is_deleted(file));
    lacking.next().map_or(String::new(), |file| {
        format!(": file {file} of it is missing, and no line says that it was deleted")
    })
}

/// Returns the indexes of the files to export: the range of all files that hold selected lines, that explain a missing file, or
/// that lack lines. A selection since a time extends to the last file.
fn shown_files(
    log: &SignedLog,
    chosen: &[SelectedLines],
    wanted: &Selection,
) -> RangeInclusive<usize> {
    let is_shown = |index: usize| {
        let (file, chosen) = (&log.files[index], &chosen[index]);
        let mut deleted = chosen.deleted.iter();
        let explains = deleted.any(|gone| log.missing.contains(gone));
        !chosen.lines.is_empty() || explains || file.is_truncated
    };
    let all = 0..log.files.len();
    let first = all.clone().find(|index| is_shown(*index));
    let is_last = |index: usize| matches!(wanted, Selection::Since { .. }) || is_shown(index);
    let last = all.rev().find(|index| is_last(*index));
    first.unwrap_or(0)..=last.unwrap_or(0)
}

/// Everything that the exported decisions rest on.
#[derive(Default)]
struct ExportMaterials {
    configurations: BTreeSet<Sha256Digest>,
    bodies: BTreeSet<Sha256Digest>,
    exchanges: BTreeSet<DocumentExchange>,
}

struct ExportRun {
    bundle: ExportWriter,
    materials: ExportMaterials,
    decisions: u64,
    progress: ProgressLine,
}

impl ExportRun {
    fn to(bundle: ExportWriter) -> Self {
        Self {
            bundle,
            materials: ExportMaterials::default(),
            decisions: 0,
            progress: ProgressLine::open_ended("decisions"),
        }
    }

    /// Writes a log file: the selected lines and all events. Digests stand in for other lines.
    fn write_log_file(&mut self, file: &SignedLogFile, chosen: &[u64]) -> anyhow::Result<()> {
        self.bundle.begin_log(file.number)?;
        let mut chosen = chosen.iter().copied().peekable();
        let mut left_out = OmittedLines::default();
        file.read(|number, line| {
            let is_chosen = chosen.next_if_eq(&number).is_some();
            // All events are exported: they say which files were deleted and which lines are not authentic.
            if !is_chosen && !line.starts_with(EVENT_PREFIX) {
                left_out.push(number - 1, Sha256Digest::of(line));
                return Ok(());
            }
            for standin in left_out.drain_stand_ins() {
                self.bundle.add_line(&standin, None)?;
            }
            if is_chosen {
                self.write_decision(line)
            } else {
                self.bundle.add_line(line, None)
            }
        })?;
        for standin in left_out.drain_stand_ins() {
            self.bundle.add_line(&standin, None)?;
        }
        if let Some(head) = &file.head {
            self.bundle.add_line(head, None)?;
        }
        self.bundle.end_log()
    }

    fn write_decision(&mut self, line: &[u8]) -> anyhow::Result<()> {
        let decision: DecisionRecord = serde_json::from_slice(line)?;
        let at = humantime::format_rfc3339_micros(decision.at).to_string();
        let about = LineSubject {
            url: &decision.url,
            at: &at,
        };
        self.bundle.add_line(line, Some(about))?;
        self.materials
            .add_decision(&decision, link::config_digest(line));
        self.decisions += 1;
        if self.decisions.is_multiple_of(LINES_PER_UPDATE) {
            self.progress.set_position(self.decisions);
        }
        Ok(())
    }

    /// Writes everything that the decisions rest on. Returns the digests of what is no longer stored.
    fn write_materials(&mut self, sources: &MaterialSources<'_>) -> anyhow::Result<Vec<String>> {
        let mut missing = Vec::new();
        let mut by_body: BTreeMap<Sha256Digest, Vec<&DocumentExchange>> = BTreeMap::new();
        for exchange in &self.materials.exchanges {
            // The first exchange of each body carries it in a WARC file; the others refer to the first.
            match exchange.sha256 {
                Some(sha256) => by_body.entry(sha256).or_default().push(exchange),
                None => self.bundle.add_exchange(exchange)?,
            }
        }
        for &sha256 in &self.materials.bodies {
            match sources.body(sha256)? {
                Some(bytes) => {
                    let exchanges = by_body.remove(&sha256).unwrap_or_default();
                    self.bundle.add_body(sha256, &bytes, &exchanges)?;
                }
                None => missing.push(sha256.to_string()),
            }
        }
        for &sha256 in &self.materials.configurations {
            match sources.configuration(sha256) {
                Some(bytes) => self.bundle.add_config(sha256, &bytes)?,
                None => missing.push(sha256.to_string()),
            }
        }
        Ok(missing)
    }
}

impl ExportMaterials {
    fn add_decision(&mut self, decision: &DecisionRecord, configuration: Option<Sha256Digest>) {
        self.configurations.extend(configuration);
        for document in &decision.documents {
            let Some((sha256, at)) = document.sha256.zip(document.fetched_at) else {
                continue;
            };
            self.bodies.insert(sha256);
            self.exchanges.insert(DocumentExchange {
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
        self.exchanges.insert(DocumentExchange {
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
