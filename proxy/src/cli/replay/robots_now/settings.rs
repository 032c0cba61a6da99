//! The configuration of a run: the one in use, with a state of its own, and made to enforce and to wait.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use toml::{Table, Value};
use wayleave_config::Config;

use crate::cli::config_file::set_key;

/// The tables that concern operators, other machines, or the log of the proxy in use.
const LEFT_OUT: [&str; 6] = ["admin", "store", "gateway", "traces", "evidence", "log"];
/// The keys of a crawler that concern neither what it may fetch nor how it is known.
const LEFT_OUT_OF_CRAWLERS: [&str; 5] =
    ["mode", "max_response_bytes", "requests_per_day", "bytes_per_day", "new_origins_per_day"];
/// The hash of a password that nobody proves: crawlers are chosen by name.
const NO_PASSWORD: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Returns the file that has a run's configuration.
pub(super) fn file(dir: &Path) -> PathBuf {
    dir.join("config.toml")
}

/// Writes a run's configuration, by which `wayleave evidence` finds its log.
pub(super) fn save(dir: &Path, text: &str) -> anyhow::Result<()> {
    let path = file(dir);
    let created = File::options().create_new(true).write(true).mode(0o600).open(&path);
    created
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("writing {}", path.display()))
}

/// Returns the configuration of a run in `dir`, and its text. With a purpose, it is that of every crawler, and
/// there is a crawler for each client that matches none, by its product tokens.
pub(super) fn derive(
    config: &Config,
    dir: &Path,
    purpose: Option<&str>,
    unnamed: &[Vec<String>],
) -> anyhow::Result<(Config, String)> {
    let mut table: Table = config.private_toml().parse().context("the configuration in use")?;
    table.retain(|name, _| !LEFT_OUT.contains(&name));
    if let Some(robots) = table.get_mut("robots").and_then(Value::as_table_mut) {
        // What a pinned text allows says nothing about the site.
        robots.remove("pinned");
    }
    set_key(&mut table, "state", "dir", dir.display().to_string());
    set_key(&mut table, "log", "events", false);
    // The evidence of a list outlives the log that it is about.
    set_key(&mut table, "log", "decisions_keep", "365d");
    // What is only observed was refused by the site all the same.
    set_key(&mut table, "proxy", "mode", "enforce");
    set_key(&mut table, "preferences", "on_answer", "withhold");
    set_key(&mut table, "politeness", "crawl_delay", "wait");
    set_key(&mut table, "politeness", "max_wait", "1h");
    let crawlers = table.entry("crawler").or_insert_with(|| Value::Array(Vec::new()));
    let crawlers = crawlers.as_array_mut().context("crawler is no list")?;
    for crawler in crawlers.iter_mut().filter_map(Value::as_table_mut) {
        crawler.retain(|name, _| !LEFT_OUT_OF_CRAWLERS.contains(&name));
    }
    crawlers.extend(unnamed.iter().enumerate().map(|(index, tokens)| {
        let name = unnamed_crawler(index);
        let matched = Table::from_iter([("username".to_owned(), name.clone().into())]);
        let fields = [
            ("name", Value::from(name)),
            ("tokens", tokens.clone().into()),
            ("match", matched.into()),
            ("password_hash", NO_PASSWORD.into()),
        ];
        Value::Table(fields.map(|(key, value)| (key.to_owned(), value)).into_iter().collect())
    }));
    if let Some(purpose) = purpose {
        for crawler in crawlers.iter_mut().filter_map(Value::as_table_mut) {
            crawler.insert("purposes".to_owned(), vec![purpose].into());
        }
    }
    let text = table.to_string();
    let derived = Config::from_toml("the configuration of the run", &text).map_err(|mistakes| {
        let mistakes: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
        anyhow!(mistakes.join("\n"))
    })?;
    Ok((derived, text))
}

/// Returns the name of the crawler that stands for the requests of the client whose tokens have this index.
pub(super) fn unnamed_crawler(index: usize) -> String {
    format!("unnamed-{index}")
}
