//! `/v1/decision`: the decision about a URL that nobody requested, in every dialect.

use std::time::SystemTime;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use wayleave_admission::preview::{PreviewedDecision, Question, Reading};
use wayleave_admission::record;
use wayleave_decision::{EnforcementMode, Reason, RequestOutcome};
use wayleave_decision_log::{DecisionRecord, FindingRecord, LogWord, RuleRecord, UsePreference};
use wayleave_record::{RecordedIdentity, Word};
use wayleave_robots_txt::Dialect;

use super::access::TeamScope;
use super::marked_lines::{MarkedLine, MatchedLine, marked_lines};
use super::parameters::QueryParameters;
use super::response::{ErrorBody, SafeJson, bad_request, error_response};
use super::state::AdminState;

/// The expected outcome of a request. Members that do not apply are left out.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Preview {
    /// `forwarded`, `refused` or `observed`.
    #[schema(value_type = String)]
    outcome: Word<RequestOutcome>,
    /// The reason, from a closed set.
    #[schema(value_type = String)]
    reason: Word<Reason>,
    /// The status that the client would get; 200 if the origin would answer.
    status: u16,
    /// The crawler's configured name, or `asserted`.
    #[schema(value_type = String)]
    crawler: LogWord,
    /// `known` or `asserted`.
    #[schema(value_type = String)]
    identity: Word<RecordedIdentity>,
    /// The product tokens that are looked for, in their order.
    tokens: Vec<String>,
    method: String,
    url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    /// The organisation's rule that matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<RuleRecord>,
    #[serde(flatten)]
    finding: Option<FindingRecord>,
    /// The site's preference about the use, as far as it is stated before the request, for each purpose.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    preferences: Vec<UsePreference>,
    /// The status of the refusal, if it is only observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    would_be: Option<u16>,
    /// `enforce` or `observe`.
    #[schema(value_type = String)]
    mode: Word<EnforcementMode>,
    configuration: u64,
    /// A sentence that explains why it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<String>,
    /// The dialect in which the crawler reads robots.txt.
    read_as: &'static str,
    /// The lines of robots.txt that count for the decision, and what each of them does.
    marks: Vec<MarkedLine>,
    /// The verdict of robots.txt in each dialect, whatever the organisation's rules say; empty if the file was not fetched in time.
    dialects: Vec<Reading>,
    /// The crawler in whose name robots.txt was fetched; `-` for the proxy itself, and `asserted` if with the User-Agent of a
    /// client that is no configured crawler.
    #[serde(skip_serializing_if = "Option::is_none")]
    robots_fetched_as: Option<String>,
}

/// Decides about a request without making it.
///
/// Fetches the origin's robots.txt if it is not cached, and for a crawler with purposes the documents next to it.
#[utoipa::path(
    get,
    path = "/v1/decision",
    tag = "decisions",
    params(Question),
    responses(
        (status = 200, body = Preview),
        (status = 400, body = ErrorBody, description = "A parameter is malformed"),
    )
)]
pub(super) async fn preview(
    State(admin): State<AdminState>,
    scope: TeamScope,
    QueryParameters(question): QueryParameters<Question>,
) -> Response {
    // Before anything is fetched for it.
    match admin.decider.owner_in_question(&question) {
        Ok(owner) if scope.includes(owner.as_deref()) => {}
        Err(mistake) if scope.team().is_none() || question.crawler.is_none() => {
            return bad_request(mistake);
        }
        // A name that nobody has is refused alike: it must not show which names others have.
        Ok(_) | Err(_) => {
            let message = "this token is for one team, and the request is not of its crawlers";
            return error_response(StatusCode::FORBIDDEN, message);
        }
    }
    let previewed = match admin.decider.preview(&question).await {
        Ok(previewed) => previewed,
        Err(mistake) => return bad_request(mistake),
    };
    let at = admin.decider.robots.clock().now();
    let mut preview = Preview::new(previewed, at);
    if scope.team().is_some() {
        // It may be the name of another team's crawler.
        preview.robots_fetched_as = None;
    }
    SafeJson(preview).into_response()
}

impl Preview {
    /// Returns the verdict on a request that nobody made, as the log would record it.
    pub(crate) fn new(previewed: PreviewedDecision, at: SystemTime) -> Self {
        // By the code that writes the log: the preview and the line of a real request must say the same.
        let read_as = previewed.identity.dialect();
        let (decision, dialects) = record::preview(previewed, at);
        Self::of_record(decision, dialects, read_as)
    }

    /// Returns the verdict that the log would record as `decision`, for a crawler that reads robots.txt as `read_as`.
    pub(crate) fn of_record(
        decision: DecisionRecord,
        dialects: Vec<Reading>,
        read_as: Dialect,
    ) -> Self {
        // Without a finding, the line that the rules of the organisation overrule.
        let reading = dialects.iter().find(|reading| *reading.dialect() == read_as);
        let matched = match &decision.finding {
            Some(finding) => finding.line.map(|line| (line, &finding.verdict)),
            None => reading.and_then(Reading::matched_line),
        };
        let matched = matched.map(|(line, verdict)| MatchedLine { line, verdict });
        let marks = marked_lines(&decision, matched, None);
        Self {
            outcome: decision.outcome,
            reason: decision.reason,
            status: decision.status,
            crawler: decision.crawler,
            identity: decision.identity,
            tokens: decision.tokens,
            method: decision.method,
            url: decision.url,
            origin: decision.origin,
            policy: decision.policy,
            finding: decision.finding,
            preferences: decision.preferences,
            would_be: decision.would_be,
            mode: decision.mode,
            configuration: decision.configuration,
            details: decision.details,
            read_as: read_as.as_str(),
            marks,
            dialects,
            robots_fetched_as: decision.robots_fetched_as,
        }
    }

    pub(crate) fn outcome(&self) -> RequestOutcome {
        self.outcome.known().expect("it was decided by this version")
    }

    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    /// Returns the status of a refusal that is only observed.
    pub(crate) fn would_be(&self) -> Option<u16> {
        self.would_be
    }

    pub(crate) fn details(&self) -> Option<&str> {
        self.details.as_deref()
    }
}
