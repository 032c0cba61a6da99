//! Running fetches, each in its own task, which also parses the result: files may be long, and the refresh task has
//! every origin to look after.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{Id, JoinSet};
use tokio::time::Instant;
use wayleave_clock::Clock;
use wayleave_lifecycle::{
    CacheEntry, FetchErrorKind, FetchIdentity, FetchOutcome, FinishedFetch, LifetimeSettings,
    ParsedEntry, Resource, Snapshot,
};
use wayleave_telemetry::metrics::Metrics;
use wayleave_usage_preferences::DocumentKind;

use super::services::RefreshServices;
use crate::fetch::{DocumentFetcher, FetchedDocument};
use crate::fetch_memory::MemoryReservation;
use crate::fleet_entries::{ClaimDecision, FetchLease, FetchPurpose, FleetEntries};
use crate::parsing;
use crate::queue::FetchJob;

/// The running fetches.
pub(super) struct FetchTasks<F> {
    fetcher: Arc<F>,
    clock: Clock,
    metrics: Arc<Metrics>,
    fleet_entries: FleetEntries,
    tasks: JoinSet<LearnedEntry>,
    jobs: HashMap<Id, FetchJob>,
}

/// The result of a fetch, or the fleet's entry.
pub(super) struct LearnedEntry {
    pub(super) learned: ParsedEntry,
    pub(super) reservation: Option<MemoryReservation>,
    /// The fleet's version of it; 0 for none.
    pub(super) version: u64,
    /// The lease, if the result has to be reported to the fleet.
    pub(super) lease: Option<FetchLease>,
}

impl From<ParsedEntry> for LearnedEntry {
    fn from(learned: ParsedEntry) -> Self {
        Self { learned, reservation: None, version: 0, lease: None }
    }
}

impl<F: DocumentFetcher> FetchTasks<F> {
    pub(super) fn new(fetch: F, services: &RefreshServices) -> Self {
        Self {
            fetcher: Arc::new(fetch),
            clock: services.clock,
            metrics: services.metrics.clone(),
            fleet_entries: services.fleet_entries.clone(),
            tasks: JoinSet::new(),
            jobs: HashMap::new(),
        }
    }

    /// Starts a task that claims the document in the fleet, and fetches it if no other node does. Until it ends,
    /// `known` applies.
    pub(super) fn start(
        &mut self,
        job: FetchJob,
        purpose: FetchPurpose,
        known: Option<Arc<Snapshot>>,
        (lifetimes, timeout): (LifetimeSettings, Duration),
    ) {
        let resource = job.resource.clone();
        let own = job.entry.clone();
        let requested_as = job.requested_as.clone();
        let via = job.via.clone();
        let fetcher = self.fetcher.clone();
        let clock = self.clock;
        let metrics = self.metrics.clone();
        let fleet_entries = self.fleet_entries.clone();
        let fetching = async move {
            let purpose = (purpose, requested_as.as_ref());
            let limits = (&lifetimes, timeout);
            let (reason, requested_as) = purpose;
            // Clients choose how many of these copies there are, so each node has its own.
            let is_shared = !next_identity(&*fetcher, &resource, &own, requested_as).is_client();
            let claimed = if is_shared {
                fleet_entries.claim(&resource, own, purpose, limits).await
            } else {
                ClaimDecision::Fetch(FetchLease { token: 0, before: own })
            };
            let lease = match claimed {
                ClaimDecision::Fetch(lease) => lease,
                ClaimDecision::Known(learned, version, lease) => {
                    return LearnedEntry { version, lease, ..learned.into() };
                }
            };
            // After the claim: waiting for another node's fetch is no part of this one.
            let started = Instant::now();
            let identity = next_identity(&*fetcher, &resource, &lease.before, requested_as);
            let request = lease.before.request(&resource, Arc::clone(&identity));
            let previous = lease.before.answer.iter();
            let failed = lease.before.failures.iter().map(|failing| &failing.last);
            if reason == FetchPurpose::Forced {
                previous.chain(failed).for_each(|last| fetcher.forget_shared(&last.outcome));
            }
            let FetchedDocument { outcome, reservation, fetched_at } =
                fetcher.fetch(request, via.as_deref()).await;
            report(&metrics, &resource, &outcome, started.elapsed());
            let finished = FinishedFetch {
                fetched_at: fetched_at.unwrap_or_else(|| clock.now()),
                fetched_as: identity,
                outcome,
            };
            let before = (lease.before.clone(), known);
            let kind = resource.kind();
            let parser = &fleet_entries.parser;
            let learned = parsing::parse_fetched(parser, kind, before, finished, lifetimes);
            LearnedEntry {
                learned: learned.await,
                reservation,
                version: lease.token,
                lease: is_shared.then_some(lease),
            }
        };
        // On any thread of the service: handshakes with many new origins at once would keep one of them busy.
        let task = self.tasks.spawn_on(fetching, &pingora_runtime::current_handle());
        // Outside the task, so that a panic does not lose it.
        self.jobs.insert(task.id(), job);
    }

    /// Ends all running fetches.
    pub(super) async fn stop(&mut self) {
        self.tasks.shutdown().await;
    }

    /// Waits for the next fetch to end; `None` if none is running. A fetch that panics ends too, or its origin would
    /// wait forever. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<(FetchJob, Result<LearnedEntry, FetchOutcome>)> {
        let (id, result) = match self.tasks.join_next_with_id().await? {
            Ok((id, learned)) => (id, Ok(learned)),
            Err(error) => (error.id(), Err(error)),
        };
        let job = self.jobs.remove(&id)?;
        let fetched = result.map_err(|error| {
            tracing::error!(resource = %job.resource, %error, "a fetch failed unexpectedly");
            let uri = job.resource.uri();
            let kind = FetchErrorKind::Internal;
            let outcome = FetchOutcome::failed(uri, kind, "the fetch failed unexpectedly");
            report(&self.metrics, &job.resource, &outcome, Duration::ZERO);
            outcome
        });
        Some((job, fetched))
    }
}

/// Returns the identity to fetch a document as: the one that fetched the copy `before`, since an origin may answer everyone
/// else that there is no file. Without one, that of the request.
fn next_identity(
    fetcher: &impl DocumentFetcher,
    resource: &Resource,
    before: &CacheEntry,
    requested_as: Option<&Arc<FetchIdentity>>,
) -> Arc<FetchIdentity> {
    // An own copy has to be of its holder, as that is now.
    let own = requested_as.filter(|_| !resource.is_shared()).cloned();
    own.or_else(|| fetcher.current_identity(before.fetched_as()?))
        .or_else(|| requested_as.cloned())
        .unwrap_or_else(FetchIdentity::proxy)
}

fn report(metrics: &Metrics, resource: &Resource, outcome: &FetchOutcome, took: Duration) {
    let result = outcome.result().as_str();
    match resource.kind() {
        DocumentKind::RobotsTxt => metrics.robots_fetch(result, took),
        kind => metrics.preference_fetch(kind, result),
    }
    tracing::debug!(
        %resource,
        result,
        status = outcome.status(),
        error = outcome.cause(),
        ?took,
        "fetched"
    );
}
