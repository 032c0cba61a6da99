//! How a request is put to whoever takes it: its HTTP version, and the form of its target.

use std::sync::Arc;

use wayleave_robots_txt::{Origin, Scheme};

use super::egress::Parent;

/// The HTTP version that a request prefers on the way to its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Preference {
    /// HTTP/1.1 and nothing else: only there can the request be said.
    OnlyHttp1,
    /// The same for a request that may make the connection one of another protocol: it needs one that leads to the origin itself.
    Upgrade,
    /// HTTP/1.1, as the client speaks it, which needs no translation; HTTP/2 if the origin takes nothing else.
    Http1,
    /// HTTP/2 if the origin takes it.
    Http2,
}

/// The form of a request's target in HTTP/1 (RFC 9112 section 3.2).
#[derive(Clone, Debug)]
pub(crate) enum Form {
    /// For the origin: a path.
    Origin,
    /// For a parent proxy that forwards it: the whole URL, and what the parent is to know of us.
    Absolute(Arc<Parent>),
}

impl Form {
    /// How `origin` is asked through `parent`, if there is one. A parent forwards plain HTTP, and FTP as far as it speaks it; for all else it opens a tunnel, and
    /// so it does where the connection may become a WebSocket (RFC 6455 section 4.1).
    pub(super) fn of(
        parent: Option<&Arc<Parent>>,
        origin: &Origin,
        preference: Preference,
    ) -> Self {
        match parent.filter(|parent| parent.takes_requests()) {
            Some(parent)
                if origin.scheme() != Scheme::Https && preference != Preference::Upgrade =>
            {
                Self::Absolute(Arc::clone(parent))
            }
            _ => Self::Origin,
        }
    }

    /// The parent that is asked.
    pub(crate) fn parent(&self) -> Option<&Parent> {
        match self {
            Self::Origin => None,
            Self::Absolute(parent) => Some(parent),
        }
    }
}
