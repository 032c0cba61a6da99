//! Fetches robots.txt and other documents for the command line, exactly as the proxy does.

use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};
use wayleave_admission::pace_unit;
use wayleave_assembly::wiring;
use wayleave_clock::Clock;
use wayleave_config::Config;
use wayleave_decision::CheckedSnapshot;
use wayleave_lifecycle::{FetchIdentity, FetchRequest, FinishedFetch, Resource};
use wayleave_pacing::{PaceShare, PaceUnit};
use wayleave_robots_cache::{DocumentFetcher, FetchIdentities, HttpFetcher, PinnedFiles};
use wayleave_upstream::Destination;

/// A client that fetches one file at a time, and blocks until it is there.
pub(crate) struct RobotsFetcher {
    runtime: Runtime,
    fetcher: HttpFetcher,
    pinned: PinnedFiles,
    clock: Clock,
}

impl RobotsFetcher {
    /// Creates a fetcher that connects as the configuration says.
    ///
    /// # Errors
    ///
    /// As [`wiring::fetcher_for_check`].
    pub(super) fn new(config: &Config) -> anyhow::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let clock = Clock::start();
        // The client can only be built within a runtime.
        let fetcher = runtime.block_on(async { wiring::fetcher_for_check(config, clock) })?;
        let pinned = PinnedFiles::new(&config.robots.pinned, clock.now());
        Ok(Self { runtime, fetcher, pinned, clock })
    }

    /// Returns the identities of the configured crawlers.
    pub(super) fn identities(&self) -> Arc<FetchIdentities> {
        self.fetcher.identities()
    }

    /// Returns the unit that shares the pace of an origin, as the proxy finds it.
    pub(crate) fn pace_unit(&self, share: PaceShare, destination: Destination<'_>) -> PaceUnit {
        let finding = pace_unit::find(share, self.fetcher.upstream(), destination);
        let found = self.runtime.block_on(finding);
        found.map_or_else(|| PaceUnit::Origin(destination.origin.clone()), Arc::unwrap_or_clone)
    }

    /// Returns the text that the configuration states, if this is the robots.txt of such an origin. It is not to be fetched.
    pub(super) fn pinned(&self, resource: &Resource) -> Option<&CheckedSnapshot> {
        self.pinned.find(resource)
    }

    /// Fetches a document for requests of `identity`. As by the proxy, the name of a client that is no configured crawler is
    /// only used where the answer to the proxy itself does not count for it.
    pub(super) fn fetch_for(
        &self,
        resource: &Resource,
        identity: &Arc<FetchIdentity>,
    ) -> FinishedFetch {
        if identity.is_client() {
            let shared = self.fetch(resource, FetchIdentity::proxy());
            if shared.counts_for(identity) {
                return shared;
            }
        }
        self.fetch(resource, Arc::clone(identity))
    }

    /// Fetches a document as `identity`.
    pub(super) fn fetch(
        &self,
        resource: impl Into<Resource>,
        identity: Arc<FetchIdentity>,
    ) -> FinishedFetch {
        // Nothing is kept of earlier runs that could be revalidated.
        let resource = resource.into();
        let fetched_as = Arc::clone(&identity);
        let request = FetchRequest { resource, identity, validators: None };
        let fetched = self.runtime.block_on(self.fetcher.fetch(request, None));
        FinishedFetch { fetched_at: self.clock.now(), fetched_as, outcome: fetched.outcome }
    }
}

/// Describes why an answer cannot be used.
pub(super) fn failure_text(finished: &FinishedFetch) -> String {
    match (finished.outcome.cause(), finished.outcome.status()) {
        (Some(cause), _) => cause,
        (None, Some(status)) => format!("HTTP {status}"),
        (None, None) => "no answer".to_owned(),
    }
}
