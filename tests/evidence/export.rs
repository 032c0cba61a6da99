//! `wayleave evidence export` and `verify`: an export is complete, and every decision in it can be derived again.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::tools::{clean, project, python};
use crate::harness::wayleave::command;
use crate::harness::{Origin, Reply, Request, Wayleave, decisions};

const TABLES: &str = r#"
[[crawler]]
name = "news"
tokens = ["NewsBot-Fast", "NewsBot"]
match = { user_agent = "NewsBot" }
[[crawler]]
name = "images"
tokens = ["ImageBot"]
match = { user_agent = "ImageBot" }
dialect = "koster1996"
mode = "observe"
[[crawler]]
name = "careful"
tokens = ["CarefulBot"]
match = { user_agent = "CarefulBot" }
dialect = "strictest"
purposes = ["train-ai"]
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

pub(super) fn evidence(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = command();
    command.arg("evidence").args(arguments);
    let config = dir.join("config.toml");
    command.arg("--config").arg(config).current_dir(dir);
    command.output().expect("it runs")
}

pub(super) fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

#[track_caller]
pub(super) fn expect(output: &Output, status: i32) -> String {
    let said = said(output);
    assert_eq!(output.status.code(), Some(status), "{said}");
    said
}

/// A crawl of five kinds of crawlers and four kinds of origins, its proxy stopped since.
pub(super) fn crawled() -> TempDir {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    origin.site("closed.test").robots_reply(Reply::new(403));
    origin.site("down.test").robots_reply(Reply::new(500));
    let proxy = Wayleave::start_with(&origin, |settings| settings.table(TABLES));
    for host in ["shop.test", "closed.test", "down.test", "open.test"] {
        for agent in ["NewsBot/1", "ImageBot/1", "CarefulBot/1", "Other/1"] {
            for path in PATHS {
                proxy.get_as(agent, &format!("http://{host}{path}"));
            }
        }
    }
    proxy.exchange(&Request::get("http://shop.test/robots.txt"));
    proxy.get_as("GPTBot/1.0", "http://shop.test/a");
    proxy.exchange(&Request::new("FOO", "ftp://open.test/"));
    proxy.stop().0
}

fn log(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("state/decisions.jsonl")).expect("a log")
}

/// The lines of an export's first file.
fn exported(out: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(out.join("log/000001.jsonl")).expect("a file of the log");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn every_decision_is_made_again() {
    let dir = crawled();
    let text = log(dir.path());
    let all = decisions(&text).count();
    let by_rule = decisions(&text).filter(|line| line.contains("\"rule\":"));
    let by_rule = by_rule.count();
    for out in ["folder", "file.warc.gz", "file.warc"] {
        let told = expect(&evidence(dir.path(), &["export", "--since", "1d", "--out", out]), 0);
        assert!(told.contains(&format!("{all} decisions")), "{told}");
    }
    let key = expect(&evidence(dir.path(), &["key"]), 0);
    // Nothing else is there where it is checked.
    let elsewhere = tempfile::tempdir().expect("a temporary directory");
    for out in ["folder", "file.warc.gz", "file.warc"] {
        let moved = elsewhere.path().join(out);
        std::fs::rename(dir.path().join(out), &moved).expect("it can be moved");
        let path = moved.display().to_string();
        let told = expect(&evidence(elsewhere.path(), &["verify", &path, "--key", key.trim()]), 0);
        for words in [
            &*format!("decisions  {all}: by robots.txt 1"),
            "every decision was derived again",
            "the trusted one",
        ] {
            assert!(told.contains(words), "{words} in {told}");
        }
        let told = evidence(elsewhere.path(), &["verify", &path, "--json"]);
        let told: Value = serde_json::from_str(&expect(&told, 0)).expect("JSON");
        let said = (&told["result"], &told["decisions"], &told["trusted"]);
        let expected = ("derived".into(), all.into(), false.into());
        assert_eq!(said, (&expected.0, &expected.1, &expected.2), "{told}");
        assert_eq!(told["derived"]["rules"], by_rule, "{told}");
        let other = "A".repeat(43);
        let wrong = evidence(elsewhere.path(), &["verify", &path, "--key", &other]);
        expect(&wrong, 2);
    }
}

/// Requests of a crawler that trains, to sites that speak of it in documents beside robots.txt.
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
    let ai_txt = Reply::text("User-agent: *\nDisallow: /closed/\n");
    origin.site("ai.test").page("/ai.txt", ai_txt);
    let crawler = "[preferences]\nsources = [\"tdmrep\", \"rsl\", \"ai.txt\"]\n[[crawler]]\nname = \"trainer\"\ntokens = [\"Trainer\"]\n\
                   match = { user_agent = \"Trainer\" }\npurposes = [\"search\", \"train-ai\"]\n";
    let proxy = Wayleave::start_with(&origin, |settings| settings.table(crawler));
    let status = |url: &str| proxy.get_as("Trainer/1", url).status;
    for host in ["tdm.test", "ai.test"] {
        assert_eq!(status(&format!("http://{host}/open/1")), 200);
        assert_eq!(status(&format!("http://{host}/closed/1")), 403);
    }
    assert_eq!(status("http://rsl.test/a"), 403);
    assert_eq!(status("http://lost.test/a"), 403);
    proxy.stop().0
}

#[test]
fn what_documents_beside_robots_txt_say_is_made_again() {
    let dir = crawled_by_a_trainer();
    for out in ["folder", "file.warc.gz"] {
        let arguments = ["export", "--since", "1d", "--crawler", "trainer", "--out", out];
        expect(&evidence(dir.path(), &arguments), 0);
        let told = expect(&evidence(dir.path(), &["verify", out]), 0);
        assert!(told.contains("by preference 6"), "{told}");
    }
    let key = expect(&evidence(dir.path(), &["key"]), 0);
    let folder = dir.path().join("folder");
    let mut by_others = clean(python());
    by_others.arg(project().join("tests/clients/verify_evidence.py"));
    let told = said(&by_others.arg(&folder).arg(key.trim()).output().expect("it runs"));
    assert!(told.starts_with("sound: "), "{told}");
    let mut warcio = clean(python());
    warcio.args(["-m", "warcio.cli", "check", "-v"]);
    let checked = warcio.arg(dir.path().join("file.warc.gz")).output();
    assert!(!expect(&checked.expect("it runs"), 0).contains("fail"));
    // The file that reserves is there, whole, and nothing is made again without it.
    let bodies = std::fs::read_dir(folder.join("bodies")).expect("it is there");
    let holds = |path: &PathBuf| {
        std::fs::read_to_string(path).is_ok_and(|it| it.contains("tdm-reservation"))
    };
    let mut paths = bodies.flatten().map(|entry| entry.path());
    let tdmrep = paths.find(holds).expect("it was exported");
    std::fs::remove_file(tdmrep).expect("it can be removed");
    let told = expect(&evidence(dir.path(), &["verify", "folder"]), 2);
    assert!(told.contains("differs: decision") && told.contains("is missing"), "{told}");
    let told = evidence(dir.path(), &["verify", "folder", "--json"]);
    let told: Value = serde_json::from_str(&expect(&told, 2)).expect("JSON");
    let first = &told["findings"][0];
    assert_eq!((&told["result"], &first["kind"]), (&"altered".into(), &"altered".into()));
    let place = first["place"].as_str().expect("it has a place");
    assert!(place.starts_with("bodies/"), "{told}");
}

#[test]
fn of_one_decision_nothing_else_is_disclosed() {
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
    let told = expect(&evidence(dir.path(), &["verify", "one"]), 0);
    assert!(told.contains("decisions  1: "), "{told}");
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
        let told = expect(&output, 2);
        let words = format!(
            ".{ending} files are not written; name a folder, or a file that ends in .warc.gz or .warc"
        );
        assert!(told.contains(&words), "{told}");
        assert!(!dir.path().join(out).exists(), "{out}");
    }
}

#[test]
fn a_url_and_a_time_are_enough_and_a_running_proxy_is_asked() {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    let proxy = Wayleave::start_with(&origin, |settings| settings.table(TABLES));
    for _ in 0..3 {
        proxy.get_as("Other/1", "http://shop.test/images/7");
    }
    let dir = proxy.dir.path();
    crate::harness::eventually("the decisions are there, and signed", || {
        let lines = log(dir);
        let head = std::fs::read_to_string(dir.join("state/decisions.jsonl.head"));
        let signed = format!("\"lines\":{},", lines.lines().count());
        decisions(&lines).count() == 3 && head.is_ok_and(|head| head.contains(&signed))
    });
    let config: PathBuf = dir.join("ports.toml");
    let text = std::fs::read_to_string(dir.join("config.toml")).expect("a configuration");
    let text = format!(
        "admin.listen = \"{}\"\n{}",
        proxy.admin,
        text.replace("admin.listen", "# admin.listen")
    );
    std::fs::write(&config, text).expect("it can be written");
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
    let told = expect(&evidence(dir, &["verify", "now"]), 0);
    assert!(told.contains("by robots.txt 1"), "{told}");
    let by_nobody = ["--url", url, "--at", "0s", "--crawler", "news", "--out", "none"];
    expect(&export(&by_nobody), 2);
}

#[test]
fn the_log_answers_what_was_allowed_then() {
    let dir = crawled();
    let url = "http://shop.test/private/a?b=c";
    let ask =
        |crawler: &str| evidence(dir.path(), &["ask", url, "--at", "0s", "--crawler", crawler]);
    let told = expect(&ask("news"), 1);
    for words in
        ["allowed     no: rule", "line 2: Disallow: /private", "fetched     no, nothing was sent"]
    {
        assert!(told.contains(words), "{words} in {told}");
    }
    let told = expect(&ask("asserted"), 0);
    for words in ["allowed     yes: no-matching-rule", "fetched     yes, answered with 200"] {
        assert!(told.contains(words), "{words} in {told}");
    }
    expect(&ask("nobody"), 2);
    let early = ["ask", url, "--at", "2020-01-01", "--crawler", "news"];
    let output = evidence(dir.path(), &early);
    expect(&output, 2);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("up to then; the first was at 20"), "{told}");
    // A day is asked about as a whole.
    let at = told.split("was at ").nth(1).unwrap().get(..10).unwrap();
    expect(&evidence(dir.path(), &["ask", url, "--at", at, "--crawler", "news"]), 1);
}

#[test]
fn what_was_just_decided_is_found() {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    let proxy = Wayleave::start(&origin);
    let dir = proxy.dir.path().join("asking");
    std::fs::create_dir(&dir).expect("writable");
    let config = format!("admin.listen = \"{}\"\nstate.dir = \"../state\"\n", proxy.admin);
    std::fs::write(dir.join("config.toml"), config).expect("writable");
    for number in 0..5 {
        // While decisions follow each other, only every tenth of a second is signed.
        for more in 0..20 {
            proxy.get(&format!("http://shop.test/images/{number}/{more}"));
        }
        let url = format!("http://shop.test/images/{number}");
        let refused = proxy.get(&url).json();
        let id = refused["decision_id"].as_str().expect("an id");
        let out = format!("evidence{number}");
        expect(&evidence(&dir, &["export", "--id", id, "--out", &out]), 0);
        expect(&evidence(&dir, &["ask", &url, "--at", "0s"]), 1);
    }
}
