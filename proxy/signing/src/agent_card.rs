//! The signature agent card of a crawler: who sends its requests, what for, and by which rules
//! (draft-meunier-webbotauth-registry-03).

use serde::Serialize;
use url::Url;
use wayleave_decision::{Crawler, EnforcementMode, contacts};
use wayleave_pacing::{CrawlDelayMode, PacingConfig};
use wayleave_usage_preferences::{PreferenceSource, Purpose, SourceSet, TDMREP_PATH};

use super::directory::DIRECTORY_PATH;
use super::settings::agent_uri;

/// The path of a crawler's card, without `/` and its name.
pub const CARD_PATH: &str = "/.well-known/signature-agent-card";
/// The path of the address ranges.
pub const RANGES_PATH: &str = "/ips.json";
/// The path of a crawler's page, without `/` and its name.
pub const PAGE_PATH: &str = "/crawlers";

/// A crawler, and the settings that its card states.
#[derive(Clone, Copy, Debug)]
pub struct CardSubject<'a> {
    pub agent: &'a Url,
    pub crawler: &'a Crawler,
    pub pacing: &'a PacingConfig,
    pub sources: SourceSet,
    /// Whether the crawler's page and the address ranges are published at the agent, too.
    pub has_page_and_ranges: bool,
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
    /// The lines of robots.txt that are obeyed.
    rfc9309_compliance: Vec<&'static str>,
    trigger: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    purpose: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_control: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_expectation: Option<String>,
    /// The files of each site that are fetched on the crawler's behalf.
    known_urls: Vec<&'static str>,
    #[serde(rename = "ips_uri", skip_serializing_if = "Option::is_none")]
    ips_uri: Option<String>,
}

impl CardSubject<'_> {
    /// Returns the card as JSON.
    pub fn card(&self) -> String {
        let base = agent_uri(self.agent).trim_end_matches('/');
        let Crawler { name, tokens, trigger, declaration, .. } = self.crawler;
        // The configuration demands at least one token.
        let token = tokens[0].as_str();
        let purposes: Vec<_> = declaration.purposes.iter().map(Purpose::as_str).collect();
        let card = AgentCard {
            client_id: format!("{base}{CARD_PATH}/{name}"),
            client_name: token,
            client_uri: if self.has_page_and_ranges {
                format!("{base}{PAGE_PATH}/{name}.html")
            } else {
                base.to_owned()
            },
            contacts: crawler_contacts(self.crawler),
            jwks_uri: format!("{base}{DIRECTORY_PATH}"),
            web_bot_auth: CardDetails {
                expected_user_agent: self.expected_user_agent(),
                rfc9309_product_token: token,
                rfc9309_compliance: self.obeyed_lines(),
                trigger: trigger.as_str(),
                purpose: (!purposes.is_empty()).then(|| purposes.join(", ")),
                rate_control: self.rate_control(),
                rate_expectation: self.rate_expectation(),
                known_urls: self.known_urls(),
                ips_uri: self.has_page_and_ranges.then(|| format!("{base}{RANGES_PATH}")),
            },
        };
        serde_json::to_string_pretty(&card).expect("strings are JSON") + "\n"
    }

    /// Returns the `User-Agent`, or a pattern for it, as far as the configuration knows it.
    fn expected_user_agent(&self) -> Option<String> {
        let contained = self.crawler.user_agent.as_ref().map(|part| format!("*{part}*"));
        self.crawler.robots_user_agent.as_deref().map(str::to_owned).or(contained)
    }

    /// Returns the names of the lines in robots.txt that are obeyed. A crawler that is only observed may fetch what any of them
    /// disallows, so its card must not promise to obey.
    fn obeyed_lines(&self) -> Vec<&'static str> {
        if self.crawler.mode == EnforcementMode::Observe {
            return Vec::new();
        }
        let mut lines = vec!["User-Agent", "Allow", "Disallow"];
        if self.keeps_delays() {
            lines.extend(["Crawl-delay", "Request-rate"]);
        }
        for (source, names) in [
            (PreferenceSource::ContentUsage, &["Content-Usage"][..]),
            (PreferenceSource::ContentSignal, &["Content-Signal"]),
            (PreferenceSource::AiTrainingRule, &["DisallowAITraining", "AllowAITraining"]),
            (PreferenceSource::Rsl, &["License"]),
        ] {
            if self.sources.contains(source) && self.crawler.declaration.could_be_refused_by(source)
            {
                lines.extend(names);
            }
        }
        lines
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

    fn rate_expectation(&self) -> Option<String> {
        let delay = self.pacing.delay(self.crawler.default_delay, self.crawler.min_delay);
        let is_kept = self.crawler.mode == EnforcementMode::Enforce && !delay.is_zero();
        is_kept.then(|| {
            format!("one request to an origin every {}", humantime::format_duration(delay))
        })
    }
}

/// Returns the URIs at which a crawler's operator can be reached: its contact, the owner's, then those in its
/// `User-Agent`.
pub fn crawler_contacts(crawler: &Crawler) -> Vec<String> {
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
    found
}
