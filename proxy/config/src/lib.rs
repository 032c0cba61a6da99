//! The configuration: reads a TOML file into a checked [`Config`], or reports every mistake in it. `config.toml` at the
//! repository's root has every key with its default and its unit; a new key belongs there, too.
//!
//! Each section has a file that declares its keys, one line each: name, default, check, and `fixed` if a change needs a
//! restart or `secret` if the value must not be shown. Values go straight into the settings of the modules that use them.
//! Everything else is derived from these lines: the set of known keys, `wayleave config show`, the admin page, and the
//! keys that a reload cannot change. No other code ever sees an unchecked value. CONTRIBUTING.md ("What goes where") has the
//! steps for a new key.
//!
//! ```text
//! proxy admin gateway state store https upstream robots crawlers signing rules preferences politeness evidence
//!                      log traces
//!                      sources     the file, and those that it includes
//!                      reader      tables, values, mistakes
//! ```
//!
//! This crate knows nothing of the process that uses the settings. Begin reading at [`Config`], and at `reader` for the
//! walk over a file that it does not know.

mod admin;
mod crawlers;
mod evidence;
mod gateway;
mod https;
mod listen_address;
mod log;
mod politeness;
mod preferences;
mod proxy;
mod reader;
mod robots;
mod rules;
mod signing;
mod sources;
mod state;
mod store;
#[cfg(test)]
mod tests;
mod traces;
mod upstream;
mod watch_list;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use wayleave_admission::settings::PreferencesConfig;
use wayleave_decision::{CrawlersConfig, PolicyRule};
use wayleave_evidence::Sha256Digest;
use wayleave_robots_cache::RobotsStoreConfig;

pub use self::admin::{AdminRole, AdminToken};
pub use self::crawlers::matches_all;
pub use self::gateway::{GatewayConfig, GatewayListen, GatewayProtocol};
pub use self::listen_address::{ListenAddress, ListenProtocol};
pub use self::log::LogConfig;
pub use self::proxy::ConnectionLimitsConfig;
pub use self::reader::ConfigMistake;
pub use self::reader::{ConfigPlaces, IncludedFile};
use self::reader::{ConfigReader, EffectiveKeys, Section, fixed};
use self::signing::AgentDefaults;
pub use self::signing::KEYS_DIR;
pub use self::sources::{ConfigSources, parent_dir};
pub use self::store::StoreConfig;
pub use self::upstream::UpstreamConfig;
pub use self::watch_list::WatchList;

/// The shipped `config.toml`: every key with its default and its unit. Reading it gives `Config::default()`.
pub const DEFAULT_FILE: &str = include_str!("../../../config.toml");

/// The whole configuration, checked and ready for use.
///
/// Relative paths are already joined to the directory of the file. `Display` writes a file with every key that this
/// version knows; reading that file gives an equal configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `[proxy]`: the listeners for clients.
    pub proxy: proxy::ProxyConfig,
    /// `[admin]`: the listener for operators.
    pub admin: admin::AdminConfig,
    /// `[gateway]`: the listeners for other proxies that ask about requests.
    pub gateway: GatewayConfig,
    /// `[https]`: interception.
    pub https: https::HttpsConfig,
    /// `[upstream]` and `[dns]`: connections to origin servers.
    pub upstream: UpstreamConfig,
    /// `[robots]`: fetching and caching robots.txt.
    pub robots: robots::RobotsConfig,
    /// `[state]`: the files that outlive the process.
    pub state: state::StateConfig,
    /// `[store]`: the engine that shares cache entries and slots among nodes.
    pub fleet: StoreConfig,
    /// The limits of the store of robots.txt entries on disk: `state.max_size`, and its share of `robots.memory`.
    pub robots_store: RobotsStoreConfig,
    /// The files that were included, in their order.
    pub included: Vec<IncludedFile>,
    /// `[[crawler]]`, in the order of the file and then of those that it includes, and the settings of `[proxy]` for
    /// requests that match none.
    pub crawlers: CrawlersConfig,
    /// `[signing]`.
    pub signing: signing::SigningConfig,
    /// `[[rule]]`, in the same order; the first that matches a request is used.
    pub rules: Vec<PolicyRule>,
    /// `[preferences]`.
    pub preferences: PreferencesConfig,
    /// `[politeness]`.
    pub politeness: wayleave_pacing::PacingConfig,
    /// `[log]`.
    pub log: LogConfig,
    /// `[evidence]`: the file of the key that the decision log is signed with.
    pub(crate) evidence_key: PathBuf,
    /// `[traces]`.
    pub traces: wayleave_otlp::traces::TraceConfig,
    keys: EffectiveKeys,
}

/// Reads all sections. On a reload, state on disk remains where it is in the configuration that the process `started_with`, even
/// if the file now names another directory.
fn read_config(
    root: &mut Section<'_>,
    sources: &ConfigSources,
    started_with: Option<&Config>,
) -> Config {
    let dir = sources.dir();
    let included = root.include("include", |item| sources.fault(item));
    // In this order, because later sections are checked against earlier ones: addresses, directories, names of crawlers.
    let proxy = root.section("proxy", |section| proxy::read(section, dir));
    let in_use = started_with.map(|config| config.admin.listen);
    let admin = root.section("admin", |section| admin::read(section, &proxy.listen, in_use));
    let state = root.section("state", |section| state::read(section, dir));
    let fleet = root.section(fixed("store"), |section| store::read(section, dir));
    // A reload must not move the state of a running process: its files are open, and a CA in another place would be a new CA.
    let state_dir = started_with.map_or(&state, |config| &config.state).dir.clone();
    let https = root.section("https", |section| https::read(section, &state_dir));
    let upstream = upstream::read(root, dir, &proxy.listen);
    let robots = root.section("robots", |section| robots::read(section, dir));
    let agents = AgentDefaults::ahead(root);
    let (crawlers, signers) =
        crawlers::read(root, proxy.crawler_defaults, robots.dialect, dir, &agents);
    let gateway = root.section("gateway", |section| {
        gateway::read(section, &proxy.listen, admin.listen, &crawlers.crawlers)
    });
    let signing = root.section("signing", |section| signing::read(section, &agents, dir, &signers));
    let key_in_file = root.section("evidence", |section| evidence::read_key(section, &state_dir));
    // The same applies to the key: all lines of a process are signed with one.
    let evidence_key = started_with.map_or(key_in_file, |config| config.evidence_key.clone());
    Config {
        rules: rules::read(root, &crawlers.crawlers),
        preferences: root.section("preferences", preferences::read),
        politeness: root.section("politeness", politeness::read),
        log: root.section("log", |section| log::read(section, &state_dir, evidence_key.clone())),
        evidence_key,
        traces: root.section(fixed("traces"), traces::read),
        // Its keys are in two sections.
        robots_store: RobotsStoreConfig {
            max_size_bytes: state.max_size_bytes,
            memory_bytes: robots.store_memory_bytes,
            ..RobotsStoreConfig::default()
        },
        included,
        fleet,
        proxy,
        admin,
        gateway,
        https,
        upstream,
        robots,
        state,
        signing,
        crawlers,
        keys: EffectiveKeys::default(),
    }
}

impl Config {
    /// Reads and checks a configuration file. Relative paths in it are relative to its own directory, not to the working
    /// directory.
    ///
    /// # Errors
    ///
    /// Every mistake in it and in the files that it includes, in the order of lines; or a single one if it cannot be read.
    pub fn load(path: &Path) -> Result<Self, Vec<ConfigMistake>> {
        Self::load_sources(&ConfigSources::read(path))
    }

    /// Checks the files of a configuration as they were read.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    pub fn load_sources(sources: &ConfigSources) -> Result<Self, Vec<ConfigMistake>> {
        Self::from_sources(sources, None)
    }

    /// Reads a configuration file as far as it can be read, and returns every mistake in it, too. A wrong value has its
    /// default.
    ///
    /// # Errors
    ///
    /// Returns the mistake if the file cannot be read at all.
    pub fn load_with_mistakes(path: &Path) -> Result<(Self, Vec<ConfigMistake>), ConfigMistake> {
        Self::read_sources(&ConfigSources::read(path), None)
    }

    /// Reads a configuration file, or the defaults without one, with what `change` makes of it. Relative paths without a file are
    /// relative to the working directory.
    ///
    /// # Errors
    ///
    /// As [`Self::load`], of the file or of what was made of it.
    pub fn load_changed(
        path: Option<&Path>,
        change: impl FnOnce(&mut toml::Table),
    ) -> Result<Self, Vec<ConfigMistake>> {
        let Some(path) = path else {
            let here = std::env::current_dir().unwrap_or_default();
            let mut table = toml::Table::new();
            change(&mut table);
            return Self::from_toml_in(&here, "", &table.to_string());
        };
        // The file as it is first: only there do lines have the numbers that a mistake names.
        Self::load(path)?;
        let name = path.display().to_string();
        let unreadable = |error: &dyn fmt::Display| {
            vec![ConfigMistake::in_file(&name, format!("cannot be read: {error}"))]
        };
        let text = fs::read_to_string(path).map_err(|error| unreadable(&error))?;
        let mut table: toml::Table = text.parse().map_err(|error| unreadable(&error))?;
        change(&mut table);
        Self::from_toml_in(&parent_dir(path), &name, &table.to_string())
    }

    /// Checks the files that were `read` again for a running process, which `started_with` another configuration: its state on
    /// disk remains where it is.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    pub fn load_again(
        read: &ConfigSources,
        started_with: &Self,
    ) -> Result<Self, Vec<ConfigMistake>> {
        Self::from_sources(read, Some(started_with))
    }

    /// Checks the text of a configuration; mistakes give `name` as the file.
    ///
    /// Reads the files that it names, such as certificates and keys.
    ///
    /// # Errors
    ///
    /// Every mistake, in the order of lines.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, Vec<ConfigMistake>> {
        Self::from_toml_in(Path::new(""), name, text)
    }

    /// Returns the configuration that applies without a file: the defaults, with paths below the working directory.
    pub fn built_in() -> Self {
        let here = std::env::current_dir().unwrap_or_default();
        Self::from_toml_in(&here, "", "").unwrap_or_default()
    }

    pub fn from_toml_in(dir: &Path, name: &str, text: &str) -> Result<Self, Vec<ConfigMistake>> {
        Self::from_sources(&ConfigSources::of_text(name, text, dir), None)
    }

    fn from_sources(
        sources: &ConfigSources,
        started_with: Option<&Self>,
    ) -> Result<Self, Vec<ConfigMistake>> {
        match Self::read_sources(sources, started_with) {
            Ok((config, mistakes)) if mistakes.is_empty() => Ok(config),
            Ok((_, mistakes)) => Err(mistakes),
            Err(mistake) => Err(vec![mistake]),
        }
    }

    fn read_sources(
        sources: &ConfigSources,
        started_with: Option<&Self>,
    ) -> Result<(Self, Vec<ConfigMistake>), ConfigMistake> {
        let (name, text) = sources.main()?;
        let mut reader = ConfigReader::new(name, text);
        for (name, text) in sources.included() {
            reader.include(name, text);
        }
        let (mut config, keys, mistakes) =
            reader.read(|root| read_config(root, sources, started_with));
        config.keys = keys;
        Ok((config, mistakes))
    }

    /// Returns the JSON Schema of the file.
    pub fn schema() -> serde_json::Value {
        // Tables that may occur several times are only described if they occur.
        let text =
            "[[admin.tokens]]\n[[gateway.tokens]]\n[[robots.pinned]]\n[[crawler]]\n[[rule]]\n";
        let sources = ConfigSources::of_text("", text, Path::new(""));
        ConfigReader::describe(text, DEFAULT_FILE, |root| read_config(root, &sources, None))
    }

    /// Returns the other files to watch for changes, each with the digest of the contents that were read: programs that renew
    /// certificates do not know to trigger a reload.
    pub fn watched_files(&self) -> Vec<(PathBuf, Sha256Digest)> {
        let mut files = self.proxy.tls.as_ref().map_or_else(Vec::new, |tls| tls.files());
        let pinned = self.robots.pinned.iter();
        files.extend(pinned.map(|pinned| (pinned.file.clone(), Sha256Digest::of(&pinned.text))));
        files
    }

    /// Returns the numbers of rules and of crawlers in the main file itself. Those of included files follow them, in the order of
    /// the files.
    pub fn main_file_counts(&self) -> (usize, usize) {
        let rules: usize = self.included.iter().map(|file| file.rule_lines.len()).sum();
        let crawlers: usize = self.included.iter().map(|file| file.crawlers).sum();
        (self.rules.len() - rules, self.crawlers.crawlers.len() - crawlers)
    }

    /// Returns the configuration as TOML, without secrets. Keys that need a restart have the values that the process
    /// `started_with`.
    pub fn public_toml(&self, started_with: &Self) -> String {
        self.keys.with_fixed_of(&started_with.keys).to_string()
    }

    /// Returns the configuration as TOML, with its secrets: for a file that only its owner may read.
    pub fn private_toml(&self) -> String {
        format!("{:#}", self.keys)
    }

    /// Returns the keys, or sections such as `[admin]`, that need a restart because the process `started_with` other values.
    pub fn needs_restart(&self, started_with: &Self) -> Vec<String> {
        self.keys.needs_restart(&started_with.keys)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::from_toml("", "").expect("nothing is wrong with what is not there")
    }
}

impl fmt::Display for Config {
    /// Writes the configuration without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.keys.fmt(f)
    }
}
