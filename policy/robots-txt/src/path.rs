//! Paths of requests.

use std::borrow::Cow;
use std::fmt;

use memchr::memchr;

/// The path and query of a request, byte for byte as sent, so that decisions are about exactly what is fetched.
///
/// Always starts with `/`. A whole URL is not a path; [`Target::parse`](crate::Target::parse) splits one.
///
/// # Examples
///
/// ```
/// use wayleave_robots_txt::UrlPath;
///
/// assert_eq!(UrlPath::parse("/private?page=2")?.as_str(), "/private?page=2");
/// assert!(UrlPath::parse("https://example.com/private").is_err());
/// # Ok::<(), wayleave_robots_txt::InvalidPath>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UrlPath<'a>(Cow<'a, str>);

impl<'a> UrlPath<'a> {
    /// The root of an origin, `/`.
    pub const ROOT: UrlPath<'static> = UrlPath(Cow::Borrowed("/"));

    /// Parses a path and query. A fragment is dropped, since none is ever sent; `*`, the target of a server-wide
    /// `OPTIONS` (RFC 9112 §3.2.4), counts as the root.
    ///
    /// # Errors
    ///
    /// If the text does not start with `/`.
    pub fn parse(text: &'a str) -> Result<Self, InvalidPath> {
        match text.as_bytes() {
            b"*" => Ok(Self::ROOT),
            [b'/', ..] => Ok(Self(Cow::Borrowed(without_fragment(text)))),
            _ => Err(InvalidPath(text.to_owned())),
        }
    }

    /// Returns the path of a URL, or of a bare path.
    ///
    /// Unlike [`parse`](Self::parse) and [`Target::parse`](crate::Target::parse) this never fails: an odd URL can be
    /// judged as well. It splits URLs as Google's parser does: the path starts at the first `/`, `?` or `;`
    /// after scheme and authority and ends at the fragment; `//h/x` is a reference without a scheme (RFC 3986 §4.2), so
    /// its path is `/x`; a URL without a path has the path `/`.
    #[must_use]
    #[inline]
    pub fn of_url(url: &'a str) -> Self {
        let path = path_and_query(url);
        // `?query` and `;parameters` directly after the authority have an implied root.
        if path.starts_with('/') {
            Self(Cow::Borrowed(path))
        } else {
            Self(Cow::Owned(format!("/{path}")))
        }
    }

    /// Wraps a path that is known to start with `/` and to have no fragment.
    #[doc(hidden)]
    pub fn from_checked(path: impl Into<Cow<'a, str>>) -> Self {
        Self(path.into())
    }

    /// Returns the path as it is sent.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for UrlPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

fn without_fragment(text: &str) -> &str {
    &text[..memchr(b'#', text.as_bytes()).unwrap_or(text.len())]
}

fn path_and_query(url: &str) -> &str {
    let url = without_fragment(url);
    // Nearly all URLs begin so: this branch saves the search for a scheme.
    if let Some(rest) = url.strip_prefix("https://").or(url.strip_prefix("http://")) {
        return split_at_path(rest).1;
    }
    let (before, path) = split_at_path(url.strip_prefix("//").unwrap_or(url));
    // A scheme ends in "://", and no delimiter of paths can come before that.
    match path.strip_prefix("//") {
        Some(rest) if before.ends_with(':') => split_at_path(rest).1,
        _ => path,
    }
}

fn split_at_path(rest: &str) -> (&str, &str) {
    // By bytes: the delimiters are ASCII, and decoding characters would take most of the time.
    let start = rest.bytes().position(|byte| matches!(byte, b'/' | b'?' | b';'));
    rest.split_at(start.unwrap_or(rest.len()))
}

/// The error for a text that is not a path because it does not start with `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidPath(String);

impl fmt::Display for InvalidPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the path {:?} does not start with \"/\"", self.0)
    }
}

impl std::error::Error for InvalidPath {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_starts_with_a_slash_and_has_no_fragment() {
        for (text, path) in [
            ("/", "/"),
            ("/a?b", "/a?b"),
            ("//a", "//a"),
            ("/a#b?c", "/a"),
            ("*", "/"),
            ("/ \u{e9}%", "/ \u{e9}%"),
        ] {
            assert_eq!(UrlPath::parse(text).unwrap().as_str(), path, "{text}");
        }
        for text in ["", "a", "https://example.com/private", "?a", "**", " /a", "#/"] {
            let error = UrlPath::parse(text).unwrap_err();
            let message = format!("the path {text:?} does not start with \"/\"");
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn questions_about_urls_are_about_their_path() {
        for (url, path) in [
            ("http://h?x", "/?x"),
            ("http://h", "/"),
            ("http://h;p", "/;p"),
            ("http://h//x", "//x"),
            ("//h/x", "/x"),
            ("//http://h/x", "/x"),
            ("https://h:1/x?y;z", "/x?y;z"),
            ("https://h#/x", "/"),
            ("ftp://h/x#y", "/x"),
            ("ftp://", "/"),
            ("h://h", "/"),
            ("h//x", "//x"),
            ("h:80//x", "//x"),
            ("/a?u=http://z", "/a?u=http://z"),
            ("a/b", "/b"),
            ("/a#b", "/a"),
            ("h#/a", "/"),
            ("", "/"),
        ] {
            assert_eq!(UrlPath::of_url(url).as_str(), path, "{url}");
        }
    }
}
