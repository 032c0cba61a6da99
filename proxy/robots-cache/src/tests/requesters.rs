//! Requesters: their shares, their departure, and the identities of fetches.

use tokio::time::Instant;
use wayleave_lifecycle::FetchErrorKind;

use super::super::*;
use super::handle::{Answer, DAY, ScriptedFetch, name_tarpits, of, origin, settle, start, started};
const ONE_AT_A_TIME: FetchLimits = FetchLimits { total: 1, per_host: 1, reserved: 0 };

#[tokio::test(start_paused = true)]
async fn a_requester_that_joins_during_a_store_read_counts() {
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    let naming = name_tarpits(&fetch, &robots, 0..3000);
    settle().await;
    let shop = origin("shop");
    let started_at = Instant::now();
    // The second joins while the store reads the file for the first, who has many documents queued.
    let (first, second) = tokio::join!(
        robots.find_for(&shop, of("attacker", 1)),
        robots.find_for(&shop, of("news", 2)),
    );
    assert!(first.is_ok() && second.is_ok());
    assert!(started_at.elapsed() < Duration::from_millis(10));
    drop(naming);
}

#[tokio::test(start_paused = true)]
async fn an_operators_fetch_is_used_like_any_other() {
    let fetch = ScriptedFetch::default();
    let (robots, _) = start(&fetch, ONE_AT_A_TIME);
    let shop = origin("shop");
    robots.refresh(&shop).await.unwrap();
    tokio::time::sleep(2 * DAY).await;
    let naming = name_tarpits(&fetch, &robots, 0..1);
    settle().await;
    let started_at = Instant::now();
    assert!(robots.find_for(&shop, of("news", 2)).await.is_ok());
    assert!(started_at.elapsed() < Duration::from_secs(1), "a good copy is used");
    assert_eq!(fetch.fetches(), 2, "the refetch is still queued");
    naming.join_all().await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_attempt_is_repeated_for_the_next_reader() {
    let fetch = ScriptedFetch::default();
    let (robots, _) = start(&fetch, ONE_AT_A_TIME);
    let shop = origin("shop");
    robots.find(&shop).await.unwrap();
    tokio::time::sleep(2 * DAY).await;
    fetch.answer(&shop, Answer::Fails(FetchErrorKind::Connect));
    robots.find(&shop).await.unwrap();
    tokio::time::sleep(Duration::from_secs(90)).await;
    let naming = name_tarpits(&fetch, &robots, 0..1);
    settle().await;
    assert!(robots.cached(&shop).is_some(), "another attempt is due");
    settle().await;
    // An operator wants it as well, and leaves before it starts.
    let left = tokio::time::timeout(Duration::from_secs(1), robots.refresh(&shop)).await;
    assert!(left.is_err());
    naming.join_all().await;
    settle().await;
    assert_eq!(fetch.fetches(), 3, "nobody waits for it");
    assert!(robots.cached(&shop).is_some());
    settle().await;
    assert_eq!(fetch.fetches(), 4);
}

#[tokio::test(start_paused = true)]
async fn each_panicking_fetch_lengthens_the_back_off() {
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    let bad = origin("bad");
    fetch.answer(&bad, Answer::Panics);
    for failures in 1..5 {
        let snapshot = robots.find(&bad).await.unwrap().snapshot;
        assert_eq!(snapshot.failures(), failures);
        let pause = snapshot.retry_after(robots.clock().now()).unwrap();
        tokio::time::sleep(pause + Duration::from_secs(1)).await;
    }
}
