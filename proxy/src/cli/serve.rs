//! `wayleave serve`: runs the proxy.

use std::path::Path;
use std::process::ExitCode;

use super::config_file::load_config;
use super::replay;
use super::terminal::{CommandResult, failed};
use crate::admin::ReplayEngine;
use crate::server;

pub(super) fn run(file: Option<&Path>) -> CommandResult {
    let (config, file) = load_config(file)?;
    let state_dir = config.state.dir.clone();
    let replay = ReplayEngine::new(move |request| replay::for_operators(&state_dir, request));
    match server::run(&config, file, replay) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(failed(&error)),
    }
}
