//! What the task is asked for.

use std::sync::Arc;

use tokio::sync::oneshot;
use wayleave_robots_txt::lifecycle::{Resource, Snapshot};

use super::surroundings::Terms;
use crate::robots::fetch::FetchAs;
use crate::robots::queue::Asker;

/// What the handle asks of the task.
pub(crate) enum Event {
    /// A request cannot go on without this origin's robots.txt.
    Wanted(Resource, Wish, oneshot::Sender<Arc<Snapshot>>),
    /// A request went on with what is known, but another attempt to reach the origin is due: as whom, if somebody asked.
    Overdue(Resource, Option<FetchAs>),
    /// What is known of an origin takes more memory than when it was published.
    Grown,
    /// An operator wants it fetched anew.
    Refresh(Resource, oneshot::Sender<Arc<Snapshot>>),
    /// An operator wants it forgotten; whether it was in memory.
    Forget(Resource, oneshot::Sender<bool>),
    /// Whether a fetch is in progress.
    IsFetching(Resource, oneshot::Sender<bool>),
    /// The configuration was read again, and whether it says anything else of crawlers.
    Reconfigure(Terms, bool, oneshot::Sender<()>),
    /// How the task works.
    #[cfg(test)]
    Terms(oneshot::Sender<Terms>),
    /// The last event: what is known is to be on disk when this is answered.
    Close(oneshot::Sender<()>),
}

/// On whose behalf a request waits.
pub(crate) struct Wish {
    pub(crate) asker: Asker,
    pub(crate) fetch_as: FetchAs,
}
