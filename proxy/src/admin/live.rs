//! Live decisions and traffic, as server-sent events.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use serde::Deserialize;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use utoipa::IntoParams;
use wayleave_admission::Decider;
use wayleave_decision_log::{ChosenCrawler, DecisionQuery, DecisionWatch, WatchedBatch, to_event};
use wayleave_telemetry::traffic::WatchedPoint;

use super::access::TeamScope;
use super::decision_filter::{OutcomeWord, ViaWord, decision_parameters};
use super::parameters::QueryParameters;
use super::response::{ErrorBody, bad_request};
use super::state::AdminState;

/// The time without an event after which a comment is sent, so that no intermediary closes an idle connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The media type of server-sent events.
pub(super) const EVENT_STREAM: &str = "text/event-stream";

decision_parameters! {
    StreamParameters {} {
        /// At most this many decisions per quarter of a second, the newest; the others are counted in an event `skipped`.
        #[param(minimum = 0, maximum = 10_000)]
        most: Option<usize>,
        /// Also an event `traffic` every two seconds, with a point as in `/v1/traffic`.
        #[serde(default)]
        #[param(required = false)]
        traffic: bool,
    }
}

/// Decisions from now on, as server-sent events: `decision`, and `missed` with the number of those that were lost.
#[utoipa::path(
    get,
    path = "/v1/decisions/stream",
    tag = "decisions",
    params(StreamParameters),
    responses(
        (status = 200, body = String, content_type = "text/event-stream", description = "An endless stream"),
        (status = 400, body = ErrorBody, description = "A parameter is malformed"),
    )
)]
pub(super) async fn stream(
    State(admin): State<AdminState>,
    scope: TeamScope,
    QueryParameters(parameters): QueryParameters<StreamParameters>,
) -> Response {
    let most = match parameters.most {
        None => usize::MAX,
        Some(most) if most <= 10_000 => most,
        Some(most) => return bad_request(format!("most: {most} is over 10000")),
    };
    let decisions = DecisionStream {
        decisions: admin.decisions.watch(),
        traffic: parameters.traffic.then(|| admin.traffic.watch()),
        query: parameters.query(&scope),
        most,
        scope,
        decider: Arc::clone(&admin.decider),
    };
    // Header fields are sent with the first byte of the body. Without this comment the client would not know that it is connected
    // until the first event.
    let greeting = stream::iter([Ok(Bytes::from_static(b":\n\n"))]);
    let events = stream::unfold(decisions, |mut decisions| async move {
        let text = decisions.next().await?;
        Some((Ok::<_, Infallible>(text), decisions))
    });
    let body = Body::from_stream(futures_util::StreamExt::chain(greeting, events));
    ([(CONTENT_TYPE, EVENT_STREAM)], body).into_response()
}

/// One client's stream of decisions.
struct DecisionStream {
    decisions: DecisionWatch,
    traffic: Option<Receiver<Arc<WatchedPoint>>>,
    query: DecisionQuery,
    most: usize,
    scope: TeamScope,
    decider: Arc<Decider>,
}

impl DecisionStream {
    /// Waits for the next events. `None` when there will be no more.
    async fn next(&mut self) -> Option<Bytes> {
        // Set once, not for each batch: batches that the filter leaves empty would put it off for ever.
        let keep_alive_at = Instant::now() + KEEP_ALIVE;
        loop {
            let traffic = async {
                match &mut self.traffic {
                    Some(traffic) => traffic.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                batch = self.decisions.next() => {
                    if let Some(text) = format_events(&batch?, &self.query, &self.scope, self.most) {
                        return Some(text);
                    }
                }
                point = traffic => match point {
                    Ok(watched) => return Some(self.format_point(&watched)),
                    // Points are lost. A watcher that connects again loads all of them; a chart with a gap would pass for complete.
                    Err(RecvError::Lagged(_) | RecvError::Closed) => return None,
                },
                () = tokio::time::sleep_until(keep_alive_at) => return Some(Bytes::from_static(b":\n\n")),
            }
        }
    }
}

impl DecisionStream {
    fn format_point(&self, watched: &WatchedPoint) -> Bytes {
        if self.scope.team().is_none() {
            return watched.event.clone();
        }
        let crawlers = &self.decider.settings().crawlers;
        watched.point.of(|name| self.scope.includes_named(crawlers, name)).event()
    }
}

/// Formats the events for a batch. `None` if the query matches none of its decisions.
fn format_events(
    batch: &WatchedBatch,
    query: &DecisionQuery,
    scope: &TeamScope,
    most: usize,
) -> Option<Bytes> {
    let matching: Vec<_> =
        batch.decisions.iter().filter(|live| query.matches(&live.decision)).collect();
    let skipped = matching.len().saturating_sub(most);
    let mut text = BytesMut::new();
    for (event, count) in [("missed", batch.missed), ("skipped", skipped)] {
        if count > 0 {
            text.extend_from_slice(format!("event: {event}\ndata: {count}\n\n").as_bytes());
        }
    }
    for live in &matching[skipped..] {
        match scope.view(&live.decision) {
            Cow::Borrowed(_) => text.extend_from_slice(live.event()),
            Cow::Owned(decision) => text.extend_from_slice(&to_event(&decision)),
        }
    }
    (!text.is_empty()).then(|| text.freeze())
}
