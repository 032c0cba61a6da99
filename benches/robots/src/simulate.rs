//! Two days of a crawl over millions of origins, in virtual time: how often robots.txt is in memory, how often it is
//! fetched, how much memory that takes, and how long a start with the full store takes.
//!
//! `simulate [ORIGINS [LOOKUPS [MEMORY_MIB]]]`; popularity is Zipf's with exponent 1.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures_util::StreamExt;
use rand::SeedableRng;
use rand::distr::Distribution;
use rand::rngs::SmallRng;
use rand_distr::Zipf;
use wayleave_bench_robots::{ScriptedFetch, answer, origin, resident_bytes};
use wayleave_clock::Clock;
use wayleave_lifecycle::{CacheEntry, FetchIdentity, FinishedFetch, Resource};
use wayleave_robots_cache::{RobotsCache, RobotsCacheConfig, RobotsStore, RobotsStoreConfig};
use wayleave_telemetry::metrics::Metrics;

const STEP: Duration = Duration::from_secs(10 * 60);
const STEPS_AN_HOUR: usize = 6;
const STEPS: usize = 2 * 24 * STEPS_AN_HOUR;
/// The number of steps between two lines of progress.
const STEPS_PRINTED: usize = 4 * STEPS_AN_HOUR;

struct Size {
    origins: usize,
    lookups: usize,
    memory: usize,
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|n| n.parse().ok());
    let size = Size {
        origins: arguments.next().unwrap_or(10_000_000),
        lookups: arguments.next().unwrap_or(20_000_000),
        memory: arguments.next().unwrap_or(256) << 20,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let dir = tempfile::tempdir_in("target").expect("a directory below target/");
        fill(dir.path(), size.origins).await;
        crawl(dir.path(), &size).await;
    });
}

fn epoch() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

fn open(dir: &Path, now: SystemTime) -> (RobotsStore, Clock, Arc<Metrics>) {
    let metrics = Arc::new(Metrics::new().expect("no two metrics have one name"));
    let clock = Clock::start_at(now);
    // The default is too small for ten million.
    let config = RobotsStoreConfig { max_size_bytes: 64 << 30, ..RobotsStoreConfig::default() };
    let store = RobotsStore::open(dir, config, clock, metrics.clone());
    (store.expect("its own directory"), clock, metrics)
}

/// Writes every origin's entry, as if each had been fetched some time in the week before.
async fn fill(dir: &Path, origins: usize) {
    let started = Instant::now();
    let (store, ..) = open(dir, epoch());
    for n in 0..origins {
        let origin = origin(n);
        let outcome = answer(
            &CacheEntry::default().request(&Resource::from(&origin), FetchIdentity::proxy()),
        );
        let age = Duration::from_secs((n as u64 * 7919) % (7 * 24 * 60 * 60));
        let entry =
            CacheEntry::default().after_fetch(FinishedFetch::of_proxy(outcome, epoch() - age));
        store.save(&origin, Arc::new(entry));
        if n % 20_000 == 0 {
            store.flush().await;
        }
        if (n + 1) % (origins / 10).max(1) == 0 {
            println!("  {} origins written after {:.0?}", n + 1, started.elapsed());
        }
    }
    store.flush().await;
    let file = std::fs::metadata(dir.join("robots.redb")).expect("it was written");
    println!(
        "store of {origins} origins: written in {:.0?}, {} bytes each",
        started.elapsed(),
        file.len() / origins as u64,
    );
}

async fn crawl(dir: &Path, size: &Size) {
    let opened = Instant::now();
    let (store, clock, metrics) = open(dir, epoch());
    let fetch = ScriptedFetch::default();
    let options = RobotsCacheConfig { memory_bytes: size.memory, ..RobotsCacheConfig::default() };
    let (robots, _) = RobotsCache::start(fetch.clone(), store, &options, clock, metrics);
    robots.find(&origin(0)).await.expect("it is kept");
    println!("start to first answer over the full store: {:.1?}", opened.elapsed());

    let before = resident_bytes();
    let zipf = Zipf::new(size.origins as f64, 1.0).expect("more than one origin");
    let mut random = SmallRng::seed_from_u64(1);
    let (mut hits, mut peak, started) = (0, 0, Instant::now());
    for step in 0..STEPS {
        let asked: Vec<usize> = (0..size.lookups / STEPS)
            .map(|_| zipf.sample(&mut random) as usize - 1)
            .map(|rank| (rank * 7_368_787) % size.origins)
            .collect();
        hits += ask(&robots, &asked).await;
        peak = peak.max(resident_bytes().saturating_sub(before));
        tokio::time::sleep(STEP).await;
        if (step + 1) % STEPS_PRINTED == 0 {
            let asked = (step + 1) * asked.len();
            println!(
                "  {} h: {asked} look-ups, {:.2} % at hand, {} fetches, {} MiB, after {:.0?}",
                (step + 1) / STEPS_AN_HOUR,
                100.0 * hits as f64 / asked as f64,
                fetch.fetched(),
                peak >> 20,
                started.elapsed(),
            );
        }
    }
    let lookups = size.lookups / STEPS * STEPS;
    println!(
        "{lookups} look-ups in 48 h: {:.2} % at hand, {} fetches, {:.4} per origin and day",
        100.0 * hits as f64 / lookups as f64,
        fetch.fetched(),
        fetch.fetched() as f64 / size.origins as f64 / 2.0,
    );
    println!(
        "memory: {} MiB counted of {} MiB allowed; the process grew by {} MiB at most",
        robots.memory_bytes() >> 20,
        size.memory >> 20,
        peak >> 20,
    );
    println!("took {:.0?}", started.elapsed());
    robots.close().await;
}

/// Looks each one up, and returns how many were in memory.
async fn ask(robots: &RobotsCache, asked: &[usize]) -> usize {
    futures_util::stream::iter(asked)
        .map(|n| async move {
            let origin = origin(*n);
            if robots.cached(&origin).is_some() {
                return 1;
            }
            robots.find(&origin).await.expect("answered at once");
            0
        })
        .buffer_unordered(256)
        .fold(0, |hits, hit| async move { hits + hit })
        .await
}
