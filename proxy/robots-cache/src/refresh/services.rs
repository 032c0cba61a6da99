//! The services and settings of the refresh task.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;
use wayleave_clock::Clock;
use wayleave_lifecycle::LifetimeSettings;
use wayleave_telemetry::metrics::Metrics;

use crate::changes::RobotsChange;
use crate::fleet_entries::FleetEntries;
use crate::snapshots::SnapshotMap;
use crate::store::RobotsStore;

/// The services that the task uses.
pub(crate) struct RefreshServices {
    pub published: Arc<SnapshotMap>,
    pub store: RobotsStore,
    pub clock: Clock,
    pub metrics: Arc<Metrics>,
    pub(crate) fleet_entries: FleetEntries,
    /// For those who count changes.
    pub changes: broadcast::Sender<RobotsChange>,
}

/// The settings of the task, which a reload may change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RefreshSettings {
    pub lifetimes: LifetimeSettings,
    pub fetch_timeout: Duration,
    pub memory_bytes: usize,
}
