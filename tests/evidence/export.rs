//! `wayleave evidence export` and `verify`: exports are complete, and each decision in them can be derived again.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::crawler::crawler;
use crate::harness::tools::{both_streams, clean, project, python};
use crate::harness::wayleave::{Settings, command};
use crate::harness::{Origin, Reply, Request, Wayleave, decisions, eventually};

const RULES: &str = r#"
[[rule]]
action = "refuse"
hosts = ["shop.test"]
paths = ["/contract/"]
[[rule]]
action = "allow"
hosts = ["closed.test"]
paths = ["/open"]
owner = "data@example.com"
reason = "agreed"
expires = "2099-01-01"
"#;

const ROBOTS: &str = "User-agent: NewsBot\nDisallow: /private\nAllow: /private/open\n\nUser-agent: *\n\
                      Content-Usage: train-ai=n\nDisallow: /*.pdf$\nDisallow: /images\n";

const PATHS: [&str; 8] = [
    "/private/a?b=c",
    "/private/open",
    "/x/../private/open/../b",
    "/images/1",
    "/paper.pdf",
    "/a/b",
    "/contract/1",
    "/open",
];

/// Adds three crawlers, each with another dialect, and the rules.
fn with_rules(settings: Settings) -> Settings {
    let images = crawler("images", "ImageBot").set("dialect", "koster1996");
    let careful = crawler("careful", "CarefulBot").set("dialect", "strictest");
    settings
        .with(crawler("news", "NewsBot").set("tokens", ["NewsBot-Fast", "NewsBot"]))
        .with(images.observed())
        .with(careful.purposes(["train-ai"]))
        .table(RULES)
}

pub fn evidence(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = command();
    command.arg("evidence").args(arguments);
    let config = dir.join("config.toml");
    command.arg("--config").arg(config).current_dir(dir);
    command.output().expect("it runs")
}

/// Checks the exit status, and returns both streams.
#[track_caller]
pub fn expect(output: &Output, status: i32) -> String {
    let printed = both_streams(output);
    assert_eq!(output.status.code(), Some(status), "{printed}");
    printed
}

/// Runs the verifier that is written from the document alone.
pub(super) fn verify_by_document(export: &Path, key: &str, options: &[&str]) -> Output {
    let mut command = clean(python());
    command.arg(project().join("tests/clients/verify_evidence.py"));
    command.arg(export).arg(key.trim()).args(options).output().expect("it runs")
}

/// Crawls four kinds of origins as five kinds of crawlers. Returns the directory of the stopped proxy.
pub(super) fn crawled() -> TempDir {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    origin.site("closed.test").robots_reply(Reply::new(403));
    origin.site("down.test").robots_reply(Reply::new(500));
    let proxy = Wayleave::start_with(&origin, with_rules);
    for host in ["shop.test", "closed.test", "down.test", "open.test"] {
        for agent in ["NewsBot/1", "ImageBot/1", "CarefulBot/1", "Other/1"] {
            for path in PATHS {
                proxy.get_as(agent, &format!("http://{host}{path}"));
            }
        }
    }
    for host in ["shop.test", "closed.test", "down.test", "open.test", "nowhere.example"] {
        proxy.get(&format!("http://{host}/robots.txt"));
    }
    proxy.get_as("GPTBot/1.0", "http://shop.test/a");
    proxy.exchange(&Request::new("FOO", "ftp://open.test/"));
    proxy.stop().0
}

fn log(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("state/decisions.jsonl")).expect("a log")
}

/// Returns the lines of an export's first file.
fn exported(out: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(out.join("log/000001.jsonl")).expect("a file of the log");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn every_exported_decision_is_derived_again() {
    let dir = crawled();
    let text = log(dir.path());
    let all = decisions(&text).count();
    let by_rule = decisions(&text).filter(|line| line.contains("\"rule\":"));
    let by_rule = by_rule.count();
    for out in ["folder", "file.warc.gz", "file.warc"] {
        let printed = expect(&evidence(dir.path(), &["export", "--since", "1d", "--out", out]), 0);
        assert!(printed.contains(&format!("{all} decisions")), "{printed}");
    }
    let key = expect(&evidence(dir.path(), &["key"]), 0);
    // The exports are verified without anything else beside them.
    let elsewhere = tempfile::tempdir().expect("a temporary directory");
    for out in ["folder", "file.warc.gz", "file.warc"] {
        let moved = elsewhere.path().join(out);
        std::fs::rename(dir.path().join(out), &moved).expect("it can be moved");
        let path = moved.display().to_string();
        let printed =
            expect(&evidence(elsewhere.path(), &["verify", &path, "--key", key.trim()]), 0);
        for words in [
            &*format!("decisions  {all}: by robots.txt 1"),
            "every decision was derived again",
            "the trusted one",
        ] {
            assert!(printed.contains(words), "{words} in {printed}");
        }
        let verified = evidence(elsewhere.path(), &["verify", &path, "--json"]);
        let report: Value = serde_json::from_str(&expect(&verified, 0)).expect("JSON");
        let summary = (&report["result"], &report["decisions"], &report["trusted"]);
        let expected = ("derived".into(), all.into(), false.into());
        assert_eq!(summary, (&expected.0, &expected.1, &expected.2), "{report}");
        assert_eq!(report["derived"]["rules"], by_rule, "{report}");
        let other = "A".repeat(43);
        let wrong = evidence(elsewhere.path(), &["verify", &path, "--key", &other]);
        expect(&wrong, 2);
    }
}

/// Crawls sites with documents about preferences, as a crawler that trains. Returns the directory of the stopped proxy.
fn crawled_by_a_trainer() -> TempDir {
    let origin = Origin::start();
    let reserved = r#"[{"location": "/open/", "tdm-reservation": 0}, {"location": "/closed/", "tdm-reservation": 1}]"#;
    let tdmrep = "/.well-known/tdmrep.json";

    origin.site("tdm.test").page(tdmrep, Reply::text(reserved));
    let licence = "<rsl xmlns=\"https://rslstandard.org/rsl\"><content url=\"/\"><license><prohibits type=\"usage\">ai-train</prohibits></license></content></rsl>";
    let named = "License: http://rsl.test/licence.xml\nUser-agent: *\nDisallow:\n";
    let site = origin.site("rsl.test").robots(named);
    site.page("/licence.xml", Reply::text(licence));
    let missing = "License: http://lost.test/licence.xml\nUser-agent: *\nDisallow:\n";
    origin.site("lost.test").robots(missing);
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .set("preferences.sources", "[\"tdmrep\", \"rsl\"]")
            .with(crawler("trainer", "Trainer").purposes(["search", "train-ai"]))
    });
    let status = |url: &str| proxy.get_as("Trainer/1", url).status;
    assert_eq!(status("http://tdm.test/open/1"), 200);
    assert_eq!(status("http://tdm.test/closed/1"), 403);
    assert_eq!(status("http://rsl.test/a"), 403);
    assert_eq!(status("http://lost.test/a"), 403);
    proxy.stop().0
}

#[test]
fn refusals_by_documents_are_derived_again() {
    let dir = crawled_by_a_trainer();
    for out in ["folder", "file.warc.gz"] {
        let arguments = ["export", "--since", "1d", "--crawler", "trainer", "--out", out];
        expect(&evidence(dir.path(), &arguments), 0);
        let printed = expect(&evidence(dir.path(), &["verify", out]), 0);
        assert!(printed.contains("by preference 4"), "{printed}");
    }
    let key = expect(&evidence(dir.path(), &["key"]), 0);
    let folder = dir.path().join("folder");
    let printed = expect(&verify_by_document(&folder, &key, &[]), 0);
    assert!(printed.starts_with("sound: "), "{printed}");
    let mut warcio = clean(python());
    warcio.args(["-m", "warcio.cli", "check", "-v"]);
    let checked = warcio.arg(dir.path().join("file.warc.gz")).output();
    assert!(!expect(&checked.expect("it runs"), 0).contains("fail"));
    // Without the whole document with the reservation nothing can be derived.
    let bodies = std::fs::read_dir(folder.join("bodies")).expect("it is there");
    let holds = |path: &PathBuf| {
        std::fs::read_to_string(path).is_ok_and(|text| text.contains("tdm-reservation"))
    };
    let mut paths = bodies.flatten().map(|entry| entry.path());
    let tdmrep = paths.find(holds).expect("it was exported");
    std::fs::remove_file(tdmrep).expect("it can be removed");
    let printed = expect(&evidence(dir.path(), &["verify", "folder"]), 2);
    assert!(printed.contains("differs: decision") && printed.contains("is missing"), "{printed}");
    let printed = evidence(dir.path(), &["verify", "folder", "--json"]);
    let printed: Value = serde_json::from_str(&expect(&printed, 2)).expect("JSON");
    let first = &printed["findings"][0];
    assert_eq!((&printed["result"], &first["kind"]), (&"altered".into(), &"altered".into()));
    let place = first["place"].as_str().expect("it has a place");
    assert!(place.starts_with("bodies/"), "{printed}");
}

#[test]
fn who_verifies_something_else_is_told_to_export() {
    let dir = crawled();
    for path in ["state/decisions.jsonl", "state"] {
        let printed = expect(&evidence(dir.path(), &["verify", path]), 2);
        let expected = format!(
            "wayleave: {path}: is not what `wayleave evidence export` writes, a folder or a WARC file: \
             to check a decision log, export it, and check the export: "
        );
        assert!(printed.contains(&expected), "{printed}");
    }
}

#[test]
fn an_export_of_one_decision_discloses_no_other() {
    let dir = crawled();
    let text = log(dir.path());
    let line = decisions(&text).nth(17).expect("there are more");
    let decision: Value = serde_json::from_str(line).expect("JSON");
    let id = decision["id"].as_str().expect("an id");
    expect(&evidence(dir.path(), &["export", "--id", id, "--out", "one"]), 0);
    let lines = exported(&dir.path().join("one"));
    let shown: Vec<_> = lines.iter().filter(|line| line.starts_with("{\"id\"")).collect();
    assert_eq!(shown, [line]);
    let standins = lines.iter().filter(|line| line.starts_with("{\"standin\""));
    assert!((4..20).contains(&standins.count()), "{lines:#?}");
    let printed = expect(&evidence(dir.path(), &["verify", "one"]), 0);
    assert!(printed.contains("decisions  1: "), "{printed}");
    let missing = "0".repeat(32);
    let none = evidence(dir.path(), &["export", "--id", &missing, "--out", "none"]);
    assert!(expect(&none, 2).contains("no such decision"));
}

#[test]
fn an_archive_of_another_kind_is_not_a_folder() {
    let dir = tempfile::tempdir().expect("a directory");
    for (out, ending) in [
        ("x.zip", "zip"),
        ("x.ZIP", "zip"),
        ("x.tar", "tar"),
        ("x.tgz", "tgz"),
        ("x.tar.gz", "gz"),
        ("x.7z", "7z"),
        ("x.warc.zst", "zst"),
    ] {
        let output = evidence(dir.path(), &["export", "--since", "1d", "--out", out]);
        let printed = expect(&output, 2);
        let words = format!(
            "cannot write .{ending} files: name a folder, or a file that ends in .warc.gz or .warc"
        );
        assert!(printed.contains(&words), "{printed}");
        assert!(!dir.path().join(out).exists(), "{out}");
    }
}

#[test]
fn a_decision_of_a_running_proxy_is_found_by_url_and_time() {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    let proxy = Wayleave::start_with(&origin, with_rules);
    for _ in 0..3 {
        proxy.get_as("Other/1", "http://shop.test/images/7");
    }
    let dir = proxy.dir.path();
    eventually("the decisions are there, and signed", || {
        let lines = log(dir);
        let head = std::fs::read_to_string(dir.join("state/decisions.jsonl.head"));
        let signed = format!("\"lines\":{},", lines.lines().count());
        decisions(&lines).count() == 3 && head.is_ok_and(|head| head.contains(&signed))
    });
    let config = proxy.config_with_ports();
    let export = |arguments: &[&str]| {
        let mut command = command();
        command.args(["evidence", "export", "--config"]).arg(&config);
        let output = command.args(arguments).current_dir(dir).output();
        output.expect("it runs")
    };
    let url = "http://shop.test/images/7";
    let now = ["--url", url, "--at", "0s", "--out", "now"];
    expect(&export(&now), 0);
    let shown = exported(&dir.join("now"));
    assert_eq!(shown.iter().filter(|line| line.starts_with("{\"id\"")).count(), 1);
    let printed = expect(&evidence(dir, &["verify", "now"]), 0);
    assert!(printed.contains("by robots.txt 1"), "{printed}");
    let by_another = ["--url", url, "--at", "0s", "--crawler", "news", "--out", "none"];
    expect(&export(&by_another), 2);
}

#[test]
fn ask_reports_what_was_allowed_at_a_time() {
    let dir = crawled();
    let url = "http://shop.test/private/a?b=c";
    let ask =
        |crawler: &str| evidence(dir.path(), &["ask", url, "--at", "0s", "--crawler", crawler]);
    let printed = expect(&ask("news"), 1);
    for words in
        ["allowed     no: rule", "line 2: Disallow: /private", "fetched     no, nothing was sent"]
    {
        assert!(printed.contains(words), "{words} in {printed}");
    }
    let asked = format!("Asked: was {url} allowed when it was last requested by news, up to 20");
    assert!(printed.starts_with(&asked), "{printed}");
    assert!(printed.contains("\nLooked at: the decision log "), "{printed}");
    assert!(printed.contains("\nAnswer: No. The decision was made at 20"), "{printed}");
    let printed = expect(&ask("unnamed"), 0);
    for words in
        ["Answer: Yes.", "allowed     yes: no-matching-rule", "fetched     yes, answered with 200"]
    {
        assert!(printed.contains(words), "{words} in {printed}");
    }
    expect(&ask("nobody"), 2);
    let ask_for_file =
        ["ask", "http://shop.test/robots.txt", "--at", "0s", "--crawler", "asserted"];
    let printed = expect(&evidence(dir.path(), &ask_for_file), 0);
    let from_copy = "fetched     no, answered with 200 from the copy of robots.txt";
    assert!(printed.contains(from_copy), "{printed}");
    let early = ["ask", url, "--at", "2020-01-01", "--crawler", "news"];
    let output = evidence(dir.path(), &early);
    expect(&output, 2);
    let printed = String::from_utf8(output.stderr).unwrap();
    assert!(printed.contains("up to that time; the first was at 20"), "{printed}");
    // A date covers the whole day.
    let at = printed.split("was at ").nth(1).unwrap().get(..10).unwrap();
    expect(&evidence(dir.path(), &["ask", url, "--at", at, "--crawler", "news"]), 1);
}

#[test]
fn a_decision_is_found_before_it_is_signed() {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    let proxy = Wayleave::start(&origin);
    let dir = proxy.dir.path().join("operator");
    std::fs::create_dir(&dir).expect("writable");
    let config = format!("admin.listen = \"{}\"\nstate.dir = \"../state\"\n", proxy.admin);
    std::fs::write(dir.join("config.toml"), config).expect("writable");
    for number in 0..5 {
        // While decisions are made, the log is only signed every tenth of a second.
        for more in 0..20 {
            proxy.get(&format!("http://shop.test/images/{number}/{more}"));
        }
        let url = format!("http://shop.test/images/{number}");
        let refused = proxy.get(&url).json();
        let id = refused["decision_id"].as_str().expect("an id");
        // Answers do not wait for the log's thread, which a busy machine may hold up.
        eventually("the decision is written", || log(proxy.dir.path()).contains(id));
        let out = format!("evidence{number}");
        expect(&evidence(&dir, &["export", "--id", id, "--out", &out]), 0);
        expect(&evidence(&dir, &["ask", &url, "--at", "0s"]), 1);
    }
}
