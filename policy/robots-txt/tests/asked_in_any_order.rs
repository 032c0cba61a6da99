//! A verdict depends on the file, the crawler and the path, not on who asked before: one parsed file, asked by several
//! threads in random order, answers like a file parsed for each question, and like the plain model.

#![allow(
    clippy::disallowed_methods,
    reason = "the corpus is in files; the crate itself reads none (clippy.toml)"
)]

#[allow(unreachable_pub, reason = "shared with the fuzz targets, where it can be reached")]
mod model;

use std::path::Path;
use std::thread;

use wayleave_robots_txt::{
    AccessResult, AccessVerdict, Dialect, ProductToken, RobotsTxt, UrlPath, decide,
};

/// The number of questions asked unless `WAYLEAVE_QUESTIONS` is set.
const QUESTIONS: usize = 100_000;

/// The threads that ask about one file at the same time.
const THREADS: usize = 4;

/// A xorshift generator: the same seed gives the same files and questions.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    fn is_one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn choose<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end + 1));
        }
    }
}

struct Question {
    dialect: Dialect,
    name: String,
    path: String,
}

impl Question {
    fn ask(&self, access: &AccessResult) -> model::Verdict {
        let token = ProductToken::verbatim(&self.name).expect("checked when the name was chosen");
        let path = UrlPath::parse(&self.path).expect("paths begin with a slash");
        let tokens = [token];
        let decision = decide(access, self.dialect, &tokens, &path);
        (decision.verdict() == AccessVerdict::Allow, decision.line())
    }

    /// Asks a file parsed for this question alone, and the model.
    fn expected(&self, body: &[u8]) -> model::Verdict {
        let fresh = self.ask(&AccessResult::Successful(RobotsTxt::parse(body)));
        let judged = model::judge_in_any(body, self.dialect, &[&self.name], &self.path);
        assert_eq!(fresh, judged, "{self}\n{}", body.escape_ascii());
        fresh
    }
}

impl std::fmt::Display for Question {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} asks for {} in {}", self.name, self.path, self.dialect)
    }
}

fn corpus() -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/files");
    let mut files: Vec<_> =
        std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort_unstable();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// Returns lines of a few files one after the other, with such mistakes as people make.
fn spliced(files: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut body = Vec::new();
    for _ in 0..=random.below(3) {
        let lines: Vec<_> = random.choose(files).split_inclusive(|&byte| byte == b'\n').collect();
        if lines.is_empty() {
            continue;
        }
        let start = if random.is_one_in(2) { 0 } else { random.below(lines.len()) };
        let most = 1 + random.below(80);
        for line in lines[start..].iter().take(most).filter(|line| line.len() < 400) {
            push_with_mistakes(&mut body, line, random);
        }
    }
    body
}

fn push_with_mistakes(body: &mut Vec<u8>, line: &[u8], random: &mut Random) {
    let mut line = line.to_vec();
    if random.is_one_in(10) {
        match random.below(6) {
            0 => line.retain(|&byte| byte != b':'),
            1 => {
                line.remove(random.below(line.len().min(10)));
            }
            2 => body.extend_from_slice(b"\n"),
            3 => body.extend_from_slice(b"# a comment\n"),
            4 => line.insert(random.below(line.len()), *random.choose(b"\0\r#*$%")),
            _ => line.clear(),
        }
    }
    // Groups begin and end where readers differ about a line.
    let is_agent = line.to_ascii_lowercase().starts_with(b"user");
    if is_agent && random.is_one_in(2) {
        let odd = ["User-agent gamma\n", "User-agent: delta\n", "disalow: /a*b\n", "Allow: /\0\n"];
        body.extend_from_slice(random.choose(&odd).as_bytes());
    }
    body.extend_from_slice(&line);
    // A few rules with stars make a group large.
    if is_agent && random.is_one_in(3) {
        for letter in "abcdefgh".chars().take(random.below(9)) {
            let field = random.choose(&["Disallow", "Allow"]);
            body.extend_from_slice(format!("{field}: /{letter}*x\n").as_bytes());
        }
    }
}

fn questions_about(body: &[u8], random: &mut Random) -> Vec<Question> {
    let mut names = model::questions::names_in(body);
    names.retain(|name| ProductToken::verbatim(name).is_ok());
    random.shuffle(&mut names);
    names.truncate(6);
    names.extend(["delta", "gamma", "nobody"].map(str::to_owned));
    let paths = model::questions::paths_in(body);
    let question = |random: &mut Random| Question {
        dialect: *random.choose(Dialect::ALL),
        name: random.choose(&names).clone(),
        path: random.choose(&paths).clone(),
    };
    (0..60).map(|_| question(random)).collect()
}

/// Asks one file from several threads, each in an order of its own.
fn ask_in_any_order(body: &[u8], questions: &[(Question, model::Verdict)], random: &mut Random) {
    let shared = AccessResult::Successful(RobotsTxt::parse(body));
    let orders = [(); THREADS].map(|()| {
        let mut order: Vec<usize> = (0..questions.len()).collect();
        random.shuffle(&mut order);
        order
    });
    thread::scope(|scope| {
        let shared = &shared;
        for order in orders {
            scope.spawn(move || {
                for number in order {
                    let (question, expected) = &questions[number];
                    let found = question.ask(shared);
                    assert_eq!(found, *expected, "{question}\n{}", body.escape_ascii());
                }
            });
        }
    });
}

#[test]
fn a_verdict_does_not_depend_on_who_asked_before() {
    let wanted = std::env::var("WAYLEAVE_QUESTIONS").map(|count| count.parse().expect("a number"));
    let wanted: usize = wanted.unwrap_or(QUESTIONS);
    let files = corpus();
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut asked = 0;
    while asked < wanted {
        let body = spliced(&files, &mut random);
        let questions: Vec<_> = questions_about(&body, &mut random)
            .into_iter()
            .map(|question| {
                let expected = question.expected(&body);
                (question, expected)
            })
            .collect();
        ask_in_any_order(&body, &questions, &mut random);
        asked += questions.len() * THREADS;
    }
}

#[test]
fn an_index_is_found_under_its_own_group_only() {
    let rules = |field: &str| ('a'..='h').map(|c| format!("{field}: /{c}*x\n")).collect::<String>();
    let body = format!(
        "User-agent: alpha\n{}User-agent: *\nDisallow: /z*y\nUser-agent gamma\nUser-agent: delta\n{}Disallow: /\n",
        rules("Disallow"),
        rules("Allow"),
    );
    for dialect in [Dialect::Rfc9309, Dialect::Google] {
        for names in [["alpha", "delta"], ["delta", "alpha"]] {
            let shared = AccessResult::Successful(RobotsTxt::parse(body.as_bytes()));
            for name in names {
                let question = Question { dialect, name: name.to_owned(), path: "/q".to_owned() };
                assert_eq!(question.ask(&shared).0, name == "alpha", "{question}");
            }
        }
    }
}
