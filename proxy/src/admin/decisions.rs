//! What was decided, what is being decided, and what would be.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query as Parameters, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use futures_util::stream;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::answer::error;
use super::parts::Admin;
use super::robots;
use crate::decisions::{By, Decision, Query};
use crate::flow::Question;

/// Decisions listed unless another number is asked for, and at most.
const LISTED: usize = 100;
const MOST_LISTED: usize = 8192;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Filter {
    limit: Option<usize>,
    crawler: Option<String>,
    outcome: Option<String>,
    host: Option<String>,
}

impl Filter {
    fn limit(&self) -> usize {
        self.limit.unwrap_or(LISTED).min(MOST_LISTED)
    }

    fn query(self) -> Query {
        Query {
            crawler: self.crawler,
            outcome: self.outcome,
            host: self.host,
        }
    }
}

/// Recent decisions, the newest first.
pub(super) async fn list(
    State(admin): State<Admin>,
    Parameters(filter): Parameters<Filter>,
) -> Response {
    let limit = filter.limit();
    let decisions = admin.decisions.list(&filter.query(), limit);
    let decisions: Vec<&Decision> = decisions.iter().map(Arc::as_ref).collect();
    Json(json!({ "decisions": decisions })).into_response()
}

/// One decision: a recent one, or else one from the log; with the robots.txt that it was made by.
pub(super) async fn show(State(admin): State<Admin>, Path(id): Path<String>) -> Response {
    let Ok(id) = id.parse() else {
        return error(StatusCode::BAD_REQUEST, "this is no decision id");
    };
    let found = match admin.decisions.find(id) {
        Some(decision) => Some(decision),
        None => admin.decisions.search_log(id).await,
    };
    match found {
        Some(decision) => {
            let mut answer =
                serde_json::to_value(&*decision).expect("strings and numbers serialise");
            let store = admin.flow.robots.store();
            if let Some(file) = robots::decided_by(store, &decision).await {
                answer["robots_txt"] = file;
            }
            Json(answer).into_response()
        }
        None => error(StatusCode::NOT_FOUND, "no such decision is kept"),
    }
}

/// Decisions from now on, as server-sent events.
pub(super) async fn stream(
    State(admin): State<Admin>,
    Parameters(filter): Parameters<Filter>,
) -> Response {
    let events = events(admin.decisions.watch(), filter.query());
    Sse::new(events)
        .keep_alive(KeepAlive::default())
        .into_response()
}

fn events(
    watched: Receiver<Arc<Decision>>,
    query: Query,
) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold((watched, query), |(mut watched, query)| async move {
        loop {
            match watched.recv().await {
                Ok(decision) if query.takes(&decision) => {
                    let event = event(&decision);
                    return Some((Ok(event), (watched, query)));
                }
                Ok(_) => {}
                Err(RecvError::Lagged(missed)) => {
                    let event = Event::default().event("missed").data(missed.to_string());
                    return Some((Ok(event), (watched, query)));
                }
                Err(RecvError::Closed) => return None,
            }
        }
    })
}

fn event(decision: &Decision) -> Event {
    let event = Event::default()
        .event("decision")
        .id(decision.id.to_string());
    event
        .json_data(decision)
        .expect("strings and numbers serialise")
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ranking {
    by: By,
    limit: Option<usize>,
    crawler: Option<String>,
    outcome: Option<String>,
    host: Option<String>,
}

/// What the recent decisions are about.
pub(super) async fn top(
    State(admin): State<Admin>,
    Parameters(ranking): Parameters<Ranking>,
) -> Response {
    let filter = Filter {
        limit: ranking.limit,
        crawler: ranking.crawler,
        outcome: ranking.outcome,
        host: ranking.host,
    };
    let limit = filter.limit();
    let top = admin.decisions.top(ranking.by, &filter.query(), limit);
    Json(json!({ "top": top })).into_response()
}

/// What would be decided about a request, and why. Fetches the origin's robots.txt if it is not known.
pub(super) async fn preview(
    State(admin): State<Admin>,
    Parameters(question): Parameters<Question>,
) -> Response {
    match admin.flow.preview(&question).await {
        Ok(decision) => {
            let mut answer = serde_json::to_value(decision).expect("strings and numbers serialise");
            // Nothing was asked for, so there is nothing to look up or to time.
            for member in ["id", "client", "took_us", "waited_us", "decided_us"] {
                answer
                    .as_object_mut()
                    .and_then(|answer| answer.remove(member));
            }
            Json(answer).into_response()
        }
        Err(wrong) => error(StatusCode::BAD_REQUEST, &wrong),
    }
}
