//! `wayleave health`: checks whether the proxy on this machine is ready, for containers without another HTTP client.

use std::path::Path;

use super::admin_client::readiness;
use super::config_file::load_config;
use super::terminal::{CommandResult, failed, print};

pub(super) fn run(file: Option<&Path>) -> CommandResult {
    let (config, _) = load_config(file)?;
    match readiness(config.admin.listen) {
        Ok(text) => Ok(print(&text)),
        Err(error) => Err(failed(&error)),
    }
}
