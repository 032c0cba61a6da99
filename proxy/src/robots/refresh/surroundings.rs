//! The services and settings of the refresh task.

use std::sync::Arc;
use std::time::Duration;

use wayleave_robots_txt::lifecycle::Lifetimes;

use crate::clock::Clock;
use crate::observe::metrics::Metrics;
use crate::robots::shared::Shared;
use crate::robots::snapshots::Published;
use crate::robots::store::Store;

/// The services that the task uses.
pub(crate) struct Surroundings {
    pub(crate) published: Arc<Published>,
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) shared: Shared,
}

/// The settings of the task, which a reload may change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Terms {
    pub(crate) lifetimes: Lifetimes,
    pub(crate) fetch_timeout: Duration,
    pub(crate) memory_bytes: usize,
}
