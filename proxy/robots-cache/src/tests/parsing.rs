//! Parsing of long files, and the requests that it must not delay.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc as std_mpsc;
use std::thread::available_parallelism;
use std::time::SystemTime;

use wayleave_fairness::Holder;
use wayleave_lifecycle::{
    FetchEnding, FetchOutcome, FetchRequest, FetchedBody, FetchedResponse, ResponseFields,
};
use wayleave_robots_txt::AccessResult;

use super::super::*;
use super::http::RULES;

/// Answers `long.example` with this, and everybody else with short rules.
struct Long {
    body: Arc<[u8]>,
    was_fetched: Arc<AtomicBool>,
}

impl DocumentFetcher for Long {
    async fn fetch(&self, request: FetchRequest, _: Option<&[u8]>) -> FetchedDocument {
        let is_long = request.resource.origin().host() == "long.example";
        self.was_fetched.fetch_or(is_long, Ordering::SeqCst);
        let body = FetchedBody {
            bytes: if is_long { Arc::clone(&self.body) } else { RULES.into() },
            ..FetchedBody::default()
        };
        let outcome = FetchOutcome {
            redirects: Vec::new(),
            uri: request.resource.uri(),
            ending: FetchEnding::Response(FetchedResponse {
                status: 200,
                fields: ResponseFields::default(),
                body,
            }),
        };
        outcome.into()
    }
}

fn start(body: &str) -> (RobotsCache, Arc<AtomicBool>) {
    let was_fetched = Arc::new(AtomicBool::new(false));
    let fetch = Long { body: body.as_bytes().into(), was_fetched: Arc::clone(&was_fetched) };
    let metrics = Arc::new(Metrics::new().unwrap());
    let clock = Clock::start_at(SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000));
    let store = RobotsStore::in_memory(clock, metrics.clone());
    let options = RobotsCacheConfig {
        fetch_timeout: Duration::from_secs(600),
        ..RobotsCacheConfig::default()
    };
    (RobotsCache::start(fetch, store, &options, clock, metrics).0, was_fetched)
}

/// Takes all places of a pool, until the senders are dropped.
async fn occupy(pool: &WorkPool) -> Vec<std_mpsc::Sender<()>> {
    let places = available_parallelism().map_or(1, usize::from).div_ceil(2);
    let mut taken = Vec::new();
    for _ in 0..places {
        let (held, released) = std_mpsc::channel();
        let (started, is_started) = oneshot::channel();
        let pool = pool.clone();
        tokio::spawn(async move {
            let wait = move || {
                started.send(()).expect("the test waits");
                let _ = released.recv();
            };
            pool.run(Holder::OWN, Duration::from_secs(1), wait).await;
        });
        is_started.await.expect("it starts");
        taken.push(held);
    }
    taken
}

/// Fetches and parses a resource with a long file, with one thread for requests. While all places for long files are
/// taken, it is not parsed, and everybody else is served.
async fn parse_aside(resource: &str, body: &str) {
    let (robots, was_fetched) = start(body);
    let taken = occupy(robots.parser()).await;
    let others = async {
        let mut number = 0;
        let mut serve = async || {
            number += 1;
            let other = Origin::parse(&format!("http://other{number}.example")).unwrap();
            assert!(robots.find(&other).await.is_ok());
        };
        while !was_fetched.load(Ordering::SeqCst) {
            serve().await;
        }
        for _ in 0..100 {
            serve().await;
        }
    };
    let long = robots.find(Resource::parse(resource).unwrap());
    tokio::pin!(long);
    tokio::select! {
        biased;
        _ = &mut long => panic!("{resource} was parsed by the thread that serves requests"),
        () = others => {}
    }
    drop(taken);
    let known = long.await.expect("it was parsed");
    let is_document = !Resource::parse(resource).unwrap().is_robots_txt();
    assert_eq!(known.document().is_some(), is_document, "{resource}");
    assert!(matches!(known.access(), AccessResult::Successful(_)), "{resource}");
}

/// Enough lines to make the file long.
fn many(element: &str) -> String {
    element.repeat(100_000 / element.len())
}

#[tokio::test]
async fn other_requests_are_served_while_a_long_licence_is_parsed() {
    let contents = many("<content url='/a'><license/></content>");
    let licence = format!("<rsl xmlns='https://rslstandard.org/rsl'>{contents}</rsl>");
    parse_aside("http://long.example/licence.xml", &licence).await;
}

#[tokio::test]
async fn other_requests_are_served_while_long_reservations_are_parsed() {
    let entries = many("{\"location\":\"/a\",\"tdm-reservation\":1},");
    let reservations = format!("[{}]", entries.trim_end_matches(','));
    parse_aside("http://long.example/.well-known/tdmrep.json", &reservations).await;
}

#[tokio::test]
async fn other_requests_are_served_while_a_long_robots_txt_is_parsed() {
    let rules = format!("User-agent: *\n{}", many("Disallow: /a\n"));
    parse_aside("http://long.example", &rules).await;
}
