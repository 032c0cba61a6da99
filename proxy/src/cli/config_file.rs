//! Finds and loads the configuration file for a command.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use toml::{Table, Value};
use wayleave_config::{Config, ConfigMistake, ConfigSources, parent_dir};

use super::terminal::{UNUSABLE, counted, print_errors};

/// The file that is used without `--config`, if it exists in the working directory.
const DEFAULT_CONFIG_FILE: &str = "config.toml";

/// Returns the configuration, and its files as they were read. Without a file these are the defaults, with paths below the
/// working directory.
///
/// # Errors
///
/// Prints every mistake, one a line, and returns the exit status.
pub(super) fn load_config(
    file: Option<&Path>,
) -> Result<(Config, Option<ConfigSources>), ExitCode> {
    let Some(sources) = found_file(file).map(ConfigSources::read) else {
        return Ok((Config::built_in(), None));
    };
    match Config::load_sources(&sources) {
        Ok(config) => Ok((config, Some(sources))),
        Err(mistakes) => Err(print_mistakes(&mistakes)),
    }
}

/// The keys of the decision log, of the files that its lines rest on, and of the proxy that has these open.
pub(super) const EVIDENCE_KEYS: [&str; 4] =
    ["state.dir", "log.decisions", "evidence.key", "admin.listen"];

/// Loads the configuration for a command that needs no more of it than `keys`. As a proxy goes on with an earlier version of the
/// file, so does the command in spite of mistakes elsewhere: they are a warning, of one line.
///
/// # Errors
///
/// As [`load_config`], if a mistake may concern one of these keys.
pub(super) fn load_keys<'f>(
    file: Option<&'f Path>,
    keys: &[&str],
) -> Result<(Config, Option<&'f Path>), ExitCode> {
    let Some(file) = found_file(file) else {
        return Ok((Config::built_in(), None));
    };
    let (config, mistakes) =
        Config::load_with_mistakes(file).map_err(|mistake| print_mistakes(&[mistake]))?;
    let name = file.display().to_string();
    // Included files have crawlers and rules only.
    let mut in_main = mistakes.iter().filter(|mistake| mistake.file() == name);
    if in_main.any(|mistake| keys.iter().any(|key| mistake.may_concern(key))) {
        return Err(print_mistakes(&mistakes));
    }
    if let [first, others @ ..] = &mistakes[..] {
        let more = match others.len() {
            0 => String::new(),
            count => format!(" (and {} in the file)", counted(count, "more mistake")),
        };
        print_errors(&format!("wayleave: warning: this does not matter here: {first}{more}\n"));
    }
    Ok((config, Some(file)))
}

/// Returns the file that is used: the one of `--config`, or the one in the working directory.
pub(super) fn found_file(file: Option<&Path>) -> Option<&Path> {
    let default = Path::new(DEFAULT_CONFIG_FILE);
    // If it is unknown whether the file exists, loading it fails: better than to ignore a file that may well exist.
    let is_there = || !matches!(default.try_exists(), Ok(false));
    file.or_else(|| is_there().then_some(default))
}

/// Prints every mistake, one a line, and returns the exit status.
pub(super) fn print_mistakes(mistakes: &[ConfigMistake]) -> ExitCode {
    let lines: String = mistakes.iter().map(|mistake| mistake.to_string() + "\n").collect();
    print_errors(&lines);
    ExitCode::from(UNUSABLE)
}

/// Returns the directory of the configuration file without loading it, because files that it names may not exist yet.
///
/// # Errors
///
/// Returns an error if `file` cannot be found.
pub(super) fn config_dir(file: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(file) = file {
        fs::metadata(file).with_context(|| format!("reading {}", file.display()))?;
    }
    Ok(parent_dir(file.unwrap_or(Path::new(DEFAULT_CONFIG_FILE))))
}

/// Sets `section.key` of a configuration.
pub(super) fn set_key(table: &mut Table, section: &str, key: &str, value: impl Into<Value>) {
    let section = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
    if let Some(section) = section.as_table_mut() {
        section.insert(key.to_owned(), value.into());
    }
}
