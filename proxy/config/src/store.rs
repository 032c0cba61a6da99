//! `[store]`: whether robots.txt entries and slots are shared with other nodes, and through which engine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use url::Url;
use wayleave_fleet::OnLoss;

use super::reader::{
    ParseResult, Section, ValueNode, boolean, checked, count, none_if_empty, parse_with, path_in,
    positive_duration, secret, text,
};

/// The engine that shares robots.txt entries and slots with other nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreConfig {
    /// The URL of a single engine, or of several servers of one cluster; none: this node is alone.
    pub urls: Option<Vec<String>>,
    /// Whether the engine is a cluster.
    pub is_cluster: bool,
    /// The file with the engine's password.
    pub password_file: Option<PathBuf>,
    /// The file with certificates to trust in addition to the system's roots.
    pub ca_file: Option<PathBuf>,
    /// The prefix of all keys in the engine.
    pub prefix: String,
    /// The number of partitions that origins are distributed over.
    pub partitions: usize,
    /// The time that entries are kept without being confirmed.
    pub keep: Duration,
    /// The timeout of one call to the engine.
    pub timeout: Duration,
    /// The treatment of origins with a delay while the engine is unreachable.
    pub on_loss: OnLoss,
    /// The file with the key that the nodes share.
    pub key_file: Option<PathBuf>,
    /// This node's name; none: a random one.
    pub node: Option<String>,
}

/// Reads `[store]`. Paths are relative to `dir`.
pub(super) fn read(section: &mut Section<'_>, dir: &Path) -> StoreConfig {
    let is_shared = section.word("kind", false, &[("embedded", false), ("redis", true)]);
    let url = section.key(secret("url"), None, none_if_empty(parse_urls));
    if is_shared && url.is_none() {
        section.report("kind", "\"redis\" needs url".to_owned());
    }
    let urls: Option<Vec<String>> = url.map(|url| url.split(',').map(str::to_owned).collect());
    let is_one = urls.as_ref().is_none_or(|urls| urls.len() == 1);
    let day = Duration::from_hours(24);
    StoreConfig {
        // A single URL is enough to find all servers of a cluster, so the number of URLs cannot decide alone.
        is_cluster: section.key("cluster", false, boolean) || !is_one,
        // A URL may remain in the file while kind = "embedded" switches the engine off.
        urls: urls.filter(|_| is_shared),
        password_file: section.key("password_file", None, none_if_empty(path_in(dir))),
        ca_file: section.key("ca_file", None, none_if_empty(path_in(dir))),
        prefix: section.key("prefix", "wl".to_owned(), checked(text, check_prefix)),
        // At most as many as a Redis cluster has hash slots.
        partitions: section.key("partitions", 64, count(1, 16_384)),
        keep: section.key("keep", 30 * day, positive_duration),
        timeout: section.key("timeout", Duration::from_millis(25), positive_duration),
        on_loss: section.word(
            "on_loss",
            OnLoss::Refuse,
            &[OnLoss::Refuse, OnLoss::Home].map(|on_loss| (on_loss.as_str(), on_loss)),
        ),
        key_file: section.key("key_file", None, none_if_empty(path_in(dir))),
        node: section.key("node", None, none_if_empty(text)),
    }
}

/// Checks URLs of servers, separated by commas.
fn parse_urls(node: &ValueNode<'_>) -> ParseResult<String> {
    parse_with(node, |text| {
        // The message does not quote the value, which may hold a password.
        let mut urls = text.split(',').map(Url::parse);
        let is_server = |url: &Url| matches!(url.scheme(), "redis" | "rediss") && url.has_host();
        if urls.all(|url| url.as_ref().is_ok_and(is_server)) {
            Ok(text.to_owned())
        } else {
            Err(
                "is not the URL of a server, such as \"rediss://wayleave@redis.internal:6379\", or several, separated by commas",
            )
        }
    })
}

/// Checks a prefix. Braces would choose a key's hash slot in a cluster, and colons separate the components of keys.
fn check_prefix(prefix: &str) -> Result<(), String> {
    if prefix.contains(['{', '}', ':']) || prefix.contains(char::is_whitespace) {
        Err("must not contain braces, colons or whitespace".to_owned())
    } else {
        Ok(())
    }
}
