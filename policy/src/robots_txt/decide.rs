//! Deciding: what a dialect, or all of them, make of a path, of all its spellings, or of all paths.

use std::slice;

use super::access_result::AccessResult;
use super::decision::{Crawler, Decision, Reason, Verdict};
use super::file::RobotsTxt;
use super::path_form::PathForm;
use super::rules::Search;
use crate::{Dialect, Path, ProductToken, spelling};

impl RobotsTxt {
    /// Whether a crawler may fetch a path, as RFC 9309 has it.
    ///
    /// # Examples
    ///
    /// ```
    /// use wayleave_policy::{Path, ProductToken, RobotsTxt};
    ///
    /// let robots = RobotsTxt::parse(b"User-agent: *\nDisallow: /private\n");
    /// let crawler = ProductToken::new("ExampleBot")?;
    /// assert!(robots.is_allowed(&crawler, &Path::parse("/open")?));
    /// assert!(!robots.is_allowed(&crawler, &Path::parse("/private/diary")?));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_allowed(&self, token: &ProductToken, path: &Path<'_>) -> bool {
        let decision = self.decide(Dialect::Rfc9309, slice::from_ref(token), path);
        decision.verdict().is_allow()
    }

    /// Judges a path as a dialect says; `tokens` are the crawler's names in order of preference: the first that has a group
    /// counts. Where the file was fetched, or could not be, [`decide`] says what that means.
    ///
    /// # Examples
    ///
    /// ```
    /// use wayleave_policy::{Dialect, Path, ProductToken, RobotsTxt};
    ///
    /// let robots = RobotsTxt::parse(b"User-agent: *\nDisallow: /a\nAllow: /a/b\n");
    /// let (crawler, path) = ([ProductToken::new("ExampleBot")?], Path::parse("/a/b")?);
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
        path: &Path<'_>,
    ) -> Decision<'a> {
        let mut search = Search::default();
        in_each(dialect, tokens, |crawler| {
            match is_always_allowed(path.as_str(), crawler.dialect) {
                true => crawler.decision(Verdict::Allow, Reason::RobotsTxtItself),
                false => by_rules(self, crawler, path.as_str(), &mut search),
            }
        })
    }
}

/// Judges a path as the dialect says, by what came of fetching robots.txt.
///
/// `tokens` are the crawler's names in order of preference: the first that has a group counts.
///
/// # Examples
///
/// ```
/// use wayleave_policy::{AccessResult, Dialect, Path, Verdict, decide};
///
/// let access = AccessResult::Unreachable;
/// let decision = decide(&access, Dialect::Rfc9309, &[], &Path::ROOT);
/// assert_eq!(decision.verdict(), Verdict::Disallow);
/// ```
#[must_use]
pub fn decide<'a>(
    access: &'a AccessResult,
    dialect: Dialect,
    tokens: &'a [ProductToken],
    path: &Path<'_>,
) -> Decision<'a> {
    let mut search = Search::default();
    in_each(dialect, tokens, |crawler| {
        match is_always_allowed(path.as_str(), crawler.dialect) {
            true => crawler.decision(Verdict::Allow, Reason::RobotsTxtItself),
            false => by_access(access, crawler, path.as_str(), &mut search),
        }
    })
}

/// Judges all paths of an origin at once, for who will not see them: disallowed if any path could be disallowed by
/// [`decide_strictly`], with the first rule by which one could. `/robots.txt` itself, which is always allowed, is left out.
///
/// Errs on the side of disallowing: rules of which it would take thought to show that they never decide count as if they
/// did.
#[must_use]
pub fn decide_every_path<'a>(
    access: &'a AccessResult,
    dialect: Dialect,
    tokens: &'a [ProductToken],
) -> Decision<'a> {
    let mut search = Search::default();
    in_each(dialect, tokens, |crawler| {
        match access.rules(crawler.dialect) {
            Some(robots) => {
                let answer = robots.find_disallow(crawler.dialect, tokens, &mut search);
                crawler.by_answer(answer, robots)
            }
            None => access.without_rules(crawler),
        }
    })
}

/// Judges a path as a proxy must, which cannot know how the origin's server reads it: disallowed if any spelling is that
/// some server takes for the same. These are the path as received; in normal percent-encoding; with `/` for `%2F`, `\` and
/// `%5C`; without `;parameters`, empty segments, dot segments; and any of these together (`docs/spellings.md`). So a path
/// is allowed only if all its spellings are. `/robots.txt` is always allowed: this is for requests that read.
#[must_use]
pub fn decide_strictly<'a>(
    access: &'a AccessResult,
    dialect: Dialect,
    tokens: &'a [ProductToken],
    path: &Path<'_>,
) -> Decision<'a> {
    if path.as_str() == "/robots.txt" {
        let crawler = Crawler { dialect, tokens };
        return crawler.decision(Verdict::Allow, Reason::RobotsTxtItself);
    }
    in_every_spelling(access, Crawler { dialect, tokens }, path, is_always_allowed)
}

/// As [`decide_strictly`], for requests that do more than read, such as `POST`: to them `/robots.txt` is a path like any other.
///
/// # Examples
///
/// ```
/// use wayleave_policy::{
///     AccessResult, Dialect, Path, RobotsTxt, Verdict, decide_any_path_strictly, decide_strictly,
/// };
///
/// let robots = RobotsTxt::parse(b"User-agent: *\nDisallow: /\n");
/// let access = AccessResult::Successful(robots);
/// let path = Path::parse("/robots.txt")?;
/// let read = decide_strictly(&access, Dialect::Rfc9309, &[], &path);
/// assert_eq!(read.verdict(), Verdict::Allow);
/// let post = decide_any_path_strictly(&access, Dialect::Rfc9309, &[], &path);
/// assert_eq!(post.verdict(), Verdict::Disallow);
/// # Ok::<(), wayleave_policy::InvalidPath>(())
/// ```
#[must_use]
pub fn decide_any_path_strictly<'a>(
    access: &'a AccessResult,
    dialect: Dialect,
    tokens: &'a [ProductToken],
    path: &Path<'_>,
) -> Decision<'a> {
    in_every_spelling(access, Crawler { dialect, tokens }, path, |_, _| false)
}

/// `is_free` tells of spellings that are allowed whatever the file says.
#[inline]
fn in_every_spelling<'a>(
    access: &'a AccessResult,
    Crawler { dialect, tokens }: Crawler<'a>,
    path: &Path<'_>,
    is_free: fn(&str, Dialect) -> bool,
) -> Decision<'a> {
    let (path, mut search) = (path.as_str(), Search::default());
    let received = in_each(dialect, tokens, |crawler| {
        match is_free(path, crawler.dialect) {
            true => crawler.decision(Verdict::Allow, Reason::RobotsTxtItself),
            false => by_access(access, crawler, path, &mut search),
        }
    });
    if !received.verdict().is_allow() {
        return received;
    }
    let others = spelling::others(path);
    if others.is_empty() {
        return received;
    }
    let with_rules = |dialect: &Dialect| Some((*dialect, access.rules(*dialect)?));
    let by_rules = each(&dialect).iter().filter_map(with_rules);
    let forms: Vec<_> = by_rules
        .map(|(dialect, robots)| (dialect, robots, PathForm::new(path, dialect)))
        .collect();
    for spelling in &others {
        for (dialect, robots, received) in &forms {
            let form = PathForm::new(spelling, *dialect);
            // What a dialect reads as the path received is allowed as that was.
            if form.is_like(received) || is_free(spelling, *dialect) {
                continue;
            }
            let answer = robots.find(*dialect, tokens, &form, &mut search);
            let crawler = Crawler {
                dialect: *dialect,
                tokens,
            };
            let decision = crawler.by_answer(answer, robots);
            if !decision.verdict().is_allow() {
                return decision;
            }
        }
    }
    received
}

/// The decision in a dialect; of `strictest`, the first of the four that disallows.
#[inline]
fn in_each<'a>(
    dialect: Dialect,
    tokens: &'a [ProductToken],
    mut decide: impl FnMut(Crawler<'a>) -> Decision<'a>,
) -> Decision<'a> {
    if dialect == Dialect::Strictest {
        return in_all(tokens, decide);
    }
    decide(Crawler { dialect, tokens })
}

/// Apart from the decision in one dialect, which is compiled for speed.
#[cold]
fn in_all<'a>(
    tokens: &'a [ProductToken],
    decide: impl FnMut(Crawler<'a>) -> Decision<'a>,
) -> Decision<'a> {
    let crawlers = Dialect::EACH.map(|dialect| Crawler { dialect, tokens });
    let mut decisions = crawlers.into_iter().map(decide);
    let first = decisions.next().expect("four dialects");
    if !first.verdict().is_allow() {
        return first;
    }
    decisions
        .find(|decision| !decision.verdict().is_allow())
        .unwrap_or(first)
}

/// The dialects that a dialect asks: itself, or of `strictest` all four.
fn each(dialect: &Dialect) -> &[Dialect] {
    match dialect {
        Dialect::Strictest => &Dialect::EACH,
        one => slice::from_ref(one),
    }
}

/// `/robots.txt`: Google's parser knows no exception for its own file; the texts of the others do.
fn is_always_allowed(path: &str, dialect: Dialect) -> bool {
    path == "/robots.txt" && dialect != Dialect::Google
}

#[inline(always)]
fn by_access<'a>(
    access: &'a AccessResult,
    crawler: Crawler<'a>,
    path: &str,
    search: &mut Search,
) -> Decision<'a> {
    match access.rules(crawler.dialect) {
        Some(robots) => by_rules(robots, crawler, path, search),
        None => access.without_rules(crawler),
    }
}

#[inline(always)]
fn by_rules<'a>(
    robots: &'a RobotsTxt,
    crawler: Crawler<'a>,
    path: &str,
    search: &mut Search,
) -> Decision<'a> {
    let form = PathForm::new(path, crawler.dialect);
    let answer = robots.find(crawler.dialect, crawler.tokens, &form, search);
    crawler.by_answer(answer, robots)
}
