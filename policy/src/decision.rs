//! Decisions: access result, crawler and path in; allow or disallow, and why, out.

use std::fmt;
use std::slice;

use crate::robots_txt::{Found, Match, Path, Reader, RobotsTxt, Search};
use crate::spelling;
use crate::{Dialect, ProductToken};

/// What came of the last attempt to read an origin's robots.txt (RFC 9309 §2.3.1).
#[derive(Clone, Debug)]
pub enum AccessResult {
    /// It was read; its rules decide.
    Successful(RobotsTxt),
    /// The origin says that there is none: a status from 400 to 499 but 429. All is allowed, but
    /// `koster1996` takes 401 and 403 as a restriction of the whole site.
    Unavailable {
        /// The HTTP status.
        status: u16,
    },
    /// More redirects than are followed. Allowed as if unavailable (RFC 9309 §2.3.1.2), but
    /// disallowed in `koster1996`, which follows redirects "until a resource can be found".
    RedirectLost,
    /// No answer that counts: a server error, 429, or no answer. All is disallowed.
    Unreachable,
    /// Unreachable for so long (30 days unless configured) that RFC 9309 §2.3.1.4 treats it as
    /// unavailable; `koster1996` goes on to disallow.
    LongUnreachable,
    /// Unreachable, and the last copy is too old to stand for the origin. All is disallowed, but in
    /// `google`, where the last copy goes on to decide.
    Lapsed(RobotsTxt),
    /// Lapsed for so long that RFC 9309 §2.3.1.4 lets crawlers "continue to use a cached copy": it
    /// decides, but `koster1996` goes on to disallow.
    LongLapsed(RobotsTxt),
}

impl AccessResult {
    /// The rules that decide in `dialect`; `None` if all paths are judged alike. For `strictest`,
    /// ask about each of the four.
    #[must_use]
    pub fn rules(&self, dialect: Dialect) -> Option<&RobotsTxt> {
        match self {
            Self::Successful(robots) => Some(robots),
            Self::Lapsed(robots) if dialect == Dialect::Google => Some(robots),
            Self::LongLapsed(robots) if dialect != Dialect::Koster1996 => Some(robots),
            _ => None,
        }
    }
}

/// Whether a path may be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It may.
    Allow,
    /// It may not.
    Disallow,
}

impl Verdict {
    /// `allow` or `disallow`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Disallow => "disallow",
        }
    }

    fn from_allow(allow: bool) -> Self {
        if allow { Self::Allow } else { Self::Disallow }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a verdict rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// A rule of the crawler's group.
    Rule,
    /// The crawler has a group, but no rule in it matches.
    NoMatchingRule,
    /// No group is for the crawler, not even `*`.
    NoMatchingGroup,
    /// The path is `/robots.txt`, which is always allowed (RFC 9309 §2.2.2).
    RobotsTxtItself,
    /// There is no robots.txt.
    Unavailable,
    /// Its redirects led nowhere.
    RedirectLost,
    /// It could not be reached.
    Unreachable,
    /// The file and the path are made so that to find the rule that decides takes too long.
    TooCostly,
}

impl Reason {
    /// The reason in kebab case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rule => "rule",
            Self::NoMatchingRule => "no-matching-rule",
            Self::NoMatchingGroup => "no-matching-group",
            Self::RobotsTxtItself => "robots-txt-itself",
            Self::Unavailable => "unavailable",
            Self::RedirectLost => "redirect-lost",
            Self::Unreachable => "unreachable",
            Self::TooCostly => "too-costly",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A verdict and what it rests on. Cheap; borrows the file to name the rule when asked.
#[derive(Clone, Copy)]
pub struct Decision<'a> {
    verdict: Verdict,
    reason: Reason,
    dialect: Dialect,
    /// Where the deciding rule is.
    rule: Option<Match>,
    robots: Option<&'a RobotsTxt>,
    tokens: &'a [ProductToken],
}

impl Decision<'_> {
    /// Whether the path may be fetched.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// What the verdict rests on.
    #[must_use]
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// The dialect that gave the verdict; never `strictest`, but the one of the four it is from.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The number of the deciding rule's line, from 1.
    #[must_use]
    pub fn line(&self) -> Option<u32> {
        Some(self.robots?.line(self.rule?.offset()))
    }

    /// The deciding rule, such as `Disallow: /private`.
    #[must_use]
    pub fn rule(&self) -> Option<String> {
        self.robots?.rule_text(self.rule?.offset())
    }

    /// The values of the user-agent lines of the group used, merged groups included.
    #[must_use]
    pub fn group(&self) -> Vec<String> {
        let names = |robots: &RobotsTxt| robots.group_names(self.dialect, self.tokens);
        self.robots.map(names).unwrap_or_default()
    }

    /// The numbers of the user-agent lines and rules of the group used, merged groups included, in
    /// the file's order. A group's lines count from the one that named the crawler.
    #[must_use]
    pub fn group_lines(&self) -> Vec<u32> {
        let lines = |robots: &RobotsTxt| robots.group_lines(self.dialect, self.tokens);
        self.robots.map(lines).unwrap_or_default()
    }

    /// All of the above as owned values, to keep or to send.
    #[must_use]
    pub fn explain(&self) -> Explanation {
        Explanation {
            verdict: self.verdict,
            reason: self.reason,
            dialect: self.dialect,
            line: self.line(),
            rule: self.rule(),
            group: self.group(),
        }
    }
}

impl fmt::Debug for Decision<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.explain().fmt(f)
    }
}

/// A [`Decision`] that borrows nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Whether the path may be fetched.
    pub verdict: Verdict,
    /// What the verdict rests on.
    pub reason: Reason,
    /// The dialect that gave the verdict.
    pub dialect: Dialect,
    /// The number of the deciding rule's line, from 1.
    pub line: Option<u32>,
    /// The deciding rule, such as `Disallow: /private`.
    pub rule: Option<String>,
    /// The values of the user-agent lines of the group used.
    pub group: Vec<String>,
}

/// Judges a path, query included, as the dialect says.
///
/// `tokens` are the crawler's names in order of preference: the first that has a group counts.
/// The path must start with `/`.
#[must_use]
pub fn decide<'a>(
    access: &'a AccessResult,
    dialect: Dialect,
    tokens: &'a [ProductToken],
    path: &str,
) -> Decision<'a> {
    let mut search = Search::default();
    if dialect == Dialect::Strictest {
        return decide_within(access, dialect, tokens, path, &mut search);
    }
    decide_in_one(access, dialect, tokens, path, &mut search)
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
    in_each(dialect, |dialect| match access.rules(dialect) {
        Some(robots) => {
            let found = robots.find_disallow(Reader::new(dialect), tokens, &mut search);
            by_what_was_found(found, robots, dialect, tokens)
        }
        None => decide_in_one(access, dialect, tokens, "/", &mut search),
    })
}

#[inline]
fn decide_within<'a>(
    access: &'a AccessResult,
    dialect: Dialect,
    tokens: &'a [ProductToken],
    path: &str,
    search: &mut Search,
) -> Decision<'a> {
    in_each(dialect, |dialect| {
        decide_in_one(access, dialect, tokens, path, search)
    })
}

/// The decision in a dialect; of `strictest`, the first of the four that disallows.
#[inline]
fn in_each<'a>(dialect: Dialect, mut decide: impl FnMut(Dialect) -> Decision<'a>) -> Decision<'a> {
    if dialect == Dialect::Strictest {
        return in_all(decide);
    }
    decide(dialect)
}

#[cold]
fn in_all<'a>(mut decide: impl FnMut(Dialect) -> Decision<'a>) -> Decision<'a> {
    let first = decide(Dialect::Rfc9309);
    if first.verdict == Verdict::Disallow {
        return first;
    }
    each(&Dialect::Strictest)[1..]
        .iter()
        .map(|dialect| decide(*dialect))
        .find(|decision| decision.verdict == Verdict::Disallow)
        .unwrap_or(first)
}

/// The dialects that a dialect asks: itself, or of `strictest` all four.
fn each(dialect: &Dialect) -> &[Dialect] {
    match dialect {
        Dialect::Strictest => &Dialect::EACH,
        one => slice::from_ref(one),
    }
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
    path: &str,
) -> Decision<'a> {
    if path == "/robots.txt" {
        return without_rule(Verdict::Allow, Reason::RobotsTxtItself, dialect, tokens);
    }
    in_every_spelling(access, dialect, tokens, path, is_always_allowed)
}

/// As [`decide_strictly`], for requests that do more than read, such as `POST`: to them `/robots.txt` is a path like any other.
///
/// # Examples
///
/// ```
/// use wayleave_policy::{
///     AccessResult, Dialect, RobotsTxt, Verdict, decide_any_path_strictly, decide_strictly,
/// };
///
/// let robots = RobotsTxt::parse(b"User-agent: *\nDisallow: /\n");
/// let access = AccessResult::Successful(robots);
/// let read = decide_strictly(&access, Dialect::Rfc9309, &[], "/robots.txt");
/// assert_eq!(read.verdict(), Verdict::Allow);
/// let post = decide_any_path_strictly(&access, Dialect::Rfc9309, &[], "/robots.txt");
/// assert_eq!(post.verdict(), Verdict::Disallow);
/// ```
#[must_use]
pub fn decide_any_path_strictly<'a>(
    access: &'a AccessResult,
    dialect: Dialect,
    tokens: &'a [ProductToken],
    path: &str,
) -> Decision<'a> {
    in_every_spelling(access, dialect, tokens, path, |_, _| false)
}

/// `is_free` tells of spellings that are allowed whatever the file says.
#[inline]
fn in_every_spelling<'a>(
    access: &'a AccessResult,
    dialect: Dialect,
    tokens: &'a [ProductToken],
    path: &str,
    is_free: fn(&str, Dialect) -> bool,
) -> Decision<'a> {
    let mut search = Search::default();
    let received = in_each(dialect, |dialect| match is_free(path, dialect) {
        true => without_rule(Verdict::Allow, Reason::RobotsTxtItself, dialect, tokens),
        false => judge_in_one(access, dialect, tokens, path, &mut search),
    });
    if received.verdict == Verdict::Disallow {
        return received;
    }
    let others = spelling::others(path);
    if others.is_empty() {
        return received;
    }
    let with_rules = |dialect: &Dialect| Some((*dialect, access.rules(*dialect)?));
    let by_rules = each(&dialect).iter().filter_map(with_rules);
    let forms: Vec<_> = by_rules
        .map(|(dialect, robots)| (dialect, robots, Path::new(path, dialect)))
        .collect();
    for spelling in &others {
        for (dialect, robots, received) in &forms {
            let form = Path::new(spelling, *dialect);
            // What a dialect reads as the path received is allowed as that was.
            if form.is_like(received) || is_free(spelling, *dialect) {
                continue;
            }
            let path = (spelling.as_str(), &form);
            let decision = decide_by_file(robots, *dialect, tokens, path, &mut search);
            if decision.verdict == Verdict::Disallow {
                return decision;
            }
        }
    }
    received
}

/// `/robots.txt`: Google's parser knows no exception for its own file; the texts of the others do.
fn is_always_allowed(path: &str, dialect: Dialect) -> bool {
    path == "/robots.txt" && dialect != Dialect::Google
}

fn decide_in_one<'a>(
    access: &'a AccessResult,
    dialect: Dialect,
    tokens: &'a [ProductToken],
    path: &str,
    search: &mut Search,
) -> Decision<'a> {
    if is_always_allowed(path, dialect) {
        return without_rule(Verdict::Allow, Reason::RobotsTxtItself, dialect, tokens);
    }
    judge_in_one(access, dialect, tokens, path, search)
}

fn judge_in_one<'a>(
    access: &'a AccessResult,
    dialect: Dialect,
    tokens: &'a [ProductToken],
    path: &str,
    search: &mut Search,
) -> Decision<'a> {
    let simply = |verdict, reason| without_rule(verdict, reason, dialect, tokens);
    if let Some(robots) = access.rules(dialect) {
        let form = Path::new(path, dialect);
        return decide_by_file(robots, dialect, tokens, (path, &form), search);
    }
    let koster = dialect == Dialect::Koster1996;
    match access {
        AccessResult::Unavailable { status } => simply(
            Verdict::from_allow(!(koster && matches!(status, 401 | 403))),
            Reason::Unavailable,
        ),
        AccessResult::RedirectLost => simply(Verdict::from_allow(!koster), Reason::RedirectLost),
        AccessResult::LongUnreachable => simply(Verdict::from_allow(!koster), Reason::Unreachable),
        // Of those with rules, what is left is where they do not decide.
        _ => simply(Verdict::Disallow, Reason::Unreachable),
    }
}

/// The decision about a path, as spelt and in its dialect's form.
#[inline(always)]
fn decide_by_file<'a>(
    robots: &'a RobotsTxt,
    dialect: Dialect,
    tokens: &'a [ProductToken],
    (path, form): (&str, &Path<'_>),
    search: &mut Search,
) -> Decision<'a> {
    let reader = Reader::new(dialect);
    let mut found = robots.find(reader, tokens, form, search);
    if let Some(other) = form.with_cut_escapes(path, dialect) {
        found = found.max(find_again(robots, reader, tokens, &other, search));
    }
    by_what_was_found(found, robots, dialect, tokens)
}

/// Apart from the search that every decision makes, which is compiled for speed.
#[cold]
fn find_again(
    robots: &RobotsTxt,
    reader: Reader,
    tokens: &[ProductToken],
    form: &Path<'_>,
    search: &mut Search,
) -> Found {
    robots.find(reader, tokens, form, search)
}

#[inline]
fn by_what_was_found<'a>(
    found: Found,
    robots: &'a RobotsTxt,
    dialect: Dialect,
    tokens: &'a [ProductToken],
) -> Decision<'a> {
    let (verdict, reason, rule) = match found {
        Found::NoGroup => {
            return without_rule(Verdict::Allow, Reason::NoMatchingGroup, dialect, tokens);
        }
        Found::TooCostly => {
            return without_rule(Verdict::Disallow, Reason::TooCostly, dialect, tokens);
        }
        Found::NoRule => (Verdict::Allow, Reason::NoMatchingRule, None),
        Found::Rule(rule) => {
            // To Google's parser an empty value matches, but decides nothing.
            let decides = rule.octets() > 0 || dialect != Dialect::Google;
            let verdict = Verdict::from_allow(rule.is_allow() || !decides);
            (verdict, Reason::Rule, Some(rule))
        }
    };
    Decision {
        rule,
        robots: Some(robots),
        ..without_rule(verdict, reason, dialect, tokens)
    }
}

fn without_rule(
    verdict: Verdict,
    reason: Reason,
    dialect: Dialect,
    tokens: &[ProductToken],
) -> Decision<'_> {
    Decision {
        verdict,
        reason,
        dialect,
        rule: None,
        robots: None,
        tokens,
    }
}
