//! The memory of long files while they are fetched.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use wayleave_lifecycle::{FetchErrorKind, FetchOutcome, FetchRequest, FetchResult};

use super::super::fetch_memory::UNRESERVED_BYTES;
use super::super::*;
use super::http::{Coded, body, distrust, fetcher};
use super::server::{Answer, Server};

const LONG: usize = 500_000;
/// The memory that one such file needs, with its rules.
const FILE_BYTES: usize = 2 * 512_000;

/// Answers `short.test` with a short file, `long.test` with a long one, and everybody else with the start of a long one
/// (if not coded) and then nothing.
async fn server() -> Server {
    let bomb = Coded::Gzip.encode(&[b'\n'; LONG]).await;
    Server::start(move |head| {
        let head = head.to_ascii_lowercase();
        let is_from = |host: &str| head.contains(&format!("host: {host}\r\n"));
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LONG}\r\n\r\n");
        let long = "Disallow: /\n".repeat(LONG / 12 + 1);
        if is_from("short.test") {
            return super::server::response("200 OK", "", b"User-agent: *\nDisallow: /\n");
        }
        if is_from("long.test") {
            return Answer::Whole([head.as_bytes(), &long.as_bytes()[..LONG]].concat());
        }
        if is_from("gzip.test") {
            let coded = "Content-Encoding: gzip\r\n\r\n";
            let head = head.replacen("\r\n\r\n", &format!("\r\n{coded}"), 1);
            return Answer::Stall([head.as_bytes(), &bomb].concat());
        }
        for (host, coding) in [("br", "br"), ("zstd", "zstd"), ("two", "gzip, gzip")] {
            if is_from(&format!("{host}.test")) {
                let coded = format!("\r\nContent-Encoding: {coding}\r\n\r\n");
                return Answer::Stall(head.replacen("\r\n\r\n", &coded, 1).into());
            }
        }
        Answer::Stall([head.as_bytes(), &long.as_bytes()[..2 * UNRESERVED_BYTES]].concat())
    })
    .await
}

async fn fetch(fetcher: &HttpFetcher, host: &str) -> FetchOutcome {
    let request = FetchRequest {
        identity: FetchIdentity::proxy(),
        resource: Resource::parse(&format!("http://{host}.test")).expect("a resource"),
        validators: None,
    };
    fetcher.fetch(request, None).await.outcome
}

/// Fetches from this many tarpits, and waits until the memory is used up.
async fn stall(fetcher: &Arc<HttpFetcher>, tarpits: usize) -> JoinSet<FetchOutcome> {
    let mut stalled = JoinSet::new();
    for number in 0..tarpits {
        let fetcher = fetcher.clone();
        stalled.spawn(async move { fetch(&fetcher, &format!("tarpit{number}")).await });
    }
    while fetcher.memory.held_bytes() < fetcher.options.memory_bytes {
        tokio::task::yield_now().await;
    }
    stalled
}

fn options(files: usize, timeout: Duration) -> FetchConfig {
    FetchConfig { memory_bytes: files * FILE_BYTES, timeout, ..FetchConfig::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn long_files_stay_within_their_share_and_short_ones_pass() {
    let server = server().await;
    let options = options(4, Duration::from_secs(600));
    let fetcher = Arc::new(fetcher(&server, &distrust(), options));
    let mut stalled = stall(&fetcher, 300).await;
    while server.asked().len() < 300 {
        tokio::task::yield_now().await;
    }
    for _ in 0..20 {
        let short = fetch(&fetcher, "short").await;
        assert_eq!(short.result(), FetchResult::Successful, "{short:?}");
        assert_eq!(fetcher.memory.held_bytes(), 4 * FILE_BYTES);
    }
    assert!(stalled.try_join_next().is_none());
    drop(stalled);
    while fetcher.memory.held_bytes() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_long_files_are_ended_when_others_wait() {
    let server = server().await;
    // Each may stall for half a second, and two at a time.
    let fetcher = fetcher(&server, &distrust(), options(2, Duration::from_secs(5)));
    let fetcher = Arc::new(fetcher);
    let mut stalled = stall(&fetcher, 8).await;
    let long = fetch(&fetcher, "long").await;
    assert_eq!(long.result(), FetchResult::Successful, "{long:?}");
    assert_eq!(body(&long).len(), LONG);
    let first = stalled.join_next().await.expect("eight").expect("no panic");
    let detail = first.error().expect("it has not come").detail.clone();
    assert!(detail.contains("too slowly"), "{detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_long_file_alone_has_the_full_timeout() {
    let server = server().await;
    let fetcher = fetcher(&server, &distrust(), options(2, Duration::from_millis(500)));
    let outcome = fetch(&fetcher, "tarpit").await;
    let error = outcome.error().expect("it has not come");
    assert_eq!(error.kind, FetchErrorKind::Timeout, "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn reservations_include_decoder_windows_and_stages() {
    let server = server().await;
    let windows = [("br", 16 << 20), ("zstd", 8 << 20), ("two", 2 * (32 << 10) + 8 * 512_000)];
    for (host, window) in windows {
        let options = options(40, Duration::from_secs(60));
        let fetcher = Arc::new(fetcher(&server, &distrust(), options));
        let mut fetching = JoinSet::new();
        let coded = fetcher.clone();
        fetching.spawn(async move { fetch(&coded, host).await });
        while fetcher.memory.held_bytes() == 0 {
            assert!(fetching.try_join_next().is_none(), "it ended");
            tokio::task::yield_now().await;
        }
        assert_eq!(fetcher.memory.held_bytes(), window + FILE_BYTES, "{host}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_gzip_of_a_long_file_needs_a_reservation() {
    let server = server().await;
    let fetcher = fetcher(&server, &distrust(), options(2, Duration::from_secs(60)));
    let fetcher = Arc::new(fetcher);
    let full = stall(&fetcher, 2).await;
    let asked = server.asked().len();
    let gzip = fetcher.clone();
    let mut fetching = JoinSet::new();
    fetching.spawn(async move { fetch(&gzip, "gzip").await });
    while server.asked().len() == asked {
        tokio::task::yield_now().await;
    }
    assert_eq!(fetcher.memory.held_bytes(), 2 * FILE_BYTES);
    drop(full);
    while fetcher.memory.held_bytes() != FILE_BYTES {
        assert!(fetching.try_join_next().is_none(), "it ended");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_reservation_is_held_until_the_entry_is_counted() {
    let server = server().await;
    let fetcher = fetcher(&server, &distrust(), FetchConfig::default());
    let request = FetchRequest {
        identity: FetchIdentity::proxy(),
        resource: Resource::parse("http://long.test").expect("a resource"),
        validators: None,
    };
    let fetched = fetcher.fetch(request, None).await;
    assert_eq!(fetcher.memory.held_bytes(), FILE_BYTES);
    drop(fetched);
    assert_eq!(fetcher.memory.held_bytes(), 0);
}
