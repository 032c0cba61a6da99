//! Finding a known origin's robots.txt among a million and deciding by it, alone and while a thousand snapshots a
//! second are swapped. Prints what an origin costs in memory first, and what this machine takes for one load from as
//! much memory: finding an origin that was not used lately takes three of those, and deciding two more.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use futures_util::StreamExt;
use rand::distr::Distribution;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::Zipf;
use tokio::runtime::Runtime;
use wayleave_bench_robots::{ScriptedFetch, allocated_bytes, origin};
use wayleave_clock::Clock;
use wayleave_robots_cache::{RobotsCache, RobotsCacheConfig, RobotsStore, RobotsStoreConfig};
use wayleave_robots_txt::{Dialect, Origin, ProductToken, UrlPath, decide_all_spellings};
use wayleave_telemetry::metrics::Metrics;

/// Origins in memory; fewer by `ORIGINS`, for a quick look.
fn origins() -> usize {
    let asked = std::env::var("ORIGINS").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(1_000_000)
}

/// Returns a cache with the origins of these numbers, and the memory of each.
async fn filled(what: &str, dir: &std::path::Path, number: impl Fn(usize) -> usize) -> RobotsCache {
    let clock = Clock::start();
    let metrics = Arc::new(Metrics::new().expect("no two metrics have one name"));
    let store = RobotsStore::open(dir, RobotsStoreConfig::default(), clock, metrics.clone());
    let store = store.expect("its own directory");
    let options = RobotsCacheConfig { memory_bytes: 16 << 30, ..RobotsCacheConfig::default() };
    let fetch = ScriptedFetch::default();
    let (robots, _) = RobotsCache::start(fetch, store, &options, clock, metrics);
    // By then the store's own cache is full, and whatever doubles its room has as much to spare as with sixteen times as
    // many.
    let first = origins() / 16;
    learn(&robots, (0..first).map(&number)).await;
    let before = allocated_bytes();
    learn(&robots, (first..origins()).map(&number)).await;
    println!(
        "{} origins {what}: {} bytes allocated for each after the first sixteenth; {} counted",
        origins(),
        allocated_bytes().saturating_sub(before) / (origins() - first).max(1),
        robots.memory_bytes() / origins(),
    );
    robots
}

async fn learn(robots: &RobotsCache, numbers: impl Iterator<Item = usize>) {
    futures_util::stream::iter(numbers)
        .for_each_concurrent(256, |n| async move {
            robots.find(&origin(n)).await.expect("answered at once");
        })
        .await;
    robots.store().flush().await;
}

/// Swaps about a thousand snapshots a second until it is stopped.
fn swap(runtime: &Runtime, robots: &RobotsCache, is_over: &Arc<AtomicBool>) {
    let (robots, is_over) = (robots.clone(), is_over.clone());
    runtime.spawn(async move {
        let mut tick = tokio::time::interval(Duration::from_millis(10));
        let mut n = 0;
        while !is_over.load(Ordering::Relaxed) {
            tick.tick().await;
            for _ in 0..10 {
                n = (n + 7919) % origins();
                let (robots, origin) = (robots.clone(), origin(n));
                tokio::spawn(async move { robots.refresh(&origin).await });
            }
        }
    });
}

/// Returns the time of `iterations` that all take as long as the median batch. A batch is much shorter than a time slice, so
/// other work on the machine has no effect.
fn median_of_batches(
    iterations: u64,
    asked: &mut Asked,
    run: impl Fn(&Origin) -> bool,
) -> Duration {
    let batches = iterations.div_ceil(BATCH as u64);
    let mut spans: Vec<Duration> = (0..batches)
        .map(|_| {
            let origins = asked.next_batch();
            let started = Instant::now();
            for origin in origins {
                black_box(run(origin));
            }
            started.elapsed()
        })
        .collect();
    spans.sort_unstable();
    spans[spans.len() / 2].mul_f64(iterations as f64 / BATCH as f64)
}

/// Prints the times of single look-ups, with the clock's own time. The batches above give the mean, in which a
/// few that wait for memory outweigh the many that do not.
fn print_each(what: &str, asked: &mut Asked, run: impl Fn(&Origin) -> bool) {
    let mut spans = Vec::with_capacity(asked.origins.len());
    while spans.len() < asked.origins.len() {
        for origin in asked.next_batch() {
            let started = Instant::now();
            black_box(run(origin));
            spans.push(started.elapsed());
        }
    }
    spans.sort_unstable();
    let [median, p90, p99] = [50, 90, 99].map(|percent| spans[spans.len() * percent / 100]);
    println!("{what}, each alone: median {median:?}, p90 {p90:?}, p99 {p99:?}");
}

/// Prints the time of a load that depends on the one before, anywhere in this number of bytes.
fn print_load(bytes: usize) {
    const LOADS: u32 = 1 << 20;
    let mut lines: Vec<[u32; 16]> = (0..(bytes / 64) as u32).map(|line| [line; 16]).collect();
    let mut random = SmallRng::seed_from_u64(3);
    // Sattolo's shuffle: one ring through all lines.
    for line in (1..lines.len()).rev() {
        lines.swap(line, random.random_range(0..line));
    }
    let started = Instant::now();
    let last = (0..LOADS).fold(0, |line, _| lines[line as usize][0]);
    let span = started.elapsed() / LOADS;
    println!("one load that waits for another, anywhere in {} MiB: {span:?}", bytes >> 20);
    black_box(last);
}

const BATCH: usize = 64;

/// The origins of the requests, again and again.
struct Asked {
    origins: Vec<Origin>,
    at: usize,
}

impl Asked {
    fn new(number: impl FnMut() -> usize) -> Self {
        let numbers = std::iter::repeat_with(number).take(1 << 17);
        Self { origins: numbers.map(origin).collect(), at: 0 }
    }

    /// The next origins, read once: a request has just parsed its own.
    fn next_batch(&mut self) -> &[Origin] {
        self.at = (self.at + BATCH) % self.origins.len();
        let batch = &self.origins[self.at..self.at + BATCH];
        black_box(batch.iter().map(|origin| origin.host().len()).sum::<usize>());
        black_box(batch.iter().any(|origin| origin.host().ends_with('x')));
        batch
    }
}

fn lookup(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let dir = tempfile::tempdir().expect("a directory");
    let bare = tempfile::tempdir().expect("a directory");
    let without_rules = |n| 20 * n + 16;
    drop(runtime.block_on(filled("without rules", bare.path(), without_rules)));
    let robots = runtime.block_on(filled("with rules", dir.path(), |n| n));
    print_load(robots.memory_bytes());
    let tokens = [ProductToken::new("ExampleBot").expect("a token")];
    let mut random = SmallRng::seed_from_u64(1);
    let zipf = Zipf::new(origins() as f64, 1.0).expect("more than one origin");
    let mut popular = Asked::new(|| {
        let rank = zipf.sample(&mut random) as usize - 1;
        (rank * 7_368_787) % origins()
    });
    // The working sets of crawlers.
    let mut random = SmallRng::seed_from_u64(4);
    let mut in_use = |few: usize| {
        let few = origins().min(few);
        Asked::new(|| random.random_range(0..few) * (origins() / few))
    };
    let (mut hundred, mut thousand) = (in_use(100), in_use(1000));
    let mut random = SmallRng::seed_from_u64(2);
    let mut any = Asked::new(|| random.random_range(0..origins()));
    let find = |origin: &Origin| black_box(robots.cached(origin)).is_some();
    let decide = |origin: &Origin| {
        let Some(known) = robots.cached(origin) else {
            return false;
        };
        let path = UrlPath::parse("/area-7/1/open/page?n=1").expect("a path");
        let decision = decide_all_spellings(known.access(), Dialect::Rfc9309, &tokens, &path);
        black_box(decision.verdict());
        true
    };
    let is_over = Arc::new(AtomicBool::new(false));
    for swapping in ["", ", 1000 snapshots a second swapped"] {
        if !swapping.is_empty() {
            swap(&runtime, &robots, &is_over);
        }
        let all = [
            (&mut hundred, "of a hundred in use"),
            (&mut thousand, "of a thousand in use"),
            (&mut popular, "by popularity"),
            (&mut any, "any"),
        ];
        for (asked, whom) in all {
            let mut group = criterion.benchmark_group(format!("{whom}{swapping}"));
            group.bench_function("find", |bencher| {
                bencher.iter_custom(|iterations| median_of_batches(iterations, asked, find));
            });
            group.bench_function("find and decide", |bencher| {
                bencher.iter_custom(|iterations| median_of_batches(iterations, asked, decide));
            });
            group.finish();
            print_each(&format!("{whom}{swapping}, find and decide"), asked, decide);
        }
    }
    is_over.store(true, Ordering::Relaxed);
    runtime.block_on(robots.close());
}

criterion_group!(benches, lookup);
criterion_main!(benches);
