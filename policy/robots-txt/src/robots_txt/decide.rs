//! Decisions about a path as received, about all of its spellings, and about all paths of an origin.

use std::{iter, mem, slice};

use super::access_result::AccessResult;
use super::decision::{AccessDecision, AccessReason, AccessVerdict, CrawlerInDialect};
use super::file::RobotsTxt;
use super::groups::semantics::DialectSemantics;
use super::match_context::MatchContext;
use super::path_form::PathForm;
use super::rules::RuleSearch;
use crate::spelling::{self, TooManySpellings};
use crate::{Dialect, ProductToken, UrlPath, percent_encoding};

impl RobotsTxt {
    /// Returns whether a crawler may fetch a path by RFC 9309.
    ///
    /// # Examples
    ///
    /// ```
    /// use wayleave_robots_txt::{UrlPath, ProductToken, RobotsTxt};
    ///
    /// let robots = RobotsTxt::parse(b"User-agent: *\nDisallow: /private\n");
    /// let crawler = ProductToken::new("ExampleBot")?;
    /// assert!(robots.is_allowed(&crawler, &UrlPath::parse("/open")?));
    /// assert!(!robots.is_allowed(&crawler, &UrlPath::parse("/private/diary")?));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_allowed(&self, token: &ProductToken, path: &UrlPath<'_>) -> bool {
        let decision = self.decide(Dialect::Rfc9309, slice::from_ref(token), path);
        decision.verdict().is_allow()
    }

    /// Judges a path in a dialect; `tokens` are the crawler's names in order of preference, of which the first that has
    /// a group counts. [`decide`] takes into account whether the file could be fetched.
    ///
    /// # Examples
    ///
    /// ```
    /// use wayleave_robots_txt::{Dialect, UrlPath, ProductToken, RobotsTxt};
    ///
    /// let robots = RobotsTxt::parse(b"User-agent: *\nDisallow: /a\nAllow: /a/b\n");
    /// let (crawler, path) = ([ProductToken::new("ExampleBot")?], UrlPath::parse("/a/b")?);
    /// let decision = robots.decide(Dialect::Rfc9309, &crawler, &path);
    /// assert!(decision.verdict().is_allow());
    /// assert_eq!(decision.line(), Some(3));
    /// let decision = robots.decide(Dialect::Koster1996, &crawler, &path);
    /// assert_eq!(decision.rule().as_deref(), Some("Disallow: /a"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn decide<'a>(
        &'a self,
        dialect: Dialect,
        tokens: &'a [ProductToken],
        path: &UrlPath<'_>,
    ) -> AccessDecision<'a> {
        let (known, asked) = (RuleSource::File(self), RequestedPath::for_read(path));
        let mut search = RuleSearch::default();
        decide_in_dialect(dialect, tokens, |crawler| asked.decide(known, crawler, &mut search))
    }
}

/// Judges a path in a dialect, by the outcome of fetching robots.txt.
///
/// `tokens` are the crawler's names in order of preference: the first that has a group counts.
///
/// # Examples
///
/// ```
/// use wayleave_robots_txt::{AccessResult, Dialect, UrlPath, AccessVerdict, decide};
///
/// let access = AccessResult::Unreachable;
/// let decision = decide(&access, Dialect::Rfc9309, &[], &UrlPath::ROOT);
/// assert_eq!(decision.verdict(), AccessVerdict::Disallow);
/// ```
#[must_use]
pub fn decide<'a>(
    access: &'a AccessResult,
    dialect: Dialect,
    tokens: &'a [ProductToken],
    path: &UrlPath<'_>,
) -> AccessDecision<'a> {
    let (known, asked) = (RuleSource::Access(access), RequestedPath::for_read(path));
    let mut search = RuleSearch::default();
    decide_in_dialect(dialect, tokens, |crawler| asked.decide(known, crawler, &mut search))
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

fn search_whole_site<'a>(
    access: &'a AccessResult,
    dialect: Dialect,
    tokens: &'a [ProductToken],
    search: &mut RuleSearch,
) -> AccessDecision<'a> {
    decide_in_dialect(dialect, tokens, |crawler| match access.rules(crawler.dialect) {
        Some(robots) => {
            let answer = robots.find_disallow(crawler.dialect, tokens, search);
            crawler.decision_from(answer, robots)
        }
        None => access.decision_without_rules(crawler),
    })
}

/// Judges a path as a proxy has to, which cannot know how the origin's server reads it: allowed only if every spelling
/// that some server treats as the same path is allowed. The spellings are the path as received; in normal
/// percent-encoding; decoded; with `/` for `%2F`, `\` and `%5C`; without `;parameters`, empty segments, dot segments,
/// and a final slash that only these leave; and any combination of these (`docs/spellings.md`). A byte matches whether
/// rule and path escape it or not. `/robots.txt` is always allowed: this is for requests that read.
#[must_use]
pub fn decide_all_spellings<'a>(
    access: &'a AccessResult,
    dialect: Dialect,
    tokens: &'a [ProductToken],
    path: &UrlPath<'_>,
) -> AccessDecision<'a> {
    if path.as_str() == "/robots.txt" {
        let crawler = CrawlerInDialect { dialect, tokens };
        return crawler.decision_without_rule(AccessVerdict::Allow, AccessReason::RobotsTxtItself);
    }
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
/// let robots = RobotsTxt::parse(b"User-agent: *\nDisallow: /\n");
/// let access = AccessResult::Successful(robots);
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

/// Judges like [`decide_all_spellings`] or, unless the request `only_reads`, like [`decide_write_all_spellings`],
/// within the budget that is left of a request.
#[must_use]
pub fn decide_all_spellings_within<'a>(
    access: &'a AccessResult,
    dialect: Dialect,
    tokens: &'a [ProductToken],
    path: &UrlPath<'_>,
    only_reads: bool,
    work: &mut MatchContext,
) -> AccessDecision<'a> {
    let crawler = CrawlerInDialect { dialect, tokens };
    let asked = RequestedPath { path: path.as_str(), is_read: only_reads };
    if path.as_str() == "/robots.txt" && only_reads {
        return crawler.decision_without_rule(AccessVerdict::Allow, AccessReason::RobotsTxtItself);
    }
    // Earlier matching for this request spent the whole budget.
    if work.is_spent() {
        return crawler.too_costly();
    }
    let mut search = RuleSearch::with_budget(mem::take(&mut work.budget));
    let others = |path: &str| work.other_spellings(path);
    let decision = asked.decide_all_spellings_in(access, crawler, &mut search, others);
    work.budget = search.budget;
    decision
}

/// Judges like [`decide`], within the budget that is left of a request.
#[must_use]
pub fn decide_as_received_within<'a>(
    access: &'a AccessResult,
    dialect: Dialect,
    tokens: &'a [ProductToken],
    path: &UrlPath<'_>,
    work: &mut MatchContext,
) -> AccessDecision<'a> {
    let (known, asked) = (RuleSource::Access(access), RequestedPath::for_read(path));
    with_search(work, |search| {
        decide_in_dialect(dialect, tokens, |crawler| asked.decide(known, crawler, search))
    })
}

/// Judges like [`decide_whole_site`], within the budget that is left of a request.
#[must_use]
pub fn decide_whole_site_within<'a>(
    access: &'a AccessResult,
    dialect: Dialect,
    tokens: &'a [ProductToken],
    work: &mut MatchContext,
) -> AccessDecision<'a> {
    with_search(work, |search| search_whole_site(access, dialect, tokens, search))
}

/// Runs a search on the budget of a request.
fn with_search<'a>(
    work: &mut MatchContext,
    decide: impl FnOnce(&mut RuleSearch) -> AccessDecision<'a>,
) -> AccessDecision<'a> {
    let mut search = RuleSearch::with_budget(mem::take(&mut work.budget));
    let decision = decide(&mut search);
    work.budget = search.budget;
    decision
}

/// The source of an origin's rules: the file, or the outcome of fetching it.
#[derive(Clone, Copy)]
enum RuleSource<'a> {
    File(&'a RobotsTxt),
    Access(&'a AccessResult),
}

/// A path, and whether the request only reads.
#[derive(Clone, Copy)]
struct RequestedPath<'p> {
    path: &'p str,
    is_read: bool,
}

impl<'p> RequestedPath<'p> {
    fn for_read(path: &'p UrlPath<'_>) -> Self {
        let (path, is_read) = (path.as_str(), true);
        Self { path, is_read }
    }

    fn for_any_method(path: &'p UrlPath<'_>) -> Self {
        let (path, is_read) = (path.as_str(), false);
        Self { path, is_read }
    }

    /// Returns whether this is a read of `/robots.txt`, which is always allowed, except that Google's parser has no
    /// exception for its own file.
    fn is_always_allowed(self, dialect: Dialect) -> bool {
        self.path == "/robots.txt" && self.is_read && dialect != Dialect::Google
    }

    /// Judges the path as spelt in one of the four dialects.
    #[inline(always)]
    fn decide<'a>(
        self,
        known: RuleSource<'a>,
        crawler: CrawlerInDialect<'a>,
        search: &mut RuleSearch,
    ) -> AccessDecision<'a> {
        if self.is_always_allowed(crawler.dialect) {
            return crawler
                .decision_without_rule(AccessVerdict::Allow, AccessReason::RobotsTxtItself);
        }
        let robots = match known {
            RuleSource::File(robots) => robots,
            RuleSource::Access(access) => match access.rules(crawler.dialect) {
                Some(robots) => robots,
                None => return access.decision_without_rules(crawler),
            },
        };
        let semantics = DialectSemantics::for_dialect(crawler.dialect);
        let form = PathForm::new(self.path, semantics);
        let answer = robots.find_rule(semantics, crawler.tokens, &form, search);
        crawler.decision_from(answer, robots)
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

    #[inline(always)]
    fn decide_all_spellings_in<'a, T: AsRef<[String]>>(
        self,
        access: &'a AccessResult,
        crawler: CrawlerInDialect<'a>,
        search: &mut RuleSearch,
        others: impl FnOnce(&'p str) -> Result<T, TooManySpellings>,
    ) -> AccessDecision<'a> {
        let CrawlerInDialect { dialect, tokens } = crawler;
        let known = RuleSource::Access(access);
        let received =
            decide_in_dialect(dialect, tokens, |crawler| self.decide(known, crawler, search));
        // No other spelling can change a disallow.
        if !received.verdict().is_allow() {
            return received;
        }
        // Some spelling would go unjudged, so the path is refused.
        let Ok(others) = others(self.path) else {
            return crawler.too_costly();
        };
        let others = others.as_ref();
        // Without other spellings the path is judged again only if servers decode it or rules are spelt differently in
        // another form: for nearly all requests neither applies.
        let is_spelt_otherwise =
            !others.is_empty() || percent_encoding::is_decoded_by_servers(self.path.as_bytes());
        for &dialect in dialect.each() {
            let crawler = CrawlerInDialect { dialect, tokens };
            let robots = access.rules(dialect);
            let robots = robots.filter(|it| is_spelt_otherwise || it.has_respelt_rules());
            let disallow =
                robots.and_then(|it| self.find_disallowed_spelling(it, crawler, others, search));
            if let Some(disallow) = disallow {
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
            let paths = iter::once(self.path).chain(others.iter().map(String::as_str));
            for path in paths {
                search.budget.spend_on_form(path.len());
                let form = PathForm::new(path, semantics);
                // A form that equals one judged before gets the same verdict.
                if judged.iter().any(|judged| judged.is_same_as(&form)) {
                    continue;
                }
                // The caller has judged the path as received.
                let is_received = judged.is_empty() && semantics.is_own_form();
                let asked = RequestedPath { path, ..self };
                if !is_received && !asked.is_always_allowed(crawler.dialect) {
                    let answer = robots.find_rule(semantics, crawler.tokens, &form, search);
                    let decision = crawler.decision_from(answer, robots);
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
    let first = decisions.next().expect("four dialects");
    if !first.verdict().is_allow() {
        return first;
    }
    decisions.find(|decision| !decision.verdict().is_allow()).unwrap_or(first)
}
