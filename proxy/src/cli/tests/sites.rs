//! The files of origins, from which both the proxy's cache and `wayleave check` fetch.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use wayleave_admission::offline::InputSource;
use wayleave_decision::{CheckedSnapshot, DocumentResult, RobotsCopy};
use wayleave_evidence::Sha256Digest;
use wayleave_lifecycle::{
    FetchEnding, FetchErrorKind, FetchOutcome, FetchRequest, FetchedBody, FetchedResponse,
    FinishedFetch, Resource, ResponseFields,
};
use wayleave_robots_cache::{DocumentFetcher, FetchedDocument};
use wayleave_robots_txt::Origin;

/// The result of fetching a file.
#[derive(Clone, Debug)]
pub(super) enum FileAnswer {
    Text(String),
    Status(u16),
    RedirectLost,
    Fails(FetchErrorKind),
    /// Nothing, for as long as a request waits.
    Silent,
}

/// The files of all origins, by URL. Others do not exist.
#[derive(Clone, Debug, Default)]
pub(super) struct Sites {
    files: Arc<Mutex<HashMap<String, FileAnswer>>>,
}

impl Sites {
    pub(super) fn serve(&self, url: &str, answer: FileAnswer) {
        self.files.lock().unwrap().insert(url.to_owned(), answer);
    }

    /// Lets every fetch fail from now on.
    pub(super) fn break_all(&self) {
        for answer in self.files.lock().unwrap().values_mut() {
            *answer = FileAnswer::Fails(FetchErrorKind::Connect);
        }
    }

    pub(super) fn urls(&self) -> Vec<String> {
        self.files.lock().unwrap().keys().cloned().collect()
    }

    /// Returns all texts by digest, as an archive keeps them.
    pub(super) fn bodies(&self) -> HashMap<Sha256Digest, Vec<u8>> {
        let files = self.files.lock().unwrap();
        let texts = files.values().filter_map(|answer| match answer {
            FileAnswer::Text(text) => Some(text.clone().into_bytes()),
            _ => None,
        });
        texts.map(|text| (Sha256Digest::of(&text), text)).collect()
    }

    /// Returns the outcome of a fetch; none if it does not end in time.
    fn outcome(&self, resource: &Resource) -> Option<FetchOutcome> {
        let uri = resource.uri();
        let answer = self.files.lock().unwrap().get(&uri).cloned();
        let (status, bytes) = match answer.unwrap_or(FileAnswer::Status(404)) {
            FileAnswer::Silent => return None,
            FileAnswer::Fails(kind) => return Some(FetchOutcome::failed(uri, kind, "as scripted")),
            FileAnswer::RedirectLost => {
                let ending = FetchEnding::RedirectLost(302);
                return Some(FetchOutcome { redirects: Vec::new(), uri, ending });
            }
            FileAnswer::Status(status) => (status, Vec::new()),
            FileAnswer::Text(text) => (200, text.into_bytes()),
        };
        let digest = Some(Arc::new(Sha256Digest::of(&bytes).0));
        let body = FetchedBody { bytes: bytes.into(), is_cut: false, digest };
        let fields = ResponseFields::default();
        let ending = FetchEnding::Response(FetchedResponse { status, fields, body });
        Some(FetchOutcome { redirects: Vec::new(), uri, ending })
    }
}

impl DocumentFetcher for Sites {
    async fn fetch(&self, request: FetchRequest, _: Option<&[u8]>) -> FetchedDocument {
        match self.outcome(&request.resource) {
            Some(outcome) => outcome.into(),
            None => std::future::pending().await,
        }
    }
}

/// The files as `wayleave check` fetches them.
pub(super) struct CheckedSites<'a> {
    pub(super) sites: &'a Sites,
    pub(super) now: SystemTime,
}

impl InputSource for CheckedSites<'_> {
    fn robots_txt(&mut self, origin: &Origin) -> RobotsCopy {
        let resource = Resource::from(origin);
        let outcome = self.sites.outcome(&resource);
        let outcome = outcome.unwrap_or_else(|| {
            FetchOutcome::failed(resource.uri(), FetchErrorKind::Timeout, "as scripted")
        });
        RobotsCopy::Cached(CheckedSnapshot::from_fetch(
            &resource,
            FinishedFetch::of_proxy(outcome, self.now),
        ))
    }

    fn document(&mut self, resource: &Resource) -> DocumentResult {
        match self.sites.outcome(resource) {
            Some(outcome) => DocumentResult::Cached(CheckedSnapshot::from_fetch(
                resource,
                FinishedFetch::of_proxy(outcome, self.now),
            )),
            None => DocumentResult::Pending { retry_after: Duration::from_secs(1) },
        }
    }
}
