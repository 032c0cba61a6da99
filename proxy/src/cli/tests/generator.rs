//! Generated configurations, files and requests. The same seed gives the same ones.

use std::fmt::Write as _;

use wayleave_decision::Reason;
use wayleave_lifecycle::FetchErrorKind;

use super::rows::DIALECTS;
use super::sites::{FileAnswer, Sites};
use super::world::CrawlRequest;

const HTTPS_MODES: [&str; 3] = ["intercept", "tunnel", "refuse"];
const PURPOSES: [&str; 6] = ["search", "ai-input", "train-ai", "archive", "tdm", "other"];
const CRAWLERS: usize = 6;
/// The hosts that rules are for; others are only decided about by robots.txt.
const RULED: usize = 8;
const FREE: usize = 24;

/// Pseudorandom numbers (SplitMix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % count as u64).unwrap()
    }

    fn one<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn has(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns some of all, in their order, at least one.
    fn some(&mut self, all: &[&'static str]) -> Vec<&'static str> {
        let chosen: Vec<_> = all.iter().copied().filter(|_| self.has(40)).collect();
        if chosen.is_empty() { vec![self.one(all)] } else { chosen }
    }
}

/// Returns the configuration of a world.
pub(super) fn configuration(number: usize, random: &mut Random) -> String {
    let mut text = format!(
        "[proxy]\nmode = \"{}\"\nrequire_crawler = {}\n[robots]\ndialect = \"{}\"\n\
         [https]\nmode = \"{}\"\nbypass = [\"bypass.test\", \"*.bypass.test\"]\n",
        if number % 4 == 3 { "observe" } else { "enforce" },
        number % 5 == 4,
        DIALECTS[number % DIALECTS.len()],
        HTTPS_MODES[number % HTTPS_MODES.len()],
    );
    if number % 2 == 1 {
        text += "[preferences]\nsources = [\"content-usage\", \"content-signal\", \"tdmrep\", \"rsl\"]\n";
    }
    text += "[[crawler]]\nname = \"net\"\ntokens = [\"NetBot\"]\nmatch = { addresses = [\"10.9.0.0/16\"] }\n\
             user_agent_must_contain_token = true\n";
    for crawler in 0..CRAWLERS {
        let (mode, dialect) =
            (random.one(&["enforce", "enforce", "observe"]), random.one(&DIALECTS));
        writeln!(
            text,
            "[[crawler]]\nname = \"c{crawler}\"\ntokens = [\"Bot{crawler}-News\", \"Bot{crawler}\"]\n\
             match = {{ user_agent = \"Bot{crawler}\" }}\nmode = \"{mode}\"\ndialect = \"{dialect}\""
        )
        .unwrap();
        if crawler % 2 == 0 {
            writeln!(text, "purposes = {:?}", random.some(&PURPOSES)).unwrap();
            writeln!(text, "unstated = \"{}\"", random.one(&["allow", "refuse"])).unwrap();
        }
    }
    for _ in 0..16 {
        text += &rule(number.is_multiple_of(2), random);
    }
    text
}

fn rule(is_for_all: bool, random: &mut Random) -> String {
    let hosts = ["*.sub.test", "bypass.test", "*.bypass.test", "ruled0.*"];
    let host = match random.has(25) {
        true => random.one(&hosts).to_owned(),
        false => format!("ruled{}.test", random.below(RULED)),
    };
    let mut text = format!("[[rule]]\nhosts = [\"{host}\"]\n");
    text += match random.below(4) {
        0 | 1 => "action = \"refuse\"\n",
        2 => "action = \"refuse\"\nlegal = true\nowner = \"law@example.com\"\n",
        _ => "action = \"allow\"\nowner = \"legal\"\nreason = \"agreed\"\n",
    };
    let expires = random.one(&["2026-01-01", "2099-01-01"]);
    if text.contains("allow") || random.has(20) {
        writeln!(text, "expires = \"{expires}\"").unwrap();
    }
    if random.has(60) {
        let paths = ["/private", "/open", "/*.pdf$", "/%70rivate/", "/", "/a/*"];
        writeln!(text, "paths = {:?}", random.some(&paths)).unwrap();
    }
    if random.has(20) {
        writeln!(text, "methods = {:?}", random.some(&["GET", "POST", "HEAD"])).unwrap();
    }
    if !is_for_all && random.has(40) {
        writeln!(text, "crawlers = {:?}", random.some(&["c0", "c1", "c2", "net", "asserted"]))
            .unwrap();
    }
    if !is_for_all && random.has(20) {
        writeln!(text, "purposes = {:?}", random.some(&PURPOSES)).unwrap();
    }
    text
}

fn hosts() -> Vec<String> {
    let ruled = (0..RULED).map(|number| format!("ruled{number}.test"));
    let free = (0..FREE).map(|number| format!("h{number}.test"));
    let others = ["a.sub.test", "bypass.test", "a.bypass.test"].map(str::to_owned);
    ruled.chain(free).chain(others).collect()
}

/// Fills the files of all origins.
pub(super) fn sites(random: &mut Random) -> Sites {
    let sites = Sites::default();
    for host in hosts() {
        for scheme in ["http", "https", "ftp"] {
            let home = format!("{scheme}://{host}");
            sites.serve(&format!("{home}/robots.txt"), robots_answer(&home, random));
            if scheme != "ftp" {
                serve_documents(&sites, &home, random);
            }
        }
    }
    // Asked about an origin that may be at any address, the proxy would look it up: this one is always known.
    for scheme in ["http", "https"] {
        let elsewhere = format!("{scheme}://licences.test");
        let robots = FileAnswer::Text("User-agent: *\nDisallow: /closed/\n".to_owned());
        sites.serve(&format!("{elsewhere}/robots.txt"), robots);
        for path in ["/open/a.xml", "/open/b.xml", "/closed/a.xml"] {
            sites.serve(&format!("{elsewhere}{path}"), FileAnswer::Text(licence(random)));
        }
        sites.serve(&format!("{elsewhere}/open/lost.xml"), FileAnswer::Status(404));
    }
    sites
}

fn robots_answer(home: &str, random: &mut Random) -> FileAnswer {
    match random.below(24) {
        0 => FileAnswer::Status(404),
        1 => FileAnswer::Status(random.one(&[401, 403, 410])),
        2 => FileAnswer::Status(random.one(&[429, 500, 503])),
        3 => FileAnswer::RedirectLost,
        4 => FileAnswer::Fails(random.one(&[
            FetchErrorKind::Dns,
            FetchErrorKind::NoSuchName,
            FetchErrorKind::DnsTimeout,
            FetchErrorKind::Prohibited,
            FetchErrorKind::Local,
            FetchErrorKind::Connect,
            FetchErrorKind::Timeout,
        ])),
        5 if random.has(30) => FileAnswer::Silent,
        _ => FileAnswer::Text(robots_txt(home, random)),
    }
}

/// Returns a robots.txt with some groups, some of their lines spelt oddly.
fn robots_txt(home: &str, random: &mut Random) -> String {
    let mut text = String::new();
    let end = random.one(&["\n", "\n", "\r\n", "\r"]);
    if random.has(10) {
        text.push('\u{feff}');
    }
    if random.has(20) {
        let licences = [
            "/licence.xml",
            "/private/licence.xml",
            "http://licences.test/open/a.xml",
            "https://licences.test/open/b.xml",
            "http://licences.test/closed/a.xml",
            "http://licences.test/open/lost.xml",
            "gopher://licences.test/a.xml",
        ];
        write!(text, "License: {}{end}", random.one(&licences)).unwrap();
    }
    for _ in 0..random.below(5) {
        for _ in 0..=random.below(2) {
            let field = random.one(&["User-agent:", "user-agent :", "Useragent:", "User Agent:"]);
            write!(text, "{field} {}{end}", agent(random)).unwrap();
        }
        for _ in 0..random.below(6) {
            let line = robots_line(home, random);
            write!(text, "{line}{end}").unwrap();
        }
        text += random.one(&["", end]);
    }
    text
}

fn agent(random: &mut Random) -> String {
    let number = random.below(CRAWLERS);
    match random.below(8) {
        0..3 => "*".to_owned(),
        3 => format!("Bot{number}"),
        4 => format!("bot{number}-news"),
        5 => format!("BOT{number}/1.0"),
        6 => "OtherBot".to_owned(),
        _ => "NetBot # ours".to_owned(),
    }
}

fn robots_line(home: &str, random: &mut Random) -> String {
    const PATTERNS: [&str; 16] = [
        "/",
        "",
        "/private",
        "/private/",
        "/private/open",
        "/%70rivate",
        "/*.pdf$",
        "/a%2Fb",
        "/a/*/c",
        "/images",
        "/*?",
        "/*",
        "/open$",
        "private",
        "/b/c%20d",
        "*",
    ];
    let pattern = random.one(&PATTERNS);
    match random.below(20) {
        0..8 => format!(
            "{} {pattern}",
            random.one(&["Disallow:", "disallow:", "Disallow :", "Dissallow:"])
        ),
        8..13 => format!("{} {pattern}", random.one(&["Allow:", "ALLOW:"])),
        13 => format!("Disallow: {home}/private"),
        14 => "Crawl-delay: 0".to_owned(),
        15 => format!("# {pattern}"),
        16 => format!(
            "Content-Usage: {}={}",
            random.one(&["train-ai", "search"]),
            random.one(&["y", "n"])
        ),
        17 => format!("Content-Usage: /private {}=n", random.one(&["train-ai", "ai-use"])),
        18 => format!(
            "Content-Signal: {}={}",
            random.one(&["search", "ai-train", "ai-input"]),
            random.one(&["yes", "no"])
        ),
        _ => format!("{pattern} no colon"),
    }
}

fn serve_documents(sites: &Sites, home: &str, random: &mut Random) {
    let location = random.one(&["/", "/private/", "/open"]);
    let tdmrep = match random.below(6) {
        0 | 1 => {
            let reserved = random.below(2);
            FileAnswer::Text(format!(
                r#"[{{"location": "{location}", "tdm-reservation": {reserved}}}]"#
            ))
        }
        2 => FileAnswer::Text("{".to_owned()),
        3 => FileAnswer::Fails(
            random.one(&[FetchErrorKind::Connect, FetchErrorKind::RedirectProhibited]),
        ),
        4 if random.has(20) => FileAnswer::Silent,
        _ => FileAnswer::Status(404),
    };
    sites.serve(&format!("{home}/.well-known/tdmrep.json"), tdmrep);
    for path in ["/licence.xml", "/private/licence.xml"] {
        let answer = match random.below(3) {
            0 => FileAnswer::Status(404),
            _ => FileAnswer::Text(licence(random)),
        };
        sites.serve(&format!("{home}{path}"), answer);
    }
}

fn licence(random: &mut Random) -> String {
    let url = random.one(&["/", "/private*", "/open"]);
    let terms = random.one(&["permits", "prohibits"]);
    let usage = random.one(&["ai-train", "search", "all", "ai-input"]);
    format!(
        "<rsl xmlns=\"https://rslstandard.org/rsl\"><content url=\"{url}\"><license>\
         <{terms} type=\"usage\">{usage}</{terms}></license></content></rsl>"
    )
}

/// Returns a request of one of the crawlers, or of another, to one of the origins.
pub(super) fn request(random: &mut Random) -> CrawlRequest {
    let hosts = hosts();
    let host = &hosts[random.below(hosts.len())];
    let scheme = random.one(&["http", "http", "http", "https", "https", "https", "ftp"]);
    let mut request = CrawlRequest {
        method: random
            .one(&["GET", "GET", "GET", "GET", "GET", "HEAD", "POST", "OPTIONS"])
            .to_owned(),
        is_in_tunnel: random.has(80),
        client: random
            .one(&[[127_u8, 0, 0, 1], [127, 0, 0, 1], [192, 0, 2, 7], [10, 9, 1, 2]])
            .into(),
        ..CrawlRequest::get(&format!("{scheme}://{host}{}", path(random)), &user_agent(random))
    };
    if request.method == "OPTIONS" && random.has(50) {
        request.url = format!("{scheme}://{host}");
    }
    // A CONNECT in lower case is not understood.
    if scheme == "http" && random.has(5) {
        request.method = "get".to_owned();
    }
    if random.has(2) {
        let objections = [Reason::WrongPassword, Reason::WrongCertificate, Reason::PasswordChecks];
        request.objection = Some(random.one(&objections));
    }
    request
}

fn user_agent(random: &mut Random) -> String {
    let number = random.below(CRAWLERS);
    match random.below(24) {
        0..8 => format!("Bot{number}/1.0"),
        8..12 => format!("Bot{number}-News/2.0"),
        12..15 => format!("Mozilla/5.0 (compatible; Bot{number}/1.0; +https://bot{number}.test)"),
        15..19 => "OtherBot/1.0".to_owned(),
        19 => "NetBot/1".to_owned(),
        20 => "GPTBot/1.2".to_owned(),
        21 => format!("Bot{number}/1.0 GPTBot/1.2"),
        22 => format!("Mozilla/5.0 ({}) Bot{number}/1.0", "x".repeat(600)),
        _ => String::new(),
    }
}

fn path(random: &mut Random) -> String {
    const PATHS: [&str; 16] = [
        "/",
        "/private",
        "/private/a",
        "/private/open",
        "/open",
        "/open/paper.pdf",
        "/images/1",
        "/a/b",
        "/a%2Fb",
        "/a/x/c",
        "/b/c%20d",
        "/search?q=1",
        "/robots.txt",
        "/x.pdf?y",
        "/caf%C3%A9",
        "/licence.xml",
    ];
    let path = random.one(&PATHS);
    match random.below(12) {
        0 => format!("/.{path}"),
        1 => format!("/{path}"),
        2 => format!("/x/..{path}"),
        3 => path.replacen('p', "%70", 1),
        4 => format!("{path};v=1"),
        5 => format!("{path}?z"),
        6 => path.replace('/', "//"),
        7 => format!("{path}%"),
        _ => path.to_owned(),
    }
}
