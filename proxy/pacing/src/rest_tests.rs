//! Rests as requests meet them, alone and over the nodes of a fleet.

use wayleave_fleet::memory::MemoryEngine;

use super::tests::{
    DELAY, SHARE, metrics, numbered, options, request, request_of, target, used_up,
};
use super::*;

/// Returns whether a page of `shop.test` rests for the client of this number.
async fn rests_for(pacer: &Pacer, client: u8, path: &str) -> bool {
    let target = Target::parse(&format!("http://shop.test{path}")).unwrap();
    let request = PacedRequest { client: [192, 0, 2, client].into(), ..request(&target, "a") };
    let reject = options(CrawlDelayMode::Reject);
    let slot = pacer.wait_for_slot(&reject, request, Duration::ZERO).await;
    slot.is_err_and(|soon| soon.cause == TooSoonCause::OriginRests)
}

async fn get_503(pacer: &Pacer, client: u8, path: &str) {
    let target = Target::parse(&format!("http://shop.test{path}")).unwrap();
    let request = PacedRequest { client: [192, 0, 2, client].into(), ..request(&target, "a") };
    let reject = options(CrawlDelayMode::Reject);
    let slot = pacer.wait_for_slot(&reject, request, Duration::ZERO).await;
    let retry_after = Some(Duration::from_secs(100));
    slot.unwrap().record_answer(&target, 503, retry_after);
}

#[tokio::test(start_paused = true)]
async fn a_503_rests_page_then_client_then_origin_fleet_wide() {
    let memory = MemoryEngine::new("");
    let joined = async |name| Pacer::in_fleet(&memory.join(name).await, metrics());
    let one = joined("one").await;
    let other = joined("other").await;
    let notified = || tokio::time::sleep(Duration::from_secs(3));
    get_503(&one, 1, "/down").await;
    notified().await;
    for node in [&one, &other] {
        assert!(rests_for(node, 2, "/down").await);
        assert!(!rests_for(node, 1, "/a").await);
    }
    get_503(&other, 1, "/worse").await;
    notified().await;
    for node in [&one, &other] {
        assert!(rests_for(node, 1, "/a").await);
        assert!(!rests_for(node, 2, "/a").await);
    }
    get_503(&one, 2, "/b").await;
    notified().await;
    for node in [&one, &other] {
        assert!(rests_for(node, 3, "/c").await);
    }
    tokio::time::sleep(Duration::from_secs(100)).await;
    for node in [&one, &other] {
        assert!(!rests_for(node, 3, "/c").await);
        assert!(!rests_for(node, 1, "/down").await);
    }
}

#[tokio::test(start_paused = true)]
async fn an_origin_rests_for_every_crawler() {
    let pacer = Pacer::default();
    let reject = options(CrawlDelayMode::Reject);
    let shop = target();
    let slot = |token| pacer.wait_for_slot(&reject, request(&shop, token), Duration::ZERO);
    let hour = Some(Duration::from_secs(3600));
    slot("a").await.unwrap().record_answer(&target(), 429, hour);
    let soon = slot("b").await.err().unwrap();
    assert_eq!((soon.cause, soon.retry_after), (TooSoonCause::OriginRests, reject.max_delay));
    tokio::time::advance(reject.max_delay).await;
    slot("b").await.unwrap().record_answer(&target(), 200, None);
    slot("a").await.unwrap().record_answer(&target(), 429, None);
    let robots_txt = pacer.wait_for_concurrency_slot(&reject, request(&shop, "a")).await;
    robots_txt.unwrap().record_answer(&target(), 200, None);
    for (status, rest) in
        [(429, Some(1)), (429, Some(2)), (429, Some(4)), (200, None), (503, None), (503, Some(1))]
    {
        slot("b").await.unwrap().record_answer(&target(), status, None);
        let soon = slot("a").await.err();
        assert_eq!(soon.map(|soon| soon.retry_after.as_secs()), rest, "{status}");
        tokio::time::advance(Duration::from_secs(rest.unwrap_or_default())).await;
    }
}

#[tokio::test(start_paused = true)]
async fn answers_to_earlier_requests_do_not_end_a_rest() {
    let pacer = Pacer::default();
    let reject = options(CrawlDelayMode::Reject);
    let shop = target();
    let slot =
        async || pacer.wait_for_slot(&reject, request(&shop, "a"), Duration::ZERO).await.unwrap();
    let robots_txt = async || {
        let slot = pacer.wait_for_concurrency_slot(&reject, request(&shop, "a")).await;
        slot.unwrap()
    };
    let rest = async || {
        let soon = pacer.wait_for_slot(&reject, request(&shop, "a"), Duration::ZERO).await;
        soon.err().map(|soon| soon.retry_after)
    };
    let minutes = Duration::from_mins;
    let under_way = [slot().await, slot().await, slot().await, slot().await];
    slot().await.record_answer(&shop, 429, Some(minutes(4)));
    under_way[0].record_answer(&shop, 200, None);
    assert_eq!(rest().await, Some(minutes(4)), "sent before the rest began");
    under_way[1].record_answer(&shop, 429, Some(minutes(1)));
    under_way[2].record_answer(&shop, 429, None);
    assert_eq!(rest().await, Some(minutes(4)), "refused before the rest began");
    let later = robots_txt().await;
    later.record_answer(&shop, 200, None);
    assert_eq!(rest().await, None, "sent during the rest");
    later.record_answer(&shop, 429, Some(minutes(2)));
    tokio::time::advance(minutes(2)).await;
    under_way[3].record_answer(&shop, 200, None);
    slot().await.record_answer(&shop, 429, None);
    let doubled = rest().await;
    assert!(doubled > Some(Duration::from_secs(1)), "{doubled:?}: refusals still count");
}

#[tokio::test(start_paused = true)]
async fn an_exhausted_quota_outlasts_answers_under_way_fleet_wide() {
    let memory = MemoryEngine::new("");
    let joined = async |name| Pacer::in_fleet(&memory.join(name).await, metrics());
    let nodes = [joined("one").await, joined("other").await];
    let ignore = options(CrawlDelayMode::Ignore);
    let reject = options(CrawlDelayMode::Reject);
    let shop = target();
    let slot = async || {
        let slot = nodes[0].wait_for_slot(&reject, request(&shop, "a"), Duration::ZERO).await;
        slot.unwrap()
    };
    let under_way = slot().await;
    let exhausted = slot().await;
    exhausted.record_answer(&shop, 200, None);
    exhausted.record_quota(&shop, &used_up(Duration::from_secs(100)));
    under_way.record_answer(&shop, 200, None);
    tokio::time::sleep(Duration::from_secs(3)).await;
    for node in &nodes {
        assert!(rests_for(node, 3, "/a").await);
    }
    tokio::time::sleep(Duration::from_secs(100)).await;
    for node in &nodes {
        assert!(!rests_for(node, 3, "/a").await);
    }
    slot().await.record_quota(&shop, &used_up(2 * reject.max_delay));
    let soon = nodes[0].wait_for_slot(&reject, request(&shop, "a"), Duration::ZERO).await;
    assert_eq!(soon.err().map(|soon| soon.retry_after), Some(reject.max_delay));
    let other = numbered(1);
    let slot = nodes[0].wait_for_slot(&ignore, request(&other, "a"), Duration::ZERO).await;
    slot.unwrap().record_quota(&other, &used_up(DELAY));
    let next = nodes[0].wait_for_slot(&reject, request(&other, "a"), Duration::ZERO).await;
    assert!(next.is_ok(), "what origins ask for is ignored");
}

#[tokio::test(start_paused = true)]
async fn waiting_includes_rests_that_begin_meanwhile() {
    let pacer = Arc::new(Pacer::default());
    let one = PacingConfig { max_concurrent_per_origin: 1, ..options(CrawlDelayMode::Wait) };
    let shop = target();
    let started = Instant::now();
    let under_way = pacer.wait_for_slot(&one, request(&shop, "a"), Duration::ZERO).await.unwrap();
    let others = (0..2).map(|_| {
        let pacer = Arc::clone(&pacer);
        tokio::spawn(async move {
            let slot = pacer.wait_for_slot(&one, request(&target(), "a"), Duration::ZERO).await;
            slot.map(|_| started.elapsed().as_secs())
        })
    });
    let others: Vec<_> = others.collect();
    tokio::time::advance(Duration::from_secs(1)).await;
    let rest = |seconds| Some(Duration::from_secs(seconds));
    under_way.record_answer(&shop, 503, rest(4));
    drop(under_way);
    tokio::time::advance(Duration::from_secs(1)).await;
    let client = [192, 0, 2, 1].into();
    let answered =
        AnsweredRequest { target: &shop, unit: None, network: None, client, rests_before: 0 };
    pacer.resting_origins.record_answer(answered, 429, rest(8), one.max_delay);
    for other in others {
        assert_eq!(other.await.unwrap().map_err(|soon| soon.cause), Ok(10));
    }
}

#[tokio::test(start_paused = true)]
async fn among_thousands_no_rest_is_forgotten() {
    let pacer = Pacer::default();
    let options = options(CrawlDelayMode::Reject);
    let rest = Duration::from_secs(60);
    for number in 0..5000 {
        let origin = numbered(number);
        let slot = pacer.wait_for_slot(&options, request(&origin, "NewsBot"), Duration::ZERO);
        slot.await.unwrap().record_answer(&origin, 429, Some(rest));
    }
    for number in [0, 1, 4095, 4096, 4999] {
        let origin = numbered(number);
        let slot = pacer.wait_for_slot(&options, request(&origin, "NewsBot"), Duration::ZERO);
        let too_soon = slot.await.map(drop).unwrap_err();
        assert_eq!(
            (too_soon.cause, too_soon.retry_after),
            (TooSoonCause::OriginRests, rest),
            "{number}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_may_not_make_more_than_its_share_rest() {
    let pacer = Pacer::default();
    let options = options(CrawlDelayMode::Reject);
    let slot = async |client: [u8; 4], number: usize| {
        let origin = numbered(number);
        let slot = pacer.wait_for_slot(&options, request_of(client, &origin), Duration::ZERO).await;
        let granted = slot.map_err(|soon| soon.cause)?;
        granted.record_answer(&origin, 429, Some(100 * DELAY));
        Ok(())
    };
    for number in 0..SHARE {
        slot([192, 0, 2, 1], number).await.unwrap();
    }
    assert_eq!(slot([192, 0, 2, 1], SHARE).await, Err(TooSoonCause::ShareFull));
    assert_eq!(slot([192, 0, 2, 2], SHARE).await, Ok(()), "another client");
    assert_eq!(slot([192, 0, 2, 2], 0).await, Err(TooSoonCause::OriginRests), "kept");
}

/// Requests a page of `shop.test` with these credentials for a client of this number, and learns that nothing is left
/// of their quota.
async fn use_up(pacer: &Pacer, client: u8, credentials: Option<&str>, is_partitioned: bool) {
    let shop = target();
    let reject = options(CrawlDelayMode::Reject);
    let request = request_of([192, 0, 2, client], &shop);
    let slot = pacer.wait_for_slot(&reject, request, Duration::ZERO).await.unwrap();
    slot.record_answer(&shop, 200, None);
    let credentials = credentials_mark(credentials.map(str::as_bytes), None);
    let reset = Duration::from_secs(100);
    slot.record_quota(&shop, &ToldQuota { remaining: 0, reset, is_partitioned, credentials });
}

#[tokio::test(start_paused = true)]
async fn a_quota_of_ones_own_rests_its_client_alone() {
    for (first, second, is_partitioned, all_rest) in [
        (Some("a"), Some("b"), false, true),
        (Some("a"), Some("b"), true, true),
        (None, None, true, true),
        (Some("a"), Some("a"), false, false),
        (Some("a"), None, false, true),
    ] {
        let memory = MemoryEngine::new("");
        let joined = async |name| Pacer::in_fleet(&memory.join(name).await, metrics());
        let one = joined("one").await;
        let other = joined("other").await;
        let notified = || tokio::time::sleep(Duration::from_secs(3));
        use_up(&one, 1, first, is_partitioned).await;
        notified().await;
        for node in [&one, &other] {
            assert!(rests_for(node, 1, "/a").await, "{first:?}");
            assert!(!rests_for(node, 2, "/a").await, "{first:?}");
        }
        use_up(&other, 2, second, is_partitioned).await;
        notified().await;
        for node in [&one, &other] {
            assert!(rests_for(node, 1, "/b").await);
            assert!(rests_for(node, 2, "/b").await);
            assert_eq!(rests_for(node, 3, "/b").await, all_rest, "{first:?} {second:?}");
        }
        tokio::time::sleep(Duration::from_secs(100)).await;
        for node in [&one, &other] {
            for client in 1..=3 {
                assert!(!rests_for(node, client, "/a").await);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_quota_without_credentials_rests_all_at_once() {
    let pacer = Pacer::default();
    use_up(&pacer, 1, None, false).await;
    assert!(rests_for(&pacer, 2, "/a").await);
}

#[tokio::test(start_paused = true)]
async fn a_quota_that_is_over_seconds_no_other() {
    let pacer = Pacer::default();
    use_up(&pacer, 1, Some("a"), false).await;
    tokio::time::advance(Duration::from_secs(100)).await;
    use_up(&pacer, 2, Some("b"), false).await;
    assert!(rests_for(&pacer, 2, "/a").await);
    assert!(!rests_for(&pacer, 3, "/a").await);
}
