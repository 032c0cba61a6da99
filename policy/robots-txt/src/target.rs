//! Targets of requests: an origin and a path.

use std::fmt;

use crate::origin::{MAX_URI_BYTES, is_unsendable, split_url};
use crate::spelling::{normalised, other_spellings};
use crate::{InvalidUrl, Origin, UrlPath};

/// The origin and path-and-query of one request (RFC 9110 §7.1).
///
/// The path is kept byte for byte as it will be sent, so that decisions are about exactly the URL that is fetched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    origin: Origin,
    path: UrlPath<'static>,
}

impl Target {
    /// The most bytes of a URI that is requested: see [`Self::check_length`].
    pub const MAX_BYTES: usize = MAX_URI_BYTES;

    /// Parses an absolute URI, the form of request target that a proxy receives.
    ///
    /// The fragment and userinfo are dropped, since neither is ever sent. An empty path becomes `/`.
    ///
    /// # Errors
    ///
    /// For other schemes than `http`, `https` and `ftp`, an impossible host or port, more than one
    /// `@` before the path, and characters that no request line may hold.
    pub fn parse(uri: &str) -> Result<Self, InvalidUrl> {
        let (origin, path) = split_url(uri)?;
        Self::new(origin, path)
    }

    /// Joins an origin and a request target in origin form, as sent inside a tunnel.
    ///
    /// # Errors
    ///
    /// If the path starts with neither `/` nor `?`, or holds characters that no request line may.
    pub fn new(origin: Origin, path_and_query: &str) -> Result<Self, InvalidUrl> {
        // A fragment is never sent (RFC 9110 §7.1).
        let path = path_and_query.split('#').next().unwrap_or_default();
        // Such a character would end the request line early and smuggle a second one.
        if let Some(c) = path.chars().find(|&c| is_unsendable(c)) {
            return Err(InvalidUrl::Character(c));
        }
        let path = match path.as_bytes().first() {
            Some(b'/') => UrlPath::from_checked(path.to_owned()),
            None | Some(b'?') => UrlPath::from_checked(format!("/{path}")),
            Some(_) => return Err(InvalidUrl::Path(path.to_owned())),
        };
        Ok(Self { origin, path })
    }

    /// Checks that the URI has at most [`Self::MAX_BYTES`], for callers that judge the URIs of others: it takes time for
    /// each byte, rule and spelling, and no URI that people use is as long.
    ///
    /// # Errors
    ///
    /// If it has more.
    pub fn check_length(&self) -> Result<(), InvalidUrl> {
        // The URI is only written if it may be too long: a host has at most 255 bytes.
        let may_be_long = self.path.as_str().len() > Self::MAX_BYTES / 2;
        if may_be_long && self.uri().len() > Self::MAX_BYTES {
            return Err(InvalidUrl::TooLong);
        }
        Ok(())
    }

    /// Returns it as a URI.
    #[must_use]
    pub fn uri(&self) -> String {
        self.origin.uri(self.path.as_str())
    }

    /// Returns the origin.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns whether a server may treat it as the same target as `other`, by the spellings that
    /// [`CrawlerRules::all_spellings`](crate::CrawlerRules::all_spellings) judges.
    #[must_use]
    pub fn is_spelling_of(&self, other: &Self) -> bool {
        let normal_path = |target: &Self| {
            let path = target.path.as_str();
            normalised(path).unwrap_or_else(|| path.to_owned())
        };
        let one = normal_path(self);
        let another = normal_path(other);
        // A path with too many spellings is compared by its normal form alone.
        let is_spelling = |spelling: &String, path: &str| {
            other_spellings(path).is_ok_and(|all| all.contains(spelling))
        };
        // Asked both ways, because `/a//b` is rewritten to `/a/b` and never the other way round.
        self.origin == other.origin
            && (one == another || is_spelling(&another, &one) || is_spelling(&one, &another))
    }

    /// Returns path and query as they will be sent.
    #[must_use]
    pub fn path(&self) -> &UrlPath<'static> {
        &self.path
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.uri())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_keep_their_path_byte_for_byte() {
        for (uri, origin, path) in [
            ("http://example.com", "http://example.com", "/"),
            ("HTTP://EXAMPLE.com:80/", "http://example.com", "/"),
            ("https://example.com:443/a", "https://example.com", "/a"),
            ("https://example.com:8443/a", "https://example.com:8443", "/a"),
            ("http://example.com?x=1", "http://example.com", "/?x=1"),
            ("http://example.com#f", "http://example.com", "/"),
            ("http://example.com/a#f?x", "http://example.com", "/a"),
            ("http://user:pass@example.com/a@b", "http://example.com", "/a@b"),
            (
                "http://example.com/a/../%2e%2E//b;c?d%20",
                "http://example.com",
                "/a/../%2e%2E//b;c?d%20",
            ),
            ("http://example.com//x", "http://example.com", "//x"),
            ("http://example.com/a\\b", "http://example.com", "/a\\b"),
            ("http://example.com./a", "http://example.com", "/a"),
            ("http://b\u{fc}cher.example/\u{30C4}", "http://xn--bcher-kva.example", "/\u{30C4}"),
            ("http://[::1]:80/a", "http://[::1]", "/a"),
            ("http://0x7f.1/", "http://127.0.0.1", "/"),
        ] {
            let target = Target::parse(uri).unwrap();
            assert_eq!(target.origin().to_string(), origin, "{uri}");
            assert_eq!(target.path().as_str(), path, "{uri}");
        }
    }

    #[test]
    fn targets_with_equal_decisions_are_spellings() {
        let target = |path: &str| Target::parse(&format!("http://example.com{path}")).unwrap();
        for (one, another, expected) in [
            ("/~a", "/%7Ea", true),
            ("/%7ea", "/%7Ea", true),
            ("/a/../b", "/b", true),
            ("/a//b", "/a/b", true),
            ("/a%2Fb", "/a%2fb", true),
            ("/a", "/b", false),
            ("/a", "/A", false),
            ("/a;x", "/a;y", false),
        ] {
            let one = target(one);
            let another = target(another);
            assert_eq!(one.is_spelling_of(&another), expected, "{one} {another}");
            assert_eq!(another.is_spelling_of(&one), expected, "{another} {one}");
        }
        let elsewhere = Target::parse("http://example.org/~a").unwrap();
        assert!(!elsewhere.is_spelling_of(&target("/~a")));
    }

    #[test]
    fn uris_without_a_place_to_fetch_from_are_refused() {
        use InvalidUrl::*;
        for (uri, error) in [
            ("/a", NotAbsolute),
            ("", NotAbsolute),
            ("example.com/a", NotAbsolute),
            ("gopher://example.com/", UnsupportedScheme("gopher".to_owned())),
            ("mailto:a@example.com", UnsupportedScheme("mailto".to_owned())),
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
        assert_eq!(Target::new(origin, "").unwrap().path().as_str(), "/");
    }

    #[test]
    fn a_target_has_at_most_16_kib_however_it_is_named() {
        let origin = Origin::parse("https://example.com:8443").unwrap();
        let longest = "/".repeat(Target::MAX_BYTES - origin.to_string().len());
        for (path, is_too_long) in [(longest.clone(), false), (longest + "a", true)] {
            let uri = format!("HTTPS://user:pw@example.com.:8443{path}#{path}");
            let target = Target::parse(&uri).unwrap();
            assert_eq!(target, Target::new(origin.clone(), &path).unwrap());
            let checked = target.check_length();
            assert_eq!(checked.err(), is_too_long.then_some(InvalidUrl::TooLong));
        }
    }

    #[test]
    fn an_error_shows_the_beginning_of_a_long_text() {
        let long = "x".repeat(60_000);
        for uri in [
            format!("{long}://example.com/"),
            format!("http://{long}/"),
            format!("http://[{long}/"),
            format!("http://example.com:{long}/"),
        ] {
            let error = Target::parse(&uri).unwrap_err().to_string();
            assert!(error.len() < 300, "{} bytes", error.len());
        }
        let origin = Origin::parse("https://example.com").unwrap();
        assert!(Target::new(origin, &long).unwrap_err().to_string().len() < 300);
    }
}
