//! The configuration: reads a TOML file into a checked [`Config`], or reports every mistake in it.
//!
//! Each section has a file that declares its keys, one line each: name, default, check, and `fixed` if a change needs a
//! restart or `secret` if the value must not be shown. Values go straight into the settings of the modules that use them.
//! Everything else is derived from these lines: the set of known keys, `wayleave config check`, the admin page, and the
//! keys that a reload cannot change. No other code ever sees an unchecked value.
//!
//! ```text
//! proxy admin state store https upstream robots crawlers signing rules preferences politeness evidence log traces
//!                      file        tables, values, mistakes
//! ```

mod admin;
mod crawlers;
mod evidence;
mod file;
mod https;
mod log;
mod politeness;
mod preferences;
mod proxy;
mod robots;
mod rules;
mod signing;
mod state;
mod store;
#[cfg(test)]
mod tests;
mod traces;
mod upstream;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use self::file::Mistake;
use self::file::{Keys, Reader, Section, fixed};
pub(crate) use self::log::Log;
pub(crate) use self::signing::KEYS_DIR;
pub(crate) use self::store::Store;
pub(crate) use self::upstream::Upstream;
use crate::decide::settings::Preferences;
use crate::identity;
use crate::robots::StoreOptions;
use crate::rules::Rule;

/// The shipped `config.toml`: every key with its default and its unit. Reading it gives `Config::default()`.
pub const DEFAULT_FILE: &str = include_str!("../../../config.toml");

/// The whole configuration, checked and ready for use.
///
/// Relative paths are already joined to the directory of the file. `Display` writes a file with every key that this
/// version knows; reading that file gives an equal configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `[proxy]`: the listeners for clients.
    pub(crate) proxy: proxy::Proxy,
    /// `[admin]`: the listener for operators.
    pub(crate) admin: admin::Admin,
    /// `[https]`: interception.
    pub(crate) https: https::Https,
    /// `[upstream]` and `[dns]`: connections to origin servers.
    pub(crate) upstream: Upstream,
    /// `[robots]`: fetching and caching robots.txt.
    pub(crate) robots: robots::Robots,
    /// `[state]`: the files that outlive the process.
    pub(crate) state: state::State,
    /// `[store]`: the engine that shares cache entries and slots among nodes.
    pub(crate) fleet: Store,
    /// The limits of the store of robots.txt entries on disk: `state.max_size`, and its share of `robots.memory`.
    pub(crate) store: StoreOptions,
    /// `[[crawler]]`, in the order of the file, and what `[proxy]` sets for requests that match none.
    pub(crate) crawlers: identity::Options,
    /// `[signing]`.
    pub(crate) signing: signing::Signing,
    /// `[[rule]]`, in the order of the file; the first that matches a request is used.
    pub(crate) rules: Vec<Rule>,
    /// `[preferences]`.
    pub(crate) preferences: Preferences,
    /// `[politeness]`.
    pub(crate) politeness: crate::politeness::Options,
    /// `[log]`.
    pub(crate) log: Log,
    /// `[evidence]`: the file of the key that the decision log is signed with.
    pub(crate) evidence_key: PathBuf,
    /// `[traces]`.
    pub(crate) traces: crate::observe::traces::Options,
    keys: Keys,
}

/// The directories that relative paths are resolved against.
#[derive(Clone, Copy)]
struct Dirs<'a> {
    /// The directory of the file.
    file: &'a Path,
    /// The configuration that the process started with, on a reload. State on disk stays where it is, even if the file now
    /// names another directory.
    started_with: Option<&'a Config>,
}

impl<'a> Dirs<'a> {
    fn of(file: &'a Path) -> Self {
        Self {
            file,
            started_with: None,
        }
    }
}

/// Returns the directory that relative paths in a file are resolved against.
pub(crate) fn dir_of(file: &Path) -> PathBuf {
    let whole = std::path::absolute(file);
    let dir = whole.as_deref().unwrap_or(file).parent();
    dir.unwrap_or(Path::new("")).to_owned()
}

fn config(root: &mut Section<'_>, dirs: Dirs<'_>) -> Config {
    let dir = dirs.file;
    let proxy = root.section("proxy", |section| proxy::proxy(section, dir));
    let admin = root.section(fixed("admin"), |section| {
        admin::admin(section, &proxy.listen)
    });
    let state = root.section("state", |section| state::state(section, dir));
    let fleet = root.section(fixed("store"), |section| store::store(section, dir));
    let started_with = dirs.started_with;
    let state_dir = &started_with.map_or(&state, |config| &config.state).dir;
    let state_dir = state_dir.clone();
    let state_dir = &*state_dir;
    let https = root.section("https", |section| https::https(section, state_dir));
    let upstream = upstream::upstream(root, dir, &proxy.listen);
    let robots = root.section("robots", robots::robots);
    let crawlers = crawlers::crawlers(root, proxy.others, robots.dialect, dir);
    let signing = root.section("signing", |section| {
        signing::signing(section, dir, &crawlers.crawlers)
    });
    let evidence_key = root.section("evidence", |section| evidence::key(section, state_dir));
    let evidence_key = started_with.map_or(evidence_key, |config| config.evidence_key.clone());
    Config {
        rules: rules::rules(root, &crawlers.crawlers),
        preferences: root.section("preferences", preferences::preferences),
        politeness: root.section("politeness", politeness::politeness),
        log: root.section("log", |section| {
            log::log(section, state_dir, evidence_key.clone())
        }),
        evidence_key,
        traces: root.section(fixed("traces"), traces::traces),
        store: StoreOptions {
            max_size: state.max_size,
            memory: robots.store_memory,
            ..StoreOptions::default()
        },
        fleet,
        proxy,
        admin,
        https,
        upstream,
        robots,
        state,
        signing,
        crawlers,
        keys: Keys::default(),
    }
}

impl Config {
    /// Reads and checks a configuration file. Relative paths in it are relative to its own directory, not to the working
    /// directory.
    ///
    /// # Errors
    ///
    /// Every mistake in it, in the order of lines; or a single one if the file cannot be read.
    pub fn load(path: &Path) -> Result<Self, Vec<Mistake>> {
        Self::from_file(path, fs::read(path))
    }

    /// Checks the content `read` from the file at `path`.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    pub(crate) fn from_file(path: &Path, read: io::Result<Vec<u8>>) -> Result<Self, Vec<Mistake>> {
        Self::in_file(path, read, None)
    }

    /// Checks the content for a running process, which `started_with` another configuration: its state on disk stays where it
    /// is.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    pub(crate) fn again(
        path: &Path,
        read: io::Result<Vec<u8>>,
        started_with: &Self,
    ) -> Result<Self, Vec<Mistake>> {
        Self::in_file(path, read, Some(started_with))
    }

    fn in_file(
        path: &Path,
        read: io::Result<Vec<u8>>,
        started_with: Option<&Self>,
    ) -> Result<Self, Vec<Mistake>> {
        let name = path.display().to_string();
        let bytes = read
            .map_err(|error| vec![Mistake::of_file(&name, format!("cannot be read: {error}"))])?;
        match String::from_utf8(bytes) {
            Ok(text) => {
                let dirs = Dirs {
                    file: &dir_of(path),
                    started_with,
                };
                Self::from_toml_in(dirs, &name, &text)
            }
            Err(error) => {
                let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                let line = 1 + valid.iter().filter(|&&byte| byte == b'\n').count();
                Err(vec![Mistake::of_line(&name, line, "", "is not UTF-8")])
            }
        }
    }

    /// Checks the text of a configuration; mistakes give `name` as the file.
    ///
    /// The files named by `upstream.extra_roots` are read.
    ///
    /// # Errors
    ///
    /// Every mistake, in the order of lines.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, Vec<Mistake>> {
        Self::from_toml_in(Dirs::of(Path::new("")), name, text)
    }

    /// Returns the configuration that applies without a file: the defaults, with paths below the working directory.
    pub fn built_in() -> Self {
        let here = std::env::current_dir().unwrap_or_default();
        Self::from_toml_in(Dirs::of(&here), "", "").unwrap_or_default()
    }

    fn from_toml_in(dirs: Dirs<'_>, name: &str, text: &str) -> Result<Self, Vec<Mistake>> {
        let (mut config, keys) = Reader::new(name, text).read(|root| config(root, dirs))?;
        config.keys = keys;
        Ok(config)
    }

    /// Returns the other files to watch for changes: programs that renew certificates do not know to trigger a reload.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let entrance = self.proxy.entrance.as_ref();
        entrance.map_or_else(Vec::new, |entrance| entrance.files())
    }

    /// Returns the configuration as TOML, without secrets. Keys that need a restart have the values that the process
    /// `started_with`.
    pub(crate) fn in_use(&self, started_with: &Self) -> String {
        self.keys.held(&started_with.keys).to_string()
    }

    /// Returns the keys, or sections such as `[admin]`, that need a restart because the process `started_with` other values.
    pub(crate) fn needs_restart(&self, started_with: &Self) -> Vec<String> {
        self.keys.need_restart(&started_with.keys)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::from_toml("", "").expect("nothing is wrong with what is not there")
    }
}

/// Leaves secrets out.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.keys.fmt(f)
    }
}
