//! Finds and loads the configuration that a command works with.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

use super::terminal::{UNUSABLE, complain};
use crate::config::{Config, Mistake, dir_of};

/// Used without `--config`, if there is one in the working directory.
const CONFIG_FILE: &str = "config.toml";

/// The configuration to use (without a file, the defaults, below the current directory), and the file that it came from, if any.
///
/// Prints what is wrong with it, one line for each mistake, and returns the exit status if it cannot be used.
pub(super) fn load_config(file: Option<&Path>) -> Result<(Config, Option<&Path>), ExitCode> {
    let default = Path::new(CONFIG_FILE);
    // A file that is there but cannot be looked at is not passed over.
    let is_there = || !matches!(default.try_exists(), Ok(false));
    let Some(file) = file.or_else(|| is_there().then_some(default)) else {
        return Ok((Config::built_in(), None));
    };
    match Config::load(file) {
        Ok(config) => Ok((config, Some(file))),
        Err(mistakes) => {
            let lines: String = mistakes.iter().map(line).collect();
            complain(&lines);
            Err(ExitCode::from(UNUSABLE))
        }
    }
}

/// The folder of the configuration to use, which may still lack what it names there.
///
/// # Errors
///
/// If there is no such file.
pub(super) fn config_dir(file: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(file) = file {
        fs::metadata(file).with_context(|| format!("reading {}", file.display()))?;
    }
    Ok(dir_of(file.unwrap_or(Path::new(CONFIG_FILE))))
}

fn line(mistake: &Mistake) -> String {
    format!("{mistake}\n")
}
