//! Where a fetch goes that is not for the robots.txt of the origin a crawler asked for: who named the host, and what has to be
//! passed first.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use wayleave_robots_txt::lifecycle::FetchError;
use wayleave_robots_txt::{Kind, Target};

/// Who named the host that is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ChosenBy {
    #[default]
    Crawler,
    /// A redirect or a robots.txt, and all before it are at internal addresses.
    Internal,
    /// A redirect or a robots.txt, and one before it is at a public address: what is internal is not for the public to name, not even where
    /// it is open to crawlers.
    Public,
}

impl ChosenBy {
    /// Who names the next host, after one that is at a public address or not.
    pub(crate) fn then(self, is_public: bool) -> Self {
        match self {
            Self::Crawler | Self::Internal if !is_public => Self::Internal,
            _ => Self::Public,
        }
    }
}

/// Where a fetch goes: a redirect, a document beside robots.txt, or the robots.txt of the host that one is on.
#[derive(Clone, Debug)]
pub(crate) struct Redirect {
    pub(crate) target: Target,
    /// What is fetched.
    pub(crate) kind: Kind,
    /// It is at the origin whose document is fetched.
    pub(crate) is_at_home: bool,
    /// No redirect leads there.
    pub(crate) is_first: bool,
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

/// What each of them has to pass: it has the request sent, or says why it is not.
pub(crate) type Gate = Box<
    dyn for<'a> Fn(
            Redirect,
            Asking<'a>,
        ) -> Pin<Box<dyn Future<Output = Result<(), FetchError>> + Send + 'a>>
        + Send
        + Sync,
>;
