//! Redirects of a robots.txt: who named the host, and what each has to pass before it is followed.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use wayleave_policy::Target;
use wayleave_policy::lifecycle::FetchError;

/// Who named the host that is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChosenBy {
    Crawler,
    /// A redirect, and all before it are at internal addresses.
    Internal,
    /// A redirect, and one before it is at a public address: what is internal is not for the public to name, not even where
    /// it is open to crawlers.
    Public,
}

impl ChosenBy {
    /// Who names the next host, after one that is at a public address or not.
    pub(super) fn then(self, is_public: bool) -> Self {
        match self {
            Self::Crawler | Self::Internal if !is_public => Self::Internal,
            _ => Self::Public,
        }
    }
}

/// Where a robots.txt is redirected to.
#[derive(Clone, Debug)]
pub(crate) struct Redirect {
    pub(crate) target: Target,
}

/// What was answered there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<Duration>,
}

/// A request that is sent when this is awaited.
pub(crate) type Asking<'a> =
    Pin<Box<dyn Future<Output = Result<Answered, FetchError>> + Send + 'a>>;

/// What every redirect has to pass: it has the request sent, or says why it is not.
pub(crate) type Gate = Box<
    dyn for<'a> Fn(
            Redirect,
            Asking<'a>,
        ) -> Pin<Box<dyn Future<Output = Result<(), FetchError>> + Send + 'a>>
        + Send
        + Sync,
>;
