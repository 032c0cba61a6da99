//! Decides about a hypothetical request, for the API's preview.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use wayleave_robots_txt::{Dialect, Origin, Scheme, Target};
use wayleave_usage_preferences::{CrawlerDeclaration, PurposeSet, UnknownPurpose};

use super::Decider;
use super::consult::{self, Judge};
use super::https::{HttpsHandling, HttpsMode};
use super::identify::{self, IdentifiedClient, Identity};
use super::permit::DecidedRequest;
use super::request::{ClientConnection, RequestView};
use super::settings::Settings;
use super::target::{IncomingRequest, TargetScope};
use crate::identity::{Crawler, Crawlers};

/// A request to think about.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Question {
    /// The target, such as `https://example.com/a`.
    #[param(format = "uri")]
    url: String,
    /// The request's User-Agent; empty unless given.
    #[serde(default)]
    #[param(required = false)]
    user_agent: String,
    /// A configured crawler's name; without it, whoever `client` and `user_agent` lead to.
    #[param(format = "crawler")]
    crawler: Option<String>,
    /// Read robots.txt like this instead of as the crawler does.
    #[param(inline)]
    dialect: Option<DialectWord>,
    /// Where the request comes from; 127.0.0.1 unless given.
    #[param(format = "ip-address")]
    client: Option<String>,
    /// GET unless given.
    method: Option<String>,
    /// What it would be fetched for, instead of what the crawler declares: `search`, `ai-input`, `train-ai`, `archive`, `tdm` or
    /// `other`. For several of them it is repeated, or has commas between.
    #[serde(default)]
    #[param(inline, required = false)]
    purpose: Vec<PurposeWords>,
}

/// One purpose, or several with commas between.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(format = "purposes")]
struct PurposeWords(String);

/// A way of reading robots.txt.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DialectWord {
    Rfc9309,
    Google,
    Koster1996,
    Selfhtml,
    Strictest,
}

impl From<DialectWord> for Dialect {
    fn from(word: DialectWord) -> Self {
        match word {
            DialectWord::Rfc9309 => Self::Rfc9309,
            DialectWord::Google => Self::Google,
            DialectWord::Koster1996 => Self::Koster1996,
            DialectWord::Selfhtml => Self::Selfhtml,
            DialectWord::Strictest => Self::Strictest,
        }
    }
}

impl Question {
    fn client(&self) -> Result<IpAddr, String> {
        match &self.client {
            None => Ok(Ipv4Addr::LOCALHOST.into()),
            Some(text) => text
                .parse()
                .map_err(|_| format!("client: {text:?} is not an IP address")),
        }
    }

    fn request(&self) -> RequestView<'_> {
        let method = self.method.as_deref().unwrap_or("GET");
        RequestView {
            method,
            target: self.url.as_str().into(),
            scheme: None,
            authority: None,
            user_agent: self.user_agent.as_bytes(),
            credentials: None,
            only_reads: matches!(method, "GET" | "HEAD"),
            other_paths: Vec::new(),
            via: None,
            objection: None,
        }
    }
}

/// What would be decided about a request.
#[derive(Debug)]
pub(crate) struct PreviewedDecision {
    pub(crate) client: IpAddr,
    pub(crate) method: String,
    pub(crate) identity: Identity,
    pub(crate) configuration: u64,
    pub(crate) decided: DecidedRequest,
    /// What robots.txt says in each dialect; empty if it did not come in time.
    pub(crate) dialects: Vec<Reading>,
}

/// What an origin's robots.txt says of a request in one dialect.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Reading {
    dialect: &'static str,
    /// `allow` or `disallow`.
    verdict: &'static str,
    /// What the verdict rests on.
    basis: &'static str,
    /// The deciding rule's line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    /// The deciding rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    /// The names on the user-agent lines of the group used.
    group: Vec<String>,
    /// The lines of that group: its user-agent lines and rules.
    group_lines: Vec<u32>,
}

impl Decider {
    /// Decides as for a request, by the same steps.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with the question.
    pub(crate) async fn preview(&self, question: &Question) -> Result<PreviewedDecision, String> {
        let connection = ClientConnection {
            client: question.client()?,
            peer: None,
            certificate: None,
            proof: None,
            tunnel: None,
        };
        let request = question.request();
        let settings = self.settings();
        let identified = identify_as_asked(&settings.crawlers, question, &connection, &request)?;
        let mut asking = IncomingRequest::new(&connection, &request);
        let resolved = asking.resolve();
        let resolved = resolved.map_err(|refusal| format!("url: {}", refusal.details))?;
        let (target, judge) = (&resolved.target, consult::judge_of(resolved.scope));
        asking.blind = as_it_would_come(&settings, target);
        let decided = self.decide(&settings, &identified, asking).await;
        let dialects = self.readings(&identified.identity, target, judge).await;
        Ok(PreviewedDecision {
            client: connection.client,
            method: request.method.to_owned(),
            identity: identified.identity,
            configuration: settings.configuration,
            decided: DecidedRequest {
                url: target.to_string(),
                ..decided
            },
            dialects,
        })
    }

    /// What the target's robots.txt says in every dialect.
    async fn readings(&self, identity: &Identity, target: &Target, judge: Judge) -> Vec<Reading> {
        let origin = target.origin();
        let Ok(known) = self.robots.find(origin).await else {
            return Vec::new();
        };
        let reading = |dialect: Dialect| {
            let access = known.access();
            let decision = judge(access, dialect, identity.tokens(), target.path());
            Reading {
                dialect: dialect.as_str(),
                verdict: decision.verdict().as_str(),
                basis: decision.reason().as_str(),
                line: decision.line(),
                rule: decision.rule(),
                group: decision.group(),
                group_lines: decision.group_lines(),
            }
        };
        let in_all = || Dialect::ALL.map(reading).into();
        self.robots.with_recount(origin, &known, in_all)
    }
}

/// The same crawler, reading robots.txt in another dialect.
fn in_dialect(identity: Identity, dialect: Dialect) -> Identity {
    match identity {
        Identity::Known(crawler) => Identity::Known(Arc::new(Crawler {
            dialect,
            ..Crawler::clone(&crawler)
        })),
        Identity::Asserted { claim, mode, .. } => Identity::Asserted {
            claim,
            dialect,
            mode,
        },
    }
}

/// HTTPS comes by `CONNECT`: how much of it would be allowed without being seen, if it would not be intercepted.
fn as_it_would_come<'a>(
    settings: &Settings,
    target: &'a Target,
) -> Option<(&'a Origin, TargetScope)> {
    let origin = target.origin();
    if origin.scheme() == Scheme::Http {
        return None;
    }
    match settings.https.handling_of(origin.host()) {
        HttpsHandling::Mode(HttpsMode::Intercept | HttpsMode::Refuse) => None,
        HttpsHandling::Mode(HttpsMode::Tunnel) => Some((origin, TargetScope::EveryPath)),
        HttpsHandling::Bypass => Some((origin, TargetScope::Bypass)),
    }
}

/// Who the question says is asking, and how it reads robots.txt.
fn identify_as_asked(
    crawlers: &Crawlers,
    question: &Question,
    connection: &ClientConnection,
    request: &RequestView<'_>,
) -> Result<IdentifiedClient, String> {
    let identified = match &question.crawler {
        None => identify::recognised(crawlers, connection, None, request),
        Some(name) => {
            let crawler = crawlers.named(name);
            let crawler = crawler.ok_or_else(|| format!("crawler: none is named {name:?}"))?;
            IdentifiedClient {
                client: connection.client,
                identity: Identity::Known(crawler),
                proof: None,
                objection: None,
                purposes_from: None,
                via: None,
            }
        }
    };
    let identified = match question.dialect {
        None => identified,
        Some(dialect) => IdentifiedClient {
            identity: in_dialect(identified.identity, dialect.into()),
            ..identified
        },
    };
    match &question.purpose[..] {
        [] => Ok(identified),
        words => for_purposes(identified, words),
    }
}

/// The same crawler, or whoever asserts to be one, if it declared these purposes.
fn for_purposes(
    identified: IdentifiedClient,
    words: &[PurposeWords],
) -> Result<IdentifiedClient, String> {
    let names = words
        .iter()
        .flat_map(|PurposeWords(words)| words.split(','));
    let purposes = names.map(|name| name.trim().parse());
    let purposes: Result<PurposeSet, UnknownPurpose> = purposes.collect();
    let purposes = purposes.map_err(|error| format!("purpose: {error}"))?;
    let identity = &identified.identity;
    let crawler = identity.crawler().cloned();
    let mut crawler = crawler.unwrap_or_else(|| Crawler {
        name: identity.label().to_owned(),
        tokens: identity.tokens().to_vec(),
        user_agent: None,
        addresses: Vec::new(),
        account: None,
        dialect: identity.dialect(),
        mode: identity.mode(),
        default_delay: None,
        robots_user_agent: None,
        user_agent_must_contain_token: false,
        signing_key: None,
        source_address: None,
        certificate: None,
        declaration: CrawlerDeclaration::default(),
    });
    crawler.declaration.purposes = purposes;
    Ok(IdentifiedClient {
        purposes_from: Some(Arc::new(crawler)),
        ..identified
    })
}
