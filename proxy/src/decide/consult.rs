//! Asks the origin's robots.txt for a decision and for its pace, and waits for it if it is not known yet.

use std::time::Duration;

use ring::digest::{Context, SHA256};
use wayleave_lifecycle::{FetchErrorKind, Snapshot, SnapshotState};
use wayleave_robots_txt::{
    AccessDecision, AccessReason, AccessResult, AccessVerdict, Dialect, MatchContext, ProductToken,
    Target, UrlPath, decide, decide_all_spellings, decide_all_spellings_within, decide_whole_site,
    decide_whole_site_within, decide_write_all_spellings, excerpt,
};

use super::documents::DocumentSource;
use super::identify::{IdentifiedClient, Identity};
use super::preference::PreferenceDecision;
use super::refusal::{DecidingRule, Refusal, RefusalBasis};
use super::settings::Settings;
use super::target::{ResolvedTarget, TargetScope};
use crate::decision_log::FindingRecord;
use crate::http::proxy_status::ProxyErrorType;
use crate::identity::EnforcementMode;
use crate::pacing;
use crate::robots_cache::{CachedDocument, FetchPending, Requester, RobotsCache};
use crate::telemetry::digest::Sha256Digest;

/// The longest names of a group by which its pace is kept as they are: as long as a digest.
const LONGEST_GROUP: usize = 64;

/// What the origin's robots.txt says of a request.
#[derive(Debug)]
pub(crate) struct Consulted {
    /// `None` if robots.txt did not come in time.
    pub(crate) finding: Option<FindingRecord>,
    /// Why the request may be sent, or the refusal.
    pub(crate) reason: Result<&'static str, Refusal>,
    /// The time that robots.txt wants between requests, for one that may go on.
    pub(crate) delay: Option<Duration>,
    /// The group of robots.txt that a request falls into which is nobody's that is known.
    pub(crate) group: String,
    /// What robots.txt says about the use of what is asked for, to a crawler with purposes.
    pub(crate) preferences: Option<PreferenceDecision>,
}

impl Consulted {
    /// The same, if the request may be sent with what is said about use, too.
    fn and(
        self,
        said: Option<Result<PreferenceDecision, FetchPending>>,
        resolved: &ResolvedTarget,
    ) -> Self {
        let (refusal, preferences) = match said {
            None => (None, None),
            Some(Ok(said)) => (said.refusal_before(resolved), Some(said)),
            Some(Err(pending)) => (Some(unheard(pending)), None),
        };
        Self {
            reason: refusal.map_or(self.reason, Err),
            preferences,
            ..self
        }
    }
}

/// Asks the robots.txt of the target's origin, on behalf of who asks.
pub(crate) async fn consult(
    robots: &RobotsCache,
    settings: &Settings,
    identified: &IdentifiedClient,
    method: &str,
    resolved: &ResolvedTarget,
) -> Consulted {
    let identity = &identified.identity;
    let target = &resolved.target;
    let origin = target.origin();
    let (crawler, client) = (identity.crawler(), identified.client);
    let signed_by = settings.signed_by(crawler);
    let behalf = Requester {
        via: identified.via.as_ref(),
        ..Requester::of(identity.label(), crawler, client, signed_by.as_ref())
    };
    match robots.find_for(origin, behalf).await {
        Ok(known) => {
            let reading = &settings.preferences.reading;
            // To a crawler with purposes more is matched than rules.
            let mut work = identified.declaring().map(|_| MatchContext::default());
            let said = |work| {
                let crawler = identified.declaring()?;
                PreferenceDecision::by_robots_txt(&known, reading, crawler, method, resolved, work)
            };
            let (consulted, said) = robots.with_recount(origin, &known, || {
                let consulted = go_by(
                    &known,
                    &settings.politeness,
                    identity,
                    resolved,
                    work.as_mut(),
                );
                let may_go_on = consulted.reason.is_ok();
                let said = work.filter(|_| may_go_on).and_then(said);
                (consulted, said)
            });
            let documents = DocumentSource {
                robots,
                settings,
                client,
                origin,
            };
            let said = match said {
                // Few crawlers have purposes: in a box it takes no room in every exchange.
                Some(said) => Some(Box::pin(said.with_documents(&documents)).await),
                None => None,
            };
            consulted.and(said, resolved)
        }
        Err(pending) => {
            let refusal = unreachable(target, &pending.to_string(), pending.retry_after);
            Consulted {
                finding: None,
                reason: Err(refusal),
                delay: None,
                group: String::new(),
                preferences: None,
            }
        }
    }
}

/// How policy judges: by what was fetched, in a dialect, for a crawler of these names, what asks for this path.
pub(crate) type Judge =
    for<'a> fn(&'a AccessResult, Dialect, &'a [ProductToken], &UrlPath<'_>) -> AccessDecision<'a>;

/// How policy judges what is for so much of an origin.
pub(crate) fn judge_of(scope: TargetScope) -> Judge {
    match scope {
        TargetScope::RobotsTxt => decide_all_spellings,
        TargetScope::Path | TargetScope::Server => decide_write_all_spellings,
        TargetScope::EveryPath | TargetScope::Bypass => {
            |access, dialect, tokens, _| decide_whole_site(access, dialect, tokens)
        }
    }
}

/// The same within what is left of the work of a request.
pub(crate) fn judge_within<'a>(
    scope: TargetScope,
    access: &'a AccessResult,
    dialect: Dialect,
    tokens: &'a [ProductToken],
    path: &UrlPath<'_>,
    work: &mut MatchContext,
) -> AccessDecision<'a> {
    match scope {
        TargetScope::RobotsTxt => {
            decide_all_spellings_within(access, dialect, tokens, path, true, work)
        }
        TargetScope::Path | TargetScope::Server => {
            decide_all_spellings_within(access, dialect, tokens, path, false, work)
        }
        TargetScope::EveryPath | TargetScope::Bypass => {
            decide_whole_site_within(access, dialect, tokens, work)
        }
    }
}

/// What is known says of a request; `work`: that which more than rules is matched for.
fn go_by(
    known: &CachedDocument,
    politeness: &pacing::PacingConfig,
    identity: &Identity,
    resolved: &ResolvedTarget,
    work: Option<&mut MatchContext>,
) -> Consulted {
    let target = &resolved.target;
    let access = known.access();
    let (dialect, tokens) = (identity.dialect(), identity.tokens());
    let (scope, path) = (resolved.scope, target.path());
    let decision = match work {
        Some(work) => judge_within(scope, access, dialect, tokens, path, work),
        None => judge_of(scope)(access, dialect, tokens, path),
    };
    // What is too old to go by did not decide, but where the last copy goes on to.
    let is_copy = known.snapshot.state(known.checked_at) != SnapshotState::Unreachable
        || access.rules(decision.dialect()).is_some();
    let copy = is_copy.then_some(&*known.snapshot);
    let (line, rule) = (decision.line(), decision.rule());
    let reason = match decision.verdict() {
        AccessVerdict::Allow => Ok(decision.reason().as_str()),
        AccessVerdict::Disallow => {
            let rule = line.zip(rule.clone());
            let rule = rule.map(|(line, text)| DecidingRule { line, text });
            Err(refusal(
                resolved,
                known,
                (decision.reason(), rule),
                identity.mode(),
            ))
        }
    };
    let finding = FindingRecord {
        verdict: decision.verdict().as_str().into(),
        basis: decision.reason().as_str().into(),
        dialect: decision.dialect().as_str().into(),
        line,
        rule,
        robots_access: Some(access.as_str().into()),
        robots_status: match access {
            AccessResult::Unavailable { status } => Some(*status),
            _ => known.snapshot.error_status(),
        },
        robots_cut: copy.is_some_and(Snapshot::is_cut),
        robots_sha256: copy.and_then(Snapshot::digest).copied().map(Sha256Digest),
        robots_fetched_at: copy.and_then(Snapshot::fetched_at),
    };
    // Where a file states one, finding it is a walk through the rules. What is refused waits for no turn.
    let may_go_on = reason.is_ok() || identity.mode() == EnforcementMode::Observe;
    let delay = may_go_on.then(|| delay(access, identity)).flatten();
    Consulted {
        finding: Some(finding),
        reason,
        delay,
        group: group(access, politeness, identity, delay),
        preferences: None,
    }
}

/// The names of the group that an unknown client falls into, if its pace matters: another name of its own choice gives it no other
/// pace. Empty if no group is for it. An origin can write as many as it likes: of many this is their digest.
pub(crate) fn group(
    access: &AccessResult,
    politeness: &pacing::PacingConfig,
    identity: &Identity,
    delay: Option<Duration>,
) -> String {
    if identity.crawler().is_some() || !politeness.needs_pace(delay) {
        return String::new();
    }
    let decision = decide(
        access,
        identity.dialect(),
        identity.tokens(),
        &UrlPath::ROOT,
    );
    let names = decision.group();
    let length: usize = names.iter().map(|name| name.len() + 1).sum();
    if length <= LONGEST_GROUP {
        return names.join("\n");
    }
    let mut digest = Context::new(&SHA256);
    for name in names {
        digest.update(name.to_ascii_lowercase().as_bytes());
        digest.update(b"\n");
    }
    Sha256Digest::from(digest.finish()).to_string()
}

/// The longest of what `Crawl-delay` and `Request-rate` ask of the crawler. A rate is kept evenly, at all hours.
pub(crate) fn delay(access: &AccessResult, identity: &Identity) -> Option<Duration> {
    let in_dialect = |dialect: Dialect| {
        let robots = access.rules(dialect)?;
        let tokens = identity.tokens();
        let rates = robots.request_rates(dialect, tokens).into_iter();
        let pauses = rates.map(|rate| {
            let never = rate.within.saturating_mul(u32::MAX);
            rate.within.checked_div(rate.requests).unwrap_or(never)
        });
        pauses.chain(robots.crawl_delay(dialect, tokens)).max()
    };
    match identity.dialect() {
        Dialect::Strictest => Dialect::ALL.into_iter().filter_map(in_dialect).max(),
        dialect => in_dialect(dialect),
    }
}

fn refusal(
    resolved: &ResolvedTarget,
    known: &CachedDocument,
    (reason, rule): (AccessReason, Option<DecidingRule>),
    mode: EnforcementMode,
) -> Refusal {
    let target = &resolved.target;
    if reason == AccessReason::Unreachable {
        return unreached(target, known, mode);
    }
    let robots_url = target.origin().robots_txt_uri();
    let mut details = match &rule {
        Some(DecidingRule { line, text }) => format!("{text} (line {line} of {robots_url})"),
        None if reason == AccessReason::TooCostly => {
            format!("finding the rule for this URL in {robots_url} takes too long")
        }
        None => format!("{robots_url}: {reason}"),
    };
    if resolved.is_blind() {
        details
            .push_str(": an uninspected tunnel is allowed only where robots.txt allows every path");
    }
    Refusal {
        is_policy: true,
        robots_url: Some(robots_url.into()),
        statement: rule.map(|rule| Box::new(RefusalBasis::Rule(rule))),
        ..Refusal::new(
            403,
            "Disallowed by robots.txt",
            ProxyErrorType::HttpRequestDenied,
            reason.as_str(),
            details,
        )
    }
}

/// Nothing came from the origin. If that is because it may not be dialled, or its name leads nowhere, the client hears so.
fn unreached(
    target: &Target,
    CachedDocument {
        snapshot,
        checked_at: at,
    }: &CachedDocument,
    mode: EnforcementMode,
) -> Refusal {
    let kind = snapshot.error_kind();
    let details = match kind {
        Some(FetchErrorKind::Prohibited) => {
            let error = ProxyErrorType::DestinationIpProhibited;
            let details = format!("{} is at an internal address", target.origin());
            return Refusal::new(502, error.reason_phrase(), error, error.as_str(), details);
        }
        Some(FetchErrorKind::NoSuchName) => {
            let error = ProxyErrorType::DnsError;
            let details = format!("no such host: {}", target.origin().host());
            return Refusal {
                is_failure: true,
                ..Refusal::new(502, error.reason_phrase(), error, error.as_str(), details)
            };
        }
        _ => snapshot.cause().unwrap_or("not fetched yet"),
    };
    // Where the origin's own words are in it, they are of any length.
    let details = &excerpt(details);
    let retry_after = snapshot.retry_after(*at).unwrap_or(Duration::from_secs(1));
    let refusal = unreachable(target, details, retry_after);
    let error = match kind {
        Some(FetchErrorKind::Dns) => ProxyErrorType::DnsError,
        Some(FetchErrorKind::DnsTimeout) => ProxyErrorType::DnsTimeout,
        _ => return refusal,
    };
    // Where a redirect leads nowhere, the origin is there. And who is only observed tries again to resolve the name.
    if snapshot.failed_after_redirect() || mode == EnforcementMode::Observe {
        return refusal;
    }
    Refusal {
        reason: error.as_str(),
        is_policy: false,
        is_failure: true,
        ..refusal
    }
}

/// What could refuse the use has not been read.
fn unheard(pending: FetchPending) -> Refusal {
    Refusal {
        is_policy: true,
        retry_after: Some(pending.retry_after),
        ..Refusal::new(
            503,
            "Usage preferences unreachable",
            ProxyErrorType::DestinationUnavailable,
            "preference",
            "a document that could refuse the use has not been fetched: ask again later",
        )
    }
}

fn unreachable(target: &Target, details: &str, retry_after: Duration) -> Refusal {
    let robots_url = target.origin().robots_txt_uri();
    let details = format!("{robots_url}: {details}");
    Refusal {
        is_policy: true,
        retry_after: Some(retry_after),
        robots_url: Some(robots_url.into()),
        ..Refusal::new(
            503,
            "Robots.txt unreachable",
            ProxyErrorType::DestinationUnavailable,
            AccessReason::Unreachable.as_str(),
            details,
        )
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::time::SystemTime;

    use wayleave_lifecycle::{
        CacheEntry, FetchEnding, FetchOutcome, FetchedBody, FetchedResponse, RefreshScheduler,
        Resource, ResponseFields,
    };
    use wayleave_robots_txt::RobotsTxt;

    use super::*;
    use crate::identity::{Crawlers, CrawlersConfig};

    const START: SystemTime = SystemTime::UNIX_EPOCH;
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    /// Who calls itself `ExampleBot`.
    fn example_bot(dialect: Dialect) -> Identity {
        Identity::Asserted {
            claim: Crawlers::new(CrawlersConfig::default()).claim(b"ExampleBot/1.0"),
            dialect,
            mode: EnforcementMode::default(),
        }
    }

    /// Its pace.
    fn pace(robots_txt: &str) -> String {
        let access = AccessResult::Successful(RobotsTxt::parse(robots_txt.as_bytes()));
        let identity = example_bot(Dialect::default());
        let delay = Some(Duration::from_secs(1));
        group(&access, &pacing::PacingConfig::default(), &identity, delay)
    }

    #[test]
    fn the_strictest_delay_is_the_longest_of_all_dialects() {
        // That is no user-agent line but to Google's parser.
        let text = "User-agent: *\nCrawl-delay: 1\n\nUseragent: ExampleBot\nCrawl-delay: 30\n";
        let access = AccessResult::Successful(RobotsTxt::parse(text.as_bytes()));
        for (dialect, seconds) in [
            (Dialect::Rfc9309, 1),
            (Dialect::Google, 30),
            (Dialect::Strictest, 30),
        ] {
            let found = delay(&access, &example_bot(dialect));
            assert_eq!(found, Some(Duration::from_secs(seconds)), "{dialect:?}");
        }
    }

    #[test]
    fn a_copy_that_is_too_old_to_go_by_is_not_told_of() {
        let resource = Resource::parse("https://shop.example").expect("a resource");
        let text = b"User-agent: *\nDisallow: /private\n";
        let response = FetchedResponse {
            status: 200,
            fields: ResponseFields::default(),
            body: FetchedBody {
                bytes: text[..].into(),
                is_cut: false,
                digest: Some(Sha256Digest::of(text).0.into()),
            },
        };
        let answered = FetchOutcome {
            redirects: Vec::new(),
            uri: resource.uri(),
            ending: FetchEnding::Response(response),
        };
        let failed = || FetchOutcome::failed(resource.uri(), FetchErrorKind::Timeout, "");
        let entry = CacheEntry::default().after_fetch(answered, START);
        let resolved = ResolvedTarget {
            target: Target::parse("https://shop.example/private").expect("a target"),
            scope: TargetScope::Path,
        };
        for (days, is_told) in [(1, true), (29, true), (40, false)] {
            let at = START + days * DAY;
            let learned = entry.after_fetch(failed(), at).into();
            let known = CachedDocument {
                snapshot: RefreshScheduler::default()
                    .restore(&resource, &learned)
                    .into(),
                checked_at: at,
            };
            let identity = example_bot(Dialect::default());
            let consulted = go_by(
                &known,
                &pacing::PacingConfig::default(),
                &identity,
                &resolved,
                None,
            );
            let finding = consulted.finding.expect("it was consulted");
            let told = (
                finding.robots_fetched_at.is_some(),
                finding.robots_sha256.is_some(),
            );
            assert_eq!(told, (is_told, is_told), "after {days} days");
        }
    }

    #[test]
    fn a_group_of_many_names_is_known_by_a_digest_of_them() {
        assert_eq!(pace("User-agent: ExampleBot\n"), "ExampleBot");
        let many = |last: &str| {
            let mut text = String::new();
            for number in 0..10_000 {
                writeln!(text, "User-agent: bot-{number}").unwrap();
            }
            format!("{text}User-agent: examplebot\nUser-agent: {last}\nCrawl-delay: 1\n")
        };
        assert_eq!(pace(&many("a")).len(), LONGEST_GROUP);
        assert_eq!(pace(&many("a")), pace(&many("A")));
        assert_ne!(pace(&many("a")), pace(&many("b")));
    }
}
