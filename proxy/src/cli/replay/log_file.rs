//! The decision log that a replay reads.

use std::path::PathBuf;

use anyhow::Context;
use wayleave_config::Config;
use wayleave_evidence::files::rotated_files;

/// Returns the path of the decision log.
///
/// # Errors
///
/// Returns an error if there is none.
pub(super) fn log_path(from: &Config) -> anyhow::Result<PathBuf> {
    let log =
        from.log.decisions.as_ref().context("log.decisions is empty: there is no decision log")?;
    let path = log.path.display();
    let rotated = rotated_files(&log.path).with_context(|| format!("the files of {path}"))?;
    anyhow::ensure!(
        log.path.exists() || !rotated.is_empty(),
        "there is no decision log {path}; --from names the configuration of another"
    );
    Ok(log.path.clone())
}

/// Checks that all lines could be read.
///
/// # Errors
///
/// Returns how many could not.
pub(super) fn check_damage(lines: u64) -> anyhow::Result<()> {
    anyhow::ensure!(lines == 0, "the result is not complete: lines that cannot be read: {lines}");
    Ok(())
}
