//! `wayleave completions` and `wayleave man`: shell completions and man pages, generated from the definition of the command
//! line.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};
use std::{env, fs, io};

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::help;
use super::terminal::{print, unusable};

#[derive(Debug, Args)]
pub(super) struct CompletionsArguments {
    /// The shell that they are for
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, Args)]
pub(super) struct ManArguments {
    /// An existing directory, to which one page per command is written
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Returns the date of the pages: that of the build that writes them, by the variable `SOURCE_DATE_EPOCH`, so that building
/// again gives the same pages.
fn date() -> Option<String> {
    // With less than 64 bits, no time is too late to be shown.
    let seconds: u32 = env::var("SOURCE_DATE_EPOCH").ok()?.parse().ok()?;
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.into());
    humantime::format_rfc3339_seconds(at).to_string().get(..10).map(str::to_owned)
}

pub(super) fn completions(arguments: &CompletionsArguments, mut command: Command) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "wayleave", &mut script);
    print(&String::from_utf8_lossy(&script))
}

pub(super) fn pages(arguments: &ManArguments, mut command: Command) -> ExitCode {
    // Propagates full command names and global options, which the pages of subcommands lack otherwise.
    command.build();
    match write_pages(&command, "", &arguments.directory) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => unusable(&format!("{}: {error}", arguments.directory.display())),
    }
}

/// Writes the page of a command and those of its subcommands. `path`: its name without the program's.
fn write_pages(command: &Command, path: &str, directory: &Path) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let title = name.to_uppercase();
    // The examples and the exit status have sections of their own.
    let source = concat!("wayleave ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone().after_help("")).title(title).source(source);
    let man = man.manual("wayleave").date(date().unwrap_or_default());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.get_subcommands().any(is_shown) {
        man.render_subcommands_section(&mut page)?;
    }
    further_sections(command, path).to_writer(&mut page)?;
    if command.get_version().is_some() {
        man.render_version_section(&mut page)?;
    }
    fs::write(directory.join(format!("{name}.1")), page)?;
    command.get_subcommands().filter(|command| is_shown(command)).try_for_each(|command| {
        let path = format!("{path} {}", command.get_name());
        write_pages(command, path.trim_start(), directory)
    })
}

/// Returns whether a command has a page. The pages themselves are the help.
fn is_shown(command: &Command) -> bool {
    !command.is_hide_set() && command.get_name() != "help"
}

/// The files that commands use.
const FILES: [(&str, &str); 6] = [
    ("./config.toml", "the configuration, if --config names no other"),
    ("/etc/wayleave/config.toml", "the configuration of the service"),
    ("wayleave-state/", "state.dir: everything that is kept; for the service /var/lib/wayleave"),
    ("wayleave-state/ca/ca.crt", "the certificate that clients trust; the key beside it is secret"),
    (
        "wayleave-state/decisions.jsonl",
        "log.decisions: the decision log, and rotated files beside it",
    ),
    ("wayleave-state/evidence.key", "the key that signs the decision log"),
];

/// The commands that use none of them.
const WITHOUT_FILES: [&str; 3] = ["evidence verify", "completions", "man"];

fn further_sections(command: &Command, path: &str) -> Roff {
    let mut roff = Roff::new();
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (notes, status) = help.split_once("Exit status: ").unwrap_or((&help, ""));
    // The examples come first in the help, and have a section of their own here.
    let notes = match help::examples(path) {
        Some(_) => notes.split_once("\n\n").map_or("", |(_, notes)| notes),
        None => notes,
    };
    for note in notes.lines().filter(|line| !line.is_empty()) {
        roff.control("PP", []).text([roman(note)]);
    }
    if let Some(examples) = help::examples(path) {
        roff.control("SH", ["EXAMPLES"]);
        roff.control("nf", []);
        for line in examples.lines() {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
    }
    let status =
        if status.is_empty() { "0 success, 1 failed at run time, 2 usage" } else { status };
    roff.control("SH", ["EXIT STATUS"]).text([roman(status)]);
    if !WITHOUT_FILES.contains(&path) {
        roff.control("SH", ["FILES"]);
        for (file, meaning) in FILES {
            roff.control("TP", []).text([bold(file)]).text([roman(meaning)]);
        }
    }
    roff
}
