//! `wayleave report`: what was refused and what enforcement would refuse, from the decision log alone.

mod csv;
mod expired;
mod table;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Args;
use serde::Serialize;

use self::expired::Expired;
use super::source::load_config;
use super::terminal::{complain, print, unusable};
use crate::clock::Clock;
use crate::decisions::Report;

#[derive(Debug, Args)]
#[command(
    after_help = "Reads log.decisions of the configuration and the files rotated away from it; needs no running proxy.\n\
                  Exit status: 0 reported, 2 usage error or no log to read."
)]
pub(super) struct Arguments {
    /// How far to look back
    #[arg(long, value_name = "SPAN", default_value = "7d", value_parser = humantime::parse_duration)]
    since: Duration,
    /// One JSON object with everything
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// The rows as CSV; what was read goes to standard error
    #[arg(long)]
    csv: bool,
    /// Rows of the table; 0 for all
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    report: &'a Report,
    expired_rules: &'a [Expired],
}

pub(super) fn run(arguments: &Arguments, file: Option<&Path>) -> ExitCode {
    let config = match load_config(file) {
        Ok((config, _)) => config,
        Err(status) => return status,
    };
    let Some(log) = &config.log.decisions else {
        return unusable("log.decisions is empty: there is no decision log");
    };
    let now = Clock::start().now();
    let since = now.checked_sub(arguments.since);
    let report = Report::read(log, since.unwrap_or(SystemTime::UNIX_EPOCH), now);
    if report.files.is_empty() && report.older_files == 0 {
        return unusable(&format!("there is no decision log {}", log.display()));
    }
    let expired = expired::rules(&config, now);
    if arguments.json {
        let whole = Whole {
            report: &report,
            expired_rules: &expired,
        };
        let json = serde_json::to_string_pretty(&whole).expect("strings and numbers serialise");
        return print(&(json + "\n"));
    }
    if arguments.csv {
        complain(&table::read(&report));
        return print(&csv::rows(&report.rows));
    }
    let limit = match arguments.limit {
        0 => usize::MAX,
        limit => limit,
    };
    print(&table::whole(&report, &expired, limit))
}
