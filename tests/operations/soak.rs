//! Hours of mixed traffic and faults: memory and descriptors must not grow. Not run by default:
//! `WAYLEAVE_SOAK_SECONDS=3600 cargo test --release --test integration -- --ignored --nocapture soak`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::harness::h2_frames::{CANCEL, RST_STREAM, frame, open, request};
use crate::harness::origin::reply::{Framing, Step};
use crate::harness::{Origin, Reply, Request, Wayleave, Wire};

/// The number of hosts. Each has its own robots.txt, leaf certificate, and connections.
const HOSTS: u64 = 200;
const WORKERS: u64 = 6;
const DEFAULT_SECONDS: u64 = 300;

/// The resources that the process held at one moment.
#[derive(Clone, Copy, Debug)]
struct Sample {
    memory_kib: u64,
    descriptors: u64,
}

fn sample(proxy: &Wayleave) -> Sample {
    let open = std::fs::read_dir(format!("/proc/{}/fd", proxy.pid())).expect("Linux has it");
    Sample { memory_kib: proxy.memory_kib("VmRSS"), descriptors: open.count() as u64 }
}

fn origin_with_faults() -> Origin {
    let origin = Origin::start();
    let short = Reply::new(200).body("begin").claims_length(1000);
    let site = origin
        .site("*")
        .robots("User-agent: *\nDisallow: /private\nDisallow: /*.cgi$\n")
        .page("/big", Reply::new(200).step(Step::Pattern(1 << 20)))
        .page("/chunks", Reply::text("x".repeat(5000)).framing(Framing::Chunked))
        .page("/short", short.clone().step(Step::Close))
        .page("/reset", short.step(Step::Reset))
        .page("/hangs", Reply::nothing(Step::Hang))
        .page("/garbage", Reply::raw("SSH-2.0-x\r\n\r\n", Step::Close))
        .page("/early", Reply::new(413).body("too much").early());
    site.page("/close", Reply::text("bye").framing(Framing::UntilClose));
    origin.site("down.test").robots_reply(Reply::new(500));
    origin.site("gone.test").robots_reply(Reply::nothing(Step::Reset));
    origin
}

/// Does what clients do, a different thing for each number. Other tests check the results.
fn act(proxy: &Wayleave, number: u64) {
    let host = format!("host{}.test", number / 7 % HOSTS);
    let url = |path: &str| format!("http://{host}{path}");
    match number % 16 {
        0 => exchange(proxy, &Request::get(&url("/a"))),
        1 => exchange(proxy, &Request::get(&url("/private"))),
        2 => exchange(proxy, &Request::get(&url("/big"))),
        3 => exchange(proxy, &Request::new("POST", &url("/up")).body(vec![b'x'; 100_000])),
        4 => exchange(proxy, &Request::get(&url("/chunks"))),
        5 => exchange(
            proxy,
            &Request::get(&url(
                ["/short", "/reset", "/garbage", "/close"][(number / 16 % 4) as usize]
            )),
        ),
        6 => exchange(proxy, &Request::new("POST", &url("/early")).body(vec![b'x'; 50_000])),
        7 => exchange(
            proxy,
            &Request::get(
                ["http://down.test/", "http://gone.test/", "http://no.invalid/"]
                    [(number / 16 % 3) as usize],
            ),
        ),
        8 => leave_early(proxy, &url("/big")),
        9 => leave_early(proxy, &url("/hangs")),
        10 => malformed(proxy),
        11 => inside_tls(proxy, &host),
        12 => inside_http_2(proxy, &host),
        13 => streams_that_reset(proxy, &host),
        14 => bypassed(proxy),
        _ => connect_idle(proxy),
    }
}

fn exchange(proxy: &Wayleave, request: &Request) {
    let mut wire = proxy.connect();
    let sent = wire.try_send(request.absolute_form());
    // A second request on the same connection, if it is open.
    if sent.is_ok() && matches!(wire.try_response(false), Ok(Some(_))) {
        let _maybe_closed = wire.try_send(request.absolute_form());
        let _maybe_broken = wire.try_response(false);
    }
}

fn leave_early(proxy: &Wayleave, url: &str) {
    let mut wire = proxy.connect();
    let _maybe_closed = wire.try_send(Request::get(url).absolute_form());
    if url.ends_with("/big") {
        let _maybe_broken = wire.fill(1000);
    }
}

fn malformed(proxy: &Wayleave) {
    let mut wire = proxy.connect();
    let _maybe_closed = wire.try_send("POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n");
    let _maybe_broken = wire.try_response(false);
}

fn inside_tls(proxy: &Wayleave, host: &str) {
    let mut wire = proxy.tunnel(&format!("{host}:443"));
    for path in ["/a", "/private", "/chunks"] {
        wire.send(Request::get(&format!("https://{host}{path}")).origin_form());
        wire.response();
    }
}

fn inside_http_2(proxy: &Wayleave, host: &str) {
    let client = proxy.http2(&format!("{host}:443"));
    let paths = ["/a", "/private", "/chunks", "/b"];
    let requests = paths.map(|path| Request::get(&format!("https://{host}{path}")));
    client.exchange_all(&requests);
}

fn streams_that_reset(proxy: &Wayleave, host: &str) {
    let mut wire = open(proxy, &format!("{host}:443"));
    for number in 0..20 {
        let stream = 2 * number + 1;
        let mut frames = request(stream, host, "/hangs");
        frames.extend(frame(RST_STREAM, 0, stream, &CANCEL));
        let _maybe_closed = wire.try_send(frames);
    }
}

fn bypassed(proxy: &Wayleave) {
    let mut wire = proxy.connect();
    assert_eq!(wire.connect_tunnel("blind.test:80").status, 200);
    let url = "http://blind.test/big";
    wire.send(Request::get(url).origin_form());
    wire.response();
}

fn connect_idle(proxy: &Wayleave) {
    let idle: Vec<Wire> = (0..20).map(|_| proxy.connect()).collect();
    drop(idle);
}

/// Returns the medians, which ignore what is held only for a moment.
fn median(samples: &[Sample]) -> Sample {
    let middle = |of: fn(&Sample) -> u64| {
        let mut values: Vec<_> = samples.iter().map(of).collect();
        values.sort_unstable();
        values[values.len() / 2]
    };
    Sample {
        memory_kib: middle(|sample| sample.memory_kib),
        descriptors: middle(|sample| sample.descriptors),
    }
}

#[test]
#[ignore = "takes WAYLEAVE_SOAK_SECONDS, by default five minutes"]
fn memory_and_descriptors_stay_flat_under_mixed_traffic() {
    let seconds = std::env::var("WAYLEAVE_SOAK_SECONDS").ok();
    let seconds =
        seconds.map_or(DEFAULT_SECONDS, |text| text.parse().expect("a number of seconds"));
    let origin = origin_with_faults();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .set("https.bypass", "[\"blind.test\"]")
            .set("upstream.response_timeout", "\"1s\"")
            .set("robots.error_ttl", "\"1s\"")
            .set("politeness.crawl_delay", "\"ignore\"")
            .set("log.decisions_max_size", "\"1MiB\"")
            .set("log.decisions_keep", "\"1s\"")
    });
    let (done, acts) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut samples = Vec::new();
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    act(&proxy, acts.fetch_add(1, Ordering::Relaxed));
                }
            });
        }
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(seconds) {
            // Samples at a steady rate.
            std::thread::sleep(Duration::from_millis(500));
            samples.push(sample(&proxy));
        }
        done.store(true, Ordering::Relaxed);
    });
    let acts = acts.load(Ordering::Relaxed);
    let requests = proxy.metric("wayleave_requests_total", &[]);
    println!("{seconds} s, {acts} acts, {requests} requests");
    for tenth in samples.chunks(samples.len().div_ceil(10)) {
        println!("{:?}", median(tenth));
    }
    // The first third fills caches.
    let third = samples.len() / 3;
    let (middle, last) = (median(&samples[third..2 * third]), median(&samples[2 * third..]));
    assert_eq!(proxy.metric("wayleave_panics_total", &[]), 0.0);
    assert!(
        last.memory_kib < middle.memory_kib + middle.memory_kib / 20,
        "memory grows: {middle:?}, {last:?}"
    );
    assert!(
        last.descriptors < middle.descriptors + middle.descriptors / 20 + 16,
        "descriptors grow: {middle:?}, {last:?}"
    );
}
