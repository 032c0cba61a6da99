//! `/v1/robots`: lists, shows, refreshes and forgets the robots.txt files of origins.

use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use wayleave_robots_txt::Origin;
use wayleave_robots_txt::lifecycle::{Resource, State as EntryState};

use super::answer::{Json, Mistake, error, wrong};
use super::parameters::{NamedOrigin, Parameters, limit};
use super::robots_view::{DecidedBy, Document, Said, Summary, Text, Version, Whole};
use super::state::Admin;
use crate::observe::decisions::Decision;
use crate::observe::digest::Digest;
use crate::robots::{self, Listing, Robots, Store};

/// The most origins in one answer.
const MOST_LISTED: usize = 10_000;

/// The state of an origin's robots.txt.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum StateWord {
    Fresh,
    Stale,
    Unavailable,
    Unreachable,
}

impl From<StateWord> for EntryState {
    fn from(word: StateWord) -> Self {
        match word {
            StateWord::Fresh => Self::Fresh,
            StateWord::Stale => Self::Stale,
            StateWord::Unavailable => Self::Unavailable,
            StateWord::Unreachable => Self::Unreachable,
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Filter {
    /// Only origins in this state.
    #[param(inline)]
    state: Option<StateWord>,
    /// List only origins that contain this text.
    q: Option<String>,
    /// Maximum number of origins; default 100.
    #[param(minimum = 1, maximum = 10_000)]
    limit: Option<usize>,
    /// Continue after this origin: `next_cursor` of the answer before.
    #[param(format = "origin")]
    cursor: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
struct ListedRobots {
    /// The cursor of the next page; null if this is the last.
    next_cursor: Option<String>,
    robots: Vec<Summary>,
}

/// The known origins, in memory or on disk, in order.
#[utoipa::path(
    get,
    path = "/v1/robots",
    tag = "robots.txt",
    params(Filter),
    responses(
        (status = 200, body = ListedRobots),
        (status = 400, body = Mistake, description = "A parameter is malformed"),
    )
)]
pub(super) async fn list(
    State(admin): State<Admin>,
    Parameters(filter): Parameters<Filter>,
) -> Response {
    let listing = match listing(filter) {
        Ok(listing) => listing,
        Err(mistake) => return wrong(mistake),
    };
    let robots = admin.decider.robots.clone();
    let now = robots.clock().now();
    let limit = listing.limit;
    let found = tokio::task::spawn_blocking(move || robots.list(&listing)).await;
    let found = found.unwrap_or_default();
    let next = found.last().filter(|_| found.len() == limit);
    Json(ListedRobots {
        next_cursor: next.map(|(origin, _)| origin.to_string()),
        robots: found
            .iter()
            .map(|(origin, snapshot)| Summary::new(origin, snapshot, now))
            .collect(),
    })
    .into_response()
}

fn listing(filter: Filter) -> Result<Listing, String> {
    let after = match filter.cursor {
        None => None,
        Some(cursor) => Some(Origin::parse(&cursor).map_err(|error| format!("cursor: {error}"))?),
    };
    Ok(Listing {
        state: filter.state.map(Into::into),
        query: filter.q.unwrap_or_default(),
        after,
        limit: limit(filter.limit, MOST_LISTED)?,
    })
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Moment {
    /// Show what it served at this time instead of what it serves now.
    #[param(format = DateTime)]
    at: Option<String>,
}

/// Everything about one origin, or what it served at a given time.
#[utoipa::path(
    get,
    path = "/v1/robots/{origin}",
    tag = "robots.txt",
    params(("origin" = String, Path, format = "origin", description = "An origin such as https://example.com, percent-encoded"), Moment),
    responses(
        (status = 200, body = Told),
        (status = 400, body = Mistake, description = "The origin or the time is malformed"),
        (status = 404, body = Mistake, description = "Nothing is known about this origin"),
    )
)]
pub(super) async fn show(
    State(admin): State<Admin>,
    NamedOrigin(origin): NamedOrigin,
    Parameters(moment): Parameters<Moment>,
) -> Response {
    let robots = &admin.decider.robots;
    let Some(at) = moment.at else {
        let now = robots.clock().now();
        return match robots.inspect(&origin).await {
            Some(inspection) => {
                let whole = Whole::new(&origin, &inspection, now);
                let whole = whole.beside(documents(robots, &origin, now).await);
                Json(Told::Whole(Box::new(whole))).into_response()
            }
            None => unknown(&origin),
        };
    };
    let Ok(time) = humantime::parse_rfc3339_weak(&at) else {
        return wrong(format!(
            "at: {at:?} is not a time; write 2026-11-22T08:00:00Z"
        ));
    };
    match said_at(robots.store(), &origin, time).await {
        Some(said) => Json(Told::Said(Box::new(said))).into_response(),
        None => error(StatusCode::NOT_FOUND, "what it served then is not known"),
    }
}

async fn documents(robots: &Robots, origin: &Origin, now: SystemTime) -> Vec<Document> {
    let mut documents = Vec::new();
    for resource in robots.beside(origin).await {
        let inspection = robots.inspect(&resource).await;
        documents.extend(inspection.map(|it| Document::new(&resource, &it, now)));
    }
    documents
}

/// Everything known about an origin now, or the version that it served at a given time.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum Told {
    Whole(Box<Whole>),
    Said(Box<Said>),
}

/// Returns the last version of an origin's robots.txt before `time`. It may have changed between `last_seen_at` and `time`
/// without anybody noticing.
async fn said_at(store: &Store, origin: &Origin, time: SystemTime) -> Option<Said> {
    let history = store.history(origin).await;
    let said = history
        .into_iter()
        .rfind(|version| version.first_seen_at <= time)?;
    let body = match said.digest {
        Some(digest) => store.body(digest).await,
        None => None,
    };
    Some(Said::new(
        origin,
        time,
        Version::new(&said),
        Text::new(body.as_deref()),
    ))
}

/// Returns the file that a decision was based on, and its content if that is still kept. `None` if no file decided.
pub(super) async fn decided_by(
    store: &Store,
    decision: &Decision,
) -> Option<(DecidedBy, Option<Arc<[u8]>>)> {
    let finding = decision.finding.as_ref()?;
    let (digest, fetched_at) = finding.robots_sha256.zip(finding.robots_fetched_at)?;
    let origin = decision
        .origin
        .as_deref()
        .and_then(|it| Resource::parse(it).ok());
    Some(kept(store, origin, digest, fetched_at).await)
}

/// Returns what the store still has of a file with this digest.
pub(super) async fn kept(
    store: &Store,
    resource: Option<Resource>,
    digest: Digest,
    fetched_at: SystemTime,
) -> (DecidedBy, Option<Arc<[u8]>>) {
    let history = match resource {
        Some(resource) => store.history(&resource).await,
        None => Vec::new(),
    };
    let is_it =
        |said: &robots::Version| said.digest == Some(digest.0) && said.first_seen_at <= fetched_at;
    let said = history.into_iter().rfind(is_it);
    let body = store.body(digest.0).await;
    let text = Text::new(body.as_deref());
    (DecidedBy::new(digest, said.as_ref(), text), body)
}

/// Fetches an origin's robots.txt again now, and the other documents known of this origin.
#[utoipa::path(
    post,
    path = "/v1/robots/{origin}/refresh",
    tag = "robots.txt",
    params(("origin" = String, Path, format = "origin", description = "An origin such as https://example.com, percent-encoded")),
    responses(
        (status = 200, body = Summary, description = "What is known now; the fetch may have failed"),
        (status = 400, body = Mistake, description = "The origin is malformed"),
        (status = 504, body = Mistake, description = "The fetch is still running"),
    )
)]
pub(super) async fn refresh(
    State(admin): State<Admin>,
    NamedOrigin(origin): NamedOrigin,
) -> Response {
    let robots = &admin.decider.robots;
    let beside = robots.beside(&origin).await;
    let beside = join_all(beside.iter().map(|it| robots.refresh(it)));
    // The results of the other documents are shown by the view of the origin.
    let (refreshed, _) = tokio::join!(robots.refresh(&origin), beside);
    match refreshed {
        Ok(snapshot) => {
            Json(Summary::new(&origin, &snapshot, robots.clock().now())).into_response()
        }
        Err(pending) => error(StatusCode::GATEWAY_TIMEOUT, pending.to_string()),
    }
}

/// Forgets an origin's robots.txt and its other documents: the next request for it waits for a fetch. The history is kept.
#[utoipa::path(
    delete,
    path = "/v1/robots/{origin}",
    tag = "robots.txt",
    params(("origin" = String, Path, format = "origin", description = "An origin such as https://example.com, percent-encoded")),
    responses(
        (status = 204, description = "The origin was forgotten"),
        (status = 400, body = Mistake, description = "The origin is malformed"),
        (status = 404, body = Mistake, description = "Nothing is known about this origin"),
    )
)]
pub(super) async fn forget(
    State(admin): State<Admin>,
    NamedOrigin(origin): NamedOrigin,
) -> Response {
    let robots = &admin.decider.robots;
    let mut was_known = robots.forget(&origin).await;
    for resource in robots.beside(&origin).await {
        was_known |= robots.forget(&resource).await;
    }
    match was_known {
        true => StatusCode::NO_CONTENT.into_response(),
        false => unknown(&origin),
    }
}

fn unknown(origin: &Origin) -> Response {
    let message = format!("nothing is known about {origin}");
    error(StatusCode::NOT_FOUND, message)
}
