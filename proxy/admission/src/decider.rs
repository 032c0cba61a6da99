//! Decides a request, by `wayleave_decision`, which does no I/O: this supplies the inputs of a decision.

use std::sync::Arc;
use std::time::Duration;

use wayleave_decision::{
    CheckedSnapshot, Decision, DecisionRequest, Input, ResolvedTarget, RobotsCopy, Step, Verdict,
};
use wayleave_fairness::Holder;
use wayleave_robots_cache::RobotsCache;
use wayleave_telemetry::metrics::Metrics;

use super::documents::DocumentSource;
use super::identify::{self, IdentifiedClient};
use super::pace_group;
use super::request::{ClientConnection, RequestView};
use super::settings::{CurrentSettings, Settings};

/// The estimated time of a decision that takes more than a brief budget.
const COSTLY_DECISION: Duration = Duration::from_millis(5);

/// A verdict, and the group of robots.txt that gives an unknown client its pace: empty where the pace does not depend on it.
pub struct DecidedRequest {
    pub verdict: Verdict,
    pub(crate) pace_group: String,
}

/// Decides requests by the settings in effect and the cached robots.txt.
pub struct Decider {
    settings: Arc<CurrentSettings>,
    pub robots: RobotsCache,
}

impl Decider {
    pub fn new(settings: Arc<CurrentSettings>, robots: RobotsCache) -> Self {
        Self { settings, robots }
    }

    /// Returns the settings in effect; see [`CurrentSettings::load`].
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.load()
    }

    /// Returns whether these are the settings in effect.
    pub fn is_current(&self, settings: &Settings) -> bool {
        self.settings.is_current(settings)
    }

    /// Puts other settings into effect.
    pub fn replace_settings(&self, settings: Settings) {
        self.settings.replace(settings);
    }

    /// Waits until the configuration of this number has been replaced, and returns the settings then in effect.
    pub async fn settings_after(&self, configuration: u64) -> Arc<Settings> {
        self.settings.after(configuration).await
    }

    /// Updates the metrics that are counted when they are gathered.
    pub fn update_metrics(&self, metrics: &Metrics) {
        self.robots.update_metrics();
        let rules = &self.settings().rules;
        let now = self.robots.clock().now();
        let (active, expired) = rules.count(now);
        metrics.rules(active, expired.len());
        metrics.exception_expiry(rules.next_expiry(now));
    }

    /// Returns whether a request would be forwarded by these settings. Its client's proof is valid for as long as its
    /// password.
    pub(crate) async fn is_still_allowed(
        &self,
        settings: &Arc<Settings>,
        connection: &ClientConnection,
        request: &RequestView<'_>,
        resolved: &ResolvedTarget,
    ) -> bool {
        let Ok(proof) = identify::earlier_proof(&settings.authenticator, connection) else {
            return false;
        };
        let client = identify::identify_with_proof(settings, connection, proof, request);
        let request = DecisionRequest {
            identified: &client.identified,
            method: request.method,
            resolved: resolved.clone(),
            is_by_tunnel: connection.tunnel.is_some() || resolved.is_blind(),
            subresource: None,
            now: self.robots.clock().now(),
        };
        self.decide(settings, &client, request).await.verdict.result.is_ok()
    }

    /// Decides a request. Supplies the inputs that the decision asks for, and waits for the origin's robots.txt if it is not cached.
    pub async fn decide(
        &self,
        settings: &Arc<Settings>,
        client: &IdentifiedClient,
        request: DecisionRequest<'_>,
    ) -> DecidedRequest {
        let identity = client.identity();
        let pacing = &settings.pacing;
        let mut decision = Decision::new(settings.for_decisions(), request);
        let mut pace_group = String::new();
        while let Step::Need(input) = decision.step() {
            match input {
                Input::CachedRobotsTxt(origin) => {
                    // A rule allows the request already, so it does not wait for a fetch: it keeps a pace only if the file is
                    // cached.
                    let copy = self.robots.cached_for(&origin, &client.fetch_identity);
                    let copy = copy.map(RobotsCopy::Cached);
                    decision.add_cached_robots_txt(copy.as_ref());
                    if let Some(copy) = &copy {
                        let delay = decision.facts().delay;
                        pace_group = pace_group::of(copy.access(), pacing, identity, delay);
                    }
                }
                Input::RobotsTxt(origin) => {
                    match self.robots.find_for(&origin, client.requester()).await {
                        Ok(cached) => {
                            let copy = RobotsCopy::Cached(cached.clone());
                            // Judging builds indexes, which count for the memory of the cache.
                            let is_judged = self.robots.with_recount(
                                &origin,
                                &client.fetch_identity,
                                &cached,
                                || decision.try_add_robots_txt(&copy),
                            );
                            if !is_judged {
                                let judging =
                                    self.judge_in_pool(settings, client, decision, cached);
                                decision = Box::pin(judging).await;
                            }
                            let delay = decision.facts().delay;
                            pace_group = pace_group::of(copy.access(), pacing, identity, delay);
                        }
                        Err(pending) => {
                            decision.robots_txt_pending(&pending.to_string(), pending.retry_after);
                        }
                    }
                }
                Input::Documents(mut batch) => {
                    let requester = client.requester();
                    let source = DocumentSource { robots: &self.robots, settings, requester };
                    // Few crawlers have purposes: in a box it takes no room in every exchange.
                    let results = Box::pin(source.fetch_all(&mut batch)).await;
                    decision.add_documents(*batch, &results);
                }
            }
        }
        DecidedRequest { verdict: decision.into_verdict(), pace_group }
    }

    /// Judges by a robots.txt on another thread, since it takes long and its origin chooses how long: the other requests of this
    /// thread would wait.
    async fn judge_in_pool<'a>(
        &self,
        settings: &'a Arc<Settings>,
        client: &IdentifiedClient,
        decision: Decision<'a>,
        known: CheckedSnapshot,
    ) -> Decision<'a> {
        let (request, suspended) = decision.suspend();
        let identified = request.identified.clone();
        let method = request.method.to_owned();
        let subresource = request.subresource.cloned();
        let (resolved, is_by_tunnel, now) =
            (request.resolved.clone(), request.is_by_tunnel, request.now);
        let robots = self.robots.clone();
        let fetch_identity = Arc::clone(&client.fetch_identity);
        let in_effect = Arc::clone(settings);
        let judge = move || {
            let origin = resolved.target.origin().clone();
            let request = DecisionRequest {
                identified: &identified,
                method: &method,
                resolved,
                is_by_tunnel,
                subresource: subresource.as_ref(),
                now,
            };
            let mut decision = Decision::resume(in_effect.for_decisions(), request, suspended);
            let copy = RobotsCopy::Cached(known.clone());
            robots
                .with_recount(&origin, &fetch_identity, &known, || decision.add_robots_txt(&copy));
            decision.suspend().1
        };
        let holder = Holder::of_client(client.address);
        let suspended = self.robots.parser().run(holder, COSTLY_DECISION, judge).await;
        Decision::resume(settings.for_decisions(), request, suspended)
    }
}

impl std::fmt::Debug for Decider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decider").field("options", &self.settings().options).finish_non_exhaustive()
    }
}
