//! What stands beside robots.txt and speaks of use: `tdmrep.json`, licences that robots.txt names, `ai.txt`. Asked for only if
//! it could refuse a purpose of the crawler, and only where robots.txt lets the crawler.

use std::time::Duration;

use futures_util::future::join_all;
use wayleave_policy::lifecycle::{FetchErrorKind, Resource, Snapshot};
use wayleave_policy::preferences::{Asker, Preferences, Source};
use wayleave_policy::{
    AI_TXT_PATH, AccessResult, Document, Origin, Scheme, TDMREP_PATH, Target, Verdict,
    decide_any_path_strictly,
};

use super::settings::Settings;
use crate::observe::decisions::DocumentSeen;
use crate::observe::digest::Digest;
use crate::origin::Destination;
use crate::robots::{Behalf, ChosenBy, Known, Pending, Robots};

/// No site needs more licences for one crawler; those beyond cannot be had, which refuses.
const MOST_LICENCES: usize = 8;
/// As a `Location` that is followed.
const LONGEST_URL: usize = 8 * 1024;

/// Where documents come from, and for whom.
pub(super) struct Documents<'a> {
    pub(super) robots: &'a Robots,
    pub(super) settings: &'a Settings,
    pub(super) behalf: Behalf<'a>,
    /// The origin asked for, and its robots.txt.
    pub(super) origin: &'a Origin,
    pub(super) known: &'a Known,
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
struct Wanted {
    source: Source,
    /// As it was named.
    url: String,
    resource: Result<Resource, String>,
}

/// What came of that: what is known of it, or why it was not asked for.
type Obtained = Result<Known, String>;

impl Documents<'_> {
    /// Adds what documents say to what was `heard`, and tells which were asked for.
    ///
    /// # Errors
    ///
    /// If one that could refuse has not come in time, or was kept from coming by what holds here.
    pub(super) async fn add_to(
        &self,
        asker: Asker<'_>,
        heard: &mut Preferences,
    ) -> Result<Vec<Consulted>, Pending> {
        let wanted = self.wanted(asker, heard);
        let obtained = join_all(wanted.iter().map(|it| self.obtain(asker, it))).await;
        let mut consulted = Vec::new();
        for (wanted, obtained) in wanted.iter().zip(obtained) {
            match obtained? {
                Ok(known) => {
                    hear(asker, heard, wanted, &known)?;
                    consulted.push(Consulted {
                        source: wanted.source,
                        named: wanted.url.clone(),
                        seen: seen(wanted, &known),
                        retry_after: known.snapshot.retry_after(known.at),
                    });
                }
                Err(why_not) => heard.miss_licence(&wanted.url, &why_not),
            }
        }
        Ok(consulted)
    }

    fn wanted(&self, asker: Asker<'_>, heard: &Preferences) -> Vec<Wanted> {
        let files = [(Source::Tdmrep, TDMREP_PATH), (Source::AiTxt, AI_TXT_PATH)];
        // Both are of HTTP alone (RFC 8615 section 1; Spawning).
        let has_files = self.origin.scheme() != Scheme::Ftp;
        let files = files.into_iter();
        let files = files.filter(|(it, _)| has_files && asker.heeds(*it));
        let files = files.map(|(source, path)| Wanted {
            source,
            url: path.to_owned(),
            resource: Ok(Resource::at(self.origin, path)),
        });
        let licences = heard.missing_licences().into_iter().enumerate();
        let licences = licences.map(|(index, url)| Wanted {
            source: Source::Rsl,
            resource: licence(&url, index),
            url,
        });
        files.chain(licences).collect()
    }

    async fn obtain(&self, asker: Asker<'_>, wanted: &Wanted) -> Result<Obtained, Pending> {
        let resource = match &wanted.resource {
            Ok(resource) => resource,
            Err(why_not) => return Ok(Err(why_not.clone())),
        };
        let is_own = resource.origin() == self.origin;
        let is_allowed = if is_own {
            allows(self.known.access(), asker, resource)
        } else {
            let known = self.robots.find_for(resource.origin(), self.behalf);
            allows(known.await?.access(), asker, resource)
        };
        if !is_allowed {
            return Ok(Err("robots.txt there does not allow it".to_owned()));
        }
        if let Some(known) = self.robots.at_hand(resource) {
            return Ok(Ok(known));
        }
        let chosen = match is_own {
            true => ChosenBy::Crawler,
            false => ChosenBy::Crawler.then(self.is_public().await),
        };
        let behalf = Behalf {
            chosen,
            ..self.behalf
        };
        self.robots.find_for(resource, behalf).await.map(Ok)
    }

    /// Whether the origin asked for, which names others, may be at a public address.
    async fn is_public(&self) -> bool {
        let upstream = &self.settings.upstream;
        let destination = Destination {
            origin: self.origin,
            source: self.behalf.source,
        };
        let route = upstream.route(destination, upstream.connect_deadline());
        route.await.map_or(true, |route| route.is_public())
    }
}

/// The resource that a licence's URL names, by its place among all that are named.
fn licence(url: &str, index: usize) -> Result<Resource, String> {
    if index >= MOST_LICENCES {
        return Err(format!("no more than {MOST_LICENCES} licences are read"));
    }
    if url.len() > LONGEST_URL {
        return Err(format!("its URL is longer than {LONGEST_URL} bytes"));
    }
    let target = Target::parse(url).map_err(|error| error.to_string())?;
    if target.origin().scheme() == Scheme::Ftp {
        return Err("licences are fetched over HTTP only".to_owned());
    }
    Ok(target.into())
}

fn allows(access: &AccessResult, asker: Asker<'_>, resource: &Resource) -> bool {
    let path = resource.path();
    let decision = decide_any_path_strictly(access, asker.dialect, asker.tokens, &path);
    decision.verdict() == Verdict::Allow
}

fn hear(
    asker: Asker<'_>,
    heard: &mut Preferences,
    wanted: &Wanted,
    known: &Known,
) -> Result<(), Pending> {
    match known.document().map(|document| &**document) {
        Some(Document::Tdmrep(file)) => heard.hear_tdmrep(asker, file),
        Some(Document::AiTxt(file)) => heard.hear_ai_txt(asker, file),
        Some(Document::Rsl(licence)) => heard.hear_licence(&wanted.url, licence),
        None if wanted.source == Source::Rsl => {
            heard.miss_licence(&wanted.url, &why_not(&known.snapshot));
        }
        // To an origin that does not have one, or does not hand it out, it says nothing. Here it was not asked.
        None if is_kept_from(&known.snapshot) => {
            let retry_after = known.snapshot.retry_after(known.at).unwrap_or_default();
            return Err(Pending { retry_after });
        }
        Some(_) | None => {}
    }
    Ok(())
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

fn seen(wanted: &Wanted, known: &Known) -> DocumentSeen {
    let document = known.document().is_some().then_some(&known.snapshot);
    DocumentSeen {
        url: wanted
            .resource
            .as_ref()
            .map_or_else(|_| wanted.url.clone(), Resource::uri),
        sha256: document.and_then(|it| it.digest()).copied().map(Digest),
        fetched_at: document.and_then(|it| it.fetched_at()),
    }
}
