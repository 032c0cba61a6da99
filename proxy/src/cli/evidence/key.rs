//! `wayleave evidence key`: the public half of the key that signs the decision log.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use wayleave_signing::SigningKey;

use crate::cli::config_file::{EVIDENCE_KEYS, load_keys};
use crate::cli::terminal::{pretty_json, print, unusable};

#[derive(Debug, Args)]
#[command(after_help = "Give it to those who verify your evidence (evidence verify --key). \
                        The admin listener publishes it, too: GET /v1/evidence.")]
pub(crate) struct KeyArgs {
    /// Print it as a JSON Web Key
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &KeyArgs, file: Option<&Path>) -> ExitCode {
    let config = match load_keys(file, &EVIDENCE_KEYS) {
        Ok((config, _)) => config,
        Err(status) => return status,
    };
    let Some(log) = &config.log.decisions else {
        return unusable("log.decisions is empty: there is no decision log, and nothing is signed");
    };
    match SigningKey::read(&log.key) {
        Ok(key) if arguments.json => print(&pretty_json(&key.jwk())),
        Ok(key) => print(&format!("{}\n", key.public_base64())),
        Err(error) => unusable(&format!(
            "{error:#} (it is created when the proxy first writes a decision log)"
        )),
    }
}
