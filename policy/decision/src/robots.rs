//! Robots.txt: its verdict on a request in every equivalent spelling of the path, and the pace it asks for.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use wayleave_lifecycle::{
    CacheEntry, FetchErrorKind, FetchIdentity, FinishedFetch, ParsedEntry, RefreshScheduler,
    Resource, Snapshot, SnapshotState,
};
use wayleave_robots_txt::{
    AccessDecision, AccessReason, AccessResult, AccessVerdict, Dialect, MatchContext, ProductToken,
    Target, UrlPath, decide, decide_all_spellings, decide_all_spellings_within, decide_whole_site,
    decide_whole_site_within, decide_write_all_spellings, decide_write_all_spellings_within,
    excerpt,
};
use wayleave_usage_preferences::PreferenceDocument;

use crate::crawler::EnforcementMode;
use crate::identity::Identity;
use crate::reason::Reason;
use crate::refusal::{DecidingRule, Refusal, RefusalBasis};
use crate::target::{ResolvedTarget, TargetScope};

/// A snapshot of a document, with the moment at which it was found good enough to use.
#[derive(Clone, Debug)]
pub struct CheckedSnapshot {
    /// The document as it was fetched.
    pub snapshot: Arc<Snapshot>,
    /// The moment.
    pub checked_at: SystemTime,
    /// Whether it is a robots.txt that the configuration states, which no origin served.
    pub is_pinned: bool,
}

impl CheckedSnapshot {
    /// Creates the snapshot after a first fetch of a document.
    #[must_use]
    pub fn from_fetch(resource: &Resource, finished: FinishedFetch) -> Self {
        let now = finished.fetched_at;
        let mut scheduler = RefreshScheduler::default();
        let before = (&CacheEntry::default(), None);
        let parsed =
            ParsedEntry::after_fetch(resource.kind(), before, finished, scheduler.lifetimes());
        // A scheduler of its own, since nothing refreshes this copy.
        Self {
            snapshot: scheduler.restore(resource, &parsed).into(),
            checked_at: now,
            is_pinned: false,
        }
    }

    /// Returns the rules of a robots.txt at that moment, or why there are none.
    #[must_use]
    pub fn access(&self) -> &AccessResult {
        self.snapshot.access(self.checked_at)
    }

    /// Returns the document's content at that moment, if there was one.
    #[must_use]
    pub fn document(&self) -> Option<&PreferenceDocument> {
        let document = self.snapshot.document(self.checked_at);
        document.map(|document| &**document)
    }
}

/// A robots.txt at a moment.
#[derive(Clone, Debug)]
pub enum RobotsCopy {
    /// From a cache, or just fetched.
    Cached(CheckedSnapshot),
    /// From an export, which holds the file but no other knowledge of the origin.
    Archived {
        /// The result of fetching it.
        access: Arc<AccessResult>,
        /// The kind of error of the last fetch, as far as the decision shows it.
        error_kind: Option<FetchErrorKind>,
        /// The moment of the decision.
        at: SystemTime,
    },
}

impl RobotsCopy {
    /// Returns the rules at that moment, or why there are none.
    #[must_use]
    pub fn access(&self) -> &AccessResult {
        match self {
            Self::Cached(cached) => cached.access(),
            Self::Archived { access, .. } => access,
        }
    }

    /// Returns the moment at which the copy is judged.
    #[must_use]
    pub fn at(&self) -> SystemTime {
        match self {
            Self::Cached(cached) => cached.checked_at,
            Self::Archived { at, .. } => *at,
        }
    }

    fn snapshot(&self) -> Option<&Snapshot> {
        match self {
            Self::Cached(cached) => Some(&cached.snapshot),
            Self::Archived { .. } => None,
        }
    }

    fn is_pinned(&self) -> bool {
        matches!(self, Self::Cached(CheckedSnapshot { is_pinned: true, .. }))
    }

    fn error_kind(&self) -> Option<FetchErrorKind> {
        match self {
            Self::Cached(cached) => cached.snapshot.error_kind(),
            Self::Archived { error_kind, .. } => *error_kind,
        }
    }
}

/// The finding of an origin's robots.txt about one request, and the copy that it rests on.
#[derive(Clone, Debug)]
pub struct AccessFinding {
    /// Whether robots.txt allows the request.
    pub verdict: AccessVerdict,
    /// The basis of the verdict.
    pub basis: AccessReason,
    /// The dialect that gave it.
    pub dialect: Dialect,
    /// The deciding rule's line, from 1.
    pub line: Option<u32>,
    /// The deciding rule.
    pub rule: Option<String>,
    /// The result of fetching robots.txt, as [`AccessResult::as_str`] writes it.
    pub access: &'static str,
    /// The status code of the answer, where that decided.
    pub status: Option<u16>,
    /// Whether the file is longer than the part that is read.
    pub is_cut: bool,
    /// The SHA-256 of the copy that decided, if it had rules.
    pub sha256: Option<[u8; 32]>,
    /// Whether the copy that decided is a text of the configuration.
    pub is_pinned: bool,
    /// The time at which the copy that decided was fetched or last confirmed; if it is pinned, at which it was read.
    pub fetched_at: Option<SystemTime>,
    /// The identity that the file was fetched as, if it was fetched.
    pub fetched_as: Option<Arc<FetchIdentity>>,
}

/// The outcome of asking robots.txt.
pub(crate) struct RobotsOutcome {
    pub(crate) finding: AccessFinding,
    /// The reason to forward the request, or the refusal.
    pub(crate) result: Result<Reason, Refusal>,
    /// The time that robots.txt wants between requests, for a request that may be forwarded.
    pub(crate) delay: Option<Duration>,
}

impl From<AccessReason> for Reason {
    fn from(basis: AccessReason) -> Self {
        match basis {
            AccessReason::Rule => Self::Rule,
            AccessReason::NoMatchingRule => Self::NoMatchingRule,
            AccessReason::NoMatchingGroup => Self::NoMatchingGroup,
            AccessReason::RobotsTxtItself => Self::RobotsTxtItself,
            AccessReason::Unavailable => Self::Unavailable,
            AccessReason::RedirectLost => Self::RedirectLost,
            AccessReason::TooCostly => Self::TooCostly,
            // The enum may grow: a variant that is not known here must not allow anything.
            AccessReason::Unreachable | _ => Self::Unreachable,
        }
    }
}

/// Asks robots.txt about a request. `context` is the work left for the request.
pub(crate) fn ask_robots_txt(
    copy: &RobotsCopy,
    identity: &Identity,
    resolved: &ResolvedTarget,
    context: &mut MatchContext,
) -> RobotsOutcome {
    let access = copy.access();
    let dialect = identity.dialect();
    let tokens = identity.tokens();
    let scope = resolved.scope;
    let path = resolved.target.path();
    let decision = decide_within(scope, access, dialect, tokens, path, context);
    let finding = finding(copy, &decision);
    let result = match decision.verdict() {
        AccessVerdict::Allow => Ok(decision.reason().into()),
        AccessVerdict::Disallow => {
            let rule = finding.line.zip(finding.rule.clone());
            let rule =
                rule.map(|(line, text)| DecidingRule { line, text, group: decision.group_name() });
            Err(refusal(resolved, copy, (&finding, rule), identity.mode()))
        }
    };
    // Finding a delay is a walk through the rules, and a request that is refused waits for no slot.
    let may_be_forwarded = result.is_ok() || identity.mode() == EnforcementMode::Observe;
    RobotsOutcome {
        delay: may_be_forwarded.then(|| crawl_delay(access, identity)).flatten(),
        finding,
        result,
    }
}

/// Judges a target in one dialect, in every equivalent spelling.
#[must_use]
pub fn decide_in_dialect<'a>(
    scope: TargetScope,
    access: &'a AccessResult,
    dialect: Dialect,
    tokens: &'a [ProductToken],
    path: &UrlPath<'_>,
) -> AccessDecision<'a> {
    match scope {
        TargetScope::RobotsTxt => decide_all_spellings(access, dialect, tokens, path),
        TargetScope::Path | TargetScope::Server => {
            decide_write_all_spellings(access, dialect, tokens, path)
        }
        TargetScope::EveryPath | TargetScope::Bypass => decide_whole_site(access, dialect, tokens),
    }
}

/// Judges a target as [`decide_in_dialect`] does, within the work left for the request.
fn decide_within<'a>(
    scope: TargetScope,
    access: &'a AccessResult,
    dialect: Dialect,
    tokens: &'a [ProductToken],
    path: &UrlPath<'_>,
    context: &mut MatchContext,
) -> AccessDecision<'a> {
    match scope {
        TargetScope::RobotsTxt => {
            decide_all_spellings_within(access, dialect, tokens, path, context)
        }
        TargetScope::Path | TargetScope::Server => {
            decide_write_all_spellings_within(access, dialect, tokens, path, context)
        }
        TargetScope::EveryPath | TargetScope::Bypass => {
            decide_whole_site_within(access, dialect, tokens, context)
        }
    }
}

fn finding(copy: &RobotsCopy, decision: &AccessDecision<'_>) -> AccessFinding {
    let access = copy.access();
    let snapshot = copy.snapshot();
    // A copy that is too old did not decide, unless one of its rules still did.
    let deciding = snapshot.filter(|snapshot| {
        snapshot.state(copy.at()) != SnapshotState::Unreachable
            || access.rules(decision.dialect()).is_some()
    });
    AccessFinding {
        verdict: decision.verdict(),
        basis: decision.reason(),
        dialect: decision.dialect(),
        line: decision.line(),
        rule: decision.rule(),
        access: access.as_str(),
        status: match access {
            AccessResult::Unavailable { status } => Some(*status),
            _ => snapshot.and_then(Snapshot::error_status),
        },
        is_cut: deciding.is_some_and(Snapshot::is_cut),
        sha256: deciding.and_then(Snapshot::digest).copied(),
        fetched_at: deciding.and_then(Snapshot::fetched_at),
        is_pinned: copy.is_pinned(),
        fetched_as: snapshot.filter(|_| !copy.is_pinned()).and_then(Snapshot::fetched_as).cloned(),
    }
}

/// Returns the names of the group that a crawler falls into, one a line; empty if no group applies.
#[must_use]
pub fn group_names(access: &AccessResult, identity: &Identity) -> String {
    // The group does not depend on the path.
    let decision = decide(access, identity.dialect(), identity.tokens(), &UrlPath::ROOT);
    decision.group().join("\n")
}

/// Returns the longest delay that `Crawl-delay` or `Request-rate` asks of the crawler. A rate is kept evenly, at all hours.
#[must_use]
pub fn crawl_delay(access: &AccessResult, identity: &Identity) -> Option<Duration> {
    stated_delay(access, identity.dialect(), identity.tokens()).map(|(delay, _)| delay)
}

/// Returns that delay of a crawler with these tokens, and the number of the line that states it.
#[must_use]
pub fn stated_delay(
    access: &AccessResult,
    dialect: Dialect,
    tokens: &[ProductToken],
) -> Option<(Duration, u32)> {
    let in_dialect = |&dialect: &Dialect| access.rules(dialect)?.longest_delay(dialect, tokens);
    // Each dialect may choose another group, with another delay.
    dialect.each().iter().filter_map(in_dialect).max_by_key(|(delay, _)| *delay)
}

fn refusal(
    resolved: &ResolvedTarget,
    copy: &RobotsCopy,
    (finding, rule): (&AccessFinding, Option<DecidingRule>),
    mode: EnforcementMode,
) -> Refusal {
    let target = &resolved.target;
    if finding.basis == AccessReason::Unreachable {
        return unreachable_refusal(target, copy, mode);
    }
    let robots_url = target.origin().robots_txt_uri();
    // Nobody should look for the line in the file that the origin serves.
    let pinned = if finding.is_pinned { "the pinned " } else { "" };
    let mut details = match &rule {
        Some(DecidingRule { line, text, .. }) => {
            format!("{text} (line {line} of {pinned}{robots_url})")
        }
        None if finding.basis == AccessReason::TooCostly => {
            format!("finding the rule for this URL in {pinned}{robots_url} takes too long")
        }
        None => format!("{pinned}{robots_url}: {}", finding.basis),
    };
    if resolved.is_blind() {
        details
            .push_str(": an uninspected tunnel is allowed only where robots.txt allows every path");
    }
    Refusal {
        robots_url: Some(robots_url.into()),
        basis: rule.map(|rule| Box::new(RefusalBasis::Rule(rule))),
        ..Refusal::by_policy(finding.basis.into(), details)
    }
}

/// Returns the refusal of a request to an origin from which nothing came. Its reason distinguishes an origin that may not be
/// connected to, and one whose name does not resolve.
pub(crate) fn unreachable_refusal(
    target: &Target,
    copy: &RobotsCopy,
    mode: EnforcementMode,
) -> Refusal {
    let snapshot = copy.snapshot();
    let kind = copy.error_kind();
    let cause = match kind {
        Some(FetchErrorKind::Prohibited) => {
            let details = format!(
                "{} is at an internal address: see upstream.allow_private",
                target.origin()
            );
            return Refusal::new(Reason::DestinationIpProhibited, details);
        }
        Some(FetchErrorKind::NoSuchName) => {
            let details = format!("no such host: {}", target.origin().host());
            return Refusal { is_failure: true, ..Refusal::new(Reason::DnsError, details) };
        }
        _ => snapshot.and_then(Snapshot::cause),
    };
    // The cause may quote the origin, at any length.
    let details = excerpt(cause.unwrap_or("not fetched yet"));
    let retry_after = snapshot
        .and_then(|snapshot| snapshot.retry_after(copy.at()))
        .unwrap_or(Duration::from_secs(1));
    let refusal = no_usable_robots_txt(target, &details, retry_after);
    let reason = match kind {
        Some(FetchErrorKind::Dns | FetchErrorKind::DnsUnavailable) => Reason::DnsError,
        Some(FetchErrorKind::DnsTimeout) => Reason::DnsTimeout,
        Some(FetchErrorKind::Local) => Reason::ProxyInternalError,
        _ => return refusal,
    };
    // After a redirect, the name that failed is not the origin's own. In mode "observe" the request is sent, and resolves the
    // origin's name again.
    let failed_after_redirect = reason != Reason::ProxyInternalError
        && snapshot.is_some_and(Snapshot::failed_after_redirect);
    if failed_after_redirect || mode == EnforcementMode::Observe {
        return refusal;
    }
    Refusal { reason, is_policy: false, is_failure: true, ..refusal }
}

/// Returns the refusal of a request for which there is no usable robots.txt: it is unreachable, or has not arrived in time.
pub(crate) fn no_usable_robots_txt(
    target: &Target,
    details: &str,
    retry_after: Duration,
) -> Refusal {
    let robots_url = target.origin().robots_txt_uri();
    let details = format!("{robots_url}: {details}");
    Refusal {
        retry_after: Some(retry_after),
        robots_url: Some(robots_url.into()),
        ..Refusal::by_policy(Reason::Unreachable, details)
    }
}

#[cfg(test)]
mod tests {
    use wayleave_lifecycle::{FetchEnding, FetchedBody, FetchedResponse, ResponseFields};
    use wayleave_robots_txt::RobotsTxt;

    use wayleave_lifecycle::FetchOutcome;

    use super::*;
    use crate::crawlers::{Crawlers, CrawlersConfig};

    const START: SystemTime = SystemTime::UNIX_EPOCH;
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn example_bot(dialect: Dialect) -> Identity {
        Identity::Asserted {
            claim: Crawlers::new(CrawlersConfig::default()).claim(b"ExampleBot/1.0"),
            dialect,
            mode: EnforcementMode::default(),
        }
    }

    #[test]
    fn every_basis_has_a_reason() {
        for (basis, reason) in [
            (AccessReason::Rule, Reason::Rule),
            (AccessReason::NoMatchingRule, Reason::NoMatchingRule),
            (AccessReason::NoMatchingGroup, Reason::NoMatchingGroup),
            (AccessReason::RobotsTxtItself, Reason::RobotsTxtItself),
            (AccessReason::Unavailable, Reason::Unavailable),
            (AccessReason::RedirectLost, Reason::RedirectLost),
            (AccessReason::Unreachable, Reason::Unreachable),
            (AccessReason::TooCostly, Reason::TooCostly),
        ] {
            assert_eq!(Reason::from(basis), reason);
            assert_eq!(basis.as_str(), reason.as_str());
        }
    }

    #[test]
    fn the_strictest_delay_is_the_longest_of_all_dialects() {
        // Only Google's parser reads `Useragent` as a user-agent line.
        let text = "User-agent: *\nCrawl-delay: 1\n\nUseragent: ExampleBot\nCrawl-delay: 30\n";
        let access = AccessResult::Successful(RobotsTxt::parse(text.as_bytes()));
        for (dialect, seconds) in
            [(Dialect::Rfc9309, 1), (Dialect::Google, 30), (Dialect::Strictest, 30)]
        {
            let found = crawl_delay(&access, &example_bot(dialect));
            assert_eq!(found, Some(Duration::from_secs(seconds)), "{dialect:?}");
            let stated = stated_delay(&access, dialect, example_bot(dialect).tokens());
            let line = if seconds == 30 { 5 } else { 2 };
            assert_eq!(stated.map(|(_, line)| line), Some(line), "{dialect:?}");
        }
    }

    #[test]
    fn a_copy_that_is_too_old_is_not_named() {
        let resource = Resource::parse("https://shop.example").expect("a resource");
        let text = b"User-agent: *\nDisallow: /private\n";
        let response = FetchedResponse {
            status: 200,
            fields: ResponseFields::default(),
            body: FetchedBody {
                bytes: text[..].into(),
                is_cut: false,
                digest: Some([7; 32].into()),
            },
        };
        let answered = FetchOutcome {
            redirects: Vec::new(),
            uri: resource.uri(),
            ending: FetchEnding::Response(response),
        };
        let failed = || FetchOutcome::failed(resource.uri(), FetchErrorKind::Timeout, "");
        let entry = CacheEntry::default().after_fetch(FinishedFetch::of_proxy(answered, START));
        let resolved = ResolvedTarget {
            target: Target::parse("https://shop.example/private").expect("a target"),
            scope: TargetScope::Path,
        };
        for (days, is_named) in [(1, true), (29, true), (40, false)] {
            let at = START + days * DAY;
            let parsed = entry.after_fetch(FinishedFetch::of_proxy(failed(), at)).into();
            let copy = RobotsCopy::Cached(CheckedSnapshot {
                snapshot: RefreshScheduler::default().restore(&resource, &parsed).into(),
                checked_at: at,
                is_pinned: false,
            });
            let identity = example_bot(Dialect::default());
            let finding =
                ask_robots_txt(&copy, &identity, &resolved, &mut MatchContext::default()).finding;
            let named = (finding.fetched_at.is_some(), finding.sha256.is_some());
            assert_eq!(named, (is_named, is_named), "after {days} days");
        }
    }

    #[test]
    fn a_request_rate_is_a_delay() {
        let text = b"User-agent: *\nRequest-rate: 2/1m\nCrawl-delay: 10\n";
        let access = AccessResult::Successful(RobotsTxt::parse(text));
        let bot = example_bot(Dialect::Rfc9309);
        let delay = stated_delay(&access, bot.dialect(), bot.tokens());
        assert_eq!(delay, Some((Duration::from_secs(30), 2)));
    }

    #[test]
    fn only_reading_robots_txt_is_always_allowed() {
        let access =
            AccessResult::Successful(RobotsTxt::parse(b"User-agent: *\nDisallow: /robots.txt\n"));
        let target = Target::parse("https://shop.example/robots.txt").expect("a target");
        for (scope, verdict) in [
            (TargetScope::RobotsTxt, AccessVerdict::Allow),
            (TargetScope::Path, AccessVerdict::Disallow),
            (TargetScope::EveryPath, AccessVerdict::Disallow),
        ] {
            let dialect = Dialect::Rfc9309;
            let path = target.path();
            let plain = decide_in_dialect(scope, &access, dialect, &[], path);
            let mut context = MatchContext::default();
            let within = decide_within(scope, &access, dialect, &[], path, &mut context);
            assert_eq!([plain.verdict(), within.verdict()], [verdict; 2], "{scope:?}");
        }
    }
}
