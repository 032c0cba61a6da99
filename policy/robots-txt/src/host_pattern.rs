//! Patterns for hosts, as written in the configuration.

use std::borrow::Cow;
use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use crate::host;

/// A pattern for hosts: one host, all hosts below one, or a glob, in the canonical spelling of
/// [`Origin::host`](crate::Origin::host).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// `*`: every host.
    Any,
    /// `shop.example`: this host, or an IP address.
    Exact(String),
    /// `.example.com`: the host after the dot and every host below it. Stored without the dot.
    Suffix(String),
    /// `*.example.com`, `shop-*.example`: `*` stands for any characters, including dots.
    Glob(String),
}

impl HostPattern {
    /// Returns whether a host, as [`Origin::host`](crate::Origin::host) writes it, matches. An IPv4-mapped IPv6 address
    /// (`[::ffff:192.0.2.1]`) is the same host as the IPv4 address.
    #[must_use]
    pub fn matches(&self, host: &str) -> bool {
        let host = &*Self::normalized(host);
        match self {
            Self::Any => true,
            Self::Exact(exact) => exact == host,
            Self::Suffix(suffix) => {
                // `.example.com` must not match `notexample.com`.
                let before = host.strip_suffix(suffix.as_str());
                before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
            }
            Self::Glob(glob) => glob_matches(glob, host),
        }
    }

    /// Returns whether every host that `other` matches is known to match this pattern, too.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) => true,
            (_, Self::Any) => false,
            (_, Self::Exact(host)) => self.matches(host),
            (Self::Exact(_), _) => false,
            (Self::Suffix(_), Self::Suffix(_) | Self::Glob(_)) => {
                other.required_suffix().is_some_and(|suffix| self.matches(suffix))
            }
            // Every `*` of the other pattern is absorbed by a `*` here, so this one matches whatever the other does.
            (Self::Glob(glob), Self::Glob(other)) => glob_matches(glob, other),
            (Self::Glob(glob), Self::Suffix(suffix)) => {
                glob_matches(glob, suffix) && glob_matches(glob, &format!("*.{suffix}"))
            }
        }
    }

    /// Returns the form in which patterns are compared: an IPv4-mapped IPv6 address becomes the IPv4 address.
    #[must_use]
    pub fn normalized(host: &str) -> Cow<'_, str> {
        // A rule for 192.0.2.1 must also cover `[::ffff:192.0.2.1]`, which reaches the same machine.
        let mapped = || {
            let address: Ipv6Addr = host.strip_prefix('[')?.strip_suffix(']')?.parse().ok()?;
            address.to_ipv4_mapped()
        };
        mapped().map_or(Cow::Borrowed(host), |address| address.to_string().into())
    }

    /// Returns the longest sequence of whole labels that every matching host ends in.
    #[must_use]
    pub fn required_suffix(&self) -> Option<&str> {
        match self {
            Self::Any => None,
            Self::Exact(host) | Self::Suffix(host) => Some(host),
            Self::Glob(glob) => {
                // The label that the last `*` is in may begin with anything.
                let literal = &glob[glob.rfind('*').map_or(0, |at| at + 1)..];
                let labels = literal.split_once('.').map(|(_, labels)| labels)?;
                Some(labels).filter(|labels| !labels.is_empty())
            }
        }
    }

    /// Returns the first label of every matching host, if a glob fixes it.
    #[must_use]
    pub fn required_first_label(&self) -> Option<&str> {
        match self {
            Self::Glob(glob) => {
                let first = glob.split('.').next().unwrap_or_default();
                (first.len() < glob.len() && !first.contains('*')).then_some(first)
            }
            _ => None,
        }
    }

    /// Returns `example.com` if the pattern is exactly `*.example.com`.
    #[must_use]
    pub fn wildcard_parent(&self) -> Option<&str> {
        match self {
            Self::Glob(glob) => glob.strip_prefix("*.").filter(|host| !host.contains('*')),
            _ => None,
        }
    }
}

/// Returns whether a text matches a glob, in which `*` stands for any characters.
fn glob_matches(glob: &str, text: &str) -> bool {
    let mut parts = glob.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    // Matched at the end and after the others: `a*a` must not match `a`.
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    // The first occurrence of each part leaves the most text for the others.
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Returns a glob in the canonical spelling of hosts, with each `*` temporarily replaced by a placeholder. A label that
/// holds a `*` must be ASCII: its A-label would depend on all of its characters.
fn canonical_glob(text: &str) -> Option<String> {
    let folded = text.to_ascii_lowercase();
    // A placeholder that is a valid label and occurs nowhere else in the text.
    let mut word = "w0w".to_owned();
    while folded.contains(&word) {
        word.insert(1, '0');
    }
    let host = host::canonical_host(&text.replace('*', &word))?;
    (!host.split('.').any(|label| label.starts_with("xn--") && label.contains(&word)))
        .then(|| host.replace(&word, "*"))
}

impl FromStr for HostPattern {
    type Err = InvalidHostPattern;

    fn from_str(text: &str) -> Result<Self, InvalidHostPattern> {
        let canonical =
            |host: &str| host::canonical_host(host).map(|host| Self::normalized(&host).into());
        let pattern = if text == "*" {
            Some(Self::Any)
        } else if text.contains('*') {
            canonical_glob(text).map(|glob| match &*glob {
                // `*.` is every host as well, since a trailing dot is dropped.
                "*" => Self::Any,
                _ => Self::Glob(glob),
            })
        } else if let Some(suffix) = text.strip_prefix('.') {
            canonical(suffix).map(Self::Suffix)
        } else {
            canonical(text).map(Self::Exact)
        };
        pattern.ok_or_else(|| InvalidHostPattern(text.to_owned()))
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Exact(text) | Self::Glob(text) => f.write_str(text),
            Self::Suffix(suffix) => write!(f, ".{suffix}"),
        }
    }
}

/// The error for a text that is not a host pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidHostPattern(String);

impl fmt::Display for InvalidHostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a host, suffix (\".example.com\") or glob (\"*.example.com\")",
            self.0
        )
    }
}

impl std::error::Error for InvalidHostPattern {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Origin;

    #[test]
    fn a_pattern_covers_another_if_it_matches_all_its_hosts() {
        let patterns =
            ["*", "a.test", ".a.test", ".b.a.test", "*.a.test", "*.test", "*a*", "x-*.test"];
        let covered = [
            ("*", "* a.test .a.test .b.a.test *.a.test *.test *a* x-*.test"),
            ("a.test", "a.test"),
            (".a.test", "a.test .a.test .b.a.test *.a.test"),
            (".b.a.test", ".b.a.test"),
            ("*.a.test", ".b.a.test *.a.test"),
            ("*.test", "a.test .a.test .b.a.test *.a.test *.test x-*.test"),
            ("*a*", "a.test .a.test .b.a.test *.a.test *a*"),
            ("x-*.test", "x-*.test"),
        ];
        for (pattern, covered) in covered {
            let parsed: HostPattern = pattern.parse().unwrap();
            let mut found = patterns.to_vec();
            found.retain(|other| parsed.covers(&other.parse().unwrap()));
            assert_eq!(found.join(" "), covered, "{pattern}");
        }
    }

    #[test]
    fn each_form_matches_its_hosts() {
        for (pattern, host, expected) in [
            ("*", "a.test", true),
            ("Shop.Test", "shop.test", true),
            ("shop.test", "www.shop.test", false),
            (".shop.test", "shop.test", true),
            (".shop.test", "www.shop.test", true),
            (".shop.test", "workshop.test", false),
            ("*.shop.test", "shop.test", false),
            ("*.shop.test", "a.b.shop.test", true),
            ("shop-*.test", "shop-7.test", true),
            ("shop.*", "shop.co.test", true),
            ("shop.*", "workshop.test", false),
            ("*bank*", "my-bank.test", true),
            ("a*a", "a", false),
            ("10.0.*", "10.0.0.7", true),
            ("w0w*.test", "w0wx.test", true),
            ("w0w*.test", "x.test", false),
            ("[::1]", "[::1]", true),
        ] {
            check(pattern, host, expected);
        }
    }

    #[test]
    fn a_host_has_one_spelling_in_every_form() {
        for (pattern, host) in [
            ("b\u{fc}cher.test", "xn--bcher-kva.test"),
            (".b\u{fc}cher.test", "www.xn--bcher-kva.test"),
            ("*.b\u{fc}cher.test", "www.xn--bcher-kva.test"),
            ("*.B\u{dc}CHER.test", "www.xn--bcher-kva.test"),
            ("shop-*.b\u{fc}cher.test", "shop-7.xn--bcher-kva.test"),
            ("dotted.test.", "dotted.test"),
            (".dotted.test.", "a.dotted.test"),
            ("*.dotted.test.", "a.dotted.test"),
            ("*.dotted\u{3002}test", "a.dotted.test"),
            ("*.", "a.test"),
            ("0x7f.1", "127.0.0.1"),
            ("192.0.2.1", "[::ffff:c000:201]"),
            ("192.0.2.1", "[::ffff:192.0.2.1]"),
            ("[::ffff:192.0.2.1]", "192.0.2.1"),
            ("192.0.2.*", "[::ffff:c000:201]"),
            ("[0:0:0:0:0:0:0:1]", "[::1]"),
        ] {
            check(pattern, host, true);
        }
        let origin = Origin::parse("http://[::FFFF:192.0.2.1]/").unwrap();
        check("192.0.2.1", origin.host(), true);
        check("192.0.2.1", "[::192.0.2.1]", false);
    }

    #[track_caller]
    fn check(pattern: &str, host: &str, expected: bool) {
        let pattern: HostPattern = pattern.parse().unwrap();
        assert_eq!(pattern.matches(host), expected, "{pattern} {host}");
        assert_eq!(pattern.to_string().parse(), Ok(pattern.clone()));
        let host = HostPattern::normalized(host);
        let ending = pattern.required_suffix().unwrap_or_default();
        let ends = *host == *ending || ending.is_empty() || host.ends_with(&format!(".{ending}"));
        assert!(!expected || ends, "{ending} {host}");
        let beginning = pattern.required_first_label().unwrap_or_default();
        assert!(!expected || host.starts_with(beginning), "{beginning} {host}");
    }

    #[test]
    fn invalid_host_patterns_are_refused() {
        for wrong in [
            "",
            ".",
            "a b",
            "http://a.test",
            "a.test:80",
            "a.test:8443",
            "user@a.test",
            "a..test",
            "*.a/b",
            "b\u{fc}*.test",
            "1.2.3.4.5",
            "[*]",
            "[::1",
        ] {
            let error = wrong.parse::<HostPattern>().unwrap_err();
            let message = error.to_string();
            assert!(message.starts_with(&format!("{wrong:?} is not a host")), "{message}");
        }
    }

    #[test]
    fn only_a_leading_star_label_has_a_wildcard_parent() {
        for (pattern, expected) in [
            ("*.a.test", Some("a.test")),
            ("*.*.test", None),
            ("x*.test", None),
            (".a.test", None),
            ("*", None),
        ] {
            let pattern: HostPattern = pattern.parse().unwrap();
            assert_eq!(pattern.wildcard_parent(), expected, "{pattern}");
        }
    }
}
