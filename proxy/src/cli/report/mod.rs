//! `wayleave report`: summarises from the decision log the requests that were refused, and those that enforcement would refuse.

mod cells;
mod csv;
mod document;
mod table;

use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde::Serialize;
use wayleave_clock::{Clock, TimeArgument};
use wayleave_decision_log::{
    ChosenCrawler, DecisionQuery, LogPlace, LogReport, ReportContents, ReportDimension, ReportQuery,
};
use wayleave_record::{AskedVia, ClosedSet};

use self::cells::RowLimits;
use super::config_file::{EVIDENCE_KEYS, load_keys};
use super::crawler_names;
use super::document_form::DocumentForm;
use super::expired_rules::{self, ExpiredRule};
use super::progress::ProgressLine;
use super::terminal::{
    CommandResult, incomplete, pretty_json, print, print_errors, print_painted, unusable,
};

#[derive(Debug, Args)]
#[command(
    after_help = "Reads log.decisions of the configuration and its rotated files; needs no running proxy.\n\
                  Exit status: 0 reported, 2 usage error, no decision log, or a file or line of it cannot be read, \
                  3 files of the log or decisions are missing, or files are left out because they do not belong to it."
)]
pub(super) struct ReportArguments {
    /// Start of the report: 7d, yesterday, 2026-11-22 or 2026-11-22T08:00:00Z
    #[arg(long, value_name = "TIME", default_value = "7d")]
    since: TimeArgument,
    /// End of the report, included: 2h, yesterday, 2026-11-22 or 2026-11-22T08:00:00Z [default: now]
    #[arg(long, value_name = "TIME")]
    until: Option<TimeArgument>,
    /// Summarise by this instead of by crawler with all rules
    #[arg(long, value_enum)]
    by: Option<ReportDimension>,
    /// Count the requests of this crawler only, by its configured name; `unnamed`: those that match no [[crawler]]
    #[arg(long, value_name = "NAME")]
    crawler: Option<ChosenCrawler>,
    /// Count only the requests about which another proxy asked: gateway
    #[arg(long, value_name = "WORD", value_parser = ["gateway"], hide_possible_values = true)]
    via: Option<String>,
    /// Form of the report
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    format: ReportFormat,
    /// Short for --format json
    #[arg(long, conflicts_with_all = ["csv", "format"])]
    json: bool,
    /// Short for --format csv
    #[arg(long, conflicts_with = "format")]
    csv: bool,
    /// Maximum number of rows of a table; 0: all [default: 30 crawlers, hosts, rules or reasons; 5 in the tables below; as CSV all]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    /// For a terminal
    Text,
    /// Markdown
    Md,
    /// A page that needs nothing else
    Html,
    /// Rows; what was read goes to standard error
    Csv,
    /// Everything, as one object
    Json,
}

impl ReportArguments {
    fn format(&self) -> ReportFormat {
        match (self.json, self.csv) {
            (true, _) => ReportFormat::Json,
            (_, true) => ReportFormat::Csv,
            _ => self.format,
        }
    }
}

#[derive(Serialize)]
struct ReportJson<'a> {
    #[serde(flatten)]
    report: &'a LogReport,
    /// A phrase for each part that could not be looked at.
    missing: Vec<String>,
    expired_rules: &'a [ExpiredRule],
}

pub(super) fn run(arguments: &ReportArguments, file: Option<&Path>) -> CommandResult {
    let (config, read_from) = load_keys(file, &EVIDENCE_KEYS)?;
    let Some(log) = &config.log.decisions else {
        return Err(unusable("log.decisions is empty: there is no decision log"));
    };
    let now = Clock::start().now();
    let query = ReportQuery {
        since: arguments.since.start(now),
        until: arguments.until.map_or(now, |until| until.end(now)),
        requests: DecisionQuery {
            crawler: arguments.crawler.clone(),
            via: arguments.via.as_deref().and_then(AskedVia::named),
            ..DecisionQuery::default()
        },
        contents: ReportContents::Summary(arguments.by.unwrap_or(ReportDimension::Crawler)),
    };
    if arguments.until.is_some() && query.until < query.since {
        return Err(unusable("--until is before --since"));
    }
    let report = read_log(log.place(), &query);
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
    let find_unknown = |name| crawler_names::find_unknown(name, &config);
    let unknown = arguments.crawler.as_ref().and_then(find_unknown);
    if let Some(mistake) = unknown.filter(|_| report.by_crawler.is_empty()) {
        return Err(unusable(&mistake));
    }
    let printed = print_report(arguments, &report, &expired_rules::find(&config, now));
    // After printing: the readable part is worth seeing all the same.
    check_complete(&report).map(|()| printed)
}

fn read_log(log: LogPlace<'_>, query: &ReportQuery) -> LogReport {
    let progress = ProgressLine::of_bytes("0 decisions");
    LogReport::read(log, query, &mut |read| {
        progress.set_bytes(read.bytes, read.total_bytes, &format!("{} decisions", read.lines));
        ControlFlow::Continue(())
    })
}

fn print_report(
    arguments: &ReportArguments,
    report: &LogReport,
    expired: &[ExpiredRule],
) -> ExitCode {
    let by = arguments.by;
    let limits = RowLimits::new(arguments.limit);
    match arguments.format() {
        ReportFormat::Json => {
            let missing = report.gaps.phrases(true);
            print(&pretty_json(&ReportJson { report, missing, expired_rules: expired }))
        }
        ReportFormat::Csv => {
            // On standard error, so that standard output is nothing but CSV.
            print_errors(&table::read_summary(report));
            // A program gets all rows unless it asks for fewer.
            let limit = arguments.limit.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
            print(&match by {
                Some(by) => csv::summary_to_csv(first(report.summary(by), limit), by),
                None => csv::to_csv(first(&report.rows, limit)),
            })
        }
        ReportFormat::Md => {
            print(&document::write(DocumentForm::Markdown, report, expired, by, limits))
        }
        ReportFormat::Html => {
            print(&document::write(DocumentForm::Html, report, expired, by, limits))
        }
        ReportFormat::Text => print_painted(&table::full_report(report, expired, by, limits)),
    }
}

fn first<T>(rows: &[T], limit: usize) -> &[T] {
    &rows[..rows.len().min(limit)]
}

/// Fails if something could not be read, or is missing: a report without it is not reliable.
fn check_complete(report: &LogReport) -> Result<(), ExitCode> {
    let mut unread = report.failures.clone();
    match report.damaged_lines {
        0 => {}
        1 => unread.push("1 line cannot be read".to_owned()),
        count => unread.push(format!("{count} lines cannot be read")),
    }
    let missing = report.gaps.phrases(true);
    if !unread.is_empty() {
        Err(unusable(&format!(
            "the report is not complete: {}",
            [unread, missing].concat().join("; ")
        )))
    } else if missing.is_empty() {
        Ok(())
    } else {
        Err(incomplete(&missing))
    }
}
