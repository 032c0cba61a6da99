//! The turns of clients at one origin with a delay, alone and over the nodes of a fleet: none gets more by asking often, by letting
//! a page hang, or by not coming back.

use wayleave_fleet::engine::SlotRequest;
use wayleave_fleet::memory::MemoryEngine;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const DELAY: Duration = Duration::from_secs(2);
/// The time that the origin takes for a page.
const PAGE: Duration = Duration::from_millis(100);
const TEST_LASTS: Duration = Duration::from_mins(10);

/// Returns a request of the client of this number.
fn request(target: &Target, number: u8) -> PacedRequest<'_> {
    let client = [192, 0, 2, number].into();
    PacedRequest { target, client, pace: "a", unit: None, keeps_turn: true }
}

/// The behaviour of a client.
#[derive(Clone, Copy, Debug)]
enum Behaviour {
    /// Comes again after its `Retry-After`, in whole seconds.
    Obedient,
    /// Asks every 10 ms, several times at once.
    Impatient,
    /// As that, for pages that do not answer.
    Hanging,
    /// Asks, and comes again a minute later.
    Absent,
}

struct Client {
    pacer: Arc<Pacer>,
    options: PacingConfig,
    number: u8,
    behaviour: Behaviour,
}

impl Client {
    /// Returns whether the request got a slot, which it holds until the origin has answered.
    async fn request(&self) -> Result<(), TooSoon> {
        let target = Target::parse("http://shop.test/").unwrap();
        let request = request(&target, self.number);
        let slot = self.pacer.wait_for_slot(&self.options, request, DELAY).await?;
        if matches!(self.behaviour, Behaviour::Hanging) {
            tokio::time::sleep(slot.longest_turn().unwrap()).await;
            slot.pass_turn();
            tokio::time::sleep(Duration::from_mins(1)).await;
        } else {
            tokio::time::sleep(PAGE).await;
            slot.record_answer(&target, 200, None);
        }
        Ok(())
    }

    /// Returns the number of requests until `end` that got a slot.
    async fn run(self, end: Instant) -> u32 {
        let mut sent = 0;
        while Instant::now() < end {
            let result = self.request().await;
            sent += u32::from(result.is_ok());
            let pause = match (self.behaviour, result) {
                (Behaviour::Absent, _) => Duration::from_mins(1) + SECOND,
                (Behaviour::Obedient, Ok(())) => Duration::ZERO,
                (Behaviour::Obedient, Err(soon)) => {
                    Duration::from_secs(soon.retry_after.as_secs_f64().ceil() as u64)
                }
                (Behaviour::Impatient | Behaviour::Hanging, _) => Duration::from_millis(10),
            };
            tokio::time::sleep(pause).await;
        }
        sent
    }
}

/// Returns the number of requests that each client sends in [`TEST_LASTS`], each on the node of its place.
async fn requests_sent<const N: usize>(
    pacers: &[Arc<Pacer>],
    crawl_delay: CrawlDelayMode,
    behaviours: [Behaviour; N],
) -> [u32; N] {
    let options = PacingConfig { crawl_delay, ..PacingConfig::default() };
    let end = Instant::now() + TEST_LASTS;
    let mut tasks = Vec::new();
    for (number, behaviour) in (1..).zip(behaviours) {
        // Several connections each.
        for _ in 0..4 {
            let pacer = Arc::clone(&pacers[usize::from(number) % pacers.len()]);
            let client = Client { pacer, options, number, behaviour };
            tasks.push((number, tokio::spawn(client.run(end))));
        }
    }
    let mut sent = [0; N];
    for (number, task) in tasks {
        sent[usize::from(number) - 1] += task.await.unwrap();
    }
    sent
}

async fn nodes(count: usize) -> Vec<Arc<Pacer>> {
    let memory = MemoryEngine::new("");
    let mut nodes = vec![Arc::default()];
    if count > 1 {
        nodes.clear();
        for number in 0..count {
            let metrics = Arc::new(Metrics::new().unwrap());
            let fleet = memory.join(&number.to_string()).await;
            nodes.push(Arc::new(Pacer::in_fleet(&fleet, metrics)));
        }
    }
    nodes
}

/// Checks that obedient clients get as much beside any other client as they would beside one of their kind.
async fn each_gets_its_share(crawl_delay: CrawlDelayMode, nodes_count: usize) {
    let of = async |beside| {
        let clients = [Behaviour::Obedient, beside, Behaviour::Obedient];
        requests_sent(&nodes(nodes_count).await, crawl_delay, clients).await
    };
    let fair = of(Behaviour::Obedient).await;
    let most = TEST_LASTS.div_duration_f64(DELAY + PAGE);
    assert!(f64::from(fair.iter().sum::<u32>()) >= 0.85 * most, "{fair:?} of {most}");
    for beside in [Behaviour::Impatient, Behaviour::Hanging, Behaviour::Absent] {
        let sent = of(beside).await;
        for client in [0, 2] {
            let share = f64::from(sent[client]) / f64::from(fair[client]);
            assert!(share >= 0.95, "beside {beside:?}: {sent:?}, fair are {fair:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_client_gets_its_share_of_refused_requests() {
    each_gets_its_share(CrawlDelayMode::Reject, 1).await;
}

#[tokio::test(start_paused = true)]
async fn each_client_gets_its_share_of_requests_that_wait() {
    each_gets_its_share(CrawlDelayMode::Wait, 1).await;
}

#[tokio::test(start_paused = true)]
async fn each_client_gets_its_share_in_a_fleet_of_three() {
    each_gets_its_share(CrawlDelayMode::Reject, 3).await;
    each_gets_its_share(CrawlDelayMode::Wait, 3).await;
}

/// Requests a slot for a client of this number.
async fn slot(pacer: &Pacer, number: u8, delay: Duration) -> Result<PacingSlot<'_>, TooSoon> {
    let target = Target::parse("http://shop.test/").unwrap();
    pacer.wait_for_slot(&PacingConfig::default(), request(&target, number), delay).await
}

#[tokio::test(start_paused = true)]
async fn a_refused_client_is_told_its_own_turn() {
    let pacer = Pacer::default();
    drop(slot(&pacer, 1, DELAY).await);
    let told = async |number| slot(&pacer, number, DELAY).await.err().map(|soon| soon.retry_after);
    for _ in 0..2 {
        assert_eq!(told(1).await, Some(DELAY));
        assert_eq!(told(2).await, Some(2 * DELAY));
        assert_eq!(told(3).await, Some(3 * DELAY));
    }
    tokio::time::advance(DELAY).await;
    assert_eq!(told(3).await, Some(3 * DELAY), "it is the turn of the first");
    assert_eq!(told(1).await, None);
    assert_eq!(told(1).await, Some(3 * DELAY), "behind both others");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_not_taken_lapses_for_a_minute() {
    let pacer = Pacer::default();
    let is_sent = async |number| slot(&pacer, number, DELAY).await.is_ok();
    assert!(is_sent(1).await);
    assert!(!is_sent(2).await);
    tokio::time::advance(DELAY + SlotRequest::TURN_GRACE).await;
    assert!(!is_sent(1).await, "the other may still come");
    tokio::time::advance(SECOND / 100).await;
    assert!(is_sent(1).await);
    assert!(!is_sent(2).await, "keeps no turn this time");
    tokio::time::advance(DELAY).await;
    assert!(is_sent(1).await);
    tokio::time::advance(Duration::from_mins(1)).await;
    assert!(is_sent(1).await);
    assert!(!is_sent(2).await, "keeps its turn again");
    tokio::time::advance(DELAY).await;
    assert!(!is_sent(1).await);
    assert!(is_sent(2).await);
}

#[tokio::test(start_paused = true)]
async fn clients_take_turns_for_concurrency_slots() {
    let pacer = Pacer::default();
    let options = PacingConfig { max_concurrent_per_origin: 1, ..PacingConfig::default() };
    let target = Target::parse("http://shop.test/").unwrap();
    let slot = async |number: u8| {
        pacer.wait_for_slot(&options, request(&target, number), Duration::ZERO).await.ok()
    };
    let first = slot(1).await.unwrap();
    assert!(!first.is_concurrency_wanted());
    assert!(slot(2).await.is_none());
    assert!(first.is_concurrency_wanted());
    drop(first);
    assert!(slot(1).await.is_none(), "it is the turn of the other");
    let second = slot(2).await.unwrap();
    assert!(second.is_concurrency_wanted());
    tokio::time::advance(SECOND + SlotRequest::TURN_GRACE + SECOND).await;
    assert!(!second.is_concurrency_wanted(), "the first is not coming back");
}

#[tokio::test(start_paused = true)]
async fn a_client_with_an_unanswered_request_comes_after_all_others() {
    let pacer = Pacer::default();
    let hanging = slot(&pacer, 1, DELAY).await.unwrap();
    let longest = hanging.longest_turn().unwrap();
    assert_eq!(longest, SECOND);
    tokio::time::advance(longest).await;
    assert!(slot(&pacer, 1, DELAY).await.is_err());
    assert!(slot(&pacer, 2, DELAY).await.is_err(), "it may still be answered");
    hanging.pass_turn();
    assert!(slot(&pacer, 1, DELAY).await.is_err());
    tokio::time::advance(DELAY).await;
    assert!(slot(&pacer, 1, DELAY).await.is_err(), "the other may come");
    assert!(slot(&pacer, 2, DELAY).await.is_ok());
    tokio::time::advance(DELAY).await;
    let second = slot(&pacer, 1, DELAY).await.expect("nobody else wants it");
    assert!(slot(&pacer, 1, DELAY).await.is_err());
    assert!(slot(&pacer, 2, DELAY).await.is_err());
    drop((hanging, second));
    tokio::time::advance(DELAY).await;
    assert!(slot(&pacer, 2, DELAY).await.is_ok());
    assert!(slot(&pacer, 1, DELAY).await.is_err());
    assert!(slot(&pacer, 2, DELAY).await.is_err());
    tokio::time::advance(DELAY).await;
    assert!(
        slot(&pacer, 2, DELAY).await.is_err(),
        "all is answered, so it is the turn of the first"
    );
    assert!(slot(&pacer, 1, DELAY).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn without_another_request_the_delay_counts_from_the_answer() {
    let pacer = Pacer::default();
    let hanging = slot(&pacer, 1, DELAY).await.unwrap();
    hanging.pass_turn();
    tokio::time::advance(10 * DELAY).await;
    drop(hanging);
    assert_eq!(slot(&pacer, 1, DELAY).await.err().map(|soon| soon.retry_after), Some(DELAY));
}
