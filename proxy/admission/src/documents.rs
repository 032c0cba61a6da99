//! Fetches documents about use, which a decision asks for or a response names.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use wayleave_decision::{
    CheckedSnapshot, DocumentBatch, DocumentResult, DocumentToFetch, PreferenceFinding,
};
use wayleave_lifecycle::{ChosenBy, Resource};
use wayleave_robots_cache::{FetchPending, Requester, RobotsCache};
use wayleave_robots_txt::{AccessResult, MatchContext, Origin};
use wayleave_upstream::Destination;

use super::settings::Settings;

/// The source of documents for one request.
#[derive(Clone)]
pub(crate) struct DocumentSource<'a> {
    pub robots: &'a RobotsCache,
    pub settings: &'a Settings,
    /// The request.
    pub requester: Requester<'a>,
}

/// A document that was fetched, or why it was not asked for.
type Fetched = Result<CheckedSnapshot, String>;

impl DocumentSource<'_> {
    /// Fetches all documents of a batch at once.
    pub(crate) async fn fetch_all(&self, batch: &mut DocumentBatch) -> Vec<DocumentResult> {
        let context = mem::take(&mut batch.context);
        let fetches = DocumentFetches { source: self, batch, context: Mutex::new(context) };
        let results =
            join_all(batch.documents.iter().map(|document| fetches.fetch(document))).await;
        let context = fetches.context.into_inner();
        batch.context = context.unwrap_or_else(PoisonError::into_inner);
        results
    }

    /// Adds the licences that a response named, unless they could only repeat a refusal. One that cannot be had refuses.
    pub(crate) async fn with_licences(&self, mut finding: PreferenceFinding) -> PreferenceFinding {
        let settings = &self.settings.preferences.reading;
        if let Some(mut batch) = finding.licences_to_fetch(settings) {
            // Few responses name any: in a box it takes no room in every exchange.
            let results = Box::pin(self.fetch_all(&mut batch)).await;
            finding.add_licences(settings, batch, &results);
        }
        finding
    }
}

/// The fetches of one batch.
struct DocumentFetches<'a> {
    source: &'a DocumentSource<'a>,
    batch: &'a DocumentBatch,
    /// The work that is left for matching for the request.
    context: Mutex<MatchContext>,
}

impl DocumentFetches<'_> {
    fn context(&self) -> MutexGuard<'_, MatchContext> {
        self.context.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn fetch(&self, document: &DocumentToFetch) -> DocumentResult {
        let resource = match document.resource() {
            Ok(resource) => resource,
            Err(cause) => return DocumentResult::NotAsked(cause),
        };
        let fetched = if *resource.origin() == self.batch.origin {
            self.fetch_at_home(resource).await
        } else {
            self.fetch_elsewhere(resource).await
        };
        match fetched {
            Ok(Ok(cached)) => DocumentResult::Cached(cached),
            Ok(Err(cause)) => DocumentResult::NotAsked(cause),
            Err(FetchPending { retry_after }) => DocumentResult::Pending { retry_after },
        }
    }

    fn allows(&self, access: &AccessResult, resource: &Resource) -> bool {
        self.batch.allows(access, resource, &mut self.context())
    }

    async fn fetch_at_home(&self, resource: &Resource) -> Result<Fetched, FetchPending> {
        if !self.allows(self.batch.robots_txt.access(), resource) {
            return Ok(Err(DocumentBatch::NOT_ALLOWED.to_owned()));
        }
        let robots = self.source.robots;
        robots.find_for(resource, self.source.requester.clone()).await.map(Ok)
    }

    /// Fetches the documents that the requested origin names on another host.
    async fn fetch_elsewhere(&self, resource: &Resource) -> Result<Fetched, FetchPending> {
        let robots = self.source.robots;
        let is_public = self.may_be_public(&self.batch.origin).await;
        // The origin has named the host, not the crawler: where the crawler may go, this fetch perhaps may not.
        let chosen = ChosenBy::Crawler.for_next_host(is_public);
        let requester = self.source.requester.with_chosen(chosen);
        let robots_txt = robots.find_for(resource.origin(), requester.clone()).await?;
        if !self.allows(robots_txt.access(), resource) {
            return Ok(Err(DocumentBatch::NOT_ALLOWED.to_owned()));
        }
        robots.find_for(resource, requester).await.map(Ok)
    }

    /// Returns whether `origin` may be at a public address.
    async fn may_be_public(&self, origin: &Origin) -> bool {
        let upstream = &self.source.settings.upstream;
        let destination = Destination {
            origin,
            source: self.source.requester.identity.source,
            client: self.source.requester.client,
            network: None,
        };
        let route = upstream.route(destination, upstream.connect_deadline());
        route.await.map_or(true, |route| route.is_public())
    }
}
