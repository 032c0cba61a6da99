//! `wayleave serve`: the proxy itself.

use std::path::Path;
use std::process::ExitCode;

use super::source::load_config;
use super::terminal::complain;
use crate::run::server;

pub(super) fn run(file: Option<&Path>) -> ExitCode {
    let (config, file) = match load_config(file) {
        Ok(loaded) => loaded,
        Err(status) => return status,
    };
    match server::run(&config, file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("wayleave: {error:#}\n"));
            ExitCode::FAILURE
        }
    }
}
