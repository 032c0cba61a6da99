use wayleave_lifecycle::{
    FetchEnding, FetchErrorKind, FetchOutcome, FetchedBody, FetchedResponse, FinishedFetch,
    ResponseFields,
};

use super::*;

fn job(uri: &str) -> FetchJob {
    FetchJob {
        resource: Resource::parse(uri).expect("a resource"),
        entry: CacheEntry::default(),
        requested_as: None,
        via: None,
    }
}

/// Returns a job whose last fetch was answered.
fn good(uri: &str) -> FetchJob {
    let mut job = job(uri);
    job.entry =
        job.entry.after_fetch(FinishedFetch::of_proxy(answer(), std::time::SystemTime::UNIX_EPOCH));
    job
}

/// Returns a job that was answered once, but whose last fetch failed.
fn failing(uri: &str) -> FetchJob {
    let mut job = good(uri);
    let failed = FetchOutcome::failed(String::new(), FetchErrorKind::Timeout, "");
    job.entry =
        job.entry.after_fetch(FinishedFetch::of_proxy(failed, std::time::SystemTime::UNIX_EPOCH));
    job
}

fn answer() -> FetchOutcome {
    FetchOutcome {
        redirects: Vec::new(),
        uri: String::new(),
        ending: FetchEnding::Response(FetchedResponse {
            status: 200,
            fields: ResponseFields::default(),
            body: FetchedBody::default(),
        }),
    }
}

fn key(crawler: &str, client: u8) -> FairnessKey {
    FairnessKey::new(crawler, Some([192, 0, 2, client].into()))
}

fn push(queue: &mut FetchQueue, job: FetchJob, key: &FairnessKey) {
    queue.push(job, HashSet::from([key.clone()]));
}

/// Starts every fetch that may start, and returns their names.
fn started(queue: &mut FetchQueue) -> Vec<String> {
    let next = || queue.next(|_| false);
    let name = |next| match next {
        NextFetch::Start(job) => job.resource.to_string(),
        NextFetch::Abandon(origin) => panic!("{origin} was dropped"),
    };
    std::iter::from_fn(next).map(name).collect()
}

fn bounds(total: usize, per_host: usize, reserved: usize) -> FetchLimits {
    FetchLimits { total, per_host, reserved }
}

#[test]
fn new_origins_leave_the_reserve_to_known_ones() {
    let mut queue = FetchQueue::new(bounds(4, 4, 1));
    for n in 0..10 {
        let uri = format!("https://new{n}.example");
        let key = key(&n.to_string(), n);
        push(&mut queue, job(&uri), &key);
    }
    assert_eq!(started(&mut queue).len(), 3);
    queue.push(good("https://known.example"), HashSet::from([FairnessKey::default()]));
    assert_eq!(started(&mut queue), ["https://known.example"]);
    push(&mut queue, good("https://known2.example"), &key("x", 1));
    assert!(started(&mut queue).is_empty(), "four are running");
    queue.finished(&job("https://new0.example").resource);
    assert_eq!(started(&mut queue), ["https://known2.example"]);
    queue.finished(&job("https://new1.example").resource);
    queue.finished(&job("https://new2.example").resource);
    assert_eq!(started(&mut queue), ["https://new3.example"]);
}

#[test]
fn a_busy_host_delays_only_itself() {
    let mut queue = FetchQueue::new(bounds(100, 2, 0));
    let one = key("a", 1);
    for port in 1..=5 {
        push(&mut queue, job(&format!("https://slow.example:{port}")), &one);
    }
    push(&mut queue, job("https://quick.example"), &one);
    let first = ["https://slow.example:1", "https://slow.example:2", "https://quick.example"];
    assert_eq!(started(&mut queue), first);
    queue.finished(&job("https://quick.example").resource);
    assert!(started(&mut queue).is_empty());
    queue.finished(&job("https://slow.example:2").resource);
    assert_eq!(started(&mut queue), ["https://slow.example:3"]);
    for port in [1, 3, 4, 5] {
        queue.finished(&job(&format!("https://slow.example:{port}")).resource);
        started(&mut queue);
    }
    assert!(queue.waiting_for_host.is_empty() && queue.running.by_host.is_empty());
    assert_eq!(queue.running.total, 0);
    assert!(queue.waiting.is_empty() && queue.running.by_key.is_empty());
    assert!(queue.rings.iter().all(|ring| ring.ring.is_empty() && ring.queued.is_empty()));
}

#[test]
fn one_client_never_holds_more_than_it_leaves_free() {
    let mut queue = FetchQueue::new(bounds(512, 4, 64));
    for n in 0..3000 {
        push(&mut queue, job(&format!("http://tarpit{n}.example")), &key("a", 1));
    }
    assert_eq!(started(&mut queue).len(), 224);
    for (n, (crawler, client)) in [("a", 2), ("b", 1), ("b", 2), ("c", 3)].into_iter().enumerate() {
        let uri = format!("http://shop{n}.example");
        push(&mut queue, job(&uri), &key(crawler, client));
        assert_eq!(started(&mut queue), [uri], "{crawler} at {client}");
    }
}

#[test]
fn addresses_of_one_ipv6_network_are_one_client() {
    let mut queue = FetchQueue::new(bounds(512, 4, 64));
    for n in 0..3000_u16 {
        let address = IpAddr::from([0x2001, 0xdb8, 0, 7, 0, 0, 0, n]);
        let key = FairnessKey::new("a", Some(address));
        push(&mut queue, job(&format!("http://new{n}.example")), &key);
    }
    assert_eq!(started(&mut queue).len(), 224);
    let uri = "http://shop.example";
    let neighbour = IpAddr::from([0x2001, 0xdb8, 0, 8, 0, 0, 0, 1]);
    push(&mut queue, job(uri), &FairnessKey::new("a", Some(neighbour)));
    assert_eq!(started(&mut queue), [uri]);
}

#[test]
fn many_clients_of_one_crawler_leave_room_for_another_crawler() {
    let mut queue = FetchQueue::new(bounds(512, 4, 64));
    for n in 0..5000 {
        let client = u8::try_from(n % 100).expect("small");
        push(&mut queue, job(&format!("http://tarpit{n}.example")), &key("a", client));
    }
    let of_one_crawler = started(&mut queue).len();
    assert!((290..=300).contains(&of_one_crawler), "{of_one_crawler}");
    for n in 0..100 {
        push(&mut queue, job(&format!("http://shop{n}.example")), &key("b", 1));
    }
    assert!(started(&mut queue).len() > 70);
}

#[test]
fn heavy_clients_end_up_with_equal_shares() {
    let mut queue = FetchQueue::new(bounds(64, 4, 0));
    let mut under_way = VecDeque::new();
    for n in 0..500 {
        for crawler in ["a", "b", "c"] {
            let job = job(&format!("http://{crawler}{n}.example"));
            push(&mut queue, job, &key(crawler, 1));
        }
        under_way.extend(started(&mut queue));
        if under_way.len() > 40 {
            let ended: String = under_way.pop_front().expect("some are");
            queue.finished(&job(&ended).resource);
            under_way.extend(started(&mut queue));
        }
    }
    let of = |crawler: &str| queue.running.by_crawler[crawler];
    assert_eq!([of("a"), of("b"), of("c")], [16; 3]);
}

#[test]
fn clients_take_turns() {
    let mut queue = FetchQueue::new(bounds(1, 4, 0));
    for n in 0..3 {
        push(&mut queue, job(&format!("http://a{n}.example")), &key("a", 1));
    }
    for client in 1..3 {
        push(&mut queue, job(&format!("http://b{client}.example")), &key("b", client));
    }
    let mut order = Vec::new();
    for _ in 0..5 {
        let [next] = started(&mut queue).try_into().expect("one at a time");
        queue.finished(&job(&next).resource);
        order.push(next);
    }
    let expected = ["a0", "b1", "b2", "a1", "a2"].map(|name| format!("http://{name}.example"));
    assert_eq!(order, expected);
}

#[test]
fn a_shared_fetch_starts_on_the_earlier_turn() {
    let mut queue = FetchQueue::new(bounds(16, 4, 0));
    for n in 0..100 {
        push(&mut queue, job(&format!("http://host{n}.example")), &key("a", 1));
    }
    assert_eq!(started(&mut queue).len(), 8);
    let last = job("http://host99.example").resource;
    assert!(queue.join(&last, &key("b", 2)) && queue.join(&last, &key("b", 2)));
    assert!(!queue.join(&job("http://host0.example").resource, &key("b", 2)), "it runs");
    assert_eq!(started(&mut queue), ["http://host99.example"]);
    assert!(!queue.is_waiting(&last) && started(&mut queue).is_empty());
    queue.finished(&last);
    assert!(!started(&mut queue).contains(&last.to_string()), "it comes once");
}

#[test]
fn failed_origins_are_fetched_last_and_spare_the_reserve() {
    let mut queue = FetchQueue::new(bounds(4, 4, 2));
    for n in 0..4 {
        push(&mut queue, failing(&format!("http://failing{n}.example")), &key("a", n));
    }
    push(&mut queue, job("http://new.example"), &key("b", 1));
    push(&mut queue, good("http://good.example"), &key("c", 1));
    let first = started(&mut queue);
    assert_eq!(first, ["http://good.example", "http://new.example"]);
}

#[test]
fn abandoned_fetches_are_dropped_unless_they_refresh_a_copy() {
    let mut queue = FetchQueue::new(bounds(100, 1, 0));
    let one = key("a", 1);
    let origin = |uri: &str| job(uri).resource;
    push(&mut queue, job("http://shop.example:1"), &one);
    assert!(
        matches!(queue.next(|_| true), Some(NextFetch::Abandon(dropped)) if dropped == origin("http://shop.example:1"))
    );
    push(&mut queue, good("http://good.example"), &one);
    assert!(matches!(queue.next(|_| true), Some(NextFetch::Start(_))));
    // A fetch that waits for its host is not lost when one before it is dropped.
    for port in 1..=3 {
        push(&mut queue, job(&format!("http://shop.example:{port}")), &one);
    }
    assert_eq!(started(&mut queue), ["http://shop.example:1"]);
    queue.finished(&origin("http://shop.example:1"));
    let dropped = queue.next(|gone| *gone == origin("http://shop.example:2"));
    assert!(matches!(dropped, Some(NextFetch::Abandon(_))), "{dropped:?}");
    assert_eq!(started(&mut queue), ["http://shop.example:3"]);
    assert!(queue.waiting_for_host.is_empty() && queue.waiting.is_empty());
}
