//! The output of commands: results, errors, and the exit status for each.

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use wayleave_notation::harmless::{escape_json, escape_lines};

use super::paint::Tone;

/// The exit status of a command. An error has been printed where it occurred, so its status is all that is left of it.
pub(super) type CommandResult = Result<ExitCode, ExitCode>;

/// The exit status for input that cannot be used.
pub(super) const UNUSABLE: u8 = 2;
/// The exit status if some of the sources could not be looked at.
pub(super) const INCOMPLETE: u8 = 3;

/// Returns the absolute path, or the path as it is if the working directory is unknown.
pub(super) fn absolute_path(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns a number with the noun that it counts: "1 file", "2 files".
pub(super) fn counted<N: Copy + Display + From<u8> + PartialEq>(count: N, noun: &str) -> String {
    let plural = if count == N::from(1) { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Prints a result unchanged and returns the exit status. A reader that closes the pipe (`| head`) is not an error.
pub(super) fn print(text: &str) -> ExitCode {
    write(io::stdout().lock(), text)
}

/// Prints a result with [tones](Tone), which are removed unless standard output is a terminal.
pub(super) fn print_painted(text: &str) -> ExitCode {
    write(anstream::stdout().lock(), text)
}

/// Prints a part of a result like [`print_painted`].
///
/// # Errors
///
/// Returns the exit status if the rest cannot be printed, which is a success if nobody reads it.
pub(super) fn print_part(text: &str) -> Result<(), ExitCode> {
    try_write(anstream::stdout().lock(), text)
}

fn write(stdout: impl Write, text: &str) -> ExitCode {
    try_write(stdout, text).err().unwrap_or(ExitCode::SUCCESS)
}

fn try_write(mut stdout: impl Write, text: &str) -> Result<(), ExitCode> {
    // Flushed here, where an error can still be reported.
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| {
        match error.kind() {
            ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            _ => unusable(&format!("cannot write to standard output: {error}")),
        }
    })
}

/// Returns the heads of a table's columns, as a line, if standard output is a terminal: programs that read a list want its rows.
pub(super) fn table_heads(heads: &str) -> String {
    if io::stdout().is_terminal() { Tone::Heading.paint(heads) + "\n" } else { String::new() }
}

/// Formats `value` as indented JSON, without control characters that a terminal would interpret.
pub(super) fn pretty_json(value: &impl Serialize) -> String {
    let json = serde_json::to_vec_pretty(value).expect("strings and numbers serialise");
    let json = String::from_utf8(escape_json(json)).expect("JSON is UTF-8");
    json + "\n"
}

/// Formats `value` as JSON in one line, without control characters that a terminal would interpret.
pub(super) fn json_line(value: &impl Serialize) -> String {
    let json = serde_json::to_vec(value).expect("strings and numbers serialise");
    String::from_utf8(escape_json(json)).expect("JSON is UTF-8")
}

/// Prints why the command cannot be run, and returns the exit status.
pub(super) fn unusable(message: &str) -> ExitCode {
    print_errors(&format!("wayleave: {message}\n"));
    ExitCode::from(UNUSABLE)
}

/// Prints the sources that could not be looked at, and returns the exit status.
pub(super) fn incomplete(missing: &[String]) -> ExitCode {
    print_errors(&format!("wayleave: the answer is not complete: {}\n", missing.join("; ")));
    ExitCode::from(INCOMPLETE)
}

/// Prints why the command failed at run time, and returns the exit status.
pub(super) fn failed(error: &anyhow::Error) -> ExitCode {
    print_errors(&format!("wayleave: {error:#}\n"));
    ExitCode::FAILURE
}

/// Prints lines to standard error. They may contain untrusted text.
pub(super) fn print_errors(lines: &str) {
    let lines = escape_lines(lines);
    let painted: String = lines.split_inclusive('\n').map(paint_prefix).collect();
    // If standard error is closed, the exit status is all that is left.
    let _ = anstream::stderr().write_all(painted.as_bytes());
}

/// Colours the prefix of an error or a warning.
fn paint_prefix(line: &str) -> String {
    for (start, tone) in [("wayleave: warning:", Tone::Doubtful), ("wayleave:", Tone::Bad)] {
        if let Some(rest) = line.strip_prefix(start) {
            return tone.paint(start) + rest;
        }
    }
    line.to_owned()
}
