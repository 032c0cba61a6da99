//! The form of a request to its next hop: the HTTP version, and the form of the target.

use std::sync::Arc;

use wayleave_robots_txt::{Origin, UrlScheme};

use super::egress::ParentProxy;

/// The HTTP version that a request prefers on its way to the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VersionPreference {
    /// HTTP/1.1 only: HTTP/2 cannot express the request.
    OnlyHttp1,
    /// HTTP/1.1 on a connection that leads to the origin itself, because the request may upgrade it.
    Upgrade,
    /// HTTP/1.1, as the client uses it, so that nothing is translated; HTTP/2 if the origin supports nothing else.
    Http1,
    /// HTTP/2 if the origin supports it.
    Http2,
}

/// The form of a request's target in HTTP/1 (RFC 9112 section 3.2).
#[derive(Clone, Debug)]
pub enum TargetForm {
    /// Origin-form, for the origin: a path.
    Origin,
    /// Absolute-form, for a parent proxy that forwards the request and gets our credentials.
    Absolute(Arc<ParentProxy>),
}

impl TargetForm {
    /// Returns the form of requests to `origin` through `parent`, if there is one. HTTP parents forward plain HTTP
    /// and FTP. For all else, and for connections that may become a WebSocket (RFC 6455 section 4.1), they open a
    /// tunnel.
    pub(super) fn choose(
        parent: Option<&Arc<ParentProxy>>,
        origin: &Origin,
        preference: VersionPreference,
    ) -> Self {
        match parent.filter(|parent| parent.forwards_http()) {
            Some(parent)
                if origin.scheme() != UrlScheme::Https
                    && preference != VersionPreference::Upgrade =>
            {
                Self::Absolute(Arc::clone(parent))
            }
            _ => Self::Origin,
        }
    }

    /// Returns the parent that forwards the request.
    pub fn parent(&self) -> Option<&ParentProxy> {
        match self {
            Self::Origin => None,
            Self::Absolute(parent) => Some(parent),
        }
    }
}
