//! The JSON that the API serves about origins' robots.txt files.

use std::time::SystemTime;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::Serialize;
use utoipa::ToSchema;
use wayleave_evidence::Sha256Digest;
use wayleave_lifecycle::{
    Audience, FetchErrorKind, FetchOutcome, FinishedFetch, Resource, ResponseFields, Snapshot,
};
use wayleave_robots_cache::{self as robots_cache, CacheInspection};
use wayleave_robots_txt::Origin;

/// Formats an instant as RFC 3339 in UTC, in milliseconds.
pub(super) fn format_instant(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

// `schema(as = ...)` pins the names in the description of the API, from which clients are generated. A type that is renamed
// here keeps its name there.

/// The state of an origin's robots.txt.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = Summary)]
pub(super) struct RobotsSummary {
    origin: String,
    /// `fresh`, `stale`, `unavailable`, `unreachable`, or `on-disk` if it is not in memory; `pinned` if `[[robots.pinned]]` states
    /// its text, and the origin is not asked.
    state: &'static str,
    /// The time at which the copy was fetched or last confirmed; if it is pinned, at which it was read.
    #[schema(format = DateTime)]
    fetched_at: Option<String>,
    /// The time until which it is used without being fetched again.
    #[schema(format = DateTime)]
    fresh_until: Option<String>,
    /// The time until which it is used while the origin is unreachable.
    #[schema(format = DateTime)]
    usable_until: Option<String>,
    #[schema(format = DateTime)]
    unreachable_since: Option<String>,
    /// The number of failed attempts since the last response.
    failures: Option<u32>,
    /// The time at which the next attempt is due.
    #[schema(format = DateTime)]
    retry_at: Option<String>,
    /// The reason why the last attempt failed, in words, such as `HTTP 500`.
    cause: Option<String>,
    /// That reason as a word of a closed set, if there was no response.
    error: Option<&'static str>,
    /// The status that the last attempt failed with.
    error_status: Option<u16>,
}

impl RobotsSummary {
    pub(super) fn new(origin: &Origin, snapshot: &Snapshot, now: SystemTime) -> Self {
        Self {
            state: snapshot.state(now).as_str(),
            fetched_at: snapshot.fetched_at().map(format_instant),
            fresh_until: snapshot.fresh_until().map(format_instant),
            usable_until: snapshot.usable_until().map(format_instant),
            unreachable_since: snapshot.unreachable_since().map(format_instant),
            failures: Some(snapshot.failures()),
            retry_at: snapshot.retry_at().map(format_instant),
            cause: snapshot.cause().map(str::to_owned),
            error: snapshot.error_kind().map(FetchErrorKind::as_str),
            error_status: snapshot.error_status(),
            ..Self::on_disk(origin)
        }
    }

    /// Returns the summary of a text that the configuration states.
    pub(super) fn pinned(origin: &Origin, snapshot: &Snapshot) -> Self {
        let fetched_at = snapshot.fetched_at().map(format_instant);
        Self { state: "pinned", fetched_at, ..Self::on_disk(origin) }
    }

    fn on_disk(origin: &Origin) -> Self {
        Self { origin: origin.to_string(), state: "on-disk", ..Self::default() }
    }
}

/// Everything known about an origin's robots.txt.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Whole)]
pub(super) struct RobotsDetails {
    #[serde(flatten)]
    file: FileView,
    robots_url: String,
    /// Other documents of the origin that state preferences about use, if crawlers with purposes caused them to be fetched.
    documents: Vec<DocumentView>,
}

/// Another document of the origin that states preferences about use.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Document)]
pub(super) struct DocumentView {
    url: String,
    /// The source of preferences: `tdmrep` or `rsl`.
    source: &'static str,
    #[serde(flatten)]
    file: FileView,
}

/// Everything known about a file.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = File)]
struct FileView {
    #[serde(flatten)]
    summary: RobotsSummary,
    /// Whether a fetch is in progress.
    is_fetching: bool,
    /// The last answer that took effect.
    answer: Option<FactsView>,
    /// The last failure since then.
    last_failure: Option<FactsView>,
    /// The versions that the origin served, oldest first, including the last answer.
    history: Vec<VersionView>,
}

impl FileView {
    fn new(origin: &Origin, inspection: &CacheInspection, now: SystemTime) -> Self {
        let failures = inspection.entry.failures.as_ref();
        Self {
            summary: match &inspection.snapshot {
                Some(snapshot) if inspection.is_pinned => RobotsSummary::pinned(origin, snapshot),
                Some(snapshot) => RobotsSummary::new(origin, snapshot, now),
                // Not needed since the start, or evicted since.
                None => RobotsSummary::on_disk(origin),
            },
            is_fetching: inspection.is_fetching,
            answer: inspection.entry.answer.as_deref().map(|answer| {
                let facts = FactsView::new(answer);
                // Nobody fetched it.
                if inspection.is_pinned { FactsView { fetched_as: None, ..facts } } else { facts }
            }),
            last_failure: failures.map(|failures| FactsView::new(&failures.last)),
            history: inspection.history.iter().map(VersionView::new).collect(),
        }
    }
}

impl DocumentView {
    pub(super) fn new(resource: &Resource, inspection: &CacheInspection, now: SystemTime) -> Self {
        Self {
            url: resource.uri(),
            source: resource.kind().as_str(),
            file: FileView::new(resource.origin(), inspection, now),
        }
    }
}

impl RobotsDetails {
    pub(super) fn new(
        origin: &Origin,
        inspection: &CacheInspection,
        documents: Vec<DocumentView>,
        now: SystemTime,
    ) -> Self {
        Self {
            file: FileView::new(origin, inspection, now),
            robots_url: origin.robots_txt_uri(),
            documents,
        }
    }

    /// Returns the same details without the names of the crawlers that fetched.
    pub(super) fn without_crawlers(mut self) -> Self {
        let documents = self.documents.iter_mut().map(|document| &mut document.file);
        for file in documents.chain([&mut self.file]) {
            for facts in file.answer.iter_mut().chain(&mut file.last_failure) {
                facts.fetched_as = None;
            }
        }
        self
    }
}

/// The result of one fetch.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Facts)]
pub(super) struct FactsView {
    #[schema(format = DateTime)]
    at: String,
    /// The crawler in whose name it was made; `-` for the proxy itself, and `asserted` if with the User-Agent of a client that
    /// is no configured crawler. Left out for a team, since it may be another team's, and for a pinned text.
    fetched_as: Option<String>,
    /// Whether the result counts for everybody, not only for the one that fetched.
    is_for_everybody: bool,
    /// `successful`, `unavailable`, `unreachable` or `redirect_lost`.
    result: &'static str,
    /// The URL that the response came from, after redirects.
    uri: String,
    redirects: Vec<RedirectView>,
    status: Option<u16>,
    /// The header fields of the response that take effect.
    fields: Option<FieldsView>,
    error: Option<FetchErrorView>,
    /// The body as text; bytes that are not UTF-8 are replaced.
    body: Option<String>,
    body_bytes: Option<usize>,
    /// Whether the body was longer than the part that was read.
    is_cut: bool,
    /// Whether the body is a page rather than a robots.txt.
    looks_like_a_page: bool,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Redirect)]
struct RedirectView {
    uri: String,
    status: u16,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FetchError)]
struct FetchErrorView {
    kind: &'static str,
    detail: String,
}

impl FactsView {
    fn new(finished: &FinishedFetch) -> Self {
        let outcome = &finished.outcome;
        let body = outcome.body();
        let redirects = outcome
            .redirects
            .iter()
            .map(|hop| RedirectView { uri: hop.uri.clone(), status: hop.status });
        Self {
            at: format_instant(finished.fetched_at),
            fetched_as: Some(finished.fetched_as.name().to_owned()),
            is_for_everybody: finished.audience() == Audience::Everybody,
            result: outcome.result().as_str(),
            uri: outcome.uri.clone(),
            redirects: redirects.collect(),
            status: outcome.status(),
            fields: outcome.fields().map(FieldsView::new),
            error: outcome.error().map(|error| FetchErrorView {
                kind: error.kind.as_str(),
                detail: error.detail.clone(),
            }),
            body: body.map(|body| String::from_utf8_lossy(&body.bytes).into_owned()),
            body_bytes: body.map(|body| body.bytes.len()),
            is_cut: body.is_some_and(|body| body.is_cut),
            looks_like_a_page: FetchOutcome::looks_like_html(outcome),
        }
    }
}

/// The header fields of a response that take effect.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Fields)]
struct FieldsView {
    age: Option<String>,
    cache_control: Option<String>,
    content_type: Option<String>,
    etag: Option<String>,
    #[schema(format = DateTime)]
    expires_at: Option<String>,
    last_modified: Option<String>,
    #[schema(format = DateTime)]
    retry_at: Option<String>,
}

impl FieldsView {
    fn new(fields: &ResponseFields) -> Self {
        let owned = |value: &Option<Box<str>>| value.as_deref().map(str::to_owned);
        Self {
            age: owned(&fields.age),
            cache_control: owned(&fields.cache_control),
            content_type: owned(&fields.content_type),
            etag: owned(&fields.etag),
            expires_at: fields.expires_at.map(format_instant),
            last_modified: owned(&fields.last_modified),
            retry_at: fields.retry_at.map(format_instant),
        }
    }
}

/// A version of a file, which an origin served for some time.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Version)]
pub(super) struct VersionView {
    #[schema(format = DateTime)]
    first_seen_at: String,
    #[schema(format = DateTime)]
    last_seen_at: String,
    status: u16,
    /// The digest of the body, if there was one.
    sha256: Option<String>,
    is_cut: bool,
}

impl VersionView {
    pub(super) fn new(version: &robots_cache::DocumentVersion) -> Self {
        Self {
            first_seen_at: format_instant(version.first_seen_at),
            last_seen_at: format_instant(version.last_seen_at),
            status: version.status,
            sha256: version.digest.map(|digest| Sha256Digest(digest).to_string()),
            is_cut: version.is_cut,
        }
    }
}

/// The content of a file, if it is still kept.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Text)]
pub(super) struct BodyText {
    /// The content as text; bytes that are not UTF-8 are replaced.
    body: Option<String>,
    /// The content as bytes, if it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

impl BodyText {
    pub(super) fn new(bytes: Option<&[u8]>) -> Self {
        // JSON strings are Unicode: without these bytes nobody could check the digest.
        let not_utf8 = bytes.filter(|bytes| str::from_utf8(bytes).is_err());
        Self {
            body: bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()),
            body_base64: not_utf8.map(|bytes| BASE64_STANDARD.encode(bytes)),
        }
    }
}

/// The file that decided, and when the origin served it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DecidedBy)]
pub(crate) struct DecidingFile {
    sha256: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    first_seen_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    last_seen_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_cut: Option<bool>,
    #[serde(flatten)]
    text: BodyText,
}

impl DecidingFile {
    pub(crate) fn new(
        digest: Sha256Digest,
        version: Option<&robots_cache::DocumentVersion>,
        bytes: Option<&[u8]>,
    ) -> Self {
        Self {
            sha256: digest.to_string(),
            first_seen_at: version.map(|version| format_instant(version.first_seen_at)),
            last_seen_at: version.map(|version| format_instant(version.last_seen_at)),
            status: version.map(|version| version.status),
            is_cut: version.map(|version| version.is_cut),
            text: BodyText::new(bytes),
        }
    }

    /// Returns whether the file was longer than the part that was read.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut == Some(true)
    }
}

/// The version that an origin served at a given time.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Said)]
pub(super) struct PastVersion {
    origin: String,
    #[schema(format = DateTime)]
    at: String,
    #[serde(flatten)]
    version: VersionView,
    #[serde(flatten)]
    text: BodyText,
}

impl PastVersion {
    pub(super) fn new(
        origin: &Origin,
        at: SystemTime,
        version: VersionView,
        text: BodyText,
    ) -> Self {
        Self { origin: origin.to_string(), at: format_instant(at), version, text }
    }
}
