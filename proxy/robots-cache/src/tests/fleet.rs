//! Caches that share their entries in a fleet.

use std::time::SystemTime;

use wayleave_fleet::engine::{RecordChange, Settlement, SharedEngine as _, SharedRecord};
use wayleave_fleet::memory::MemoryEngine;
use wayleave_robots_txt::AccessVerdict;

use super::super::*;
use super::handle::{Answer, DAY, ScriptedFetch, origin, private, settle};

/// The number of notes that an engine keeps.
const MAX_NOTES: usize = 10_000;
const NO_RULES: &str = "User-agent: *\nDisallow:\n";

/// Starts the cache of another node of a fleet.
pub(super) async fn joined(
    fetch: &ScriptedFetch,
    memory: &MemoryEngine,
    name: &str,
) -> RobotsCache {
    let metrics = Arc::new(Metrics::new().unwrap());
    let clock = Clock::start_at(SystemTime::UNIX_EPOCH + 20_000 * DAY);
    let store = RobotsStore::in_memory(clock, metrics.clone());
    let cached = CachedDocuments::new(clock, metrics);
    let fleet = memory.join(name).await;
    let config = RobotsCacheConfig::default();
    let (robots, refresh) =
        RobotsCache::start_in_fleet(fetch.clone(), store, &config, cached, fleet);
    tokio::spawn(refresh);
    robots
}

#[tokio::test(start_paused = true)]
async fn a_result_after_losing_the_lease_is_not_used() {
    let memory = MemoryEngine::new("");
    let late = ScriptedFetch::default();
    let fetch = ScriptedFetch::default();
    let one = joined(&late, &memory, "one").await;
    let other = joined(&fetch, &memory, "other").await;
    let shop = origin("shop");
    late.answer(&shop, Answer::Says(NO_RULES.to_owned()));
    let gate = late.close_gate();
    let waiting = tokio::spawn({
        let one = one.clone();
        let shop = shop.clone();
        async move { one.find(&shop).await.map(drop) }
    });
    settle().await;
    assert_eq!(late.fetches(), 1);
    // The second node waits while the first holds the lease.
    drop(other.find(&shop).await);
    tokio::time::sleep(Duration::from_secs(20)).await;
    let found = other.cached(&shop).unwrap().snapshot;
    assert_eq!(private(&other, &found), AccessVerdict::Disallow);
    late.open_gate(&gate);
    drop(waiting.await);
    settle().await;
    let known = one.cached(&shop).unwrap().snapshot;
    assert_eq!(private(&one, &known), AccessVerdict::Disallow);
    assert_eq!([late.fetches(), fetch.fetches()], [1, 1]);
}

#[tokio::test(start_paused = true)]
async fn documents_are_looked_up_after_notes_were_lost() {
    let memory = MemoryEngine::new("engine");
    let fetch = ScriptedFetch::default();
    let other_fetch = ScriptedFetch::default();
    let one = joined(&fetch, &memory, "one").await;
    let other = joined(&other_fetch, &memory, "other").await;
    let shop = origin("shop");
    let key = Resource::from(&shop).to_string();
    let version = async || memory.record(&key).await.unwrap().map(|record| record.version);
    let found = one.find(&shop).await.unwrap().snapshot;
    assert_eq!(private(&one, &found), AccessVerdict::Disallow);
    // Long enough for the next answer to count as newer.
    tokio::time::sleep(Duration::from_millis(60_100)).await;
    let before = version().await;
    assert!(before.is_some());
    other_fetch.answer(&shop, Answer::Says(NO_RULES.to_owned()));
    other.refresh(&shop).await.unwrap();
    // Time must not pass until the note about it is lost, or it would be read.
    while version().await == before {
        tokio::task::yield_now().await;
    }
    let unrelated = Settlement {
        origin: Resource::from(origin("unrelated")).to_string(),
        token: 0,
        change: RecordChange::Forgotten,
        record: SharedRecord { bytes: Vec::new(), age: Duration::ZERO, version: 0 },
        fresh_for: Duration::ZERO,
        retention: Duration::ZERO,
    };
    for _ in 0..=MAX_NOTES {
        memory.settle(&unrelated).await.unwrap();
    }
    let found = one.cached(&shop).unwrap().snapshot;
    assert_eq!(private(&one, &found), AccessVerdict::Disallow, "nothing was read yet");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let found = one.cached(&shop).unwrap().snapshot;
    assert_eq!(private(&one, &found), AccessVerdict::Allow);
    assert_eq!(fetch.fetches(), 1, "it was read from the fleet");
}
