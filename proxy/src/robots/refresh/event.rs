//! The messages to the refresh task.

use std::sync::Arc;

use tokio::sync::oneshot;
use wayleave_robots_txt::lifecycle::{Resource, Snapshot};

use super::surroundings::Terms;
use crate::robots::fetch::FetchAs;
use crate::robots::queue::Asker;

/// A message from a cache handle to the task.
pub(crate) enum Event {
    /// A request cannot go on without this document.
    Wanted(Resource, Wish, oneshot::Sender<Arc<Snapshot>>),
    /// A request used the cached copy, but another attempt to reach the origin is due; with the identity to fetch as,
    /// if any.
    Overdue(Resource, Option<FetchAs>),
    /// The rules of an entry take more memory than when it was published.
    Grown,
    /// An operator wants the document fetched now.
    Refresh(Resource, oneshot::Sender<Arc<Snapshot>>),
    /// An operator wants the document forgotten. The reply says whether it was in memory.
    Forget(Resource, oneshot::Sender<bool>),
    /// Asks whether a fetch is in progress.
    IsFetching(Resource, oneshot::Sender<bool>),
    /// The configuration was reloaded; the flag says whether crawlers or their keys changed.
    Reconfigure(Terms, bool, oneshot::Sender<()>),
    /// Asks for the settings in effect.
    #[cfg(test)]
    Terms(oneshot::Sender<Terms>),
    /// The last message. It is answered once everything learned is on disk.
    Close(oneshot::Sender<()>),
}

/// A waiting request's share and identity.
pub(crate) struct Wish {
    pub(crate) asker: Asker,
    pub(crate) fetch_as: FetchAs,
}
