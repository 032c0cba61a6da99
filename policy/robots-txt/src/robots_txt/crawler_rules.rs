//! The rules of a file for one crawler: the short way to a decision.

use std::time::Duration;

use super::access_result::AccessResult;
use super::decide::{decide, decide_all_spellings};
use super::decision::AccessDecision;
use super::file::RobotsTxt;
use crate::{CrawlerNames, Dialect, InvalidProductToken, InvalidUrl, ProductToken, UrlPath};

impl RobotsTxt {
    /// Returns the rules for a crawler, given its names in order of preference. They are those of RFC 9309 and about URLs
    /// as they are spelt, unless [`CrawlerRules::dialect`] or [`CrawlerRules::all_spellings`] says otherwise.
    ///
    /// # Errors
    ///
    /// If [`ProductToken::new`] refuses one of the names, such as a whole `User-Agent`.
    ///
    /// # Examples
    ///
    /// ```
    /// use wayleave_robots_txt::RobotsTxt;
    ///
    /// let robots = RobotsTxt::parse(b"User-agent: *\nDisallow: /private\n");
    /// let crawler = robots.for_crawler("ExampleBot")?;
    /// assert!(crawler.allows("https://example.com/open")?);
    /// assert!(!crawler.allows("https://example.com/private/diary")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn for_crawler(
        &self,
        names: impl CrawlerNames,
    ) -> Result<CrawlerRules, InvalidProductToken> {
        AccessResult::from(self.clone()).for_crawler(names)
    }
}

impl AccessResult {
    /// Returns the rules for a crawler, like [`RobotsTxt::for_crawler`].
    ///
    /// # Errors
    ///
    /// If [`ProductToken::new`] refuses one of the names.
    ///
    /// # Examples
    ///
    /// ```
    /// use wayleave_robots_txt::AccessResult;
    ///
    /// let missing = AccessResult::Unavailable { status: 404 }.for_crawler("ExampleBot")?;
    /// assert!(missing.allows("https://example.com/page")?);
    /// let down = AccessResult::Unreachable.for_crawler("ExampleBot")?;
    /// assert!(!down.allows("https://example.com/page")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn for_crawler(
        &self,
        names: impl CrawlerNames,
    ) -> Result<CrawlerRules, InvalidProductToken> {
        Ok(CrawlerRules::new(self.clone(), names.into_tokens()?))
    }
}

/// The rules of one robots.txt for one crawler.
///
/// Holds a handle to the parsed file, so it can be kept, cloned and sent to other threads.
#[derive(Clone, Debug)]
pub struct CrawlerRules {
    access: AccessResult,
    tokens: Vec<ProductToken>,
    dialect: Dialect,
    all_spellings: bool,
}

impl CrawlerRules {
    /// Creates the rules for a crawler with names that are already checked, in order of preference.
    #[must_use]
    pub fn new(access: AccessResult, tokens: Vec<ProductToken>) -> Self {
        Self { access, tokens, dialect: Dialect::default(), all_spellings: false }
    }

    /// Reads the file in a dialect instead of as RFC 9309.
    #[must_use]
    pub fn dialect(self, dialect: Dialect) -> Self {
        Self { dialect, ..self }
    }

    /// Judges every spelling of a path that some server treats as the same, because nobody can know how the origin's
    /// server reads it: a path is allowed only if all of its spellings are.
    ///
    /// They are the path as it is; in normal percent-encoding; decoded; with `/` for `%2F`, `\` and `%5C`; without
    /// `;parameters`, empty segments, dot segments, and a final slash that only these leave; and any combination of
    /// these. A byte matches whether rule and path escape it or not. `/robots.txt` is always allowed.
    /// [`guide::spellings`](crate::guide::spellings) lists the servers and their spellings.
    ///
    /// # Examples
    ///
    /// ```
    /// use wayleave_robots_txt::RobotsTxt;
    ///
    /// let robots = RobotsTxt::parse(b"User-agent: *\nDisallow: /private\n");
    /// let crawler = robots.for_crawler("ExampleBot")?;
    /// assert!(crawler.allows("https://example.com//private")?);
    /// assert!(!crawler.all_spellings().allows("https://example.com//private")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn all_spellings(self) -> Self {
        Self { all_spellings: true, ..self }
    }

    /// Returns whether the crawler may fetch a URL.
    ///
    /// Only its path and query count: which file applies to it follows from its [`Origin`](crate::Origin). A path alone,
    /// such as `/page`, is judged as it is.
    ///
    /// # Errors
    ///
    /// If [`UrlPath::of_url`] finds no URL in the text, such as in `mailto:a@example.com`.
    pub fn allows(&self, url: &str) -> Result<bool, InvalidUrl> {
        Ok(self.decide(url)?.verdict().is_allow())
    }

    /// Returns the decision about a URL, like [`allows`](Self::allows) but with its reason.
    ///
    /// # Errors
    ///
    /// If the text is not a URL.
    ///
    /// # Examples
    ///
    /// ```
    /// use wayleave_robots_txt::{AccessReason, Dialect, RobotsTxt};
    ///
    /// let robots = RobotsTxt::parse(b"User-agent: *\nDisallow: /a\nAllow: /a/b\n");
    /// let crawler = robots.for_crawler("ExampleBot")?;
    /// let decision = crawler.decide("https://example.com/a/b")?;
    /// assert!(decision.verdict().is_allow());
    /// assert_eq!(decision.reason(), AccessReason::Rule);
    /// assert_eq!(decision.line(), Some(3));
    ///
    /// // To the draft of 1996 the first rule that matches decides.
    /// let crawler = crawler.dialect(Dialect::Koster1996);
    /// let decision = crawler.decide("https://example.com/a/b")?;
    /// assert_eq!(decision.rule().as_deref(), Some("Disallow: /a"));
    /// assert_eq!(decision.group(), ["*"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decide(&self, url: &str) -> Result<AccessDecision<'_>, InvalidUrl> {
        let judge = if self.all_spellings { decide_all_spellings } else { decide };
        Ok(judge(&self.access, self.dialect, &self.tokens, &UrlPath::of_url(url)?))
    }

    /// Returns the time that the crawler should wait between requests (`Crawl-delay`); of the four dialects that
    /// `strictest` combines, the longest.
    #[must_use]
    pub fn crawl_delay(&self) -> Option<Duration> {
        let in_dialect =
            |&dialect: &Dialect| self.access.rules(dialect)?.crawl_delay(dialect, &self.tokens);
        self.dialect.each().iter().filter_map(in_dialect).max()
    }
}
