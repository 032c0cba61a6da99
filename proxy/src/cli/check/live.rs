//! Robots.txt and other documents as origins serve them now.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use wayleave_admission::offline::InputSource;
use wayleave_clock::system_time;
use wayleave_decision::{
    CheckedSnapshot, DocumentBatch, DocumentResult, DocumentToFetch, RobotsCopy,
    documents_to_fetch, may_fetch,
};
use wayleave_lifecycle::{FetchIdentity, FetchResult, FinishedFetch, Resource};
use wayleave_robots_cache::KeptFetches;
use wayleave_robots_txt::{AccessResult, MatchContext, Origin};
use wayleave_usage_preferences::{DocumentKind, PreferenceQuery, PreferenceState, TDMREP_PATH};

use crate::cli::progress::ProgressLine;
use crate::cli::robots_fetcher::{RobotsFetcher, failure_text};
use crate::cli::terminal::print_errors;

/// Everything that was fetched, each file once. Threads that need the same file wait for one fetch.
pub(crate) struct FetchedFiles {
    fetcher: RobotsFetcher,
    /// The identity of the requests in question.
    identity: Arc<FetchIdentity>,
    files: Mutex<HashMap<Resource, Arc<OnceLock<CheckedSnapshot>>>>,
    /// The files of an earlier run, if they are kept, and those of this one.
    kept: Option<KeptFetches>,
    progress: ProgressLine,
}

impl FetchedFiles {
    /// Creates an empty collection, with a progress line for this number of origins.
    pub(crate) fn new(
        origins: usize,
        fetcher: RobotsFetcher,
        identity: Arc<FetchIdentity>,
    ) -> Self {
        let progress = ProgressLine::new(origins);
        Self { fetcher, identity, files: Mutex::default(), kept: None, progress }
    }

    /// Returns the same collection, which fetches nothing that was kept, and keeps the rest.
    pub(crate) fn keeping(self, kept: KeptFetches) -> Self {
        Self { kept: Some(kept), ..self }
    }

    /// Ends the progress line. Returns what was kept, with its lock.
    pub(crate) fn into_kept(self) -> Option<KeptFetches> {
        self.kept
    }

    /// Returns the client that fetches.
    pub(crate) fn fetcher(&self) -> &RobotsFetcher {
        &self.fetcher
    }

    /// Frees the memory of an origin's files. If one is wanted again, it is read from where it is kept.
    pub(crate) fn forget(&self, origin: &Origin) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.remove(&origin.into());
        files.remove(&Resource::at(origin, TDMREP_PATH));
    }

    /// Returns a file, fetching it unless it is pinned or was fetched before. Warns of a failure.
    pub(super) fn get(&self, resource: &Resource) -> CheckedSnapshot {
        self.fetched(resource, Self::warn)
    }

    fn fetched(
        &self,
        resource: &Resource,
        warn: impl FnOnce(&Self, &str, &str),
    ) -> CheckedSnapshot {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let file = Arc::clone(files.entry(resource.clone()).or_default());
        // Other files are fetched meanwhile.
        drop(files);
        let fetch = || {
            let uri = resource.uri();
            // Only the number of robots.txt is known beforehand.
            if resource.is_robots_txt() {
                self.progress.start_part(&uri);
            }
            if let Some(known) = self.fetcher.pinned(resource) {
                self.warn(&uri, "pinned by the configuration: the origin's own was not fetched");
                return known.clone();
            }
            let answer = self.kept_or_fetched(resource);
            if is_failure(resource.kind(), &answer) {
                warn(self, &uri, &failure_text(&answer));
            }
            CheckedSnapshot::from_fetch(resource, answer)
        };
        file.get_or_init(fetch).clone()
    }

    fn kept_or_fetched(&self, resource: &Resource) -> FinishedFetch {
        let Some(kept) = &self.kept else {
            return self.fetcher.fetch_for(resource, &self.identity);
        };
        if let Some(known) = kept.get(resource, &self.identity, system_time()) {
            return known;
        }
        let answer = self.fetcher.fetch_for(resource, &self.identity);
        if let Err(error) = kept.keep(resource, &answer) {
            self.warn(&resource.uri(), &format!("it is not kept for another run: {error}"));
        }
        answer
    }

    /// Adds the documents that the proxy would ask for.
    pub(super) fn with_documents(
        &self,
        mut state: PreferenceState,
        query: PreferenceQuery<'_>,
        origin: &Origin,
    ) -> PreferenceState {
        for document in documents_to_fetch(query, origin, &state) {
            let result = self.fetch_allowed(query, &document).unwrap_or_else(|cause| {
                self.warn(&document.url(), &cause);
                DocumentResult::Archived(None)
            });
            // A document that the proxy would wait for states nothing here.
            let _ = document.add_to(&mut state, query, &result);
        }
        state
    }

    fn fetch_allowed(
        &self,
        query: PreferenceQuery<'_>,
        document: &DocumentToFetch,
    ) -> Result<DocumentResult, String> {
        let resource = document.resource()?;
        let robots_txt = self.get(&resource.origin().into());
        let crawler = (query.dialect, query.tokens);
        let mut context = MatchContext::default();
        if !may_fetch(crawler, robots_txt.access(), resource, &mut context) {
            return Err(DocumentBatch::NOT_ALLOWED.to_owned());
        }
        Ok(DocumentResult::Archived(self.get(resource).document().cloned()))
    }

    pub(crate) fn warn(&self, url: &str, cause: &str) {
        // The progress line is on standard error, too.
        self.progress.suspend(|| print_errors(&format!("wayleave: {url}: {cause}\n")));
    }
}

impl InputSource for &FetchedFiles {
    fn robots_txt(&mut self, origin: &Origin) -> RobotsCopy {
        // The verdict says why there is no file.
        RobotsCopy::Cached(self.fetched(&origin.into(), |_, _, _| {}))
    }

    fn document(&mut self, resource: &Resource) -> DocumentResult {
        DocumentResult::Cached(self.get(resource))
    }
}

/// Returns whether the user should know that a file could not be fetched: most origins have no documents besides robots.txt.
fn is_failure(kind: DocumentKind, answer: &FinishedFetch) -> bool {
    match answer.outcome.result() {
        FetchResult::Successful => false,
        // A licence is only fetched because something names it, so it should be there.
        FetchResult::Unavailable => kind == DocumentKind::Rsl,
        _ => {
            kind != DocumentKind::RobotsTxt || matches!(answer.access(), AccessResult::Unreachable)
        }
    }
}
