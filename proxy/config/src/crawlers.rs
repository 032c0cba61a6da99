//! The tables `[[crawler]]`, and the settings of `[proxy]` for requests that match none of them.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytesize::ByteSize;
use wayleave_admission::identity::check_hash;
use wayleave_decision::{
    CrawlTrigger, Crawler, CrawlersConfig, DailyBudget, EnforcementMode, ProxyAccount,
    RefusedSubresources, SubresourcePolicy, contacts,
};
use wayleave_decision_log::ChosenCrawler;
use wayleave_robots_txt::{Dialect, ProductToken};
use wayleave_usage_preferences::{ContentUse, CrawlerDeclaration, Purpose};

use super::reader::{
    ParseResult, Section, ValueNode, boolean, checked, count, duration, network, non_empty_list,
    none_if_empty, parse_with, secret, size_or_zero, text, user_agent,
};
use super::robots::dialect_words;
use super::signing::{self, AgentDefaults, CrawlerSigner};
use super::upstream::parse_local_address;

/// The keys of `[proxy]` that apply to crawlers: the rules for requests that match no table, and a default for those that do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CrawlerDefaults {
    pub(super) require_crawler: bool,
    /// Whether clients are asked for certificates.
    pub(super) asks_for_certificates: bool,
    pub(super) mode: EnforcementMode,
}

/// The most origins of a budget: each node keeps, and writes, a digest of each.
const MAX_NEW_ORIGINS: u32 = 1_000_000;

/// The words of `mode`: refuse requests that robots.txt disallows, or only record them.
pub(super) const MODES: [(&str, EnforcementMode); 2] = [
    (EnforcementMode::Enforce.as_str(), EnforcementMode::Enforce),
    (EnforcementMode::Observe.as_str(), EnforcementMode::Observe),
];

/// Reads all `[[crawler]]` tables. `dialect` and the default mode apply to crawlers that set none, and to requests that match
/// no crawler. Paths of keys are relative to `dir`. Returns who signs for each crawler, too.
pub(super) fn read(
    root: &mut Section<'_>,
    defaults: CrawlerDefaults,
    dialect: Dialect,
    dir: &Path,
    agents: &AgentDefaults,
) -> (CrawlersConfig, Vec<CrawlerSigner>) {
    let mut names = HashSet::new();
    let mut password_hashes = HashMap::new();
    let mut signers: Vec<CrawlerSigner> = Vec::new();
    let mut catch_all = None;
    let crawlers = root.tables("crawler", |section| {
        let (crawler, signer) = read_crawler(section, defaults.mode, dialect, dir, agents);
        if let Some(other) = signers.iter().find(|other| other.has_same_key_for_another_agent(&signer)) {
            let message = format!(
                "signs for {:?}, which has another agent: verifiers tell agents apart by their keys, so each needs its own \
                 (`wayleave keys new NAME --agent URL`)",
                other.crawler
            );
            section.report("signing_key", message);
        }
        signers.push(signer);
        let is_first_of_name = names.insert(crawler.name.clone());
        if section.is_valid("name") && !is_first_of_name {
            section.report("name", format!("{:?} is the name of another crawler", crawler.name));
        }
        // Several crawlers may share an account if something else tells them apart.
        if let Some(ProxyAccount { username, password_hash }) = &crawler.account {
            let first = password_hashes.entry(username.clone()).or_insert(password_hash.clone());
            if first != password_hash {
                let message = "differs from that of another crawler with the same username";
                section.report("password_hash", message);
            }
        }
        if crawler.certificate.is_some() && !defaults.asks_for_certificates {
            section.report(
                "match",
                "certificate needs proxy.client_ca: without it, clients send no certificates",
            );
        }
        // The first table that matches decides, so none after one without criteria has an effect, unless clients can state a
        // purpose that only it declares.
        let declared = crawler.declaration.purposes;
        if let Some((name, purposes)) = &catch_all
            && declared.without(*purposes).is_empty()
        {
            section.report_table(format!(
                "can never match: {name:?}, which comes first, matches every request"
            ));
        } else if catch_all.is_none() && section.is_valid("match") && matches_all(&crawler) {
            catch_all = Some((crawler.name.clone(), declared));
        }
        crawler
    });
    let config = CrawlersConfig {
        crawlers,
        require_crawler: defaults.require_crawler,
        dialect,
        mode: defaults.mode,
    };
    (config, signers)
}

/// Returns whether a crawler has no criteria, so that every request matches it.
pub fn matches_all(crawler: &Crawler) -> bool {
    crawler.user_agent.is_none()
        && crawler.addresses.is_empty()
        && crawler.account.is_none()
        && crawler.certificate.is_none()
}

fn read_crawler(
    section: &mut Section<'_>,
    default_mode: EnforcementMode,
    robots_dialect: Dialect,
    dir: &Path,
    agents: &AgentDefaults,
) -> (Crawler, CrawlerSigner) {
    let (username, certificate, user_agent_part, addresses) = section.section("match", |section| {
        (
            section.optional("username", checked(text, check_username)),
            section.optional("certificate", |node| parse_with(node, str::parse)),
            section.optional("user_agent", text),
            section.items("addresses", network),
        )
    });
    let password_hash = section.optional(secret("password_hash"), checked(text, check_hash));
    if section.has("password_hash") && username.is_none() && section.is_valid("match") {
        section.report("password_hash", "needs match.username");
    }
    if username.is_some() && !section.has("password_hash") {
        section
            .report("match", "username needs password_hash: otherwise anyone could claim the name");
    }
    let account = username.zip(password_hash);
    let declaration = read_declaration(section);
    let signing_key = section.optional("signing_key", |node| signing::parse_key(node, dir));
    let own_agent = section.key("agent", None, none_if_empty(|node| agents.parse(node)));
    let agent = own_agent.or_else(|| agents.agent.clone());
    let triggers = [CrawlTrigger::Crawler, CrawlTrigger::Fetcher].map(|it| (it.as_str(), it));
    let subresources =
        [SubresourcePolicy::Judge, SubresourcePolicy::Page].map(|it| (it.as_str(), it));
    let refused = [RefusedSubresources::Problem, RefusedSubresources::Empty];
    let refused = refused.map(|answer| (answer.as_str(), answer));
    let crawler = Crawler {
        name: section.required("name", checked(text, check_label)).unwrap_or_default(),
        owner: section.key("owner", None, none_if_empty(text)).map(Arc::from),
        trigger: section.word("trigger", CrawlTrigger::Crawler, &triggers),
        tokens: section.required("tokens", non_empty_list(parse_token)).unwrap_or_default(),
        user_agent: user_agent_part,
        addresses,
        certificate,
        account: account.map(|(username, password_hash)| ProxyAccount { username, password_hash }),
        dialect: section.word("dialect", robots_dialect, &dialect_words()),
        mode: section.word("mode", default_mode, &MODES),
        default_delay: section.optional("default_delay", duration),
        min_delay: section.key("min_delay", Duration::ZERO, duration),
        budget: read_budget(section),
        max_response_bytes: section.key("max_response_bytes", ByteSize(0), size_or_zero).as_u64(),
        subresources: section.word("subresources", SubresourcePolicy::Judge, &subresources),
        refused_subresources: section.word(
            "refused_subresources",
            RefusedSubresources::Problem,
            &refused,
        ),
        robots_user_agent: section.optional("user_agent", user_agent).map(Arc::from),
        contact: section
            .key("contact", None, none_if_empty(checked(text, check_contact)))
            .map(Arc::from),
        user_agent_must_contain_token: section.key("user_agent_must_contain_token", false, boolean),
        source_address: section.optional("source_address", parse_local_address),
        // Decisions need no key: they name it by its thumbprint.
        signing_key: signing_key.as_ref().map(|key| key.thumbprint().into()),
        agent: agent.as_ref().map(|url| url.as_str().trim_end_matches('/').into()),
        declaration,
    };
    let signer = CrawlerSigner { crawler: crawler.name.clone(), agent, key: signing_key };
    (crawler, signer)
}

/// Reads the most that the crawler may do on one day.
fn read_budget(section: &mut Section<'_>) -> DailyBudget {
    let budget = DailyBudget {
        requests: section.key("requests_per_day", 0, count(0, u32::MAX)) as u64,
        bytes: section.key("bytes_per_day", ByteSize(0), size_or_zero).as_u64(),
        new_origins: section.key("new_origins_per_day", 0, count(0, MAX_NEW_ORIGINS)) as u64,
    };
    if budget.requests > 0 && budget.new_origins > budget.requests {
        let message = format!(
            "{} is more than requests_per_day, {}: each origin takes a request, so it limits nothing",
            budget.new_origins, budget.requests
        );
        section.report("new_origins_per_day", message);
    }
    budget
}

/// Reads what the crawler declares about its use of content, for usage preferences.
fn read_declaration(section: &mut Section<'_>) -> CrawlerDeclaration {
    let purposes = section.items("purposes", |node| parse_with(node, str::parse::<Purpose>));
    // Without purposes nobody reads them: the crawler obeys no preferences.
    for key in ["purpose_tokens", "content_use", "unstated"] {
        if section.has(key) && !section.has("purposes") {
            section.report(key, "needs purposes");
        }
    }
    let mut named = Vec::new();
    let tokens = section.entries("purpose_tokens", |name, node| {
        named.push(parse_with(node, |_| name.parse::<Purpose>())?);
        parse_token(node)
    });
    let unstated = section.optional_word("unstated", &["allow", "refuse"]);
    let words = CONTENT_USES.map(|(name, _)| name);
    let content_use = section
        .optional_word("content_use", &words)
        .and_then(|chosen| CONTENT_USES.iter().find(|(name, _)| *name == chosen));
    CrawlerDeclaration {
        purposes: purposes.into_iter().collect(),
        // A wrong token shifts the pairs, but the configuration is rejected then.
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

fn parse_token(node: &ValueNode<'_>) -> ParseResult<ProductToken> {
    parse_with(node, ProductToken::new)
}

/// Checks a user name. In Basic credentials the first colon ends it (RFC 7617 section 2).
fn check_username(name: &str) -> Result<(), String> {
    if name.contains(':') {
        return Err("must not contain \":\"".to_owned());
    }
    Ok(())
}

/// Checks a contact, which becomes a part of a comment in `User-Agent`.
fn check_contact(contact: &str) -> Result<(), String> {
    let plain = contact.strip_prefix("mailto:").unwrap_or(contact);
    let is_one = contact.bytes().all(|byte| byte.is_ascii_graphic())
        && contacts(contact).first().is_some_and(|it| it.ends_with(plain));
    if is_one { Ok(()) } else { Err(format!("{contact:?} is neither a URL nor a mail address")) }
}

fn check_label(name: &str) -> Result<(), String> {
    // It becomes a label of metrics, and names the URL and the file of the crawler's card.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if ChosenCrawler::from(name.to_owned()).is_unnamed() {
        Err(format!("{name:?} is reserved for requests that match no crawler"))
    } else if !name.is_empty() && name.bytes().all(|byte| byte == b'.') {
        Err(format!("{name:?} names a directory, and each crawler has files of its name"))
    } else if name.len() <= 64 && name.bytes().all(is_plain) {
        Ok(())
    } else {
        Err(format!("{name:?} is not 1 to 64 letters, digits, \"-\", \"_\" or \".\""))
    }
}
