//! `wayleave replay` of a run with everything in it, request by request beside a real run under the other configuration.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::replay::with_robots;
use crate::harness::crawler::crawler;
use crate::harness::tools;
use crate::harness::wayleave::{Settings, command};
use crate::harness::{Origin, Reply, Request, Wayleave, Wire, decisions};

const LIMIT: Duration = Duration::from_secs(1800);
const HOSTS: usize = 80;
const CLIENTS: usize = 4;
/// Two are named otherwise under the second configuration, and two have no `[[crawler]]`.
const AGENTS: [&str; 6] =
    ["NewsBot/1", "ImageBot/2", "OtherBot/3", "TrainBot/1", "Mozilla/5.0", "PictureBot/1"];
const PATHS: [&str; 6] = ["page", "rule", "private/a", "private/b", "search?q=", "usage"];
/// The hosts of which robots.txt cannot be fetched.
const UNREACHABLE: usize = 7;
/// The name under which the log has the proxy's own requests.
const WAYLEAVE: &str = "wayleave";

/// Sets what both configurations share: the names of crawlers, on which facts depend that the log does not have.
fn common(settings: Settings) -> Settings {
    settings
        .set("log.events", "false")
        .set("log.decisions_max_size", "\"100GiB\"")
        .set("https.bypass", "[\"blind0.test\", \"blind1.test\"]")
}

fn before(settings: Settings) -> Settings {
    let settings = common(settings)
        .crawler("news", "NewsBot")
        .with(crawler("images", "ImageBot").observed())
        .crawler("other", "OtherBot")
        .with(crawler("train", "TrainBot").purposes(["train-ai"]));
    settings.table(
        "[[rule]]\naction = \"refuse\"\nhosts = [\"m1*.test\"]\npaths = [\"/rule\"]\n\
         [[rule]]\naction = \"allow\"\nhosts = [\"m3*.test\"]\npaths = [\"/private\"]\nowner = \"us\"\nreason = \"contract\"\nexpires = 2100-01-01\n\
         [[rule]]\naction = \"refuse\"\nhosts = [\"m2*.test\"]\nmethods = [\"POST\"]\n",
    )
}

/// Other modes, tokens and dialects; rules for a method, a purpose, a tunnel, by law, and one that has expired.
fn after(settings: Settings) -> Settings {
    let settings = common(settings)
        .with(crawler("news", "NewsBot").observed().set("dialect", "google"))
        .crawler("images", "PictureBot")
        .with(crawler("other", "OtherBot").set("dialect", "koster1996"))
        .with(crawler("train", "TrainBot").purposes(["train-ai"]));
    settings.table(
        "[[rule]]\naction = \"refuse\"\nhosts = [\"m4*.test\"]\npurposes = [\"train-ai\"]\n\
         [[rule]]\naction = \"refuse\"\nlegal = true\nhosts = [\"m5*.test\"]\npaths = [\"/rule\"]\nowner = \"https://law.test/\"\n\
         [[rule]]\naction = \"refuse\"\nhosts = [\"m6*.test\"]\nmethods = [\"HEAD\"]\n\
         [[rule]]\naction = \"allow\"\nhosts = [\"m2*.test\", \"m7*.test\"]\npaths = [\"/private/a\"]\nowner = \"us\"\nreason = \"contract\"\nexpires = 2100-01-01\n\
         [[rule]]\naction = \"allow\"\nhosts = [\"*\"]\nowner = \"us\"\nreason = \"over\"\nexpires = 2020-01-01\n\
         [[rule]]\naction = \"refuse\"\nhosts = [\"blind1.test\"]\n",
    )
}

fn add_sites(origin: &Origin) {
    for host in ["blind0.test", "blind1.test"] {
        origin.site(host).allows_all();
    }
    let usage = Reply::html("<p>not for training").header("Content-Usage", "train-ai=n");
    for host in 0..HOSTS {
        let site = origin.site(&format!("m{host}.test")).page("/usage", usage.clone());
        match host % 10 {
            kind @ 0..=5 => with_robots(site, kind),
            6 => site.robots_reply(Reply::redirect(301, "http://m0.test/robots.txt")),
            UNREACHABLE => site.robots_reply(Reply::new(500)),
            8 => site.robots("User-agent: *\nContent-Usage: train-ai=n\nAllow: /\n"),
            _ => site.robots("User-agent: *\nDisallow: /p*/b\nAllow: /private/b1\n"),
        };
    }
}

/// A client that keeps its connections: one to the proxy, and a tunnel for each host that speaks HTTPS.
struct Client<'p> {
    proxy: &'p Wayleave,
    plain: Option<Wire>,
    tunnels: HashMap<String, Wire>,
}

impl Client<'_> {
    fn send(&mut self, request: &Request) {
        let (scheme, host, path) = request.parts();
        let mut wire = match scheme {
            "http" => self.plain.take().unwrap_or_else(|| self.proxy.connect()),
            _ => (self.tunnels.remove(host))
                .unwrap_or_else(|| self.proxy.tunnel(&format!("{host}:443"))),
        };
        wire.send(request.bytes(if scheme == "http" { &request.url } else { path }));
        let response = wire.expect_response(request.method == "HEAD");
        if response.header("connection").is_some_and(|it| it.eq_ignore_ascii_case("close")) {
            return;
        }
        match scheme {
            "http" => self.plain = Some(wire),
            _ => drop(self.tunnels.insert(host.to_owned(), wire)),
        }
    }

    /// Opens a tunnel that is not inspected, or is refused one.
    fn open_blind(&self, host: &str) {
        self.proxy.connect().connect_tunnel(&format!("{host}:443"));
    }

    /// Sends the requests of one round that this client is for. Returns their number.
    fn crawl(&mut self, client: usize, round: usize) -> usize {
        let mut count = 0;
        for host in (client..HOSTS).step_by(CLIENTS) {
            let scheme = if host % 5 == 0 { "https" } else { "http" };
            for (number, agent) in AGENTS.into_iter().enumerate() {
                let path = match PATHS[(host + round + number) % PATHS.len()] {
                    // The origin knows it by its whole path.
                    "usage" => "usage".to_owned(),
                    path => format!("{path}{round}"),
                };
                let url = format!("{scheme}://m{host}.test/{path}");
                let request = match (host + round) % 7 {
                    0 => Request::new("HEAD", &url),
                    1 => Request::new("POST", &url).body("text"),
                    _ => Request::get(&url),
                };
                self.send(&request.agent(agent));
                count += 1;
            }
        }
        self.open_blind(["blind0.test", "blind1.test"][round % 2]);
        count + 1
    }
}

/// A line of the log: what was asked for by whom; crawler, host, whether it was refused, and what decided.
type Line = (String, [String; 3], bool);

/// Runs all requests under a configuration. Returns the directory, and the lines of the log in the order of what was asked for.
fn run(
    origin: &Origin,
    rounds: usize,
    configure: fn(Settings) -> Settings,
) -> (tempfile::TempDir, Vec<Line>) {
    let proxy = Wayleave::start_with(origin, configure);
    let sent: usize = thread::scope(|scope| {
        let crawling: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let mut client = Client { proxy: &proxy, plain: None, tunnels: HashMap::new() };
                scope.spawn(move || (0..rounds).map(|it| client.crawl(number, it)).sum::<usize>())
            })
            .collect();
        crawling.into_iter().map(|it| it.join().expect("no request is lost")).sum()
    });
    // All of the log is written then.
    let (dir, _) = proxy.stop();
    let log = std::fs::read_to_string(dir.path().join("state/decisions.jsonl")).expect("a log");
    // Without the proxy's own requests, of which there are as many as it needs: documents about use, redirects of robots.txt.
    let is_crawlers = |(_, [crawler, ..], _): &Line| crawler != WAYLEAVE;
    let mut lines: Vec<_> = decisions(&log).map(line_of).filter(is_crawlers).collect();
    assert_eq!(lines.len(), sent, "each request is logged once");
    lines.sort_unstable();
    (dir, lines)
}

fn line_of(line: &str) -> Line {
    let decision: Value = serde_json::from_str(line).expect("JSON");
    let text = |member: &str| decision[member].as_str().unwrap_or_default();
    let host = text("origin").split('/').nth(2).unwrap_or_default();
    let rule = match text("reason") {
        "policy-rule" | "policy-exception" => format!("[[rule]] {}", decision["policy"]["number"]),
        "rule" => text("rule").to_owned(),
        reason => reason.to_owned(),
    };
    let asked = format!("{} {} {}", text("url"), text("method"), text("user_agent"));
    (asked, [text("crawler").to_owned(), host.to_owned(), rule], text("outcome") == "refused")
}

type Groups = BTreeMap<[String; 3], u64>;

/// Returns the requests of a kind of change by crawler, host and rule, without those that nobody can know.
fn groups(summary: &Value, kind: &str) -> Groups {
    let rows = summary[kind]["groups"].as_array().expect("groups").iter();
    let text = |row: &Value, member: &str| row[member].as_str().expect("text").to_owned();
    rows.map(|row| {
        let key = ["crawler", "host", "rule"].map(|member| text(row, member));
        (key, row["count"].as_u64().expect("a number"))
    })
    .filter(|(key, _)| !is_left_out(kind, key))
    .collect()
}

/// Returns whether nobody can know what would have been decided. Which copy still counts while an origin is unreachable depends on
/// the dialect, and one that did not count is not recorded. What a page says about its use is not known if it was refused.
fn is_left_out(kind: &str, [crawler, host, _]: &[String; 3]) -> bool {
    let mut unreachable = (UNREACHABLE..HOSTS).step_by(10);
    let has_other_dialect = crawler == "news" || crawler == "other";
    (has_other_dialect && unreachable.any(|it| *host == format!("m{it}.test")))
        || (crawler == "train" && kind != "newly_refused")
        || crawler == WAYLEAVE
}

fn replay(config: &Path) -> Value {
    let mut command = command();
    command.args(["replay", "--json", "--config"]).arg(config);
    let output = tools::run(&mut command, b"", LIMIT);
    assert_eq!(output.status.code(), Some(3), "some are undecidable");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn compare(rounds: usize) {
    let origin = Origin::start();
    add_sites(&origin);
    let (dir, was) = run(&origin, rounds, before);
    let (_, is) = run(&origin, rounds, after);
    let new = dir.path().join("new.toml");
    let settings = after(Settings::for_origin(dir.path(), &origin));
    std::fs::write(&new, settings.to_toml()).expect("writable");
    let summary = replay(&new);
    let mut expected: BTreeMap<&str, Groups> = BTreeMap::new();
    for ((asked, then, was_refused), (also, now, is_refused)) in was.iter().zip(&is) {
        assert_eq!(asked, also, "both runs have the same requests");
        let (kind, rule) = match (was_refused, is_refused) {
            (false, true) => ("newly_refused", &now[2]),
            (true, false) => ("newly_forwarded", &then[2]),
            _ => continue,
        };
        let key = [now[0].clone(), now[1].clone(), rule.clone()];
        if !is_left_out(kind, &key) {
            *expected.entry(kind).or_default().entry(key).or_default() += 1;
        }
    }
    for (kind, expected) in expected {
        let (found, count) = (groups(&summary, kind), expected.values().sum::<u64>());
        println!("{kind}: {count} in {} groups", expected.len());
        assert_eq!(found, expected, "{kind}");
        assert!(expected.len() > 50, "{kind}: {}", expected.len());
    }
    assert_eq!(groups(&summary, "undecidable"), Groups::new());
    let count = |kind: &str| summary[kind]["count"].as_u64().expect("a number");
    let unchanged = count("unchanged");
    println!("{} decisions, {unchanged} unchanged, {} not known", was.len(), count("undecidable"));
    assert!(summary["decisions"].as_u64() >= Some(was.len() as u64), "{}", summary["decisions"]);
}

#[test]
fn a_mixed_replay_is_what_a_run_under_the_other_configuration_was() {
    compare(14);
}

/// `cargo test --release --test integration -- --ignored --nocapture million`, with `WAYLEAVE_REPLAYED` for another number.
#[test]
#[ignore = "sends two million requests: some ten minutes, and 4 GB of disk and memory"]
fn a_million_decisions_are_replayed_as_a_real_run_made_them() {
    let count = std::env::var("WAYLEAVE_REPLAYED").ok().and_then(|it| it.parse().ok());
    compare(count.unwrap_or(1_000_000_usize).div_ceil(HOSTS * AGENTS.len() + CLIENTS));
}
