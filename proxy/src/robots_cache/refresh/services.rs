//! The services and settings of the refresh task.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;
use wayleave_lifecycle::LifetimeSettings;

use crate::clock::Clock;
use crate::robots_cache::changes::RobotsChange;
use crate::robots_cache::fleet_entries::FleetEntries;
use crate::robots_cache::snapshots::SnapshotMap;
use crate::robots_cache::store::RobotsStore;
use crate::telemetry::metrics::Metrics;

/// The services that the task uses.
pub(crate) struct RefreshServices {
    pub(crate) published: Arc<SnapshotMap>,
    pub(crate) store: RobotsStore,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) fleet_entries: FleetEntries,
    /// For those who count changes.
    pub(crate) changes: broadcast::Sender<RobotsChange>,
}

/// The settings of the task, which a reload may change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RefreshSettings {
    pub(crate) lifetimes: LifetimeSettings,
    pub(crate) fetch_timeout: Duration,
    pub(crate) memory_bytes: usize,
}
