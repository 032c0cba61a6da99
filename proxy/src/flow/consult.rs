//! May it? Target and crawler to a decision, waiting if the origin's robots.txt is not known yet.

use std::time::{Duration, SystemTime};

use wayleave_policy::{AccessResult, Decision, Reason, Target, Verdict, decide_strictly};

use super::exchange::{Identity, Refusal, Ruling};
use crate::proxy_status::ErrorType;
use crate::robots::{Robots, Snapshot};

/// Why the request may be sent, or the refusal.
pub(super) async fn consult(
    robots: &Robots,
    identity: &Identity,
    target: &Target,
) -> Result<&'static str, Refusal> {
    let origin = target.origin();
    let snapshot = match robots.find(origin).await {
        Ok(snapshot) => snapshot,
        Err(pending) => return Err(unreachable(target, pending.to_string(), pending.retry_after())),
    };
    let now = robots.now();
    let access = snapshot.access(identity.dialect(), now);
    let decision = decide_strictly(&access, identity.dialect(), identity.tokens(), target.path());
    match decision.verdict() {
        Verdict::Allow => Ok(decision.reason().as_str()),
        Verdict::Disallow => Err(refusal(target, &snapshot, &access, &decision, now)),
    }
}

fn refusal(
    target: &Target,
    snapshot: &Snapshot,
    access: &AccessResult,
    decision: &Decision<'_>,
    now: SystemTime,
) -> Refusal {
    if decision.reason() == Reason::Unreachable {
        return unreached(target, snapshot, access, now);
    }
    let explanation = decision.explain();
    let details = match (&explanation.rule, explanation.line) {
        (Some(rule), Some(line)) => format!("{rule} (line {line} of {})", target.origin().robots_txt_uri()),
        _ => format!("{}: {}", target.origin().robots_txt_uri(), explanation.reason),
    };
    let ruling = Ruling { robots_url: target.origin().robots_txt_uri(), explanation };
    Refusal {
        ruling: Some(Box::new(ruling)),
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
fn unreached(
    target: &Target,
    snapshot: &Snapshot,
    access: &AccessResult,
    now: SystemTime,
) -> Refusal {
    debug_assert!(!matches!(access, AccessResult::Successful(_)), "rules decide for themselves");
    let details = snapshot.unreachable_because();
    if snapshot.is_prohibited() {
        let error = ErrorType::DestinationIpProhibited;
        return Refusal::new(502, error.phrase(), error, error.as_str(), details);
    }
    unreachable(target, details, snapshot.retry_after(now))
}

fn unreachable(target: &Target, details: String, retry_after: Duration) -> Refusal {
    let robots_url = target.origin().robots_txt_uri();
    Refusal {
        retry_after: Some(retry_after),
        ..Refusal::new(
            503,
            "Robots.txt unreachable",
            ErrorType::DestinationUnavailable,
            Reason::Unreachable.as_str(),
            format!("{robots_url}: {details}"),
        )
    }
}
