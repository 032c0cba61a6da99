//! `wayleave health`: checks whether the proxy on this machine is ready, for containers without another HTTP client.

use std::path::Path;

use super::admin_client::readiness;
use super::config_file::load_keys;
use super::terminal::{CommandResult, failed, print};

pub(super) fn run(file: Option<&Path>) -> CommandResult {
    let (config, read_from) = load_keys(file, &["admin.listen"])?;
    readiness(config.admin.listen).map(|text| print(&text)).map_err(|error| {
        // Then another port may be meant than the default one that was asked.
        let error = match read_from {
            None => error.context("no config.toml here, and no --config"),
            Some(_) => error,
        };
        failed(&error)
    })
}
