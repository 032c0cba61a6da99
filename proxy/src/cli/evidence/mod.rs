//! `wayleave evidence`: shows any decision, years later, to anyone.
//!
//! ```text
//!  export ─┬─ log, select      the lines of the log that are wanted
//!          ├─ standins         what stands for the others
//!          ├─ sources          the files that decisions rest on
//!          └─ bundle, manifest a folder or a WARC file (warc)
//!  verify                      checks such an export, and derives its decisions again
//!  ask                         what the log says of a URL at a time
//!  key                         who signs
//! ```

mod ask;
mod bundle;
mod exchange;
mod export;
mod key;
mod log;
mod manifest;
mod select;
mod sources;
mod standins;
mod verify;
mod warc;

use std::path::Path;
use std::process::ExitCode;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Write decisions with all they rest on into a folder or a WARC file
    Export(export::Arguments),
    /// Check an export, and derive its decisions again
    Verify(verify::Arguments),
    /// Was a URL allowed at a time, by what, and was it fetched?
    Ask(ask::Arguments),
    /// Print the public half of the key that signs the decision log
    Key(key::Arguments),
}

pub(super) fn run(command: &Command, file: Option<&Path>) -> ExitCode {
    match command {
        Command::Export(arguments) => export::run(arguments, file),
        Command::Verify(arguments) => verify::run(arguments),
        Command::Ask(arguments) => ask::run(arguments, file),
        Command::Key(arguments) => key::run(arguments, file),
    }
}
