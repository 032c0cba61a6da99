//! Decisions as a proxy makes them: each question once per pass, in random order, so that neither the file nor the path is
//! in the processor's caches from the question before.

use std::collections::HashMap;
use std::hash::Hash;
use std::hint::black_box;
use std::time::{Instant, SystemTime};

use wayleave_robots_txt::{
    AccessResult, Dialect, ProductToken, RobotsTxt, UrlPath, decide, decide_all_spellings,
};
use wayleave_usage_preferences::{
    CrawlerDeclaration, PreferenceQuery, PreferenceSettings, PreferenceState, Purpose,
};

use crate::corpus::{Corpus, Question, shuffle};

const PASSES: usize = 5;

pub(crate) fn print(corpus: &Corpus) {
    println!(
        "\nns per decision on a parsed file, in random order, best of {PASSES} passes; right: ratio to wayleave"
    );
    println!("  {:32}  {:>7} {:>7} {:>7}   {:>7} {:>7}", "", "p50", "p99", "worst", "p50", "p99");
    let ours = wayleave(corpus, decide);
    print_row("wayleave", ours, ours);
    print_row("wayleave, every spelling", wayleave(corpus, decide_all_spellings), ours);
    print_row("the same for a purpose", for_a_purpose(corpus), ours);
    print_row("robotxt 0.6.1", robotxt_0_6(corpus), ours);
    print_row("robotxt 0.7.0", robotxt_0_7(corpus), ours);
    print_row("texting_robots 0.2.2", texting_robots(corpus), ours);
    print_row("fast-robots 0.1.5, matcher", fast_robots(corpus), ours);
}

type Decide = for<'a> fn(
    &'a AccessResult,
    Dialect,
    &'a [ProductToken],
    &UrlPath<'_>,
) -> wayleave_robots_txt::AccessDecision<'a>;

type Parsed = HashMap<String, AccessResult>;
type Tokens = HashMap<String, [ProductToken; 1]>;

/// Parses the files and the crawlers' names, untimed.
pub(crate) fn parse_all(corpus: &Corpus) -> (Parsed, Tokens) {
    let parsed = one_per_key(corpus, file, |question| {
        AccessResult::Successful(RobotsTxt::parse(&corpus.bodies[&question.file]))
    });
    let agent = |question: &Question| question.agent.clone();
    let tokens = one_per_key(corpus, agent, |question| {
        let token = ProductToken::verbatim(&question.agent);
        [token.unwrap_or_else(|_| ProductToken::anonymous())]
    });
    (parsed, tokens)
}

fn wayleave(corpus: &Corpus, decide: Decide) -> [f64; 3] {
    let (parsed, tokens) = parse_all(corpus);
    quantiles(corpus, |question| {
        let (access, tokens) = (&parsed[&question.file], &tokens[&question.agent]);
        let path = UrlPath::parse(&question.path).expect("a path");
        move || {
            black_box(decide(access, Dialect::Rfc9309, tokens, &path).verdict());
        }
    })
}

/// Decides as the proxy does for a crawler that trains models, by robots.txt alone.
fn for_a_purpose(corpus: &Corpus) -> [f64; 3] {
    let (parsed, tokens) = parse_all(corpus);
    let reading = PreferenceSettings::default();
    let declaration = CrawlerDeclaration {
        purposes: [Purpose::TrainAi].into_iter().collect(),
        ..CrawlerDeclaration::default()
    };
    let (reading, declaration, now) = (&reading, &declaration, SystemTime::now());
    quantiles(corpus, |question| {
        let (access, tokens) = (&parsed[&question.file], &tokens[&question.agent]);
        let path = UrlPath::parse(&question.path).expect("a path");
        let url = format!("https://site.test{}", question.path);
        move || {
            let dialect = Dialect::Rfc9309;
            black_box(decide_all_spellings(access, dialect, tokens, &path).verdict());
            let query = PreferenceQuery {
                declaration,
                settings: reading,
                tokens,
                dialect,
                all_spellings: true,
                now,
            };
            let mut state = PreferenceState::new(query, &url, path.as_str());
            if let AccessResult::Successful(robots) = access {
                state.add_robots_txt(query, robots);
            }
            black_box(state.judge(query).preference);
        }
    })
}

fn robotxt_0_6(corpus: &Corpus) -> [f64; 3] {
    let parsed = one_per_key(corpus, file_and_agent, |question| {
        robotxt_0_6::Robots::from_bytes(&corpus.bodies[&question.file], question.agent.as_str())
    });
    quantiles(corpus, |question| {
        let robots = &parsed[&file_and_agent(question)];
        move || {
            black_box(robots.is_relative_allowed(&question.path));
        }
    })
}

fn robotxt_0_7(corpus: &Corpus) -> [f64; 3] {
    let parsed = one_per_key(corpus, file_and_agent, |question| {
        robotxt::Robots::parse(&corpus.bodies[&question.file], question.agent.as_str())
    });
    quantiles(corpus, |question| {
        let robots = &parsed[&file_and_agent(question)];
        move || {
            black_box(robots.is_allowed(&question.path));
        }
    })
}

fn texting_robots(corpus: &Corpus) -> [f64; 3] {
    let parsed = one_per_key(corpus, file_and_agent, |question| {
        let body = &corpus.bodies[&question.file];
        texting_robots::Robot::new(&question.agent, body).expect("any file is read")
    });
    quantiles(corpus, |question| {
        let robot = &parsed[&file_and_agent(question)];
        move || {
            black_box(robot.allowed(&question.path));
        }
    })
}

fn fast_robots(corpus: &Corpus) -> [f64; 3] {
    let texts = one_per_key(corpus, file, |question| {
        String::from_utf8_lossy(&corpus.bodies[&question.file]).into_owned()
    });
    let parsed: HashMap<_, _> =
        texts.iter().map(|(file, text)| (file, fast_robots::RobotsTxt::parse(text))).collect();
    let matchers: HashMap<_, _> =
        parsed.iter().map(|(file, robots)| (*file, robots.matcher())).collect();
    quantiles(corpus, |question| {
        let matcher = &matchers[&question.file];
        move || {
            black_box(matcher.is_allowed(&question.agent, &question.path));
        }
    })
}

fn file(question: &Question) -> String {
    question.file.clone()
}

fn file_and_agent(question: &Question) -> (String, String) {
    (question.file.clone(), question.agent.clone())
}

/// Returns one value for each distinct key of the questions.
fn one_per_key<K: Hash + Eq, V>(
    corpus: &Corpus,
    key: impl Fn(&Question) -> K,
    value: impl Fn(&Question) -> V,
) -> HashMap<K, V> {
    let mut all = HashMap::new();
    for question in &corpus.questions {
        all.entry(key(question)).or_insert_with(|| value(question));
    }
    all
}

/// Returns the median, the 99th percentile and the maximum of single calls, without the clock's own time. We keep each
/// question's best pass, to filter out interference; its file and path are cold in every pass. `prepare` looks up what the
/// call needs, untimed.
fn quantiles<'a, C: FnOnce()>(corpus: &'a Corpus, prepare: impl Fn(&'a Question) -> C) -> [f64; 3] {
    let nothing = (0..10_000).map(|_| time(|| {}));
    let clock_overhead = nothing.fold(f64::INFINITY, f64::min);
    let mut order: Vec<usize> = (0..corpus.questions.len()).collect();
    let mut times = vec![f64::INFINITY; order.len()];
    let mut seed = 1;
    for _ in 0..PASSES {
        shuffle(&mut order, &mut seed);
        for &index in &order {
            let took = time(prepare(&corpus.questions[index])) - clock_overhead;
            times[index] = times[index].min(took);
        }
    }
    times.sort_unstable_by(f64::total_cmp);
    [50, 99, 100].map(|share| times[(times.len() - 1) * share / 100])
}

fn time(call: impl FnOnce()) -> f64 {
    let start = Instant::now();
    call();
    start.elapsed().as_secs_f64() * 1e9
}

fn print_row(name: &str, [median, high, worst]: [f64; 3], ours: [f64; 3]) {
    println!(
        "  {name:32}  {median:7.0} {high:7.0} {worst:7.0}   {:5.1} x {:5.1} x",
        median / ours[0],
        high / ours[1],
    );
}
