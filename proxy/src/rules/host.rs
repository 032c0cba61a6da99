//! Which hosts a rule is for.

use std::fmt;
use std::str::FromStr;

use wayleave_policy::{Origin, Scheme};

/// A host, a suffix or a glob, all in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    /// `*`: every host.
    Any,
    /// `shop.example`: this host, as A-labels, or an IP address.
    Exact(String),
    /// `.example.com`: the host after the dot and all below it. Held without the dot.
    Suffix(String),
    /// `*.example.com`, `shop-*.example`: `*` stands for any characters, dots among them.
    Glob(String),
}

impl HostPattern {
    /// Whether the pattern is for `host`, which is in lower case and A-labels.
    pub(crate) fn matches(&self, host: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(exact) => exact == host,
            Self::Suffix(suffix) => {
                let before = host.strip_suffix(suffix.as_str());
                before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
            }
            Self::Glob(glob) => glob_matches(glob, host),
        }
    }

    /// The longest name of whole labels that every matching host ends in.
    pub(super) fn ending(&self) -> Option<&str> {
        match self {
            Self::Any => None,
            Self::Exact(host) | Self::Suffix(host) => Some(host),
            Self::Glob(glob) => {
                let literal = &glob[glob.rfind('*').map_or(0, |at| at + 1)..];
                let labels = literal.split_once('.').map(|(_, labels)| labels)?;
                Some(labels).filter(|labels| !labels.is_empty())
            }
        }
    }

    /// The first label of every matching host, if they all have the same.
    pub(super) fn beginning(&self) -> Option<&str> {
        match self {
            Self::Glob(glob) => {
                let first = glob.split('.').next().unwrap_or_default();
                (first.len() < glob.len() && !first.contains('*')).then_some(first)
            }
            _ => None,
        }
    }
}

/// `*` stands for any characters.
fn glob_matches(glob: &str, text: &str) -> bool {
    let mut parts = glob.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

impl FromStr for HostPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let canonical = |host: &str| {
            // A port that one scheme leaves out shows with the other.
            let is_plain = |origin: &Origin| origin.authority() == origin.host();
            let read = |scheme| Origin::from_authority(scheme, host).ok().filter(is_plain);
            let plain = read(Scheme::Http).zip(read(Scheme::Https));
            plain
                .map(|(origin, _)| origin.host().to_owned())
                .ok_or_else(|| {
                    format!(
                        "{text:?} is no host, suffix (\".example.com\") or glob (\"*.example.com\")"
                    )
                })
        };
        if text == "*" {
            return Ok(Self::Any);
        }
        if text.contains('*') {
            // Every `*` as a label of its own characters, so that the rest is checked as a host is.
            let checked = canonical(&text.replace('*', "w0w"));
            return checked.map(|_| Self::Glob(text.to_ascii_lowercase()));
        }
        match text.strip_prefix('.') {
            Some(suffix) => canonical(suffix).map(Self::Suffix),
            None => canonical(text).map(Self::Exact),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_matches_its_hosts() {
        let cases = [
            ("*", "a.test", true),
            ("Shop.Test", "shop.test", true),
            ("shop.test", "www.shop.test", false),
            ("b\u{fc}cher.test", "xn--bcher-kva.test", true),
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
            ("[::1]", "[::1]", true),
        ];
        for (pattern, host, expected) in cases {
            let pattern: HostPattern = pattern.parse().unwrap();
            assert_eq!(pattern.matches(host), expected, "{pattern} {host}");
            if expected {
                let ending = pattern.ending().unwrap_or_default();
                assert!(
                    host == ending || ending.is_empty() || host.ends_with(&format!(".{ending}"))
                );
                assert!(
                    pattern
                        .beginning()
                        .is_none_or(|first| host.starts_with(first))
                );
            }
        }
        for wrong in [
            "",
            "a b",
            "http://a.test",
            "a.test:80",
            "a.test:8443",
            "a..test",
            "*.a/b",
        ] {
            assert!(wrong.parse::<HostPattern>().is_err(), "{wrong}");
        }
    }
}
