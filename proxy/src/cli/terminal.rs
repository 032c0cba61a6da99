//! What a command says, where, and the exit status that goes with it.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The exit status for input that cannot be used.
pub(super) const UNUSABLE: u8 = 2;

/// The path from the root, if the working directory can be known.
pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Prints a result and returns the exit status. A reader who has seen enough (`| head`) is no failure.
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

/// What somebody else wrote, without what a terminal would obey.
pub(super) fn harmless(text: &str) -> String {
    let escape = |c: char| {
        let reorders = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        let is_control = reorders || (c.is_control() && c != '\t');
        let kept = (!is_control).then_some(c);
        let escaped = is_control.then(|| c.escape_default());
        kept.into_iter().chain(escaped.into_iter().flatten())
    };
    text.chars().flat_map(escape).collect()
}

/// Says why the command cannot be done and returns the exit status.
pub(super) fn unusable(message: &str) -> ExitCode {
    complain(&format!("wayleave: {message}\n"));
    ExitCode::from(UNUSABLE)
}

pub(super) fn complain(lines: &str) {
    // Without standard error there is nobody left to tell; the exit status remains.
    let _ = io::stderr().write_all(lines.as_bytes());
}
