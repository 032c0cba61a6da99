//! `wayleave publish --sites`: signed statements for sites, derived again by a script, and read in a browser.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::crawler::crawler;
use crate::harness::tools::{
    clean, node_modules, output_of, program, project, python, status_and_output,
};
use crate::harness::wayleave::{Settings, command};
use crate::harness::{Origin, Reply, Request, Wayleave, eventually};

const LIMIT: Duration = Duration::from_secs(300);
const SITES: usize = 1000;

/// A stopped proxy's configuration and what it published.
struct Published {
    dir: tempfile::TempDir,
    config: PathBuf,
}

impl Published {
    fn sites(&self) -> PathBuf {
        self.dir.path().join("sites")
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("state/decisions.jsonl")
    }

    /// Publishes the statements. Returns the exit status and what was printed.
    fn publish(&self, more: &[&str]) -> (Option<i32>, String) {
        let mut publish = command();
        publish.args(["publish", "--sites"]).arg(self.sites()).args(more);
        status_and_output(publish.arg("--config").arg(&self.config))
    }

    fn statement(&self, host: &str) -> Value {
        let digest = wayleave_evidence::Sha256Digest::of(host.as_bytes());
        let text = fs::read_to_string(self.sites().join(format!("{digest}.json"))).expect("a file");
        serde_json::from_str::<Value>(&text).expect("JSON")["statement"].take()
    }

    /// Returns all files with their contents.
    fn files(&self) -> Vec<(String, Vec<u8>)> {
        let entries = fs::read_dir(self.sites()).expect("a folder");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let read = |path: PathBuf| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, fs::read(&path).expect("a file"))
        };
        let mut files: Vec<_> = paths.map(read).collect();
        files.sort();
        files
    }
}

fn script(arguments: &[&Path]) -> Value {
    let mut script = clean(python());
    script.arg(project().join("tests/clients/site_statements.py")).args(arguments);
    serde_json::from_str(&output_of(&mut script, b"", LIMIT)).expect("JSON")
}

/// Serves so many sites to three crawlers, and stops.
fn crawl(sites: usize) -> Published {
    let origin = Origin::start();
    let dir = tempfile::tempdir().expect("a directory");
    let mut keys = command();
    output_of(keys.args(["keys", "new", "news"]).current_dir(dir.path()), b"", LIMIT);
    let key = dir.path().join("keys/news.pem").display().to_string();
    let host = |n: usize| format!("s{n}.test");
    for n in 0..sites {
        let site = origin.site(&host(n));
        match n % 5 {
            0 => drop(site.disallows("/private")),
            1 => drop(site.robots("User-agent: *\nContent-Usage: train-ai=n\nAllow: /\n")),
            2 => drop(site.robots("User-agent: ImageBot\nDisallow: /\n")),
            3 => drop(site.page("/x", Reply::new(403))),
            _ => drop(site.page("/x", Reply::new(200).header("Content-Usage", "train-ai=n"))),
        }
    }
    let settings = Settings::for_origin(dir.path(), &origin)
        .set("signing.agent", "\"https://bot.test\"")
        .set("log.events", "false")
        .with(
            crawler("news", "NewsBot")
                .purposes(["search"])
                .set("owner", "news@bot.test")
                .set("signing_key", key),
        )
        .with(crawler("trainer", "TrainBot").purposes(["search", "train-ai"]))
        .with(crawler("images", "ImageBot").observed());
    let proxy = Wayleave::start_in(dir, settings);
    let agents = ["NewsBot/1", "TrainBot/1", "ImageBot/1", "Visitor/2", "Googlebot/2.1"];
    for n in 0..sites {
        for (m, agent) in agents.iter().enumerate().filter(|(m, _)| n % 7 != *m) {
            let path = if (n + m) % 2 == 0 { "private/a?token=s3cret" } else { "x" };
            let scheme = if n % 50 == 7 { "https" } else { "http" };
            let mut request = Request::get(&format!("{scheme}://{}/{path}", host(n))).agent(agent);
            match n % 11 {
                3 => request = request.header("Wayleave-Purpose", "ai-train, search"),
                4 => request = request.header("Wayleave-Purpose", "what s3cret.test is for"),
                _ => {}
            }
            proxy.exchange(&request);
        }
    }
    proxy.get_as("NewsBot/1", "gopher://s1.test/");
    let (dir, _) = proxy.stop();
    Published { config: dir.path().join("config.toml"), dir }
}

#[test]
fn a_thousand_statements_are_derived_again_from_the_log() {
    let published = crawl(SITES);
    let out = published.dir.path().join("out");
    let (status, printed) = published.publish(&["--out", &out.display().to_string()]);
    assert_eq!(status, Some(0), "{printed}");
    let keys = out.join(".well-known/http-message-signatures-directory");
    let (sites, log) = (published.sites(), published.log());
    let derived = script(&[Path::new("derive"), &sites, &keys, &log]);
    assert_eq!(derived["differences"], json!([]), "{derived}");
    assert_eq!(derived["statements"], SITES);
    let all = published.files();
    for (name, content) in &all {
        let text = String::from_utf8_lossy(content);
        assert!(!text.contains("s3cret") && !text.contains("127.0.0.1"), "{name}: {text}");
        assert!(!text.contains("User-agent: Googlebot"), "{name} would stop another's crawler");
        // No file but a host's own names it.
        assert_eq!(text.contains("s17.test"), text.contains("\"host\":\"s17.test\""), "{name}");
    }
    let guessed = script(&[Path::new("guess"), &sites, Path::new("s10.test")]);
    assert_eq!(guessed, json!({ "own": true, "attempts": 500, "found": [] }));
    let (status, printed) = published.publish(&[]);
    assert_eq!(status, Some(0), "{printed}");
    assert!(published.files() == all, "the same log gives the same files");
}

#[test]
fn a_statement_says_what_was_refused_by_which_line_and_how_to_stop_us() {
    let published = crawl(15);
    assert_eq!(published.publish(&[]), (Some(0), String::new()));
    let statement = published.statement("s10.test");
    let refusals = statement["refusals"].as_array().expect("a list");
    let day = &refusals[0]["first_day"];
    let rule = json!({
        "crawler": "news", "outcome": "refused", "reason": "rule", "count": 1,
        "robots_txt": "http://s10.test/robots.txt", "line": 2, "rule": "Disallow: /private",
        "first_day": day, "last_day": day,
    });
    assert!(refusals.contains(&rule), "{statement}");
    let requests = statement["requests"].as_array().expect("a list");
    let of_news = json!({
        "day": day, "crawler": "news", "purposes": ["search"], "outcomes": { "refused": 1 }, "withheld": 0,
    });
    assert!(requests.contains(&of_news), "{statement}");
    let of_its_answer = published.statement("s14.test");
    let withheld = of_its_answer["requests"].as_array().expect("a list").iter();
    let withheld: Vec<_> = withheld.filter(|row| row["withheld"] != 0).collect();
    assert_eq!(withheld.len(), 1, "{of_its_answer}");
    assert_eq!(withheld[0]["crawler"], "trainer", "{of_its_answer}");
    let contact = "mailto:news@bot.test";
    assert!(statement["contact"].as_array().expect("a list").contains(&json!(contact)));
    assert_eq!(statement["missing"], json!([]));
    let stop = statement["stop"].as_str().expect("text");
    assert!(stop.starts_with("User-agent: ImageBot\nUser-agent: NewsBot\n"), "{stop}");
    assert!(stop.ends_with("\nDisallow: /\n"), "{stop}");
    let obeys = |name: &str| {
        let crawlers = statement["crawlers"].as_array().expect("a list");
        crawlers.iter().find(|it| it["name"] == name).expect("a crawler")["obeys_robots_txt"]
            .clone()
    };
    assert_eq!([obeys("news"), obeys("images")], [json!(true), json!(false)]);
}

#[test]
fn gaps_in_the_log_are_in_every_statement() {
    let published = crawl(5);
    let log = published.log();
    let rotated = log.with_file_name("decisions.20260101T000000.000Z.jsonl");
    let text = fs::read_to_string(&log).expect("a log");
    let (status, printed) = published.publish(&[]);
    assert_eq!(status, Some(0), "{printed}");
    let before = published.files();
    // Somebody puts a file into the log's folder, and takes the log's end away.
    fs::write(&rotated, "{\"at\":1}\n").expect("it can be written");
    fs::write(&log, &text[..text.len() / 2]).expect("it can be written");
    let (status, printed) = published.publish(&[]);
    assert_eq!(status, Some(3), "{printed}");
    assert_eq!(published.files().len(), before.len(), "no statement of earlier is removed");
    for n in 0..2 {
        let statement = published.statement(&format!("s{n}.test"));
        let missing = statement["missing"].as_array().expect("a list");
        let whats: Vec<_> = missing.iter().filter_map(|it| it["what"].as_str()).collect();
        assert!(
            whats.iter().any(|it| it.contains("is shorter than what was signed")),
            "{statement}"
        );
        assert_eq!(
            (&missing[0]["node"], &missing[0]["from"]),
            (&json!("this node"), &statement["from"])
        );
    }
    let page = fs::read_to_string(published.sites().join("index.html")).expect("the page");
    assert!(page.contains("is shorter than what was signed"), "the page says so as well");
}

#[test]
fn a_file_that_a_node_lacks_is_missing_from_its_statements() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("log.decisions_max_size", "\"64KiB\"").set("log.events", "false")
    });
    let state = proxy.dir.path().join("state");
    let rotated = || {
        let entries = fs::read_dir(&state).expect("a folder");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let is_rotated = |path: &PathBuf| path.to_string_lossy().contains("/decisions.20");
        let mut found: Vec<_> = paths.filter(is_rotated).collect();
        found.sort();
        found
    };
    let mut number = 0;
    eventually("the log was rotated twice", || {
        number += 1;
        proxy.get(&format!("http://shop.test/{number}"));
        rotated().len() == 2
    });
    fs::remove_file(&rotated()[0]).expect("it can be deleted");
    let dir = tempfile::tempdir().expect("a directory");
    let mut keys = command();
    output_of(keys.args(["keys", "new", "news"]).current_dir(dir.path()), b"", LIMIT);
    let published = Published { config: dir.path().join("config.toml"), dir };
    fs::write(&published.config, "").expect("it can be written");
    let node = format!("http://{}", proxy.admin);
    let (status, printed) = published.publish(&["--since", "1d", "--nodes", &node]);
    assert_eq!(status, Some(3), "{printed}");
    let missing = published.statement("shop.test")["missing"].take();
    let missing = missing.as_array().expect("a list");
    let file = missing.iter().find(|part| part["what"] == "file 1 of the log is missing");
    assert_eq!(file.expect("the file is named")["node"], "node 1 of 1", "{missing:?}");
}

#[test]
fn one_node_of_a_fleet_does_not_speak_for_all() {
    let published = crawl(2);
    let text = fs::read_to_string(&published.config).expect("a file");
    let store = "store.kind = \"redis\"\nstore.url = \"redis://127.0.0.1:1\"\nstore.node = \"a\"\n";
    fs::write(&published.config, format!("{store}{text}")).expect("it can be written");
    let (status, printed) = published.publish(&[]);
    assert_eq!(status, Some(3), "{printed}");
    let statement = published.statement("s0.test");
    let missing = json!([{
        "node": "other nodes of the fleet", "what": "their logs were not asked for (--nodes)",
        "from": statement["from"], "to": statement["to"],
    }]);
    assert_eq!(statement["missing"], missing);
}

#[test]
fn the_page_of_statements_sees_every_changed_byte() {
    let published = crawl(15);
    let (status, printed) = published.publish(&[]);
    assert_eq!(status, Some(0), "{printed}");
    let mut browser = clean(program("node"));
    browser
        .arg(project().join("tests/clients/site_page.cjs"))
        .env("NODE_PATH", node_modules())
        .env("CHROMIUM", program("chromium-headless-shell"))
        .env("HOME", published.dir.path())
        .env("FOLDER", published.sites())
        .env("HOST", "s10.test");
    let printed = output_of(&mut browser, b"", LIMIT);
    assert!(printed.ends_with(" changes seen\n"), "{printed}");
}

#[test]
fn statements_need_a_key_and_a_log() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("config.toml");
    let text = format!(
        "state.dir = {:?}\n[[crawler]]\nname = \"news\"\ntokens = [\"NewsBot\"]\n",
        dir.path().display().to_string()
    );
    fs::write(&config, text).expect("it can be written");
    let publish = |arguments: &[&str]| {
        let mut publish = command();
        publish.arg("publish").args(arguments).current_dir(dir.path());
        status_and_output(publish.arg("--config").arg(&config))
    };
    let (status, printed) = publish(&["--sites", "sites"]);
    assert_eq!(status, Some(2), "{printed}");
    assert!(
        printed.contains("there is no key to sign with: `wayleave keys new NAME`"),
        "{printed}"
    );
    let mut keys = command();
    output_of(keys.args(["keys", "new", "news"]).current_dir(dir.path()), b"", LIMIT);
    let (status, printed) = publish(&["--sites", "sites"]);
    assert_eq!(status, Some(2), "{printed}");
    assert!(printed.contains("there is no decision log"), "{printed}");
    for arguments in [
        &[][..],
        &["--since", "1d", "--out", "o"],
        &["--sites", "s", "--nodes", "http://127.0.0.1:1"],
    ] {
        assert_eq!(publish(arguments).0, Some(2), "{arguments:?}");
    }
    assert!(!dir.path().join("sites").exists());
}
