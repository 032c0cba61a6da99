//! `wayleave evidence`: shows any decision, years later, to anyone. The log, exports and checks are in `wayleave-evidence`.
//!
//! ```text
//!  export       writes decisions with everything they rest on
//!    └─ sources   the documents and configurations that are still stored
//!  verify       checks an export, and derives its decisions again
//!  ask          looks up the decision about a URL at a time
//!    └─ ask_nodes   of several running proxies
//!         └─ node_logs  the logs that they should have
//!  hold         keeps decisions, and the files that they rest on, beyond every retention
//!  key          prints the public key
//!  rotate_key   creates the next one
//! ```

mod ask;
mod ask_nodes;
mod export;
mod hold;
mod key;
pub(super) mod node_logs;
pub(super) mod node_url;
mod rotate_key;
pub(super) mod sources;
mod verify;

use std::path::Path;
use std::process::ExitCode;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(super) enum EvidenceCommand {
    /// Write decisions, and everything they are based on, to a folder or a WARC file
    Export(export::ExportArgs),
    /// Check an export, and derive its decisions again
    Verify(verify::VerifyArgs),
    /// Show whether a URL was allowed at a given time, by which rule, and whether it was fetched
    Ask(ask::AskArgs),
    /// Keep decisions, and everything they are based on, beyond every retention
    #[command(subcommand)]
    Hold(hold::HoldCommand),
    /// Print the public half of the key that signs the decision log
    Key(key::KeyArgs),
    /// Create the next key to sign the decision log with; the proxy changes to it when it is started again
    ///
    /// Do this when somebody who could read evidence.key leaves, or as often as your policy says. The next start hands the log
    /// over: the old key signs the new one, and is deleted. So the log is not interrupted, and exports verify with either key.
    ///
    /// If a stranger may have read the key, export the log first (`wayleave evidence export`): with the old key, the stranger can
    /// hand the log over, too. Never replace evidence.key by hand: the log is then reported as altered.
    RotateKey,
}

pub(super) fn run(command: &EvidenceCommand, file: Option<&Path>) -> ExitCode {
    match command {
        EvidenceCommand::Export(arguments) => export::run(arguments, file),
        EvidenceCommand::Verify(arguments) => verify::run(arguments),
        EvidenceCommand::Ask(arguments) if !arguments.nodes.is_empty() => ask_nodes::run(arguments),
        EvidenceCommand::Ask(arguments) => ask::run(arguments, file),
        EvidenceCommand::Hold(command) => hold::run(command, file),
        EvidenceCommand::Key(arguments) => key::run(arguments, file),
        EvidenceCommand::RotateKey => rotate_key::run(file),
    }
}
