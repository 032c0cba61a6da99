//! Decides about a request that nobody made, for the API's preview and `wayleave check`.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{IntoParams, ToSchema};
use wayleave_decision::{
    ClientFacts, Crawler, Crawlers, DecisionRequest, HttpsHandling, HttpsMode, Identified,
    Identity, InterceptionSettings, ResolvedTarget, TargetScope, Verdict, decide_in_dialect,
};
use wayleave_decision_log::FindingRecord;
use wayleave_record::{Word, word_schema};
use wayleave_robots_txt::{
    AccessDecision, AccessReason, AccessResult, AccessVerdict, Dialect, ProductToken, Target,
    UrlScheme, excerpt,
};
use wayleave_usage_preferences::{PurposeSet, UnknownPurpose};

use super::Decider;
use super::identify::IdentifiedClient;
use super::request::{ClientConnection, RequestView};
use super::target;

/// A request to think about.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Question {
    /// The target, such as `https://example.com/a`.
    #[param(format = "uri")]
    pub url: String,
    /// The request's User-Agent; empty unless given.
    #[serde(default)]
    #[param(required = false)]
    pub user_agent: String,
    /// A configured crawler's name; without it, the crawler that `client` and `user_agent` identify.
    #[param(format = "crawler")]
    pub crawler: Option<String>,
    /// Read robots.txt like this instead of as the crawler does.
    #[param(inline, value_type = Option<DialectSchema>)]
    pub dialect: Option<Dialect>,
    /// The address that the request comes from; 127.0.0.1 unless given.
    #[param(format = "ip-address")]
    pub client: Option<String>,
    /// GET unless given.
    pub method: Option<String>,
    /// The purpose of the request, instead of those that the crawler declares: `search`, `ai-input`, `train-ai`, `archive`,
    /// `tdm` or `other`. For several of them it is repeated, or has commas between.
    #[serde(default)]
    #[param(inline, required = false)]
    pub purpose: Vec<PurposeWords>,
}

/// One purpose, or several with commas between.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(format = "purposes")]
pub struct PurposeWords(pub String);

/// The schema of a dialect: its crate depends on no description of an API.
enum DialectSchema {}

impl utoipa::PartialSchema for DialectSchema {
    fn schema() -> RefOr<Schema> {
        let words = Dialect::ALL.iter().map(|dialect| dialect.as_str());
        Schema::from(word_schema("A way of reading robots.txt.", words)).into()
    }
}

impl ToSchema for DialectSchema {}

/// A request that nobody made, in the form in which it is decided about.
#[derive(Debug)]
pub struct HypotheticalRequest {
    pub client: IpAddr,
    pub method: String,
    pub identified: Identified,
    /// The target as if every request to it were inspected.
    pub target: ResolvedTarget,
    /// The target that would be decided about: a tunnel may not be inspected.
    pub resolved: ResolvedTarget,
    pub is_by_tunnel: bool,
}

impl Question {
    /// Returns the request as it would come.
    ///
    /// # Errors
    ///
    /// Returns the mistake in the question.
    pub fn request(
        &self,
        crawlers: &Crawlers,
        interception: &InterceptionSettings,
    ) -> Result<HypotheticalRequest, String> {
        let connection = ClientConnection::new(self.client()?);
        let identified = self.identify(crawlers, connection.client)?;
        let request = self.view();
        let target = target::resolve(&connection, &request)
            .map_err(|refusal| format!("url: {}", refusal.details))?;
        let blind = blind_scope(interception, &target.target);
        Ok(HypotheticalRequest {
            client: connection.client,
            method: request.method.to_owned(),
            identified,
            resolved: match blind {
                Some(scope) => ResolvedTarget::blind(target.target.origin().clone(), scope)
                    .map_err(|error| format!("url: {error}"))?,
                None => target.clone(),
            },
            is_by_tunnel: blind.is_some(),
            target,
        })
    }

    /// Identifies the crawler that the question is about, whatever its URL.
    ///
    /// # Errors
    ///
    /// Returns the mistake in the question.
    pub fn identified(&self, crawlers: &Crawlers) -> Result<Identified, String> {
        self.identify(crawlers, self.client()?)
    }

    fn client(&self) -> Result<IpAddr, String> {
        match &self.client {
            None => Ok(Ipv4Addr::LOCALHOST.into()),
            Some(text) => {
                text.parse().map_err(|_| format!("client: {text:?} is not an IP address"))
            }
        }
    }

    fn view(&self) -> RequestView<'_> {
        let method = self.method.as_deref().unwrap_or("GET");
        RequestView {
            method,
            target: self.url.as_str().into(),
            scheme: None,
            authority: None,
            user_agent: self.user_agent.as_bytes(),
            credentials: None,
            purposes: Vec::new(),
            only_reads: matches!(method, "GET" | "HEAD"),
            other_targets: Vec::new(),
            via: None,
            objection: None,
        }
    }

    /// Identifies the crawler that the question names, and how it reads robots.txt.
    fn identify(&self, crawlers: &Crawlers, client: IpAddr) -> Result<Identified, String> {
        let mut identified = match &self.crawler {
            None => crawlers.identify(&ClientFacts {
                client,
                username: None,
                certificate: &[],
                user_agent: self.user_agent.as_bytes(),
                purposes: &[],
            }),
            Some(name) => {
                let crawler = crawlers.named(name);
                let crawler = crawler.ok_or_else(|| format!("crawler: none is named {name:?}"))?;
                Identified::without_objection(Identity::Known(crawler))
            }
        };
        if let Some(dialect) = self.dialect {
            identified.identity = in_dialect(identified.identity, dialect);
        }
        if !self.purpose.is_empty() {
            let purposes = self.purposes()?;
            identified.purposes_from =
                Some(Arc::new(with_purposes(&identified.identity, purposes)));
        }
        Ok(identified)
    }

    fn purposes(&self) -> Result<PurposeSet, String> {
        let names = self.purpose.iter().flat_map(|PurposeWords(words)| words.split(','));
        let purposes = names.map(|name| name.trim().parse());
        let purposes: Result<PurposeSet, UnknownPurpose> = purposes.collect();
        purposes.map_err(|error| format!("purpose: {error}"))
    }
}

/// The verdict on a request that nobody made.
#[derive(Debug)]
pub struct PreviewedDecision {
    pub client: IpAddr,
    pub method: String,
    pub url: String,
    pub identity: Identity,
    pub configuration: u64,
    pub verdict: Verdict,
    /// The finding of robots.txt in each dialect; empty if robots.txt did not arrive in time.
    pub dialects: Vec<Reading>,
}

/// The finding of an origin's robots.txt about a request in one dialect.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Reading {
    #[schema(value_type = String)]
    dialect: Word<Dialect>,
    /// `allow` or `disallow`.
    #[schema(value_type = String)]
    verdict: Word<AccessVerdict>,
    /// The basis of the verdict.
    #[schema(value_type = String)]
    basis: Word<AccessReason>,
    /// The deciding rule's line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    /// The deciding rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    /// The names on the user-agent lines of the group used.
    pub group: Vec<String>,
    /// The lines of that group: its user-agent lines and rules.
    pub group_lines: Vec<u32>,
}

impl Reading {
    /// Returns the finding of robots.txt about a target in a dialect, for a crawler with these tokens.
    pub fn new(
        access: &AccessResult,
        dialect: Dialect,
        tokens: &[ProductToken],
        ResolvedTarget { target, scope }: &ResolvedTarget,
    ) -> Self {
        let decision = decide_in_dialect(*scope, access, dialect, tokens, target.path());
        Self {
            // In dialect "strictest" the decision names the dialect that decided.
            dialect: dialect.into(),
            ..decision.into()
        }
    }

    /// Returns the dialect.
    pub fn dialect(&self) -> &Word<Dialect> {
        &self.dialect
    }

    /// Returns the deciding rule's line and its verdict.
    pub fn matched_line(&self) -> Option<(u32, &Word<AccessVerdict>)> {
        Some((self.line?, &self.verdict))
    }

    /// Returns whether a decision had the same verdict by the same line.
    pub fn agrees_with(&self, finding: &FindingRecord) -> bool {
        // Earlier versions recorded long rules in full.
        let rule = finding.rule.as_deref().map(excerpt);
        self.verdict == finding.verdict
            && self.basis == finding.basis
            && self.dialect == finding.dialect
            && self.line == finding.line
            && self.rule.as_deref() == rule.as_deref()
    }
}

impl From<AccessDecision<'_>> for Reading {
    fn from(decision: AccessDecision<'_>) -> Self {
        Self {
            dialect: decision.dialect().into(),
            verdict: decision.verdict().into(),
            basis: decision.reason().into(),
            line: decision.line(),
            rule: decision.rule(),
            group: decision.group(),
            group_lines: decision.group_lines(),
        }
    }
}

/// Returns the finding of robots.txt about a target in every dialect.
pub fn readings(
    access: &AccessResult,
    identity: &Identity,
    resolved: &ResolvedTarget,
) -> Vec<Reading> {
    let reading = |&dialect: &Dialect| Reading::new(access, dialect, identity.tokens(), resolved);
    Dialect::ALL.iter().map(reading).collect()
}

impl Decider {
    /// Returns the owner of the crawler that a question is about, if it is a known one with an owner.
    ///
    /// # Errors
    ///
    /// Returns the mistake in the question.
    pub fn owner_in_question(&self, question: &Question) -> Result<Option<Arc<str>>, String> {
        let settings = self.settings();
        let request = question.request(&settings.crawlers, &settings.https)?;
        Ok(match request.identified.identity {
            Identity::Known(crawler) => crawler.owner.clone(),
            Identity::Asserted { .. } => None,
        })
    }

    /// Decides about a question, by the same steps as about a request.
    ///
    /// # Errors
    ///
    /// Returns the mistake in the question.
    pub async fn preview(&self, question: &Question) -> Result<PreviewedDecision, String> {
        let settings = self.settings();
        let request = question.request(&settings.crawlers, &settings.https)?;
        let client = IdentifiedClient {
            address: request.client,
            proof: None,
            via: None,
            fetch_identity: settings
                .identities
                .of(&request.identified.identity, question.user_agent.as_bytes()),
            identified: request.identified,
        };
        let decision_request = DecisionRequest {
            identified: &client.identified,
            method: &request.method,
            resolved: request.resolved,
            is_by_tunnel: request.is_by_tunnel,
            subresource: None,
            now: self.robots.clock().now(),
        };
        let verdict = self.decide(&settings, &client, decision_request).await.verdict;
        let origin = request.target.target.origin();
        let dialects = match self.robots.find_for(origin, client.requester()).await {
            Ok(cached) => self.robots.with_recount(origin, &client.fetch_identity, &cached, || {
                readings(cached.access(), client.identity(), &request.target)
            }),
            Err(_) => Vec::new(),
        };
        Ok(PreviewedDecision {
            client: request.client,
            method: request.method,
            url: request.target.target.to_string(),
            configuration: settings.configuration,
            identity: client.identified.identity,
            verdict,
            dialects,
        })
    }
}

/// Returns the same crawler, reading robots.txt in another dialect.
fn in_dialect(identity: Identity, dialect: Dialect) -> Identity {
    match identity {
        Identity::Known(crawler) => {
            Identity::Known(Arc::new(Crawler { dialect, ..Crawler::clone(&crawler) }))
        }
        Identity::Asserted { claim, mode, .. } => Identity::Asserted { claim, dialect, mode },
    }
}

/// Returns the scope of a decision about an origin whose HTTPS is not inspected; `None` if it is inspected or refused.
pub fn blind_scope(interception: &InterceptionSettings, target: &Target) -> Option<TargetScope> {
    let origin = target.origin();
    // Only HTTPS comes through tunnels: `ftp:` is requested in the open.
    if origin.scheme() != UrlScheme::Https {
        return None;
    }
    match interception.handling_of(origin.host()) {
        HttpsHandling::Mode(HttpsMode::Intercept | HttpsMode::Refuse) => None,
        HttpsHandling::Mode(HttpsMode::Tunnel) => Some(TargetScope::EveryPath),
        HttpsHandling::Bypass => Some(TargetScope::Bypass),
    }
}

/// Returns the crawler, or one like the client that asserts to be one, with these purposes.
fn with_purposes(identity: &Identity, purposes: PurposeSet) -> Crawler {
    let mut crawler = identity.crawler().cloned().unwrap_or_else(|| Crawler {
        dialect: identity.dialect(),
        mode: identity.mode(),
        ..Crawler::new(identity.label(), identity.tokens().to_vec())
    });
    crawler.declaration.purposes = purposes;
    crawler
}
