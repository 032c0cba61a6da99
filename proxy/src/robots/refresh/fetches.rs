//! Running fetches, each in its own task, which also parses the result: files may be long, and the refresh task has
//! every
//! origin to look after.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use wayleave_robots_txt::Kind;
use wayleave_robots_txt::lifecycle::{
    FetchErrorKind, FetchOutcome, Learned, Lifetimes, Resource, Snapshot,
};

use super::surroundings::Surroundings;
use crate::clock::Clock;
use crate::observe::metrics::Metrics;
use crate::robots::fetch::{Fetch, Fetched};
use crate::robots::learning;
use crate::robots::queue::Job;
use crate::robots::room::Place;
use crate::robots::shared::{Claim, Lease, Purpose, Shared};

/// The running fetches.
pub(super) struct Fetches<F> {
    fetch: Arc<F>,
    clock: Clock,
    metrics: Arc<Metrics>,
    shared: Shared,
    tasks: JoinSet<Brought>,
    jobs: HashMap<Id, Job>,
}

/// The result of a fetch, or the fleet's entry.
pub(super) struct Brought {
    pub(super) learned: Learned,
    pub(super) place: Option<Place>,
    /// The fleet's version of it; 0 for none.
    pub(super) version: u64,
    /// The lease, if the result has to be reported to the fleet.
    pub(super) lease: Option<Lease>,
}

impl From<Learned> for Brought {
    fn from(learned: Learned) -> Self {
        Self {
            learned,
            place: None,
            version: 0,
            lease: None,
        }
    }
}

impl<F: Fetch> Fetches<F> {
    pub(super) fn new(fetch: F, around: &Surroundings) -> Self {
        Self {
            fetch: Arc::new(fetch),
            clock: around.clock,
            metrics: around.metrics.clone(),
            shared: around.shared.clone(),
            tasks: JoinSet::new(),
            jobs: HashMap::new(),
        }
    }

    /// Starts a task that claims the document in the fleet, and fetches it if no other node does. Until it ends,
    /// `known` applies.
    pub(super) fn start(
        &mut self,
        job: Job,
        purpose: Purpose,
        known: Option<Arc<Snapshot>>,
        (lifetimes, timeout): (Lifetimes, Duration),
    ) {
        let (resource, own) = (job.resource.clone(), job.entry.clone());
        let mut fetch_as = job.fetch_as.clone();
        let answer = own.answer.as_ref();
        // The entry is an answer to an unsigned request, so an unsigned refetch can only confirm or replace it.
        fetch_as.is_refetch &= !answer.is_some_and(|facts| facts.outcome.asks_for_signature());
        let (fetch, clock) = (self.fetch.clone(), self.clock);
        let (metrics, shared) = (self.metrics.clone(), self.shared.clone());
        let task = self.tasks.spawn(async move {
            let terms = (&lifetimes, timeout);
            let lease = match shared
                .claim(&resource, own, (purpose, &fetch_as), terms)
                .await
            {
                Claim::Fetch(lease) => lease,
                Claim::Known(learned, version, lease) => {
                    return Brought {
                        version,
                        lease,
                        ..learned.into()
                    };
                }
            };
            let started = Instant::now();
            let request = lease.before.request(&resource);
            let Fetched { outcome, place } = fetch.fetch(request, Some(&fetch_as)).await;
            report(&metrics, &resource, &outcome, started.elapsed());
            let before = (lease.before.clone(), known);
            let (kind, parser) = (resource.kind(), &shared.parser);
            let learned = learning::after(parser, kind, before, outcome, clock.now(), lifetimes);
            Brought {
                learned: learned.await,
                place,
                version: lease.token,
                lease: Some(lease),
            }
        });
        // Outside the task, so that a panic does not lose it.
        self.jobs.insert(task.id(), job);
    }

    /// Waits for the next fetch to end; `None` if none is running. A fetch that panics ends too, or its origin would
    /// wait
    /// forever. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<(Job, Result<Brought, FetchOutcome>)> {
        let ended = self.tasks.join_next_with_id().await?;
        let (id, brought) = match ended {
            Ok((id, brought)) => (id, Ok(brought)),
            Err(error) => (error.id(), Err(error)),
        };
        let job = self.jobs.remove(&id)?;
        let brought = brought.map_err(|error| {
            let outcome = broken(&job.resource, &error);
            report(&self.metrics, &job.resource, &outcome, Duration::ZERO);
            outcome
        });
        Some((job, brought))
    }
}

fn report(metrics: &Metrics, resource: &Resource, outcome: &FetchOutcome, took: Duration) {
    let result = outcome.result().as_str();
    match resource.kind() {
        Kind::RobotsTxt => metrics.robots_fetch(result, took),
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

fn broken(resource: &Resource, error: &JoinError) -> FetchOutcome {
    tracing::error!(%resource, %error, "a fetch failed unexpectedly");
    FetchOutcome::failed(
        resource.uri(),
        FetchErrorKind::Internal,
        "the fetch failed unexpectedly",
    )
}
