//! `wayleave comply`: the duties of those who run crawlers, and which of them the configuration fulfils.

mod duties;
mod lacks;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use wayleave_config::ConfigSources;
use wayleave_notation::harmless::escape_controls;

use self::duties::{Duty, DutyFinding, DutyStatus};
use self::lacks::Lack;
use super::config_file::load_config;
use super::paint::Tone;
use super::terminal::{CommandResult, pretty_json, print, print_errors, print_painted, unusable};

#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 no duty is missing, 1 one is, 2 usage, or a file that cannot be used."
)]
pub(super) struct ComplyArguments {
    /// Compare the files that `wayleave publish` wrote below this folder with the configuration
    #[arg(long, value_name = "DIR")]
    published: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &ComplyArguments, file: Option<&Path>) -> CommandResult {
    let (config, sources) = load_config(file)?;
    let published = arguments.published.as_deref();
    if let Some(dir) = published.filter(|dir| !dir.is_dir()) {
        return Err(unusable(&format!("{}: is not a folder", dir.display())));
    }
    let duties = duties::check(&config, published);
    let is_missing = |duty: &Duty| duty.finding.status == DutyStatus::Missing;
    let printed = if arguments.json {
        print(&pretty_json(&duties))
    } else {
        print_painted(&duties.iter().map(format_duty).collect::<String>())
    };
    if !arguments.json {
        let read_from = sources.as_ref().map(ConfigSources::main_path);
        print_errors(&summary(&duties, read_from, published));
    }
    // The status of a failed print must not be hidden by that of a duty.
    if printed == ExitCode::SUCCESS && duties.iter().any(is_missing) {
        return Err(ExitCode::from(1));
    }
    Ok(printed)
}

/// Says what was asked, what was looked at, and what follows.
fn summary(duties: &[Duty], read_from: Option<&Path>, published: Option<&Path>) -> String {
    let [ok, missing, unknown] = [DutyStatus::Ok, DutyStatus::Missing, DutyStatus::Unknown]
        .map(|status| duties.iter().filter(|duty| duty.finding.status == status).count());
    let config = read_from.map_or("the built-in defaults".into(), Path::to_string_lossy);
    let compared = published.map(|dir| format!(", and what is published in {}", dir.display()));
    let mut text = format!(
        "Asked: which of the {} duties of those who run crawlers (docs/security.md) are fulfilled?\n\
         Looked at: {config}{}.\n\
         Answer: {ok} fulfilled, {missing} missing, {unknown} unknown.",
        duties.len(),
        compared.unwrap_or_default(),
    );
    if missing > 0 {
        text += " For a missing one, change the key in its line.";
    }
    if unknown > 0 {
        text += " An unknown one is not decided by the configuration: look for yourself.";
    }
    text + "\n"
}

/// Formats a duty as `missing  3  it keeps a pace: politeness.min_delay: there is no delay ...`.
fn format_duty(duty: &Duty) -> String {
    let DutyFinding { status, key, detail } = &duty.finding;
    let tone = match status {
        DutyStatus::Ok => Tone::Good,
        DutyStatus::Missing => Tone::Bad,
        DutyStatus::Unknown => Tone::Doubtful,
    };
    let status = tone.paint(&format!("{:<7}", status.as_str()));
    let detail = escape_controls(detail);
    let mut text = format!("{status}  {}  {}: {key}: {detail}\n", duty.number, duty.duty);
    for Lack { crawler, key, set } in &duty.crawlers {
        text += &format!("         {crawler:?}: {key} = {}\n", escape_controls(set));
    }
    for line in duty.write.lines() {
        text += &format!("         {}\n", escape_controls(line));
    }
    text
}
