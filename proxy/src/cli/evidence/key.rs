//! `wayleave evidence key`: the public half of the key that signs the decision log.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;

use crate::cli::source::load_config;
use crate::cli::terminal::{pretty, print, unusable};
use crate::signing::Key;

#[derive(Debug, Args)]
#[command(
    after_help = "Give it to whoever is to check your evidence (evidence verify --key). \
                        GET /v1/evidence of the admin listener publishes it, too."
)]
pub(crate) struct Arguments {
    /// Print it as a JSON Web Key
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, file: Option<&Path>) -> ExitCode {
    let config = match load_config(file) {
        Ok((config, _)) => config,
        Err(status) => return status,
    };
    let Some(log) = &config.log.decisions else {
        return unusable("log.decisions is empty: there is no decision log, and nothing is signed");
    };
    match Key::read(&log.key) {
        Ok(key) if arguments.json => print(&pretty(&key.jwk())),
        Ok(key) => print(&format!("{}\n", key.public())),
        Err(error) => unusable(&format!(
            "{error:#} (it is made when the proxy first writes a decision log)"
        )),
    }
}
