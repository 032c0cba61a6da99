//! `wayleave drill`: a running proxy is asked for what it must refuse.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::harness::crawler::crawler;
use crate::harness::ports::free_address;
use crate::harness::wayleave::{Settings, command};
use crate::harness::{Origin, Wayleave, decisions};

/// The address of the drill's origins.
const ADDRESS: &str = "127.0.73.1";

/// Returns the tables that the documentation gives for drills.
fn documented_tables() -> &'static str {
    let document = include_str!("../../docs/operating.md");
    let (_, section) = document.split_once("## Drill").expect("a heading");
    let (_, block) = section.split_once("```toml\n").expect("a block");
    let (block, _) = block.split_once("```").expect("its end");
    &block[block.find("[[crawler]]").expect("a crawler")..]
}

/// Returns the settings that the documentation gives for drills.
fn drilled(settings: Settings) -> Settings {
    settings
        .set("upstream.allow_private", &format!("[\"{ADDRESS}/32\"]"))
        .table(documented_tables())
}

fn drill(config: &Path, arguments: &[&str]) -> Output {
    let mut command = command();
    command.arg("drill").arg("--config").arg(config).args(arguments);
    command.output().expect("the program can be run")
}

/// Drills `proxy`, and returns the exit status with each family and its result, and what standard error says.
fn results(proxy: &Wayleave) -> (Option<i32>, Vec<(String, String)>, String) {
    let output = drill(&proxy.config_with_ports(), &["--json"]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert!(report["at"].is_string(), "{report}");
    let word = |value: &Value| value.as_str().expect("a word").to_owned();
    let families = report["families"].as_array().expect("families").iter();
    let results = families.map(|found| (word(&found["family"]), word(&found["result"]))).collect();
    (output.status.code(), results, format!("{report:#}\n{errors}"))
}

#[test]
fn a_drill_asks_for_each_family_through_the_listener() {
    let origin = Origin::start();
    let mut proxy = Wayleave::start_with(&origin, drilled);
    let (status, found, details) = results(&proxy);
    assert_eq!(status, Some(0), "{details}");
    assert_eq!(found.len(), 7);
    assert!(found.iter().all(|(_, result)| result == "right"), "{details}");
    assert!(details.contains("upstream.extra_roots"), "{details}");

    // With the CA as a root, https is asked for everything.
    let ca = proxy.ca_file();
    let settings = proxy.settings.clone().set("upstream.extra_roots", &format!("[{ca:?}]"));
    proxy.reload(&settings);
    proxy.settings = settings;
    let (status, found, details) = results(&proxy);
    assert_eq!(status, Some(0), "{details}");
    assert!(found.iter().all(|(_, result)| result == "right"), "{details}");
    assert!(!details.contains("note"), "{details}");
    let log = std::fs::read_to_string(proxy.dir.path().join("state/decisions.jsonl"));
    let log = log.expect("there is a log");
    for request in ["/drill/closed/a", "/drill/stated/a", "/drill/by-field"] {
        let https = |line: &&str| line.contains("\"https://127.0.73.1:") && line.contains(request);
        assert!(decisions(&log).any(|line| https(&line)), "{request}: {log}");
    }
    assert!(origin.seen().is_empty(), "{:?}", origin.seen());
}

#[test]
fn unenforced_refusals_are_told_from_wrong_answers() {
    let origin = Origin::start();
    let mut proxy = Wayleave::start_with(&origin, drilled);
    let base = proxy.settings.clone();
    let exception = "[[rule]]\naction = \"allow\"\nhosts = [\"*\"]\nowner = \"a@b.test\"\nreason = \"x\"\n\
                     expires = \"2999-01-01\"\n";
    let observed = crawler("seen", "SeenBot").matched_by("user_agent", "Seen").observed();
    for (settings, changed) in [
        (
            base.clone().set("proxy.mode", "\"observe\""),
            &["robots", "rule", "preference", "pace", "identity"][..],
        ),
        (base.clone().with(observed), &["identity"]),
        (base.clone().table(exception), &["robots", "rule", "preference", "pace", "identity"]),
        (base.clone().set("politeness.crawl_delay", "\"ignore\""), &["pace"]),
        (base.clone().set("politeness.crawl_delay", "\"wait\""), &[]),
        (base.clone().set("politeness.share", "\"address\""), &[]),
        (base.clone().set("robots.dialect", "\"koster1996\""), &[]),
        (base.clone().set("upstream.allow_private", "[\"0.0.0.0/0\"]"), &["internal", "rule"]),
        (base.clone().without_tables(), &["rule", "preference"]),
        (base.clone().set("https.mode", "\"tunnel\""), &[]),
        (base.clone().set("proxy.require_crawler", "true"), &[]),
    ] {
        proxy.reload(&settings);
        proxy.settings = settings;
        let (status, found, details) = results(&proxy);
        for (family, result) in &found {
            let is_changed = changed.contains(&family.as_str());
            let expected = if is_changed { "not-enforced" } else { "right" };
            assert_eq!(result, expected, "{family}: {details}");
        }
        assert_eq!(status, Some(0), "{details}");
    }
    // A proxy that does not know the drill refuses everything, which tells nothing.
    let settings = base.without_tables().set("proxy.require_crawler", "true");
    proxy.reload(&settings);
    proxy.settings = settings;
    let (status, found, details) = results(&proxy);
    assert_eq!(status, Some(2), "{details}");
    assert!(found.contains(&("robots".to_owned(), "failed".to_owned())), "{details}");
    assert!(details.contains("unidentified"), "{details}");
}

#[test]
fn a_proxy_that_refuses_nothing_is_found_out() {
    // It answers every request with 200.
    let origin = Origin::start();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("config.toml");
    let settings = drilled(Settings::for_origin(dir.path(), &origin))
        .set("proxy.listen", &format!("[\"{}\"]", origin.http))
        .set("https.mode", "\"tunnel\"");
    std::fs::write(&file, settings.to_toml()).expect("it can be written");
    let metrics = dir.path().join("drill.prom");
    let output = drill(&file, &["--textfile", metrics.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    for line in ["robots      wrong", "rule        wrong", "internal    wrong", "identity    wrong"]
    {
        assert!(text.contains(line), "{line}: {text}");
    }
    let mode = std::fs::metadata(&metrics).expect("it is written").permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    let metrics = std::fs::read_to_string(&metrics).expect("it can be read");
    assert!(metrics.contains("wayleave_drill_results{family=\"robots\",result=\"wrong\"} 1\n"));
    assert!(metrics.contains("wayleave_drill_results{family=\"robots\",result=\"right\"} 0\n"));
    assert!(metrics.contains("\nwayleave_drill_timestamp_seconds 1"), "{metrics}");
    // Nothing is left beside it.
    let names =
        std::fs::read_dir(dir.path()).expect("a directory").map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert_eq!(names, ["config.toml", "drill.prom", "origins.pem"]);
}

#[test]
fn a_drill_that_cannot_be_names_the_key() {
    let origin = Origin::start();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("config.toml");
    let metrics = dir.path().join("drill.prom");
    let base = drilled(Settings::for_origin(dir.path(), &origin))
        .set("proxy.listen", &format!("[\"{}\"]", free_address()))
        .set("https.mode", "\"tunnel\"");
    for (settings, text) in [
        (base.clone().set("upstream.allow_private", "[]"), "upstream.allow_private"),
        (base.clone().set("upstream.proxy", "\"http://192.0.2.1:3128\""), "upstream.proxy_bypass"),
        (base.clone().set("proxy.listen", "[\"socks5://127.0.0.1:1\"]"), "proxy.listen"),
    ] {
        std::fs::write(&file, settings.to_toml()).expect("it can be written");
        let output = drill(&file, &["--textfile", metrics.to_str().expect("UTF-8")]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(errors.contains(text) && output.stdout.is_empty(), "{text}: {output:?}");
        assert!(!metrics.exists());
    }
    // Nothing listens there.
    std::fs::write(&file, base.to_toml()).expect("it can be written");
    let output = drill(&file, &[]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("control     failed       ") && text.contains("connecting to the proxy"));
}
