//! `wayleave rehearse`: what a new robots.txt would shut out of the requests of an access log. The counting is in
//! `wayleave-rehearsal`; `logs` reads, and `tables` shows the result as text or Markdown.

mod logs;
mod tables;

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use wayleave_rehearsal::{LogFormat, Rehearsal, RehearsalReport, RobotsPair};

use super::terminal::{CommandResult, pretty_json, print, print_painted, unusable};

/// The exit status if something would change or, without an old file, be shut out.
const EFFECT: u8 = 1;
/// The most bytes of a robots.txt. Crawlers read 500 KiB; longer files are read to say so.
const MAX_ROBOTS_BYTES: u64 = 16 * 1024 * 1024;

#[derive(Debug, Args)]
#[command(
    after_help = "Reads no configuration, and sends nothing. Crawlers are known by the names that they give, which anybody can give: \
                  by a list of well-known ones, by the names in the files, or because a name looks like a crawler's. Each is judged in the \
                  dialect that its owner documents; the report says where the other three decide otherwise.\n\
                  Exit status: 0 nothing would be shut out or, with --before, change; 1 something would; 2 a usage error, a file that \
                  cannot be read, or a log without any request. Lines of a log that are no request are counted, and the first is shown."
)]
pub(super) struct RehearseArguments {
    /// The new robots.txt ("-": standard input)
    #[arg(long, value_name = "NEW")]
    robots: PathBuf,
    /// The robots.txt that it replaces: also report what changes
    #[arg(long, value_name = "OLD")]
    before: Option<PathBuf>,
    /// An access log, also packed by gzip; several for rotated ones, in any order ("-": standard input) [default: -]
    #[arg(long = "log", value_name = "ACCESS.log")]
    logs: Vec<PathBuf>,
    /// The format of the logs: "combined", of Apache httpd and nginx, or a JSON object a line [default: JSON for lines that begin
    /// with a brace, else combined]
    #[arg(long, value_parser = ["combined", "json"])]
    format: Option<String>,
    /// Print everything as one JSON object
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print tables in Markdown, for a comment on a change
    #[arg(long)]
    markdown: bool,
}

pub(super) fn run(arguments: &RehearseArguments) -> CommandResult {
    let rehearsed = arguments.read_robots().and_then(|robots| arguments.print(&robots));
    rehearsed.map_err(|message| unusable(&message))
}

impl RehearseArguments {
    /// Rehearses, prints the result and returns the exit status.
    ///
    /// # Errors
    ///
    /// Says which log cannot be read, or has no request.
    fn print(&self, robots: &RobotsPair) -> Result<ExitCode, String> {
        let logs = self.logs();
        let format = self.format.as_deref().map(|format| match format {
            "json" => LogFormat::Json,
            _ => LogFormat::Combined,
        });
        let rehearsal = logs::read(&logs, robots, format)?;
        let names: Vec<_> = logs.iter().map(|log| log.display().to_string()).collect();
        check_read(&rehearsal, &names)?;
        let report = RehearsalReport::new(&rehearsal, &names);
        let printed = if self.json {
            print(&pretty_json(&report))
        } else if self.markdown {
            print(&tables::markdown(&report))
        } else {
            print_painted(&tables::text(&report))
        };
        if printed == ExitCode::SUCCESS && report.has_effect() {
            return Ok(ExitCode::from(EFFECT));
        }
        Ok(printed)
    }

    /// Returns the logs, which are standard input if none is named.
    fn logs(&self) -> Vec<PathBuf> {
        if self.logs.is_empty() { vec![PathBuf::from("-")] } else { self.logs.clone() }
    }

    fn read_robots(&self) -> Result<RobotsPair, String> {
        let robots = [&self.robots].into_iter().chain(&self.before).cloned();
        let from_input = robots.chain(self.logs()).filter(|file| file == Path::new("-"));
        if from_input.count() > 1 {
            return Err("standard input can contain only one of the files".to_owned());
        }
        let new = read(&self.robots)?;
        let before = self.before.as_deref().map(read).transpose()?;
        Ok(RobotsPair::new(new, before))
    }
}

/// Reads a robots.txt.
fn read(file: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        io::stdin().lock().take(MAX_ROBOTS_BYTES).read_to_end(&mut bytes)
    } else {
        fs::File::open(file).and_then(|file| file.take(MAX_ROBOTS_BYTES).read_to_end(&mut bytes))
    };
    read.map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(bytes)
}

/// Checks that there is anything to count: nothing is shut out of an empty log, and that would pass for an answer.
fn check_read(rehearsal: &Rehearsal<'_>, names: &[String]) -> Result<(), String> {
    if rehearsal.request_count() > 0 {
        return Ok(());
    }
    Err(match rehearsal.first_bad_line() {
        Some(bad) => format!(
            "no line is a request; the first: {}:{}: {}",
            names[bad.place.file], bad.place.line, bad.why
        ),
        None => format!("there is no line in {}", names.join(", ")),
    })
}
