//! `/v1/robots`: lists, shows, refreshes and forgets the robots.txt files of origins.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{IntoParams, PartialSchema, ToSchema};
use wayleave_clock::system_time;
use wayleave_decision_log::DecisionRecord;
use wayleave_evidence::Sha256Digest;
use wayleave_lifecycle::{Resource, Snapshot, SnapshotState};
use wayleave_record::word_schema;
use wayleave_robots_cache::{EntryQuery, RobotsCache, RobotsStore};
use wayleave_robots_txt::Origin;

use super::access::TeamScope;
use super::parameters::{PathOrigin, QueryParameters, check_limit, parse_time};
use super::response::{ErrorBody, SafeJson, bad_request, error_response};
use super::robots_view::{
    BodyText, DecidingFile, DocumentView, PastVersion, RobotsDetails, RobotsSummary, VersionView,
};
use super::state::AdminState;

/// The most origins in one response.
const MAX_LISTED: usize = 10_000;

/// The schema of a state: its crate depends on no description of an API.
enum StateSchema {}

impl PartialSchema for StateSchema {
    fn schema() -> RefOr<Schema> {
        let words = SnapshotState::ALL.map(SnapshotState::as_str);
        Schema::from(word_schema("The state of an origin's robots.txt.", words)).into()
    }
}

impl ToSchema for StateSchema {}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RobotsParameters {
    /// Only origins in this state.
    #[param(inline, value_type = Option<StateSchema>)]
    state: Option<SnapshotState>,
    /// List only origins that contain this text.
    q: Option<String>,
    /// Maximum number of origins; default 100.
    #[param(minimum = 1, maximum = 10_000)]
    limit: Option<usize>,
    /// Continue after this origin: `next_cursor` of the previous response.
    #[param(format = "origin")]
    cursor: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
struct ListedRobots {
    /// The cursor of the next page; null if this is the last.
    next_cursor: Option<String>,
    robots: Vec<RobotsSummary>,
}

/// The known origins, in memory or on disk, in order.
#[utoipa::path(
    get,
    path = "/v1/robots",
    tag = "robots.txt",
    params(RobotsParameters),
    responses(
        (status = 200, body = ListedRobots),
        (status = 400, body = ErrorBody, description = "A parameter is malformed"),
    )
)]
pub(super) async fn list(
    State(admin): State<AdminState>,
    QueryParameters(filter): QueryParameters<RobotsParameters>,
) -> Response {
    let listing = match parse_listing(filter) {
        Ok(listing) => listing,
        Err(mistake) => return bad_request(mistake),
    };
    let robots = admin.decider.robots.clone();
    let now = robots.clock().now();
    let limit = listing.limit;
    // It may have to read all known origins from disk.
    let found =
        tokio::task::spawn_blocking(move || robots.list(&listing)).await.unwrap_or_default();
    // A full page may be the last one, too; then the next is empty.
    let last = found.last().filter(|_| found.len() == limit);
    let pinned = admin.decider.robots.pinned();
    let summary = |origin: &Origin, snapshot: &Snapshot| {
        if pinned.contains(origin) {
            RobotsSummary::pinned(origin, snapshot)
        } else {
            RobotsSummary::new(origin, snapshot, now)
        }
    };
    SafeJson(ListedRobots {
        next_cursor: last.map(|(origin, _)| origin.to_string()),
        robots: found.iter().map(|(origin, snapshot)| summary(origin, snapshot)).collect(),
    })
    .into_response()
}

fn parse_listing(filter: RobotsParameters) -> Result<EntryQuery, String> {
    let after = match filter.cursor {
        None => None,
        Some(cursor) => Some(Origin::parse(&cursor).map_err(|error| format!("cursor: {error}"))?),
    };
    Ok(EntryQuery {
        state: filter.state,
        contains: filter.q.unwrap_or_default(),
        after,
        limit: check_limit(filter.limit, MAX_LISTED)?,
    })
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct TimeParameter {
    /// Show what it served at this time instead of what it serves now.
    #[param(format = DateTime)]
    at: Option<String>,
}

/// Everything about one origin, or what it served at a given time.
#[utoipa::path(
    get,
    path = "/v1/robots/{origin}",
    tag = "robots.txt",
    params(("origin" = String, Path, format = "origin", description = "An origin such as https://example.com, percent-encoded"), TimeParameter),
    responses(
        (status = 200, body = OriginView),
        (status = 400, body = ErrorBody, description = "The origin or the time is malformed"),
        (status = 404, body = ErrorBody, description = "Nothing is known about this origin"),
    )
)]
pub(super) async fn show(
    State(admin): State<AdminState>,
    scope: TeamScope,
    PathOrigin(origin): PathOrigin,
    QueryParameters(moment): QueryParameters<TimeParameter>,
) -> Response {
    let robots = &admin.decider.robots;
    let Some(at) = moment.at else {
        let now = robots.clock().now();
        return match robots.inspect(&origin).await {
            Some(inspection) => {
                let documents = document_views(robots, &origin, now).await;
                let details = RobotsDetails::new(&origin, &inspection, documents, now);
                // It may be another team's crawler that fetched.
                let is_team = scope.team().is_some();
                let details = if is_team { details.without_crawlers() } else { details };
                SafeJson(OriginView::Current(Box::new(details))).into_response()
            }
            None => unknown_origin(&origin),
        };
    };
    let time = match parse_time("at", &at) {
        Ok(time) => time.end(system_time()),
        Err(mistake) => return bad_request(mistake),
    };
    match version_at(robots.store(), &origin, time).await {
        Some(version) => SafeJson(OriginView::Past(Box::new(version))).into_response(),
        None => {
            error_response(StatusCode::NOT_FOUND, "it is not known what it served at that time")
        }
    }
}

async fn document_views(
    robots: &RobotsCache,
    origin: &Origin,
    now: SystemTime,
) -> Vec<DocumentView> {
    let mut documents = Vec::new();
    for resource in robots.related_documents(origin).await {
        let inspection = robots.inspect(&resource).await;
        documents
            .extend(inspection.map(|inspection| DocumentView::new(&resource, &inspection, now)));
    }
    documents
}

/// Everything known about an origin now, or the version that it served at a given time.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = Told)]
enum OriginView {
    Current(Box<RobotsDetails>),
    Past(Box<PastVersion>),
}

/// Returns the last version of an origin's robots.txt before `time`. It may have changed between `last_seen_at` and `time`
/// without anybody noticing.
async fn version_at(store: &RobotsStore, origin: &Origin, time: SystemTime) -> Option<PastVersion> {
    let history = store.history(origin).await;
    let version = history.into_iter().rfind(|version| version.first_seen_at <= time)?;
    let body = match version.digest {
        Some(digest) => store.body(digest).await,
        None => None,
    };
    let text = BodyText::new(body.as_deref());
    Some(PastVersion::new(origin, time, VersionView::new(&version), text))
}

/// Returns the file that a decision was based on, and its content if that is still kept. `None` if no file decided.
pub(super) async fn deciding_file(
    store: &RobotsStore,
    decision: &DecisionRecord,
) -> Option<(DecidingFile, Option<Arc<[u8]>>)> {
    let finding = decision.finding.as_ref()?;
    let (digest, fetched_at) = finding.robots_sha256.zip(finding.robots_fetched_at)?;
    let origin = decision.origin.as_deref().and_then(|origin| Resource::parse(origin).ok());
    Some(kept_file(store, origin, digest, fetched_at).await)
}

/// Returns the robots.txt that an origin served at a given time, as far as is known, and its content if that is still kept.
/// `None` if it served none.
pub(super) async fn file_at(
    store: &RobotsStore,
    origin: &Origin,
    time: SystemTime,
) -> Option<(DecidingFile, Option<Arc<[u8]>>)> {
    let history = store.history(origin).await;
    let version = history.into_iter().rfind(|version| version.first_seen_at <= time)?;
    let digest = version.digest?;
    let body = store.body(digest).await;
    let file = DecidingFile::new(Sha256Digest(digest), Some(&version), body.as_deref());
    Some((file, body))
}

/// Returns the file with this digest, as far as the store still has it.
pub(super) async fn kept_file(
    store: &RobotsStore,
    resource: Option<Resource>,
    digest: Sha256Digest,
    fetched_at: SystemTime,
) -> (DecidingFile, Option<Arc<[u8]>>) {
    let history = match resource {
        Some(resource) => store.history_of_copies(&resource).await,
        None => Vec::new(),
    };
    // An origin may go back to a file that it served before: that is another version with the same digest.
    let version = history
        .into_iter()
        .rfind(|version| version.digest == Some(digest.0) && version.first_seen_at <= fetched_at);
    let body = store.body(digest.0).await;
    (DecidingFile::new(digest, version.as_ref(), body.as_deref()), body)
}

/// Fetches an origin's robots.txt again now, unless it is pinned, and the other documents known of this origin.
#[utoipa::path(
    post,
    path = "/v1/robots/{origin}/refresh",
    tag = "robots.txt",
    params(("origin" = String, Path, format = "origin", description = "An origin such as https://example.com, percent-encoded")),
    responses(
        (status = 200, body = RobotsSummary, description = "What is known now; the fetch may have failed"),
        (status = 400, body = ErrorBody, description = "The origin is malformed"),
        (status = 429, body = RefreshRefusal, description = "It was refreshed less than five seconds ago; `Retry-After` says when it may be again"),
        (status = 504, body = ErrorBody, description = "The fetch is still running"),
    )
)]
pub(super) async fn refresh(
    State(admin): State<AdminState>,
    PathOrigin(origin): PathOrigin,
) -> Response {
    let robots = &admin.decider.robots;
    if let Err(wait) = admin.refreshes.admit(&origin) {
        let known = robots.inspect(&origin).await;
        let fetched_at = known.and_then(|known| known.snapshot?.fetched_at());
        return too_soon(&origin, wait, fetched_at, robots.clock().now());
    }
    let documents = robots.related_documents(&origin).await;
    let others = join_all(documents.iter().map(|document| robots.refresh(document)));
    // All at once: an origin that does not answer takes one timeout, not one for each document. The results of the other
    // documents are shown by the view of the origin.
    let (refreshed, _) = tokio::join!(robots.refresh(&origin), others);
    match refreshed {
        Ok(snapshot) if robots.pinned().contains(&origin) => {
            SafeJson(RobotsSummary::pinned(&origin, &snapshot)).into_response()
        }
        Ok(snapshot) => {
            SafeJson(RobotsSummary::new(&origin, &snapshot, robots.clock().now())).into_response()
        }
        // The fetch continues in the cache's task.
        Err(pending) => error_response(StatusCode::GATEWAY_TIMEOUT, pending.to_string()),
    }
}

/// The refusal of a refresh so soon after the last one.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TooSoon)]
pub(super) struct RefreshRefusal {
    /// A sentence for people.
    error: String,
    /// The seconds until the next refresh, as in `Retry-After`.
    retry_after: u64,
    /// The age of the copy in use, in seconds; null: there is none.
    copy_age: Option<u64>,
}

/// Answers a request for a refresh that has to wait.
fn too_soon(
    origin: &Origin,
    wait: Duration,
    fetched_at: Option<SystemTime>,
    now: SystemTime,
) -> Response {
    let retry_after = wait.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX);
    let copy_age = fetched_at.map(|at| now.duration_since(at).unwrap_or_default().as_secs());
    let copy = match copy_age {
        Some(age) => format!("its copy is {age} s old"),
        None => "there is no copy of its robots.txt".to_owned(),
    };
    let error =
        format!("{origin} was refreshed a moment ago, and {copy}: try again in {retry_after} s");
    let fields = [(header::RETRY_AFTER, retry_after.to_string())];
    let body = SafeJson(RefreshRefusal { error, retry_after, copy_age });
    (StatusCode::TOO_MANY_REQUESTS, fields, body).into_response()
}

/// Forgets an origin's robots.txt and its other documents: the next request for it waits for a fetch. The history is kept.
#[utoipa::path(
    delete,
    path = "/v1/robots/{origin}",
    tag = "robots.txt",
    params(("origin" = String, Path, format = "origin", description = "An origin such as https://example.com, percent-encoded")),
    responses(
        (status = 204, description = "The origin was forgotten"),
        (status = 400, body = ErrorBody, description = "The origin is malformed"),
        (status = 404, body = ErrorBody, description = "Nothing is known about this origin"),
        (status = 409, body = ErrorBody, description = "The configuration pins this robots.txt to a file"),
    )
)]
pub(super) async fn forget(
    State(admin): State<AdminState>,
    PathOrigin(origin): PathOrigin,
) -> Response {
    let robots = &admin.decider.robots;
    if robots.pinned().contains(&origin) {
        return error_response(
            StatusCode::CONFLICT,
            format!("the robots.txt of {origin} is pinned to a file by [[robots.pinned]]"),
        );
    }
    let mut was_known = robots.forget(&origin).await;
    for resource in robots.related_documents(&origin).await {
        was_known |= robots.forget(&resource).await;
    }
    if was_known { StatusCode::NO_CONTENT.into_response() } else { unknown_origin(&origin) }
}

fn unknown_origin(origin: &Origin) -> Response {
    error_response(StatusCode::NOT_FOUND, format!("nothing is known about {origin}"))
}
