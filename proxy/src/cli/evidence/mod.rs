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
mod manifest;
mod select;
mod signed_log;
mod sources;
mod stand_ins;
mod verify;
mod warc;

use std::path::Path;
use std::process::ExitCode;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(super) enum EvidenceCommand {
    /// Write decisions with all they rest on into a folder or a WARC file
    Export(export::ExportArgs),
    /// Check an export, and derive its decisions again
    Verify(verify::VerifyArgs),
    /// Was a URL allowed at a time, by what, and was it fetched?
    Ask(ask::AskArgs),
    /// Print the public half of the key that signs the decision log
    Key(key::KeyArgs),
}

pub(super) fn run(command: &EvidenceCommand, file: Option<&Path>) -> ExitCode {
    match command {
        EvidenceCommand::Export(arguments) => export::run(arguments, file),
        EvidenceCommand::Verify(arguments) => verify::run(arguments),
        EvidenceCommand::Ask(arguments) => ask::run(arguments, file),
        EvidenceCommand::Key(arguments) => key::run(arguments, file),
    }
}
