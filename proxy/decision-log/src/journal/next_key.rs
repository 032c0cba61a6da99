//! Replaces the key that signs the log by the next one, which an operator has put next to it.
//!
//! The old key signs the new one, and all later heads repeat that. A process that is killed meanwhile leaves both keys, so that the
//! next one can go on.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use wayleave_evidence::HeadFiles;
use wayleave_evidence::chain::hand_over_head;
use wayleave_evidence::holds::HoldFolder;
use wayleave_signing::SigningKey;

use super::JournalConfig;

/// Returns the file of the next key.
pub fn next_key_path(key: &Path) -> PathBuf {
    let mut name = key.as_os_str().to_owned();
    name.push(".next");
    name.into()
}

/// Hands the log over to the next key, if there is one. Nobody may be writing the log.
///
/// # Errors
///
/// Returns an error if that fails. The log still has its old key then.
pub fn take_next_key(config: &JournalConfig) -> anyhow::Result<()> {
    let path = next_key_path(&config.key);
    if !path.exists() {
        return Ok(());
    }
    let next = SigningKey::read(&path).context("the next evidence.key")?;
    let mut heads = HeadFiles::for_log(&config.path, &config.state_dir);
    let is_handed_over = heads.newest_signed_by(&next.public_base64()).is_some();
    if config.key.exists() && !is_handed_over {
        let key = SigningKey::read(&config.key).context("evidence.key")?;
        let public = key.public_base64();
        HoldFolder::in_state_dir(&config.state_dir).hand_over(&public, next.pair())?;
        if let Some(line) = heads.newest_signed_by(&public) {
            let line = hand_over_head(&line, key.pair(), next.pair());
            let line =
                line.context("the log's head names no log: start without the next key first")?;
            let failures = heads.save(&line);
            ensure!(failures.is_empty(), "the log's head cannot be written: {failures:?}");
        }
    }
    fs::rename(&path, &config.key).with_context(|| format!("renaming {}", path.display()))?;
    tracing::info!(
        key = next.public_base64(),
        "the decision log has a new key, which the old one signed"
    );
    Ok(())
}
