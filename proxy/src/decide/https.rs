//! What becomes of HTTPS: intercepted, tunnelled uninspected, or refused.

use wayleave_robots_txt::HostPattern;

/// What a `CONNECT` leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum HttpsMode {
    /// TLS is ended here, and every request inside is judged.
    #[default]
    Intercept,
    /// TLS passes unseen, to origins whose robots.txt lets the crawler fetch every path.
    Tunnel,
    /// Nothing.
    Refuse,
}

impl HttpsMode {
    /// The spelling used in configuration.
    #[must_use]
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Intercept => "intercept",
            Self::Tunnel => "tunnel",
            Self::Refuse => "refuse",
        }
    }
}

/// Part of `[https]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InterceptionSettings {
    /// For hosts that no pattern below is for. Default: intercept.
    pub(crate) mode: HttpsMode,
    /// Hosts that are tunnelled unseen on purpose, whatever their robots.txt says.
    pub(crate) bypass: Vec<HostPattern>,
}

/// What a `CONNECT` to a host leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpsHandling {
    Mode(HttpsMode),
    /// A tunnel, on purpose.
    Bypass,
}

impl InterceptionSettings {
    /// `host` is spelt as `Origin::host` gives it.
    pub(crate) fn handling_of(&self, host: &str) -> HttpsHandling {
        if self.bypass.iter().any(|pattern| pattern.matches(host)) {
            HttpsHandling::Bypass
        } else {
            HttpsHandling::Mode(self.mode)
        }
    }
}
