//! The figures that Criterion cannot show: sums over a corpus, quantiles, bytes of memory, and ratios.
//!
//! Each decision is timed several times, and the best time counts; parsing is measured in processor time. So
//! other work on the machine adds little.

use std::collections::HashMap;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use wayleave_robots_txt::{
    AccessResult, CrawlerRules, Dialect, ProductToken, RobotsTxt, UrlPath, decide,
};

use crate::corpus::{Corpus, Question};
use crate::peers::{NAME, parse_robotstxt, successful};
use crate::{literal_rules, wild_rules};

const ORIGIN: &str = "https://example.com";

pub(crate) fn print(corpus: &Corpus) {
    print_sizes(corpus);
    print_parse(corpus);
    print_quantiles(corpus);
    print_by_rules();
}

fn print_sizes(corpus: &Corpus) {
    let bodies = corpus.bodies.values();
    let mut sizes: Vec<usize> = bodies.map(|body| RobotsTxt::parse(body).heap_bytes()).collect();
    sizes.sort_unstable();
    let total: usize = corpus.bodies.values().map(Vec::len).sum();
    println!("{} files of {} bytes on average", sizes.len(), total / sizes.len());
    println!(
        "compiled, all agents and dialects: {} bytes on average, {} at the median, {} at most",
        sizes.iter().sum::<usize>() / sizes.len(),
        sizes[sizes.len() / 2],
        sizes[sizes.len() - 1],
    );
}

/// A parser: its name, the inputs that it can read, and the call.
type Parser<'a> = (&'a str, &'a [&'a [u8]], fn(&[u8]));

/// The passes take turns, so that other work on the machine affects all parsers alike.
fn print_parse(corpus: &Corpus) {
    const ROUNDS: usize = 11;
    let bodies: Vec<&[u8]> = corpus.bodies.values().map(Vec::as_slice).collect();
    let texts = bodies.iter().map(|body| String::from_utf8_lossy(body));
    let mut texts: Vec<_> = texts.collect();
    texts.retain(|text| !panics(|| parse_robotstxt(text)));
    let left: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
    let robotstxt = match bodies.len() - left.len() {
        0 => "robotstxt 0.3.0".to_owned(),
        out => format!("robotstxt 0.3.0 (panics on {out})"),
    };
    let parsers: [Parser<'_>; 6] = [
        ("wayleave", &bodies, |body| {
            drop(black_box(RobotsTxt::parse(body)));
        }),
        ("robotxt 0.6.1", &bodies, |body| {
            drop(black_box(robotxt_0_6::Robots::from_bytes(body, NAME)));
        }),
        ("robotxt 0.7.0", &bodies, |body| {
            drop(black_box(robotxt::Robots::parse(body, NAME)));
        }),
        ("texting_robots 0.2.2", &bodies, |body| {
            drop(black_box(texting_robots::Robot::new(NAME, body)));
        }),
        ("fast-robots 0.1.5", &left, |body| {
            let text = std::str::from_utf8(body).expect("was a text");
            drop(black_box(fast_robots::RobotsTxt::parse(text)));
        }),
        (&robotstxt, &left, |body| {
            parse_robotstxt(std::str::from_utf8(body).expect("was a text"));
        }),
    ];
    let rounds: Vec<[f64; 6]> =
        (0..ROUNDS).map(|_| parsers.map(|(_, bodies, parse)| speed(bodies, parse))).collect();
    println!(
        "\nparsing all files, one after the other, middle of {ROUNDS} rounds: MB/s, and how often wayleave is as fast"
    );
    for (index, (name, ..)) in parsers.iter().enumerate() {
        let [speed, times] = [
            median(rounds.iter().map(|speeds| speeds[index])),
            median(rounds.iter().map(|speeds| speeds[0] / speeds[index])),
        ];
        println!("  {name:32}  {speed:7.0} {times:7.1} x");
    }
}

fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_unstable_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Returns whether a peer cannot read this input.
fn panics(call: impl FnOnce()) -> bool {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let panicked = catch_unwind(AssertUnwindSafe(call)).is_err();
    std::panic::set_hook(hook);
    panicked
}

/// Returns megabytes per second of processor time, over passes of a tenth of a second in total.
fn speed(bodies: &[&[u8]], parse: fn(&[u8])) -> f64 {
    const ENOUGH: f64 = 1e8;
    let bytes: usize = bodies.iter().map(|body| body.len()).sum();
    let (start, mut read) = (processor_time(), 0);
    loop {
        bodies.iter().for_each(|body| parse(black_box(body)));
        read += bytes;
        let nanoseconds = processor_time() - start;
        if nanoseconds > ENOUGH {
            return read as f64 * 1e3 / nanoseconds;
        }
    }
}

/// Returns the processor time of this thread in nanoseconds, by Linux's count.
fn processor_time() -> f64 {
    let counts = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let ran = counts.split(' ').next().expect("three numbers");
    ran.parse().expect("a number")
}

/// Measures the time of each decision on a parsed file.
fn print_quantiles(corpus: &Corpus) {
    println!(
        "\none decision on a parsed file, ns, and how often wayleave (rfc9309, whole URL) is as fast"
    );
    println!("  {:32}  {:>7} {:>7} {:>7}   {:>7} {:>7}", "", "p50", "p99", "worst", "p50", "p99");
    let accesses: HashMap<&str, AccessResult> =
        corpus.bodies.iter().map(|(file, body)| (file.as_str(), successful(body))).collect();
    let token =
        |agent: &str| ProductToken::verbatim(agent).unwrap_or_else(|_| ProductToken::anonymous());
    let mut crawlers = HashMap::new();
    let ours = quantiles(&corpus.questions, |Question { file, agent, path }| {
        let crawler = crawlers.entry((file, agent)).or_insert_with(|| {
            CrawlerRules::new(accesses[file.as_str()].clone(), vec![token(agent)])
        });
        let url = format!("{ORIGIN}{path}");
        time(CALLS, || crawler.allows(black_box(&url)))
    });
    print_row("wayleave rfc9309, whole URL", ours, ours);
    let in_dialect = |dialect| {
        quantiles(&corpus.questions, |Question { file, agent, path }| {
            let (access, tokens) = (&accesses[file.as_str()], [token(agent)]);
            time(CALLS, || {
                let path = UrlPath::parse(black_box(path)).expect("a path");
                decide(access, dialect, &tokens, &path).verdict()
            })
        })
    };
    for &dialect in Dialect::ALL {
        print_row(&format!("wayleave {dialect}, path"), in_dialect(dialect), ours);
    }
    print_peers(corpus, ours);
}

fn print_peers(corpus: &Corpus, ours: Quantiles) {
    for (name, origin) in [("whole URL", ORIGIN), ("path", "")] {
        let mut parsed = HashMap::new();
        let times = quantiles(&corpus.questions, |Question { file, agent, path }| {
            let robot = parsed.entry((file, agent)).or_insert_with(|| {
                texting_robots::Robot::new(agent, &corpus.bodies[file]).expect("any file is read")
            });
            let url = format!("{origin}{path}");
            time(CALLS, || robot.allowed(black_box(&url)))
        });
        print_row(&format!("texting_robots 0.2.2, {name}"), times, ours);
    }
    let mut parsed = HashMap::new();
    let times = quantiles(&corpus.questions, |Question { file, agent, path }| {
        let robots = parsed.entry((file, agent)).or_insert_with(|| {
            robotxt_0_6::Robots::from_bytes(&corpus.bodies[file], agent.as_str())
        });
        time(CALLS, || robots.is_relative_allowed(black_box(path)))
    });
    print_row("robotxt 0.6.1, path", times, ours);
    let mut parsed = HashMap::new();
    let times = quantiles(&corpus.questions, |Question { file, agent, path }| {
        let robots = parsed
            .entry((file, agent))
            .or_insert_with(|| robotxt::Robots::parse(&corpus.bodies[file], agent.as_str()));
        time(CALLS, || robots.is_allowed(black_box(path)))
    });
    print_row("robotxt 0.7.0, path", times, ours);
    print_fast_robots(corpus, ours);
}

/// It borrows the parsed text, and its matcher borrows it.
fn print_fast_robots(corpus: &Corpus, ours: Quantiles) {
    let texts: HashMap<&String, String> = corpus
        .bodies
        .iter()
        .map(|(file, body)| (file, String::from_utf8_lossy(body).into_owned()))
        .collect();
    let parsed: HashMap<&String, _> =
        texts.iter().map(|(file, text)| (*file, fast_robots::RobotsTxt::parse(text))).collect();
    let matchers: HashMap<&String, _> =
        parsed.iter().map(|(file, robots)| (*file, robots.matcher())).collect();
    let times = quantiles(&corpus.questions, |Question { file, agent, path }| {
        time(CALLS, || matchers[file].is_allowed(agent, black_box(path)))
    });
    print_row("fast-robots 0.1.5, matcher, path", times, ours);
}

/// Measures one decision by many rules, none of which matches.
fn print_by_rules() {
    println!("\none decision by many rules, ns");
    println!(
        "  {:24} {:>9} {:>14} {:>14} {:>14} {:>12}",
        "", "wayleave", "robotxt 0.6.1", "robotxt 0.7.0", "texting_robots", "fast-robots"
    );
    for (name, (body, path)) in
        [("10,000 literal rules", literal_rules(10_000)), ("71 rules with stars", wild_rules())]
    {
        let crawler = RobotsTxt::parse(body.as_bytes()).for_crawler(NAME).expect("a name");
        let ours = time(1_000, || crawler.allows(black_box(path)));
        let [old, new, texting, fast] = peers_by_rules(&body, path);
        println!("  {name:24} {ours:9.0} {old:14.0} {new:14.0} {texting:14.0} {fast:12.0}");
    }
}

/// Measures the same for the other crates, in the order of the heading.
fn peers_by_rules(body: &str, path: &str) -> [f64; 4] {
    const FEW: u32 = 10;
    let old = robotxt_0_6::Robots::from_bytes(body.as_bytes(), NAME);
    let new = robotxt::Robots::parse(body.as_bytes(), NAME);
    let texting = texting_robots::Robot::new(NAME, body.as_bytes()).expect("any file is read");
    let fast = fast_robots::RobotsTxt::parse(body);
    let matcher = fast.matcher();
    [
        time(FEW, || old.is_relative_allowed(black_box(path))),
        time(FEW, || new.is_allowed(black_box(path))),
        time(FEW, || texting.allowed(black_box(path))),
        time(FEW, || matcher.is_allowed(NAME, black_box(path))),
    ]
}

type Quantiles = [f64; 3];

/// Returns the median, the 99th percentile and the maximum.
fn quantiles<'a>(questions: &'a [Question], time: impl FnMut(&'a Question) -> f64) -> Quantiles {
    let mut times: Vec<f64> = questions.iter().map(time).collect();
    times.sort_unstable_by(f64::total_cmp);
    [50, 99, 100].map(|share| times[(times.len() - 1) * share / 100])
}

fn print_row(name: &str, [median, high, worst]: Quantiles, ours: Quantiles) {
    println!(
        "  {name:32}  {median:7.0} {high:7.0} {worst:7.0}   {:5.1} x {:5.1} x",
        median / ours[0],
        high / ours[1],
    );
}

const CALLS: u32 = 20;

/// Returns the nanoseconds of one call: the best mean of a few short rounds.
pub(crate) fn time<T>(calls: u32, mut call: impl FnMut() -> T) -> f64 {
    let rounds = (0..8).map(|_| {
        let start = Instant::now();
        (0..calls).for_each(|_| drop(black_box(call())));
        start.elapsed().as_secs_f64() * 1e9 / f64::from(calls)
    });
    rounds.fold(f64::INFINITY, f64::min)
}
