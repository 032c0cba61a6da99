//! `wayleave keys`: creates and lists the keys that crawlers' requests are signed with, and writes the files that verifiers
//! fetch.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail, ensure};
use clap::{Args, Subcommand};
use serde::Serialize;
use wayleave_clock::system_time;
use wayleave_config::{Config, KEYS_DIR};
use wayleave_signing::directory;
use wayleave_signing::{KeyDiscovery, SigningAgent, SigningKey};

use super::config_file::{config_dir, load_config};
use super::terminal::{
    CommandResult, absolute_path, pretty_json, print, print_painted, table_heads, unusable,
};
use crate::publication::{self, PublishedFile, PublishedHost};

#[derive(Debug, Clone, Subcommand)]
pub(super) enum KeysCommand {
    /// Create a key in the folder `keys` next to the configuration file
    New {
        /// Its name: letters, digits, "-", "_" and "."
        name: String,
        /// Create it for the agent of a [[crawler]], in the folder named for that: the agent publishes what is there
        #[arg(long, value_name = "URL")]
        agent: Option<String>,
    },
    /// List the keys that are published, and whose requests each signs
    List(KeysListArguments),
    /// Print the key directory (JWKS), or write it to files to publish
    Directory {
        /// Write the directory of each agent, the fields that sign it, and the crawlers' cards below this folder
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        /// Print that of the agent of a [[crawler]]; default: that of [signing]
        #[arg(long, value_name = "URL", conflicts_with = "out")]
        agent: Option<String>,
    },
}

#[derive(Debug, Clone, Args)]
pub(super) struct KeysListArguments {
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// A published key.
#[derive(Serialize)]
struct PublishedKey<'a> {
    thumbprint: &'a str,
    /// The URL of the agent that publishes it; null: none is configured.
    agent: Option<&'a str>,
    /// The crawlers whose requests it signs.
    crawlers: Vec<&'a str>,
    path: PathBuf,
}

pub(super) fn run(command: &KeysCommand, file: Option<&Path>) -> CommandResult {
    let text = match command {
        KeysCommand::New { name, agent } => config_dir(file).and_then(|dir| {
            let folder = agent.as_deref().map_or(Ok(PathBuf::new()), |url| agent_folder(file, url));
            create_key(&dir, &folder?, name)
        }),
        KeysCommand::List(arguments) => Ok(list_keys(&load_config(file)?.0, arguments)),
        KeysCommand::Directory { out: None, agent } => {
            directory_body(&load_config(file)?.0, agent.as_deref())
        }
        KeysCommand::Directory { out: Some(dir), .. } => {
            let config = load_config(file)?.0;
            signature_files(&config).and_then(|files| write_files(dir, &files))
        }
    };
    match text {
        // Only the heads of the list have a tone.
        Ok(text) if matches!(command, KeysCommand::List(_)) => Ok(print_painted(&text)),
        Ok(text) => Ok(print(&text)),
        Err(error) => Err(unusable(&format!("{error:#}"))),
    }
}

/// Returns the folder of an agent's keys, in that of all keys: none for the agent of `[signing]`.
fn agent_folder(file: Option<&Path>, url: &str) -> anyhow::Result<PathBuf> {
    // Whether the agent may have a path is checked when the configuration is: it may already name this key, which would be a mistake
    // until the key exists.
    let parsed = SigningAgent::parse_url(url, KeyDiscovery::Uri)
        .map_err(|why| anyhow!("{url:?} is not {why}"))?;
    let default = file.and_then(|file| Config::load_with_mistakes(file).ok());
    let default = default.and_then(|(config, _)| config.signing.default_agent);
    let is_default = default.is_some_and(|default| default == parsed);
    Ok(if is_default { PathBuf::new() } else { SigningAgent::keys_folder_of(&parsed) })
}

fn create_key(config_dir: &Path, folder: &Path, name: &str) -> anyhow::Result<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    // It becomes the name of a file, which should be neither hidden nor in another folder.
    let is_name = !name.starts_with('.') && !name.is_empty() && name.bytes().all(is_plain);
    ensure!(is_name, "{name:?} is not a name of letters, digits, \"-\", \"_\" and \".\"");
    let path = Path::new(KEYS_DIR).join(folder).join(format!("{name}.pem"));
    let key = SigningKey::create(&config_dir.join(&path))?;
    Ok(format!(
        "key          {}\nthumbprint   {}\n\n\
         Next, put this line into the [[crawler]] whose requests it signs, and publish the key (`wayleave publish`):\n\
         signing_key = \"{}\"\n",
        absolute_path(key.path()).display(),
        key.thumbprint(),
        path.display()
    ))
}

fn list_keys(config: &Config, arguments: &KeysListArguments) -> String {
    let of_agents = config
        .signing
        .agents
        .iter()
        .flat_map(|agent| agent.keys.iter().map(|key| published_key(config, Some(agent), key)));
    let others = config.signing.keys_without_agent.iter();
    let keys: Vec<_> =
        of_agents.chain(others.map(|key| published_key(config, None, key))).collect();
    if arguments.json {
        return pretty_json(&keys);
    }
    if keys.is_empty() {
        return "no keys: `wayleave keys new NAME` creates one\n".to_owned();
    }
    let users = |key: &PublishedKey<'_>| match &key.crawlers[..] {
        [] => "-".to_owned(),
        crawlers => crawlers.join(","),
    };
    let width = keys.iter().map(|key| users(key).len()).chain(["crawlers".len()]).max();
    let width = width.unwrap_or_default();
    let agent = |key: &PublishedKey<'_>| key.agent.unwrap_or("-").to_owned();
    let agent_width = keys.iter().map(|key| agent(key).len()).chain(["agent".len()]).max();
    let agent_width = agent_width.unwrap_or_default();
    // A thumbprint has 43 characters (RFC 7638 with SHA-256).
    let mut text = table_heads(&format!(
        "{:<43}  {:<agent_width$}  {:<width$}  file",
        "thumbprint", "agent", "crawlers"
    ));
    for key in &keys {
        let agent = agent(key);
        let path = key.path.display();
        let _ = writeln!(
            text,
            "{:<43}  {agent:<agent_width$}  {:<width$}  {path}",
            key.thumbprint,
            users(key)
        );
    }
    text
}

fn published_key<'a>(
    config: &'a Config,
    agent: Option<&'a SigningAgent>,
    key: &'a SigningKey,
) -> PublishedKey<'a> {
    let crawlers = config
        .crawlers
        .crawlers
        .iter()
        .filter(|crawler| crawler.signing_key.as_deref() == Some(key.thumbprint()));
    PublishedKey {
        thumbprint: key.thumbprint(),
        agent: agent.map(SigningAgent::url),
        crawlers: crawlers.map(|crawler| crawler.name.as_str()).collect(),
        path: absolute_path(key.path()),
    }
}

/// Returns the body of an agent's key directory: that of `[signing]`, or else the first one, unless `url` names another.
fn directory_body(config: &Config, url: Option<&str>) -> anyhow::Result<String> {
    let agents = &config.signing.agents;
    let keys = match url {
        None => agents.first().map_or(&config.signing.keys_without_agent, |agent| &agent.keys),
        Some(url) => {
            let agent = agents.iter().find(|agent| agent.is_named_by(url));
            let agent = agent.with_context(|| format!("no [[crawler]] has the agent {url:?}"))?;
            &agent.keys
        }
    };
    ensure!(!keys.is_empty(), "there are no keys: `wayleave keys new NAME` creates one");
    Ok(directory::body(keys))
}

/// Returns the files that static servers publish for verifiers of signatures.
///
/// # Errors
///
/// Returns an error if there are no keys, or no agent that they belong to.
fn signature_files(config: &Config) -> anyhow::Result<Vec<PublishedFile>> {
    ensure!(
        config.signing.keys().next().is_some(),
        "there are no keys: `wayleave keys new NAME` creates one"
    );
    if config.signing.agents.is_empty() {
        bail!("signing.agent is not set, so nobody could verify the keys");
    }
    let now = system_time();
    publication::files_of(&PublishedHost::all(config), |host| host.signature_files(now))
}

/// Writes files below `dir`, and returns their paths, one a line.
pub(super) fn write_files(dir: &Path, files: &[(String, String)]) -> anyhow::Result<String> {
    let mut text = String::new();
    for (path, content) in files {
        let path = dir.join(path.trim_start_matches('/'));
        let write = || {
            fs::create_dir_all(path.parent().unwrap_or(dir))?;
            fs::write(&path, content)
        };
        write().with_context(|| format!("writing {}", path.display()))?;
        let _ = writeln!(text, "{}", path.display());
    }
    Ok(text)
}
