//! Files of 500 KiB and paths of 16 KiB that are made to be slow.
//!
//! The first decision counts, with all work that is deferred until then, in any dialect and as the proxy decides. The
//! other crates are left out, because some take seconds. A name in the table ends in `*` if the decision was `too-costly`.

mod shapes;

use std::hint::black_box;
use std::time::Instant;

use criterion::{BatchSize, BenchmarkId, Criterion};
use wayleave_robots_txt::{
    AccessReason, AccessResult, Dialect, ProductToken, UrlPath, decide, decide_all_spellings,
};

use crate::peers::successful;

use shapes::{Hostile, NAME, known, random};

/// The number of random files, in addition to those of known shapes.
const RANDOM_FILES: u64 = 300;

/// Tries every shape and prints the times of its slowest first and its slowest later decision.
pub(crate) fn print_worst() {
    println!("\nthe slowest decision on 500 KiB and 16 KiB, microseconds, first and later:");
    println!(
        "  {:28}  {:>15} {:>15} {:>15} {:>15}",
        "", "one dialect", "strictest", "as the proxy", "parsing"
    );
    let mut worst = [[0.0_f64; 2]; 4];
    let mut row = |hostile: &Hostile, print: bool| {
        let times = all_times(hostile);
        for (worst, times) in worst.iter_mut().zip(times) {
            *worst = [worst[0].max(times[0]), worst[1].max(times[1])];
        }
        if print {
            let mark = if is_too_costly(hostile) { " *" } else { "" };
            print_row(&format!("{}{mark}", hostile.name), times);
        }
        times[0][0]
    };
    for hostile in known() {
        row(&hostile, true);
    }
    let (mut slowest, mut slow) = ((0.0, 0), 0);
    for seed in 1..=RANDOM_FILES {
        let first = row(&random(seed), false);
        slow += u32::from(first > 1000.0);
        if first > slowest.0 {
            slowest = (first, seed);
        }
    }
    row(&random(slowest.1), true);
    print_row("worst of all", worst);
    println!("  {slow} of {RANDOM_FILES} random files take more than 1,000 in one dialect");
}

/// Returns whether the proxy's first decision, in any dialect, is `too-costly`.
fn is_too_costly(hostile: &Hostile) -> bool {
    let tokens = [ProductToken::new(&hostile.token).expect("a name")];
    Dialect::ALL.iter().any(|&dialect| {
        let access = successful(&hostile.body);
        let decision = decide_all_spellings(&access, dialect, &tokens, &hostile.path());
        decision.reason() == AccessReason::TooCostly
    })
}

fn print_row(name: &str, times: [[f64; 2]; 4]) {
    let text = times.map(|[first, later]| format!("{first:7.0} {later:7.0}"));
    println!("  {name:28}  {}", text.join(" "));
}

type Judge = for<'a> fn(
    &'a AccessResult,
    Dialect,
    &'a [ProductToken],
    &UrlPath<'_>,
) -> wayleave_robots_txt::AccessDecision<'a>;

/// Returns the first and later time in the worst single dialect, in `strictest`, and of all spellings in the worst of all;
/// then of parsing.
fn all_times(hostile: &Hostile) -> [[f64; 2]; 4] {
    let mut times = [[0.0_f64; 2]; 4];
    times[3] = first_and_best(|| drop(black_box(successful(black_box(&hostile.body)))));
    for &dialect in Dialect::ALL {
        for (strictly, judge) in [(false, decide as Judge), (true, decide_all_spellings)] {
            let slot = match (dialect, strictly) {
                (_, true) => 2,
                (Dialect::Strictest, _) => 1,
                _ => 0,
            };
            for (time, new) in times[slot].iter_mut().zip(first_and_later(hostile, dialect, judge))
            {
                *time = time.max(new);
            }
        }
    }
    times
}

/// Returns the microseconds of the first decision on a file, and of the fastest of some later ones; the best of a few rounds.
fn first_and_later(hostile: &Hostile, dialect: Dialect, judge: Judge) -> [f64; 2] {
    const ROUNDS: usize = 3;
    let tokens = [ProductToken::new(&hostile.token).expect("a name")];
    let path = hostile.path();
    let rounds = (0..ROUNDS).map(|_| {
        let access = successful(&hostile.body);
        first_and_best(|| {
            black_box(judge(&access, dialect, &tokens, black_box(&path)).verdict());
        })
    });
    rounds.fold([f64::INFINITY; 2], |best, [first, later]| [best[0].min(first), best[1].min(later)])
}

/// Returns the microseconds of the first call, and of the fastest of three more.
fn first_and_best(mut call: impl FnMut()) -> [f64; 2] {
    let mut time = || {
        let start = Instant::now();
        call();
        start.elapsed().as_secs_f64() * 1e6
    };
    let first = time();
    [first, (0..3).map(|_| time()).fold(f64::INFINITY, f64::min)]
}

pub(crate) fn bench(criterion: &mut Criterion) {
    let tokens = [ProductToken::new(NAME).expect("a name")];
    for hostile in known().into_iter().take(4) {
        let access = successful(&hostile.body);
        let path = hostile.path();
        let mut group = criterion.benchmark_group("decide_worst");
        group.bench_function(BenchmarkId::new("wayleave", &hostile.name), |bencher| {
            bencher.iter(|| decide(black_box(&access), Dialect::Rfc9309, &tokens, &path).verdict());
        });
        group.finish();
        let mut group = criterion.benchmark_group("decide_worst_first");
        group.bench_function(BenchmarkId::new("wayleave", &hostile.name), |bencher| {
            bencher.iter_batched_ref(
                || successful(&hostile.body),
                |access| decide(access, Dialect::Rfc9309, &tokens, &path).verdict(),
                BatchSize::LargeInput,
            );
        });
        group.finish();
    }
}
