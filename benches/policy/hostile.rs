//! Files of 500 KiB and paths of 16 KiB that somebody made to be slow to judge.
//!
//! What counts is the first decision, with all that is put off until then, in any dialect and as the proxy asks. The
//! others are not asked: some take seconds.

use std::hint::black_box;
use std::time::Instant;

use criterion::{BatchSize, BenchmarkId, Criterion};
use wayleave_policy::{AccessResult, Dialect, ProductToken, decide, decide_strictly};

use crate::peers::{NAME, successful};

const FILE_BYTES: usize = 500 * 1024;
const PATH_BYTES: usize = 16 * 1024;

/// So many random files beside those of known shapes.
const RANDOM_FILES: u64 = 100;

struct Hostile {
    name: String,
    body: Vec<u8>,
    path: String,
    token: String,
}

/// Tries every shape and prints how long its slowest first decision takes, and its slowest later one.
pub(crate) fn print_worst() {
    println!("\nthe slowest decision on 500 KiB and 16 KiB, microseconds, first and later:");
    println!(
        "  {:28}  {:>15} {:>15} {:>15}",
        "", "one dialect", "strictest", "as the proxy"
    );
    let mut worst = [[0.0_f64; 2]; 3];
    let mut row = |hostile: &Hostile, print: bool| {
        let times = all_times(hostile);
        for (worst, times) in worst.iter_mut().zip(times) {
            *worst = [worst[0].max(times[0]), worst[1].max(times[1])];
        }
        if print {
            print_row(&hostile.name, times);
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

fn print_row(name: &str, times: [[f64; 2]; 3]) {
    let text = times.map(|[first, later]| format!("{first:7.0} {later:7.0}"));
    println!("  {name:28}  {} {} {}", text[0], text[1], text[2]);
}

type Judge = for<'a> fn(
    &'a AccessResult,
    Dialect,
    &'a [ProductToken],
    &str,
) -> wayleave_policy::Decision<'a>;

/// First and later time in the worst single dialect, in `strictest`, and of all spellings in the worst of all.
fn all_times(hostile: &Hostile) -> [[f64; 2]; 3] {
    let mut times = [[0.0_f64; 2]; 3];
    for dialect in Dialect::ALL {
        for (strictly, judge) in [(false, decide as Judge), (true, decide_strictly)] {
            let slot = match (dialect, strictly) {
                (_, true) => 2,
                (Dialect::Strictest, _) => 1,
                _ => 0,
            };
            for (time, new) in times[slot]
                .iter_mut()
                .zip(first_and_later(hostile, dialect, judge))
            {
                *time = time.max(new);
            }
        }
    }
    times
}

/// Microseconds of the first decision on a file, and of the slowest of some later ones; the best of a few rounds.
fn first_and_later(hostile: &Hostile, dialect: Dialect, judge: Judge) -> [f64; 2] {
    const ROUNDS: usize = 3;
    let tokens = [ProductToken::new(&hostile.token).expect("a name")];
    let mut best = [f64::INFINITY; 2];
    for _ in 0..ROUNDS {
        let access = successful(&hostile.body);
        let time = || {
            let start = Instant::now();
            black_box(judge(&access, dialect, &tokens, black_box(&hostile.path)).verdict());
            start.elapsed().as_secs_f64() * 1e6
        };
        let first = time();
        let later = (0..3).map(|_| time()).fold(f64::INFINITY, f64::min);
        best = [best[0].min(first), best[1].min(later)];
    }
    best
}

pub(crate) fn bench(criterion: &mut Criterion) {
    let tokens = [ProductToken::new(NAME).expect("a name")];
    for hostile in known().into_iter().take(4) {
        let access = successful(&hostile.body);
        let path = hostile.path;
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

/// A file with as many lines as fit behind the name.
fn fill(mut line: impl FnMut(usize) -> String) -> Vec<u8> {
    let mut body = format!("User-agent:{NAME}\n");
    for number in 0.. {
        let line = line(number);
        if body.len() + line.len() >= FILE_BYTES {
            break;
        }
        body += &line;
        body.push('\n');
    }
    body.into_bytes()
}

fn long(piece: &str) -> String {
    format!("/{}", piece.repeat((PATH_BYTES - 1) / piece.len()))
}

fn known() -> Vec<Hostile> {
    [wildcards(), literals(), groups(), spelt()]
        .into_iter()
        .flatten()
        .collect()
}

fn hostile(name: &str, path: String, line: impl FnMut(usize) -> String) -> Hostile {
    Hostile {
        name: name.to_owned(),
        body: fill(line),
        path,
        token: NAME.to_owned(),
    }
}

fn wildcards() -> Vec<Hostile> {
    let mut random = Random(1);
    let ab = long("ab");
    let binary = format!("/{}", random.text("ab", PATH_BYTES - 1));
    let spaced = long(&format!("b{}", "a".repeat(99)));
    let mut shapes = vec![
        hostile("same", ab.clone(), |_| "Allow:/*a*b*a*b*c".to_owned()),
        hostile("apart", ab.clone(), |n| format!("Allow:/*ab*ba*c{n}")),
        hostile("ends", ab.clone(), |n| format!("Allow:/*ba{n}$")),
        hostile("shortest with a star", ab.clone(), |_| {
            "Allow:/*c".to_owned()
        }),
        hostile("ever longer", long("a"), |n| {
            format!("Allow:/*{}", "a".repeat(n))
        }),
        hostile("one long chain", ab.clone(), |n| {
            if n > 0 {
                "a".repeat(FILE_BYTES)
            } else {
                format!("Allow:/{}c", "*a*b".repeat(120_000))
            }
        }),
        hostile("long chains", ab.clone(), |n| {
            format!("Allow:/{}c{n}", "*a*b".repeat(4_000))
        }),
        hostile("long chains, there", ab.clone(), |n| {
            format!("Allow:/{}", "*a*b".repeat(4_000 + n))
        }),
        hostile("periods", spaced, |n| {
            format!("Allow:/*b{}b", "a".repeat(30 + n % 60))
        }),
        hostile("stars on 500 octets", ab[..500].to_owned(), |n| {
            format!("Allow:/*ab*ba*c{n}")
        }),
    ];
    shapes.push(hostile("runs", format!("{}ez", long("z")), |n| {
        let [before, behind] = [64 + n % 60, 64 + n / 60].map(|count| "z".repeat(count));
        format!("Allow:/*{before}e{behind}")
    }));
    for (alphabet, length) in [("0123456789abcdef", 8), ("ab", 30)] {
        let text = random.text(alphabet, PATH_BYTES - 1);
        let (before, behind) = text.split_at(PATH_BYTES / 2);
        shapes.push(hostile(
            &format!("{length} octets, wrong order"),
            format!("/{text}"),
            |_| {
                let mut part = |half: &str| {
                    let start = random.below(half.len() - length);
                    half[start..start + length].to_owned()
                };
                format!("Allow:/*{}*{}", part(behind), part(before))
            },
        ));
    }
    for length in [12, 20, 40] {
        // As many as still get an index.
        let most = 480_000 / (40 + (length + 2) * 5 / 2);
        shapes.push(hostile(
            &format!("{length} octets of two, indexed"),
            binary.clone(),
            |n| {
                if n < most {
                    format!("Allow:/*{}", random.text("ab", length))
                } else {
                    "a".repeat(FILE_BYTES)
                }
            },
        ));
    }
    for length in [9, 12, 14, 16, 20, 40] {
        shapes.push(hostile(
            &format!("{length} octets of two"),
            binary.clone(),
            |_| format!("Allow:/*{}", random.text("ab", length)),
        ));
    }
    shapes
}

fn literals() -> Vec<Hostile> {
    let shop = format!("/catalog/products/9999999{}", "x".repeat(PATH_BYTES - 30));
    vec![
        hostile("shortest", long("a"), |_| "Allow:/".to_owned()),
        hostile("shortest, elsewhere", long("a"), |_| "Allow:/b".to_owned()),
        hostile("numbers", long("a"), |n| format!("Allow:/{n}")),
        hostile("numbers behind a prefix", shop.clone(), |n| {
            format!("Allow:/catalog/products/{n}")
        }),
        hostile("numbers behind, 10,000", shop, |n| {
            if n > 10_000 {
                "a".repeat(FILE_BYTES)
            } else {
                format!("Allow:/catalog/products/{n}")
            }
        }),
        hostile("long prefix", long("a"), |n| {
            format!("Allow:/{}{n}", "a".repeat(60))
        }),
        hostile("each a prefix of the next", long("a"), |n| {
            format!("Allow:/{}", "a".repeat(n))
        }),
        hostile("anchored", long("a"), |_| "Allow:/a$".to_owned()),
        hostile("both verdicts", long("a"), |n| {
            format!(
                "{}:/{}",
                if n % 2 == 0 { "Allow" } else { "Disallow" },
                "a".repeat(n % 9)
            )
        }),
    ]
}

fn groups() -> Vec<Hostile> {
    let agent = format!("User-agent:{NAME}");
    let path = long("ab");
    let mut shapes = vec![
        hostile("lines of one name", path.clone(), |_| agent.clone()),
        hostile("lines of near names", path.clone(), |n| {
            format!("User-agent:{NAME}{n}")
        }),
        hostile("groups of one name", path.clone(), |_| {
            format!("{agent}\nAllow:/b")
        }),
        hostile("records of one name", path.clone(), |_| {
            format!("\n{agent}\nAllow:/b")
        }),
        hostile("groups with stars", path.clone(), |n| {
            let rules = "Allow:/*ab*ba*c\n".repeat(3);
            format!("{agent}\n{rules}Allow:/*a{n}c")
        }),
        hostile("groups with stars, fewer", path.clone(), |n| {
            let rules = "Allow:/*ab*ba*c\n".repeat(3);
            match n {
                ..=1_500 => format!("{agent}\n{rules}Allow:/*a{n}c"),
                _ => "a".repeat(FILE_BYTES),
            }
        }),
        hostile("groups of 40", path.clone(), |n| {
            if n % 40 == 0 {
                agent.clone()
            } else {
                format!("Allow:/b{n}")
            }
        }),
        hostile("groups of 3,000", path.clone(), |n| {
            if n % 3_000 == 0 {
                agent.clone()
            } else {
                format!("Allow:/{n}")
            }
        }),
        hostile("groups of 300 with stars", path.clone(), |n| {
            if n % 300 == 0 {
                agent.clone()
            } else {
                format!("Allow:/*a{n}")
            }
        }),
    ];
    let mut names = hostile("a long name", path, |n| {
        if n % 2 == 0 {
            "Allow:/b".to_owned()
        } else {
            format!("User-agent:{}", "a".repeat(20_000))
        }
    });
    names.token = format!("{}b", "a".repeat(8_000));
    shapes.push(names);
    shapes
}

fn spelt() -> Vec<Hostile> {
    let mut random = Random(1);
    let escapes = long("%7e");
    let in_octets = format!("/{}", random.text("\u{e9}a", PATH_BYTES / 2));
    vec![
        hostile("shortest escape", long("a"), |_| "Allow:/%".to_owned()),
        hostile("begun escapes, there", long("%"), |_| "Allow:/%".to_owned()),
        hostile("escapes", escapes.clone(), |n| format!("Allow:/%7e%7E~{n}")),
        hostile("escapes behind a star", escapes.clone(), |n| {
            format!("Allow:/*%7e%41{n}")
        }),
        hostile("escapes in octets", long("\u{e9}"), |n| {
            format!("Allow:/*\u{e9}%C3{n}")
        }),
        hostile("long parts in octets", in_octets, |_| {
            let length = 1 + random.below(60);
            format!("Allow:/*{}", random.text("\u{e9}a", length))
        }),
        hostile("slashes", long("%2f"), |_| "Allow:/*%2f/".to_owned()),
        hostile("directories", long("ab/"), |n| {
            format!("Allow:/*{n}/index.html")
        }),
        hostile("directories without star", long("1/"), |n| {
            format!("Allow:/{n}/index.htm")
        }),
        hostile("dots and escapes", long("a/../%7e"), |n| {
            format!("Allow:/*~{n}")
        }),
    ]
}

/// A file of one random template: stars and parts of a small alphabet, numbers here and there, for a path of the same.
fn random(seed: u64) -> Hostile {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let alphabet = random.of(&[
        "a",
        "ab",
        "abc",
        "a/",
        "a%41",
        "%7e%7E~",
        "0123456789abcdef",
        "\u{e9}a",
    ]);
    let length = random.of(&[100, 500, 2_000, PATH_BYTES]);
    let mut path = format!("/{}", random.text(alphabet, length / 2));
    if random.below(4) == 0 {
        path = long(&random.text(alphabet, 8));
    }
    let parts = random.of(&[1, 2, 2, 4, 8, 40]);
    let most = random.of(&[1, 2, 4, 8, 16, 60]);
    let ends = random.of(&["", "", "", "$", "*"]);
    let numbered = random.below(3) == 0;
    let group = random.of(&[0, 0, 0, 5, 50, 2_000]);
    let body = fill(|number| {
        if group > 0 && number % group == 0 {
            return format!("User-agent:{NAME}");
        }
        let field = random.of(&["Allow", "Disallow"]);
        let mut line = format!("{field}:/");
        for part in 0..parts {
            if part > 0 || most > 2 {
                line.push('*');
            }
            let length = 1 + random.below(most);
            line += &random.text(alphabet, length);
        }
        if numbered {
            line += &number.to_string();
        }
        line + ends
    });
    Hostile {
        name: format!("random file {seed}"),
        body,
        path,
        token: NAME.to_owned(),
    }
}

/// The same numbers for the same seed, for ever (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % end
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    fn text(&mut self, alphabet: &str, length: usize) -> String {
        let characters: Vec<char> = alphabet.chars().collect();
        (0..length).map(|_| self.of(&characters)).collect()
    }
}
