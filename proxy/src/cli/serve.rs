//! `wayleave serve`: runs the proxy.

use std::path::Path;
use std::process::ExitCode;

use super::config_file::load_config;
use super::terminal::print_errors;
use crate::server;

pub(super) fn run(file: Option<&Path>) -> ExitCode {
    let (config, file) = match load_config(file) {
        Ok(loaded) => loaded,
        Err(status) => return status,
    };
    match server::run(&config, file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_errors(&format!("wayleave: {error:#}\n"));
            ExitCode::FAILURE
        }
    }
}
