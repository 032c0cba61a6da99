//! `[signing]`: the signatures of crawlers' requests, and the keys that are published.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use url::Url;
use wayleave_decision::Crawler;
use wayleave_signing::{
    AgentFieldForm, KeyDiscovery, PlainHttp, SigningAgent, SigningKey, SigningMode, SigningSettings,
};

use super::reader::{
    ParseResult, Section, ToValue, ValueNode, boolean, checked, none_if_empty, parse_with, path_in,
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
    /// The URL of `agent`.
    pub default_agent: Option<Url>,
    /// The agents that crawlers sign for, or that have keys; if that of `[signing]` is one of them, it is the first.
    pub agents: Vec<Arc<SigningAgent>>,
    /// The keys that belong to no agent, because none is configured.
    pub keys_without_agent: Vec<Arc<SigningKey>>,
    /// The folder whose keys are published by `agent`, whether a crawler names them or not.
    pub keys_dir: PathBuf,
}

/// The settings of `[signing]` that the agents of crawlers depend on, which are read before.
#[derive(Debug)]
pub(super) struct AgentDefaults {
    pub(super) discovery: KeyDiscovery,
    pub(super) agent: Option<Url>,
}

/// A crawler, the agent that it signs for, and its key.
#[derive(Debug)]
pub(super) struct CrawlerSigner {
    pub(super) crawler: String,
    pub(super) agent: Option<Url>,
    pub(super) key: Option<Arc<SigningKey>>,
}

impl CrawlerSigner {
    /// Returns whether both sign with one key, but for different agents.
    pub(super) fn has_same_key_for_another_agent(&self, other: &Self) -> bool {
        let thumbprint = |signer: &Self| signer.key.as_ref().map(|key| key.thumbprint().to_owned());
        self.agent != other.agent && self.key.is_some() && thumbprint(self) == thumbprint(other)
    }
}

const DISCOVERIES: [(&str, KeyDiscovery); 2] =
    [("origin", KeyDiscovery::Origin), ("uri", KeyDiscovery::Uri)];

impl AgentDefaults {
    /// Reads them ahead; mistakes are reported when the section is read.
    pub(super) fn ahead(root: &Section<'_>) -> Self {
        let word = root.text_ahead("signing", "discovery").unwrap_or_default();
        // A wrong word has its own mistake, and should not cause one in each crawler.
        let found = DISCOVERIES.iter().find(|(name, _)| *name == word || word.is_empty());
        let discovery = found.map_or(KeyDiscovery::Uri, |(_, discovery)| *discovery);
        let agent = root.text_ahead("signing", "agent");
        let agent = agent.and_then(|text| SigningAgent::parse_url(text, discovery).ok());
        Self { discovery, agent }
    }

    /// Parses the `agent` of a crawler or of `[signing]`.
    pub(super) fn parse(&self, node: &ValueNode<'_>) -> ParseResult<Url> {
        parse_with(node, |text| {
            SigningAgent::parse_url(text, self.discovery)
                .map_err(|why| format!("{text:?} is not {why}"))
        })
    }
}

/// Reads `[signing]`. The folder of keys is in `dir`.
pub(super) fn read(
    section: &mut Section<'_>,
    defaults: &AgentDefaults,
    dir: &Path,
    signers: &[CrawlerSigner],
) -> SigningConfig {
    let modes = [
        ("off", SigningMode::Off),
        ("always", SigningMode::Always),
        ("on-request", SigningMode::OnRequest),
    ];
    let forms = [("dictionary", AgentFieldForm::Dictionary), ("string", AgentFieldForm::String)];
    let minute = Duration::from_secs(60);
    let plain_http = |signs: bool| if signs { PlainHttp::Sign } else { PlainHttp::LeaveUnsigned };
    section.word("discovery", KeyDiscovery::Origin, &DISCOVERIES);
    let options = SigningSettings {
        mode: section.word("mode", SigningMode::Off, &modes),
        form: section.word("form", AgentFieldForm::Dictionary, &forms),
        lifetime: section.key("lifetime", minute, checked(positive_duration, check_lifetime)),
        plain_http: plain_http(section.key("plain_http", true, boolean)),
    };
    let agent = section.key("agent", None, none_if_empty(|node| defaults.parse(node)));
    let mut with_key = signers.iter().filter(|signer| signer.key.is_some()).peekable();
    let all_have_agents =
        with_key.peek().is_some() && with_key.all(|signer| signer.agent.is_some());
    // A wrong agent has been reported as such.
    if options.mode != SigningMode::Off
        && agent.is_none()
        && !all_have_agents
        && section.is_valid("agent")
    {
        section.report("mode", "signatures need signing.agent, or an agent in each [[crawler]] with a key: there their keys are published");
    }
    let folder = dir.join(KEYS_DIR);
    let mut keys = AgentKeys::of_crawlers(signers, agent.clone());
    keys.add_spare_keys(&folder);
    let mut config = SigningConfig {
        options,
        default_agent: agent,
        agents: Vec::new(),
        keys_without_agent: Vec::new(),
        keys_dir: folder,
    };
    for (url, keys) in keys.by_agent {
        match url {
            None => config.keys_without_agent = keys,
            // The agent of `[signing]`, without keys or crawlers.
            Some(url)
                if keys.is_empty()
                    && !signers.iter().any(|signer| signer.agent.as_ref() == Some(&url)) => {}
            Some(url) => {
                config.agents.push(Arc::new(SigningAgent::new(url, defaults.discovery, keys)));
            }
        }
    }
    config
}

/// The keys of each agent, that of `[signing]` first. Each key has one owner.
struct AgentKeys {
    by_agent: Vec<(Option<Url>, Vec<Arc<SigningKey>>)>,
}

impl AgentKeys {
    fn of_crawlers(signers: &[CrawlerSigner], default: Option<Url>) -> Self {
        let mut keys = Self { by_agent: vec![(default, Vec::new())] };
        for CrawlerSigner { agent, key, .. } in signers {
            let index = keys.by_agent.iter().position(|(url, _)| url == agent);
            let index = index.unwrap_or_else(|| {
                keys.by_agent.push((agent.clone(), Vec::new()));
                keys.by_agent.len() - 1
            });
            keys.add(index, key.clone());
        }
        keys
    }

    fn add(&mut self, index: usize, key: impl IntoIterator<Item = Arc<SigningKey>>) {
        for key in key {
            let mut known = self.by_agent.iter().flat_map(|(_, keys)| keys);
            if !known.any(|known| known.thumbprint() == key.thumbprint()) {
                self.by_agent[index].1.push(key);
            }
        }
    }

    /// Adds the keys in `folder` to the agent of `[signing]`, and those in the folder named for another agent to that one.
    fn add_spare_keys(&mut self, folder: &Path) {
        for index in 0..self.by_agent.len() {
            let own = match &self.by_agent[index].0 {
                Some(url) if index > 0 => folder.join(SigningAgent::keys_folder_of(url)),
                _ => folder.to_owned(),
            };
            self.add(index, read_keys(&own).into_iter().map(Arc::new));
        }
    }
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

fn check_lifetime(value: &Duration) -> Result<(), String> {
    if *value > MAX_LIFETIME {
        Err("is over 24h: until a signature expires, anyone who sees it can use it".to_owned())
    } else {
        Ok(())
    }
}

impl SigningConfig {
    /// Returns every key.
    pub fn keys(&self) -> impl Iterator<Item = &Arc<SigningKey>> {
        self.agents.iter().flat_map(|agent| &agent.keys).chain(&self.keys_without_agent)
    }

    /// Returns the agent that a crawler signs for, if one is configured.
    pub fn agent_of(&self, crawler: &Crawler) -> Option<&Arc<SigningAgent>> {
        let url = crawler.agent.as_deref()?;
        self.agents.iter().find(|agent| agent.url() == url)
    }

    /// Returns the folder to which a crawler's key should be moved, if it lies among those that `agent` publishes, but is another
    /// agent's: once the crawler has a new key, `agent` would publish the old one.
    pub fn right_folder_for_key_of(&self, crawler: &Crawler) -> Option<PathBuf> {
        let agent = self.agent_of(crawler)?;
        let is_misplaced = |key: &Arc<SigningKey>| {
            Some(key.thumbprint()) == crawler.signing_key.as_deref()
                && key.path().parent() == Some(&self.keys_dir)
        };
        let default = self.default_agent.as_ref()?.as_str().trim_end_matches('/');
        (agent.url() != default && agent.keys.iter().any(is_misplaced))
            .then(|| self.keys_dir.join(agent.keys_folder()))
    }
}

impl ToValue for Arc<SigningKey> {
    fn to_value(&self) -> toml::Value {
        self.path().to_owned().to_value()
    }
}
