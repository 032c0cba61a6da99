//! Decisions about a path as received, about all of its spellings, and about all paths of an origin. This drives the search;
//! `groups` and `rules` find the group and the rule that decides.

use std::{iter, mem};

use super::access_result::AccessResult;
use super::decision::{AccessDecision, AccessReason, AccessVerdict, CrawlerInDialect};
use super::file::RobotsTxt;
use super::groups::semantics::DialectSemantics;
use super::match_context::MatchContext;
use super::path_form::PathForm;
use super::rules::RuleSearch;
use crate::spelling::{self, TooManySpellings};
use crate::{Dialect, ProductToken, UrlPath, percent_encoding};

/// Judges a path in a dialect, by the outcome of fetching robots.txt.
///
/// `tokens` are the crawler's names in order of preference: the first that has a group applies.
#[must_use]
pub fn decide<'a>(
    access: &'a AccessResult,
    dialect: Dialect,
    tokens: &'a [ProductToken],
    path: &UrlPath<'_>,
) -> AccessDecision<'a> {
    let requested = RequestedPath::for_read(path);
    let mut search = RuleSearch::default();
    decide_in_dialect(dialect, tokens, |crawler| requested.decide(access, crawler, &mut search))
}

/// Judges like [`decide`], within the budget that is left of a request.
#[must_use]
pub fn decide_as_received_within<'a>(
    access: &'a AccessResult,
    dialect: Dialect,
    tokens: &'a [ProductToken],
    path: &UrlPath<'_>,
    context: &mut MatchContext,
) -> AccessDecision<'a> {
    let requested = RequestedPath::for_read(path);
    with_search(context, |search| {
        decide_in_dialect(dialect, tokens, |crawler| requested.decide(access, crawler, search))
    })
}

/// Judges every spelling of a path, as [`CrawlerRules::all_spellings`](crate::CrawlerRules::all_spellings) describes.
/// `/robots.txt` is always allowed: this is for requests that read.
#[must_use]
pub fn decide_all_spellings<'a>(
    access: &'a AccessResult,
    dialect: Dialect,
    tokens: &'a [ProductToken],
    path: &UrlPath<'_>,
) -> AccessDecision<'a> {
    let crawler = CrawlerInDialect { dialect, tokens };
    RequestedPath::for_read(path).decide_all_spellings(access, crawler)
}

/// Judges like [`decide_all_spellings`] for requests that do more than read, such as `POST`: for them `/robots.txt` is
/// a path like any other.
///
/// # Examples
///
/// ```
/// use wayleave_robots_txt::{
///     AccessResult, AccessVerdict, Dialect, RobotsTxt, UrlPath, decide_all_spellings, decide_write_all_spellings,
/// };
///
/// let access = AccessResult::from(RobotsTxt::parse(b"User-agent: *\nDisallow: /\n"));
/// let path = UrlPath::parse("/robots.txt")?;
/// let read = decide_all_spellings(&access, Dialect::Rfc9309, &[], &path);
/// assert_eq!(read.verdict(), AccessVerdict::Allow);
/// let post = decide_write_all_spellings(&access, Dialect::Rfc9309, &[], &path);
/// assert_eq!(post.verdict(), AccessVerdict::Disallow);
/// # Ok::<(), wayleave_robots_txt::InvalidPath>(())
/// ```
#[must_use]
pub fn decide_write_all_spellings<'a>(
    access: &'a AccessResult,
    dialect: Dialect,
    tokens: &'a [ProductToken],
    path: &UrlPath<'_>,
) -> AccessDecision<'a> {
    let crawler = CrawlerInDialect { dialect, tokens };
    RequestedPath::for_any_method(path).decide_all_spellings(access, crawler)
}

/// Judges like [`decide_all_spellings`], within the budget that is left of a request.
#[must_use]
pub fn decide_all_spellings_within<'a>(
    access: &'a AccessResult,
    dialect: Dialect,
    tokens: &'a [ProductToken],
    path: &UrlPath<'_>,
    context: &mut MatchContext,
) -> AccessDecision<'a> {
    let crawler = CrawlerInDialect { dialect, tokens };
    RequestedPath::for_read(path).decide_all_spellings_within(access, crawler, context)
}

/// Judges like [`decide_write_all_spellings`], within the budget that is left of a request.
#[must_use]
pub fn decide_write_all_spellings_within<'a>(
    access: &'a AccessResult,
    dialect: Dialect,
    tokens: &'a [ProductToken],
    path: &UrlPath<'_>,
    context: &mut MatchContext,
) -> AccessDecision<'a> {
    let crawler = CrawlerInDialect { dialect, tokens };
    RequestedPath::for_any_method(path).decide_all_spellings_within(access, crawler, context)
}

/// Judges all paths of an origin at once, for callers that cannot see the paths: disallowed if [`decide_all_spellings`]
/// could disallow any path, with the first rule that could. `/robots.txt` itself, which is always allowed, is left out.
///
/// Errs on the side of disallowing: a rule that never decides still counts where that is hard to prove.
#[must_use]
pub fn decide_whole_site<'a>(
    access: &'a AccessResult,
    dialect: Dialect,
    tokens: &'a [ProductToken],
) -> AccessDecision<'a> {
    search_whole_site(access, dialect, tokens, &mut RuleSearch::default())
}

/// Judges like [`decide_whole_site`], within the budget that is left of a request.
#[must_use]
pub fn decide_whole_site_within<'a>(
    access: &'a AccessResult,
    dialect: Dialect,
    tokens: &'a [ProductToken],
    context: &mut MatchContext,
) -> AccessDecision<'a> {
    with_search(context, |search| search_whole_site(access, dialect, tokens, search))
}

fn search_whole_site<'a>(
    access: &'a AccessResult,
    dialect: Dialect,
    tokens: &'a [ProductToken],
    search: &mut RuleSearch,
) -> AccessDecision<'a> {
    decide_in_dialect(dialect, tokens, |crawler| match access.rules(crawler.dialect) {
        Some(robots) => {
            let outcome = robots.find_disallow(crawler.dialect, tokens, search);
            crawler.decision_from(outcome, robots)
        }
        None => access.decision_without_rules(crawler),
    })
}

/// Runs a search on the budget of a request.
fn with_search<'a>(
    context: &mut MatchContext,
    decide: impl FnOnce(&mut RuleSearch) -> AccessDecision<'a>,
) -> AccessDecision<'a> {
    let mut search = RuleSearch::with_budget(mem::take(&mut context.budget));
    let decision = decide(&mut search);
    context.budget = search.budget;
    decision
}

/// A path, and whether the request only reads.
#[derive(Clone, Copy)]
struct RequestedPath<'p> {
    path: &'p str,
    is_read: bool,
}

impl<'p> RequestedPath<'p> {
    fn for_read(path: &'p UrlPath<'_>) -> Self {
        Self { path: path.as_str(), is_read: true }
    }

    fn for_any_method(path: &'p UrlPath<'_>) -> Self {
        Self { path: path.as_str(), is_read: false }
    }

    fn reads_robots_txt(self) -> bool {
        self.is_read && self.path == "/robots.txt"
    }

    /// Returns whether a dialect allows the path whatever the rules are (RFC 9309 §2.2.2).
    fn is_always_allowed(self, dialect: Dialect) -> bool {
        // Google's parser has no exception for its own file.
        dialect != Dialect::Google && self.reads_robots_txt()
    }

    /// Judges the path as spelt in one of the four dialects.
    #[inline(always)]
    fn decide<'a>(
        self,
        access: &'a AccessResult,
        crawler: CrawlerInDialect<'a>,
        search: &mut RuleSearch,
    ) -> AccessDecision<'a> {
        if self.is_always_allowed(crawler.dialect) {
            return crawler
                .decision_without_rule(AccessVerdict::Allow, AccessReason::RobotsTxtItself);
        }
        let Some(robots) = access.rules(crawler.dialect) else {
            return access.decision_without_rules(crawler);
        };
        let semantics = DialectSemantics::for_dialect(crawler.dialect);
        let form = PathForm::new(self.path, semantics);
        let outcome = robots.find_rule(semantics, crawler.tokens, &form, search);
        crawler.decision_from(outcome, robots)
    }

    /// Judges every spelling in a dialect, or in all four.
    #[inline]
    fn decide_all_spellings<'a>(
        self,
        access: &'a AccessResult,
        crawler: CrawlerInDialect<'a>,
    ) -> AccessDecision<'a> {
        self.decide_all_spellings_in(
            access,
            crawler,
            &mut RuleSearch::default(),
            spelling::other_spellings,
        )
    }

    /// Judges every spelling within the budget of a request. The context computes the spellings once for all rules and
    /// preferences of the request.
    fn decide_all_spellings_within<'a>(
        self,
        access: &'a AccessResult,
        crawler: CrawlerInDialect<'a>,
        context: &mut MatchContext,
    ) -> AccessDecision<'a> {
        let mut search = RuleSearch::with_budget(mem::take(&mut context.budget));
        let others = |path: &str| context.other_spellings(path);
        let decision = self.decide_all_spellings_in(access, crawler, &mut search, others);
        context.budget = search.budget;
        decision
    }

    #[inline(always)]
    fn decide_all_spellings_in<'a, T: AsRef<[String]>>(
        self,
        access: &'a AccessResult,
        crawler: CrawlerInDialect<'a>,
        search: &mut RuleSearch,
        other_spellings: impl FnOnce(&'p str) -> Result<T, TooManySpellings>,
    ) -> AccessDecision<'a> {
        // Google's parser has no such exception, but a crawler that may not read the file cannot obey it.
        if self.reads_robots_txt() {
            return crawler
                .decision_without_rule(AccessVerdict::Allow, AccessReason::RobotsTxtItself);
        }
        // Earlier matching for this request spent the whole budget.
        if search.budget.is_spent() {
            return crawler.too_costly();
        }
        let CrawlerInDialect { dialect, tokens } = crawler;
        let received =
            decide_in_dialect(dialect, tokens, |crawler| self.decide(access, crawler, search));
        // No other spelling can change a disallow.
        if !received.verdict().is_allow() {
            return received;
        }
        // Some spelling would go unjudged, so the path is refused.
        let Ok(others) = other_spellings(self.path) else {
            return crawler.too_costly();
        };
        // Without other spellings the path is judged again only if servers decode it or rules are spelt differently in
        // another form: for nearly all requests neither applies.
        let is_spelt_otherwise = !others.as_ref().is_empty()
            || percent_encoding::is_decoded_by_servers(self.path.as_bytes());
        for &dialect in dialect.each() {
            let crawler = CrawlerInDialect { dialect, tokens };
            if let Some(robots) = access.rules(dialect)
                && (is_spelt_otherwise || robots.has_respelt_rules())
                && let Some(disallow) =
                    self.find_disallowed_spelling(robots, crawler, others.as_ref(), search)
            {
                return disallow;
            }
        }
        received
    }

    /// Returns the decision that disallows another spelling of an allowed path, or the same path where rules spell it
    /// differently.
    #[cold]
    fn find_disallowed_spelling<'a>(
        self,
        robots: &'a RobotsTxt,
        crawler: CrawlerInDialect<'a>,
        others: &[String],
        search: &mut RuleSearch,
    ) -> Option<AccessDecision<'a>> {
        let own = DialectSemantics::for_dialect(crawler.dialect);
        let mut judged: Vec<PathForm<'_>> = Vec::new();
        for semantics in iter::once(own).chain(DialectSemantics::other_forms(crawler.dialect)) {
            // Such rules match differently in each form, so equal paths have to be judged again.
            if robots.has_respelt_rules() {
                judged.clear();
            }
            for path in iter::once(self.path).chain(others.iter().map(String::as_str)) {
                search.budget.spend_on_form(path.len());
                let form = PathForm::new(path, semantics);
                // A form that equals one judged before gets the same verdict.
                if judged.iter().any(|judged| judged.is_same_as(&form)) {
                    continue;
                }
                // The caller has judged the path as received.
                let is_received = judged.is_empty() && semantics.is_own_form();
                let spelling = RequestedPath { path, ..self };
                if !is_received && !spelling.is_always_allowed(crawler.dialect) {
                    let outcome = robots.find_rule(semantics, crawler.tokens, &form, search);
                    let decision = crawler.decision_from(outcome, robots);
                    if !decision.verdict().is_allow() {
                        return Some(decision);
                    }
                }
                judged.push(form);
            }
        }
        None
    }
}

/// Returns the decision in a dialect; for `strictest`, the first of the four that disallows.
#[inline]
fn decide_in_dialect<'a>(
    dialect: Dialect,
    tokens: &'a [ProductToken],
    mut decide: impl FnMut(CrawlerInDialect<'a>) -> AccessDecision<'a>,
) -> AccessDecision<'a> {
    if dialect == Dialect::Strictest {
        return decide_in_all_dialects(tokens, decide);
    }
    decide(CrawlerInDialect { dialect, tokens })
}

/// Kept out of the function for one dialect, which is optimised for speed.
#[cold]
fn decide_in_all_dialects<'a>(
    tokens: &'a [ProductToken],
    decide: impl FnMut(CrawlerInDialect<'a>) -> AccessDecision<'a>,
) -> AccessDecision<'a> {
    let crawlers = Dialect::SINGLE.map(|dialect| CrawlerInDialect { dialect, tokens });
    let mut decisions = crawlers.into_iter().map(decide);
    // If none disallows, RFC 9309 is the dialect that the decision names.
    let standard = decisions.next().expect("four dialects");
    if !standard.verdict().is_allow() {
        return standard;
    }
    decisions.find(|decision| !decision.verdict().is_allow()).unwrap_or(standard)
}
