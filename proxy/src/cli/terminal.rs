//! Output of commands: results, complaints, and the exit status that goes with each.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use super::paint::Tone;
use crate::observe::harmless::{harmless_json, harmless_lines};

/// The exit status for input that cannot be used.
pub(super) const UNUSABLE: u8 = 2;

/// The path from the root, if the working directory can be known.
pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Prints a result as it is and returns the exit status. A reader who has seen enough (`| head`) is not a failure.
pub(super) fn print(text: &str) -> ExitCode {
    write(io::stdout().lock(), text)
}

/// The same for a text with [tones](Tone), which only a terminal gets to see.
pub(super) fn print_painted(text: &str) -> ExitCode {
    write(anstream::stdout().lock(), text)
}

fn write(mut stdout: impl Write, text: &str) -> ExitCode {
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            unusable(&format!("cannot write to standard output: {error}"))
        }
        _ => ExitCode::SUCCESS,
    }
}

/// `value` as JSON that people can read, in which a terminal finds nothing to obey.
pub(super) fn pretty(value: &impl Serialize) -> String {
    let json = serde_json::to_vec_pretty(value).expect("strings and numbers serialise");
    let json = String::from_utf8(harmless_json(json)).expect("JSON is UTF-8");
    json + "\n"
}

/// `value` as JSON in one line, in which a terminal finds nothing to obey.
pub(super) fn json_line(value: &impl Serialize) -> String {
    let json = serde_json::to_vec(value).expect("strings and numbers serialise");
    String::from_utf8(harmless_json(json)).expect("JSON is UTF-8")
}

/// Says why the command cannot be done and returns the exit status.
pub(super) fn unusable(message: &str) -> ExitCode {
    complain(&format!("wayleave: {message}\n"));
    ExitCode::from(UNUSABLE)
}

/// Writes lines to standard error; what strangers wrote may be in them.
pub(super) fn complain(lines: &str) {
    let lines = harmless_lines(lines);
    let painted: String = lines.split_inclusive('\n').map(painted).collect();
    // Without standard error there is nobody left to tell; the exit status remains.
    let _ = anstream::stderr().write_all(painted.as_bytes());
}

/// A complaint, its beginning in the tone that is due to it.
fn painted(line: &str) -> String {
    for (start, tone) in [
        ("wayleave: warning:", Tone::Doubtful),
        ("wayleave:", Tone::Bad),
    ] {
        if let Some(rest) = line.strip_prefix(start) {
            return tone.paint(start) + rest;
        }
    }
    line.to_owned()
}
