//! Parsing robots.txt and deciding by it, compared with four other crates.
//!
//! `cargo bench -p wayleave-benches --bench policy` measures on the sample in `policy/robots-txt/tests/corpus`; with
//! `WAYLEAVE_CORPUS=DIR` on the files and `google_verdicts.jsonl` there. Single-threaded; absolute numbers depend on the
//! machine, the ratios less. Nothing is measured unless decisions are the same in any order. The tables come first, with
//! decisions in random order, as a proxy meets them; an argument after `--` selects among the rest, as with any bench.

mod corpus;
mod hostile;
mod order;
mod peers;
mod random;
mod tables;

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion};
use wayleave_robots_txt::RobotsTxt;

use corpus::Corpus;
use peers::NAME;

fn main() {
    let corpus = Corpus::read();
    order::check(&corpus);
    random::print(&corpus);
    tables::print(&corpus);
    hostile::print_worst();
    let mut criterion = Criterion::default()
        .measurement_time(Duration::from_secs(1))
        .warm_up_time(Duration::from_millis(500))
        .sample_size(30)
        .configure_from_args();
    decide_by_rules(&mut criterion);
    decide_by_wild_rules(&mut criterion);
    decide_pathological(&mut criterion);
    hostile::bench(&mut criterion);
    criterion.final_summary();
}

/// The decision of each crate about one path, by its usual interface.
fn decide_all(criterion: &mut Criterion, group: &str, case: &str, body: &str, path: &str) {
    let mut group = criterion.benchmark_group(group);
    let crawler = RobotsTxt::parse(body.as_bytes()).for_crawler(NAME).expect("a name");
    group.bench_function(BenchmarkId::new("wayleave", case), |bencher| {
        bencher.iter(|| black_box(&crawler).allows(black_box(path)));
    });
    let robots = robotxt_0_6::Robots::from_bytes(body.as_bytes(), NAME);
    group.bench_function(BenchmarkId::new("robotxt 0.6.1", case), |bencher| {
        bencher.iter(|| black_box(&robots).is_relative_allowed(black_box(path)));
    });
    let robots = robotxt::Robots::parse(body.as_bytes(), NAME);
    group.bench_function(BenchmarkId::new("robotxt 0.7.0", case), |bencher| {
        bencher.iter(|| black_box(&robots).is_allowed(black_box(path)));
    });
    let robot = texting_robots::Robot::new(NAME, body.as_bytes()).expect("any file is read");
    group.bench_function(BenchmarkId::new("texting_robots", case), |bencher| {
        bencher.iter(|| black_box(&robot).allowed(black_box(path)));
    });
    let robots = fast_robots::RobotsTxt::parse(body);
    let matcher = robots.matcher();
    group.bench_function(BenchmarkId::new("fast-robots", case), |bencher| {
        bencher.iter(|| black_box(&matcher).is_allowed(NAME, black_box(path)));
    });
    group.finish();
}

/// Rules with a common prefix, in random order, and a path that none matches.
fn literal_rules(count: usize) -> (String, &'static str) {
    let mut body = format!("User-agent: {NAME}\n");
    for number in 0..count {
        let number = number * 7_919 % 100_003;
        writeln!(body, "Disallow: /shop/{number}/private").expect("writes to a string");
    }
    (body, "/shop/50021/open?page=2")
}

/// The rules with wildcards of a large shop, and a path that none matches.
fn wild_rules() -> (String, &'static str) {
    let mut body = format!("User-agent: {NAME}\n");
    for number in 0..71 {
        writeln!(body, "Disallow: /*?sort{number}=*&page").expect("writes to a string");
    }
    (body, "/catalog/garden/chairs/wooden-chair?colour=green&size=3")
}

fn decide_by_rules(criterion: &mut Criterion) {
    for count in [1, 10, 100, 1_000, 10_000] {
        let (body, path) = literal_rules(count);
        decide_all(criterion, "decide_by_rules", &count.to_string(), &body, path);
    }
}

fn decide_by_wild_rules(criterion: &mut Criterion) {
    let (body, path) = wild_rules();
    decide_all(criterion, "decide_by_wild_rules", "71", &body, path);
}

fn decide_pathological(criterion: &mut Criterion) {
    let body = format!("User-agent: {NAME}\nDisallow: /*a*a*a*a*b\n");
    let path = format!("/{}", "a".repeat(2_048));
    decide_all(criterion, "decide_pathological", "stars on 2 KiB", &body, &path);
}
