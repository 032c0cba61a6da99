//! Target: the origin and the path a request is for.

use std::borrow::Cow;
use std::fmt;

use memchr::{memchr, memchr3};

use crate::blocks;
use crate::origin::split_scheme;
use crate::{InvalidUri, Origin};

/// The origin and path-and-query of one request (RFC 9110 §7.1).
///
/// The path is kept octet for octet as it will be sent, so what is judged is what is fetched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    origin: Origin,
    path: Box<str>,
}

impl Target {
    /// Reads an absolute URI: the request target a proxy receives.
    ///
    /// The fragment is taken off and userinfo dropped, for neither is ever sent. An empty path
    /// becomes `/`.
    ///
    /// # Errors
    ///
    /// For other schemes than `http` and `https`, an impossible host or port, more than one
    /// `@` before the path, and characters that no request line may hold.
    pub fn parse(uri: &str) -> Result<Self, InvalidUri> {
        let (scheme, rest) = split_scheme(uri)?;
        let (authority, path) = split_authority(rest);
        let host = match authority.split_once('@') {
            Some((_, host)) if host.contains('@') => return Err(InvalidUri::UserInfo),
            Some((_, host)) => host,
            None => authority,
        };
        if let Some(c) = authority.chars().find(|&c| c == '\\' || is_unsendable(c)) {
            return Err(InvalidUri::Character(c));
        }
        Self::new(Origin::from_authority(scheme, host)?, path)
    }

    /// Joins an origin and the origin-form target of a request inside a tunnel.
    ///
    /// # Errors
    ///
    /// If the path starts with neither `/` nor `?`, or holds characters that no request line may.
    pub fn new(origin: Origin, path_and_query: &str) -> Result<Self, InvalidUri> {
        let path = path_and_query.split('#').next().unwrap_or_default();
        if let Some(c) = path.chars().find(|&c| is_unsendable(c)) {
            return Err(InvalidUri::Character(c));
        }
        let path: Box<str> = match path.as_bytes().first() {
            Some(b'/') => path.into(),
            None | Some(b'?') => format!("/{path}").into(),
            Some(_) => return Err(InvalidUri::Path(path.to_owned())),
        };
        Ok(Self { origin, path })
    }

    /// Whom the request goes to.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Path and query as they will be sent; starts with `/`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.path)
    }
}

fn split_authority(rest: &str) -> (&str, &str) {
    rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()))
}

fn is_unsendable(c: char) -> bool {
    c.is_ascii_control() || c == ' '
}

/// The path and query that are judged when the question is about a whole URL or a bare path.
///
/// Unlike [`Target::parse`] this never fails, since a question about an odd URL deserves an answer
/// too. It takes URLs apart as Google's parser does: from the first `/`, `?` or `;` after scheme
/// and authority to the fragment; `//h/x` is a reference without scheme (RFC 3986 §4.2), so its
/// path is `/x`; what has no path has the path `/`.
#[must_use]
#[inline]
pub fn path_to_judge(url: &str) -> Cow<'_, str> {
    // Most questions are about such URLs, so what is between is known not to be searched.
    let rest = url.strip_prefix("https://").or(url.strip_prefix("http://"));
    if let Some(rest) = rest
        && let Some(end) = end_of_authority(rest.as_bytes())
        && rest.as_bytes()[end] == b'/'
        && !blocks::any(&rest.as_bytes()[end..], |byte| u8::from(byte == b'#'))
    {
        return Cow::Borrowed(&rest[end..]);
    }
    path_of_any(url)
}

fn path_of_any(url: &str) -> Cow<'_, str> {
    let path = path_and_query(url);
    if path.starts_with('/') {
        Cow::Borrowed(path)
    } else {
        Cow::Owned(format!("/{path}"))
    }
}

fn path_and_query(url: &str) -> &str {
    let start = if url.starts_with("//") { 2 } else { 0 };
    let delimiter = |from: usize| {
        let found = memchr3(b'/', b'?', b';', &url.as_bytes()[from..]);
        found.map(|index| from + index)
    };
    let Some(first) = delimiter(start) else {
        return "/";
    };
    // A scheme ends in "://", and no delimiter stands before that.
    let has_scheme = url[start..first].ends_with(':') && url[first..].starts_with("//");
    let path_start = if has_scheme {
        delimiter(first + 2)
    } else {
        Some(first)
    };
    let hash = memchr(b'#', &url.as_bytes()[start..]).map(|index| start + index);
    match (path_start, hash) {
        (Some(path_start), None) => &url[path_start..],
        (Some(path_start), Some(hash)) if hash > path_start => &url[path_start..hash],
        _ => "/",
    }
}

/// Where the first `/`, `?`, `;` or `#` is. Hosts are short, so eight octets at a time are found sooner than by a call.
#[inline]
fn end_of_authority(text: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let (words, rest) = text.as_chunks();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // The lowest upper bit that is set belongs to an octet that is the one looked for; above it others may be set too.
        let find = |byte: u8| {
            let others = word ^ (ONES * u64::from(byte));
            others.wrapping_sub(ONES) & !others
        };
        let found = (find(b'/') | find(b'?') | find(b';') | find(b'#')) & (ONES << 7);
        if found != 0 {
            return Some(8 * index + found.trailing_zeros() as usize / 8);
        }
    }
    let is_end = |byte: &u8| matches!(byte, b'/' | b'?' | b';' | b'#');
    Some(8 * words.len() + rest.iter().position(is_end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_keep_their_path_octet_for_octet() {
        for (uri, origin, path) in [
            ("http://example.com", "http://example.com", "/"),
            ("HTTP://EXAMPLE.com:80/", "http://example.com", "/"),
            ("https://example.com:443/a", "https://example.com", "/a"),
            (
                "https://example.com:8443/a",
                "https://example.com:8443",
                "/a",
            ),
            ("http://example.com?x=1", "http://example.com", "/?x=1"),
            ("http://example.com#f", "http://example.com", "/"),
            ("http://example.com/a#f?x", "http://example.com", "/a"),
            (
                "http://user:pass@example.com/a@b",
                "http://example.com",
                "/a@b",
            ),
            (
                "http://example.com/a/../%2e%2E//b;c?d%20",
                "http://example.com",
                "/a/../%2e%2E//b;c?d%20",
            ),
            ("http://example.com//x", "http://example.com", "//x"),
            ("http://example.com/a\\b", "http://example.com", "/a\\b"),
            ("http://example.com./a", "http://example.com", "/a"),
            (
                "http://b\u{fc}cher.example/\u{30C4}",
                "http://xn--bcher-kva.example",
                "/\u{30C4}",
            ),
            ("http://[::1]:80/a", "http://[::1]", "/a"),
            ("http://0x7f.1/", "http://127.0.0.1", "/"),
        ] {
            let target = Target::parse(uri).unwrap();
            assert_eq!(target.origin().to_string(), origin, "{uri}");
            assert_eq!(target.path(), path, "{uri}");
        }
    }

    #[test]
    fn what_names_no_place_is_refused() {
        use InvalidUri::*;
        for (uri, error) in [
            ("/a", NotAbsolute),
            ("", NotAbsolute),
            ("example.com/a", NotAbsolute),
            ("ftp://example.com/", UnsupportedScheme("ftp".to_owned())),
            (
                "mailto:a@example.com",
                UnsupportedScheme("mailto".to_owned()),
            ),
            ("http:/example.com", MissingHost),
            ("http:///a", MissingHost),
            ("http://:80/", MissingHost),
            ("http://a@b@example.com/", UserInfo),
            ("http://example.com\\@evil.example/", Character('\\')),
            ("http://exam ple.com/", Character(' ')),
            ("http://example.com/a b", Character(' ')),
            ("http://example.com/a\r\nHost: b", Character('\r')),
            ("http://example.com:0/", Port("0".to_owned())),
            ("http://example.com:65536/", Port("65536".to_owned())),
            ("http://example.com:8o/", Port("8o".to_owned())),
        ] {
            assert_eq!(Target::parse(uri), Err(error), "{uri}");
        }
        let origin = Origin::parse("https://example.com").unwrap();
        assert_eq!(Target::new(origin.clone(), "a"), Err(Path("a".to_owned())));
        assert_eq!(Target::new(origin.clone(), "*"), Err(Path("*".to_owned())));
        assert_eq!(Target::new(origin, "").unwrap().path(), "/");
    }

    #[test]
    fn questions_about_urls_are_about_their_path() {
        for (url, path) in [
            ("http://h?x", "/?x"),
            ("http://h", "/"),
            ("http://h;p", "/;p"),
            ("http://h//x", "//x"),
            ("//h/x", "/x"),
            ("/a?u=http://z", "/a?u=http://z"),
            ("a/b", "/b"),
            ("/a#b", "/a"),
            ("h#/a", "/"),
            ("", "/"),
        ] {
            assert_eq!(path_to_judge(url), path, "{url}");
        }
    }
}
