//! The adaptive pace of the party that an answer applies to, and of others.

use wayleave_fleet::memory::MemoryEngine;

use super::tests::{metrics, numbered, request_of};
use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// Rests are ignored, so that only the pace has an effect.
fn options() -> PacingConfig {
    PacingConfig { crawl_delay: CrawlDelayMode::Ignore, adaptive: true, ..PacingConfig::default() }
}

/// A sign that a server wants fewer requests.
#[derive(Clone, Copy, Debug)]
enum Sign {
    Status(u16),
    Reset,
}

/// Requests a page of `shop.test` for a client of this number, and is refused. Returns whether it got a slot in time.
async fn be_refused(pacer: &Pacer, client: u8, path: &str, sign: Sign) -> bool {
    let target = Target::parse(&format!("http://shop.test{path}")).unwrap();
    let request = request_of([192, 0, 2, client], &target);
    let slot = pacer.wait_for_slot(&options(), request, Duration::ZERO).await;
    tokio::time::advance(SECOND / 20).await;
    let Ok(slot) = slot else {
        return false;
    };
    match sign {
        Sign::Status(status) => slot.record_answer(&target, status, None),
        Sign::Reset => slot.record_reset(&target),
    }
    true
}

/// Returns the clients whose pace is slower; `None` is all of a unit.
fn slowed(pacer: &Pacer) -> Vec<Option<IpAddr>> {
    pacer.slowed_paces().into_iter().map(|pace| pace.client).collect()
}

#[tokio::test(start_paused = true)]
async fn two_independent_refusals_slow_all_down() {
    for sign in [Sign::Status(503), Sign::Reset] {
        let pacer = Pacer::default();
        let mut late = 0;
        for number in 0..40 {
            let path = if number % 2 == 0 { "/a" } else { "/b" };
            late += u32::from(!be_refused(&pacer, 1, path, sign).await);
        }
        assert!(late > 10, "{late}: the client itself is slowed down");
        assert_eq!(slowed(&pacer), [Some([192, 0, 2, 1].into())], "{sign:?}");
        for _ in 0..10 {
            assert!(be_refused(&pacer, 2, "/c", Sign::Status(200)).await, "others are not");
        }
        assert!(be_refused(&pacer, 2, "/c", sign).await);
        assert!(slowed(&pacer).contains(&None), "{sign:?} {:?}", slowed(&pacer));
    }
}

#[tokio::test(start_paused = true)]
async fn a_429_slows_all_down_at_once() {
    let pacer = Pacer::default();
    assert!(be_refused(&pacer, 1, "/a", Sign::Status(429)).await);
    assert_eq!(slowed(&pacer), [None]);
}

#[tokio::test(start_paused = true)]
async fn a_client_speeds_up_again() {
    let pacer = Pacer::default();
    assert!(be_refused(&pacer, 1, "/a", Sign::Status(503)).await);
    let rate = || pacer.slowed_paces().first().map(|pace| pace.rate);
    let slow = rate().unwrap();
    for _ in 0..400 {
        be_refused(&pacer, 1, "/b", Sign::Status(200)).await;
    }
    assert!(rate().is_none_or(|rate| rate > slow), "{:?} {slow}", rate());
}

#[tokio::test(start_paused = true)]
async fn a_quota_slows_down_its_holder() {
    let told = |credentials| ToldQuota {
        remaining: 1,
        reset: Duration::from_secs(90_000_000),
        is_partitioned: false,
        credentials,
    };
    let own = credentials_mark(Some(b"Bearer a"), None);
    for (quota, client) in [(told(None), None), (told(own), Some([192, 0, 2, 1].into()))] {
        let pacer = Pacer::default();
        let shop = numbered(1);
        let request = request_of([192, 0, 2, 1], &shop);
        let slot = pacer.wait_for_slot(&options(), request, Duration::ZERO).await.unwrap();
        slot.record_quota(&shop, &quota);
        assert_eq!(slowed(&pacer), [client]);
        let next_in = 1.0 / pacer.slowed_paces()[0].rate;
        assert!((299.0..=300.0).contains(&next_in), "{next_in}: as long as max_delay");
        let request = request_of([192, 0, 2, 2], &shop);
        let other = pacer.wait_for_slot(&options(), request, Duration::ZERO).await;
        assert!(other.is_ok(), "the first after it, or of another client");
    }
}

#[tokio::test(start_paused = true)]
async fn a_quota_of_one_tenant_slows_no_other_down() {
    let pacer = Pacer::default();
    let unit = Arc::new(PaceUnit::of_domain(numbered(1).origin()));
    let tenants = [numbered(1), numbered(2)];
    let slot = async |tenant: usize| {
        let request =
            PacedRequest { unit: Some(&unit), ..request_of([192, 0, 2, 1], &tenants[tenant]) };
        pacer.wait_for_slot(&options(), request, Duration::ZERO).await
    };
    let reset = Duration::from_secs(90_000_000);
    let told = ToldQuota { remaining: 1, reset, is_partitioned: false, credentials: None };
    slot(0).await.unwrap().record_quota(&tenants[0], &told);
    for _ in 0..5 {
        assert!(slot(1).await.is_ok());
    }
    assert!(slot(0).await.is_ok(), "its next one");
    let soon = slot(0).await.err().map(|soon| soon.cause);
    assert_eq!(soon, Some(TooSoonCause::Slowed));
    assert!(slot(1).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_rest_of_one_client_delays_no_turn_of_others() {
    let pacer = Pacer::default();
    let wait = PacingConfig { crawl_delay: CrawlDelayMode::Wait, ..options() };
    let slot = async |client: u8, path: &str| {
        let target = Target::parse(&format!("http://shop.test{path}")).unwrap();
        let request = request_of([192, 0, 2, client], &target);
        let slot = pacer.wait_for_slot(&wait, request, Duration::ZERO).await;
        slot.map(|slot| (slot, target)).map_err(|soon| soon.cause)
    };
    for path in ["/a", "/b"] {
        let (refused, target) = slot(1, path).await.ok().unwrap();
        refused.record_answer(&target, 503, Some(200 * SECOND));
    }
    assert_eq!(slot(1, "/c").await.err(), Some(TooSoonCause::OriginRests));
    let started = Instant::now();
    for _ in 0..10 {
        let (granted, target) = slot(2, "/c").await.ok().unwrap();
        granted.record_answer(&target, 200, None);
    }
    assert!(started.elapsed() < 2 * SECOND, "{:?}", started.elapsed());
    let (refused, target) = slot(2, "/d").await.ok().unwrap();
    refused.record_answer(&target, 503, Some(200 * SECOND));
    assert_eq!(slot(3, "/e").await.err(), Some(TooSoonCause::OriginRests));
}

#[tokio::test(start_paused = true)]
async fn an_address_elsewhere_slows_down_no_network() {
    let pacer = Pacer::default();
    let network = |text: &str| text.parse::<IpNet>().unwrap();
    let unit = Arc::new(PaceUnit::Network(network("192.0.2.0/24")));
    let [shop, other] = [numbered(1), numbered(2)];
    let slot = async |target| {
        let request = PacedRequest { unit: Some(&unit), ..request_of([192, 0, 2, 1], target) };
        pacer.wait_for_slot(&options(), request, Duration::ZERO).await
    };
    let refused = slot(&shop).await.unwrap();
    refused.record_dialled(Some(network("198.51.100.0/24")));
    refused.record_answer(&shop, 429, None);
    let units = || pacer.slowed_paces().into_iter().map(|pace| pace.unit).collect::<Vec<_>>();
    assert_eq!(units(), [shop.origin().to_string()]);
    let granted = slot(&other).await.unwrap();
    granted.record_dialled(Some(network("192.0.2.0/24")));
    granted.record_answer(&other, 429, None);
    assert!(units().contains(&unit.to_string()), "{:?}", units());
}

#[tokio::test(start_paused = true)]
async fn one_clients_failures_at_one_node_slow_no_node_down() {
    let memory = MemoryEngine::new("");
    let joined = async |name| Pacer::in_fleet(&memory.join(name).await, metrics());
    let nodes = [joined("one").await, joined("two").await, joined("three").await];
    for path in ["/a", "/b", "/a", "/b"] {
        be_refused(&nodes[0], 1, path, Sign::Status(503)).await;
    }
    for node in &nodes[1..] {
        for _ in 0..5 {
            assert!(be_refused(node, 2, "/c", Sign::Status(200)).await);
        }
        assert_eq!(slowed(node), []);
    }
    assert!(!slowed(&nodes[0]).contains(&None), "{:?}", slowed(&nodes[0]));
    // Another client there, for another page.
    be_refused(&nodes[0], 2, "/d", Sign::Status(503)).await;
    tokio::time::sleep(3 * SECOND).await;
    for node in &nodes {
        be_refused(node, 3, "/e", Sign::Status(200)).await;
        assert!(slowed(node).contains(&None), "what one node found slows down all");
    }
}
