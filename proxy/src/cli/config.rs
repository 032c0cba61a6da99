//! `wayleave config`: checks a configuration file, or prints the default one.

use std::path::Path;
use std::process::ExitCode;

use clap::Subcommand;

use super::expired;
use super::source::load_config;
use super::terminal::{complain, print};
use crate::clock::Clock;
use crate::config::{Config, DEFAULT_FILE};
use crate::run::wiring::UNCHECKED;
use crate::tls::intercept::exposed_key;

#[derive(Debug, Clone, Copy, Subcommand)]
pub(super) enum Command {
    /// Report every mistake in the file, or print the configuration in full
    Check,
    /// Print the default file, with comments
    Default,
}

pub(super) fn run(command: Command, file: Option<&Path>) -> ExitCode {
    match command {
        Command::Check => check(file),
        Command::Default => print(DEFAULT_FILE),
    }
}

fn check(file: Option<&Path>) -> ExitCode {
    let loaded = load_config(file);
    if let Ok((config, _)) = &loaded {
        warn_of_expired(config);
        if config.upstream.egress.parent.is_some() {
            complain(&format!("wayleave: warning: {UNCHECKED}\n"));
        }
        if let Some(exposed) = exposed_key(&config.https.ca_dir) {
            complain(&format!("wayleave: warning: {exposed}\n"));
        }
    }
    match loaded {
        Ok((config, Some(file))) => print(&format!("# from {}\n{config}", file.display())),
        Ok((config, None)) => print(&format!("# built-in defaults\n{config}")),
        Err(status) => status,
    }
}

/// Such a file can be used, and says what no longer holds.
fn warn_of_expired(config: &Config) {
    for rule in expired::rules(config, Clock::start().now()) {
        complain(&format!("wayleave: warning: {rule}\n"));
    }
}
