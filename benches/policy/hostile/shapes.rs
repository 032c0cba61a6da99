//! The shapes of files that are made to be slow, by their weak point, and random ones.

use wayleave_robots_txt::UrlPath;

/// The product token of the rules.
pub(crate) const NAME: &str = "foobot";

/// The size up to which a file is read.
const FILE_BYTES: usize = 500 * 1024;
const PATH_BYTES: usize = 16 * 1024;

pub(crate) struct Hostile {
    pub(crate) name: String,
    pub(crate) body: Vec<u8>,
    pub(crate) path: String,
    pub(crate) token: String,
}

impl Hostile {
    pub(crate) fn path(&self) -> UrlPath<'_> {
        UrlPath::parse(&self.path).expect("shapes ask about paths")
    }
}

/// Returns a file with as many lines as fit after the name.
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

pub(crate) fn known() -> Vec<Hostile> {
    let kinds = [wildcards(), literals(), groups(), spelt(), mixed(), dense(), lines(), named()];
    kinds.into_iter().flatten().collect()
}

fn hostile(name: &str, path: String, line: impl FnMut(usize) -> String) -> Hostile {
    Hostile { name: name.to_owned(), body: fill(line), path, token: NAME.to_owned() }
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
        hostile("shortest with a star", ab.clone(), |_| "Allow:/*c".to_owned()),
        hostile("ever longer", long("a"), |n| format!("Allow:/*{}", "a".repeat(n))),
        hostile("one long chain", ab.clone(), |n| {
            if n > 0 {
                "a".repeat(FILE_BYTES)
            } else {
                format!("Allow:/{}c", "*a*b".repeat(120_000))
            }
        }),
        hostile("long chains", ab.clone(), |n| format!("Allow:/{}c{n}", "*a*b".repeat(4_000))),
        hostile("long chains, there", ab.clone(), |n| {
            format!("Allow:/{}", "*a*b".repeat(4_000 + n))
        }),
        hostile("periods", spaced, |n| format!("Allow:/*b{}b", "a".repeat(30 + n % 60))),
        hostile("stars on 500 octets", ab[..500].to_owned(), |n| format!("Allow:/*ab*ba*c{n}")),
    ];
    shapes.push(hostile("runs", format!("{}ez", long("z")), |n| {
        let [before, behind] = [64 + n % 60, 64 + n / 60].map(|count| "z".repeat(count));
        format!("Allow:/*{before}e{behind}")
    }));
    for (alphabet, length) in [("0123456789abcdef", 8), ("ab", 30)] {
        let text = random.text(alphabet, PATH_BYTES - 1);
        let (before, behind) = text.split_at(PATH_BYTES / 2);
        shapes.push(hostile(&format!("{length} octets, wrong order"), format!("/{text}"), |_| {
            let mut part = |half: &str| {
                let start = random.below(half.len() - length);
                half[start..start + length].to_owned()
            };
            format!("Allow:/*{}*{}", part(behind), part(before))
        }));
    }
    for length in [12, 20, 40] {
        // As many as still get an index.
        let most = 480_000 / (40 + (length + 2) * 5 / 2);
        shapes.push(hostile(&format!("{length} octets of two, indexed"), binary.clone(), |n| {
            if n < most {
                format!("Allow:/*{}", random.text("ab", length))
            } else {
                "a".repeat(FILE_BYTES)
            }
        }));
    }
    for length in [9, 12, 14, 16, 20, 40] {
        shapes.push(hostile(&format!("{length} octets of two"), binary.clone(), |_| {
            format!("Allow:/*{}", random.text("ab", length))
        }));
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
            if n > 10_000 { "a".repeat(FILE_BYTES) } else { format!("Allow:/catalog/products/{n}") }
        }),
        hostile("long prefix", long("a"), |n| format!("Allow:/{}{n}", "a".repeat(60))),
        hostile("each a prefix of the next", long("a"), |n| format!("Allow:/{}", "a".repeat(n))),
        hostile("anchored", long("a"), |_| "Allow:/a$".to_owned()),
        hostile("both verdicts", long("a"), |n| {
            format!("{}:/{}", if n % 2 == 0 { "Allow" } else { "Disallow" }, "a".repeat(n % 9))
        }),
    ]
}

fn groups() -> Vec<Hostile> {
    let agent = format!("User-agent:{NAME}");
    let path = long("ab");
    let mut shapes = vec![
        hostile("lines of one name", path.clone(), |_| agent.clone()),
        hostile("lines of near names", path.clone(), |n| format!("User-agent:{NAME}{n}")),
        hostile("groups of one name", path.clone(), |_| format!("{agent}\nAllow:/b")),
        hostile("records of one name", path.clone(), |_| format!("\n{agent}\nAllow:/b")),
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
            if n % 40 == 0 { agent.clone() } else { format!("Allow:/b{n}") }
        }),
        hostile("groups of 3,000", path.clone(), |n| {
            if n % 3_000 == 0 { agent.clone() } else { format!("Allow:/{n}") }
        }),
        hostile("groups of 300 with stars", path.clone(), |n| {
            if n % 300 == 0 { agent.clone() } else { format!("Allow:/*a{n}") }
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
        hostile("escapes behind a star", escapes.clone(), |n| format!("Allow:/*%7e%41{n}")),
        hostile("escapes in octets", long("\u{e9}"), |n| format!("Allow:/*\u{e9}%C3{n}")),
        hostile("long parts in octets", in_octets, |_| {
            let length = 1 + random.below(60);
            format!("Allow:/*{}", random.text("\u{e9}a", length))
        }),
        hostile("slashes", long("%2f"), |_| "Allow:/*%2f/".to_owned()),
        hostile("directories", long("ab/"), |n| format!("Allow:/*{n}/index.html")),
        hostile("directories without star", long("1/"), |n| format!("Allow:/{n}/index.htm")),
        hostile("dots and escapes", long("a/../%7e"), |n| format!("Allow:/*~{n}")),
    ]
}

/// Returns the shapes that are slowest within a decision's budget: to index, to compare in vain, to write rules, to choose
/// groups, and all of it again for every spelling of a path.
fn mixed() -> Vec<Hostile> {
    let odd = long("a//b/%7eab/./%2fab;ab/../b");
    let agent = format!("User-agent:{NAME}");
    let mut shapes = vec![
        hostile("one beginning but for one", long("a"), |n| match n {
            0 => "Allow:/b".to_owned(),
            _ => format!("Allow:/aaaaaaaaaaaaaaaaaaaa{n}"),
        }),
        hostile("stars behind each beginning", long("a"), |n| {
            format!("Allow:/{}*b{n}", "a".repeat(n % 300))
        }),
        hostile("long parts, wrong in the middle", long("a"), |n| {
            let half = "a".repeat(2_000 + n);
            format!("Allow:/*{half}b{half}")
        }),
        hostile("chains to the end", format!("{}c", long("a")), |n| {
            format!("Allow:/*a*a*a*a*a*a{n}*c$")
        }),
        hostile("escapes between stars", odd.clone(), |n| format!("Allow:/*%61*%7E*%62*%41{n}")),
        hostile("directories behind stars", long("ab/"), |n| format!("Allow:/*a*b*{n}/index.htm")),
        hostile("every spelling", odd.clone(), |n| format!("Allow:/*~*b*/{n}c")),
        hostile("every spelling, small groups", odd.clone(), |n| {
            format!("{agent}\nAllow:/*b*a{n}\nAllow:/*%7E{n}")
        }),
        hostile("every spelling, literals", odd.clone(), |n| format!("Allow:/a{n}")),
        hostile("a short path", format!("/{}", "ab".repeat(30)), |n| format!("Allow:/*b*a{n}")),
    ];
    let mut names = hostile("nearly a name, every spelling", odd.clone(), |n| {
        if n % 2 == 0 {
            "Allow:/c".to_owned()
        } else {
            format!("User-agent:{}", "fooboo".repeat(20))
        }
    });
    names.token = "foobot".to_owned();
    shapes.push(names);
    let mut names = hostile("a long name, every spelling", odd, |n| {
        if n % 2 == 0 {
            "Allow:/c".to_owned()
        } else {
            format!("User-agent:{}", "a".repeat(20_000))
        }
    });
    names.token = format!("{}b", "a".repeat(8_000));
    shapes.push(names);
    shapes
}

/// Returns the shapes that are slow to write or to parse: escapes, valid and broken, in rules of the maximal length, and
/// paths of which all spellings differ.
fn dense() -> Vec<Hostile> {
    let mut random = Random(7);
    let escapes = "%7e%7E~";
    let short = format!("/{}", random.text(escapes, 250));
    let mut lines = |most: usize, stars: usize| {
        let parts: Vec<_> = (0..stars).map(|_| random.text(escapes, most)).collect();
        format!("Allow:/*{}", parts.join("*"))
    };
    let of_stars: Vec<_> = (0..2_000).map(|_| lines(30, 8)).collect();
    let of_one: Vec<_> = (0..500).map(|_| lines(1_000, 1)).collect();
    let pick = |from: Vec<String>| move |n: usize| format!("{}{n}", from[n % from.len()]);
    let agent = format!("User-agent:{NAME}");
    vec![
        hostile("broken escapes between stars", short.clone(), pick(of_stars.clone())),
        hostile("broken escapes, long parts", short.clone(), pick(of_one)),
        hostile("broken escapes, long path", long("%7%7E~"), pick(of_stars)),
        hostile("escapes of escapes", long("%25"), |n| {
            format!("Disallow:/*{}{n}$", "%2525".repeat(n % 90))
        }),
        hostile("every byte escaped", long("%61%62"), |n| {
            format!("Disallow:/{}*{n}", "%61%62".repeat(n % 60))
        }),
        hostile("slashes, dots and stars", long("a//./b/../"), |n| {
            format!("Disallow:/*//.*/../{n}$")
        }),
        hostile("stars alone", long("a"), |n| format!("Disallow:/{}{n}$", "*".repeat(n % 400))),
        hostile("index files", long("index.html/"), |n| format!("Allow:/*{n}index.html$")),
        hostile("parameters", long(";a=%3B"), |n| format!("Disallow:/*;a=%3b*{n};$")),
        hostile("names and one rule each", long("%7e"), |n| {
            format!("User-agent:a{n}\n{agent}\nDisallow:/*%7E{n}$")
        }),
        hostile("carriage returns and tabs", long("ab"), |n| {
            format!("Disallow:\t/*a*b{n}\r\tAllow :\t/*b*a{n}\t#\r")
        }),
    ]
}

/// Returns the shapes that are slowest to parse: the shortest lines of each kind, and lines that parsers split differently.
fn lines() -> Vec<Hostile> {
    let text = |name: &str, line: &'static str| hostile(name, long("a"), |_| line.to_owned());
    vec![
        text("shortest lines", "a"),
        text("shortest directives", "a:"),
        text("shortest rules without a colon", "allow /"),
        text("blank lines and rules", "\nallow:/*b"),
        text("NULs in rules", "allow:/a\0b#"),
        hostile("lines longer than Google reads", long("a"), |n| {
            format!("allow:/*{}{n}$", "a".repeat(16_650))
        }),
    ]
}

/// Returns the shapes whose groups are slowest to choose, for a path of which every spelling differs.
fn named() -> Vec<Hostile> {
    let odd = long("a//b/%7eab/./%2fab;ab/../b");
    let cut = long("%7%2");
    let groups = |name: &str, agent: fn(usize) -> String, rules: &'static str| {
        hostile(name, odd.clone(), |n| format!("{}\n{rules}", agent(n)))
    };
    vec![
        hostile("near names, every spelling", odd.clone(), |n| format!("User-agent:{NAME}{n}")),
        groups("one name and each rule", |_| format!("User-agent:{NAME}"), "Allow:/*%7E$"),
        groups("names around it", |n| format!("\nUser-agent:{n}{NAME}x"), "Allow:/c"),
        groups("prefixes of it", |n| format!("\nUser-agent:{}", &NAME[..n % 7]), "Allow:/c"),
        groups("everyone", |_| "User-agent:*".to_owned(), "Allow:/*~$"),
        groups(
            "groups just large",
            |n| match n % 5 {
                0 => format!("User-agent:{NAME}"),
                _ => format!("Allow:/{n}*~"),
            },
            "Allow:/*/c$",
        ),
        hostile("one rule over and over, every spelling", odd.clone(), |_| {
            "Allow:/a/*/*~/c$".to_owned()
        }),
        hostile("cut escapes", cut, |n| format!("Allow:/*%7{n}*%2")),
    ]
}

/// Returns a file of one random template: wildcards and parts of a small alphabet, some numbers, and a path of the same.
pub(crate) fn random(seed: u64) -> Hostile {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let alphabet =
        random.of(&["a", "ab", "abc", "a/", "a%41", "%7e%7E~", "0123456789abcdef", "\u{e9}a"]);
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
    Hostile { name: format!("random file {seed}"), body, path, token: NAME.to_owned() }
}

/// A generator that gives the same numbers for the same seed (xorshift).
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
