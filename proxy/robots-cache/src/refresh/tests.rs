use tokio::sync::broadcast;
use wayleave_clock::Clock;
use wayleave_fairness::WorkPool;
use wayleave_fleet::Fleet;
use wayleave_lifecycle::FetchRequest;
use wayleave_telemetry::metrics::Metrics;

use super::*;
use crate::fetch::FetchedDocument;
use crate::fleet_entries::FleetEntries;
use crate::snapshots::SnapshotMap;
use crate::{RobotsCacheConfig, RobotsStore};

struct NoFetcher;

impl DocumentFetcher for NoFetcher {
    async fn fetch(&self, _: FetchRequest, _: Option<&[u8]>) -> FetchedDocument {
        unreachable!("no fetch is started")
    }
}

fn task() -> RefreshTask<NoFetcher> {
    let clock = Clock::start();
    let metrics = Arc::new(Metrics::new().unwrap());
    let services = RefreshServices {
        published: Arc::new(SnapshotMap::new()),
        store: RobotsStore::in_memory(clock, metrics.clone()),
        clock,
        metrics,
        fleet_entries: FleetEntries { fleet: Fleet::default(), clock, parser: WorkPool::new() },
        changes: broadcast::channel(1).0,
    };
    let config = RobotsCacheConfig::default();
    let (_, events) = mpsc::channel(1);
    RefreshTask::new(NoFetcher, services, events, config.refresh_settings(), config.fetch_limits)
}

#[tokio::test]
async fn requests_that_left_do_not_count_as_waiting() {
    let mut task = task();
    let resource = Resource::parse("https://shop.example").unwrap();
    assert_eq!(task.purpose(&resource), FetchPurpose::RefreshAhead);
    let (reply, request) = oneshot::channel();
    task.waiting.entry(resource.clone()).or_default().push(reply);
    assert_eq!(task.purpose(&resource), FetchPurpose::Requested);
    drop(request);
    assert_eq!(task.purpose(&resource), FetchPurpose::RefreshAhead);
    task.forced.insert(resource.clone());
    assert_eq!(task.purpose(&resource), FetchPurpose::Forced);
}
