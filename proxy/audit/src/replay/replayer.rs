//! Decides about a request of the log under another configuration, by the documents that its line names.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use quick_cache::sync::Cache;
use wayleave_admission::preview::blind_scope;
use wayleave_config::Config;
use wayleave_decision::{
    ASSERTED, ClaimedNames, ClientFacts, Crawler, DocumentBatch, DocumentResult, HttpsMode,
    Identified, Identity, Reason, Refusal, RequestOutcome, ResolvedTarget, RobotsCopy, Verdict,
};
use wayleave_decision_log::{DecisionRecord, FindingRecord, MAX_USER_AGENT_BYTES};
use wayleave_evidence::Sha256Digest;
use wayleave_lifecycle::FetchErrorKind;
use wayleave_record::{RobotsAccess, Word};
use wayleave_robots_txt::{AccessResult, Dialect, Origin, UrlScheme};

use crate::decide_again::{PastInputs, decide_again, was_refused_inside_tunnel};
use crate::documents::ParsedDocuments;
use crate::materials::{KnownVersion, PastMaterials};
use crate::missing::Missing;
use crate::robots::{ParsedRobots, fetch_error_kind};
use crate::settings::{PROOF_OBJECTIONS, PastSettings, recorded_objection};
use crate::verify::may_refuse_after_permission;

/// The memory for parsed robots.txt files, in bytes.
const PARSED_BYTES: u64 = 24 << 20;
/// The origins whose last robots.txt is remembered.
const MAX_ORIGINS: usize = 20_000;

/// The change of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplayChange {
    NewlyRefused,
    NewlyForwarded,
    Unchanged,
    Undecidable,
}

/// A decision made again.
#[derive(Debug)]
pub(super) struct Replayed {
    pub(super) change: ReplayChange,
    /// The crawler under the new configuration, as far as it is known.
    pub(super) crawler: String,
    /// The rule or the reason that decides, or the fact that is not known.
    pub(super) rule: String,
}

/// A configuration that made decisions, compared with the new one.
struct PastConfig {
    /// Whether crawlers are recognised in the same way.
    identifies_alike: bool,
    /// Whether crawlers and their settings for use are the same.
    uses_alike: bool,
    paces_alike: bool,
}

/// The earlier knowledge of an origin.
#[derive(Clone)]
struct KnownOrigin {
    finding: FindingRecord,
    error_kind: Option<FetchErrorKind>,
    at: SystemTime,
}

/// Decides about logged requests again.
pub struct Replayer<'a> {
    new: PastSettings,
    materials: &'a dyn PastMaterials,
    past: HashMap<Sha256Digest, Rc<PastConfig>>,
    robots: ParsedRobots,
    documents: ParsedDocuments,
    /// The robots.txt that decided last, by origin.
    known: Cache<String, KnownOrigin>,
    /// Versions of robots.txt in the archive, by origin.
    archived: Cache<String, Arc<[KnownVersion]>>,
}

impl<'a> Replayer<'a> {
    /// Creates a replayer by the deciding part of a configuration.
    pub fn new(new: PastSettings, materials: &'a dyn PastMaterials) -> Self {
        Self {
            new,
            materials,
            past: HashMap::new(),
            robots: ParsedRobots::with_memory(PARSED_BYTES),
            documents: ParsedDocuments::new(),
            known: Cache::new(MAX_ORIGINS),
            archived: Cache::new(MAX_ORIGINS),
        }
    }

    /// Decides about a request again. `configuration` is the one that decided then.
    pub(super) fn replay(
        &mut self,
        decision: &DecisionRecord,
        configuration: Option<Sha256Digest>,
    ) -> Replayed {
        let past = self.past_config(configuration);
        let replayed = if decision.is_decided() {
            self.decide_again(decision, &past)
        } else {
            // Malformed, too many, too large: no rule was asked.
            Ok(Replayed::new(ReplayChange::Unchanged, decision, decision.reason.to_string()))
        };
        let replayed = replayed.unwrap_or_else(|missing| {
            Replayed::new(ReplayChange::Undecidable, decision, missing.as_str().to_owned())
        });
        self.remember(decision);
        replayed
    }

    fn remember(&mut self, decision: &DecisionRecord) {
        if let (Some(origin), Some(finding)) = (&decision.origin, &decision.finding) {
            let known = KnownOrigin {
                finding: finding.clone(),
                error_kind: fetch_error_kind(decision),
                at: decision.at,
            };
            self.known.insert(origin.clone(), known);
        }
    }

    fn past_config(&mut self, digest: Option<Sha256Digest>) -> Rc<PastConfig> {
        let unknown = PastConfig { identifies_alike: false, uses_alike: false, paces_alike: false };
        let Some(digest) = digest else {
            return Rc::new(unknown);
        };
        if let Some(known) = self.past.get(&digest) {
            return Rc::clone(known);
        }
        let text = self.materials.configuration(digest);
        let past = text.and_then(|text| PastSettings::read(&text).ok());
        let compared = past.map_or(unknown, |past| PastConfig::compare(&past, &self.new));
        let compared = Rc::new(compared);
        self.past.insert(digest, Rc::clone(&compared));
        compared
    }

    fn decide_again(
        &self,
        decision: &DecisionRecord,
        past: &PastConfig,
    ) -> Result<Replayed, Missing> {
        let crawler = decision.crawler.to_string();
        let mut inputs = KnownInputs { replayer: self, past, crawler, has_purposes: false };
        let verdict = decide_again(&self.new, decision, &mut inputs)?;
        let KnownInputs { crawler, has_purposes, .. } = inputs;
        if decision.is_own_request() {
            return Ok(compare(decision, &verdict, &crawler));
        }
        let is_permitted = verdict.result.is_ok();
        if is_permitted && has_purposes {
            check_response(decision, past)?;
        } else if is_permitted && is_by_response(decision) {
            // No response is looked at for a crawler without purposes.
            let rule = rule_then(decision);
            return Ok(Replayed { change: ReplayChange::NewlyForwarded, crawler, rule });
        }
        let replayed = compare(decision, &verdict, &crawler);
        if is_permitted && is_by_pace(decision) && !past.paces_alike {
            return Err(Missing::Pace);
        }
        Ok(replayed)
    }

    /// Identifies the crawler under the new configuration.
    fn identify(
        &self,
        decision: &DecisionRecord,
        past: &PastConfig,
    ) -> Result<Identified, Missing> {
        let objection = recorded_objection(decision);
        let is_by_proof =
            objection.as_ref().is_some_and(|found| PROOF_OBJECTIONS.contains(&found.reason));
        match self.missing_fact(decision, is_by_proof) {
            None => {
                let user_agent = decision.user_agent.as_deref().unwrap_or_default();
                Ok(self.new.crawlers().identify(&ClientFacts {
                    client: decision.client.address().unwrap_or(Ipv4Addr::UNSPECIFIED.into()),
                    username: decision.username.as_deref(),
                    certificate: &[],
                    user_agent: user_agent.as_bytes(),
                    purposes: &decision.stated_purposes,
                }))
            }
            Some(_) if past.identifies_alike => self.recorded_identity(decision, objection),
            Some(missing) => Err(missing),
        }
    }

    /// Returns the fact about the client that the log lacks, if the new configuration has to know it.
    fn missing_fact(&self, decision: &DecisionRecord, is_by_proof: bool) -> Option<Missing> {
        let crawlers = &self.new.config().crawlers.crawlers;
        let user_agent = decision.user_agent.as_deref().unwrap_or_default();
        let is_cut = decision.user_agent_cut || user_agent.len() >= MAX_USER_AGENT_BYTES;
        let is_masked = decision.client.address().is_none();
        if is_by_proof {
            Some(Missing::Password)
        } else if self.new.is_by_certificate() {
            Some(Missing::Certificate)
        } else if is_masked && crawlers.iter().any(|crawler| !crawler.addresses.is_empty()) {
            Some(Missing::ClientAddress)
        } else if is_cut {
            Some(Missing::UserAgent)
        } else {
            None
        }
    }

    /// Returns the crawler that the line names, which is recognised as it was.
    fn recorded_identity(
        &self,
        decision: &DecisionRecord,
        objection: Option<Refusal>,
    ) -> Result<Identified, Missing> {
        let crawlers = self.new.crawlers();
        let identity = if decision.crawler == ASSERTED {
            let tokens = decision.product_tokens().map_err(Missing::Unreadable)?;
            Identity::Asserted {
                claim: ClaimedNames::with_tokens(tokens).into(),
                dialect: crawlers.dialect,
                mode: crawlers.mode,
            }
        } else {
            let missing =
                || Missing::Unreadable(format!("no crawler is named {:?}", decision.crawler));
            Identity::Known(crawlers.named(&decision.crawler).ok_or_else(missing)?)
        };
        Ok(Identified { objection, ..Identified::without_objection(identity) })
    }

    /// Returns the robots.txt at the time of a decision; none if it had not come in time.
    fn robots_txt(
        &self,
        decision: &DecisionRecord,
        origin: &str,
        dialect: Dialect,
    ) -> Result<Option<RobotsCopy>, Missing> {
        let at = decision.at;
        let copy = |access, error_kind| Some(RobotsCopy::Archived { access, error_kind, at });
        if let Some(finding) = &decision.finding {
            let access = self.access(finding, dialect)?;
            return Ok(copy(access, fetch_error_kind(decision)));
        }
        if let Some(version) = self.archived_version(origin, at) {
            return Ok(copy(self.version_access(version)?, None));
        }
        if let Some(known) = self.known.get(origin) {
            let age = decision.at.duration_since(known.at).unwrap_or_default();
            if age <= self.new.config().robots.cache.lifetimes.max_age {
                return Ok(copy(self.access(&known.finding, dialect)?, known.error_kind));
            }
        }
        let is_pending = decision.reason == Reason::Unreachable;
        if is_pending { Ok(None) } else { Err(Missing::RobotsTxt) }
    }

    fn access(
        &self,
        finding: &FindingRecord,
        dialect: Dialect,
    ) -> Result<Arc<AccessResult>, Missing> {
        let may_have_lapsed = matches!(
            finding.robots_access.as_ref().and_then(Word::known),
            Some(
                RobotsAccess::Unreachable
                    | RobotsAccess::Lapsed
                    | RobotsAccess::LongLapsed
                    | RobotsAccess::LongUnreachable
            )
        );
        // Which copy still counts depends on the dialect, and one that did not is not recorded.
        if may_have_lapsed && finding.dialect != dialect {
            return Err(Missing::LapsedRobotsTxt);
        }
        let body = |digest| self.materials.body(digest).ok().flatten();
        self.robots.access(finding, &body).map_err(Missing::Unreadable)
    }

    /// Returns the version that the archive has of an origin's robots.txt at a time, or fetched soon after.
    fn archived_version(&self, origin: &str, at: SystemTime) -> Option<KnownVersion> {
        let versions = match self.archived.get(origin) {
            Some(versions) => versions,
            None => {
                let versions: Arc<[KnownVersion]> = self.materials.versions(origin).into();
                self.archived.insert(origin.to_owned(), Arc::clone(&versions));
                versions
            }
        };
        let max_age = self.new.config().robots.cache.lifetimes.max_age;
        let nearest = versions.iter().min_by_key(|version| version.distance_to(at))?;
        (nearest.distance_to(at) <= max_age).then_some(*nearest)
    }

    fn version_access(&self, version: KnownVersion) -> Result<Arc<AccessResult>, Missing> {
        match (version.sha256, version.status) {
            (Some(digest), 200..300) => {
                let body = |digest| self.materials.body(digest).ok().flatten();
                let parsed = self.robots.parse_copy(digest, version.is_cut, &body);
                parsed.map_err(Missing::Unreadable)
            }
            (_, status @ 400..500) => Ok(Arc::new(AccessResult::Unavailable { status })),
            _ => Err(Missing::RobotsTxt),
        }
    }
}

/// The inputs of a decision that are known of its time, and the crawler that was identified.
struct KnownInputs<'a> {
    replayer: &'a Replayer<'a>,
    past: &'a PastConfig,
    crawler: String,
    has_purposes: bool,
}

impl PastInputs for KnownInputs<'_> {
    /// Rules count as they did then.
    fn now(&self, line: &DecisionRecord) -> SystemTime {
        line.at
    }

    fn target(
        &mut self,
        line: &DecisionRecord,
        resolved: ResolvedTarget,
    ) -> Result<(ResolvedTarget, bool), Missing> {
        let is_https = resolved.target.origin().scheme() == UrlScheme::Https;
        let interception = &self.replayer.new.config().https.interception;
        let is_intercepting = interception.mode == HttpsMode::Intercept;
        match blind_scope(interception, &resolved.target) {
            Some(scope) => {
                let blind = ResolvedTarget::blind(resolved.target.origin().clone(), scope);
                let blind = blind.map_err(|error| Missing::Unreadable(format!("url: {error}")))?;
                Ok((blind, true))
            }
            // Only an intercepted tunnel has content to judge.
            None if resolved.is_blind() && is_https && is_intercepting => {
                Err(Missing::TunnelContent)
            }
            None => {
                let is_by_tunnel =
                    resolved.is_blind() || was_refused_inside_tunnel(line, &resolved);
                Ok((resolved, is_by_tunnel))
            }
        }
    }

    fn identify(&mut self, line: &DecisionRecord) -> Result<Identified, Missing> {
        let identified = self.replayer.identify(line, self.past)?;
        identified.identity.label().clone_into(&mut self.crawler);
        self.has_purposes = !identified.purposes().is_empty();
        Ok(identified)
    }

    fn robots_txt(
        &mut self,
        line: &DecisionRecord,
        origin: &Origin,
        dialect: Dialect,
    ) -> Result<Option<RobotsCopy>, Missing> {
        self.replayer.robots_txt(line, &origin.to_string(), dialect)
    }

    fn documents(
        &mut self,
        line: &DecisionRecord,
        batch: &mut DocumentBatch,
    ) -> Result<Vec<DocumentResult>, Missing> {
        // A document that was not asked for then would be asked for now, unless both configurations ask for the same.
        if !self.past.uses_alike || line.preferences.is_empty() {
            return Err(Missing::Documents);
        }
        let body = |digest| self.replayer.materials.body(digest).ok().flatten();
        self.replayer.documents.results(line, batch, &body).map_err(Missing::Unreadable)
    }
}

impl PastConfig {
    fn compare(past: &PastSettings, new: &PastSettings) -> Self {
        let past = past.config();
        let new = new.config();
        let recognised = |config: &Config| {
            let by = |crawler: &Crawler| {
                let username = crawler.account.as_ref().map(|account| account.username.clone());
                let name = (crawler.name.clone(), crawler.tokens.clone());
                let client = (crawler.user_agent.clone(), crawler.addresses.clone(), username);
                (name, client, crawler.user_agent_must_contain_token)
            };
            let crawlers = config.crawlers.crawlers.iter().map(by).collect::<Vec<_>>();
            (crawlers, config.crawlers.require_crawler)
        };
        let declared = |config: &Config| {
            let crawlers = config.crawlers.crawlers.iter();
            crawlers
                .map(|crawler| (crawler.name.clone(), crawler.declaration.clone()))
                .collect::<Vec<_>>()
        };
        Self {
            identifies_alike: recognised(past) == recognised(new),
            uses_alike: past.preferences == new.preferences && declared(past) == declared(new),
            paces_alike: past.politeness == new.politeness && past.crawlers == new.crawlers,
        }
    }
}

impl Replayed {
    fn new(change: ReplayChange, decision: &DecisionRecord, rule: String) -> Self {
        Self { change, crawler: decision.crawler.to_string(), rule }
    }
}

fn was_refused(decision: &DecisionRecord) -> bool {
    decision.outcome == RequestOutcome::Refused
}

/// Checks that the response's statements about use were looked at, by the same settings.
fn check_response(decision: &DecisionRecord, past: &PastConfig) -> Result<(), Missing> {
    let was_seen = !was_refused(decision) || decision.reached_origin;
    if past.uses_alike && was_seen { Ok(()) } else { Err(Missing::ResponsePreferences) }
}

/// Returns whether a response was withheld because of its statements about use.
fn is_by_response(decision: &DecisionRecord) -> bool {
    let by_use = [Reason::Preference, Reason::TooCostly];
    was_refused(decision)
        && decision.reached_origin
        && decision.reason.known().is_some_and(|reason| by_use.contains(&reason))
}

/// Returns whether a request was refused because it came too fast, or too many came.
fn is_by_pace(decision: &DecisionRecord) -> bool {
    was_refused(decision)
        && matches!(
            decision.reason.known(),
            Some(Reason::CrawlDelay | Reason::OriginRests | Reason::Concurrency)
        )
}

/// Compares a verdict with the decision of then.
fn compare(decision: &DecisionRecord, verdict: &Verdict, crawler: &str) -> Replayed {
    let is_refused = verdict.result.as_ref().is_err_and(|refusal| !refusal.is_failure);
    let (change, rule) = match (was_refused(decision), is_refused) {
        (false, true) => (ReplayChange::NewlyRefused, deciding_rule(verdict)),
        // Refused for a reason that no verdict has.
        (true, false) if may_refuse_anyway(decision) => {
            (ReplayChange::Unchanged, decision.reason.to_string())
        }
        (true, false) => (ReplayChange::NewlyForwarded, rule_then(decision)),
        _ => (ReplayChange::Unchanged, deciding_rule(verdict)),
    };
    Replayed { change, crawler: crawler.to_owned(), rule }
}

/// Returns whether a request was refused for a reason that no verdict is about.
fn may_refuse_anyway(decision: &DecisionRecord) -> bool {
    if decision.is_own_request() {
        return decision.reason != Reason::PolicyRule;
    }
    may_refuse_after_permission(decision)
}

/// Returns the rule or the reason that decided a verdict.
fn deciding_rule(verdict: &Verdict) -> String {
    let reason = match &verdict.result {
        Ok(permit) => permit.observed.as_ref().map_or(permit.reason, |observed| observed.reason),
        Err(refusal) => refusal.reason,
    };
    let finding = verdict.facts.finding.as_ref();
    let rule = match reason {
        Reason::PolicyRule | Reason::PolicyException => {
            verdict.facts.rule.as_ref().map(|found| format!("[[rule]] {}", found.number))
        }
        Reason::Rule => finding.and_then(|finding| finding.rule.clone()),
        _ => None,
    };
    rule.unwrap_or_else(|| reason.as_str().to_owned())
}

/// Returns the rule or the reason that decided then.
fn rule_then(decision: &DecisionRecord) -> String {
    let rule = match decision.reason.known() {
        Some(Reason::PolicyRule | Reason::PolicyException) => {
            decision.policy.as_ref().map(|rule| format!("[[rule]] {}", rule.number))
        }
        Some(Reason::Rule) => decision.finding.as_ref().and_then(|finding| finding.rule.clone()),
        _ => None,
    };
    rule.unwrap_or_else(|| decision.reason.to_string())
}
