//! The `[[crawler]]` that would name unnamed requests, as the page offers it.
//!
//! Pasting it must not end a refusal without a word about it. So it has no `mode`, which it inherits as unnamed
//! requests do; it matches as little as it can; and names that many programs share are not offered at all.

use ipnet::IpNet;
use serde::Serialize;
use toml::Value;
use utoipa::ToSchema;
use wayleave_decision::{ASSERTED, Crawlers, PolicyRules, RuleAction};
use wayleave_robots_txt::ProductToken;

/// The text that introduces a crawler's name in a browser-like `User-Agent`.
const COMPATIBLE: &str = "compatible;";

/// The longest name of a crawler.
const MAX_NAME_BYTES: usize = 64;

/// The names of browsers, of HTTP libraries and of other programs that any crawler may be made with, in lower case.
const SHARED_NAMES: &str = "\
    aiohttp android apache-httpasyncclient apache-httpclient apache-nutch applewebkit aria2 axios bun cfnetwork \
    chrome chromium colly crawlee crawler4j crios curl cypress dalvik dart deno edg edge electron faraday \
    fasthttp firefox fxios gecko go-http-client got guzzle guzzlehttp headlesschrome heritrix http-client httpie \
    httpx hyper insomnia jakarta java jersey jsoup khtml ktor-client libcurl libwww-perl like links \
    lua-resty-http lwp lynx mechanize mobile mozilla msie needle node node-fetch nutch okhttp opera opr perl \
    phantomjs php playwright postmanruntime powershell presto puppeteer python python-httpx python-requests \
    python-urllib python-urllib3 reactor-netty req reqwest requests rest-client restsharp ruby safari scrapy \
    selenium simplepie superagent symfony trident typhoeus undici ureq urlgrabber version webkit wget wget2 \
    windowspowershell winhttp";

/// The sender of unnamed requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnnamedSender<'a> {
    pub(crate) user_agent: &'a str,
    /// The client's address as it is logged, if the sender is a client.
    pub(crate) address: Option<&'a str>,
}

/// The way to name a sender.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CrawlerNaming {
    /// The `[[crawler]]` that matches these requests, as TOML; null: there is none that matches only them.
    pub(crate) table: Option<String>,
    /// The effects of this table beyond counting the requests by its name, or else the way to get a name.
    pub(crate) advice: Vec<String>,
}

impl CrawlerNaming {
    fn none(advice: String) -> Self {
        Self { table: None, advice: vec![advice] }
    }
}

impl UnnamedSender<'_> {
    /// Returns the table that names this sender, for a configuration with these crawlers and rules.
    pub(crate) fn naming(self, crawlers: &Crawlers, rules: &PolicyRules) -> CrawlerNaming {
        let Some(token) = ProductToken::from_user_agent(self.user_agent.as_bytes()) else {
            return CrawlerNaming::none(format!("Its User-Agent names no product: {GET_A_NAME}"));
        };
        let token = token.as_str();
        if SHARED_NAMES.split(' ').any(|name| name.eq_ignore_ascii_case(token)) {
            return CrawlerNaming::none(format!(
                "{token} is the name of a library or a browser, which others send as well: {GET_A_NAME}"
            ));
        }
        let part = distinctive_part(self.user_agent, token);
        let name = new_name(token, &crawlers.names());
        let mut criteria = format!("user_agent = {}", quoted(part));
        // The logged address may be a digest, which matches no client.
        if let Some(address) = self.address.filter(|address| is_network(address)) {
            criteria += &format!(", addresses = [{}]", quoted(address));
        }
        CrawlerNaming {
            table: Some(format!(
                "[[crawler]]  # after all others: the first that matches a request is used\nname = {}\ntokens = [{}]\n\
                 match = {{ {criteria} }}\n# owner = \"team@example.com\"\n",
                quoted(&name),
                quoted(token)
            )),
            advice: effects(part, token, &name, crawlers.require_crawler, rules),
        }
    }
}

const GET_A_NAME: &str = "give the crawler one of its own, such as \"AcmeBot/1.0 (+https://example.com/bot)\", and name that.";

/// Describes the requests that may no longer be refused with this table.
fn effects(
    part: &str,
    token: &str,
    name: &str,
    require_crawler: bool,
    rules: &PolicyRules,
) -> Vec<String> {
    let mut effects = vec![format!(
        "It takes every request whose User-Agent contains {part:?}, whatever other names are in it, and judges it as {token}."
    )];
    if require_crawler {
        effects.push(
            "proxy.require_crawler refuses these requests now; with this table they are forwarded if robots.txt allows it."
                .to_owned(),
        );
    }
    let refuses_unnamed = rules.all().filter(|(_, rule)| {
        rule.action != RuleAction::Allow && rule.crawlers.iter().any(|known| known == ASSERTED)
    });
    effects.extend(refuses_unnamed.map(|(number, _)| {
        format!(
            "[[rule]] {number} refuses unnamed requests (\"asserted\"): add {name:?} to its crawlers, or it no longer applies to these."
        )
    }));
    effects
}

/// Returns the part of a `User-Agent` that a crawler's requests have in common: all up to its name if that follows
/// `compatible;`, since the version after it changes, else the whole.
fn distinctive_part<'a>(user_agent: &'a str, token: &str) -> &'a str {
    let after_name = || {
        let folded = user_agent.to_ascii_lowercase();
        let comment = folded.find(COMPATIBLE)? + COMPATIBLE.len();
        let name = comment + folded[comment..].find(&token.to_ascii_lowercase())?;
        // With the character after it, so that no longer name matches.
        let end = name + token.len();
        let next = user_agent[end..].chars().next()?;
        Some(&user_agent[..end + next.len_utf8()])
    };
    after_name().unwrap_or(user_agent)
}

/// Returns a name that a new `[[crawler]]` may have.
fn new_name(token: &str, known: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let plain: String =
        token.chars().map(|c| if is_plain(c) { c.to_ascii_lowercase() } else { '-' }).collect();
    let plain = plain.trim_matches(['-', '.']);
    let plain = if plain.is_empty() || plain == ASSERTED { "crawler" } else { plain };
    // Room for a number after it.
    let plain = &plain[..plain.len().min(MAX_NAME_BYTES - 8)];
    let numbered = (2..).map(|number| format!("{plain}-{number}"));
    let mut names = std::iter::once(plain.to_owned()).chain(numbered);
    names.find(|name| !known.contains(name)).expect("there are more numbers than crawlers")
}

fn is_network(address: &str) -> bool {
    address.parse::<IpNet>().is_ok() || address.parse::<std::net::IpAddr>().is_ok()
}

/// Returns a string of TOML in one line.
fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}
