//! The rights of a request's token: to read or to operate, and about which crawlers.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::Method;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use wayleave_config::{AdminRole, AdminToken};
use wayleave_decision::{ASSERTED, Crawlers};
use wayleave_decision_log::DecisionRecord;

use super::response::error_response;

/// The operator behind a request, as far as the proxy knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Operator {
    /// As the log names it.
    pub(super) who: String,
    role: AdminRole,
    scope: TeamScope,
}

impl Operator {
    /// Returns the operator where no token is needed.
    pub(super) fn without_token() -> Self {
        Self { who: "no token".to_owned(), role: AdminRole::Operate, scope: TeamScope(None) }
    }

    /// Returns why a request of this operator is refused, if it is. `route` is the path of the endpoint as it is declared, if there
    /// is one.
    pub(super) fn objection(&self, method: &Method, route: Option<&str>) -> Option<&'static str> {
        // Its tools ask this listener with the same token, and are checked then.
        if route == Some(MCP_PATH) {
            return None;
        }
        if is_change(method, route.unwrap_or_default()) && self.role == AdminRole::Read {
            return Some("this token has the role \"read\", and this request changes something");
        }
        // A path that nothing serves tells nothing.
        let is_for_teams = route.is_none_or(|route| is_for_teams(method, route));
        (self.scope.team().is_some() && !is_for_teams)
            .then_some("this token is for one team, and this is about all of them")
    }

    pub(super) fn scope(&self) -> TeamScope {
        self.scope.clone()
    }
}

impl From<&AdminToken> for Operator {
    fn from(token: &AdminToken) -> Self {
        let digits: String = token.sha256[..4].iter().map(|byte| format!("{byte:02x}")).collect();
        Self {
            who: token.name.clone().unwrap_or_else(|| format!("token {digits}")),
            role: token.role,
            scope: TeamScope(token.team.clone()),
        }
    }
}

/// The endpoint that decides again about the log's requests: by POST, because it gets a configuration.
pub(super) const REPLAY_PATH: &str = "/v1/replay";
/// The endpoint for agents. All its requests are POST.
pub(super) const MCP_PATH: &str = "/mcp";

/// Returns whether a request with this method changes something.
pub(super) fn is_change(method: &Method, path: &str) -> bool {
    !method.is_safe() && path != MCP_PATH && path != REPLAY_PATH
}

/// The endpoints for tokens of one team. They show its crawlers only, or nothing about any: robots.txt files are
/// public, and refreshing one takes nothing from anybody. A new endpoint is not for teams until it is listed here.
const TEAM_ROUTES: [(&str, &str); 21] = [
    ("GET", "/v1/connect"),
    ("GET", "/v1/crawlers"),
    ("GET", "/v1/decision"),
    ("GET", "/v1/decisions"),
    ("GET", "/v1/decisions/download"),
    ("GET", "/v1/decisions/stream"),
    ("GET", "/v1/decisions/{id}"),
    ("GET", "/v1/decisions/{id}/robots"),
    ("GET", "/v1/evidence"),
    ("GET", "/v1/evidence/bodies/{sha256}"),
    ("GET", "/v1/fleet"),
    ("GET", "/v1/overview"),
    ("GET", "/v1/problems"),
    ("GET", "/v1/robots"),
    ("GET", "/v1/robots/{origin}"),
    ("POST", REPLAY_PATH),
    ("POST", "/v1/robots/{origin}/refresh"),
    ("GET", "/v1/rules"),
    ("GET", "/v1/status"),
    ("GET", "/v1/top"),
    ("GET", "/v1/traffic"),
];

fn is_for_teams(method: &Method, route: &str) -> bool {
    let method = if method == Method::HEAD { "GET" } else { method.as_str() };
    TEAM_ROUTES.contains(&(method, route))
}

/// The crawlers that a request may see: those of one owner, or all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TeamScope(Option<Arc<str>>);

impl TeamScope {
    /// Returns the owner of the crawlers; none: all crawlers.
    pub(super) fn team(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// Returns whether the request may see something of a crawler with this owner.
    pub(super) fn includes(&self, owner: Option<&str>) -> bool {
        self.team().is_none_or(|team| owner == Some(team))
    }

    /// Returns a decision as the request may see it: for a team, without the name of another crawler that fetched robots.txt.
    pub(super) fn view<'a>(&self, decision: &'a DecisionRecord) -> Cow<'a, DecisionRecord> {
        let fetched_as = decision.robots_fetched_as.as_deref();
        if self.team().is_none()
            || fetched_as
                .is_none_or(|name| name == "-" || name == ASSERTED || name == &*decision.crawler)
        {
            return Cow::Borrowed(decision);
        }
        Cow::Owned(DecisionRecord { robots_fetched_as: None, ..decision.clone() })
    }

    /// Returns whether the request may see something of the crawler with this name. Without a team that includes `asserted`.
    pub(super) fn includes_named(&self, crawlers: &Crawlers, name: &str) -> bool {
        let owner = || crawlers.named(name).and_then(|crawler| crawler.owner.clone());
        self.team().is_none() || self.includes(owner().as_deref())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for TeamScope {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Response> {
        // The guard always adds it. Without it, nothing is told.
        let missing = || error_response(StatusCode::FORBIDDEN, "nobody checked this request");
        parts.extensions.get::<Self>().cloned().ok_or_else(missing)
    }
}
