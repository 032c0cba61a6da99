//! Rows about robots.txt and for the proxy's verdict.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::{BINARY, answers, run};

const ROBOTS: &str = "User-agent: ExampleBot\nDisallow: /private\nCrawl-delay: 2\n\
                      Sitemap: https://www.example.com/s.xml\n";
/// The longest wait for an answer. Generous, because a loaded machine must not fail a test.
const DEADLINE: Duration = Duration::from_secs(60);
/// URLs and paths, each with its verdict; null: it is a mistake.
const URLS: &str = include_str!("../data/urls.jsonl");
/// Google's own tests.
const GOOGLES: &str = include_str!("../../policy/robots-txt/tests/cases/google_robots_test.jsonl");

#[test]
fn each_line_is_answered_in_order_in_spite_of_bad_ones() {
    let rows = [
        json!({"id": 1, "robots": ROBOTS, "tokens": ["ExampleBot"], "url": "/private"}).to_string(),
        "this is no JSON".to_owned(),
        json!({"id": "two", "robots": 5, "tokens": ["a"], "url": "/"}).to_string(),
        json!({"id": 3, "robots": ROBOTS, "tokens": ["a"]}).to_string(),
        json!({"id": 4, "robots_base64": "VXNlci1hZ2VudDogKgpEaXNhbGxvdzogL/8=",
               "user_agent": "Foo/1.0", "url": "http://h.test/%FF", "dialect": "google"})
        .to_string(),
        json!({"id": 5, "robots": ROBOTS, "tokens": [""], "url": "/private"}).to_string(),
        json!([6, ROBOTS, null, "a", null, "/private", null]).to_string(),
        json!({"id": 7, "robots": ROBOTS, "token": "ExampleBot", "url": "/private"}).to_string(),
        json!({"id": 8, "robots": ROBOTS, "token": 5, "url": "/private"}).to_string(),
    ];
    let rows = format!("\u{feff}{}", rows.join("\n"));
    let output = run(&[], rows.as_bytes());
    assert_eq!(output.status.code(), Some(2));
    let complaint = "wayleave: 5 lines could not be answered: see \"error\" in their answers\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), complaint);
    let answers = answers(&output);
    assert_eq!(
        answers[0],
        json!({"id": 1, "verdict": "disallow", "reason": "rule", "line": 2,
               "rule": "Disallow: /private", "crawl_delay": 2.0,
               "sitemaps": ["https://www.example.com/s.xml"]})
    );
    let errors: Vec<bool> = answers.iter().map(|answer| answer["error"].is_string()).collect();
    assert_eq!(errors, [false, true, true, true, false, false, true, false, true]);
    let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(json!(ids), json!([1, null, "two", 3, 4, 5, null, 7, 8]));
    assert_eq!(answers[4]["verdict"], "disallow");
    assert_eq!(answers[5]["reason"], "no-matching-group");
    assert_eq!(answers[7]["rule"], "Disallow: /private");
}

/// The tool and `wayleave check` must not read the same text as two different URLs: both are asked these.
#[test]
fn urls_are_read_as_the_command_reads_them() {
    let robots = "User-agent: *\nDisallow: /x\nDisallow: /a%20b\n";
    let urls: Vec<Value> = URLS.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ask = |further: &Value| {
        let mut rows = String::new();
        for url in &urls {
            let url = &url["url"];
            let mut row = json!({"id": url, "url": url, "robots": robots, "token": "a"});
            row.as_object_mut().unwrap().extend(further.as_object().unwrap().clone());
            writeln!(rows, "{row}").unwrap();
        }
        run(&[], rows.as_bytes())
    };
    for further in [json!({}), json!({"purpose": "search"})] {
        let output = ask(&further);
        assert_eq!(output.status.code(), Some(2));
        for (answer, url) in answers(&output).iter().zip(&urls) {
            assert_eq!(answer["verdict"], url["verdict"], "{answer}");
            assert_eq!(answer["error"].is_string(), url["verdict"].is_null(), "{answer}");
            assert_eq!(answer["id"], url["url"]);
        }
    }
    for (answer, url) in answers(&ask(&json!({"as": "proxy"}))).iter().zip(&urls) {
        // A path is not a request to a proxy.
        let is_path = url["url"].as_str().unwrap().starts_with('/');
        let is_request = url["verdict"].is_string() && !is_path;
        assert_eq!(answer["error"].is_string(), !is_request, "{answer}");
    }
}

#[test]
fn the_longest_delay_that_robots_txt_asks_for_is_stated() {
    let robots = "User-agent: *\nCrawl-delay: 2\nRequest-rate: 1/10\n";
    let row = json!({"robots": robots, "token": "a", "url": "/"}).to_string();
    assert_eq!(answers(&run(&[], row.as_bytes()))[0]["crawl_delay"], 10.0);
}

#[test]
fn options_apply_to_all_rows() {
    let row = |rule: &str, url: &str| {
        let robots = format!("User-agent: *\nDisallow: {rule}\n");
        json!({"robots": robots, "token": "a", "url": url}).to_string()
    };
    for (row, option, with) in [
        (row("/*.pdf", "/a.pdf"), &["--dialect", "koster1996"][..], "allow"),
        (row("/private", "/x/../private"), &["--strict"], "disallow"),
    ] {
        let answer = |arguments: &[&str]| {
            answers(&run(arguments, row.as_bytes()))[0]["verdict"].as_str().unwrap().to_owned()
        };
        assert_eq!(answer(option), with, "{row}");
        assert_ne!(answer(&[]), with, "{row}");
    }
}

#[test]
fn a_row_is_answered_before_the_next_is_whole() {
    let mut child =
        Command::new(BINARY).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let row = json!({"id": 7, "robots": ROBOTS, "tokens": ["a"], "url": "/"});
    write!(stdin, "{row}\n{{\"id\": 8, ").unwrap();
    stdin.flush().unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let (sender, answered) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in stdout.lines() {
            sender.send(line.unwrap()).unwrap();
        }
    });
    let answer = answered.recv_timeout(DEADLINE);
    let rest = row.to_string().replacen("{\"id\":7,", "", 1);
    writeln!(stdin, "{rest}").unwrap();
    drop(stdin);
    let answer: Value = serde_json::from_str(&answer.expect("an answer")).unwrap();
    assert_eq!(answer["id"], 7);
    reader.join().unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_verdicts_of_googles_own_tests_are_reached() {
    let cases: Vec<Value> =
        GOOGLES.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut rows = String::new();
    for case in &cases {
        let row = json!({"id": case["id"], "robots": case["robots"], "url": case["url"],
                              "tokens": [case["agent"]], "dialect": "google"});
        writeln!(rows, "{row}").unwrap();
    }
    let answers = answers(&run(&[], rows.as_bytes()));
    assert_eq!(answers.len(), cases.len());
    for (case, answer) in cases.iter().zip(&answers) {
        // Google's function allows an empty URL, which nobody can request.
        if case["url"] == "" {
            assert!(answer["error"].is_string(), "{answer}");
            continue;
        }
        let allow = answer["verdict"] == "allow";
        assert_eq!(Some(allow), case["allow"].as_bool(), "{case} {answer}");
    }
}
