//! `/v1/rules`: the organisation's own rules.

use std::time::{Duration, SystemTime};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use wayleave_decision::{PolicyRule, RuleAction};
use wayleave_usage_preferences::Purpose;

use super::access::TeamScope;
use super::parameters::{QueryParameters, check_limit};
use super::response::{ErrorBody, SafeJson, bad_request};
use super::robots_view::format_instant;
use super::state::AdminState;

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
pub(super) async fn list(
    State(admin): State<AdminState>,
    scope: TeamScope,
    QueryParameters(parameters): QueryParameters<RuleParameters>,
) -> Response {
    // The bounds in the description of the API are not enforced by utoipa.
    let limit = match check_limit(parameters.limit, 10_000) {
        Ok(limit) => limit,
        Err(mistake) => return bad_request(mistake),
    };
    if let Some(days) = parameters.expires_within_days.filter(|days| *days > 36_600) {
        return bad_request(format!("expires_within_days: {days} is over 36600"));
    }
    let settings = admin.decider.settings();
    let now = admin.decider.robots.clock().now();
    let may_be_told = |rule: &PolicyRule| {
        let mut named = rule.crawlers.iter();
        // A rule for all crawlers is for those of every team.
        rule.crawlers.is_empty() || named.any(|name| scope.includes_named(&settings.crawlers, name))
    };
    let listed = settings.rules.all().filter(|(_, rule)| may_be_told(rule));
    let mut rules: Vec<_> = listed.filter(|(_, rule)| parameters.matches(rule, now)).collect();
    if parameters.expires_within_days.is_some() {
        // All of them have one: the filter left out the rules without.
        rules.sort_by_key(|(_, rule)| rule.expires_at);
    }
    let listed = rules.into_iter().take(limit).map(|(number, rule)| list_rule(number, rule, now));
    let of_scope = |mut rule: ListedRule| {
        rule.crawlers.retain(|name| scope.includes_named(&settings.crawlers, name));
        rule
    };
    SafeJson(ListedRules { rules: listed.map(of_scope).collect() }).into_response()
}

impl RuleParameters {
    fn matches(&self, rule: &PolicyRule, now: SystemTime) -> bool {
        let action = match rule.action {
            RuleAction::Allow => ActionWord::Allow,
            RuleAction::Refuse | RuleAction::RefuseLegally => ActionWord::Refuse,
        };
        let expires_in_time = |days: u32| {
            let latest = now + Duration::from_hours(24) * days;
            rule.expires_at.is_some_and(|expires_at| expires_at <= latest)
        };
        self.action.is_none_or(|requested| requested == action)
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
