//! The refusal of a request: the reason, and the answer that the client gets.

use std::borrow::Cow;
use std::time::Duration;

use crate::crawler::EnforcementMode;
use crate::reason::{DefaultAnswer, Reason};
use crate::stated_preference::StatedPreference;

/// A rule of a robots.txt.
#[derive(Clone, Debug)]
pub struct DecidingRule {
    /// The line of the file, from 1.
    pub line: u32,
    /// The rule as written, such as `Disallow: /private`.
    pub text: String,
    /// The name in the `User-agent` line by which its group is the crawler's, such as `*`.
    pub group: Option<String>,
}

/// The basis of a refusal: a statement of the site, or a hop that failed.
#[derive(Clone, Debug)]
pub enum RefusalBasis {
    /// A rule of a robots.txt.
    Rule(DecidingRule),
    /// A statement about use.
    Preference(StatedPreference),
    /// The parent proxy of this host and port.
    ParentProxy(Box<str>),
}

/// The answer of the proxy in the origin's place.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The reason, from a closed set.
    pub reason: Reason,
    /// The status code of the answer.
    pub status: u16,
    /// The reason phrase, and the title of the problem details.
    pub title: &'static str,
    /// The error type in `Proxy-Status` (RFC 9209 section 2.3).
    pub proxy_error: &'static str,
    /// The reason as a sentence for people.
    pub details: Cow<'static, str>,
    /// The robots.txt that decided, or that could not be fetched.
    pub robots_url: Option<Box<str>>,
    /// The statement that decided, or the hop that failed.
    pub basis: Option<Box<RefusalBasis>>,
    /// The time after which the client should ask again.
    pub retry_after: Option<Duration>,
    /// The URI of the entity that blocks because of a legal demand (RFC 7725).
    pub blocked_by: Option<Box<str>>,
    /// Whether policy forbids the request (robots.txt, preferences, rules, budgets), as opposed to the law, or to its being
    /// impossible; mode "observe" forwards it.
    pub is_policy: bool,
    /// Whether the request failed before anything could be decided against it.
    pub is_failure: bool,
    /// Whether the connection must close, because what follows on it may not be a request.
    pub closes_connection: bool,
}

impl Refusal {
    /// Returns a refusal with the usual answer for its reason.
    #[must_use]
    pub fn new(reason: Reason, details: impl Into<Cow<'static, str>>) -> Self {
        let DefaultAnswer { status, title, proxy_error } = reason.default_answer();
        Self {
            reason,
            status,
            title,
            proxy_error,
            details: details.into(),
            robots_url: None,
            basis: None,
            retry_after: None,
            blocked_by: None,
            is_policy: false,
            is_failure: false,
            closes_connection: false,
        }
    }

    /// Returns the refusal of a request that is malformed, or that two readers could read differently.
    #[must_use]
    pub fn malformed(details: impl Into<Cow<'static, str>>) -> Self {
        Self { closes_connection: true, ..Self::new(Reason::MalformedRequest, details) }
    }

    /// Returns a refusal that mode "observe" would only note.
    pub(crate) fn by_policy(reason: Reason, details: impl Into<Cow<'static, str>>) -> Self {
        Self { is_policy: true, ..Self::new(reason, details) }
    }

    /// Returns the parent proxy that failed, if one did.
    #[must_use]
    pub fn parent_proxy(&self) -> Option<&str> {
        match self.basis.as_deref() {
            Some(RefusalBasis::ParentProxy(authority)) => Some(authority),
            _ => None,
        }
    }

    /// Returns the refusal if mode "observe" only notes it.
    ///
    /// # Errors
    ///
    /// Returns the refusal if it has to be enforced.
    pub fn observe_or_refuse(self, mode: EnforcementMode) -> Result<Self, Self> {
        if self.is_policy && mode == EnforcementMode::Observe { Ok(self) } else { Err(self) }
    }
}
