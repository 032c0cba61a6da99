//! Requests of a fetch that go where the crawler did not ask to go, and the check that they have to pass.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use wayleave_robots_txt::lifecycle::FetchError;
use wayleave_robots_txt::{DocumentKind, Target};

/// The party that chose a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ChosenBy {
    #[default]
    Crawler,
    /// A redirect or a robots.txt, with only internal addresses before it.
    Internal,
    /// A redirect or a robots.txt, with a public address before it. A public server must not send us to an internal
    /// one, not even to one that crawlers may use.
    Public,
}

impl ChosenBy {
    /// Returns who chooses the next host, after one whose address is public or not.
    pub(crate) fn for_next_host(self, is_public: bool) -> Self {
        match self {
            Self::Crawler | Self::Internal if !is_public => Self::Internal,
            _ => Self::Public,
        }
    }
}

/// A request that somebody other than the crawler caused: a redirect, a document next to robots.txt, or the robots.txt
/// of the host that has one.
#[derive(Clone, Debug)]
pub(crate) struct RedirectRequest {
    pub(crate) target: Target,
    /// The kind of document that is fetched.
    pub(crate) kind: DocumentKind,
    /// Whether it is at the origin whose document is fetched.
    pub(crate) is_same_origin: bool,
    /// Whether it is the first request of the fetch, so that no redirect led there.
    pub(crate) is_first: bool,
}

/// The response to such a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RedirectAnswer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<Duration>,
}

/// The request itself, which is sent when this future is polled.
pub(crate) type RedirectExchange<'a> =
    Pin<Box<dyn Future<Output = Result<RedirectAnswer, FetchError>> + Send + 'a>>;

/// The check of such a request: sends it, or returns why it is not sent.
pub(crate) type RedirectGate = Box<
    dyn for<'a> Fn(
            RedirectRequest,
            RedirectExchange<'a>,
        ) -> Pin<Box<dyn Future<Output = Result<(), FetchError>> + Send + 'a>>
        + Send
        + Sync,
>;
