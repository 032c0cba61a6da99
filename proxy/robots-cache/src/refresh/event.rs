//! The messages to the refresh task.

use std::sync::Arc;

use tokio::sync::oneshot;
use wayleave_lifecycle::{FetchIdentity, Resource, Snapshot};

use super::services::RefreshSettings;
use crate::queue::FairnessKey;

/// A message from a cache handle to the task.
pub(crate) enum CacheEvent {
    /// A request cannot go on without this document.
    Demand(Resource, FetchDemand, oneshot::Sender<Arc<Snapshot>>),
    /// A request used the cached copy, but another attempt to reach the origin is due.
    Overdue(Resource),
    /// The rules of an entry take more memory than when it was published.
    MemoryGrew,
    /// An operator wants the document fetched now.
    Refresh(Resource, oneshot::Sender<Arc<Snapshot>>),
    /// An operator wants the document forgotten. The reply says whether it was in memory.
    Forget(Resource, oneshot::Sender<bool>),
    /// Asks whether a fetch is in progress.
    IsFetching(Resource, oneshot::Sender<bool>),
    /// The configuration was reloaded.
    Reconfigure(RefreshSettings, oneshot::Sender<()>),
    /// Asks for the settings in effect.
    #[cfg(any(test, feature = "test-util"))]
    Settings(oneshot::Sender<RefreshSettings>),
    /// Ends all fetches, and is answered once none is running. From then on only [`Self::Close`] is answered.
    StopFetching(oneshot::Sender<()>),
    /// The last message. It is answered once everything learned is on disk.
    Close(oneshot::Sender<()>),
}

/// A waiting request's share and identity.
pub(crate) struct FetchDemand {
    pub key: FairnessKey,
    pub identity: Arc<FetchIdentity>,
    /// The proxies that the request passed through.
    pub via: Option<Arc<[u8]>>,
}
