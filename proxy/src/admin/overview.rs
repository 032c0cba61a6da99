//! The proxy at a glance: traffic, status, configuration and the organisation's rules.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use wayleave_robots_txt::preferences::Purpose;

use super::parameters::{QueryParameters, check_limit};
use super::response::{ErrorBody, SafeJson, bad_request};
use super::robots_view::format_instant;
use super::state::AdminState;
use crate::rules::{PolicyRule, RuleAction};
use crate::telemetry::traffic::{STEP, TrafficPoint};

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Timeline)]
struct TrafficTimeline<'a> {
    /// The time between two points, in seconds.
    step_seconds: u64,
    /// The last half hour, the oldest first.
    points: Vec<&'a TrafficPoint>,
}

/// The requests of the last half hour, by crawler, outcome and reason.
#[utoipa::path(get, path = "/v1/traffic", tag = "proxy", responses((status = 200, body = TrafficTimeline<'_>)))]
pub(super) async fn traffic(State(admin): State<AdminState>) -> Response {
    let points = admin.traffic.points();
    SafeJson(TrafficTimeline {
        step_seconds: STEP.as_secs(),
        points: points.iter().map(Arc::as_ref).collect(),
    })
    .into_response()
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Status)]
struct ProxyStatus {
    version: &'static str,
    /// The address of the proxy for clients on this machine.
    proxy: String,
    /// The listeners for clients: `http://` and `https://` with addresses.
    listeners: Vec<String>,
    #[schema(format = DateTime)]
    started_at: String,
    is_stopping: bool,
    /// Connections of clients.
    client_connections: u64,
    robots: EntryCounts,
    /// The fault of the store in `state.dir`, if there is one.
    store_fault: Option<String>,
    /// The names of the configured crawlers, in their order.
    crawlers: Vec<String>,
}

/// Origins whose robots.txt is known, in memory or on disk, by state.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
#[schema(as = Entries)]
struct EntryCounts {
    fresh: usize,
    stale: usize,
    unavailable: usize,
    unreachable: usize,
    /// The memory that they use, in bytes.
    bytes: usize,
}

/// The status of the proxy.
#[utoipa::path(get, path = "/v1/status", tag = "proxy", responses((status = 200, body = ProxyStatus)))]
pub(super) async fn status(State(admin): State<AdminState>) -> Response {
    let robots = admin.decider.robots.clone();
    let store_fault = robots.store().fault();
    let counting = tokio::task::spawn_blocking(move || {
        let [fresh, stale, unavailable, unreachable] =
            robots.count_by_state().map(|(_, count)| count);
        EntryCounts {
            fresh,
            stale,
            unavailable,
            unreachable,
            bytes: robots.memory_bytes(),
        }
    });
    SafeJson(ProxyStatus {
        version: env!("CARGO_PKG_VERSION"),
        proxy: admin.proxy.to_string(),
        listeners: admin.listeners.to_vec(),
        started_at: format_instant(admin.started_at),
        is_stopping: admin.stopping.is_cancelled(),
        client_connections: admin.metrics.open_client_connections(),
        // The task fails only if the process is ending.
        robots: counting.await.unwrap_or_default(),
        store_fault,
        crawlers: admin.decider.settings().crawlers.names(),
    })
    .into_response()
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Configuration)]
struct ConfigurationView {
    /// The version of the configuration in use, counted from 1 at the start.
    configuration: u64,
    /// The file that it was read from; null: the built-in defaults.
    file: Option<String>,
    /// The time at which it was read.
    #[schema(format = DateTime)]
    read_at: String,
    /// The last attempt to reload it, if any.
    last_attempt: Option<AttemptView>,
    /// Sections and keys of it that take effect only after a restart.
    needs_restart: Vec<String>,
    /// The whole configuration as TOML, including defaults; hashes of passwords and tokens are left out.
    toml: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Attempt)]
struct AttemptView {
    #[schema(format = DateTime)]
    at: String,
    /// The reason for reading the file.
    cause: String,
    /// The mistakes in it; empty if it was loaded.
    mistakes: Vec<String>,
}

/// The configuration in use, and the result of the last reload.
#[utoipa::path(get, path = "/v1/configuration", tag = "proxy", responses((status = 200, body = ConfigurationView)))]
pub(super) async fn configuration(State(admin): State<AdminState>) -> Response {
    let status = admin.config.status();
    SafeJson(ConfigurationView {
        configuration: status.configuration,
        file: status.file,
        read_at: format_instant(status.read_at),
        last_attempt: status.last_attempt.map(|attempt| AttemptView {
            at: format_instant(attempt.at),
            cause: attempt.cause,
            mistakes: attempt.mistakes,
        }),
        needs_restart: status.needs_restart,
        toml: status.toml,
    })
    .into_response()
}

/// The action of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum ActionWord {
    Refuse,
    Allow,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RuleParameters {
    /// Only rules with this action.
    #[param(inline)]
    action: Option<ActionWord>,
    /// Only rules that expire within this number of days or have expired, the soonest first.
    #[param(minimum = 0, maximum = 36_600)]
    expires_within_days: Option<u32>,
    /// Maximum number of rules; default 100.
    #[param(minimum = 1, maximum = 10_000)]
    limit: Option<usize>,
}

/// A rule of the organisation: `[[rule]]`.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Listed)]
struct ListedRule {
    /// Its number in the configuration, from 1.
    number: usize,
    /// `refuse` or `allow`.
    action: &'static str,
    /// Whether it refuses with 451.
    legal: bool,
    hosts: Vec<String>,
    /// Empty: all.
    paths: Vec<String>,
    /// Empty: all.
    crawlers: Vec<String>,
    /// Empty: all requests, whatever their purpose.
    purposes: Vec<&'static str>,
    /// Empty: all.
    methods: Vec<String>,
    owner: Option<String>,
    reason: Option<String>,
    #[schema(format = DateTime)]
    expires_at: Option<String>,
    has_expired: bool,
}

#[derive(Debug, Serialize, ToSchema)]
struct ListedRules {
    rules: Vec<ListedRule>,
}

/// The organisation's rules.
#[utoipa::path(
    get,
    path = "/v1/rules",
    tag = "proxy",
    params(RuleParameters),
    responses(
        (status = 200, body = ListedRules),
        (status = 400, body = ErrorBody, description = "A parameter is malformed"),
    )
)]
pub(super) async fn rules(
    State(admin): State<AdminState>,
    QueryParameters(choice): QueryParameters<RuleParameters>,
) -> Response {
    let limit = match check_limit(choice.limit, 10_000) {
        Ok(limit) => limit,
        Err(mistake) => return bad_request(mistake),
    };
    if let Some(days) = choice.expires_within_days.filter(|days| *days > 36_600) {
        return bad_request(format!("expires_within_days: {days} is over 36600"));
    }
    let settings = admin.decider.settings();
    let now = admin.decider.robots.clock().now();
    let mut rules: Vec<_> = settings
        .rules
        .all()
        .filter(|(_, rule)| choice.matches(rule, now))
        .collect();
    if choice.expires_within_days.is_some() {
        rules.sort_by_key(|(_, rule)| rule.expires_at);
    }
    let rules = rules.into_iter().take(limit);
    SafeJson(ListedRules {
        rules: rules
            .map(|(number, rule)| list_rule(number, rule, now))
            .collect(),
    })
    .into_response()
}

impl RuleParameters {
    fn matches(&self, rule: &PolicyRule, now: SystemTime) -> bool {
        let does = match rule.action {
            RuleAction::Allow => ActionWord::Allow,
            RuleAction::Refuse | RuleAction::RefuseLegally => ActionWord::Refuse,
        };
        let expires_in_time = |days: u32| {
            let by = now + Duration::from_hours(24) * days;
            rule.expires_at.is_some_and(|expires_at| expires_at <= by)
        };
        self.action.is_none_or(|action| action == does)
            && self.expires_within_days.is_none_or(expires_in_time)
    }
}

fn list_rule(number: usize, rule: &PolicyRule, now: SystemTime) -> ListedRule {
    ListedRule {
        number,
        action: rule.action.as_str(),
        legal: rule.action == RuleAction::RefuseLegally,
        hosts: rule.hosts.iter().map(ToString::to_string).collect(),
        paths: rule.paths.clone(),
        crawlers: rule.crawlers.clone(),
        purposes: rule.purposes.iter().map(Purpose::as_str).collect(),
        methods: rule.methods.clone(),
        owner: rule.owner.clone(),
        reason: rule.reason.clone(),
        expires_at: rule.expires_at.map(format_instant),
        has_expired: rule.has_expired(now),
    }
}
