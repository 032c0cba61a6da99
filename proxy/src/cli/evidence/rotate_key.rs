//! `wayleave evidence rotate-key`: creates the key that signs the decision log from the next start on.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use wayleave_config::Config;
use wayleave_decision_log::next_key_path;
use wayleave_signing::SigningKey;

use crate::cli::config_file::{EVIDENCE_KEYS, load_keys};
use crate::cli::terminal::{absolute_path, print, unusable};

pub(super) fn run(file: Option<&Path>) -> ExitCode {
    match load_keys(file, &EVIDENCE_KEYS) {
        Ok((config, _)) => match create_next(&config) {
            Ok(text) => print(&text),
            Err(error) => unusable(&format!("{error:#}")),
        },
        Err(status) => status,
    }
}

fn create_next(config: &Config) -> anyhow::Result<String> {
    let log = config.log.decisions.as_ref();
    let log =
        log.context("log.decisions is empty: there is no decision log, and nothing is signed")?;
    let key = log.key.display();
    ensure!(log.key.exists(), "there is no key {key} yet: the proxy creates one");
    let next = SigningKey::create(&next_key_path(&log.key))?;
    // Root creates it for a service with a user of its own, which could not start otherwise.
    let owner = fs::metadata(&log.key)?;
    chown(next.path(), Some(owner.uid()), Some(owner.gid()))
        .with_context(|| format!("giving {} to the owner of {key}", next.path().display()))?;
    Ok(format!(
        "{}\n\nThe key is in {}. The log is signed with it from the next start of the proxy on, which hands the log over to it,\n\
         and deletes the old one. Exports that are made after that verify with the new key, and with the old one.\n",
        next.public_base64(),
        absolute_path(next.path()).display()
    ))
}
