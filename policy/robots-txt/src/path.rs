//! Paths of requests.

use std::borrow::Cow;
use std::fmt;

use memchr::memchr;

use crate::origin::split_url;
use crate::{InvalidUrl, excerpt};

/// The path and query of a request, byte for byte as sent, so that decisions are about exactly the URL that is fetched.
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

    /// Returns the path of an absolute URL, as [`Target::parse`](crate::Target::parse) reads it, or of a path alone.
    ///
    /// Unlike a request, the path may contain spaces, as in URLs that people paste.
    ///
    /// # Errors
    ///
    /// If the text is neither: there is no path to judge in `mailto:a@example.com`, `http://[::1` or an empty text. One
    /// that begins with `//` is refused as well, since it may mean a host (RFC 3986 §4.2) or a path.
    #[inline]
    pub fn of_url(url: &'a str) -> Result<Self, InvalidUrl> {
        let path = match url.as_bytes() {
            [b'/', b'/', ..] => return Err(InvalidUrl::NotAbsolute),
            [b'/', ..] => url,
            _ => split_url(url)?.1,
        };
        let path = without_fragment(path);
        match path.chars().find(char::is_ascii_control) {
            Some(c) => Err(InvalidUrl::Character(c)),
            None if path.starts_with('/') => Ok(Self(Cow::Borrowed(path))),
            // A query directly after the authority has an implied root (RFC 9110 §4.2.3).
            None => Ok(Self(Cow::Owned(format!("/{path}")))),
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

/// The error for a text that is not a path because it does not start with `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidPath(String);

impl fmt::Display for InvalidPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the path {:?} does not start with \"/\"", excerpt(&self.0))
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
            ("http://h//x", "//x"),
            ("http://u:p@h/x", "/x"),
            ("HTTPS://h:1/x?y;z", "/x?y;z"),
            ("https://h#/x", "/"),
            ("ftp://h/x#y", "/x"),
            ("http://[::1]/x y", "/x y"),
            ("/a?u=http://z", "/a?u=http://z"),
            ("/a#b", "/a"),
        ] {
            assert_eq!(UrlPath::of_url(url).unwrap().as_str(), path, "{url}");
        }
    }

    #[test]
    fn a_text_that_is_no_url_has_no_path() {
        for (text, error) in [
            ("", "no scheme: expected http:// or https://"),
            ("example.com/a", "no scheme: expected http:// or https://"),
            ("//h/x", "no scheme: expected http:// or https://"),
            ("///", "no scheme: expected http:// or https://"),
            ("*", "no scheme: expected http:// or https://"),
            ("?x", "no scheme: expected http:// or https://"),
            ("mailto:a@example.com", "unsupported scheme \"mailto\""),
            ("gopher://h/x", "unsupported scheme \"gopher\""),
            ("http:", "no host"),
            ("http:/x", "no host"),
            ("http:///x", "no host"),
            ("http://[::1", "invalid host \"[::1\""),
            ("http://h;p/x", "invalid host \"h;p\""),
            ("http://[::1]:99999/x", "invalid port \"99999\""),
            ("http://exa mple.com/", "invalid character ' '"),
            ("http://h/a\nb", "invalid character '\\n'"),
            ("/a\0", "invalid character '\\0'"),
        ] {
            assert_eq!(UrlPath::of_url(text).unwrap_err().to_string(), error, "{text:?}");
        }
    }
}
