//! The copies that clients are sent.

use std::time::SystemTime;

use wayleave_evidence::Sha256Digest;
use wayleave_lifecycle::{FetchEnding, FetchOutcome, FetchedBody, FetchedResponse, ResponseFields};

use super::super::*;
use super::handle::{ScriptedFetch, origin, started};

/// The start of the caches' clocks: the store forgets what is much older.
fn fetched_at() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

/// Saves a robots.txt, and returns its digest.
fn save(robots: &RobotsCache, origin: &Origin, bytes: &[u8]) -> [u8; 32] {
    let digest = Sha256Digest::of(bytes).0;
    let body = FetchedBody { bytes: bytes.into(), is_cut: false, digest: Some(digest.into()) };
    let outcome = FetchOutcome {
        redirects: Vec::new(),
        uri: origin.robots_txt_uri(),
        ending: FetchEnding::Response(FetchedResponse {
            status: 200,
            fields: ResponseFields::default(),
            body,
        }),
    };
    let entry = CacheEntry::default().after_fetch(FinishedFetch::of_proxy(outcome, fetched_at()));
    robots.store().save(origin, Arc::new(entry));
    digest
}

#[tokio::test]
async fn clients_that_are_sent_a_copy_share_it() {
    let robots = started(&ScriptedFetch::default());
    let shop = origin("shop");
    let proxy = FetchIdentity::proxy();
    let digest = save(&robots, &shop, b"User-agent: *\n");
    // Read from the database, each copy would be another.
    robots.store().flush().await;
    let copies = (0..3).map(|_| robots.stored_copy(&shop, &proxy, &digest, fetched_at()));
    let copies: Vec<_> = futures_util::future::join_all(copies).await;
    let first = copies[0].as_ref().expect("it is stored");
    assert_eq!(&*first.outcome.body().expect("a body").bytes, b"User-agent: *\n");
    assert!(copies.iter().flatten().all(|copy| Arc::ptr_eq(copy, first)));
    assert_eq!(copies.iter().flatten().count(), 3);
}

#[tokio::test]
async fn only_the_copy_that_decided_is_sent() {
    let robots = started(&ScriptedFetch::default());
    let shop = origin("shop");
    let proxy = FetchIdentity::proxy();
    let before = save(&robots, &shop, b"User-agent: *\n");
    let held = robots.stored_copy(&shop, &proxy, &before, fetched_at()).await;
    assert!(held.is_some());
    let later = fetched_at() + Duration::from_secs(1);
    assert!(
        robots.stored_copy(&shop, &proxy, &before, later).await.is_none(),
        "it was confirmed since"
    );
    let now = save(&robots, &shop, b"User-agent: *\nDisallow: /\n");
    assert!(robots.stored_copy(&shop, &proxy, &now, fetched_at()).await.is_some());
    assert!(robots.stored_copy(&shop, &proxy, &before, fetched_at()).await.is_none());
}

#[tokio::test]
async fn a_copy_that_was_sent_is_not_unpacked_again() {
    let robots = started(&ScriptedFetch::default());
    let shop = origin("shop");
    let proxy = FetchIdentity::proxy();
    let digest = save(
        &robots,
        &shop,
        b"User-agent: *
",
    );
    drop(robots.stored_copy(&shop, &proxy, &digest, fetched_at()).await.expect("it is stored"));
    robots.store().forget(&shop);
    assert!(robots.stored_copy(&shop, &proxy, &digest, fetched_at()).await.is_some());
}

#[tokio::test]
async fn slow_clients_hold_no_more_than_the_limit() {
    let robots = started(&ScriptedFetch::default());
    let proxy = FetchIdentity::proxy();
    let long = vec![b'#'; 12 << 20];
    let copy = async |name: &str, bytes: &[u8]| {
        let origin = origin(name);
        let digest = save(&robots, &origin, bytes);
        // No more than one is to wait for the disk: the store would lose the rest.
        robots.store().flush().await;
        robots.stored_copy(&origin, &proxy, &digest, fetched_at()).await
    };
    let mut held = Vec::new();
    for name in ["one", "two", "three"] {
        held.push(copy(name, &long).await.expect("it is stored"));
    }
    assert!(copy("short", b"").await.is_none(), "36 MiB are being sent");
    held.pop();
    assert!(copy("short", b"").await.is_some());
}

#[tokio::test]
async fn the_head_of_a_copy_is_known_once_it_was_read() {
    let robots = started(&ScriptedFetch::default());
    let shop = origin("shop");
    let proxy = FetchIdentity::proxy();
    let digest = save(&robots, &shop, b"User-agent: *\n");
    assert!(robots.stored_head(&shop, &proxy, &digest, fetched_at()).is_none());
    drop(robots.stored_copy(&shop, &proxy, &digest, fetched_at()).await.expect("it is stored"));
    let head = robots.stored_head(&shop, &proxy, &digest, fetched_at()).expect("it is known");
    assert_eq!(head.body_bytes, 14);
    assert!(head.fetch.outcome.body().is_some_and(|body| body.bytes.is_empty()));
    let later = fetched_at() + Duration::from_secs(1);
    assert!(robots.stored_head(&shop, &proxy, &digest, later).is_none(), "it was confirmed since");
    assert!(robots.stored_head(&shop, &proxy, &[0; 32], fetched_at()).is_none());
}

#[tokio::test]
async fn the_copy_of_one_origin_does_not_wait_for_that_of_another() {
    let robots = started(&ScriptedFetch::default());
    let proxy = FetchIdentity::proxy();
    let shop = origin("shop");
    let other = origin("other");
    let digest = save(&robots, &other, b"User-agent: *\n");
    robots.store().flush().await;
    let _reading = robots.copies.hold_reading(&(&shop).into()).await;
    assert!(robots.stored_copy(&other, &proxy, &digest, fetched_at()).await.is_some());
    let same = robots.stored_copy(&shop, &proxy, &digest, fetched_at());
    assert!(futures_util::poll!(std::pin::pin!(same)).is_pending());
}
