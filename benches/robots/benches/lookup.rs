//! Finding a known origin's robots.txt among a million and deciding by it, alone and while a thousand snapshots a
//! second are swapped. Prints what an origin costs in memory first.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use futures_util::StreamExt;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::runtime::Runtime;
use wayleave::clock::Clock;
use wayleave::metrics::Metrics;
use wayleave::robots::{Options, Robots, Store, StoreOptions};
use wayleave_bench_robots::{ScriptedFetch, origin, resident_bytes};
use wayleave_policy::{Dialect, Origin, ProductToken, decide_strictly};

/// Origins in memory; fewer by `ORIGINS`, for a quick look.
fn origins() -> usize {
    let asked = std::env::var("ORIGINS").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(1_000_000)
}

async fn filled(dir: &std::path::Path) -> Robots {
    let clock = Clock::start();
    let metrics = Arc::new(Metrics::new().expect("no two metrics have one name"));
    let store = Store::open(dir, StoreOptions::default(), clock, metrics.clone())
        .expect("its own directory");
    let options = Options {
        memory: 16 << 30,
        ..Options::default()
    };
    let fetch = ScriptedFetch::default();
    let (robots, _) = Robots::start(fetch, store, &options, clock, metrics);
    let before = resident_bytes();
    futures_util::stream::iter(0..origins())
        .for_each_concurrent(256, |n| {
            let robots = &robots;
            async move {
                robots.find(&origin(n)).await.expect("answered at once");
            }
        })
        .await;
    robots.store().flush().await;
    let held = resident_bytes() - before;
    println!(
        "{} origins: {} bytes each held by the process, store included; {} counted",
        origins(),
        held / origins(),
        robots.memory_bytes() / origins(),
    );
    robots
}

/// Swaps about a thousand snapshots a second until told to stop.
fn swap(runtime: &Runtime, robots: &Robots, is_over: &Arc<AtomicBool>) {
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

/// What `iterations` take if all take as long as the median batch. A batch is much shorter than a time slice, so that
/// what else the machine does falls out.
fn median_of_batches(iterations: u64, mut run: impl FnMut() -> bool) -> Duration {
    const BATCH: u32 = 64;
    let batches = iterations.div_ceil(u64::from(BATCH));
    let mut spans: Vec<Duration> = (0..batches)
        .map(|_| {
            let started = Instant::now();
            for _ in 0..BATCH {
                black_box(run());
            }
            started.elapsed()
        })
        .collect();
    spans.sort_unstable();
    spans[spans.len() / 2].mul_f64(iterations as f64 / f64::from(BATCH))
}

fn lookup(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let dir = tempfile::tempdir().expect("a directory");
    let robots = runtime.block_on(filled(dir.path()));
    let tokens = [ProductToken::new("ExampleBot").expect("a token")];
    let mut random = SmallRng::seed_from_u64(1);
    let asked: Vec<Origin> = (0..1 << 16)
        .map(|_| origin(random.random_range(0..origins())))
        .collect();
    let mut group = criterion.benchmark_group("lookup and decision");
    group.throughput(Throughput::Elements(1));
    let decide_next = |at: &mut usize| {
        *at = (*at + 1) % asked.len();
        let snapshot = robots.at_hand(&asked[*at]);
        snapshot.is_some_and(|snapshot| {
            let access = snapshot.access(robots.clock().now());
            let decision =
                decide_strictly(access, Dialect::Rfc9309, &tokens, "/area-7/1/open/page?n=1");
            black_box(decision.verdict());
            true
        })
    };
    let mut at = 0;
    let find_next = |at: &mut usize| {
        *at = (*at + 1) % asked.len();
        black_box(robots.at_hand(&asked[*at])).is_some()
    };
    group.bench_function("without the decision", |bencher| {
        bencher.iter_custom(|iterations| median_of_batches(iterations, || find_next(&mut at)));
    });
    group.bench_function("alone", |bencher| {
        bencher.iter_custom(|iterations| median_of_batches(iterations, || decide_next(&mut at)));
    });
    let is_over = Arc::new(AtomicBool::new(false));
    swap(&runtime, &robots, &is_over);
    group.bench_function("while 1000 snapshots a second are swapped", |bencher| {
        bencher.iter_custom(|iterations| median_of_batches(iterations, || decide_next(&mut at)));
    });
    is_over.store(true, Ordering::Relaxed);
    group.finish();
    runtime.block_on(robots.close());
}

criterion_group!(benches, lookup);
criterion_main!(benches);
