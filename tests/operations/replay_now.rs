//! `wayleave replay --robots now`: what was fetched and would be refused today.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::harness::crawler::crawler;
use crate::harness::origin::reply::Gate;
use crate::harness::tls::Authority;
use crate::harness::tools;
use crate::harness::wayleave::{Settings, command};
use crate::harness::{Origin, Reply, Request, Wayleave, decisions, eventually};

const LIMIT: Duration = Duration::from_secs(900);
const PAGES: usize = 10;

/// The sites of a test: ten pages each, of which nothing is refused at first.
fn host(number: usize) -> String {
    format!("h{number}.test")
}

fn path(page: usize) -> String {
    format!("/{}/{page}", if page.is_multiple_of(2) { "a" } else { "b" })
}

fn url(number: usize, page: usize) -> String {
    let scheme = if number % 4 == 3 { "https" } else { "http" };
    format!("{scheme}://{}{}", host(number), path(page))
}

/// Lets a site change its mind, in one of ten ways.
fn change_mind(origin: &Origin, number: usize) {
    let name = host(number);
    let site = origin.site(&name);
    let robots = |text: &str| origin.site(&name).robots(text);
    match number % 10 {
        0 => drop(robots("User-agent: *\nAllow: /a\nDisallow: /\n")),
        1 => drop(robots("User-agent: NewsBot\nDisallow: /b/*3$\n\nUser-agent: *\nDisallow: /\n")),
        2 => drop(robots("User-agent: *\nContent-Usage: train-ai=n\n")),
        3 => drop(robots("User-agent: *\nContent-Signal: search=yes, ai-train=no\nAllow: /\n")),
        4 => {
            let reserved = "[{\"location\": \"/a/\", \"tdm-reservation\": 1}]";
            let reply = Reply::new(200).header("Content-Type", "application/json").body(reserved);
            site.page("/.well-known/tdmrep.json", reply);
        }
        5 => {
            robots(&format!("License: http://{name}/rsl.xml\nUser-agent: *\nAllow: /\n"));
            site.page(
                "/rsl.xml",
                Reply::text(
                    "<rsl xmlns=\"https://rslstandard.org/rsl\"><content url=\"/\"><license>\
                     <prohibits type=\"usage\">ai-train</prohibits></license></content></rsl>",
                ),
            );
        }
        6 => drop(site.page(&path(4), Reply::html("<p>4").header("X-Robots-Tag", "noai"))),
        7 => {
            let page = "<!doctype html><meta name=\"robots\" content=\"noai\"><p>5";
            site.page(&path(5), Reply::html(page));
        }
        8 => {
            let usage = Reply::html("<p>6").header("Content-Usage", "train-ai=n");
            site.page(&path(6), usage).page(&path(7), Reply::new(404));
        }
        _ => {}
    }
}

fn configure(settings: Settings) -> Settings {
    settings
        .set("log.events", "false")
        .set("log.body_digest", "\"sha-256\"")
        .with(crawler("news", "NewsBot").purposes(["search"]))
        .with(crawler("images", "ImageBot"))
}

/// Fetches every page by the crawler "news", and stops the proxy.
fn crawl(origin: &Origin, sites: usize) -> tempfile::TempDir {
    for number in 0..sites {
        origin.site(&host(number)).allows_all();
    }
    let proxy = Wayleave::start_with(origin, configure);
    for page in 0..PAGES {
        for number in 0..sites {
            let answer = proxy.exchange(&Request::get(&url(number, page)).agent("NewsBot/1"));
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
    }
    stop_when_logged(proxy, sites * PAGES)
}

fn stop_when_logged(proxy: Wayleave, count: usize) -> tempfile::TempDir {
    let log = proxy.dir.path().join("state/decisions.jsonl");
    eventually("all are logged", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        decisions(&text).filter(|line| line.contains("\"outcome\":\"forwarded\"")).count() >= count
    });
    proxy.stop().0
}

fn replay(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = command();
    command.args(["replay", "--robots", "now"]).args(arguments);
    command.arg("--config").arg(dir.join("config.toml"));
    command
}

fn rows(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).expect("UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect()
}

fn urls(rows: &[Value]) -> BTreeSet<String> {
    rows.iter().map(|row| row["url"].as_str().expect("a URL").to_owned()).collect()
}

/// Returns the URLs that the independent script finds.
fn opted_out(origin: &Origin, sites: usize) -> BTreeSet<String> {
    let all = (0..sites).flat_map(|number| (0..PAGES).map(move |page| url(number, page) + "\n"));
    let mut script = Command::new(tools::python());
    script.arg(tools::project().join("tests/clients/opted_out.py")).arg(origin.http.to_string());
    let printed = tools::output_of(&mut script, all.collect::<String>().as_bytes(), LIMIT);
    printed.lines().map(str::to_owned).collect()
}

#[test]
fn what_opted_out_is_listed_as_an_independent_script_lists_it() {
    let sites = std::env::var("WAYLEAVE_SITES")
        .map_or(100, |count| count.parse().expect("WAYLEAVE_SITES is a number"));
    let origin = Origin::start();
    let dir = crawl(&origin, sites);
    for number in 0..sites {
        change_mind(&origin, number);
    }
    let expected = opted_out(&origin, sites);
    assert_eq!(expected.len(), sites / 10 * (5 + 1 + 10 + 10 + 5 + 10 + 1 + 1 + 1));
    let train = ["--purpose", "train-ai", "--json"];

    // Killed in the middle, and continued.
    let mut first = replay(dir.path(), &train).stderr(Stdio::null()).stdout(Stdio::null()).spawn();
    let first = first.as_mut().expect("starts");
    let answers = || {
        let runs = std::fs::read_dir(dir.path().join("state/replays")).into_iter().flatten();
        let files = runs.map(|run| run.expect("readable").path().join("answers.jsonl"));
        files.map(|file| std::fs::read_to_string(file).unwrap_or_default()).collect::<String>()
    };
    eventually("some are answered", || answers().lines().count() > sites);
    first.kill().expect("runs");
    first.wait().expect("ends");
    let before = answers().lines().count();
    let continued = tools::run(&mut replay(dir.path(), &train), b"", LIMIT);
    let said = String::from_utf8_lossy(&continued.stderr).into_owned();
    assert!(before >= sites * PAGES || said.contains("going on with the run of"), "{said}");
    assert_eq!(continued.status.code(), Some(1), "{said}");
    assert_eq!(urls(&rows(&continued)), expected, "{said}");
    for row in rows(&continued) {
        // What the origin sent for each page before it changed its mind.
        let (_, path) = row["url"].as_str().expect("a URL").split_once(".test").expect("a path");
        let fetched = format!("<!doctype html><title>page</title><p>{path}");
        let digest = wayleave_evidence::Sha256Digest::of(fetched.as_bytes());
        assert_eq!(row["body_sha256"], digest.to_string(), "{row}");
    }

    // A finished run is not continued: this one asks all again, in one go.
    let whole = tools::run(&mut replay(dir.path(), &train), b"", LIMIT);
    let said = String::from_utf8_lossy(&whole.stderr);
    assert_eq!(rows(&whole), rows(&continued), "{said}");
    verify_evidence(dir.path(), &said);
}

/// Exports the decisions of a run as its last line says, and verifies them.
fn verify_evidence(dir: &Path, said: &str) {
    let (_, typed) = said.split_once("evidence: wayleave ").expect("a command");
    let out = dir.join("evidence");
    let mut export = command();
    export.args(typed.trim_end().split(' ')).arg("--out").arg(&out);
    let exported = tools::run(&mut export, b"", LIMIT);
    assert!(exported.status.success(), "{}", tools::both_streams(&exported));
    let mut verify = command();
    verify.args(["evidence", "verify"]).arg(&out);
    let verified = tools::run(&mut verify, b"", LIMIT);
    assert!(verified.status.success(), "{}", tools::both_streams(&verified));
}

/// Starts a proxy with a crawler that is only observed, and one that states no purpose; unnamed clients are allowed.
fn mixed(settings: Settings) -> Settings {
    settings
        .set("log.events", "false")
        .with(crawler("watched", "WatchBot").observed())
        .with(crawler("plain", "PlainBot"))
}

#[test]
fn each_page_is_asked_about_as_its_crawler_would_be_and_nothing_else_is_sent() {
    let origin = Origin::start();
    for name in ["one.test", "gone.test", "page.test"] {
        origin.site(name).allows_all();
    }
    let proxy = Wayleave::start_with(&origin, mixed);
    let asked = [
        ("WatchBot/1", Request::get("http://one.test/shut")),
        ("PlainBot/1", Request::get("http://one.test/shut")),
        ("PlainBot/1", Request::get("http://one.test/open")),
        ("PlainBot/1", Request::new("POST", "http://one.test/shut/form").body("a=1")),
        ("OtherBot/1", Request::get("http://page.test/noai")),
        ("PlainBot/1", Request::get("http://gone.test/")),
        ("PlainBot/1", Request::get("http://gone.test/robots.txt")),
    ];
    let count = asked.len();
    for (agent, request) in asked {
        assert_eq!(proxy.exchange(&request.agent(agent)).status, 200);
    }
    let dir = stop_when_logged(proxy, count);
    origin.site("one.test").robots("User-agent: *\nDisallow: /shut\n");
    origin.site("gone.test").robots_reply(Reply::new(503));
    origin.site("page.test").page("/noai", Reply::html("<p>").header("X-Robots-Tag", "noai"));
    let before = origin.requests().len();

    expect_a_list_that_is_not_printed_to_be_kept(dir.path());
    let output = tools::run(&mut replay(dir.path(), &["--json"]), b"", LIMIT);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("going on with the run"), "{said}");
    // robots.txt of "gone.test" cannot be had now, which says nothing about its page.
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("3 of 6 logged requests would be refused now"), "{said}");
    assert!(said.contains("1 page: unreachable"), "{said}");
    let found = rows(&output);
    let members =
        |row: &Value| ["crawler", "url", "rule", "reason"].map(|name| row[name].to_string());
    let rule = "\"Disallow: /shut (http://one.test/robots.txt:2)\"";
    let refused = |crawler: &str, url: &str| {
        [
            format!("\"{crawler}\""),
            format!("\"http://one.test{url}\""),
            rule.into(),
            "\"rule\"".into(),
        ]
    };
    assert_eq!(
        found.iter().map(members).collect::<BTreeSet<_>>(),
        [("watched", "/shut"), ("plain", "/shut"), ("plain", "/shut/form")]
            .map(|(crawler, url)| refused(crawler, url))
            .into()
    );
    // Nobody states a purpose, so no page was looked at.
    let requests = origin.requests();
    assert!(requests[before..].iter().all(|request| request.target == "/robots.txt"));

    pages_are_looked_at_for_a_purpose(&origin, dir.path());
}

#[track_caller]
fn expect_a_list_that_is_not_printed_to_be_kept(dir: &Path) {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("a device");
    let mut command = replay(dir, &["--json"]);
    let output = command.stdout(full).stderr(Stdio::piped()).spawn().expect("starts");
    let output = output.wait_with_output().expect("ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("cannot write to standard output"), "{said}");
    // As `| head` does when it has seen enough.
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let closed = replay(dir, &["--json"]).stdout(writer).stderr(Stdio::null()).status();
    assert_eq!(closed.expect("it runs").code(), Some(3));
}

/// Pages are looked at for a purpose, for clients without a `[[crawler]]`, too.
fn pages_are_looked_at_for_a_purpose(origin: &Origin, dir: &Path) {
    let before = origin.requests().len();
    let train = ["--purpose", "train-ai"];
    let output = tools::run(&mut replay(dir, &train), b"", LIMIT);
    let text = tools::both_streams(&output);
    let by_page = "unnamed http://page.test/noai: train-ai by robots-meta (X-Robots-Tag: noai)";
    assert!(
        text.lines().any(|line| line.starts_with("refuse ") && line.ends_with(by_page)),
        "{text}"
    );
    assert_eq!(text.lines().filter(|line| line.starts_with("refuse ")).count(), 4, "{text}");
    let requests = origin.requests();
    let mut pages: Vec<_> =
        requests[before..].iter().map(|request| request.target.as_str()).collect();
    pages.retain(|target| !target.ends_with("robots.txt") && !target.contains("tdmrep"));
    pages.sort_unstable();
    assert_eq!(pages, ["/noai", "/open"]);
}

#[test]
fn observed_fetches_unnamed_clients_and_pages_that_answer_otherwise_are_told_apart() {
    let origin = Origin::start();
    origin.site("shut.test").disallows("/");
    origin.site("page.test").allows_all();
    let digest = wayleave_evidence::Sha256Digest::of(b"token");
    let with_secret = |settings: Settings| {
        // An endless page has its origin's turn for that long.
        let settings = mixed(settings).set("upstream.response_timeout", "\"5s\"");
        settings.set("admin.token_sha256", &format!("\"{digest}\""))
    };
    let proxy = Wayleave::start_with(&origin, with_secret);
    let asked = [
        Request::get("http://shut.test/").agent("WatchBot/1"),
        Request::get("http://page.test/noai").agent("FirstBot/1"),
        Request::get("http://page.test/noai").agent("SecondBot/1"),
        Request::get("http://page.test/noai").agent("(nobody)"),
        Request::get("http://page.test/endless").agent("FirstBot/1"),
        Request::get("http://page.test/challenge").agent("FirstBot/1"),
        Request::get("http://page.test/gone").agent("FirstBot/1"),
    ];
    let log = proxy.dir.path().join("state/decisions.jsonl");
    for (earlier, request) in asked.iter().enumerate() {
        assert_eq!(proxy.exchange(request).status, 200);
        // One after another, because the list has the order of the log.
        eventually("it is logged", || {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            decisions(&text).filter(|line| line.contains("\"status\":200")).count() > earlier
        });
    }
    let (dir, _) = proxy.stop();
    let noai = Reply::html("<p>").header("X-Robots-Tag", "noai");
    let gate = Gate::closed();
    origin
        .site("page.test")
        .robots("User-agent: SecondBot\nDisallow: /noai\n\nUser-agent: *\nAllow: /\n")
        .page("/noai", noai)
        .page(
            "/endless",
            Reply::in_halves(&gate).without("Content-Type").header("Content-Type", "text/plain"),
        )
        .page("/challenge", Reply::new(403))
        .page("/gone", Reply::new(404));
    let train = ["--purpose", "train-ai", "--json"];
    let output = tools::run(&mut replay(dir.path(), &train), b"", LIMIT);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    for left_open in ["1 page: the client gave itself no name", "1 page: the origin answered 403"] {
        assert!(said.contains(left_open), "{said}");
    }
    let found = rows(&output);
    let members = |row: &Value| ["url", "rule"].map(|name| row[name].as_str().map(str::to_owned));
    let expected = [
        ("http://shut.test/", "Disallow: / (http://shut.test/robots.txt:2)"),
        ("http://page.test/noai", "train-ai by robots-meta"),
        ("http://page.test/noai", "Disallow: /noai (http://page.test/robots.txt:2)"),
    ];
    let expected = expected.map(|(url, rule)| [Some(url.to_owned()), Some(rule.to_owned())]);
    assert_eq!(found.iter().map(members).collect::<Vec<_>>(), expected, "{said}");
}

#[test]
fn tunnels_are_judged_as_a_whole_and_left_open_where_they_are_inspected_now() {
    let origin = Origin::start();
    for name in ["shut.test", "part.test", "open.test"] {
        origin.site(name).allows_all();
    }
    let blind = |settings: Settings| configure(settings).set("https.mode", "\"tunnel\"");
    let proxy = Wayleave::start_with(&origin, blind);
    for name in ["shut.test", "part.test", "open.test"] {
        let mut wire = proxy.connect();
        wire.send_connect(&format!("{name}:443"), "User-Agent: NewsBot/1\r\n");
        assert_eq!(wire.response_to_head().status, 200);
        let origins = Authority::trusted().pem.as_bytes();
        assert!(wire.start_tls(name, origins, &[]).is_ok(), "{name}");
    }
    let log = proxy.dir.path().join("state/decisions.jsonl");
    eventually("all are logged", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.matches("\"outcome\":\"tunnelled\"").count() == 3
    });
    let (dir, _) = proxy.stop();
    origin.site("shut.test").disallows("/");
    origin.site("part.test").disallows("/private");
    let output = tools::run(&mut replay(dir.path(), &["--json"]), b"", LIMIT);
    let said = String::from_utf8_lossy(&output.stderr);
    // One disallowed path is enough: nobody knows what was asked for inside.
    assert_eq!(output.status.code(), Some(1), "{said}");
    let expected = ["part.test", "shut.test"].map(|name| format!("{name}:443"));
    assert_eq!(urls(&rows(&output)), expected.into(), "{said}");

    // Where tunnels are inspected now, each of their requests would be judged.
    let file = dir.path().join("config.toml");
    let text = std::fs::read_to_string(&file).expect("readable");
    std::fs::write(&file, text.replace("\"tunnel\"", "\"intercept\"")).expect("writable");
    let output = tools::run(&mut replay(dir.path(), &["--json"]), b"", LIMIT);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("3 pages: the requests inside a tunnel are not known"), "{said}");
}

#[test]
fn nothing_refused_is_a_success_and_mistakes_are_named() {
    let origin = Origin::start();
    origin.site("one.test").allows_all();
    let proxy = Wayleave::start_with(&origin, configure);
    for page in 0..2 {
        let url = format!("http://one.test/{page}");
        assert_eq!(proxy.exchange(&Request::get(&url).agent("NewsBot/1")).status, 200);
    }
    let dir = stop_when_logged(proxy, 2);
    // A budget is for crawling.
    let config = dir.path().join("config.toml");
    let text = std::fs::read_to_string(&config).expect("a file");
    let with_budget = text.replace("[[crawler]]\n", "[[crawler]]\nrequests_per_day = 1\n");
    assert_ne!(text, with_budget);
    std::fs::write(&config, with_budget).expect("it can be written");
    let run = |arguments: &[&str]| {
        let output = tools::run(&mut replay(dir.path(), arguments), b"", LIMIT);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, said) = run(&[]);
    assert_eq!(status, Some(0), "{said}");
    for (arguments, mistake) in [
        (&["--purpose", "world-peace"][..], "--purpose"),
        (&["--dialect", "google"], "--dialect"),
        (&["--since", "2999-01-01"], "the log has no forwarded request in this span"),
    ] {
        let (status, said) = run(arguments);
        assert!(status > Some(1) && said.contains(mistake), "{arguments:?}: {status:?} {said}");
    }
    let mut unknown = command();
    unknown.args(["replay", "--robots", "yesterday"]);
    let (status, said) = tools::status_and_output(&mut unknown);
    assert!(status == Some(2) && said.contains("now"), "{said}");
}

#[test]
fn sigint_ends_a_run_that_the_same_command_continues() {
    let origin = Origin::start();
    origin.site("slow.test").allows_all();
    let proxy = Wayleave::start_with(&origin, configure);
    for page in 0..3 {
        let url = format!("http://slow.test/{page}");
        assert_eq!(proxy.exchange(&Request::get(&url).agent("NewsBot/1")).status, 200);
    }
    let dir = stop_when_logged(proxy, 3);
    // The pace of the site counts: the other pages wait for it.
    origin.site("slow.test").robots("User-agent: *\nCrawl-delay: 60\nAllow: /\n");
    let mut waiting = replay(dir.path(), &[]);
    let waiting = waiting.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("starts");
    // Whichever asks first when the robots.txt has arrived.
    origin.wait_for("one page", |arrived| {
        arrived.requests.iter().filter(|request| request.target != "/robots.txt").count() == 4
    });
    let runs = dir.path().join("state/replays");
    eventually("its answer is kept", || {
        let run =
            std::fs::read_dir(&runs).expect("a run").next().expect("a run").expect("readable");
        let text = std::fs::read_to_string(run.path().join("answers.jsonl")).expect("readable");
        text.lines().count() == 2
    });
    tools::run(Command::new("kill").args(["-INT", &waiting.id().to_string()]), b"", LIMIT);
    let output = waiting.wait_with_output().expect("ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("the same command goes on where it ended"), "{said}");

    origin.site("slow.test").allows_all();
    drop(std::fs::remove_file(
        std::fs::read_dir(&runs)
            .expect("a run")
            .next()
            .expect("a run")
            .expect("readable")
            .path()
            .join("robots.redb"),
    ));
    let output = tools::run(&mut replay(dir.path(), &[]), b"", LIMIT);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("which has 1 answer\n"), "{said}");
    assert_eq!(output.status.code(), Some(0), "{said}");
    for page in 0..3 {
        assert_eq!(origin.count_gets(&format!("http://slow.test/{page}")), 2);
    }
}
