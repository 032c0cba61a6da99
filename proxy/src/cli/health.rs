//! `wayleave health`: checks whether the proxy on this machine is ready, for containers without another HTTP client.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use super::admin_client::readiness;
use super::config_file::{found_file, load_config};
use super::terminal::{CommandResult, failed, print};
use crate::config::Config;

pub(super) fn run(file: Option<&Path>) -> CommandResult {
    // A proxy with an earlier version of the file is healthy, whatever mistakes are in this one; they are printed.
    let address = match load_config(file) {
        Ok((config, _)) => config.admin.listen,
        Err(unusable) => found_file(file).and_then(named_address).ok_or(unusable)?,
    };
    readiness(address).map(|text| print(&text)).map_err(|error| {
        // Then another port may be meant than the default one that was asked.
        let error = match found_file(file) {
            None => error.context("no config.toml here, and no --config"),
            Some(_) => error,
        };
        failed(&error)
    })
}

/// Returns the address of the admin listener of a configuration with mistakes; `None` if they are in its syntax.
fn named_address(file: &Path) -> Option<SocketAddr> {
    let table: toml::Table = fs::read_to_string(file).ok()?.parse().ok()?;
    match table.get("admin").and_then(|admin| admin.get("listen")) {
        Some(listen) => listen.as_str()?.parse().ok(),
        None => Some(Config::built_in().admin.listen),
    }
}
