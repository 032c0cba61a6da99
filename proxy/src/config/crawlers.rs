//! The tables `[[crawler]]`, and the settings of `[proxy]` for requests that match none of them.

use std::path::Path;
use std::sync::Arc;

use wayleave_robots_txt::preferences::{ContentUse, Declaration, Purpose};
use wayleave_robots_txt::{Dialect, ProductToken};

use super::file::{
    Node, Parsed, Section, boolean, checked, duration, filled_list, network, secret, text, tried,
    user_agent, word,
};
use super::robots::dialects;
use super::signing;
use super::upstream::own_address;
use crate::identity::{Account, Crawler, Mode, Options, check_hash};

/// The keys of `[proxy]` that apply to crawlers: the rules for requests that match no table, and a default for those that do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Others {
    pub(super) require_crawler: bool,
    /// Whether clients are asked for certificates.
    pub(super) asks_for_certificates: bool,
    pub(super) mode: Mode,
}

/// The words of `mode`: refuse requests that robots.txt disallows, or only record them.
pub(super) const MODES: [(&str, Mode); 2] = [
    (Mode::Enforce.as_str(), Mode::Enforce),
    (Mode::Observe.as_str(), Mode::Observe),
];

/// Reads all `[[crawler]]` tables. `dialect` and the default mode apply to crawlers that set none, and to requests that match
/// no crawler. Paths of keys are relative to `dir`.
pub(super) fn crawlers(
    root: &mut Section<'_>,
    others: Others,
    dialect: Dialect,
    dir: &Path,
) -> Options {
    let mut earlier: Vec<Crawler> = Vec::new();
    let mut catch_all = None;
    let crawlers = root.tables("crawler", |section| {
        let crawler = crawler(section, others.mode, dialect, dir);
        let has_name = |other: &&Crawler| other.name == crawler.name;
        if section.is_sound("name") && earlier.iter().any(|other| has_name(&other)) {
            let name = &crawler.name;
            section.mistake("name", format!("{name:?} is the name of another crawler"));
        }
        if contradicts(&earlier, crawler.username.as_ref()) {
            let message = "is not the one that another crawler has for the same username";
            section.mistake("password_hash", message);
        }
        if crawler.certificate.is_some() && !others.asks_for_certificates {
            let message =
                "certificate needs proxy.client_ca: clients are not asked for certificates";
            section.mistake("match", message);
        }
        if let Some(name) = &catch_all {
            section.mistake_of_table(format!(
                "can never match: {name:?} before it matches every request"
            ));
        } else if section.is_sound("match") && matches_all(&crawler) {
            catch_all = Some(crawler.name.clone());
        }
        earlier.push(crawler.clone());
        crawler
    });
    Options {
        crawlers,
        require_crawler: others.require_crawler,
        dialect,
        mode: others.mode,
    }
}

fn matches_all(crawler: &Crawler) -> bool {
    crawler.user_agent.is_none()
        && crawler.addresses.is_empty()
        && crawler.username.is_none()
        && crawler.certificate.is_none()
}

fn contradicts(earlier: &[Crawler], account: Option<&Account>) -> bool {
    let accounts = earlier
        .iter()
        .filter_map(|crawler| crawler.username.as_ref());
    account.is_some_and(|account| {
        accounts
            .filter(|other| other.username == account.username)
            .any(|other| other.password_hash != account.password_hash)
    })
}

fn crawler(
    section: &mut Section<'_>,
    others_mode: Mode,
    robots_dialect: Dialect,
    dir: &Path,
) -> Crawler {
    let (username, certificate, named, addresses) = section.section("match", |section| {
        (
            section.optional("username", checked(text, username)),
            section.optional("certificate", |node| tried(node, str::parse)),
            section.optional("user_agent", text),
            section.items("addresses", network),
        )
    });
    let password_hash = section.optional(secret("password_hash"), checked(text, check_hash));
    if section.has("password_hash") && username.is_none() && section.is_sound("match") {
        section.mistake("password_hash", "needs match.username beside it");
    }
    if username.is_some() && !section.has("password_hash") {
        section.mistake(
            "match",
            "username needs password_hash beside it: anybody could claim the name",
        );
    }
    let account = username.zip(password_hash);
    let declaration = declaration(section);
    Crawler {
        name: section
            .required("name", checked(text, label))
            .unwrap_or_default(),
        tokens: section
            .required("tokens", filled_list(token))
            .unwrap_or_default(),
        user_agent: named,
        addresses,
        certificate,
        username: account.map(|(username, password_hash)| Account {
            username,
            password_hash,
        }),
        dialect: section.word("dialect", robots_dialect, &dialects()),
        mode: section.word("mode", others_mode, &MODES),
        default_delay: section.optional("default_delay", duration),
        robots_user_agent: section.optional("user_agent", user_agent).map(Arc::from),
        user_agent_must_contain_token: section.key("user_agent_must_contain_token", false, boolean),
        source_address: section.optional("source_address", own_address),
        signing_key: section.optional("signing_key", |node| signing::key(node, dir)),
        declaration,
    }
}

/// Reads what the crawler declares about its use of content, for usage preferences.
fn declaration(section: &mut Section<'_>) -> Declaration {
    let purposes = section.items("purposes", |node| tried(node, str::parse::<Purpose>));
    for key in ["purpose_tokens", "content_use", "unstated"] {
        if section.has(key) && !section.has("purposes") {
            section.mistake(key, "needs purposes beside it");
        }
    }
    let mut named = Vec::new();
    let tokens = section.entries("purpose_tokens", |name, node| {
        named.push(tried(node, |_| name.parse::<Purpose>())?);
        token(node)
    });
    let unstated = section.optional("unstated", word(&["allow", "refuse"]));
    let names = CONTENT_USES.map(|(name, _)| name);
    let content_use = section.optional("content_use", word(&names));
    let mut known = CONTENT_USES.iter();
    let content_use = known.find(|(name, _)| Some(*name) == content_use);
    Declaration {
        purposes: purposes.into_iter().collect(),
        purpose_tokens: named.into_iter().zip(tokens).collect(),
        content_use: content_use.map(|(_, content_use)| *content_use),
        refuse_unstated: unstated == Some("refuse"),
    }
}

const CONTENT_USES: [(&str, ContentUse); 3] = [
    (ContentUse::Immediate.as_str(), ContentUse::Immediate),
    (ContentUse::Reference.as_str(), ContentUse::Reference),
    (ContentUse::Full.as_str(), ContentUse::Full),
];

fn token(node: &Node<'_>) -> Parsed<ProductToken> {
    tried(node, ProductToken::new)
}

/// Checks a user name. In Basic credentials the first colon ends it (RFC 7617 section 2).
fn username(name: &str) -> Result<(), String> {
    if name.contains(':') {
        return Err("must not contain \":\"".to_owned());
    }
    Ok(())
}

fn label(name: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name == "asserted" {
        Err("\"asserted\" is the label of requests that match no crawler".to_owned())
    } else if name.len() <= 64 && name.bytes().all(is_plain) {
        Ok(())
    } else {
        Err(format!(
            "{name:?} is not 1 to 64 letters, digits, \"-\", \"_\" or \".\""
        ))
    }
}
