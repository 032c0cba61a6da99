//! One pace for several origins, alone and over the nodes of a fleet.

use std::sync::Mutex;

use wayleave_fleet::memory::MemoryEngine;
use wayleave_fleet::pace_turn::LATE;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn target(host: &str) -> Target {
    Target::parse(&format!("http://{host}/")).unwrap()
}

fn unit() -> Arc<PaceUnit> {
    Arc::new(PaceUnit::of_domain(target("shop.example").origin()))
}

fn options(crawl_delay: CrawlDelayMode) -> PacingConfig {
    PacingConfig { crawl_delay, share: PaceShare::Domain, ..PacingConfig::default() }
}

/// Requests a slot for a crawler at a tenant of `shop.example`.
async fn slot<'a>(
    pacer: &'a Pacer,
    options: &PacingConfig,
    (tenant, crawler): (&str, &str),
    delay: Duration,
) -> Result<PacingSlot<'a>, TooSoon> {
    let target = target(tenant);
    let unit = unit();
    let client = [192, 0, 2, 1].into();
    let request = PacedRequest {
        target: &target,
        client,
        pace: crawler,
        unit: Some(&unit),
        keeps_turn: true,
    };
    pacer.wait_for_slot(options, request, delay).await
}

async fn nodes<const N: usize>(memory: &MemoryEngine) -> [Pacer; N] {
    let mut nodes = Vec::new();
    for number in 0..N {
        let metrics = Arc::new(Metrics::new().unwrap());
        nodes.push(Pacer::in_fleet(&memory.join(&number.to_string()).await, metrics));
    }
    nodes.try_into().unwrap()
}

/// Checks the longer of the delays between two tenants, each requested at one of `nodes`.
async fn expect_the_longer_delay(nodes: [&Pacer; 2]) {
    let wait = options(CrawlDelayMode::Wait);
    let delays = [10, 0, 0, 20, 3, 3, 0].map(Duration::from_secs);
    let mut last: Option<(Instant, Duration)> = None;
    for (number, delay) in delays.into_iter().enumerate() {
        let tenant = format!("t{number}.shop.example");
        let of = (tenant.as_str(), if number % 3 == 0 { "a" } else { "b" });
        let granted = slot(nodes[number % 2], &wait, of, delay).await.unwrap();
        if let Some((ended_at, delay_before)) = last {
            let gap = ended_at.elapsed();
            let least = delay.max(delay_before);
            // A node asks the engine again after a second at most.
            assert!(gap >= least && gap <= least + 2 * SECOND, "{gap:?} {least:?} {number}");
        }
        tokio::time::advance(SECOND / 2).await;
        // A request without a delay is over when it has been sent.
        let ended_at = if delay.is_zero() { Instant::now() - SECOND / 2 } else { Instant::now() };
        granted.record_answer(&target(&tenant), 200, None);
        last = Some((ended_at, delay));
    }
}

#[tokio::test(start_paused = true)]
async fn the_longer_delay_of_two_tenants_applies() {
    let alone = Pacer::default();
    expect_the_longer_delay([&alone; 2]).await;
    let memory = MemoryEngine::new("");
    let [one, other] = nodes(&memory).await;
    expect_the_longer_delay([&one, &other]).await;
}

#[tokio::test(start_paused = true)]
async fn a_tenant_without_a_delay_comes_too_soon_for_another() {
    let pacer = Pacer::default();
    let reject = options(CrawlDelayMode::Reject);
    let first = slot(&pacer, &reject, ("a.shop.example", "a"), 9 * SECOND).await.unwrap();
    let soon = slot(&pacer, &reject, ("b.shop.example", "b"), Duration::ZERO).await;
    let in_progress = soon.err().map(|soon| (soon.cause, soon.retry_after));
    assert_eq!(in_progress, Some((TooSoonCause::CrawlDelay, SECOND)));
    first.record_answer(&target("a.shop.example"), 200, None);
    let soon = slot(&pacer, &reject, ("b.shop.example", "b"), Duration::ZERO).await;
    assert_eq!(soon.err().map(|soon| soon.retry_after), Some(9 * SECOND));
    tokio::time::advance(9 * SECOND).await;
    // Those without a delay do not wait for each other.
    let _both = [
        slot(&pacer, &reject, ("b.shop.example", "b"), Duration::ZERO).await.unwrap(),
        slot(&pacer, &reject, ("c.shop.example", "b"), Duration::ZERO).await.unwrap(),
    ];
}

#[tokio::test(start_paused = true)]
async fn after_a_429_no_tenant_is_asked_on_any_node() {
    let memory = MemoryEngine::new("");
    let nodes: [Pacer; 3] = nodes(&memory).await;
    for delay in [Duration::ZERO, SECOND / 10] {
        let reject = options(CrawlDelayMode::Reject);
        let wait = options(CrawlDelayMode::Wait);
        let refused = slot(&nodes[0], &wait, ("t0.shop.example", "c0"), delay).await.unwrap();
        refused.record_answer(&target("t0.shop.example"), 429, Some(100 * SECOND));
        drop(refused);
        tokio::task::yield_now().await;
        // At once: before the notes of the rest have reached the other nodes.
        for number in 0..15 {
            let tenant = format!("t{number}.shop.example");
            for (crawler, node) in ["c0", "c1", "c2", "c3"].into_iter().zip(nodes.iter().cycle()) {
                let soon = slot(node, &reject, (&tenant, crawler), delay).await.err();
                let cause = soon.map(|soon| soon.cause);
                // The node that got the 429 knows that the delay is not over either.
                let expected = cause == Some(TooSoonCause::OriginRests)
                    || (!delay.is_zero() && cause == Some(TooSoonCause::CrawlDelay));
                assert!(expected, "{cause:?} {tenant} {crawler} {delay:?}");
            }
        }
        tokio::time::advance(101 * SECOND).await;
        let ended = slot(&nodes[1], &wait, ("t9.shop.example", "c1"), delay).await.unwrap();
        ended.record_answer(&target("t9.shop.example"), 200, None);
        tokio::time::sleep(SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_one_tenant_does_not_end_the_rest_of_another() {
    let pacer = Pacer::default();
    let reject = options(CrawlDelayMode::Reject);
    let free = async |tenant| slot(&pacer, &reject, (tenant, "a"), Duration::ZERO).await;
    let under_way = free("a.shop.example").await.unwrap();
    let refused = free("b.shop.example").await.unwrap();
    refused.record_answer(&target("b.shop.example"), 429, Some(60 * SECOND));
    under_way.record_answer(&target("a.shop.example"), 200, None);
    let soon = free("a.shop.example").await.err().unwrap();
    assert_eq!((soon.cause, soon.retry_after), (TooSoonCause::OriginRests, 60 * SECOND));
    tokio::time::advance(60 * SECOND).await;
    // The same page of another tenant is another page.
    let unavailable = free("a.shop.example").await.unwrap();
    unavailable.record_answer(&target("a.shop.example"), 503, Some(60 * SECOND));
    assert!(free("a.shop.example").await.is_err());
    assert!(free("b.shop.example").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn tenants_and_crawlers_get_equal_shares() {
    let pacer = Arc::new(Pacer::default());
    let wait = PacingConfig { max_wait: 1000 * SECOND, ..options(CrawlDelayMode::Wait) };
    let (sender, mut served) = mpsc::unbounded_channel();
    // One tenant has more waiting requests than the others together, and one crawler more than the others.
    for number in 0..60 {
        let tenant = if number < 30 { 0 } else { number % 3 };
        let crawler = if number < 25 { 0 } else { number % 4 };
        let pacer = Arc::clone(&pacer);
        let sender = sender.clone();
        tokio::spawn(async move {
            let host = format!("t{tenant}.shop.example");
            let name = format!("c{crawler}");
            let granted = slot(&pacer, &wait, (&host, &name), SECOND).await.unwrap();
            sender.send((tenant, crawler)).unwrap();
            granted.record_answer(&target(&host), 200, None);
        });
        tokio::task::yield_now().await;
    }
    drop(sender);
    let mut served_first = Vec::new();
    while let Some(one) = served.recv().await {
        served_first.push(one);
    }
    // The first two had their turn before the others came.
    let served_first = &served_first[2..26];
    for tenant in 0..3 {
        let count = served_first.iter().filter(|(it, _)| *it == tenant).count();
        assert_eq!(count, 8, "{tenant} {served_first:?}");
    }
    let of_first = served_first.iter().filter(|(it, _)| *it == 0).map(|(_, crawler)| *crawler);
    let of_first: Vec<_> = of_first.collect();
    assert!((0..4).all(|crawler| of_first[..5].contains(&crawler)), "{of_first:?}");
}

#[tokio::test(start_paused = true)]
async fn a_delay_from_before_a_reload_applies() {
    let pacer = Pacer::default();
    let reject = options(CrawlDelayMode::Reject);
    let tenant = target("a.shop.example");
    let client = [192, 0, 2, 1].into();
    let alone = PacedRequest { target: &tenant, client, pace: "a", unit: None, keeps_turn: true };
    drop(pacer.wait_for_slot(&reject, alone, 9 * SECOND).await.unwrap());
    tokio::time::advance(SECOND).await;
    assert!(slot(&pacer, &reject, ("b.shop.example", "a"), SECOND).await.is_ok());
    tokio::time::advance(SECOND).await;
    let soon = slot(&pacer, &reject, ("a.shop.example", "a"), SECOND).await.err();
    assert_eq!(soon.map(|soon| soon.retry_after), Some(7 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn concurrency_is_limited_over_tenants_and_crawlers() {
    let pacer = Pacer::default();
    let two = PacingConfig { max_concurrent_per_origin: 2, ..options(CrawlDelayMode::Reject) };
    let free = async |tenant, crawler| slot(&pacer, &two, (tenant, crawler), Duration::ZERO).await;
    let first = free("a.shop.example", "a").await.unwrap();
    let _second = free("b.shop.example", "b").await.unwrap();
    let soon = free("c.shop.example", "c").await.err().unwrap();
    assert_eq!(soon.cause, TooSoonCause::Concurrency);
    drop(first);
    assert!(free("c.shop.example", "c").await.is_ok());
}

/// Returns Jain's fairness index: 1 if all are equal.
fn fairness(counts: &[f64]) -> f64 {
    let sum: f64 = counts.iter().sum();
    let squares: f64 = counts.iter().map(|count| count * count).sum();
    sum * sum / (squares * f64::from(u32::try_from(counts.len()).unwrap()))
}

/// A server that refuses requests beyond 20 a second.
struct LimitedServer(Mutex<(f64, Instant)>);

impl LimitedServer {
    fn answer(&self) -> u16 {
        let mut tokens = self.0.lock().unwrap();
        let now = Instant::now();
        let grown = tokens.0 + 20.0 * (now - tokens.1).as_secs_f64();
        let is_refused = grown < 1.0;
        *tokens = (if is_refused { grown } else { grown.min(5.0) - 1.0 }, now);
        if is_refused { 429 } else { 200 }
    }
}

#[tokio::test(start_paused = true)]
async fn a_slowed_server_is_shared_fairly_and_nearly_used() {
    let pacer = Arc::new(Pacer::default());
    let wait =
        PacingConfig { adaptive: true, max_wait: 1000 * SECOND, ..options(CrawlDelayMode::Wait) };
    let server = Arc::new(LimitedServer(Mutex::new((5.0, Instant::now()))));
    let counts = Arc::new(Mutex::new([[0.0; 4]; 3]));
    let refused = Arc::new(Mutex::new(0.0));
    let warm_up = Instant::now() + 60 * SECOND;
    let end = Instant::now() + 660 * SECOND;
    let mut clients = Vec::new();
    for number in 0..60 {
        // One tenant and one crawler want far more than the others.
        let (tenant, crawler) = if number < 36 { (0, 0) } else { (number % 3, number / 3 % 4) };
        let pacer = Arc::clone(&pacer);
        let server = Arc::clone(&server);
        let counts = Arc::clone(&counts);
        let refused = Arc::clone(&refused);
        clients.push(tokio::spawn(async move {
            let host = format!("t{tenant}.shop.example");
            let name = format!("c{crawler}");
            while Instant::now() < end {
                let granted = slot(&pacer, &wait, (&host, &name), Duration::ZERO).await.unwrap();
                let status = server.answer();
                tokio::time::sleep(SECOND / 100).await;
                granted.record_answer(&target(&host), status, Some(SECOND));
                if Instant::now() > warm_up && status == 200 {
                    counts.lock().unwrap()[tenant][crawler] += 1.0;
                } else if Instant::now() > warm_up {
                    *refused.lock().unwrap() += 1.0;
                }
            }
        }));
    }
    for client in clients {
        client.await.unwrap();
    }
    let counts = *counts.lock().unwrap();
    let refused = *refused.lock().unwrap();
    let tenants = counts.map(|of_crawlers| of_crawlers.iter().sum::<f64>());
    let crawlers =
        [0, 1, 2, 3].map(|crawler| counts.iter().map(|counts| counts[crawler]).sum::<f64>());
    assert!(fairness(&tenants) > 0.97, "{counts:?}");
    assert!(fairness(&crawlers) > 0.97, "{counts:?}");
    let served: f64 = tenants.iter().sum();
    assert!(served >= 0.9 * 600.0 * 20.0, "{served}");
    assert!(refused < 0.02 * served, "{refused}");
    let slowed = pacer.slowed_paces();
    assert_eq!(slowed.len(), 1);
    assert_eq!(slowed[0].unit, "domain:shop.example");
}

#[tokio::test(start_paused = true)]
async fn observing_slows_nothing_down() {
    let pacer = Pacer::default();
    let observing =
        PacingConfig { adaptive: true, ..options(CrawlDelayMode::Wait) }.without_waiting();
    for _ in 0..100 {
        let of = ("a.shop.example", "a");
        let granted = slot(&pacer, &observing, of, Duration::ZERO).await.unwrap();
        granted.record_answer(&target("a.shop.example"), 404, None);
    }
    assert_eq!(pacer.slowed_paces().len(), 0);
}

/// Waits until the engine knows of an answer, which no other node has read yet.
async fn engine_is_told() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_node_has_a_turn_during_a_rest_that_it_has_not_heard_of() {
    let memory = MemoryEngine::new("");
    let [one, other] = nodes(&memory).await;
    let adaptive = PacingConfig {
        adaptive: true,
        share: PaceShare::Origin,
        ..options(CrawlDelayMode::Reject)
    };
    let shop = target("shop.example");
    let request = PacedRequest {
        target: &shop,
        client: [192, 0, 2, 1].into(),
        pace: "a",
        unit: None,
        keeps_turn: true,
    };
    let granted = one.wait_for_slot(&adaptive, request, Duration::ZERO).await.unwrap();
    granted.record_answer(&shop, 429, Some(100 * SECOND));
    engine_is_told().await;
    assert_eq!(other.resting_origins.until(&shop, None, request.client), None);
    let refused = other.wait_for_slot(&adaptive, request, Duration::ZERO).await;
    let soon = refused.map(drop).unwrap_err();
    assert_eq!(soon.cause, TooSoonCause::Slowed);
    assert!(soon.retry_after > 99 * SECOND, "{soon:?}");
    // A sign that it was told at once is known at the other's next question.
    assert_eq!(other.slowed_paces().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_turn_from_before_a_rest_is_not_used_after_it() {
    let adaptive = PacingConfig {
        adaptive: true,
        share: PaceShare::Origin,
        max_wait: 1000 * SECOND,
        ..options(CrawlDelayMode::Wait)
    };
    let shop = target("shop.example");
    let request = PacedRequest {
        target: &shop,
        client: [192, 0, 2, 1].into(),
        pace: "a",
        unit: None,
        keeps_turn: true,
    };
    for has_429 in [true, false] {
        let memory = MemoryEngine::new("");
        let [one, other] = nodes(&memory).await;
        let free = || one.wait_for_slot(&adaptive, request, Duration::ZERO);
        let refused = free().await.unwrap();
        let under_way = free().await.unwrap();
        let sent_at = async |node: &Pacer| {
            let granted = node.wait_for_slot(&adaptive, request, Duration::ZERO).await;
            granted.map(|_| Instant::now()).unwrap()
        };
        let started = Instant::now();
        refused.record_answer(&shop, 429, Some(10 * SECOND));
        let interval = Duration::from_secs_f64(1.0 / one.slowed_paces()[0].rate);
        engine_is_told().await;
        // The other node has its turn at the end of this rest, and hears of a second one while it waits.
        let rests_again = async {
            tokio::time::sleep(5 * SECOND).await;
            if has_429 {
                under_way.record_answer(&shop, 429, Some(100 * SECOND));
            } else {
                under_way.record_quota(&shop, &tests::used_up(100 * SECOND));
            }
        };
        let (mut first, mut second, ()) = tokio::join!(sent_at(&one), sent_at(&other), rests_again);
        if second < first {
            (first, second) = (second, first);
        }
        assert!(first >= started + 105 * SECOND, "{:?}", first - started);
        let least = interval - LATE;
        assert!(second - first >= least, "{:?} {least:?}", second - first);
    }
}
