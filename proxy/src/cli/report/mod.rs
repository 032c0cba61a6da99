//! `wayleave report`: summarises from the decision log what was refused, and what enforcement would refuse.

mod csv;
mod table;

use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use clap::Args;
use serde::Serialize;

use super::config_file::load_config;
use super::expired_rules::{self, ExpiredRule};
use super::progress::{self, ProgressLine};
use super::terminal::{CommandResult, pretty_json, print, print_errors, print_painted, unusable};
use super::time_argument::TimeArgument;
use crate::clock::Clock;
use crate::decision_log::LogReport;

#[derive(Debug, Args)]
#[command(
    after_help = "Reads log.decisions of the configuration and its rotated files; needs no running proxy.\n\
                  Exit status: 0 reported, 2 usage error, no decision log, or a file or line of it cannot be read."
)]
pub(super) struct ReportArguments {
    /// Start of the report: a span before now, or a time such as 2026-11-22T08:00:00Z or 2026-11-22
    #[arg(long, value_name = "SPAN", default_value = "7d")]
    since: TimeArgument,
    /// Print everything as one JSON object
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print the rows as CSV; the summary of what was read goes to standard error
    #[arg(long)]
    csv: bool,
    /// Maximum number of table rows; 0: all
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

#[derive(Serialize)]
struct ReportJson<'a> {
    #[serde(flatten)]
    report: &'a LogReport,
    expired_rules: &'a [ExpiredRule],
}

pub(super) fn run(arguments: &ReportArguments, file: Option<&Path>) -> CommandResult {
    let (config, read_from) = load_config(file)?;
    let Some(log) = &config.log.decisions else {
        return Err(unusable("log.decisions is empty: there is no decision log"));
    };
    let now = Clock::start().now();
    let report = read_log(&log.path, arguments.since.start(now), now);
    // Files that are too old are a log all the same, of a time without decisions.
    if report.files.is_empty() && report.older_files == 0 {
        // Without a configuration file, the log of an installed service is probably meant, which is elsewhere.
        return Err(unusable(&match &report.failures[..] {
            [] if read_from.is_none() => format!(
                "there is no decision log {}; for the service's log, add --config /etc/wayleave/config.toml",
                log.path.display()
            ),
            [] => format!("there is no decision log {}", log.path.display()),
            failures => format!("the decision log cannot be read: {}", failures.join("; ")),
        }));
    }
    let expired = expired_rules::find(&config, now);
    let printed = if arguments.json {
        print(&pretty_json(&ReportJson { report: &report, expired_rules: &expired }))
    } else if arguments.csv {
        // On standard error, so that standard output is nothing but CSV.
        print_errors(&table::read_summary(&report));
        print(&csv::to_csv(&report.rows))
    } else {
        let limit = match arguments.limit {
            0 => usize::MAX,
            limit => limit,
        };
        print_painted(&table::full_report(&report, &expired, limit))
    };
    // After printing: what could be read is worth seeing all the same.
    check_complete(&report).map(|()| printed)
}

fn read_log(path: &Path, since: SystemTime, until: SystemTime) -> LogReport {
    let progress = ProgressLine::open_ended("decisions");
    let mut count = 0;
    LogReport::read(path, since, until, &mut || {
        count += 1;
        if count % progress::LINES_PER_UPDATE == 0 {
            progress.set_position(count);
        }
    })
}

/// Fails if something could not be read: a report without it is not reliable.
fn check_complete(report: &LogReport) -> Result<(), ExitCode> {
    let mut missing = report.failures.clone();
    match report.damaged_lines {
        0 => {}
        1 => missing.push("1 line cannot be read".to_owned()),
        count => missing.push(format!("{count} lines cannot be read")),
    }
    if missing.is_empty() {
        Ok(())
    } else {
        Err(unusable(&format!("the report is not complete: {}", missing.join("; "))))
    }
}
