//! One configuration, by which all callers of the decision decide.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::{Map, Value};
use wayleave_admission::Decider;
use wayleave_admission::identify;
use wayleave_admission::preview::{PreviewedDecision, Question};
use wayleave_admission::record;
use wayleave_admission::request::{ClientConnection, ConnectTunnel, RequestView};
use wayleave_admission::settings::{CurrentSettings, Settings};
use wayleave_admission::target;
use wayleave_assembly::wiring::{self, OutboundConfig};
use wayleave_clock::Clock;
use wayleave_config::Config;
use wayleave_decision::{
    ClientFacts, Crawlers, CrawlersConfig, DecisionFacts, DecisionRequest, HttpsHandling,
    HttpsMode, InterceptionSettings, PolicyRule, Reason, Refusal, TargetScope, Verdict,
    decide_own_request,
};
use wayleave_decision_log::{DecisionRecord, LogWord, MAX_USER_AGENT_BYTES, WAYLEAVE};
use wayleave_evidence::Sha256Digest;
use wayleave_fairness::WorkPool;
use wayleave_lifecycle::Resource;
use wayleave_record::RecordedIdentity;
use wayleave_robots_cache::{RobotsCache, RobotsCacheConfig, RobotsStore};
use wayleave_robots_txt::{Origin, Target, UrlScheme};
use wayleave_telemetry::metrics::Metrics;
use wayleave_upstream::Upstream;

use super::sites::{CheckedSites, Sites};
use crate::admin::preview::Preview;
use crate::cli::check::verdict::ProxySettings;

/// The day on which everything happens: 2026-11-25.
const TODAY: Duration = Duration::from_secs(1_795_564_800);

/// The members of a decision, or of a preview, that are the verdict.
const VERDICT_MEMBERS: [&str; 10] = [
    "outcome", "reason", "status", "would_be", "policy", "verdict", "basis", "dialect", "line",
    "rule",
];

/// The parts that no configuration changes, built once.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) clock: Clock,
    metrics: Arc<Metrics>,
    upstream: Arc<Upstream>,
}

impl Parts {
    /// Builds the parts. Must be called within a tokio runtime.
    pub(super) fn new() -> Self {
        let clock = Clock::start_at(SystemTime::UNIX_EPOCH + TODAY);
        let metrics = Arc::new(Metrics::new().unwrap());
        let outbound = OutboundConfig::new(&Config::default(), &[]);
        let outbound = wiring::outbound_clients(outbound, clock, &metrics).unwrap();
        Self { clock, upstream: outbound.upstream, metrics }
    }
}

/// A request, as a client makes it.
#[derive(Clone, Debug)]
pub(super) struct CrawlRequest {
    pub(super) method: String,
    pub(super) url: String,
    pub(super) user_agent: String,
    pub(super) client: IpAddr,
    /// Whether HTTPS is requested inside a tunnel, if tunnels are inspected.
    pub(super) is_in_tunnel: bool,
    /// The objection to the client: something that it failed to prove.
    pub(super) objection: Option<Reason>,
}

impl CrawlRequest {
    pub(super) fn get(url: &str, user_agent: &str) -> Self {
        Self {
            method: "GET".to_owned(),
            url: url.to_owned(),
            user_agent: user_agent.to_owned(),
            client: [127, 0, 0, 1].into(),
            is_in_tunnel: true,
            objection: None,
        }
    }

    fn question(&self) -> Question {
        Question {
            url: self.url.clone(),
            user_agent: self.user_agent.clone(),
            client: Some(self.client.to_string()),
            method: Some(self.method.clone()),
            ..Question::default()
        }
    }

    /// Returns the recorded part of the User-Agent, and whether it was cut.
    fn recorded_user_agent(&self) -> (String, bool) {
        let cut = self.user_agent.floor_char_boundary(MAX_USER_AGENT_BYTES);
        (self.user_agent[..cut].to_owned(), cut < self.user_agent.len())
    }
}

/// A configuration, and the files of the origins.
pub(super) struct World {
    parts: Parts,
    settings: Arc<Settings>,
    decider: Decider,
    check: ProxySettings,
    pub(super) sites: Sites,
    /// The configuration as it is archived.
    pub(super) text: String,
    pub(super) digest: Sha256Digest,
}

impl World {
    /// Starts a cache for the configuration. Must be called within a tokio runtime.
    pub(super) fn start(parts: &Parts, text: &str, sites: Sites) -> Self {
        let config = Config::from_toml("config.toml", text);
        let config = config.unwrap_or_else(|mistakes| panic!("{mistakes:?} in {text}"));
        let Parts { clock, metrics, upstream } = parts.clone();
        let store = RobotsStore::in_memory(clock, Arc::clone(&metrics));
        let cache_config = RobotsCacheConfig::default();
        let (robots, _) = RobotsCache::start(sites.clone(), store, &cache_config, clock, metrics);
        let settings = wiring::build_settings(&config, None, upstream, Arc::default(), clock.now());
        let current = Arc::new(CurrentSettings::new(settings));
        let text = config.public_toml(&config);
        Self {
            parts: parts.clone(),
            settings: current.load(),
            decider: Decider::new(current, robots),
            check: ProxySettings::new(&config),
            digest: Sha256Digest::of(text.as_bytes()),
            sites,
            text,
        }
    }

    /// Fetches every file, so that no decision has to find out at which address an origin is.
    pub(super) async fn prime(&self) {
        for url in self.sites.urls() {
            // A robots.txt is known by its origin.
            let resource = url.strip_suffix("/robots.txt").unwrap_or(&url);
            let _pending = self.decider.robots.find(Resource::parse(resource).unwrap()).await;
        }
    }

    /// Returns the pool for what takes long.
    pub(super) fn pool(&self) -> &WorkPool {
        self.decider.robots.parser()
    }

    /// Decides as the proxy does for a request, and returns what it records.
    pub(super) async fn decide(&self, request: &CrawlRequest) -> DecisionRecord {
        let settings = &self.settings;
        let target = Target::parse(&request.url).ok();
        let origin = target.as_ref().map(Target::origin);
        let https = origin.filter(|origin| origin.scheme() == UrlScheme::Https);
        let blind = https.and_then(|origin| {
            blind_scope(&settings.https, origin.host()).map(|scope| (origin, scope))
        });
        let is_inspected = settings.https.mode == HttpsMode::Intercept && blind.is_none();
        let tunnel = https.filter(|_| is_inspected && request.is_in_tunnel);
        let connection = connection(request.client, tunnel);
        let method = if blind.is_some() { "CONNECT" } else { request.method.as_str() };
        let view = view(method, request);
        let mut client = identify::identify_with_proof(settings, &connection, None, &view);
        if let Some(reason) = request.objection {
            client.identified.objection = Some(Refusal::new(reason, "it proved nothing"));
        }
        let resolved = match blind {
            Some((origin, scope)) => target::resolve_blind(origin, scope),
            None => target::resolve(&connection, &view),
        };
        let url = match (&resolved, blind) {
            (Err(_), _) => request.url.clone(),
            (Ok(_), Some((origin, _))) => format!("{}:{}", origin.host(), origin.port()),
            (Ok(resolved), None) => resolved.target.to_string(),
        };
        let verdict = match resolved {
            Err(refusal) => Verdict { facts: DecisionFacts::default(), result: Err(refusal) },
            Ok(resolved) => {
                let decision = DecisionRequest {
                    identified: &client.identified,
                    method,
                    resolved,
                    is_by_tunnel: connection.tunnel.is_some() || blind.is_some(),
                    subresource: None,
                    now: self.parts.clock.now(),
                };
                self.decider.decide(settings, &client, decision).await.verdict
            }
        };
        let (user_agent, user_agent_cut) = request.recorded_user_agent();
        let decided = PreviewedDecision {
            url,
            method: method.to_owned(),
            client: request.client,
            identity: client.identified.identity,
            configuration: settings.configuration,
            verdict,
            dialects: Vec::new(),
        };
        DecisionRecord {
            user_agent: Some(user_agent),
            user_agent_cut,
            ..record::preview(decided, self.parts.clock.now()).0
        }
    }

    /// Decides as the API's preview does.
    pub(super) async fn preview(&self, request: &CrawlRequest) -> Result<Value, String> {
        let previewed = self.decider.preview(&request.question()).await?;
        Ok(verdict_members(&Preview::new(previewed, self.parts.clock.now())))
    }

    /// Decides as `wayleave check` does.
    pub(super) fn check(&self, request: &CrawlRequest) -> Result<Value, String> {
        let mut files = CheckedSites { sites: &self.sites, now: self.parts.clock.now() };
        let verdict = self.check.decide(&request.question(), &[], &mut files)?;
        Ok(verdict_members(&verdict))
    }

    /// Decides as for a redirect of a robots.txt to this URL, and returns what is recorded.
    pub(super) fn redirect(&self, target: &Target) -> DecisionRecord {
        let verdict = decide_own_request(&self.settings.rules, target, self.parts.clock.now());
        DecisionRecord {
            crawler: LogWord::Borrowed(WAYLEAVE),
            identity: RecordedIdentity::Known.into(),
            tokens: Vec::new(),
            configuration: self.settings.configuration,
            ..recorded(target.to_string(), verdict, self.parts.clock.now())
        }
    }

    /// Returns whether only rules count, and all that could match are for everybody, so that a redirect and a request of `decision`
    /// are decided alike.
    pub(super) fn is_decided_by_rules_for_all(&self, decision: &DecisionRecord) -> bool {
        let is_for_all = |rule: &PolicyRule| rule.crawlers.is_empty() && rule.purposes.is_empty();
        self.settings.rules.all().all(|(_, rule)| is_for_all(rule))
            && decision.is_decided()
            && decision.scope.is_none()
            && decision.method == "GET"
            && !decision.is_observed()
            && (decision.policy.is_some() || decision.finding.is_some())
    }
}

fn connection(client: IpAddr, tunnel: Option<&Origin>) -> ClientConnection {
    ClientConnection {
        tunnel: tunnel.map(|origin| ConnectTunnel {
            origin: origin.clone(),
            foreign_server_name: None,
            via: None,
        }),
        ..ClientConnection::new(client)
    }
}

fn view<'a>(method: &'a str, request: &'a CrawlRequest) -> RequestView<'a> {
    RequestView {
        method,
        target: request.url.as_str().into(),
        scheme: None,
        authority: None,
        user_agent: request.user_agent.as_bytes(),
        credentials: None,
        purposes: Vec::new(),
        only_reads: matches!(method, "GET" | "HEAD"),
        other_targets: Vec::new(),
        via: None,
        objection: None,
    }
}

/// Returns the verdict that a record or a preview shows.
pub(super) fn verdict_members(decision: &impl Serialize) -> Value {
    let whole = serde_json::to_value(decision).unwrap();
    let members = VERDICT_MEMBERS.iter().filter_map(|name| {
        let member = whole.get(name)?;
        Some(((*name).to_owned(), member.clone()))
    });
    let mut members: Map<String, Value> = members.collect();
    let preferences = whole.get("preferences").and_then(Value::as_array);
    let preferences = preferences.into_iter().flatten().map(stated_preference);
    members.insert("preferences".to_owned(), preferences.collect());
    members.into()
}

/// Returns a preference and its statement. The cause of the lack of a licence is left out, which is not archived.
fn stated_preference(preference: &Value) -> Value {
    let text = |member: &str| preference[member].as_str().unwrap_or_default().to_owned();
    let mut statement = text("statement");
    if text("source") == "rsl" {
        statement.truncate(statement.find(" (").unwrap_or(statement.len()));
    }
    [text("purpose"), text("preference"), text("source"), text("carrier"), statement].into()
}

/// Returns the verdict as the proxy would record it.
pub(super) fn members_of(verdict: Verdict) -> Value {
    verdict_members(&recorded(String::new(), verdict, SystemTime::UNIX_EPOCH))
}

/// Returns the record of a GET without a client, which the origin answers with 200 if it may be sent.
fn recorded(url: String, verdict: Verdict, at: SystemTime) -> DecisionRecord {
    let nobody = [0, 0, 0, 0].into();
    let facts = ClientFacts {
        client: nobody,
        username: None,
        certificate: &[],
        user_agent: b"",
        purposes: &[],
    };
    let decided = PreviewedDecision {
        client: nobody,
        method: "GET".to_owned(),
        url,
        identity: Crawlers::new(CrawlersConfig::default()).identity_of(&facts),
        configuration: 0,
        verdict,
        dialects: Vec::new(),
    };
    record::preview(decided, at).0
}

/// Returns how much of an HTTPS origin is decided about without being seen.
fn blind_scope(https: &InterceptionSettings, host: &str) -> Option<TargetScope> {
    match https.handling_of(host) {
        // Where HTTPS is refused, the request is made in the open, as a preview assumes.
        HttpsHandling::Mode(HttpsMode::Intercept | HttpsMode::Refuse) => None,
        HttpsHandling::Mode(HttpsMode::Tunnel) => Some(TargetScope::EveryPath),
        HttpsHandling::Bypass => Some(TargetScope::Bypass),
    }
}
