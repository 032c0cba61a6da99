//! `wayleave keys`: creates and lists the keys that crawlers' requests are signed with, and writes the files that verifiers
//! fetch.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::{Args, Subcommand};
use serde::Serialize;
use wayleave_clock::system_time;
use wayleave_config::{Config, KEYS_DIR};
use wayleave_decision::Crawler;
use wayleave_signing::SigningKey;
use wayleave_signing::agent_card::{CARD_PATH, CardSubject};
use wayleave_signing::directory;

use super::config_file::{config_dir, load_config};
use super::terminal::{
    CommandResult, absolute_path, pretty_json, print, print_painted, table_heads, unusable,
};

#[derive(Debug, Clone, Subcommand)]
pub(super) enum KeysCommand {
    /// Create a key in the folder `keys` next to the configuration file
    New {
        /// Its name: letters, digits, "-", "_" and "."
        name: String,
    },
    /// List the keys that are published, and whose requests each signs
    List(KeysListArguments),
    /// Print the key directory (JWKS), or write it to files to publish
    Directory {
        /// Write the directory, the fields that sign it, and the crawlers' cards below this folder
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
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
    /// The crawlers whose requests it signs.
    crawlers: Vec<&'a str>,
    path: PathBuf,
}

pub(super) fn run(command: &KeysCommand, file: Option<&Path>) -> CommandResult {
    let text = match command {
        // The configuration is not loaded: it may already name this key, which would be a mistake until the key exists.
        KeysCommand::New { name } => config_dir(file).and_then(|dir| create_key(&dir, name)),
        KeysCommand::List(arguments) => Ok(list_keys(&load_config(file)?.0, arguments)),
        KeysCommand::Directory { out: None } => directory_body(&load_config(file)?.0),
        KeysCommand::Directory { out: Some(dir) } => {
            let config = load_config(file)?.0;
            signature_files(&config, false).and_then(|files| write_files(dir, &files))
        }
    };
    match text {
        // Only the heads of the list have a tone.
        Ok(text) if matches!(command, KeysCommand::List(_)) => Ok(print_painted(&text)),
        Ok(text) => Ok(print(&text)),
        Err(error) => Err(unusable(&format!("{error:#}"))),
    }
}

fn create_key(config_dir: &Path, name: &str) -> anyhow::Result<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    // It becomes the name of a file, which should be neither hidden nor in another folder.
    let is_name = !name.starts_with('.') && !name.is_empty() && name.bytes().all(is_plain);
    ensure!(is_name, "{name:?} is not a name of letters, digits, \"-\", \"_\" and \".\"");
    let key = SigningKey::create(&config_dir.join(KEYS_DIR).join(format!("{name}.pem")))?;
    Ok(format!(
        "key          {}\nthumbprint   {}\n\n\
         Next, put this line into the [[crawler]] whose requests it signs, and publish the key (`wayleave publish`):\n\
         signing_key = \"{KEYS_DIR}/{name}.pem\"\n",
        absolute_path(key.path()).display(),
        key.thumbprint()
    ))
}

fn list_keys(config: &Config, arguments: &KeysListArguments) -> String {
    let keys: Vec<_> = (config.signing.keys.iter()).map(|key| published_key(config, key)).collect();
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
    // A thumbprint has 43 characters (RFC 7638 with SHA-256).
    let mut text = table_heads(&format!("{:<43}  {:<width$}  file", "thumbprint", "crawlers"));
    for key in &keys {
        let path = key.path.display();
        let _ = writeln!(text, "{:<43}  {:<width$}  {path}", key.thumbprint, users(key));
    }
    text
}

fn published_key<'a>(config: &'a Config, key: &'a SigningKey) -> PublishedKey<'a> {
    let crawlers = config
        .crawlers
        .crawlers
        .iter()
        .filter(|crawler| crawler.signing_key.as_deref() == Some(key.thumbprint()));
    PublishedKey {
        thumbprint: key.thumbprint(),
        crawlers: crawlers.map(|crawler| crawler.name.as_str()).collect(),
        path: absolute_path(key.path()),
    }
}

fn directory_body(config: &Config) -> anyhow::Result<String> {
    let keys = &config.signing.keys;
    ensure!(!keys.is_empty(), "there are no keys: `wayleave keys new NAME` creates one");
    Ok(directory::body(keys))
}

/// Returns the files that a static server publishes at `signing.agent`, as paths and contents. The signatures expire after two
/// days: operators who do not write the files again in time should leave out the fields that hold them.
///
/// # Errors
///
/// Returns an error if there are no keys, or no agent that they belong to.
pub(super) fn signature_files(
    config: &Config,
    has_page_and_ranges: bool,
) -> anyhow::Result<Vec<(String, String)>> {
    let body = directory_body(config)?;
    let Some(agent) = &config.signing.options.agent else {
        bail!("signing.agent is not set, so nobody could verify the keys");
    };
    let mut fields = format!("content-type: {}\n", directory::MEDIA_TYPE);
    for (name, value) in
        directory::signature_fields(&config.signing.keys, agent, &body, system_time())
    {
        let _ = writeln!(fields, "{name}: {value}");
    }
    let mut files = vec![
        (directory::DIRECTORY_PATH.to_owned(), body),
        // The server has to send these fields with the directory, whose signatures they are.
        (format!("{}.headers", directory::DIRECTORY_PATH), fields),
    ];
    let signing = |crawler: &&Crawler| crawler.signing_key.is_some();
    for crawler in config.crawlers.crawlers.iter().filter(signing) {
        let subject = CardSubject {
            agent,
            crawler,
            pacing: &config.politeness,
            sources: config.preferences.reading.sources,
            has_page_and_ranges,
        };
        files.push((format!("{CARD_PATH}/{}", crawler.name), subject.card()));
    }
    Ok(files)
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
