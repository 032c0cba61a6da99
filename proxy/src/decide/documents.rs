//! What stands beside robots.txt and speaks of use: `tdmrep.json`, `ai.txt`, licences that robots.txt or an answer names. Asked for
//! only if it could refuse a purpose of the crawler, and only where robots.txt lets the crawler.

use std::mem;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use wayleave_lifecycle::{FetchErrorKind, Resource, Snapshot};
use wayleave_robots_txt::{
    AccessResult, AccessVerdict, MatchContext, Origin, Scheme, Target, decide_all_spellings_within,
};
use wayleave_usage_preferences::{AI_TXT_PATH, PreferenceDocument, TDMREP_PATH};
use wayleave_usage_preferences::{PreferenceQuery, PreferenceSource, PreferenceState};

use super::settings::Settings;
use crate::decision_log::DocumentRecord;
use crate::identity::Crawler;
use crate::robots_cache::{CachedDocument, ChosenBy, FetchPending, Requester, RobotsCache};
use crate::telemetry::digest::Sha256Digest;
use crate::upstream::Destination;

/// As a `Location` that is followed.
const MAX_URL_BYTES: usize = 8 * 1024;

/// Where documents come from, and for whom.
#[derive(Clone, Copy)]
pub(crate) struct DocumentSource<'a> {
    pub(crate) robots: &'a RobotsCache,
    pub(crate) settings: &'a Settings,
    /// Where the request came from.
    pub(crate) client: IpAddr,
    /// The origin asked for.
    pub(crate) origin: &'a Origin,
}

/// A document that was asked for.
#[derive(Clone, Debug)]
pub(super) struct ConsultedDocument {
    pub(super) source: PreferenceSource,
    /// As it was named.
    pub(super) named: String,
    pub(super) seen: DocumentRecord,
    /// When it is worth to ask again, if it could not be had.
    pub(super) retry_after: Option<Duration>,
}

/// Something to be had.
pub(crate) struct DocumentToFetch {
    source: PreferenceSource,
    /// As it was named.
    url: String,
    resource: Result<Resource, String>,
}

/// What came of that: what is known of it, or why it was not asked for.
type Obtained = Result<CachedDocument, String>;

/// Why a document is not fetched.
pub(crate) const NOT_ALLOWED: &str = "robots.txt there does not allow it";
/// Why a licence cannot be had that may come later.
const NOT_IN_TIME: &str = "not fetched in time";

impl DocumentSource<'_> {
    /// What was `heard` from this robots.txt for a crawler with what documents say, and which were asked for.
    ///
    /// # Errors
    ///
    /// If one that could refuse has not come in time, or was kept from coming by what holds here.
    pub(super) async fn added_to(
        &self,
        mut heard: PreferenceState,
        asker: PreferenceQuery<'_>,
        crawler: &Crawler,
        robots_txt: &CachedDocument,
    ) -> Result<(PreferenceState, Vec<ConsultedDocument>), FetchPending> {
        let wanted = wanted(asker, self.origin, &heard);
        let mut consulted = Vec::new();
        let work = heard.match_context();
        let obtained = self.obtain_all(asker, crawler, robots_txt, wanted, work);
        for (wanted, obtained) in obtained.await {
            match obtained? {
                Ok(known) => {
                    heard = wanted.heard_known(heard, asker, &known)?;
                    consulted.push(wanted.consulted(Ok(&known)));
                }
                Err(_) if heard.match_context().is_spent() => {
                    heard.add_too_costly(wanted.source, &wanted.url);
                }
                Err(why_not) => heard.licence_unavailable(&wanted.url, &why_not),
            }
        }
        Ok((heard, consulted))
    }

    /// The same with the licences alone, which an answer named. One that does not come in time cannot be had.
    pub(super) async fn licences_added_to(
        &self,
        mut heard: PreferenceState,
        asker: PreferenceQuery<'_>,
        crawler: &Crawler,
        robots_txt: &CachedDocument,
    ) -> (PreferenceState, Vec<ConsultedDocument>) {
        let wanted = licences(&heard).collect();
        let mut consulted = Vec::new();
        let work = heard.match_context();
        let obtained = self.obtain_all(asker, crawler, robots_txt, wanted, work);
        for (wanted, obtained) in obtained.await {
            match obtained {
                Ok(Ok(known)) => {
                    heard = wanted.heard_licence(heard, &known);
                    consulted.push(wanted.consulted(Ok(&known)));
                }
                Ok(Err(why_not)) => heard.licence_unavailable(&wanted.url, &why_not),
                Err(pending) => {
                    heard.licence_unavailable(&wanted.url, NOT_IN_TIME);
                    consulted.push(wanted.consulted(Err(pending)));
                }
            }
        }
        (heard, consulted)
    }

    /// All that is wanted, at once.
    async fn obtain_all(
        &self,
        asker: PreferenceQuery<'_>,
        crawler: &Crawler,
        robots_txt: &CachedDocument,
        wanted: Vec<DocumentToFetch>,
        work: &mut MatchContext,
    ) -> Vec<(DocumentToFetch, Result<Obtained, FetchPending>)> {
        let signed_by = self.settings.signed_by(Some(crawler));
        let fetching = DocumentFetches {
            documents: *self,
            behalf: Requester::of(
                &crawler.name,
                Some(crawler),
                self.client,
                signed_by.as_ref(),
            ),
            robots_txt,
            work: Mutex::new(mem::take(work)),
        };
        let obtained = join_all(wanted.iter().map(|it| fetching.obtain(asker, it))).await;
        *work = fetching.work().clone();
        wanted.into_iter().zip(obtained).collect()
    }
}

/// What is fetched on behalf of a crawler that asked for an origin with this robots.txt.
struct DocumentFetches<'a> {
    documents: DocumentSource<'a>,
    behalf: Requester<'a>,
    robots_txt: &'a CachedDocument,
    /// What may still be spent on matching for the request.
    work: Mutex<MatchContext>,
}

impl DocumentFetches<'_> {
    fn work(&self) -> MutexGuard<'_, MatchContext> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn obtain(
        &self,
        asker: PreferenceQuery<'_>,
        wanted: &DocumentToFetch,
    ) -> Result<Obtained, FetchPending> {
        let resource = match wanted.resource() {
            Ok(resource) => resource,
            Err(why_not) => return Ok(Err(why_not)),
        };
        if resource.origin() != self.documents.origin {
            return self.obtain_elsewhere(asker, resource).await;
        }
        let access = self.robots_txt.access();
        if !allows(access, asker, resource, &mut self.work()) {
            return Ok(Err(NOT_ALLOWED.to_owned()));
        }
        self.documents
            .robots
            .find_for(resource, self.behalf)
            .await
            .map(Ok)
    }

    /// What the origin asked for names on another host.
    async fn obtain_elsewhere(
        &self,
        asker: PreferenceQuery<'_>,
        resource: &Resource,
    ) -> Result<Obtained, FetchPending> {
        let robots = self.documents.robots;
        let host = resource.origin();
        let robots_txt = match robots.cached_for(host, self.behalf) {
            Some(known) => known,
            None => {
                let behalf = self.behalf_elsewhere().await;
                if behalf.chosen == ChosenBy::Public && !self.may_be_public(host).await {
                    // Asked for all the same, it is refused where every fetch is, with a line of the log. The host's robots.txt is
                    // not: that it was refused would count for crawlers that may go there.
                    let refused = robots.find_for(resource, behalf).await?;
                    return Ok(match refused.document() {
                        Some(_) => Err(NOT_ALLOWED.to_owned()),
                        None => Ok(refused),
                    });
                }
                robots.find_for(host, behalf).await?
            }
        };
        if !allows(robots_txt.access(), asker, resource, &mut self.work()) {
            return Ok(Err(NOT_ALLOWED.to_owned()));
        }
        match robots.cached_for(resource, self.behalf) {
            Some(known) => Ok(Ok(known)),
            None => {
                let behalf = self.behalf_elsewhere().await;
                robots.find_for(resource, behalf).await.map(Ok)
            }
        }
    }

    /// On whose behalf something is fetched whose host the origin asked for has named.
    async fn behalf_elsewhere(&self) -> Requester<'_> {
        let is_public = self.may_be_public(self.documents.origin).await;
        Requester {
            chosen: ChosenBy::Crawler.for_next_host(is_public),
            ..self.behalf
        }
    }

    /// Whether `origin` may be at a public address.
    async fn may_be_public(&self, origin: &Origin) -> bool {
        let upstream = &self.documents.settings.upstream;
        let destination = Destination {
            origin,
            source: self.behalf.source,
            client: self.behalf.client,
        };
        let route = upstream.route(destination, upstream.connect_deadline());
        route.await.map_or(true, |route| route.is_public())
    }
}

/// What may say something beside the robots.txt of `origin`, of which so much was `heard`: the files that could refuse a purpose, and
/// licences.
pub(crate) fn wanted(
    asker: PreferenceQuery<'_>,
    origin: &Origin,
    heard: &PreferenceState,
) -> Vec<DocumentToFetch> {
    let files = [
        (PreferenceSource::Tdmrep, TDMREP_PATH),
        (PreferenceSource::AiTxt, AI_TXT_PATH),
    ];
    // Both are of HTTP alone (RFC 8615 section 1; Spawning).
    let has_files = origin.scheme() != Scheme::Ftp;
    let files = files.into_iter();
    let files = files.filter(|(it, _)| has_files && asker.could_be_refused_by(*it));
    let files = files.map(|(source, path)| DocumentToFetch {
        source,
        url: path.to_owned(),
        resource: Ok(Resource::at(origin, path)),
    });
    files.chain(licences(heard)).collect()
}

/// The licences that are still to be fetched.
fn licences(heard: &PreferenceState) -> impl Iterator<Item = DocumentToFetch> + use<> {
    let licences = heard.missing_licences().into_iter();
    licences.map(|url| DocumentToFetch {
        source: PreferenceSource::Rsl,
        resource: licence(&url),
        url,
    })
}

/// The resource that a licence's URL names.
fn licence(url: &str) -> Result<Resource, String> {
    if url.len() > MAX_URL_BYTES {
        return Err(format!("its URL is longer than {MAX_URL_BYTES} bytes"));
    }
    let target = Target::parse(url).map_err(|error| error.to_string())?;
    if target.origin().scheme() == Scheme::Ftp {
        return Err("licences are fetched over HTTP only".to_owned());
    }
    Ok(target.into())
}

/// Whether a document may be fetched where this robots.txt holds.
pub(crate) fn allows(
    access: &AccessResult,
    asker: PreferenceQuery<'_>,
    resource: &Resource,
    work: &mut MatchContext,
) -> bool {
    let (path, dialect) = (resource.path(), asker.dialect);
    let decision = decide_all_spellings_within(access, dialect, asker.tokens, &path, false, work);
    decision.verdict() == AccessVerdict::Allow
}

/// Whether the last attempt ended for a reason that is not the origin's.
fn is_kept_from(snapshot: &Snapshot) -> bool {
    let kind = snapshot.error_kind();
    matches!(
        kind,
        Some(FetchErrorKind::RedirectProhibited | FetchErrorKind::Internal)
    )
}

fn why_not(snapshot: &Snapshot) -> String {
    match (snapshot.cause(), snapshot.status()) {
        (Some(cause), _) => format!("not to be had: {cause}"),
        (None, Some(status)) => format!("not to be had: status {status}"),
        (None, None) => "not to be had".to_owned(),
    }
}

impl DocumentToFetch {
    /// What to fetch, or why it cannot be.
    pub(crate) fn resource(&self) -> Result<&Resource, String> {
        self.resource.as_ref().map_err(String::clone)
    }

    /// Where it is asked for.
    pub(crate) fn shown_url(&self) -> String {
        let resource = self.resource.as_ref();
        resource.map_or_else(|_| self.url.clone(), Resource::uri)
    }

    /// What was heard with this document; none: it was not to be had.
    pub(crate) fn heard(
        &self,
        mut heard: PreferenceState,
        asker: PreferenceQuery<'_>,
        document: Option<&PreferenceDocument>,
    ) -> PreferenceState {
        match document {
            Some(PreferenceDocument::Tdmrep(file)) => heard.add_tdmrep(asker, file),
            Some(PreferenceDocument::AiTxt(file)) => heard.add_ai_txt(asker, file),
            Some(PreferenceDocument::Rsl(licence)) => heard.add_licence(&self.url, licence),
            Some(_) | None => {}
        }
        heard
    }

    /// The same with what is known of it.
    fn heard_known(
        &self,
        heard: PreferenceState,
        asker: PreferenceQuery<'_>,
        known: &CachedDocument,
    ) -> Result<PreferenceState, FetchPending> {
        match known.document().map(|document| &**document) {
            _ if self.source == PreferenceSource::Rsl => Ok(self.heard_licence(heard, known)),
            // To an origin that does not have one, or does not hand it out, it says nothing. Here it was not asked.
            None if is_kept_from(&known.snapshot) => {
                let retry_after = known
                    .snapshot
                    .retry_after(known.checked_at)
                    .unwrap_or_default();
                Err(FetchPending { retry_after })
            }
            document => Ok(self.heard(heard, asker, document)),
        }
    }

    fn heard_licence(&self, mut heard: PreferenceState, known: &CachedDocument) -> PreferenceState {
        match known.document().map(|document| &**document) {
            Some(PreferenceDocument::Rsl(licence)) => heard.add_licence(&self.url, licence),
            _ => heard.licence_unavailable(&self.url, &why_not(&known.snapshot)),
        }
        heard
    }

    /// What is told of it: of what is known, or when it may be.
    fn consulted(&self, known: Result<&CachedDocument, FetchPending>) -> ConsultedDocument {
        let document = known.ok().filter(|known| known.document().is_some());
        let snapshot = document.map(|known| &known.snapshot);
        ConsultedDocument {
            source: self.source,
            named: self.url.clone(),
            seen: DocumentRecord {
                url: self.shown_url(),
                sha256: snapshot
                    .and_then(|it| it.digest())
                    .copied()
                    .map(Sha256Digest),
                fetched_at: snapshot.and_then(|it| it.fetched_at()),
                cut: snapshot.is_some_and(|it| it.is_cut()),
            },
            retry_after: match known {
                Ok(known) => known.snapshot.retry_after(known.checked_at),
                Err(pending) => Some(pending.retry_after),
            },
        }
    }
}
