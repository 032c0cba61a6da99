//! The treatment of HTTPS: interception, blind tunnels, or refusal.

use wayleave_robots_txt::{HostPattern, UrlScheme};

use crate::reason::Reason;
use crate::refusal::Refusal;
use crate::target::ResolvedTarget;

/// The treatment of `CONNECT`: `https.mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HttpsMode {
    /// TLS ends at the proxy, and every request inside is judged.
    #[default]
    Intercept,
    /// TLS passes unseen, to origins whose robots.txt lets the crawler fetch every path.
    Tunnel,
    /// No tunnel opens.
    Refuse,
}

impl HttpsMode {
    /// Returns the spelling used in configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Intercept => "intercept",
            Self::Tunnel => "tunnel",
            Self::Refuse => "refuse",
        }
    }
}

/// Part of `[https]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterceptionSettings {
    /// The treatment of hosts that no pattern below matches. Default: intercept.
    pub mode: HttpsMode,
    /// Hosts that are tunnelled unseen on purpose, whatever their robots.txt says.
    pub bypass: Vec<HostPattern>,
}

/// The treatment of `CONNECT` to one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpsHandling {
    /// As `https.mode` says.
    Mode(HttpsMode),
    /// A blind tunnel, on purpose.
    Bypass,
}

impl InterceptionSettings {
    /// Returns the treatment of a host, spelt as `Origin::host` gives it.
    #[must_use]
    pub fn handling_of(&self, host: &str) -> HttpsHandling {
        if self.bypass.iter().any(|pattern| pattern.matches(host)) {
            HttpsHandling::Bypass
        } else {
            HttpsHandling::Mode(self.mode)
        }
    }

    /// Returns the refusal of HTTPS as such: of a tunnel, of a request inside one, and of an `https:` target without one.
    pub(crate) fn refusal(&self, resolved: &ResolvedTarget, is_by_tunnel: bool) -> Option<Refusal> {
        let origin = resolved.target.origin();
        let is_refused = if is_by_tunnel {
            self.handling_of(origin.host()) == HttpsHandling::Mode(HttpsMode::Refuse)
        } else {
            // `https.bypass` is about tunnels, so it excepts no `https:` target without one.
            self.mode == HttpsMode::Refuse && origin.scheme() == UrlScheme::Https
        };
        is_refused.then(|| Refusal {
            closes_connection: is_by_tunnel,
            ..Refusal::by_policy(
                Reason::HttpsRefused,
                "https.mode is \"refuse\": this proxy refuses all HTTPS",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use wayleave_robots_txt::Target;

    use super::*;
    use crate::target::TargetScope;

    #[test]
    fn all_https_is_refused_but_tunnels_to_bypassed_hosts() {
        let settings = InterceptionSettings {
            mode: HttpsMode::Refuse,
            bypass: vec!["bank.test".parse().unwrap()],
        };
        // Whether the connection closes, if it is refused.
        let refused = |url, is_by_tunnel| {
            let target = Target::parse(url).unwrap();
            let resolved = ResolvedTarget { target, scope: TargetScope::Path };
            settings.refusal(&resolved, is_by_tunnel).map(|refusal| refusal.closes_connection)
        };
        for (url, in_a_tunnel, without_one) in [
            ("https://shop.test/", Some(true), Some(false)),
            ("https://bank.test/", None, Some(false)),
            ("http://shop.test/", Some(true), None),
            ("http://bank.test/", None, None),
        ] {
            assert_eq!(
                [refused(url, true), refused(url, false)],
                [in_a_tunnel, without_one],
                "{url}"
            );
        }
    }
}
