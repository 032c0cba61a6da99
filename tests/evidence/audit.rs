//! An audit: every refusal can be derived again from only the decision log and the stored history.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::Value;

use super::sha256_hex;
use crate::harness::crawler::crawler;
use crate::harness::wayleave::command;
use crate::harness::{Origin, Reply, Wayleave};

const RULE: &str = r#"
[[rule]]
action = "refuse"
hosts = ["shop.test"]
paths = ["/contract/"]
"#;

const FIRST: &str = "User-agent: NewsBot\nDisallow: /private\nAllow: /private/open\n\n\
                     User-agent: *\nDisallow: /*.pdf$\nDisallow: /images\n";
const SECOND: &[u8] =
    b"\xEF\xBB\xBF# caf\xE9\r\nUser-agent: *\rDisallow: /a%2Fb\nDisallow: /private\n";

const PATHS: [&str; 9] = [
    "/private/a?b=c",
    "/private/open",
    "/x/../private/open/../b",
    "/%70rivate",
    "/images/1",
    "/paper.pdf",
    "/a/b",
    "/a%2fb",
    "/contract/1",
];

/// Crawls three origins, one of which changes its robots.txt, as four crawlers. Returns the number of refusals.
fn crawl(proxy: &Wayleave, origin: &Origin) -> usize {
    let mut refused = 0;
    let mut crawl_host = |host: &str| {
        for agent in ["NewsBot/1", "ImageBot/1", "CarefulBot/1", "Other/1"] {
            for path in PATHS {
                let url = format!("http://{host}{path}");
                let answer = proxy.get_as(agent, &url);
                refused += usize::from(answer.status != 200);
            }
        }
    };
    for host in ["shop.test", "closed.test", "down.test"] {
        crawl_host(host);
    }
    let changed = Reply::new(200).body(SECOND);
    origin.site("shop.test").robots_reply(changed);
    let refreshed = proxy.admin_request("POST", "/v1/robots/http%3A%2F%2Fshop.test/refresh");
    assert_eq!(refreshed.status, 200);
    crawl_host("shop.test");
    refused
}

#[test]
fn every_refusal_is_derived_from_the_log_and_the_history() {
    let origin = Origin::start();
    origin.site("shop.test").robots(FIRST);
    origin.site("closed.test").robots_reply(Reply::new(401));
    origin.site("down.test").robots_reply(Reply::new(500));
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .with(crawler("news", "NewsBot").set("tokens", ["NewsBot-Fast", "NewsBot"]))
            .with(crawler("images", "ImageBot").set("dialect", "koster1996"))
            .with(crawler("careful", "CarefulBot").set("dialect", "strictest"))
            .table(RULE)
    });
    let refused = crawl(&proxy, &origin);
    let (dir, settings) = proxy.stop();
    drop(origin);
    let log = std::fs::read_to_string(dir.path().join("state/decisions.jsonl")).expect("a log");
    let proxy = Wayleave::start_in(dir, settings);
    let lines: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let refusals = lines.iter().filter(|line| line["outcome"] == "refused");
    let by_robots: Vec<_> = refusals.clone().filter(|line| line["verdict"] == "disallow").collect();
    let by_rules = refusals
        .clone()
        .filter(|line| line["policy"]["number"] == 1 && line["reason"] == "policy-rule");
    assert_eq!(refusals.clone().count(), refused);
    assert_eq!(by_robots.len() + by_rules.count(), refused);
    let mut bases = BTreeSet::new();
    for line in by_robots {
        let derived = derive(&proxy, line);
        for member in ["verdict", "line", "rule", "dialect"] {
            assert_eq!(derived[member], line[member], "{member}: {derived} of {line}");
        }
        assert_eq!(derived["reason"], line["basis"], "{derived} of {line}");
        bases.insert((line["basis"].to_string(), line["line"].to_string()));
    }
    // Three lines of the first file and two of the second, and a whole site by its status.
    assert!(bases.len() >= 6, "{bases:?}");
}

/// Returns the verdict of `wayleave check` on the request of a log line, with the robots.txt of that time.
fn derive(proxy: &Wayleave, line: &Value) -> Value {
    let id = line["id"].as_str().expect("an id");
    let robots = stored_robots(proxy, line, id);
    let text = |member: &str| line[member].as_str().expect("a string");
    let mut check = command();
    check.args(["check", "--robots-only", "--strict", "--json"]);
    check.args(["--dialect", text("dialect")]);
    for token in line["tokens"].as_array().expect("an array") {
        check.args(["--token", token.as_str().expect("a string")]);
    }
    match robots {
        Robots::File(bytes) => {
            let file = proxy.dir.path().join("robots.txt");
            std::fs::write(&file, bytes).expect("it can be written");
            check.arg("--robots").arg(file)
        }
        Robots::Status(status) => check.args(["--status", &status.to_string()]),
    };
    run(check.arg(text("url")), proxy.dir.path())
}

/// The response to a robots.txt fetch.
enum Robots {
    File(Vec<u8>),
    Status(u64),
}

/// Returns the robots.txt that a decision used, from the history.
fn stored_robots(proxy: &Wayleave, line: &Value, id: &str) -> Robots {
    if line.get("robots_sha256").is_none() {
        let origin = line["origin"].as_str().expect("an origin");
        let encoded = origin.replace(':', "%3A").replace('/', "%2F");
        let known = proxy.admin_get(&format!("/v1/robots/{encoded}")).json();
        let is_unreachable = line["basis"] == "unreachable";
        let member = if is_unreachable { "last_failure" } else { "answer" };
        let status = known[member]["status"].as_u64();
        return Robots::Status(status.expect("a status"));
    }
    let file = &proxy.admin_get(&format!("/v1/decisions/{id}")).json()["robots_txt"];
    let bytes = match file["body_base64"].as_str() {
        Some(encoded) => BASE64_STANDARD.decode(encoded).expect("base64"),
        None => file["body"].as_str().expect("the file").as_bytes().to_vec(),
    };
    assert_eq!(line["robots_sha256"], sha256_hex(&bytes));
    Robots::File(bytes)
}

fn run(check: &mut Command, dir: &Path) -> Value {
    let output = check.current_dir(dir).output().expect("it runs");
    let code = output.status.code();
    assert!(matches!(code, Some(1 | 3)), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}
