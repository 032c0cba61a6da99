//! `/v1/problems`: what an operator should know whatever they look at.

use std::time::{Duration, SystemTime};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use wayleave_decision::PolicyRule;

use super::access::TeamScope;
use super::response::SafeJson;
use super::robots_view::format_instant;
use super::state::AdminState;

/// The most files that are named.
const MAX_DETAILS: usize = 100;
/// The time for which lost decisions are mentioned.
const MENTION_LOSSES: Duration = Duration::from_hours(24);

#[derive(Debug, Serialize, ToSchema)]
struct ListedProblems {
    /// The most urgent first; empty: all is well.
    problems: Vec<Problem>,
}

/// A problem of the proxy as a whole.
#[derive(Debug, Serialize, ToSchema)]
struct Problem {
    /// A word for programs: `reload-rejected`, `decisions-lost`, `decisions-unsigned`,
    /// `log-foreign-files`, `holds-altered`, `state-unwritable`, `state-set-aside` or `rules-expired`.
    kind: &'static str,
    /// A sentence.
    text: String,
    /// More of it: all mistakes of the file, or all rules that have expired.
    details: Vec<String>,
    /// The time since when, or at which it was noticed; null: not known.
    #[schema(format = DateTime)]
    at: Option<String>,
}

/// The problems of the proxy as a whole: a configuration that was rejected, decisions that were lost, state that cannot be
/// written, rules that have expired.
#[utoipa::path(get, path = "/v1/problems", tag = "proxy", responses((status = 200, body = ListedProblems)))]
pub(super) async fn list(State(admin): State<AdminState>, scope: TeamScope) -> Response {
    let now = admin.decider.robots.clock().now();
    let problems = [
        rejected_reload(&admin, &scope),
        lost_decisions(&admin, now),
        unsigned_decisions(&admin),
        foreign_files(&admin),
        forged_holds(&admin),
        unwritable_state(&admin),
        expired_rules(&admin, &scope, now),
    ];
    SafeJson(ListedProblems { problems: problems.into_iter().flatten().collect() }).into_response()
}

fn rejected_reload(admin: &AdminState, scope: &TeamScope) -> Option<Problem> {
    let status = admin.config.status();
    let attempt = status.last_attempt.filter(|attempt| !attempt.mistakes.is_empty())?;
    let running = format!("version {} is still in use", status.configuration);
    // The mistakes may be in the tables of another team.
    let (first, details) = if scope.team().is_none() {
        (format!(": {}", attempt.mistakes[0]), attempt.mistakes)
    } else {
        (String::new(), Vec::new())
    };
    Some(Problem {
        kind: "reload-rejected",
        text: format!("The changed configuration was rejected{first} ({running})"),
        details,
        at: Some(format_instant(attempt.at)),
    })
}

fn lost_decisions(admin: &AdminState, now: SystemTime) -> Option<Problem> {
    let is_failing = admin.decisions.is_failing();
    let (lost, at) = admin.decisions.losses()?;
    let is_recent = now.duration_since(at).unwrap_or_default() < MENTION_LOSSES;
    (is_failing || is_recent).then(|| Problem {
        kind: "decisions-lost",
        text: match (is_failing, lost) {
            (true, _) => format!("The decision log cannot be written: {lost} lost so far"),
            (false, 1) => "1 decision is missing in the decision log".to_owned(),
            (false, _) => format!("{lost} decisions are missing in the decision log"),
        },
        details: Vec::new(),
        at: Some(format_instant(at)),
    })
}

fn unsigned_decisions(admin: &AdminState) -> Option<Problem> {
    let warnings = admin.decisions.warnings();
    let fault = warnings.head_fault.as_ref()?;
    Some(Problem {
        kind: "decisions-unsigned",
        text: format!("The decision log cannot be signed: {fault}"),
        details: Vec::new(),
        at: None,
    })
}

fn foreign_files(admin: &AdminState) -> Option<Problem> {
    let warnings = admin.decisions.warnings();
    let foreign = warnings.foreign.iter().take(MAX_DETAILS);
    let details = foreign.map(|file| format!("{} {}", file.path.display(), file.reason));
    (!warnings.foreign.is_empty()).then(|| Problem {
        kind: "log-foreign-files",
        text: "Files beside the decision log do not belong to it, and are left alone".to_owned(),
        details: details.collect(),
        at: None,
    })
}

fn forged_holds(admin: &AdminState) -> Option<Problem> {
    let details = admin.decisions.warnings().holds.clone();
    (!details.is_empty()).then(|| Problem {
        kind: "holds-altered",
        text: "Somebody has changed the holds by hand, or they cannot be read".to_owned(),
        details,
        at: None,
    })
}

fn unwritable_state(admin: &AdminState) -> Option<Problem> {
    let store = admin.decider.robots.store();
    let (kind, text) = match (store.fault(), store.set_aside_file()) {
        (Some(fault), _) => ("state-unwritable", format!("The state cannot be written: {fault}")),
        (None, Some(what)) => {
            ("state-set-aside", format!("Earlier robots.txt files are lost: {what}"))
        }
        (None, None) => return None,
    };
    Some(Problem { kind, text, details: Vec::new(), at: None })
}

fn expired_rules(admin: &AdminState, scope: &TeamScope, now: SystemTime) -> Option<Problem> {
    let settings = admin.decider.settings();
    let is_told = |rule: &PolicyRule| {
        let mut named = rule.crawlers.iter();
        // A rule for all crawlers is for those of every team.
        rule.crawlers.is_empty() || named.any(|name| scope.includes_named(&settings.crawlers, name))
    };
    let expired = settings.rules.all().filter(|(_, rule)| rule.has_expired(now) && is_told(rule));
    let expired: Vec<_> = expired.collect();
    let last = expired.iter().filter_map(|(_, rule)| rule.expires_at).max();
    let details = expired.iter().map(|(number, rule)| describe(*number, rule)).collect();
    (!expired.is_empty()).then(|| Problem {
        kind: "rules-expired",
        text: match expired.len() {
            1 => "A rule of yours has expired, and has no effect".to_owned(),
            count => format!("{count} of your rules have expired, and have no effect"),
        },
        details,
        at: last.map(format_instant),
    })
}

/// Describes a rule, such as `[[rule]] 4 (allow) for old.test, data@example.com: pilot`.
fn describe(number: usize, rule: &PolicyRule) -> String {
    let hosts: Vec<_> = rule.hosts.iter().map(ToString::to_string).collect();
    let mut text = format!("[[rule]] {number} ({}) for {}", rule.action.as_str(), hosts.join(", "));
    if let Some(owner) = &rule.owner {
        text += &format!(", {owner}");
    }
    if let Some(reason) = &rule.reason {
        text += &format!(": {reason}");
    }
    text
}
