//! The proxy's own requests, which go where no crawler asked to go, and the policy that admits them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use wayleave_lifecycle::{FetchError, FetchIdentity};
use wayleave_robots_txt::Target;
use wayleave_usage_preferences::DocumentKind;

/// A request of the proxy's own: a redirect of a robots.txt, a document next to it, or the robots.txt of another host that
/// has such a document. The robots.txt of a host that a crawler chose is not: the crawler's request needs it.
#[derive(Clone, Debug)]
pub struct OwnRequest {
    pub target: Target,
    /// The identity that it is sent as.
    pub identity: Arc<FetchIdentity>,
    /// The kind of document that is fetched.
    pub kind: DocumentKind,
    /// Whether it is at the origin whose document is fetched.
    pub is_same_origin: bool,
    /// Whether it is the first request of the fetch, so that no redirect led there.
    pub is_first: bool,
}

/// The response to the proxy's own request.
#[derive(Clone, Copy, Debug)]
pub struct OwnRequestAnswer {
    pub status: u16,
    pub retry_after: Option<Duration>,
}

/// The rules for the proxy's own requests. An implementation is made before the cache and knows nothing of it.
pub trait OwnRequestPolicy: Send + Sync {
    /// Waits until a request may be sent.
    ///
    /// # Errors
    ///
    /// If it is refused. The refusal is recorded.
    fn admit<'a>(
        &'a self,
        own_request: &'a OwnRequest,
    ) -> BoxFuture<'a, Result<Admission<'a>, FetchError>>;
}

/// A request that may be sent.
pub type Admission<'a> = Box<dyn AdmittedOwnRequest + 'a>;

/// An admitted request. Dropped unfinished, such as when the fetch times out, it is recorded as given up.
pub trait AdmittedOwnRequest: Send {
    /// Records the response, or why there is none.
    fn finish(self: Box<Self>, answer: Result<OwnRequestAnswer, &FetchError>);
}
