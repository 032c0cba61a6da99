//! The names of a crawler, in the forms in which callers have them.

use crate::{InvalidProductToken, ProductToken};

/// The names by which a crawler finds its group, in order of preference: one text, or several in an array, slice or
/// vector.
///
/// The first name that has a group in the file applies. Without names, only the group of `*` applies.
/// [`CrawlerRules::new`](crate::CrawlerRules::new) takes tokens that are already checked.
///
/// # Examples
///
/// ```
/// use wayleave_robots_txt::RobotsTxt;
///
/// let robots = RobotsTxt::parse(b"User-agent: ExampleBot\nDisallow: /\n");
/// assert!(!robots.for_crawler("ExampleBot")?.allows("/")?);
/// assert!(!robots.for_crawler(["ExampleBot-News", "ExampleBot"])?.allows("/")?);
///
/// let configured: Vec<String> = vec!["OtherBot".to_owned()];
/// assert!(robots.for_crawler(&configured)?.allows("/")?);
///
/// let error = robots.for_crawler("ExampleBot/1.0").unwrap_err();
/// assert_eq!(error.to_string(), r#""ExampleBot/1.0" contains a version: write "ExampleBot""#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait CrawlerNames {
    /// Returns the names as product tokens.
    ///
    /// # Errors
    ///
    /// If [`ProductToken::new`] refuses one of the names.
    fn into_tokens(self) -> Result<Vec<ProductToken>, InvalidProductToken>;
}

impl CrawlerNames for &str {
    fn into_tokens(self) -> Result<Vec<ProductToken>, InvalidProductToken> {
        [self].into_tokens()
    }
}

impl CrawlerNames for &String {
    fn into_tokens(self) -> Result<Vec<ProductToken>, InvalidProductToken> {
        [self].into_tokens()
    }
}

impl<T: AsRef<str>, const COUNT: usize> CrawlerNames for [T; COUNT] {
    fn into_tokens(self) -> Result<Vec<ProductToken>, InvalidProductToken> {
        self.as_slice().into_tokens()
    }
}

impl<T: AsRef<str>> CrawlerNames for Vec<T> {
    fn into_tokens(self) -> Result<Vec<ProductToken>, InvalidProductToken> {
        self.as_slice().into_tokens()
    }
}

impl<T: AsRef<str>> CrawlerNames for &[T] {
    fn into_tokens(self) -> Result<Vec<ProductToken>, InvalidProductToken> {
        self.iter().map(|name| ProductToken::new(name.as_ref())).collect()
    }
}

impl<T: AsRef<str>> CrawlerNames for &Vec<T> {
    fn into_tokens(self) -> Result<Vec<ProductToken>, InvalidProductToken> {
        self.as_slice().into_tokens()
    }
}
