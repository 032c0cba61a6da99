//! What stands beside robots.txt and speaks of use: `tdmrep.json`, `ai.txt`, licences that robots.txt or an answer names. Asked for
//! only if it could refuse a purpose of the crawler, and only where robots.txt lets the crawler.

use std::mem;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use wayleave_robots_txt::lifecycle::{FetchErrorKind, Resource, Snapshot};
use wayleave_robots_txt::preferences::{Asker, Preferences, Source};
use wayleave_robots_txt::{
    AI_TXT_PATH, AccessResult, Document, Origin, Scheme, TDMREP_PATH, Target, Verdict, Work,
    decide_within,
};

use super::settings::Settings;
use crate::identity::Crawler;
use crate::observe::decisions::DocumentSeen;
use crate::observe::digest::Digest;
use crate::origin::Destination;
use crate::robots::{Behalf, ChosenBy, Known, Pending, Robots};

/// As a `Location` that is followed.
const LONGEST_URL: usize = 8 * 1024;

/// Where documents come from, and for whom.
#[derive(Clone, Copy)]
pub(crate) struct Documents<'a> {
    pub(crate) robots: &'a Robots,
    pub(crate) settings: &'a Settings,
    /// Where the request came from.
    pub(crate) client: IpAddr,
    /// The origin asked for.
    pub(crate) origin: &'a Origin,
}

/// A document that was asked for.
#[derive(Clone, Debug)]
pub(super) struct Consulted {
    pub(super) source: Source,
    /// As it was named.
    pub(super) named: String,
    pub(super) seen: DocumentSeen,
    /// When it is worth to ask again, if it could not be had.
    pub(super) retry_after: Option<Duration>,
}

/// Something to be had.
pub(crate) struct Wanted {
    source: Source,
    /// As it was named.
    url: String,
    resource: Result<Resource, String>,
}

/// What came of that: what is known of it, or why it was not asked for.
type Obtained = Result<Known, String>;

/// Why a document is not fetched.
pub(crate) const NOT_ALLOWED: &str = "robots.txt there does not allow it";
/// Why a licence cannot be had that may come later.
const NOT_IN_TIME: &str = "not fetched in time";

impl Documents<'_> {
    /// What was `heard` from this robots.txt for a crawler with what documents say, and which were asked for.
    ///
    /// # Errors
    ///
    /// If one that could refuse has not come in time, or was kept from coming by what holds here.
    pub(super) async fn added_to(
        &self,
        mut heard: Preferences,
        asker: Asker<'_>,
        crawler: &Crawler,
        robots_txt: &Known,
    ) -> Result<(Preferences, Vec<Consulted>), Pending> {
        let wanted = wanted(asker, self.origin, &heard);
        let mut consulted = Vec::new();
        let work = heard.work();
        let obtained = self.obtain_all(asker, crawler, robots_txt, wanted, work);
        for (wanted, obtained) in obtained.await {
            match obtained? {
                Ok(known) => {
                    heard = wanted.heard_known(heard, asker, &known)?;
                    consulted.push(wanted.consulted(Ok(&known)));
                }
                Err(_) if heard.work().is_spent() => {
                    heard.hear_too_costly(wanted.source, &wanted.url);
                }
                Err(why_not) => heard.miss_licence(&wanted.url, &why_not),
            }
        }
        Ok((heard, consulted))
    }

    /// The same with the licences alone, which an answer named. One that does not come in time cannot be had.
    pub(super) async fn licences_added_to(
        &self,
        mut heard: Preferences,
        asker: Asker<'_>,
        crawler: &Crawler,
        robots_txt: &Known,
    ) -> (Preferences, Vec<Consulted>) {
        let wanted = licences(&heard).collect();
        let mut consulted = Vec::new();
        let work = heard.work();
        let obtained = self.obtain_all(asker, crawler, robots_txt, wanted, work);
        for (wanted, obtained) in obtained.await {
            match obtained {
                Ok(Ok(known)) => {
                    heard = wanted.heard_licence(heard, &known);
                    consulted.push(wanted.consulted(Ok(&known)));
                }
                Ok(Err(why_not)) => heard.miss_licence(&wanted.url, &why_not),
                Err(pending) => {
                    heard.miss_licence(&wanted.url, NOT_IN_TIME);
                    consulted.push(wanted.consulted(Err(pending)));
                }
            }
        }
        (heard, consulted)
    }

    /// All that is wanted, at once.
    async fn obtain_all(
        &self,
        asker: Asker<'_>,
        crawler: &Crawler,
        robots_txt: &Known,
        wanted: Vec<Wanted>,
        work: &mut Work,
    ) -> Vec<(Wanted, Result<Obtained, Pending>)> {
        let signed_by = self.settings.signed_by(Some(crawler));
        let fetching = Fetching {
            documents: *self,
            behalf: Behalf::of(
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
struct Fetching<'a> {
    documents: Documents<'a>,
    behalf: Behalf<'a>,
    robots_txt: &'a Known,
    /// What may still be spent on matching for the request.
    work: Mutex<Work>,
}

impl Fetching<'_> {
    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn obtain(&self, asker: Asker<'_>, wanted: &Wanted) -> Result<Obtained, Pending> {
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
        asker: Asker<'_>,
        resource: &Resource,
    ) -> Result<Obtained, Pending> {
        let robots = self.documents.robots;
        let host = resource.origin();
        let robots_txt = match robots.at_hand_for(host, self.behalf) {
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
        match robots.at_hand_for(resource, self.behalf) {
            Some(known) => Ok(Ok(known)),
            None => {
                let behalf = self.behalf_elsewhere().await;
                robots.find_for(resource, behalf).await.map(Ok)
            }
        }
    }

    /// On whose behalf something is fetched whose host the origin asked for has named.
    async fn behalf_elsewhere(&self) -> Behalf<'_> {
        let is_public = self.may_be_public(self.documents.origin).await;
        Behalf {
            chosen: ChosenBy::Crawler.then(is_public),
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
pub(crate) fn wanted(asker: Asker<'_>, origin: &Origin, heard: &Preferences) -> Vec<Wanted> {
    let files = [(Source::Tdmrep, TDMREP_PATH), (Source::AiTxt, AI_TXT_PATH)];
    // Both are of HTTP alone (RFC 8615 section 1; Spawning).
    let has_files = origin.scheme() != Scheme::Ftp;
    let files = files.into_iter();
    let files = files.filter(|(it, _)| has_files && asker.heeds(*it));
    let files = files.map(|(source, path)| Wanted {
        source,
        url: path.to_owned(),
        resource: Ok(Resource::at(origin, path)),
    });
    files.chain(licences(heard)).collect()
}

/// The licences that are still to be fetched.
fn licences(heard: &Preferences) -> impl Iterator<Item = Wanted> + use<> {
    let licences = heard.missing_licences().into_iter();
    licences.map(|url| Wanted {
        source: Source::Rsl,
        resource: licence(&url),
        url,
    })
}

/// The resource that a licence's URL names.
fn licence(url: &str) -> Result<Resource, String> {
    if url.len() > LONGEST_URL {
        return Err(format!("its URL is longer than {LONGEST_URL} bytes"));
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
    asker: Asker<'_>,
    resource: &Resource,
    work: &mut Work,
) -> bool {
    let (path, dialect) = (resource.path(), asker.dialect);
    let decision = decide_within(access, dialect, asker.tokens, &path, false, work);
    decision.verdict() == Verdict::Allow
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

impl Wanted {
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
        mut heard: Preferences,
        asker: Asker<'_>,
        document: Option<&Document>,
    ) -> Preferences {
        match document {
            Some(Document::Tdmrep(file)) => heard.hear_tdmrep(asker, file),
            Some(Document::AiTxt(file)) => heard.hear_ai_txt(asker, file),
            Some(Document::Rsl(licence)) => heard.hear_licence(&self.url, licence),
            Some(_) | None => {}
        }
        heard
    }

    /// The same with what is known of it.
    fn heard_known(
        &self,
        heard: Preferences,
        asker: Asker<'_>,
        known: &Known,
    ) -> Result<Preferences, Pending> {
        match known.document().map(|document| &**document) {
            _ if self.source == Source::Rsl => Ok(self.heard_licence(heard, known)),
            // To an origin that does not have one, or does not hand it out, it says nothing. Here it was not asked.
            None if is_kept_from(&known.snapshot) => {
                let retry_after = known.snapshot.retry_after(known.at).unwrap_or_default();
                Err(Pending { retry_after })
            }
            document => Ok(self.heard(heard, asker, document)),
        }
    }

    fn heard_licence(&self, mut heard: Preferences, known: &Known) -> Preferences {
        match known.document().map(|document| &**document) {
            Some(Document::Rsl(licence)) => heard.hear_licence(&self.url, licence),
            _ => heard.miss_licence(&self.url, &why_not(&known.snapshot)),
        }
        heard
    }

    /// What is told of it: of what is known, or when it may be.
    fn consulted(&self, known: Result<&Known, Pending>) -> Consulted {
        let document = known.ok().filter(|known| known.document().is_some());
        let snapshot = document.map(|known| &known.snapshot);
        Consulted {
            source: self.source,
            named: self.url.clone(),
            seen: DocumentSeen {
                url: self.shown_url(),
                sha256: snapshot.and_then(|it| it.digest()).copied().map(Digest),
                fetched_at: snapshot.and_then(|it| it.fetched_at()),
                cut: snapshot.is_some_and(|it| it.is_cut()),
            },
            retry_after: match known {
                Ok(known) => known.snapshot.retry_after(known.at),
                Err(pending) => Some(pending.retry_after),
            },
        }
    }
}
