//! `/v1/changes`: origins whose robots.txt changed, and whether that opens or closes URLs that crawlers asked for.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use wayleave_clock::system_time;
use wayleave_decision_log::AskedUrls;
use wayleave_lifecycle::FetchedBody;
use wayleave_robots_cache::{DocumentVersion, RobotsStore, VersionChange};
use wayleave_robots_txt::AccessResult;

use super::parameters::{QueryParameters, check_limit, parse_time};
use super::response::{ErrorBody, SafeJson, bad_request};
use super::robots_view::VersionView;
use super::state::AdminState;
use crate::robots_changes::ChangedUrls;

/// The most changes in one response.
const MAX_LISTED: usize = 1000;
/// The time back from now without `since`.
const DEFAULT_SPAN: Duration = Duration::from_hours(24);

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ChangeParameters {
    /// Not before this time, or a span before now such as `7d`; default one day.
    #[param(format = DateTime)]
    since: Option<String>,
    /// Not after this time, or a span before now.
    #[param(format = DateTime)]
    until: Option<String>,
    /// Maximum number of changes; default 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

#[derive(Debug, Serialize, ToSchema)]
struct ListedChanges {
    #[schema(format = DateTime)]
    since: String,
    /// The newest first.
    changes: Vec<ListedChange>,
    /// Whether there are older ones in the range.
    is_cut: bool,
}

/// A robots.txt that an origin served otherwise than before.
#[derive(Debug, Serialize, ToSchema)]
struct ListedChange {
    origin: String,
    /// The time at which the later version was first seen.
    #[schema(format = DateTime)]
    at: String,
    before: VersionView,
    after: VersionView,
    /// The effect on the URLs that were asked for: `opens`, `closes`, `both` or `neutral`. Left out if a version is no longer
    /// kept.
    #[serde(flatten)]
    effect: Option<EffectView>,
}

#[derive(Debug, Serialize, ToSchema)]
struct EffectView {
    #[schema(required = false)]
    effect: &'static str,
    /// The number of URLs of this origin, by crawler, that were compared: at most 200, from the recent decisions and the newest
    /// files of the decision log.
    #[schema(required = false)]
    asked: usize,
    /// The number of them that the change allows.
    #[schema(required = false)]
    opened: usize,
    /// The number of them that it disallows.
    #[schema(required = false)]
    closed: usize,
    /// The first ten.
    #[schema(required = false)]
    opened_urls: Vec<String>,
    #[schema(required = false)]
    closed_urls: Vec<String>,
}

/// Origins whose robots.txt changed, the newest change first. The first version of a file is no change.
#[utoipa::path(
    get,
    path = "/v1/changes",
    tag = "robots.txt",
    params(ChangeParameters),
    responses(
        (status = 200, body = ListedChanges),
        (status = 400, body = ErrorBody, description = "A parameter is malformed"),
    )
)]
pub(super) async fn list(
    State(admin): State<AdminState>,
    QueryParameters(parameters): QueryParameters<ChangeParameters>,
) -> Response {
    let (since, until, limit) = match read_parameters(&parameters) {
        Ok(read) => read,
        Err(mistake) => return bad_request(mistake),
    };
    let store = admin.decider.robots.store();
    // One more than asked for shows whether there are others.
    let mut found = store.changes(since..=until, limit + 1).await;
    let is_cut = found.len() > limit;
    found.truncate(limit);
    let origins = found.iter().map(|change| change.origin.to_string()).collect();
    let asked = Arc::new(admin.decisions.asked(origins).await);
    let mut changes = Vec::with_capacity(found.len());
    for change in &found {
        changes.push(listed(store, change, &asked).await);
    }
    let since = humantime::format_rfc3339_micros(since).to_string();
    SafeJson(ListedChanges { since, changes, is_cut }).into_response()
}

fn read_parameters(
    parameters: &ChangeParameters,
) -> Result<(SystemTime, SystemTime, usize), String> {
    let now = system_time();
    let since = match &parameters.since {
        Some(since) => parse_time("since", since)?.start(now),
        None => now.checked_sub(DEFAULT_SPAN).unwrap_or(SystemTime::UNIX_EPOCH),
    };
    let until = match &parameters.until {
        Some(until) => parse_time("until", until)?.end(now),
        // A file that was fetched meanwhile counts.
        None => now + DEFAULT_SPAN,
    };
    Ok((since, until, check_limit(parameters.limit, MAX_LISTED)?))
}

async fn listed(
    store: &RobotsStore,
    change: &VersionChange,
    asked: &Arc<AskedUrls>,
) -> ListedChange {
    let bodies = (body(store, &change.before).await, body(store, &change.after).await);
    let effect = match bodies {
        (Some(before), Some(after)) => {
            let change = change.clone();
            let asked = Arc::clone(asked);
            // Strangers' files take time to parse and to match, and operators have one thread for all their requests.
            let comparing = tokio::task::spawn_blocking(move || {
                let before = access(&change.before, before);
                let after = access(&change.after, after);
                ChangedUrls::between(&before, &after, asked.at(&change.origin.to_string()))
            });
            comparing.await.ok().map(EffectView::new)
        }
        _ => None,
    };
    ListedChange {
        origin: change.origin.to_string(),
        at: humantime::format_rfc3339_micros(change.after.first_seen_at).to_string(),
        before: VersionView::new(&change.before),
        after: VersionView::new(&change.after),
        effect,
    }
}

impl EffectView {
    fn new(changed: ChangedUrls) -> Self {
        Self {
            effect: changed.effect(),
            asked: changed.asked,
            opened: changed.opened,
            closed: changed.closed,
            opened_urls: changed.opened_urls,
            closed_urls: changed.closed_urls,
        }
    }
}

/// Returns the body of a version, if it has one; none if it is no longer kept.
async fn body(store: &RobotsStore, version: &DocumentVersion) -> Option<Option<Arc<[u8]>>> {
    match version.digest {
        Some(digest) => store.body(digest).await.map(Some),
        None => Some(None),
    }
}

/// Returns the rules of a version, or why there are none.
fn access(version: &DocumentVersion, body: Option<Arc<[u8]>>) -> AccessResult {
    match (body, version.status) {
        (Some(bytes), _) => {
            let body = FetchedBody { bytes, is_cut: version.is_cut, digest: None };
            AccessResult::Successful(body.parse())
        }
        (None, status @ 400..=499) => AccessResult::Unavailable { status },
        (None, _) => AccessResult::RedirectLost,
    }
}
