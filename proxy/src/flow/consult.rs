//! May it? Target and crawler to a decision, waiting if the origin's robots.txt is not known yet.

use std::time::{Duration, SystemTime};

use wayleave_policy::lifecycle::{FetchErrorKind, Snapshot};
use wayleave_policy::{Decision, Reason, Target, Verdict, decide_strictly};

use super::exchange::{Identity, Refusal};
use crate::proxy_status::ErrorType;
use crate::robots::Robots;

/// Why the request may be sent, or the refusal.
pub(super) async fn consult(
    robots: &Robots,
    identity: &Identity,
    target: &Target,
) -> Result<&'static str, Refusal> {
    let snapshot = match robots.find(target.origin()).await {
        Ok(snapshot) => snapshot,
        Err(pending) => {
            return Err(unreachable(
                target,
                &pending.to_string(),
                pending.retry_after,
            ));
        }
    };
    let now = robots.clock().now();
    let access = snapshot.access(now);
    let decision = decide_strictly(access, identity.dialect(), identity.tokens(), target.path());
    match decision.verdict() {
        Verdict::Allow => Ok(decision.reason().as_str()),
        Verdict::Disallow => Err(refusal(target, &snapshot, &decision, now)),
    }
}

fn refusal(
    target: &Target,
    snapshot: &Snapshot,
    decision: &Decision<'_>,
    now: SystemTime,
) -> Refusal {
    if decision.reason() == Reason::Unreachable {
        return unreached(target, snapshot, now);
    }
    let explanation = decision.explain();
    let details = match (&explanation.rule, explanation.line) {
        (Some(rule), Some(line)) => format!(
            "{rule} (line {line} of {})",
            target.origin().robots_txt_uri()
        ),
        _ => format!(
            "{}: {}",
            target.origin().robots_txt_uri(),
            explanation.reason
        ),
    };
    Refusal {
        robots_url: Some(target.origin().robots_txt_uri()),
        explanation: Some(Box::new(explanation)),
        ..Refusal::new(
            403,
            "Disallowed by robots.txt",
            ErrorType::HttpRequestDenied,
            decision.reason().as_str(),
            details,
        )
    }
}

/// Nothing came from the origin. If that is because it may not be dialled, the client hears so.
fn unreached(target: &Target, snapshot: &Snapshot, now: SystemTime) -> Refusal {
    let details = match snapshot.error_kind() {
        Some(FetchErrorKind::Prohibited) => {
            let error = ErrorType::DestinationIpProhibited;
            let details = format!("{} is at an internal address", target.origin());
            return Refusal::new(502, error.phrase(), error, error.as_str(), details);
        }
        Some(kind) => format!("the last attempt failed: {kind}"),
        None => "the origin answered with an error".to_owned(),
    };
    let retry_after = snapshot.retry_after(now).unwrap_or(Duration::from_secs(1));
    unreachable(target, &details, retry_after)
}

fn unreachable(target: &Target, details: &str, retry_after: Duration) -> Refusal {
    let robots_url = target.origin().robots_txt_uri();
    let details = format!("{robots_url}: {details}");
    Refusal {
        retry_after: Some(retry_after),
        robots_url: Some(robots_url),
        ..Refusal::new(
            503,
            "Robots.txt unreachable",
            ErrorType::DestinationUnavailable,
            Reason::Unreachable.as_str(),
            details,
        )
    }
}
