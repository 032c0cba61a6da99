//! `[store]`: whether robots.txt entries and turns are shared with other nodes, and in what.

use std::path::{Path, PathBuf};
use std::time::Duration;

use url::Url;

use super::file::{
    Node, Parsed, Section, boolean, checked, count, or_empty, path_in, positive_duration, secret,
    text, tried,
};
use crate::fleet::OnLoss;

/// Whom entries and turns are shared with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Store {
    /// Where the engine is; none: this node is alone.
    pub(crate) engine: Option<Urls>,
    /// Whether it is a cluster.
    pub(crate) is_cluster: bool,
    /// A file with the password.
    pub(crate) password_file: Option<PathBuf>,
    /// A file with certificates to trust besides the system's roots.
    pub(crate) ca_file: Option<PathBuf>,
    /// What all keys begin with.
    pub(crate) prefix: String,
    /// Into how many parts origins fall.
    pub(crate) partitions: usize,
    /// How long entries are kept that nobody confirms.
    pub(crate) keep: Duration,
    /// What one call of the engine may take.
    pub(crate) timeout: Duration,
    /// What becomes of origins with a delay while the engine is away.
    pub(crate) on_loss: OnLoss,
    /// A file with the key of the nodes.
    pub(crate) key_file: Option<PathBuf>,
    /// This node's name; none: one is made up.
    pub(crate) node: Option<String>,
}

/// Several of one cluster, or one.
pub(crate) type Urls = Vec<String>;

/// Paths are relative to `dir`.
pub(super) fn store(section: &mut Section<'_>, dir: &Path) -> Store {
    let is_shared = section.word("kind", false, &[("embedded", false), ("redis", true)]);
    let url = section.key(secret("url"), None, or_empty(urls));
    if is_shared && url.is_none() {
        section.mistake("kind", "\"redis\" needs url".to_owned());
    }
    let urls: Option<Urls> = url.map(|url| url.split(',').map(str::to_owned).collect());
    let is_one = urls.as_ref().is_none_or(|urls| urls.len() == 1);
    let day = Duration::from_hours(24);
    Store {
        is_cluster: section.key("cluster", false, boolean) || !is_one,
        engine: urls.filter(|_| is_shared),
        password_file: section.key("password_file", None, or_empty(path_in(dir))),
        ca_file: section.key("ca_file", None, or_empty(path_in(dir))),
        prefix: section.key(
            "prefix",
            "wl".to_owned(),
            checked(text, |prefix: &String| is_prefix(prefix)),
        ),
        partitions: section.key("partitions", 64, count(1, 16_384)),
        keep: section.key("keep", 30 * day, positive_duration),
        timeout: section.key("timeout", Duration::from_millis(25), positive_duration),
        on_loss: section.word(
            "on_loss",
            OnLoss::Refuse,
            &[OnLoss::Refuse, OnLoss::Home].map(|on_loss| (on_loss.as_str(), on_loss)),
        ),
        key_file: section.key("key_file", None, or_empty(path_in(dir))),
        node: section.key("node", None, or_empty(text)),
    }
}

/// URLs of servers, with commas between them.
fn urls(node: &Node<'_>) -> Parsed<String> {
    tried(node, |text| {
        let is_server = |url: &str| {
            let url = Url::parse(url).ok();
            url.is_some_and(|url| matches!(url.scheme(), "redis" | "rediss") && url.has_host())
        };
        // Without what was read: it may hold a password.
        match text.split(',').all(is_server) {
            true => Ok(text.to_owned()),
            false => Err(
                "is not the URL of a server, such as \"rediss://wayleave@redis.internal:6379\", or several with commas between them",
            ),
        }
    })
}

/// Braces say to a cluster where a key belongs, and colons part the parts of keys.
fn is_prefix(prefix: &str) -> Result<(), String> {
    match prefix.contains(['{', '}', ':']) || prefix.contains(char::is_whitespace) {
        true => Err("must not contain braces, colons or blanks".to_owned()),
        false => Ok(()),
    }
}
