//! The signature agent card of a crawler: who sends its requests, what for, and by which rules
//! (draft-meunier-webbotauth-registry-04).

use bytesize::ByteSize;
use serde::Serialize;
use wayleave_config::Config;
use wayleave_decision::{
    Crawler, DailyBudget, EnforcementMode, PolicyRule, RuleAction, SubresourcePolicy, contacts,
};
use wayleave_pacing::{CrawlDelayMode, PacingConfig};
use wayleave_robots_txt::HostPattern;
use wayleave_signing::SigningAgent;
use wayleave_usage_preferences::{PreferenceSource, Purpose, SourceSet, TDMREP_PATH};

/// The path of a crawler's card, without `/` and its name.
pub(crate) const CARD_PATH: &str = "/.well-known/signature-agent-card";
/// The path of the address ranges.
pub(crate) const RANGES_PATH: &str = "/ips.json";
/// The path of a crawler's page, without `/` and its name.
pub(crate) const PAGE_PATH: &str = "/crawlers";

/// A crawler, and the settings that its card states.
#[derive(Clone, Copy, Debug)]
pub(super) struct CardSubject<'a> {
    pub(super) agent: &'a SigningAgent,
    pub(super) crawler: &'a Crawler,
    pub(super) pacing: &'a PacingConfig,
    pub(super) sources: SourceSet,
    pub(super) config: &'a Config,
    /// The `User-Agent` of fetches that no crawler asked for, whose contact is that of crawlers without one.
    pub(super) proxy_user_agent: &'a str,
}

/// The card, with members as OAuth clients have them (RFC 7591).
#[derive(Debug, Serialize)]
struct AgentCard<'a> {
    client_id: String,
    client_name: &'a str,
    client_uri: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    contacts: Vec<String>,
    jwks_uri: String,
    web_bot_auth: CardDetails<'a>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct CardDetails<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_user_agent: Option<String>,
    rfc9309_product_token: &'a str,
    /// Whether sites can rely on it that robots.txt is followed.
    rfc9309_compliance: bool,
    trigger: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    purpose: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_control: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_expectation: Option<String>,
    /// The files of each site that are fetched on the crawler's behalf.
    known_urls: Vec<&'static str>,
    #[serde(rename = "ips_uri")]
    ips_uri: String,
}

impl CardSubject<'_> {
    /// Returns the card as JSON.
    pub(super) fn card(&self) -> String {
        let base = self.agent.origin();
        let Crawler { name, tokens, trigger, declaration, .. } = self.crawler;
        // The configuration demands at least one token.
        let token = tokens[0].as_str();
        let purposes: Vec<_> = declaration.purposes.iter().map(Purpose::as_str).collect();
        let card = AgentCard {
            client_id: format!("{base}{CARD_PATH}/{name}"),
            client_name: token,
            client_uri: format!("{base}{PAGE_PATH}/{name}.html"),
            contacts: crawler_contacts(self.crawler, self.proxy_user_agent),
            jwks_uri: self.agent.key_set_url(),
            web_bot_auth: CardDetails {
                expected_user_agent: self.expected_user_agent(),
                rfc9309_product_token: token,
                rfc9309_compliance: obeys_robots_txt(self.config, self.crawler),
                trigger: trigger.as_str(),
                purpose: (!purposes.is_empty()).then(|| purposes.join(", ")),
                rate_control: self.rate_control(),
                rate_expectation: self.rate_expectation(),
                known_urls: self.known_urls(),
                ips_uri: format!("{base}{RANGES_PATH}"),
            },
        };
        serde_json::to_string_pretty(&card).expect("strings are JSON") + "\n"
    }

    /// Returns the `User-Agent`, or a pattern for it, as far as the configuration knows it.
    fn expected_user_agent(&self) -> Option<String> {
        let contained = self.crawler.user_agent.as_ref().map(|part| format!("*{part}*"));
        self.crawler.robots_user_agent.as_deref().map(str::to_owned).or(contained)
    }

    fn known_urls(&self) -> Vec<&'static str> {
        let tdmrep = PreferenceSource::Tdmrep;
        let is_fetched =
            self.sources.contains(tdmrep) && self.crawler.declaration.could_be_refused_by(tdmrep);
        ["/robots.txt"].into_iter().chain(is_fetched.then_some(TDMREP_PATH)).collect()
    }

    fn keeps_delays(&self) -> bool {
        self.crawler.mode == EnforcementMode::Enforce
            && self.pacing.crawl_delay != CrawlDelayMode::Ignore
    }

    fn rate_control(&self) -> Option<&'static str> {
        self.keeps_delays().then_some(if self.pacing.rate_limit_fields {
            "Crawl-delay in robots.txt; 429 and 503 with Retry-After; RateLimit"
        } else {
            "Crawl-delay in robots.txt; 429 and 503 with Retry-After"
        })
    }

    /// Returns the most that an origin, and all of them together, should expect: the delay, and the budgets of a day.
    fn rate_expectation(&self) -> Option<String> {
        if self.crawler.mode == EnforcementMode::Observe {
            return None;
        }
        let mut limits = Vec::new();
        let delay = self.pacing.delay(self.crawler.default_delay, self.crawler.min_delay);
        if !delay.is_zero() {
            let delay = humantime::format_duration(delay);
            limits.push(format!("one request to an origin every {delay}"));
        }
        let DailyBudget { requests, bytes, new_origins } = self.crawler.budget;
        if requests > 0 {
            limits.push(format!("at most {requests} requests a day to all origins"));
        }
        if bytes > 0 {
            limits.push(format!("at most {} a day from all origins", ByteSize(bytes)));
        }
        if new_origins > 0 {
            limits.push(format!("at most {new_origins} origins a day"));
        }
        (!limits.is_empty()).then(|| limits.join("; "))
    }
}

/// Returns whether sites can rely on robots.txt being obeyed: nothing is only observed, no page loads what is disallowed, no text is
/// pinned in place of a site's own, and no exception is for all hosts, even if it has expired.
pub(crate) fn obeys_robots_txt(config: &Config, crawler: &Crawler) -> bool {
    let is_exception_for_all = |rule: &PolicyRule| {
        rule.action == RuleAction::Allow
            && rule.applies_to_crawler(&crawler.name, crawler.declaration.purposes)
            && rule.hosts.contains(&HostPattern::Any)
    };
    crawler.mode == EnforcementMode::Enforce
        && crawler.subresources == SubresourcePolicy::Judge
        && config.robots.pinned.is_empty()
        && !config.rules.iter().any(is_exception_for_all)
}

/// Returns the URIs at which a crawler's operator can be reached: its contact, the owner's, then those in its
/// `User-Agent`; if there are none, those in `proxy_user_agent`.
pub(crate) fn crawler_contacts(crawler: &Crawler, proxy_user_agent: &str) -> Vec<String> {
    let mut found = Vec::new();
    let texts = [
        crawler.contact.as_deref(),
        crawler.owner.as_deref(),
        crawler.robots_user_agent.as_deref(),
    ];
    for contact in texts.into_iter().flatten().flat_map(contacts) {
        if !found.contains(&contact) {
            found.push(contact);
        }
    }
    if found.is_empty() { contacts(proxy_user_agent) } else { found }
}
