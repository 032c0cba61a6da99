//! Output of commands: results, complaints, and the exit status that goes with each.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use crate::observe::harmless::{harmless_json, harmless_lines};

/// The exit status for input that cannot be used.
pub(super) const UNUSABLE: u8 = 2;

/// The path from the root, if the working directory can be known.
pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Prints a result and returns the exit status. A reader who has seen enough (`| head`) is not a failure.
pub(super) fn print(text: &str) -> ExitCode {
    let mut stdout = io::stdout().lock();
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
    // Without standard error there is nobody left to tell; the exit status remains.
    let _ = io::stderr().write_all(harmless_lines(lines).as_bytes());
}
