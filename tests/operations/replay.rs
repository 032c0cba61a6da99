//! `wayleave replay`: what a run under one configuration would have been under another.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use serde_json::Value;

use crate::harness::crawler::crawler;
use crate::harness::origin::SiteHandle;
use crate::harness::tools;
use crate::harness::wayleave::{Settings, command};
use crate::harness::{Origin, Reply, Request, Wayleave, decisions, eventually};

const LIMIT: Duration = Duration::from_secs(300);
const HOSTS: usize = 60;

/// The configuration that ran.
fn before(settings: Settings) -> Settings {
    let settings = settings
        .set("log.events", "false")
        .crawler("news", "NewsBot")
        .with(crawler("images", "ImageBot").observed());
    settings.table(
        "[[rule]]\naction = \"refuse\"\nhosts = [\"h1.test\", \"h2.test\", \"h1*.test\"]\npaths = [\"/rule\"]\n\
         [[rule]]\naction = \"allow\"\nhosts = [\"h3.test\", \"h3*.test\"]\npaths = [\"/private\"]\nowner = \"us\"\nreason = \"contract\"\nexpires = 2100-01-01\n",
    )
}

/// The configuration that is tried: another mode, other tokens, another dialect, rules that are gone, new or changed, and a crawler
/// that was not known.
fn after(settings: Settings) -> Settings {
    let settings = settings
        .set("log.events", "false")
        .set("robots.dialect", "\"google\"")
        .with(crawler("news", "NewsBot").observed())
        .with(crawler("images", "ImageBot").set("tokens", ["PictureBot"]))
        .crawler("new", "OtherBot");
    settings.table(
        "[[rule]]\naction = \"refuse\"\nhosts = [\"h2.test\", \"h5*.test\"]\npaths = [\"/page\"]\ncrawlers = [\"new\", \"images\"]\n\
         [[rule]]\naction = \"refuse\"\nlegal = true\nhosts = [\"h4*.test\"]\npaths = [\"/rule\"]\nowner = \"https://law.test/\"\n\
         [[rule]]\naction = \"allow\"\nhosts = [\"h2*.test\"]\npaths = [\"/private/a\"]\nowner = \"us\"\nreason = \"contract\"\nexpires = 2100-01-01\n",
    )
}

fn add_sites(origin: &Origin) {
    for host in 0..HOSTS {
        with_robots(origin.site(&format!("h{host}.test")), host % 6);
    }
}

/// Gives a site a robots.txt, of six kinds.
pub(super) fn with_robots(site: SiteHandle<'_>, kind: usize) -> SiteHandle<'_> {
    match kind {
        0 => site.disallows("/private"),
        1 => site.robots("User-agent: NewsBot\nDisallow: /page\n\nUser-agent: *\nAllow: /\n"),
        2 => site.robots(
            "User-agent: PictureBot\nDisallow: /\n\nUser-agent: ImageBot\nDisallow: /rule\n",
        ),
        3 => site,
        // The dialects differ about paths with a query, and about groups that share rules.
        4 => site
            .robots("User-agent: OtherBot\nCrawl-delay: 0\nUser-agent: NewsBot\nDisallow: /*?\n"),
        _ => site.robots_reply(Reply::new(403)),
    }
}

/// Returns the requests of a run: User-Agent and URL.
fn requests(rounds: usize) -> impl Iterator<Item = (&'static str, String)> {
    let agents = ["NewsBot/1", "ImageBot/2", "OtherBot/3", "Mozilla/5.0"];
    let paths = ["page", "rule", "private/a", "private/b", "search?q="];
    (0..rounds).flat_map(move |round| {
        (0..HOSTS).flat_map(move |host| {
            agents.into_iter().zip(paths.into_iter().cycle().skip(host + round)).map(
                move |(agent, path)| {
                    // Some in plain HTTP, some by TLS: each scheme is an origin of its own.
                    let scheme = if (host + round).is_multiple_of(7) { "https" } else { "http" };
                    (agent, format!("{scheme}://h{host}.test/{path}{round}"))
                },
            )
        })
    })
}

/// Sends all requests, and stops the proxy. Returns its directory and, for each line of the log, crawler, URL and whether it was
/// refused.
fn run(
    origin: &Origin,
    rounds: usize,
    configure: fn(Settings) -> Settings,
) -> (tempfile::TempDir, Vec<[String; 3]>) {
    let proxy = Wayleave::start_with(origin, configure);
    let mut count = 0;
    for (agent, url) in requests(rounds) {
        proxy.exchange(&Request::get(&url).agent(agent));
        count += 1;
    }
    let log = proxy.dir.path().join("state/decisions.jsonl");
    let text = || std::fs::read_to_string(&log).unwrap_or_default();
    eventually("all are logged", || decisions(&text()).count() == count);
    let lines = decisions(&text())
        .map(|line| {
            let decision: Value = serde_json::from_str(line).expect("JSON");
            let text = |member: &str| decision[member].as_str().expect("a word").to_owned();
            [text("crawler"), text("url"), (text("outcome") == "refused").to_string()]
        })
        .collect();
    (proxy.stop().0, lines)
}

fn replay(config: &Path, arguments: &[&str]) -> Output {
    let mut command = command();
    command.arg("replay").args(arguments).arg("--config").arg(config);
    tools::run(&mut command, b"", LIMIT)
}

/// Writes the new configuration next to the one that ran.
fn write_new(dir: &Path, origin: &Origin, configure: impl FnOnce(Settings) -> Settings) -> PathBuf {
    let file = dir.join("new.toml");
    let settings = configure(Settings::for_origin(dir, origin));
    std::fs::write(&file, settings.to_toml()).expect("writable");
    file
}

/// Returns crawler and URL of all samples of one kind of change.
fn samples(summary: &Value, kind: &str) -> BTreeSet<[String; 2]> {
    let groups = summary[kind]["groups"].as_array().expect("groups").iter();
    let all = groups.flat_map(|group| {
        let crawler = group["crawler"].as_str().expect("a name").to_owned();
        let urls = group["samples"].as_array().expect("URLs").iter();
        urls.map(move |url| [crawler.clone(), url.as_str().expect("a URL").to_owned()])
    });
    all.collect()
}

/// Replays a run of so many rounds, and compares each request with a real run under the other configuration.
fn compare_with_a_real_run(rounds: usize) {
    let origin = Origin::start();
    add_sites(&origin);
    let (dir, was) = run(&origin, rounds, before);
    let (_, is) = run(&origin, rounds, after);
    let new = write_new(dir.path(), &origin, after);
    let output = replay(&new, &["--json"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let summary: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let mut expected: BTreeMap<&str, BTreeSet<[String; 2]>> = BTreeMap::new();
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    // By URL: a line is written after its response was sent.
    let by_url = |mut lines: Vec<[String; 3]>| {
        lines.sort_by(|a, b| a[1].cmp(&b[1]));
        lines
    };
    let (was, is) = (by_url(was), by_url(is));
    assert_eq!(was.len(), is.len());
    for ([_, url, before], [crawler, same_url, after]) in was.iter().zip(&is) {
        assert_eq!(url, same_url, "both runs have the same requests");
        let kind = match (before.as_str(), after.as_str()) {
            ("false", "true") => "newly_refused",
            ("true", "false") => "newly_forwarded",
            _ => "unchanged",
        };
        expected.entry(kind).or_default().insert([crawler.clone(), url.clone()]);
        *counts.entry(kind).or_default() += 1;
    }
    assert_eq!(summary["undecidable"]["count"], 0, "{:#}", summary["undecidable"]);
    for kind in ["newly_refused", "newly_forwarded"] {
        let found = samples(&summary, kind);
        let expected = &expected[kind];
        let wrong: Vec<_> = found.difference(expected).collect();
        assert!(wrong.is_empty(), "{kind}, but not in the real run: {wrong:#?}");
        assert!(expected.len() > 20, "{kind}: {}", expected.len());
    }
    for (kind, count) in counts {
        assert_eq!(summary[kind]["count"], count, "{kind}");
    }
    assert_eq!(summary["decisions"], was.len());
}

#[test]
fn a_replay_is_what_a_run_under_the_other_configuration_was() {
    compare_with_a_real_run(9);
}

/// `cargo test --release --test integration -- --ignored larger_replay`
#[test]
#[ignore = "takes minutes"]
fn a_larger_replay_is_what_a_run_under_the_other_configuration_was() {
    compare_with_a_real_run(200);
}

#[test]
fn a_replay_under_the_same_configuration_changes_nothing() {
    let origin = Origin::start();
    add_sites(&origin);
    let (dir, lines) = run(&origin, 2, before);
    let output = replay(&dir.path().join("config.toml"), &[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let head = format!(
        "{0} decisions: 0 newly refused, 0 newly forwarded, 0 undecidable, {0} unchanged\n",
        lines.len()
    );
    assert!(text.starts_with(&head), "{text}");
    let later = replay(&dir.path().join("config.toml"), &["--since", "2999-01-01"]);
    assert!(
        String::from_utf8_lossy(&later.stdout)
            .starts_with("0 decisions since 2999-01-01T00:00:00Z"),
        "{later:?}"
    );
}

#[test]
fn a_replay_says_what_it_cannot_know() {
    let origin = Origin::start();
    for host in ["never.test", "usage.test", "tunnel.test", "plain.test"] {
        origin.site(host).allows_all();
    }
    let rule = "[[rule]]\naction = \"refuse\"\nhosts = [\"never.test\"]\n";
    let proxy = Wayleave::start_with(&origin, |settings| {
        let settings = settings.set("https.bypass", "[\"tunnel.test\"]").crawler("news", "NewsBot");
        settings.table(rule).set("log.client_address", "\"keyed\"")
    });
    for url in ["http://never.test/a", "http://usage.test/b", "http://plain.test/c"] {
        proxy.get_as("NewsBot/1", url);
    }
    // A long User-Agent, of which the log has the beginning only.
    proxy.get_as(&format!("Mozilla/5.0 {}", "x".repeat(600)), "http://plain.test/d");
    let mut tunnel = proxy.connect();
    tunnel.connect_tunnel("tunnel.test:443");
    drop(tunnel);
    let log = proxy.dir.path().join("state/decisions.jsonl");
    eventually("all are logged", || {
        decisions(&std::fs::read_to_string(&log).unwrap_or_default()).count() == 5
    });
    let running = replay(&proxy.config_with_ports(), &[]);
    assert_eq!(running.status.code(), Some(0), "the proxy has the store open: {running:?}");
    let (dir, _) = proxy.stop();
    let new = write_new(dir.path(), &origin, |settings| {
        settings
            .with(crawler("news", "NewsBot").purposes(["train-ai"]))
            .with(crawler("moz", "Mozilla").matched_by("addresses", ["127.0.0.1"]))
    });
    let output = replay(&new, &["--json"]);
    let summary: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let groups = summary["undecidable"]["groups"].as_array().expect("groups").iter();
    let unknown: BTreeSet<_> = groups.map(|group| group["rule"].as_str().expect("text")).collect();
    let expected =
        ["the client's address is not logged", "the requests inside a tunnel are not known"];
    assert_eq!(unknown, expected.into(), "{summary:#}");
    for (sources, of_use) in [
        ("[\"robots-meta\"]", "preferences in a response that was not looked at"),
        ("[\"tdmrep\"]", "documents about use were never asked for"),
    ] {
        let new = write_new(dir.path(), &origin, |settings| {
            settings
                .set("preferences.sources", sources)
                .with(crawler("news", "NewsBot").purposes(["train-ai"]))
                .crawler("moz", "Mozilla")
        });
        let output = replay(&new, &["--json"]);
        let summary: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let groups = summary["undecidable"]["groups"].as_array().expect("groups").iter();
        let unknown: BTreeSet<_> =
            groups.map(|group| group["rule"].as_str().expect("text")).collect();
        let expected = [
            of_use,
            "the User-Agent was cut off",
            "the origin's robots.txt was never asked for",
            "the requests inside a tunnel are not known",
        ];
        assert_eq!(unknown, expected.into(), "{summary:#}");
        assert_eq!(output.status.code(), Some(3), "nothing is known to change: {output:?}");
    }
}

#[test]
fn mistakes_and_missing_logs_are_errors() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("new.toml");
    for (text, message) in [
        ("proxy.mode = \"watch\"\n", "new.toml:1: proxy.mode: "),
        ("log.decisions = \"\"\n", "log.decisions is empty"),
        ("", "there is no decision log "),
    ] {
        std::fs::write(&file, text).expect("writable");
        let output = replay(&file, &[]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains(message), "{stderr}");
    }
}

#[test]
fn damaged_lines_make_a_replay_incomplete() {
    let origin = Origin::start();
    origin.site("one.test");
    let proxy = Wayleave::start(&origin);
    proxy.get("http://one.test/");
    let (dir, _) = proxy.stop();
    let log = dir.path().join("state/decisions.jsonl");
    let text = std::fs::read_to_string(&log).expect("a log");
    std::fs::write(&log, text.replace("\"outcome\"", "\"outcoma\"")).expect("writable");
    let output = replay(&dir.path().join("config.toml"), &["--markdown"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("lines that cannot be read: 1"),
        "{output:?}"
    );
}

/// The most memory that a replay may need, in KiB.
const MAX_KIB: u64 = 120 * 1024;

/// Ten million decisions: `cargo test --release --test integration -- --ignored --nocapture ten_million`, with
/// `WAYLEAVE_REPLAYED` for another number.
#[test]
#[ignore = "takes minutes, and 10 GB of disk"]
fn ten_million_decisions_are_replayed_in_bounded_memory() {
    let origin = Origin::start();
    add_sites(&origin);
    let (dir, _) = run(&origin, 5, before);
    let log = dir.path().join("state/decisions.jsonl");
    let text = std::fs::read_to_string(&log).expect("a log");
    let lines: Vec<_> = decisions(&text).collect();
    let count: usize = std::env::var("WAYLEAVE_REPLAYED")
        .ok()
        .and_then(|it| it.parse().ok())
        .unwrap_or(10_000_000);
    // A log that nobody signed: what is written here has no head.
    for entry in std::fs::read_dir(dir.path().join("state")).expect("it is there").flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "head") {
            std::fs::remove_file(entry.path()).expect("it can be removed");
        }
    }
    let mut file = std::io::BufWriter::new(std::fs::File::create(&log).expect("writable"));
    for number in 0..count {
        use std::io::Write as _;
        // Each URL is another, as in a crawl, on one of three million hosts.
        let line =
            lines[number % lines.len()].replace(".test", &format!(".n{}.test", number % 50_000));
        let line = line.replacen(".test/", &format!(".test/x{number}/../"), 1);
        writeln!(file, "{line}").expect("there is room");
    }
    drop(file);
    let new = write_new(dir.path(), &origin, after);
    for arguments in [&[][..], &["--json"]] {
        let mut timed = std::process::Command::new("/usr/bin/time");
        timed.args(["-f", "%e s, %U s of user time, %S s of the system's, %M KiB"]);
        timed.arg(crate::harness::wayleave::BINARY).arg("replay").args(arguments);
        let output = timed.arg("--config").arg(&new).output().expect("GNU time is installed");
        let measured = String::from_utf8_lossy(&output.stderr);
        println!("{count} decisions, {arguments:?}: {measured}");
        let printed = String::from_utf8_lossy(&output.stdout);
        println!("{}", printed.lines().next().unwrap_or_default());
        assert_eq!(output.status.code(), Some(1));
        let kib = measured.trim().strip_suffix(" KiB").and_then(|it| it.rsplit(' ').next());
        let kib: u64 = kib.and_then(|it| it.parse().ok()).expect("a number");
        assert!(kib <= MAX_KIB, "{kib} KiB");
    }
}

#[test]
fn refused_tunnels_have_nothing_inside_to_know() {
    let origin = Origin::start();
    origin.site("shop.test").allows_all();
    for (mode, refused) in [("\"tunnel\"", 1), ("\"refuse\"", 0)] {
        let proxy = Wayleave::start_with(&origin, |settings| settings.set("https.mode", mode));
        let mut tunnel = proxy.connect();
        tunnel.connect_tunnel("shop.test:443");
        drop(tunnel);
        let log = proxy.dir.path().join("state/decisions.jsonl");
        eventually("it is logged", || {
            decisions(&std::fs::read_to_string(&log).unwrap_or_default()).count() == 1
        });
        let (dir, _) = proxy.stop();
        let new = write_new(dir.path(), &origin, |it| it.set("https.mode", "\"refuse\""));
        let output = replay(&new, &["--json"]);
        let summary: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let counts = ["newly_refused", "undecidable"].map(|kind| &summary[kind]["count"]);
        assert_eq!(counts, [refused, 0], "{mode}: {summary:#}");
    }
}

#[test]
fn crawlers_a_dialect_and_rules_are_tried_on_the_configuration_in_use() {
    let origin = Origin::start();
    origin
        .site("shop.test")
        .robots("User-agent: *\nDisallow: /a\nAllow: /a\nDisallow: /b\n")
        .page("/a", Reply::text("a"))
        .page("/c", Reply::text("c"));
    let configure = |settings: Settings| {
        settings.crawler("news", "NewsBot").with(crawler("images", "ImageBot").observed())
    };
    let proxy = Wayleave::start_with(&origin, configure);
    for agent in ["NewsBot/1", "ImageBot/1"] {
        for path in ["a", "b", "c"] {
            proxy.exchange(&Request::get(&format!("http://shop.test/{path}")).agent(agent));
        }
    }
    let (dir, _) = proxy.stop();
    let in_use = write_new(dir.path(), &origin, configure);
    let rules = dir.path().join("rules.toml");
    std::fs::write(
        &rules,
        "[[rule]]\naction = \"refuse\"\nhosts = [\"*.test\"]\npaths = [\"/c\"]\n",
    )
    .expect("writable");
    let rules = rules.to_str().expect("text");
    let refused = |arguments: &[&str]| {
        let output = replay(&in_use, &[arguments, &["--json"]].concat());
        let summary: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(summary["undecidable"]["count"], 0, "{summary:#}");
        let count = summary["newly_refused"]["count"].as_u64().expect("a number");
        (count, output.status.code())
    };
    assert_eq!(refused(&[]), (0, Some(0)));
    assert_eq!(refused(&["--enforce", "images"]), (1, Some(1)));
    assert_eq!(refused(&["--enforce", "news,asserted"]), (0, Some(0)));
    assert_eq!(refused(&["--dialect", "koster1996"]), (1, Some(1)));
    assert_eq!(refused(&["--dialect", "koster1996", "--enforce", "images"]), (3, Some(1)));
    assert_eq!(refused(&["--rule", rules]), (1, Some(1)));
    let config = in_use.to_str().expect("text");
    for (arguments, said) in [
        (["--enforce", "nobody"], "no [[crawler]] is named \"nobody\""),
        (["--dialect", "bing"], "is not one of rfc9309"),
        (["--rule", "missing.toml"], "missing.toml cannot be read"),
        (["--rule", config], "only [[rule]] tables are tried"),
    ] {
        let output = replay(&in_use, &arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains(said), "{arguments:?}: {errors}");
    }
}
