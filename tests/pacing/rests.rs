//! Busy crawls of origins that ask for a rest: once one has, only the requests that were under way arrive.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::harness::{Origin, Reply, Wayleave, Wire};

/// The requests of the crawl, and how many of them are sent at a time.
const REQUESTS: usize = 200;
const AT_A_TIME: usize = 8;

/// Sends a GET from the client's own address, and returns the status.
fn status_for(proxy: &Wayleave, client: u8, path: &str) -> u16 {
    let mut wire = Wire::connect_from([127, 0, 0, client], proxy.proxy);
    wire.send_get(&format!("http://busy.test{path}"));
    wire.response().status
}

/// Crawls an origin that gives `refusal` to each fifth request, from two clients. Returns the number of requests that
/// arrived after `refused_clients` of them had been refused.
fn arrivals_after_refusals(
    origin: &Origin,
    proxy: &Wayleave,
    refusal: &Reply,
    refused_clients: usize,
) -> usize {
    for page in (4..REQUESTS).step_by(5) {
        origin.site("busy.test").page(&format!("/{page}"), refusal.clone());
    }
    let next = AtomicUsize::new(0);
    // The first refusal of each client.
    let refused = Mutex::new([None; 2]);
    std::thread::scope(|scope| {
        for worker in 0..AT_A_TIME {
            let (next, refused) = (&next, &refused);
            scope.spawn(move || {
                let client = worker % 2;
                loop {
                    let page = next.fetch_add(1, Ordering::Relaxed);
                    if page >= REQUESTS {
                        return;
                    }
                    let number = u8::try_from(client + 1).expect("one of two");
                    let status = status_for(proxy, number, &format!("/{page}"));
                    if page % 5 == 4 && status == refusal.status {
                        let mut refused = refused.lock().expect("no panic");
                        refused[client].get_or_insert_with(Instant::now);
                    }
                }
            });
        }
    });
    let mut refused: Vec<Instant> =
        refused.into_inner().expect("no panic").into_iter().flatten().collect();
    refused.sort();
    let since = refused[refused_clients - 1];
    let requests = origin.requests();
    requests.iter().filter(|request| request.target != "/robots.txt" && request.at > since).count()
}

#[test]
fn after_a_refusal_only_requests_under_way_arrive() {
    let at = SystemTime::now() + Duration::from_secs(120);
    for (refusal, refused_clients, ends_with_an_answer) in [
        (Reply::new(429).header("Retry-After", "120"), 1, true),
        (Reply::new(429).header("Retry-After", &httpdate::fmt_http_date(at)), 1, true),
        (Reply::new(503).header("Retry-After", "120"), 2, true),
        (Reply::new(200).header("RateLimit", "\"default\";r=0;t=120"), 1, false),
    ] {
        let origin = Origin::start();
        origin.site("busy.test").robots("User-agent: *\nDisallow:\n");
        let proxy =
            Wayleave::start_with(&origin, |settings| settings.set("robots.answer", "\"origin\""));
        let arrived = arrivals_after_refusals(&origin, &proxy, &refusal, refused_clients);
        assert!(arrived < AT_A_TIME, "{arrived} after {refusal:?}");
        assert_eq!(status_for(&proxy, 3, "/a"), 429, "{refusal:?}");
        // It was sent after the rest began, and is answered.
        assert_eq!(status_for(&proxy, 1, "/robots.txt"), 200);
        let status = status_for(&proxy, 3, "/a");
        assert_eq!(status, if ends_with_an_answer { 200 } else { 429 }, "{refusal:?}");
    }
}
