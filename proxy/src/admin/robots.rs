//! What is known of origins' robots.txt files, and what operators may do about it.

use std::time::SystemTime;

use axum::Json;
use axum::extract::{Path, Query as Parameters, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::Deserialize;
use serde_json::{Value, json};
use wayleave_policy::Origin;
use wayleave_policy::lifecycle::{
    Facts, FetchErrorKind, FetchOutcome, Fields, Snapshot, State as EntryState,
};

use super::answer::error;
use super::parts::Admin;
use crate::decisions::Decision;
use crate::digest::Digest;
use crate::robots::{Inspection, Listing, Store, Version};

/// Origins listed unless another number is asked for, and at most.
const LISTED: usize = 100;
const MOST_LISTED: usize = 10_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Filter {
    state: Option<String>,
    q: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

/// The origins in memory, in order; `next_cursor` asks for those that follow.
pub(super) async fn list(
    State(admin): State<Admin>,
    Parameters(filter): Parameters<Filter>,
) -> Response {
    let listing = match listing(filter) {
        Ok(listing) => listing,
        Err(mistake) => return error(StatusCode::BAD_REQUEST, &mistake),
    };
    let robots = admin.flow.robots.clone();
    let now = robots.clock().now();
    let limit = listing.limit;
    let found = tokio::task::spawn_blocking(move || robots.list(&listing)).await;
    let found = found.unwrap_or_default();
    let next = found.last().filter(|_| found.len() == limit);
    Json(json!({
        "next_cursor": next.map(|(origin, _)| origin.to_string()),
        "robots": found
            .iter()
            .map(|(origin, snapshot)| summary(origin, snapshot, now))
            .collect::<Vec<_>>(),
    }))
    .into_response()
}

fn listing(filter: Filter) -> Result<Listing, String> {
    let state = match filter.state {
        None => None,
        Some(name) => Some(
            EntryState::ALL
                .into_iter()
                .find(|state| state.as_str() == name)
                .ok_or("state is not one of fresh, stale, unavailable, unreachable")?,
        ),
    };
    let after = match filter.cursor {
        None => None,
        Some(cursor) => Some(Origin::parse(&cursor).map_err(|error| format!("cursor: {error}"))?),
    };
    Ok(Listing {
        state,
        query: filter.q.unwrap_or_default(),
        after,
        limit: filter.limit.unwrap_or(LISTED).clamp(1, MOST_LISTED),
    })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Moment {
    at: Option<String>,
}

/// Everything about one origin, or what it said `at` a time.
pub(super) async fn show(
    State(admin): State<Admin>,
    Path(origin): Path<String>,
    Parameters(moment): Parameters<Moment>,
) -> Response {
    let origin = match Origin::parse(&origin) {
        Ok(origin) => origin,
        Err(mistake) => return error(StatusCode::BAD_REQUEST, &format!("origin: {mistake}")),
    };
    let robots = &admin.flow.robots;
    let Some(at) = moment.at else {
        let now = robots.clock().now();
        return match robots.inspect(&origin).await {
            Some(inspection) => Json(whole(&origin, &inspection, now)).into_response(),
            None => error(StatusCode::NOT_FOUND, "nothing is known of this origin"),
        };
    };
    let Ok(time) = humantime::parse_rfc3339_weak(&at) else {
        return error(
            StatusCode::BAD_REQUEST,
            "at is no time such as 2026-11-21T08:00:00Z",
        );
    };
    match said_at(robots.store(), &origin, time).await {
        Some(said) => Json(said).into_response(),
        None => error(StatusCode::NOT_FOUND, "what it said then is not known"),
    }
}

/// What the origin said last at `time`. That it was asked then is not claimed: see when it was last seen.
async fn said_at(store: &Store, origin: &Origin, time: SystemTime) -> Option<Value> {
    let history = store.history(origin).await;
    let said = history
        .into_iter()
        .rfind(|version| version.first_seen_at <= time)?;
    let body = match said.digest {
        Some(digest) => store.body(digest).await,
        None => None,
    };
    let mut value = version(&said);
    value["origin"] = json!(origin.to_string());
    value["at"] = instant(time);
    put_body(&mut value, body.as_deref());
    Some(value)
}

/// The file that a decision was made by, `null` where its text should be if it is not kept any more; nothing if no file
/// decided.
pub(super) async fn decided_by(store: &Store, decision: &Decision) -> Option<Value> {
    let finding = decision.finding.as_ref()?;
    let (digest, fetched_at) = finding.robots_sha256.zip(finding.robots_fetched_at)?;
    let history = match decision.origin.as_deref().map(Origin::parse) {
        Some(Ok(origin)) => store.history(&origin).await,
        _ => Vec::new(),
    };
    let is_it = |said: &Version| said.digest == Some(digest.0) && said.first_seen_at <= fetched_at;
    let mut value = match history.into_iter().rfind(is_it) {
        Some(said) => version(&said),
        None => json!({ "sha256": digest }),
    };
    put_body(&mut value, store.body(digest.0).await.as_deref());
    Some(value)
}

/// A file's text, and its bytes if they are not text.
fn put_body(value: &mut Value, body: Option<&[u8]>) {
    value["body"] = json!(body.map(String::from_utf8_lossy));
    if let Some(bytes) = body.filter(|bytes| str::from_utf8(bytes).is_err()) {
        value["body_base64"] = json!(BASE64_STANDARD.encode(bytes));
    }
}

/// Fetches an origin's robots.txt anew.
pub(super) async fn refresh(State(admin): State<Admin>, Path(origin): Path<String>) -> Response {
    let origin = match Origin::parse(&origin) {
        Ok(origin) => origin,
        Err(mistake) => return error(StatusCode::BAD_REQUEST, &format!("origin: {mistake}")),
    };
    let robots = &admin.flow.robots;
    match robots.refresh(&origin).await {
        Ok(snapshot) => Json(summary(&origin, &snapshot, robots.clock().now())).into_response(),
        Err(pending) => error(StatusCode::GATEWAY_TIMEOUT, &pending.to_string()),
    }
}

/// Forgets an origin: the next request for it waits for a fetch. What it said before stays in its history.
pub(super) async fn forget(State(admin): State<Admin>, Path(origin): Path<String>) -> Response {
    let origin = match Origin::parse(&origin) {
        Ok(origin) => origin,
        Err(mistake) => return error(StatusCode::BAD_REQUEST, &format!("origin: {mistake}")),
    };
    match admin.flow.robots.forget(&origin).await {
        true => StatusCode::NO_CONTENT.into_response(),
        false => error(StatusCode::NOT_FOUND, "nothing is known of this origin"),
    }
}

fn instant(time: SystemTime) -> Value {
    json!(humantime::format_rfc3339_millis(time).to_string())
}

fn maybe(time: Option<SystemTime>) -> Value {
    time.map_or(Value::Null, instant)
}

fn summary(origin: &Origin, snapshot: &Snapshot, now: SystemTime) -> Value {
    json!({
        "origin": origin.to_string(),
        "state": snapshot.state(now).as_str(),
        "fetched_at": maybe(snapshot.fetched_at()),
        "fresh_until": maybe(snapshot.fresh_until()),
        "usable_until": maybe(snapshot.usable_until()),
        "unreachable_since": maybe(snapshot.unreachable_since()),
        "failures": snapshot.failures(),
        "retry_at": maybe(snapshot.retry_at()),
        "error": snapshot.error_kind().map(FetchErrorKind::as_str),
        "error_status": snapshot.error_status(),
    })
}

fn whole(origin: &Origin, inspection: &Inspection, now: SystemTime) -> Value {
    let mut value = match &inspection.snapshot {
        Some(snapshot) => summary(origin, snapshot, now),
        None => json!({ "origin": origin.to_string(), "state": "on-disk" }),
    };
    value["robots_url"] = json!(origin.robots_txt_uri());
    value["is_fetching"] = json!(inspection.is_fetching);
    value["answer"] = json!(inspection.entry.answer.as_deref().map(facts));
    let failing = inspection.entry.failing.as_ref();
    value["last_failure"] = json!(failing.map(|failing| facts(&failing.last)));
    value["history"] = json!(inspection.history.iter().map(version).collect::<Vec<_>>());
    value
}

fn facts(facts: &Facts) -> Value {
    let outcome = &facts.outcome;
    let redirects = outcome.redirects.iter();
    let body = outcome.body();
    json!({
        "at": instant(facts.fetched_at),
        "result": outcome.result().as_str(),
        "uri": outcome.uri,
        "redirects": redirects
            .map(|hop| json!({ "uri": hop.uri, "status": hop.status }))
            .collect::<Vec<_>>(),
        "status": outcome.status(),
        "fields": outcome.fields().map(fields),
        "error": outcome.error().map(|error| {
            json!({ "kind": error.kind.as_str(), "detail": error.detail })
        }),
        "body": body.map(|body| String::from_utf8_lossy(&body.bytes)),
        "body_bytes": body.map(|body| body.bytes.len()),
        "is_cut": body.is_some_and(|body| body.is_cut),
        "looks_like_a_page": FetchOutcome::looks_like_a_page(outcome),
    })
}

fn fields(fields: &Fields) -> Value {
    json!({
        "age": fields.age,
        "cache_control": fields.cache_control,
        "content_type": fields.content_type,
        "etag": fields.etag,
        "expires_at": maybe(fields.expires_at),
        "last_modified": fields.last_modified,
        "retry_at": maybe(fields.retry_at),
    })
}

fn version(version: &Version) -> Value {
    json!({
        "first_seen_at": instant(version.first_seen_at),
        "last_seen_at": instant(version.last_seen_at),
        "status": version.status,
        "sha256": version.digest.map(Digest),
        "is_cut": version.is_cut,
    })
}
