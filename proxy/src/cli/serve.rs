//! `wayleave serve`: runs the proxy.

use std::path::Path;
use std::process::ExitCode;

use super::config_file::load_config;
use super::terminal::{CommandResult, failed};
use crate::server;

pub(super) fn run(file: Option<&Path>) -> CommandResult {
    let (config, sources) = load_config(file)?;
    match server::run(&config, sources) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(failed(&error)),
    }
}
