//! The documents next to robots.txt about use: `tdmrep.json`, and licences that robots.txt or a response names.

use std::sync::Arc;
use std::time::Duration;

use wayleave_lifecycle::{FetchErrorKind, Resource, Snapshot};
use wayleave_robots_txt::{
    AccessResult, AccessVerdict, Dialect, MatchContext, Origin, ProductToken, Target, UrlScheme,
    decide_write_all_spellings_within,
};
use wayleave_usage_preferences::{
    PreferenceDocument, PreferenceQuery, PreferenceSource, PreferenceState, TDMREP_PATH,
};

use crate::crawler::Crawler;
use crate::robots::{CheckedSnapshot, RobotsCopy};
use crate::stated_preference::DocumentSeen;

/// The cause of the absence of a licence that may still arrive.
const NOT_IN_TIME: &str = "not fetched in time";

/// A document that was requested.
#[derive(Clone, Debug)]
pub(crate) struct ConsultedDocument {
    pub(crate) source: PreferenceSource,
    /// The URL as it was written.
    pub(crate) named: String,
    pub(crate) seen: DocumentSeen,
    /// The time after which it is worth asking again, if it was not available.
    pub(crate) retry_after: Option<Duration>,
}

/// A document to fetch.
#[derive(Clone, Debug)]
pub struct DocumentToFetch {
    source: PreferenceSource,
    /// The URL as it was written.
    named: String,
    resource: Result<Resource, String>,
}

/// The outcome of fetching a document.
#[derive(Debug)]
pub enum DocumentResult {
    /// From a cache, or just fetched.
    Cached(CheckedSnapshot),
    /// From an export; none if it was not available when the decision was made.
    Archived(Option<PreferenceDocument>),
    /// Not requested, with the cause.
    NotAsked(String),
    /// Not fetched in time.
    Pending {
        /// The time after which it may be there.
        retry_after: Duration,
    },
}

/// The answer that a document which could refuse has not arrived.
#[derive(Clone, Copy, Debug)]
pub struct DocumentPending {
    /// The time after which it may be there.
    pub retry_after: Duration,
}

/// Documents to fetch, all at once, with the inputs for deciding whether they may be fetched.
#[derive(Debug)]
pub struct DocumentBatch {
    /// The documents.
    pub documents: Vec<DocumentToFetch>,
    /// The work that is left for matching for the request.
    pub context: MatchContext,
    /// The crawler on whose behalf they are fetched.
    pub crawler: Arc<Crawler>,
    /// The origin of the request.
    pub origin: Origin,
    /// Its robots.txt.
    pub robots_txt: RobotsCopy,
}

impl DocumentBatch {
    /// The cause of not fetching a document that a robots.txt disallows.
    pub const NOT_ALLOWED: &str = "robots.txt there disallows it";

    /// Returns whether the crawler may fetch a document from an origin with this robots.txt, within the work that is left.
    pub fn allows(
        &self,
        access: &AccessResult,
        resource: &Resource,
        context: &mut MatchContext,
    ) -> bool {
        may_fetch((self.crawler.dialect, &self.crawler.tokens), access, resource, context)
    }
}

/// Returns whether a crawler with this dialect and these tokens may fetch a document from an origin with this robots.txt, within
/// the work that is left.
pub fn may_fetch(
    (dialect, tokens): (Dialect, &[ProductToken]),
    access: &AccessResult,
    resource: &Resource,
    context: &mut MatchContext,
) -> bool {
    let path = resource.path();
    // Not as for a read: a licence at `/robots.txt` is judged like one at any other path.
    let decision = decide_write_all_spellings_within(access, dialect, tokens, &path, context);
    decision.verdict() == AccessVerdict::Allow
}

/// Returns the documents that could still refuse a purpose: the file of `origin`, and licences.
#[must_use]
pub fn documents_to_fetch(
    query: PreferenceQuery<'_>,
    origin: &Origin,
    state: &PreferenceState,
) -> Vec<DocumentToFetch> {
    // It is of HTTP alone (RFC 8615 section 1).
    let has_file =
        origin.scheme() != UrlScheme::Ftp && query.could_be_refused_by(PreferenceSource::Tdmrep);
    let file = has_file.then(|| DocumentToFetch {
        source: PreferenceSource::Tdmrep,
        named: TDMREP_PATH.to_owned(),
        resource: Ok(Resource::at(origin, TDMREP_PATH)),
    });
    file.into_iter().chain(licences_to_fetch(state)).collect()
}

/// Returns the licences that were named and are still to be fetched.
pub(crate) fn licences_to_fetch(state: &PreferenceState) -> Vec<DocumentToFetch> {
    state
        .missing_licences()
        .into_iter()
        .map(|url| DocumentToFetch {
            source: PreferenceSource::Rsl,
            resource: licence_resource(&url),
            named: url,
        })
        .collect()
}

fn licence_resource(url: &str) -> Result<Resource, String> {
    let target = Target::parse(url).map_err(|error| error.to_string())?;
    if target.origin().scheme() == UrlScheme::Ftp {
        return Err("licences are fetched over HTTP only".to_owned());
    }
    Ok(target.into())
}

/// Returns whether no request for a document has reached its origin, so that nothing is known about it yet.
fn is_not_asked_yet(source: PreferenceSource, snapshot: &Snapshot) -> bool {
    snapshot.error_kind().is_some_and(|kind| {
        // A licence that must not be fetched is unavailable, which refuses; an origin without a file states nothing.
        let is_kept_from =
            matches!(kind, FetchErrorKind::RedirectProhibited | FetchErrorKind::Internal);
        kind.is_own_fault() || is_kept_from && source != PreferenceSource::Rsl
    })
}

fn cause_of_absence(snapshot: &Snapshot) -> String {
    match (snapshot.cause(), snapshot.status()) {
        (Some(cause), _) => format!("not available: {cause}"),
        (None, Some(status)) => format!("not available: status {status}"),
        (None, None) => "not available".to_owned(),
    }
}

impl DocumentToFetch {
    /// Returns the resource to fetch.
    ///
    /// # Errors
    ///
    /// Returns the cause if its URL cannot be fetched.
    pub fn resource(&self) -> Result<&Resource, String> {
        self.resource.as_ref().map_err(String::clone)
    }

    /// Returns the URL from which it is fetched, as the log writes it.
    #[must_use]
    pub fn url(&self) -> String {
        self.resource.as_ref().map_or_else(|_| self.named.clone(), Resource::uri)
    }

    /// Adds the document to `state`.
    ///
    /// # Errors
    ///
    /// Returns an error if it could refuse and has not arrived.
    pub fn add_to(
        &self,
        state: &mut PreferenceState,
        query: PreferenceQuery<'_>,
        result: &DocumentResult,
    ) -> Result<(), DocumentPending> {
        match result {
            DocumentResult::Pending { retry_after } => {
                return Err(DocumentPending { retry_after: *retry_after });
            }
            // With the budget spent, no robots.txt could allow the fetch, which says nothing about the document.
            DocumentResult::NotAsked(_) if state.match_context().is_spent() => {
                state.add_too_costly(self.source, &self.named);
            }
            DocumentResult::NotAsked(cause) => state.set_licence_unavailable(&self.named, cause),
            DocumentResult::Cached(cached) => {
                let document = cached.document();
                if document.is_none() && is_not_asked_yet(self.source, &cached.snapshot) {
                    let retry_after = cached.snapshot.retry_after(cached.checked_at);
                    return Err(DocumentPending { retry_after: retry_after.unwrap_or_default() });
                }
                match self.source {
                    PreferenceSource::Rsl => self.add_licence(state, cached),
                    _ => self.add_document(state, query, document),
                }
            }
            DocumentResult::Archived(document) => {
                self.add_document(state, query, document.as_ref());
            }
        }
        Ok(())
    }

    /// Adds a licence that a response named; one that has not arrived in time is unavailable.
    pub(crate) fn add_licence_to(&self, state: &mut PreferenceState, result: &DocumentResult) {
        match result {
            DocumentResult::Cached(cached) => self.add_licence(state, cached),
            DocumentResult::NotAsked(cause) => state.set_licence_unavailable(&self.named, cause),
            DocumentResult::Pending { .. } => {
                state.set_licence_unavailable(&self.named, NOT_IN_TIME);
            }
            DocumentResult::Archived(Some(PreferenceDocument::Rsl(licence))) => {
                state.add_licence(&self.named, licence);
            }
            // A licence that is never added counts as unavailable.
            DocumentResult::Archived(_) => {}
        }
    }

    fn add_document(
        &self,
        state: &mut PreferenceState,
        query: PreferenceQuery<'_>,
        document: Option<&PreferenceDocument>,
    ) {
        match document {
            Some(PreferenceDocument::Tdmrep(file)) => state.add_tdmrep(query, file),
            Some(PreferenceDocument::Rsl(licence)) => state.add_licence(&self.named, licence),
            Some(_) | None => {}
        }
    }

    fn add_licence(&self, state: &mut PreferenceState, cached: &CheckedSnapshot) {
        match cached.document() {
            Some(PreferenceDocument::Rsl(licence)) => state.add_licence(&self.named, licence),
            _ => state.set_licence_unavailable(&self.named, &cause_of_absence(&cached.snapshot)),
        }
    }

    /// Returns the document as it is recorded; none if it was not requested.
    pub(crate) fn consulted(&self, result: &DocumentResult) -> Option<ConsultedDocument> {
        let (cached, retry_after) = match result {
            DocumentResult::Cached(cached) => {
                (Some(cached), cached.snapshot.retry_after(cached.checked_at))
            }
            DocumentResult::Pending { retry_after } => (None, Some(*retry_after)),
            DocumentResult::NotAsked(_) | DocumentResult::Archived(_) => return None,
        };
        // A copy that was too old to use decided nothing.
        let snapshot =
            cached.filter(|cached| cached.document().is_some()).map(|cached| &*cached.snapshot);
        Some(ConsultedDocument {
            source: self.source,
            named: self.named.clone(),
            seen: DocumentSeen {
                url: self.url(),
                sha256: snapshot.and_then(Snapshot::digest).copied(),
                fetched_at: snapshot.and_then(Snapshot::fetched_at),
                is_cut: snapshot.is_some_and(Snapshot::is_cut),
            },
            retry_after,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use wayleave_robots_txt::RobotsTxt;
    use wayleave_usage_preferences::{CrawlerDeclaration, PreferenceSettings, Purpose, PurposeSet};

    use super::*;

    #[test]
    fn ftp_has_neither_files_nor_licences() {
        let declaration = CrawlerDeclaration {
            purposes: PurposeSet::of(&[Purpose::TrainAi]),
            ..CrawlerDeclaration::default()
        };
        let query = PreferenceQuery {
            declaration: &declaration,
            settings: &PreferenceSettings::default(),
            tokens: &[],
            dialect: Dialect::Rfc9309,
            all_spellings: true,
            now: SystemTime::UNIX_EPOCH,
        };
        let licences = "License: ftp://shop.test/a.xml\nLicense: http://shop.test/b.xml\n";
        let mut state = PreferenceState::new(query, "https://shop.test/", "/");
        state.add_robots_txt(query, &RobotsTxt::parse(licences.as_bytes()));
        let urls = |origin: &str| {
            let documents = documents_to_fetch(query, &Origin::parse(origin).unwrap(), &state);
            let resources =
                documents.iter().map(|document| document.resource().map(Resource::uri).ok());
            resources.collect::<Vec<_>>()
        };
        let licences = [None, Some("http://shop.test/b.xml".to_owned())];
        assert_eq!(urls("ftp://shop.test"), licences);
        let file = Some("https://shop.test/.well-known/tdmrep.json".to_owned());
        assert_eq!(urls("https://shop.test"), [&[file], &licences[..]].concat());
    }

    #[test]
    fn a_licence_at_the_path_of_robots_txt_may_be_disallowed() {
        let closed = RobotsTxt::parse(b"User-agent: *\nDisallow: /\n");
        let closed = AccessResult::Successful(closed);
        let licence = Resource::from(Target::parse("https://shop.test/robots.txt").unwrap());
        let crawler = (Dialect::Rfc9309, &[][..]);
        assert!(!may_fetch(crawler, &closed, &licence, &mut MatchContext::default()));
    }
}
