//! `[signing]`: the signatures of crawlers' requests, and the keys that are published.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use url::Url;
use wayleave_signing::{AgentFieldForm, SigningKey, SigningMode, SigningSettings};

use super::reader::{
    ParseResult, Section, ToValue, ValueNode, checked, none_if_empty, parse_with, path_in,
    positive_duration,
};

/// The folder of keys, next to the configuration file.
pub const KEYS_DIR: &str = "keys";
/// The longest lifetime of a signature that the draft recommends.
const MAX_LIFETIME: Duration = Duration::from_hours(24);

/// The settings of signatures, and their keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningConfig {
    pub options: SigningSettings,
    /// The keys of crawlers, then the others in the folder. Keys that are no longer used, or not used yet, are published as well,
    /// so that a key can be replaced without a gap.
    pub keys: Vec<Arc<SigningKey>>,
}

/// Reads `[signing]`. Paths of keys are relative to `dir`; `used` are the keys of crawlers.
pub(super) fn read(
    section: &mut Section<'_>,
    dir: &Path,
    used: Vec<Arc<SigningKey>>,
) -> SigningConfig {
    let modes = [
        ("off", SigningMode::Off),
        ("always", SigningMode::Always),
        ("on-request", SigningMode::OnRequest),
    ];
    let forms = [("dictionary", AgentFieldForm::Dictionary), ("string", AgentFieldForm::String)];
    let minute = Duration::from_secs(60);
    let options = SigningSettings {
        mode: section.word("mode", SigningMode::Off, &modes),
        agent: section.key("agent", None, none_if_empty(parse_agent)),
        form: section.word("form", AgentFieldForm::Dictionary, &forms),
        lifetime: section.key("lifetime", minute, checked(positive_duration, check_lifetime)),
    };
    // A wrong agent has been reported as such.
    if options.mode != SigningMode::Off && options.agent.is_none() && section.is_valid("agent") {
        section.report("mode", "signatures need signing.agent, where their keys are published");
    }
    // The folder usually holds the keys of crawlers, too: each key is published once.
    let mut keys: Vec<Arc<SigningKey>> = Vec::new();
    let spare = read_keys(&dir.join(KEYS_DIR)).into_iter().map(Arc::new);
    for key in used.into_iter().chain(spare) {
        if !keys.iter().any(|other| other.thumbprint() == key.thumbprint()) {
            keys.push(key);
        }
    }
    SigningConfig { options, keys }
}

/// Reads the keys in a folder, by name. Files that cannot be used are skipped: a crawler that names one reports it.
fn read_keys(dir: &Path) -> Vec<SigningKey> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|kind| kind == "pem"));
    // The order of directory entries is arbitrary, and that of the published keys should not be.
    paths.sort();
    paths.iter().filter_map(|path| SigningKey::read(path).ok()).collect()
}

/// Reads a key from its file, relative to `dir`.
pub(super) fn parse_key(node: &ValueNode<'_>, dir: &Path) -> ParseResult<Arc<SigningKey>> {
    let path = path_in(dir)(node)?;
    parse_with(node, |_| {
        SigningKey::read(&path).map(Arc::new).map_err(|error| format!("{error:#}"))
    })
}

/// Parses `agent`, an origin: verifiers look for the key directory at a fixed path below it.
fn parse_agent(node: &ValueNode<'_>) -> ParseResult<Url> {
    parse_with(node, |text| match Url::parse(text) {
        Ok(url)
            if url.scheme() == "https"
                && url.path() == "/"
                && url.username().is_empty()
                && url.password().is_none()
                && url.query().is_none()
                && url.fragment().is_none() =>
        {
            Ok(url)
        }
        _ => Err(format!(
            "{text:?} is not an https URL without a path, such as \"https://bot.example\""
        )),
    })
}

fn check_lifetime(value: &Duration) -> Result<(), String> {
    if *value > MAX_LIFETIME {
        Err("is over 24h: until a signature expires, anyone who sees it can use it".to_owned())
    } else {
        Ok(())
    }
}

impl ToValue for Arc<SigningKey> {
    fn to_value(&self) -> toml::Value {
        self.path().to_owned().to_value()
    }
}
