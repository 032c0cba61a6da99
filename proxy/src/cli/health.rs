//! `wayleave health`: checks whether the proxy on this machine is ready, for containers without another HTTP client.

use std::path::Path;
use std::process::ExitCode;

use super::admin_client::readiness;
use super::config_file::load_config;
use super::terminal::{print, print_errors};

pub(super) fn run(file: Option<&Path>) -> ExitCode {
    let config = match load_config(file) {
        Ok((config, _)) => config,
        Err(status) => return status,
    };
    match readiness(config.admin.listen) {
        Ok(text) => print(&text),
        Err(error) => {
            print_errors(&format!("wayleave: {error:#}\n"));
            ExitCode::FAILURE
        }
    }
}
