//! `[signing]`: the signatures of crawlers' requests, and the keys that are published.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use super::file::{
    Node, Parsed, Section, Show, checked, or_empty, path_in, positive_duration, tried,
};
use crate::identity::Crawler;
use crate::signing::{Form, Key, Mode, Options};

/// The folder of keys, next to the configuration file.
pub(crate) const KEYS_DIR: &str = "keys";
/// The longest lifetime of a signature that the draft recommends.
const LONGEST: Duration = Duration::from_hours(24);

/// The settings of signatures, and their keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signing {
    pub(crate) options: Options,
    /// The keys of crawlers, then the others in the folder. Keys that are no longer used, or not used yet, are published as well,
    /// so that a key can be replaced without a gap.
    pub(crate) keys: Vec<Arc<Key>>,
}

/// Reads `[signing]`. Paths of keys are relative to `dir`.
pub(super) fn signing(section: &mut Section<'_>, dir: &Path, crawlers: &[Crawler]) -> Signing {
    let modes = [
        ("off", Mode::Off),
        ("always", Mode::Always),
        ("on-request", Mode::OnRequest),
    ];
    let forms = [("dictionary", Form::Dictionary), ("string", Form::String)];
    let minute = Duration::from_secs(60);
    let options = Options {
        mode: section.word("mode", Mode::Off, &modes),
        agent: section.key("agent", None, or_empty(agent)),
        form: section.word("form", Form::Dictionary, &forms),
        lifetime: section.key("lifetime", minute, checked(positive_duration, lifetime)),
    };
    if options.mode != Mode::Off && options.agent.is_none() && section.is_sound("agent") {
        let message = "signatures need signing.agent, where their keys are published";
        section.mistake("mode", message);
    }
    let mut keys: Vec<Arc<Key>> = Vec::new();
    let used = crawlers
        .iter()
        .filter_map(|crawler| crawler.signing_key.clone());
    let spare = keys_in(&dir.join(KEYS_DIR)).into_iter().map(Arc::new);
    for key in used.chain(spare) {
        if !keys
            .iter()
            .any(|other| other.thumbprint() == key.thumbprint())
        {
            keys.push(key);
        }
    }
    Signing { options, keys }
}

/// Reads the keys in a folder, by name. Files that cannot be used are skipped: a crawler that names one reports it.
fn keys_in(dir: &Path) -> Vec<Key> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    let mut paths: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    paths.retain(|path| path.extension().is_some_and(|kind| kind == "pem"));
    paths.sort();
    paths
        .iter()
        .filter_map(|path| Key::read(path).ok())
        .collect()
}

/// Reads a key from its file, relative to `dir`.
pub(super) fn key(node: &Node<'_>, dir: &Path) -> Parsed<Arc<Key>> {
    let path = path_in(dir)(node)?;
    tried(node, |_| {
        let key = Key::read(&path).map_err(|error| format!("{error:#}"));
        key.map(Arc::new)
    })
}

/// Parses `agent`, an origin: verifiers look for the key directory at a fixed path below it.
fn agent(node: &Node<'_>) -> Parsed<Url> {
    tried(node, |text| match Url::parse(text) {
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

fn lifetime(value: &Duration) -> Result<(), String> {
    match *value > LONGEST {
        true => Err("is over 24h: whoever sees a signature can use it for so long".to_owned()),
        false => Ok(()),
    }
}

impl Show for Arc<Key> {
    fn show(&self) -> toml::Value {
        self.path().to_owned().show()
    }
}
