//! Owned by benches/Cargo.toml: reading robots.txt and deciding by it, beside three other crates.
//!
//! `cargo bench -p wayleave-benches --bench policy` measures on the sample in `policy/tests/corpus`; with
//! `WAYLEAVE_CORPUS=DIR` on the files and `google_verdicts.jsonl` there. Single-threaded; absolute numbers depend on the
//! machine, the ratios less. First come tables that Criterion has no form for: quantiles, and bytes of memory.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use robotstxt::RobotsParseHandler;
use wayleave_policy::{AccessResult, Dialect, ProductToken, RobotsTxt, decide, path_to_judge};

const NAME: &str = "foobot";

fn main() {
    let corpus = Corpus::read();
    corpus.print_sizes();
    corpus.print_quantiles();
    let mut criterion = Criterion::default()
        .measurement_time(Duration::from_secs(1))
        .warm_up_time(Duration::from_millis(500))
        .sample_size(30)
        .configure_from_args();
    parse(&mut criterion, &corpus);
    decide_by_rules(&mut criterion);
    decide_by_wild_rules(&mut criterion);
    decide_pathological(&mut criterion);
    criterion.final_summary();
}

/// Real files, and questions about them.
struct Corpus {
    bodies: HashMap<String, Vec<u8>>,
    questions: Vec<Question>,
}

struct Question {
    file: String,
    agent: String,
    path: String,
}

impl Corpus {
    fn read() -> Self {
        let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../policy/tests/corpus");
        let dir = std::env::var_os("WAYLEAVE_CORPUS").map_or(PathBuf::from(sample), PathBuf::from);
        let files = std::fs::read_dir(dir.join("files")).expect("a directory of files");
        let bodies = files.map(|file| {
            let path = file.expect("a readable directory").path();
            let name = path
                .file_name()
                .expect("a file has a name")
                .to_string_lossy()
                .into_owned();
            (
                format!("files/{name}"),
                std::fs::read(path).expect("a readable file"),
            )
        });
        let bodies = bodies.collect();
        let verdicts = std::fs::read_to_string(dir.join("google_verdicts.jsonl"));
        let verdicts = verdicts.expect("google_verdicts.jsonl beside the files");
        let questions = verdicts.lines().flat_map(questions).collect();
        Self { bodies, questions }
    }

    fn print_sizes(&self) {
        let mut sizes: Vec<usize> = self
            .bodies
            .values()
            .map(|body| RobotsTxt::parse(body).heap_bytes())
            .collect();
        sizes.sort_unstable();
        let total: usize = self.bodies.values().map(Vec::len).sum();
        println!(
            "{} files of {} bytes on average",
            sizes.len(),
            total / sizes.len()
        );
        println!(
            "compiled, all agents and dialects: {} bytes on average, {} at the median, {} at most",
            sizes.iter().sum::<usize>() / sizes.len(),
            sizes[sizes.len() / 2],
            sizes[sizes.len() - 1],
        );
    }

    /// The time of each decision on a file already parsed, the best of several rounds.
    fn print_quantiles(&self) {
        println!("one decision on a parsed file, ns:       p50     p99   worst");
        let accesses: HashMap<&str, AccessResult> = self
            .bodies
            .iter()
            .map(|(file, body)| (file.as_str(), successful(body)))
            .collect();
        for dialect in Dialect::ALL {
            let times = self.questions.iter().map(|Question { file, agent, path }| {
                let access = &accesses[file.as_str()];
                let tokens =
                    [ProductToken::new(agent).unwrap_or_else(|_| ProductToken::anonymous())];
                time(|| decide(black_box(access), dialect, &tokens, black_box(path)))
            });
            print_row(&format!("wayleave {dialect}"), times.collect());
        }
        let mut parsed = HashMap::new();
        for whole in [true, false] {
            let times = self.questions.iter().map(|Question { file, agent, path }| {
                let robot = parsed.entry((file, agent)).or_insert_with(|| {
                    texting_robots::Robot::new(agent, &self.bodies[file]).expect("any file is read")
                });
                let url = format!("{}{path}", if whole { "https://example.com" } else { "" });
                time(|| robot.allowed(black_box(&url)))
            });
            let name = if whole {
                "texting_robots, whole URL"
            } else {
                "texting_robots, path"
            };
            print_row(name, times.collect());
        }
        let mut parsed = HashMap::new();
        let times = self.questions.iter().map(|Question { file, agent, path }| {
            let robots = parsed
                .entry((file, agent))
                .or_insert_with(|| robotxt::Robots::parse(&self.bodies[file], agent.as_str()));
            time(|| robots.is_allowed(black_box(path)))
        });
        print_row("robotxt, path", times.collect());
    }
}

fn questions(line: &str) -> Vec<Question> {
    let row: serde_json::Value = serde_json::from_str(line).expect("a row of verdicts");
    let text = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
    let queries = row["queries"].as_array().expect("queries");
    let question = |query: &serde_json::Value| Question {
        file: text(&row["file"]),
        agent: text(&row["agent"]),
        path: path_to_judge(&text(&query[0])).into_owned(),
    };
    queries.iter().map(question).collect()
}

/// Nanoseconds of one call: the best mean of a few short rounds.
fn time<T>(mut call: impl FnMut() -> T) -> f64 {
    const CALLS: u32 = 20;
    let rounds = (0..5).map(|_| {
        let start = Instant::now();
        (0..CALLS).for_each(|_| drop(black_box(call())));
        start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
    });
    rounds.fold(f64::INFINITY, f64::min)
}

fn print_row(name: &str, mut times: Vec<f64>) {
    times.sort_unstable_by(f64::total_cmp);
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    println!("  {name:32}  {:7.0} {:7.0} {:7.0}", at(50), at(99), at(100));
}

fn successful(body: &[u8]) -> AccessResult {
    AccessResult::Successful(Arc::new(RobotsTxt::parse(body)))
}

/// Takes what robotstxt's parser finds; it keeps nothing itself.
struct Ignore;

impl RobotsParseHandler for Ignore {
    fn handle_robots_start(&mut self) {}
    fn handle_robots_end(&mut self) {}
    fn handle_user_agent(&mut self, line: u32, value: &str) {
        black_box((line, value));
    }
    fn handle_allow(&mut self, line: u32, value: &str) {
        black_box((line, value));
    }
    fn handle_disallow(&mut self, line: u32, value: &str) {
        black_box((line, value));
    }
    fn handle_sitemap(&mut self, line: u32, value: &str) {
        black_box((line, value));
    }
    fn handle_unknown_action(&mut self, line: u32, action: &str, value: &str) {
        black_box((line, action, value));
    }
}

fn parse(criterion: &mut Criterion, corpus: &Corpus) {
    let bodies: Vec<&[u8]> = corpus.bodies.values().map(Vec::as_slice).collect();
    let texts: Vec<_> = bodies
        .iter()
        .map(|body| String::from_utf8_lossy(body))
        .collect();
    let mut group = criterion.benchmark_group("parse");
    let bytes = bodies.iter().map(|body| body.len() as u64).sum();
    group.throughput(Throughput::Bytes(bytes)).sample_size(20);
    group.bench_function("wayleave", |bencher| {
        bencher.iter(|| {
            bodies
                .iter()
                .for_each(|body| drop(black_box(RobotsTxt::parse(body))));
        });
    });
    group.bench_function("robotxt", |bencher| {
        bencher.iter(|| {
            bodies
                .iter()
                .for_each(|body| drop(black_box(robotxt::Robots::parse(body, NAME))));
        });
    });
    group.bench_function("robotstxt", |bencher| {
        bencher.iter(|| {
            texts
                .iter()
                .for_each(|text| robotstxt::parse_robotstxt(text, &mut Ignore));
        });
    });
    group.bench_function("texting_robots", |bencher| {
        bencher.iter(|| {
            bodies
                .iter()
                .for_each(|body| drop(black_box(texting_robots::Robot::new(NAME, body))));
        });
    });
    group.finish();
}

/// What is decided about one path by all, as they are asked in earnest.
fn decide_all(criterion: &mut Criterion, group: &str, case: &str, body: &str, path: &str) {
    let mut group = criterion.benchmark_group(group);
    let access = successful(body.as_bytes());
    let tokens = [ProductToken::new(NAME).expect("a name")];
    group.bench_function(BenchmarkId::new("wayleave", case), |bencher| {
        bencher.iter(|| {
            decide(
                black_box(&access),
                Dialect::Rfc9309,
                &tokens,
                black_box(path),
            )
            .verdict()
        });
    });
    let robots = robotxt::Robots::parse(body.as_bytes(), NAME);
    group.bench_function(BenchmarkId::new("robotxt", case), |bencher| {
        bencher.iter(|| black_box(&robots).is_allowed(black_box(path)));
    });
    let robot = texting_robots::Robot::new(NAME, body.as_bytes()).expect("any file is read");
    group.bench_function(BenchmarkId::new("texting_robots", case), |bencher| {
        bencher.iter(|| black_box(&robot).allowed(black_box(path)));
    });
    group.finish();
}

fn decide_by_rules(criterion: &mut Criterion) {
    for count in [1, 10, 100, 1_000, 10_000] {
        let mut body = format!("User-agent: {NAME}\n");
        for number in 0..count {
            let number = number * 7_919 % 100_003;
            writeln!(body, "Disallow: /shop/{number}/private").expect("writes to a string");
        }
        decide_all(
            criterion,
            "decide_by_rules",
            &count.to_string(),
            &body,
            "/shop/50021/open?page=2",
        );
    }
}

fn decide_by_wild_rules(criterion: &mut Criterion) {
    let mut body = format!("User-agent: {NAME}\n");
    for number in 0..71 {
        writeln!(body, "Disallow: /*?sort{number}=*&page").expect("writes to a string");
    }
    let path = "/catalog/garden/chairs/wooden-chair?colour=green&size=3";
    decide_all(criterion, "decide_by_wild_rules", "71", &body, path);
}

fn decide_pathological(criterion: &mut Criterion) {
    let body = format!("User-agent: {NAME}\nDisallow: /*a*a*a*a*b\n");
    let path = format!("/{}", "a".repeat(2_048));
    decide_all(
        criterion,
        "decide_pathological",
        "stars on 2 KiB",
        &body,
        &path,
    );

    // 500 KiB of rules that all have to be tried on 16 KiB: only our own, the others take seconds.
    let tokens = [ProductToken::new(NAME).expect("a name")];
    let path = format!("/{}", "ab".repeat(8 * 1024));
    let mut group = criterion.benchmark_group("decide_worst");
    for (case, rule) in [
        ("same", "/*a*b*a*b*c"),
        ("apart", "/*ab*ba*c{}"),
        ("ends", "/*ba{}$"),
    ] {
        let mut body = format!("User-agent: {NAME}\n");
        for number in 0.. {
            let rule = rule.replace("{}", &number.to_string());
            if body.len() + rule.len() + 11 > 500 * 1024 {
                break;
            }
            writeln!(body, "Disallow: {rule}").expect("writes to a string");
        }
        let access = successful(body.as_bytes());
        group.bench_function(BenchmarkId::new("wayleave", case), |bencher| {
            bencher.iter(|| decide(black_box(&access), Dialect::Rfc9309, &tokens, &path).verdict());
        });
    }
    group.finish();
}
