//! `wayleave evidence export`: decisions with everything they rest on, and the proof that nothing was changed or removed.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};
use wayleave_audit::PastMaterials as _;
use wayleave_clock::{Clock, TimeArgument, system_time};
use wayleave_config::Config;
use wayleave_decision_log::ChosenCrawler;
use wayleave_evidence::SignedLog;
use wayleave_evidence::export::{Export, check_output_path};
use wayleave_evidence::select::{SelectedLines, Selection, select, unexplained_gap};
use wayleave_signing::SigningKey;

use super::sources::MaterialSources;
use crate::cli::config_file::{EVIDENCE_KEYS, load_keys};
use crate::cli::progress::{LINES_PER_UPDATE, ProgressLine};
use crate::cli::terminal::{counted, print, print_errors, unusable};

#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("wanted").required(true),
    after_help = "Digests replace the lines that were not requested. Needs the files below state.dir, and gets the \
                  robots.txt files from the proxy if it is running.\n\
                  Exit status: 0 exported, 2 nothing found, or the export failed."
)]
pub(crate) struct ExportArgs {
    /// The decision with this id
    #[arg(long, group = "wanted")]
    id: Option<String>,
    /// The last decision about this URL at --at (required), and the first after it
    #[arg(long, group = "wanted", requires = "at")]
    url: Option<String>,
    /// 2026-11-21T08:00:00Z, 2026-11-21 (the whole day), yesterday, now or 3d (3 days ago)
    #[arg(long, value_name = "TIME", requires = "url")]
    at: Option<TimeArgument>,
    /// All decisions since then: a span back from now, or a time
    #[arg(long, group = "wanted", value_name = "SPAN")]
    since: Option<TimeArgument>,
    /// Only those of this crawler, by its configured name; `unnamed`: of clients that match no [[crawler]]
    #[arg(long, value_name = "C", conflicts_with = "id")]
    crawler: Option<ChosenCrawler>,
    /// A folder that does not exist yet, or a file that ends in .warc.gz or .warc
    #[arg(long, value_name = "DIR|FILE.warc.gz", value_parser = PathBufValueParser::new().try_map(check_output_path))]
    out: PathBuf,
}

pub(super) fn run(arguments: &ExportArgs, file: Option<&Path>) -> ExitCode {
    let config = match load_keys(file, &EVIDENCE_KEYS) {
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
        let crawler = self.crawler.clone().map(String::from);
        Ok(match (&self.id, &self.url, self.since) {
            (Some(id), ..) => Selection::Id(id.replace('-', "")),
            (_, Some(url), _) => Selection::Url {
                url: wayleave_robots_txt::Target::parse(url)
                    .with_context(|| format!("--url {url:?}"))?,
                at: self.at.context("--at is missing")?.end(now),
                crawler,
            },
            (_, _, since) => {
                Selection::Since { since: since.context("--since is missing")?.start(now), crawler }
            }
        })
    }
}

pub(super) fn export(arguments: &ExportArgs, config: &Config) -> anyhow::Result<String> {
    let options = (config.log.decisions.as_ref())
        .context("log.decisions is empty: there is no decision log")?;
    // Read first, since nothing can be exported without it, and selecting may take minutes.
    let key = SigningKey::read(&options.key).context("cannot read the key that signs exports")?;
    let selection = arguments.selection()?;
    // Before the log is opened: all that was signed until then is in it, and its verification relies on that.
    let made_at = system_time();
    let log = SignedLog::open(&options.path, &options.state_dir)?;
    let selected = select(&log.files, &selection)?;
    anyhow::ensure!(
        selected.iter().any(|selected| !selected.lines.is_empty()),
        "no such decision is in the log {}{}",
        options.path.display(),
        describe_missing_file(&log, &selected)
    );
    let out = arguments.out.display();
    let mut export =
        Export::create(&arguments.out, made_at).with_context(|| format!("--out {out}"))?;
    let progress = ProgressLine::open_ended("decisions");
    export.write_logs(&log, &selected, &selection, |decisions| {
        if decisions.is_multiple_of(LINES_PER_UPDATE) {
            progress.set_position(decisions);
        }
    })?;
    let sources = MaterialSources::open(config)?;
    let missing = export
        .write_materials(|digest| sources.body(digest), |digest| sources.configuration(digest))?;
    for digest in &missing {
        print_errors(&format!("wayleave: no longer kept: {digest}\n"));
    }
    let manifest = export.finish(&log, &selection, missing, key.pair())?;
    Ok(format!(
        "{out}: {}, {}, {} that they are based on\n",
        counted(manifest.decisions, "decision"),
        counted(manifest.logs.len(), "log file"),
        counted(manifest.files.len(), "file")
    ))
}

/// Describes the first file that is missing although no line records its deletion.
fn describe_missing_file(log: &SignedLog, selected: &[SelectedLines]) -> String {
    unexplained_gap(log, selected).map_or(String::new(), |file| {
        format!(": file {file} of it is missing, and no line records its deletion")
    })
}
