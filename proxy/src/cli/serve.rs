//! `wayleave serve`: the proxy itself.

use std::path::Path;
use std::process::ExitCode;

use super::source::load_config;
use super::terminal::complain;
use crate::server;

pub(super) fn run(file: Option<&Path>) -> ExitCode {
    let config = match load_config(file) {
        Ok((config, _)) => config,
        Err(status) => return status,
    };
    match server::run(&config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("wayleave: {error:#}\n"));
            ExitCode::FAILURE
        }
    }
}
