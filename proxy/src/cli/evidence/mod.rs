//! `wayleave evidence`: shows any decision, years later, to anyone.

mod key;

use std::path::Path;
use std::process::ExitCode;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print the public half of the key that signs the decision log
    Key(key::Arguments),
}

pub(super) fn run(command: &Command, file: Option<&Path>) -> ExitCode {
    match command {
        Command::Key(arguments) => key::run(arguments, file),
    }
}
