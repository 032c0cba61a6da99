//! `wayleave config`: the configuration file, without running anything.

use std::path::Path;
use std::process::ExitCode;

use clap::Subcommand;

use super::source::load_config;
use super::terminal::print;
use crate::config::DEFAULT_FILE;

#[derive(Debug, Clone, Copy, Subcommand)]
pub(super) enum Command {
    /// Report every mistake in the file, or print what would be used
    Check,
    /// Print the commented default file
    Default,
}

pub(super) fn run(command: Command, file: Option<&Path>) -> ExitCode {
    match command {
        Command::Check => check(file),
        Command::Default => print(DEFAULT_FILE),
    }
}

fn check(file: Option<&Path>) -> ExitCode {
    match load_config(file) {
        Ok((config, Some(file))) => print(&format!("# from {}\n{config}", file.display())),
        Ok((config, None)) => print(&format!("# built-in defaults\n{config}")),
        Err(status) => status,
    }
}
