//! Fetches documents about use, which a decision asks for or a response names.

use std::mem;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use wayleave_decision::{
    CheckedSnapshot, DocumentBatch, DocumentResult, DocumentToFetch, PreferenceFinding,
};
use wayleave_lifecycle::Resource;
use wayleave_robots_txt::{AccessResult, MatchContext, Origin};

use super::settings::Settings;
use crate::robots_cache::{ChosenBy, FetchPending, Requester, RobotsCache};
use crate::upstream::Destination;

/// The source of documents for one request.
#[derive(Clone, Copy)]
pub(crate) struct DocumentSource<'a> {
    pub(crate) robots: &'a RobotsCache,
    pub(crate) settings: &'a Settings,
    /// The client that made the request.
    pub(crate) client: IpAddr,
}

/// A document that was fetched, or why it was not asked for.
type Fetched = Result<CheckedSnapshot, String>;

impl DocumentSource<'_> {
    /// Fetches all documents of a batch at once.
    pub(crate) async fn fetch_all(&self, batch: &mut DocumentBatch) -> Vec<DocumentResult> {
        let crawler = &*batch.crawler;
        let signer = self.settings.signed_by(Some(crawler));
        let context = mem::take(&mut batch.context);
        let fetches = DocumentFetches {
            source: *self,
            requester: Requester::of(&crawler.name, Some(crawler), self.client, signer.as_ref()),
            batch,
            context: Mutex::new(context),
        };
        let results = join_all(batch.documents.iter().map(|it| fetches.fetch(it))).await;
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
    source: DocumentSource<'a>,
    requester: Requester<'a>,
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
        robots.find_for(resource, self.requester).await.map(Ok)
    }

    /// Fetches what the origin that was asked for names on another host.
    async fn fetch_elsewhere(&self, resource: &Resource) -> Result<Fetched, FetchPending> {
        let robots = self.source.robots;
        let host = resource.origin();
        let robots_txt = match robots.cached_for(host, self.requester) {
            Some(cached) => cached,
            None => {
                let requester = self.requester_elsewhere().await;
                if requester.chosen == ChosenBy::Public && !self.may_be_public(host).await {
                    // Asked for all the same, it is refused where every fetch is, with a line of the log. The host's robots.txt is
                    // not: that it was refused would count for crawlers that may go there.
                    let refused = robots.find_for(resource, requester).await?;
                    return Ok(match refused.document() {
                        Some(_) => Err(DocumentBatch::NOT_ALLOWED.to_owned()),
                        None => Ok(refused),
                    });
                }
                robots.find_for(host, requester).await?
            }
        };
        if !self.allows(robots_txt.access(), resource) {
            return Ok(Err(DocumentBatch::NOT_ALLOWED.to_owned()));
        }
        match robots.cached_for(resource, self.requester) {
            Some(cached) => Ok(Ok(cached)),
            None => {
                let requester = self.requester_elsewhere().await;
                robots.find_for(resource, requester).await.map(Ok)
            }
        }
    }

    /// Returns the requester for a host that the origin has named, not the crawler.
    async fn requester_elsewhere(&self) -> Requester<'_> {
        let is_public = self.may_be_public(&self.batch.origin).await;
        Requester { chosen: ChosenBy::Crawler.for_next_host(is_public), ..self.requester }
    }

    /// Returns whether `origin` may be at a public address.
    async fn may_be_public(&self, origin: &Origin) -> bool {
        let upstream = &self.source.settings.upstream;
        let destination = Destination {
            origin,
            source: self.requester.source,
            client: self.requester.client,
            network: None,
        };
        let route = upstream.route(destination, upstream.connect_deadline());
        route.await.map_or(true, |route| route.is_public())
    }
}
