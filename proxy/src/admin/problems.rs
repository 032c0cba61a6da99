//! `/v1/problems`: problems that an operator should know of on every page.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use wayleave_decision::{ASSERTED, PolicyRule, Reason, RequestOutcome};
use wayleave_decision_log::DecisionQuery;
use wayleave_fleet::FleetState;
use wayleave_forwarding::downstream::{MAX_TIMES, UntrustingClient};

use super::access::TeamScope;
use super::health::fleet_fault;
use super::response::SafeJson;
use super::robots_view::format_instant;
use super::state::AdminState;
use crate::publication::mixed_names;

/// The most files that are named.
const MAX_DETAILS: usize = 100;
/// The time for which a client that does not trust the CA is mentioned.
const MENTION_CLIENTS: Duration = Duration::from_mins(5);
/// The time before the CA expires from which that is a problem.
const CA_EXPIRES_SOON: Duration = Duration::from_hours(30 * 24);
/// The failed lookups from which DNS seems to fail, if nothing else succeeds.
const FAILED_LOOKUPS: u64 = 3;
/// The requests without a name that are a problem; fewer are somebody who looks at a page.
const NAMELESS_REQUESTS: usize = 20;
/// The time for which lost decisions are mentioned.
const MENTION_LOSSES: Duration = Duration::from_hours(24);

#[derive(Debug, Serialize, ToSchema)]
struct ListedProblems {
    /// The most urgent first; empty: all is well.
    problems: Vec<Problem>,
    /// The parts that were looked at and are well, in words, such as `CA until 2036-11-26`. Parts that are not in use, or had
    /// nothing to do for five minutes, are left out.
    well: Vec<String>,
}

/// A problem of the proxy as a whole.
#[derive(Debug, Serialize, ToSchema)]
struct Problem {
    /// A word for programs: `reload-rejected`, `decisions-lost`, `decisions-unsigned`,
    /// `log-foreign-files`, `holds-altered`, `state-unwritable`, `state-set-aside`, `ca-expires`, `dns-fails`,
    /// `fleet`, `ca-untrusted`, `clients-without-name`, `rules-expired` or `purposes-mixed`.
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
        expiring_ca(&admin, now),
        failing_dns(&admin, now),
        fleet_trouble(&admin),
        untrusting_clients(&admin, &scope, now),
        nameless_clients(&admin, &scope, now),
        expired_rules(&admin, &scope, now),
        purposes_judged_apart(&admin, &scope),
    ];
    let problems = problems.into_iter().flatten().collect();
    SafeJson(ListedProblems { problems, well: well_parts(&admin, now) }).into_response()
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

fn expiring_ca(admin: &AdminState, now: SystemTime) -> Option<Problem> {
    let expires_at = admin.authority.expires_at();
    let left = expires_at.duration_since(now).unwrap_or_default();
    (left < CA_EXPIRES_SOON).then(|| Problem {
        kind: "ca-expires",
        text: format!("The CA expires in {} days", left.as_secs() / 86_400),
        details: Vec::new(),
        at: Some(format_instant(expires_at)),
    })
}

/// Returns how many requests of the last minutes got through, and how many failed because their hosts were not found.
fn recent_lookups(admin: &AdminState, now: SystemTime) -> (u64, u64) {
    let since = now.checked_sub(MENTION_CLIENTS).unwrap_or(SystemTime::UNIX_EPOCH);
    let since_ms = since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    let mut passed = 0;
    let mut failed = 0;
    for point in admin.traffic.points() {
        if u128::from(point.at_ms) < since_ms {
            continue;
        }
        for count in &point.counts {
            match (RequestOutcome::named(&count.outcome), Reason::named(&count.reason)) {
                (Some(RequestOutcome::Failed), Some(Reason::DnsError)) => failed += count.requests,
                (Some(RequestOutcome::Failed | RequestOutcome::Refused) | None, _) => {}
                _ => passed += count.requests,
            }
        }
    }
    (passed, failed)
}

/// Some hosts are never found; that none is found is a problem.
fn failing_dns(admin: &AdminState, now: SystemTime) -> Option<Problem> {
    let (passed, failed) = recent_lookups(admin, now);
    (passed == 0 && failed >= FAILED_LOOKUPS).then(|| Problem {
        kind: "dns-fails",
        text: format!("DNS seems to fail: no host was found for {failed} requests in 5 minutes"),
        details: Vec::new(),
        at: None,
    })
}

fn fleet_trouble(admin: &AdminState) -> Option<Problem> {
    let fault = fleet_fault(admin.decider.robots.fleet().status().state)?;
    let mut text = fault.to_owned();
    text[..1].make_ascii_uppercase();
    Some(Problem { kind: "fleet", text, details: Vec::new(), at: None })
}

/// Returns the clients that do not trust the CA: they get nothing over HTTPS, and no decision tells of them.
fn untrusting_clients(admin: &AdminState, scope: &TeamScope, now: SystemTime) -> Option<Problem> {
    let mut clients = admin.untrusting.within(MENTION_CLIENTS, now);
    if scope.team().is_some() || clients.is_empty() {
        return None;
    }
    let since = now.checked_sub(MENTION_CLIENTS)?;
    if clients.iter().any(|client| !client.has_alerted) {
        // Browsers, too, close connections without a request. But they send requests over others.
        let recent = admin.decisions.list_recent(&DecisionQuery::default(), usize::MAX);
        let uses_https = |client: &UntrustingClient| {
            let mut of_client = recent.iter().filter(|decision| decision.client == client.client);
            of_client.any(|decision| decision.url.starts_with("https:"))
        };
        clients.retain(|client| client.has_alerted || !uses_https(client));
    }
    let last_at = clients.first()?.at();
    let describe = |client: &UntrustingClient| {
        let times = match client.times_since(since) {
            1 => "once".to_owned(),
            // No more are remembered.
            MAX_TIMES.. => format!("at least {MAX_TIMES} times"),
            times => format!("{times} times"),
        };
        let silence = if client.has_alerted {
            ""
        } else {
            "; it closed TLS connections without a request, as Node.js does then"
        };
        format!("{}, {times} in 5 minutes, last for {}{silence}", client.client, client.origin)
    };
    let details: Vec<_> = clients.iter().map(describe).collect();
    let text = match &details[..] {
        [one] => format!("1 client does not trust the CA: {one}"),
        several => format!("{} clients do not trust the CA", several.len()),
    };
    Some(Problem { kind: "ca-untrusted", text, details, at: Some(format_instant(last_at)) })
}

/// Browsers and libraries that somebody crawls with have no group of their own in any robots.txt.
fn nameless_clients(admin: &AdminState, scope: &TeamScope, now: SystemTime) -> Option<Problem> {
    if scope.team().is_some() {
        return None;
    }
    let since = now.checked_sub(MENTION_CLIENTS)?;
    let unnamed =
        DecisionQuery { crawler: Some(ASSERTED.to_owned().into()), ..DecisionQuery::default() };
    let recent = admin.decisions.list_recent(&unnamed, usize::MAX);
    let nameless: Vec<_> = recent
        .iter()
        .filter(|decision| {
            let token = decision.tokens.first();
            decision.at >= since && token.is_none_or(|token| token.eq_ignore_ascii_case("Mozilla"))
        })
        .collect();
    let clients: BTreeSet<_> = nameless.iter().map(|request| request.client.to_string()).collect();
    (nameless.len() >= NAMELESS_REQUESTS).then(|| Problem {
        kind: "clients-without-name",
        text: format!(
            "{} requests in 5 minutes come from clients whose User-Agent has no product token of a crawler (none, or a \
             browser's), which obey the group * only: let them send one",
            nameless.len()
        ),
        details: clients.into_iter().take(MAX_DETAILS).collect(),
        at: None,
    })
}

/// Returns the parts that were looked at and are well.
fn well_parts(admin: &AdminState, now: SystemTime) -> Vec<String> {
    let mut well = Vec::new();
    let is_unsigned = admin.decisions.warnings().head_fault.is_some();
    if admin.decisions.journal().is_some() && !admin.decisions.is_failing() && !is_unsigned {
        well.push("decision log written".to_owned());
    }
    if expiring_ca(admin, now).is_none() {
        let expires_at = format_instant(admin.authority.expires_at());
        well.push(format!("CA until {}", &expires_at[..10]));
    }
    if admin.decider.robots.store().fault().is_none() {
        well.push("store".to_owned());
    }
    if admin.decider.robots.fleet().status().state == FleetState::Up {
        well.push("fleet and clock".to_owned());
    }
    if recent_lookups(admin, now).0 > 0 {
        well.push("DNS".to_owned());
    }
    well
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

/// Returns the problem of names with purposes that networks judge apart. A team does not choose the agents.
fn purposes_judged_apart(admin: &AdminState, scope: &TeamScope) -> Option<Problem> {
    let names = mixed_names(&admin.config.published());
    (scope.team().is_none() && !names.is_empty()).then(|| Problem {
        kind: "purposes-mixed",
        text: "Networks judge a name by the strictest of its purposes: `wayleave config check` prints the lines that split it"
            .to_owned(),
        details: names.into_iter().map(|name| name.text).collect(),
        at: None,
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
