//! `wayleave check` and `wayleave lint`: their output and their exit statuses.

use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::origin::reply::Step;
use crate::harness::wayleave::command;
use crate::harness::{Gate, Origin, Reply, tools};

const ROBOTS: &str = "User-agent: ExampleBot\nDisallow: /private\nCrawl-delay: 2\n\
                      Sitemap: https://www.example.com/s.xml\n";

/// The longest time for one run.
const LIMIT: Duration = Duration::from_secs(300);

/// Runs the program in an empty directory with `input` on its standard input.
pub(crate) fn run(arguments: &[&str], input: &[u8]) -> Output {
    let dir = TempDir::new().unwrap();
    tools::run(command().args(arguments).current_dir(dir.path()), input, LIMIT)
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

pub(crate) fn lines(output: &Output) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).unwrap();
    stdout(output).lines().map(parse).collect()
}

#[test]
fn each_url_gets_a_line_and_the_worst_decides_the_status() {
    let arguments = ["check", "--robots-only", "--robots", "-", "--token", "ExampleBot"];
    let output = run(&[&arguments[..], &["/open", "/private/a"]].concat(), ROBOTS.as_bytes());
    assert_eq!(
        stdout(&output),
        "allow /open: no-matching-rule\ndisallow /private/a: rule, line 2: Disallow: /private\n"
    );
    assert_eq!(output.status.code(), Some(1));
    let output = run(&[&arguments[..], &["/open"]].concat(), ROBOTS.as_bytes());
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_path_does_not_pass_for_the_proxys_verdict() {
    let robots = b"User-agent: *\nDisallow: /private\n";
    let arguments = ["check", "--robots", "-", "--user-agent", "Foo/1"];
    let note = "a path is judged by robots.txt alone";
    for (further, answer, is_noted) in [
        (&["//private"][..], "allow //private: no-matching-rule\n", true),
        (&["--robots-only", "//private"], "allow //private: no-matching-rule\n", false),
        (
            &["http://a.test//private"],
            "refuse http://a.test//private: rule (403): Disallow: /private (line 2 of http://a.test/robots.txt)\n",
            false,
        ),
    ] {
        let output = run(&[&arguments[..], further].concat(), robots);
        assert_eq!(stdout(&output), answer, "{further:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said.contains(note), is_noted, "{further:?}: {said}");
    }
}

#[test]
fn a_file_that_cannot_be_fetched_is_mentioned_once() {
    let output = run(&["check", "--user-agent", "Foo/1", "http://127.0.0.1:1/a"], b"");
    let answer = stdout(&output);
    assert!(
        answer.ends_with(
            "http://127.0.0.1:1 is at an internal address: see upstream.allow_private\n"
        ),
        "{answer}"
    );
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn strict_decides_for_every_equivalent_spelling() {
    let arguments =
        ["check", "--robots-only", "--robots", "-", "--token", "ExampleBot", "/open/../%70rivate"];
    let by_dialect = run(&arguments, ROBOTS.as_bytes());
    assert_eq!(by_dialect.status.code(), Some(0));
    let strict = run(&[&arguments[..], &["--strict"]].concat(), ROBOTS.as_bytes());
    assert_eq!(strict.status.code(), Some(1));
}

#[test]
fn a_path_may_start_with_two_slashes() {
    let robots = b"User-agent: *\nDisallow: /private\n";
    let arguments =
        ["check", "--robots-only", "--robots", "-", "--token", "ExampleBot", "//private"];
    let by_dialect = run(&arguments, robots);
    assert_eq!(stdout(&by_dialect), "allow //private: no-matching-rule\n");
    let strict = run(&[&arguments[..], &["--strict"]].concat(), robots);
    let refused = "disallow //private: rule, line 2: Disallow: /private\n";
    assert_eq!(stdout(&strict), refused);
    let robots = b"User-agent: *\nDisallow: //a\n";
    let disallowed =
        run(&["check", "--robots-only", "--robots", "-", "--token", "ExampleBot", "//a/b"], robots);
    assert_eq!(disallowed.status.code(), Some(1));
}

#[test]
fn json_output_has_every_member() {
    let field = "Mozilla/5.0 (compatible; ExampleBot/0.1; +https://example.com/bot)";
    let arguments =
        ["check", "--robots-only", "--robots", "-", "--user-agent", field, "--json", "/private"];
    let output = run(&arguments, ROBOTS.as_bytes());
    let expected = json!({
        "url": "/private", "verdict": "disallow", "reason": "rule", "line": 2,
        "rule": "Disallow: /private", "dialect": "rfc9309", "group": ["ExampleBot"],
        "crawl_delay": 2.0, "sitemaps": ["https://www.example.com/s.xml"],
    });
    assert_eq!(lines(&output), [expected]);
}

#[test]
fn a_token_that_finds_no_group_is_refused_with_advice() {
    for (token, advice) in [
        ("VerBot/2.1", "\"VerBot/2.1\" contains a version: write \"VerBot\""),
        ("Example Bot/1.0", "write \"Example Bot\""),
        ("Mozilla/5.0 (compatible; VerBot/2.1)", "is a whole User-Agent: write \"VerBot\""),
    ] {
        let output = run(&["check", "--robots-only", "--robots", "-", "--token", token, "/"], b"");
        assert_eq!(output.status.code(), Some(2), "{token}");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(advice), "{error}");
    }
}

#[test]
fn mistakes_in_usage_and_input_exit_with_2() {
    for arguments in [
        &["check", "--robots-only", "--robots", "-", "/"][..],
        &["check", "--robots-only", "--robots", "missing.txt", "--token", "a", "/"],
        &["check", "--robots-only", "--robots", "-", "--token", "", "/"],
        &["check", "--robots-only", "--robots", "-", "--token", "*", "/"],
        &["check", "--robots-only", "--robots", "-", "--token", "a", "--dialect", "rfc", "/"],
        &["check", "--robots-only", "--robots", "-", "--token", "a"],
        &["check", "--robots-only", "--token", "a", "/a/path/without/origin"],
        &["lint", "missing.txt"],
        &["lint"],
    ] {
        let output = run(arguments, b"");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(stdout(&output), "", "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn an_argument_that_is_neither_url_nor_path_is_named() {
    let offline = &["check", "--robots-only", "--robots", "-", "--token", "a"][..];
    let live = &["check", "--robots-only", "--token", "a"][..];
    for (arguments, url) in [
        (&["check", "--robots-only"][..], "http://["),
        (live, "http://["),
        (live, "/a/path/without/origin"),
        (offline, "http://["),
        (offline, "http://h:99999/"),
        (offline, "http:///a"),
        (offline, "gopher://h.test/a"),
        (offline, "mailto:a@h.test"),
        (offline, "h.test/a"),
        (offline, "a/b"),
        (offline, "?x"),
        (offline, "*"),
        (offline, ""),
        (offline, "/a\nb"),
        (offline, "http://h.test/a\nb"),
    ] {
        let output = run(&[arguments, &["/fine", url][..]].concat()[..], b"");
        let alone = run(&[arguments, &[url][..]].concat()[..], b"");
        let named = String::from_utf8_lossy(&alone.stderr).contains(&format!("{url:?}"));
        assert!(named, "{arguments:?} {url:?}: {alone:?}");
        assert_eq!(alone.status.code(), Some(2), "{url:?}");
        assert_eq!((output.status.code(), stdout(&output)), (Some(2), ""), "{url:?}");
    }
    for url in ["/a b", "//h.test/a", "/\u{e9}", "HTTP://h.test", "http://h.test/a b#c", "/a#"] {
        let output = run(&[offline, &[url]].concat(), b"");
        assert_eq!(output.status.code(), Some(0), "{url:?}: {output:?}");
    }
}

/// URLs and paths, each with its verdict by [`URLS_ROBOTS`]; null: it is a mistake. `wayleave-conformance` is asked the same.
const URLS: &str = include_str!("../data/urls.jsonl");
const URLS_ROBOTS: &str = "User-agent: *\nDisallow: /x\nDisallow: /a%20b\n";

#[test]
fn each_url_is_read_as_what_it_names() {
    let arguments = ["check", "--robots-only", "--robots", "-", "--token", "a"];
    for line in URLS.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let url = row["url"].as_str().unwrap();
        let output = run(&[&arguments[..], &[url]].concat(), URLS_ROBOTS.as_bytes());
        let verdict = stdout(&output).split_whitespace().next();
        assert_eq!(verdict, row["verdict"].as_str(), "{url:?} {output:?}");
    }
}

#[test]
fn the_longest_delay_that_robots_txt_asks_for_is_shown() {
    let arguments = ["check", "--robots-only", "--robots", "-", "--token", "a", "--json", "/"];
    for (lines_of_group, seconds) in [
        ("Request-rate: 1/10", json!(10.0)),
        ("Crawl-delay: 2\nRequest-rate: 1/10", json!(10.0)),
        ("Crawl-delay: 20\nRequest-rate: 1/10", json!(20.0)),
        ("Disallow:", Value::Null),
    ] {
        let robots = format!("User-agent: *\n{lines_of_group}\n");
        let answer = &lines(&run(&arguments, robots.as_bytes()))[0];
        assert_eq!(answer["crawl_delay"], seconds, "{lines_of_group}: {answer}");
    }
}

#[test]
fn control_sequences_of_terminals_are_escaped() {
    let body = "User-agent: *\nDisallow: /\u{1b}[31mred\n";
    let output = run(
        &["check", "--robots-only", "--robots", "-", "--token", "a", "/%1B[31mred"],
        body.as_bytes(),
    );
    assert_eq!(stdout(&output), "disallow /%1B[31mred: rule, line 2: Disallow: /\\u{1b}[31mred\n");
}

/// Writes a configuration that maps port 80 of every `*.test` name to the origin.
fn config(dir: &TempDir, origin: &Origin) -> PathBuf {
    let file = dir.path().join("wayleave.toml");
    let text = format!(
        "upstream.allow_private = [\"127.0.0.1/32\"]\ndns.overrides.\"*.test:80\" = \"{}\"\n",
        origin.http
    );
    std::fs::write(&file, text).unwrap();
    file
}

#[test]
fn without_a_file_the_origins_robots_txt_decides() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/private");
    origin.site("down.test").robots_reply(Reply::new(503));
    let dir = TempDir::new().unwrap();
    let config = config(&dir, &origin);
    let check = |url: &str| {
        let config = config.to_str().unwrap();
        run(&["check", "--robots-only", "--config", config, "--token", "ExampleBot", url], b"")
    };
    let output = check("http://shop.test/private?x");
    let expected = "disallow http://shop.test/private?x: rule, line 2: Disallow: /private\n";
    assert_eq!(stdout(&output), expected);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(check("http://shop.test/").status.code(), Some(0));
    assert_eq!(check("http://down.test/").status.code(), Some(3));
    assert!(origin.seen().iter().all(|request| request.contains("/robots.txt")));
}

#[test]
fn urls_come_from_standard_input() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("robots.txt");
    std::fs::write(&file, "User-agent: *\nDisallow: /private\n").unwrap();
    let check = |robots: &str, urls: &[&str], input: &str| {
        let arguments =
            [&["check", "--robots-only", "--robots", robots, "--token", "a"], urls].concat();
        run(&arguments, input.as_bytes())
    };
    let name = file.to_str().unwrap();
    let output = check(name, &["/first", "-"], "/private/1\r\n\n  http://shop.test/2\n");
    let urls: Vec<_> =
        stdout(&output).lines().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(urls, ["allow /first", "disallow /private/1", "allow http"]);
    assert_eq!(output.status.code(), Some(1));
    let output = check(name, &["-"], "");
    assert_eq!((stdout(&output), output.status.code()), ("", Some(0)));
    for (robots, input) in [("-", "/a\n"), (name, "no-url\n"), (name, "\u{1}\n")] {
        let output = check(robots, &["-"], input);
        assert_eq!((stdout(&output), output.status.code()), ("", Some(2)), "{input:?}");
        assert!(!output.stderr.is_empty());
    }
}

/// Lines of which none has a URL that can be requested.
const MALFORMED: [&str; 10] = [
    "http://[::1",
    "shop.test/private",
    "http://shop.test:99999/",
    "https:///a",
    "mailto:a@shop.test",
    "//shop.test/a",
    "/private",
    "http://a@b@shop.test/",
    "{\"url\": 5}",
    "http:/shop.test/",
];

/// Expects an object for each line of a list, in their order: a verdict on each of `urls`, else an error.
fn expect_a_row_for_each_line(rows: &[Value], list: &str, urls: &[&str]) {
    assert_eq!(rows.len(), list.lines().count(), "{rows:?}");
    for ((row, text), line) in rows.iter().zip(list.lines()).zip(1..) {
        let is_url = urls.contains(&text);
        assert_eq!(row["error"].is_string(), !is_url, "{row}");
        let is_in_place = if is_url { row["url"] == text } else { row["line"] == line };
        assert!(is_in_place, "line {line}: {row}");
    }
}

#[test]
fn malformed_lines_of_a_list_do_not_stop_the_others() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/private");
    origin.site("down.test").robots_reply(Reply::new(503));
    let dir = TempDir::new().unwrap();
    let config = config(&dir, &origin);
    // Before, between and after the others, which would give 0, 1 and 3 by themselves.
    let mut list = String::new();
    let urls = ["http://shop.test/open", "http://shop.test/private", "http://down.test/"];
    for (index, malformed) in MALFORMED.iter().enumerate() {
        list += &format!("{malformed}\n");
        if let Some(url) = urls.get(index) {
            list += &format!("{url}\n");
        }
    }
    let file = dir.path().join("urls.txt");
    std::fs::write(&file, &list).unwrap();
    let from = file.to_str().unwrap();
    let arguments =
        ["check", "--config", config.to_str().unwrap(), "--token", "ExampleBot", "--from", from];
    let verdicts = ["forward", "refuse", "refuse"];
    for (further, verdicts) in [
        (&[][..], verdicts),
        (&["--robots-only"], ["allow", "disallow", "disallow"]),
        (&["--json"], verdicts),
        (&["--json", "--robots-only"], verdicts),
        (&["--github"], verdicts),
    ] {
        let output = run(&[&arguments[..], further].concat(), b"");
        assert_eq!(output.status.code(), Some(2), "{further:?}: {output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        for (_, line) in list.lines().zip(1..).filter(|(text, _)| !urls.contains(text)) {
            assert!(said.contains(&format!("urls.txt:{line}: ")), "{further:?}, {line}: {said}");
        }
        match further {
            ["--json", ..] => expect_a_row_for_each_line(&lines(&output), &list, &urls),
            ["--github"] => {
                let printed = stdout(&output);
                assert_eq!(printed.matches("title=No URL::").count(), 10, "{printed}");
                let count = "3 URLs: 1 forwarded, 1 refused, 1 undecided, 0 observed; 10 lines without a URL";
                assert!(printed.contains(count), "{printed}");
                let at =
                    |line: &str| printed.find(line).unwrap_or_else(|| panic!("{line}: {printed}"));
                assert!(at(",line=3,") < at(",line=4,") && at(",line=4,") < at(",line=5,"));
            }
            _ => {
                let expected: Vec<String> = verdicts
                    .iter()
                    .zip(urls)
                    .map(|(verdict, url)| format!("{verdict} {url}:"))
                    .collect();
                let printed: Vec<&str> = stdout(&output).lines().collect();
                assert_eq!(printed.len(), 3, "{printed:?}");
                for (printed, expected) in printed.iter().zip(expected) {
                    assert!(printed.starts_with(&expected), "{printed}");
                }
            }
        }
    }
    assert_eq!(origin.robots_fetches("shop.test"), 5, "one in each run");
}

#[test]
fn malformed_lines_of_standard_input_are_reported() {
    let arguments = ["check", "--status", "404", "--token", "a", "--robots-only", "--json"];
    let input = b"http://[::1\n/a\n\nno-url\nhttp://shop.test/b c\n";
    let output = run(&[&arguments[..], &["/first", "-", "/last"]].concat(), input);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let rows = lines(&output);
    let urls: Vec<&str> = rows.iter().map(|row| row["url"].as_str().unwrap()).collect();
    let expected = ["/first", "http://[::1", "/a", "no-url", "http://shop.test/b c", "/last"];
    assert_eq!(urls, expected);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("-:1: \"http://[::1\"") && said.contains("-:4: \"no-url\""), "{said}");
}

#[test]
fn origins_of_a_list_are_asked_at_the_same_time() {
    let origin = Origin::start();
    let gate = Gate::closed();
    let mut urls = String::new();
    for number in 0..40 {
        let host = format!("h{number}.test");
        let reply = Reply::new(200).step(Step::Wait(gate.clone()));
        let reply = reply.body("User-agent: *\nDisallow: /a\n");
        origin.site(&host).robots_reply(reply);
        urls += &format!("http://{host}/a\nhttp://{host}/b\n");
    }
    let dir = TempDir::new().unwrap();
    let config = config(&dir, &origin);
    let list = dir.path().join("urls.txt");
    std::fs::write(&list, &urls).unwrap();
    let [config, list] = [&config, &list].map(|path| path.to_str().unwrap().to_owned());
    let check = std::thread::spawn(move || {
        run(&["check", "--config", &config, "--token", "ExampleBot", "--from", &list], b"")
    });
    origin.wait_for("32 fetches at a time", |arrived| arrived.requests.len() >= 32);
    assert_eq!(origin.seen().len(), 32, "no more than that at a time");
    gate.open();
    let output = check.join().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    for (number, pair) in stdout(&output).lines().collect::<Vec<_>>().chunks(2).enumerate() {
        assert!(pair[0].starts_with(&format!("refuse http://h{number}.test/a: ")), "{pair:?}");
        assert!(pair[1].starts_with(&format!("forward http://h{number}.test/b: ")), "{pair:?}");
    }
    assert_eq!(origin.seen().len(), 40, "each file once");
}

#[test]
fn a_pasted_url_may_contain_spaces_in_every_mode() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/a%20b");
    let dir = TempDir::new().unwrap();
    let config = config(&dir, &origin);
    for mode in [&[][..], &["--robots-only"]] {
        let arguments = ["check", "--config", config.to_str().unwrap(), "--token", "a"];
        let output = run(&[&arguments[..], mode, &["http://shop.test/a b"]].concat(), b"");
        assert_eq!(output.status.code(), Some(1), "{mode:?}: {output:?}");
    }
}

#[test]
fn lint_names_file_and_line_and_exits_by_what_it_found() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("robots.txt");
    let name = file.to_str().unwrap();
    std::fs::write(&file, "User-agent: *\nDisallow: /private\nDisalow: /secret\n").unwrap();
    let output = run(&["lint", name], b"");
    let expected = format!(
        "{name}:3: error: \"Disalow\" is not a known directive; did you mean \"Disallow\"?"
    );
    assert!(stdout(&output).starts_with(&expected), "{}", stdout(&output));
    assert_eq!(output.status.code(), Some(1));
    let output = run(&["lint", "-"], b"User-agent: *\nDisallow: /private\n");
    assert_eq!((stdout(&output), output.status.code()), ("", Some(0)));
}

#[test]
fn lint_goes_on_after_a_file_that_cannot_be_read() {
    let dir = TempDir::new().unwrap();
    let file = |name: &str| dir.path().join(name).display().to_string();
    let (missing, bad) = (file("missing.txt"), file("robots.txt"));
    std::fs::write(&bad, "User-agent: *\nDisalow: /secret\n").unwrap();
    let output = run(&["lint", &missing, &bad, &missing], b"");
    assert!(stdout(&output).starts_with(&format!("{bad}:2: error: ")), "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stderr.matches("missing.txt: ").count(), 2, "{stderr}");
    assert!(stderr.contains("\n1 file: 1 error, "), "{stderr}");
    assert_eq!(output.status.code(), Some(2));
    let output = run(&["lint", &missing], b"");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("nothing to report"), "{output:?}");
}

#[test]
fn lint_fails_only_for_errors_and_prints_notes_on_request() {
    let text = b"User-agent: *\nDisallow: /a b\nDisallow: /c\nDisallow: /c\n";
    let output = run(&["lint", "-"], text);
    // Google's parser leaves the space as it is, and no crawler sends one.
    let warning = "-:2: warning: \"/a b\" contains a space; write %20\n\
                   -:2: warning: dialects disagree about \"/a%20b\" for *: rfc9309 disallows it, allow: google\n";
    assert_eq!((stdout(&output), output.status.code()), (warning, Some(0)));
    let output = run(&["lint", "--notes", "-"], text);
    let note = format!("{warning}-:4: note: \"/c\" has no effect: line 3 says the same\n");
    assert_eq!((stdout(&output), output.status.code()), (&*note, Some(0)));
    let output = run(&["lint", "--json", "-"], b"Disallow: a\n");
    let found: Vec<Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(found.len(), 2, "{found:?}");
    for (finding, text) in found.iter().zip(["does not start with", "before any user-agent"]) {
        assert_eq!(finding["file"], "-");
        assert_eq!(finding["line"], 1);
        assert_eq!(finding["level"], "error");
        assert!(finding["message"].as_str().unwrap().contains(text), "{finding}");
    }
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn lint_reads_the_head_of_a_response() {
    let head = b"HTTP/2 200\r\nx-robots-tag: noindex\r\n\r\n";
    let output = run(&["lint", "--head", "-"], head);
    let printed = stdout(&output);
    assert!(printed.starts_with("-:2: warning: "), "{printed}");
    assert!(printed.contains("Robots-Tag: *;noindex"), "{printed}");
    assert_eq!(output.status.code(), Some(0));
    let output = run(&["lint", "--head", "-"], b"HTTP/2 200\nrobots-tag: noindex,\n");
    assert!(stdout(&output).starts_with("-:2: error: "), "{}", stdout(&output));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn lint_reports_once_that_a_file_is_not_a_robots_txt() {
    let page = "<!DOCTYPE html>\n<style>\nz-index: 3\n</style>\n".repeat(20);
    let output = run(&["lint", "--notes", "-"], page.as_bytes());
    assert_eq!(stdout(&output).lines().count(), 1, "{}", stdout(&output));
    assert_eq!(output.status.code(), Some(1));
    let wide: Vec<u8> =
        "\u{feff}User-agent: *\nDisallow: /\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    // Without the byte order mark, and a picture.
    for foreign in [&*wide, &wide[2..], b"GIF89a\x01\0\x01\0\n\x80\0\n\0;\n"] {
        let output = run(&["lint", "--notes", "-"], foreign);
        assert_eq!(stdout(&output).lines().count(), 1, "{}", stdout(&output));
        assert_eq!(output.status.code(), Some(1));
    }
    let with_rules = run(&["lint", "-"], b"User-agent: *\nDisallow: /a\0b\n");
    assert!(stdout(&with_rules).starts_with("-:2: warning: there is a NUL byte here"));
}

#[test]
fn lint_reports_a_mistake_once() {
    let output = run(&["lint", "-"], b"User-agent: OldBot/1.0\nDisallow: /\n");
    let found = stdout(&output);
    assert!(found.starts_with("-:1: warning: \"OldBot/1.0\" is not a product token"), "{found}");
    assert_eq!(found.lines().count(), 1, "{found}");
}

#[test]
fn lint_sums_up_on_standard_error() {
    let stderr = |arguments: &[&str], text: &[u8]| {
        String::from_utf8(run(&[&["lint"], arguments].concat(), text).stderr).unwrap()
    };
    let text = b"User-agent: *\nDisallow: a\nDisallow: /c\nDisallow: /c\n";
    assert_eq!(stderr(&["-"], text), "1 file: 1 error, 0 warnings, 1 note (--notes shows them)\n");
    assert_eq!(stderr(&["--notes", "-"], text), "1 file: 1 error, 0 warnings, 1 note\n");
    assert_eq!(stderr(&["--json", "-"], text), "");
    assert_eq!(stderr(&["-"], b"User-agent: *\nDisallow: /a\n"), "1 file: nothing to report\n");
    assert_eq!(stderr(&["--json", "-"], b"User-agent: *\nDisallow: /a\n"), "");
    let hint = "for the site's, write https://shop.test/robots.txt";
    assert!(stderr(&["shop.test"], b"").contains(hint));
    assert!(!stderr(&["robots"], b"").contains("https://"));
}

#[test]
fn lint_compares_with_the_requested_dialect() {
    let text = b"User-agent: *\nDisallow: /*.pdf\n";
    let of = |arguments: &[&str]| stdout(&run(arguments, text)).to_owned();
    assert_eq!(of(&["lint", "-"]), "");
    assert_eq!(of(&["lint", "--dialect", "rfc9309", "-"]), "");
    assert_eq!(
        of(&["lint", "--dialect", "koster1996", "-"]),
        "-:2: warning: dialects disagree about \"/x.pdf\" for *: rfc9309 disallows it, allow: koster1996\n"
    );
}

#[test]
fn lint_reads_what_an_origin_serves() {
    let origin = Origin::start();
    origin.site("shop.test").robots("Disallow: /private\n");
    let dir = TempDir::new().unwrap();
    let config = config(&dir, &origin);
    let url = "http://shop.test/robots.txt";
    let output = run(&["lint", "--config", config.to_str().unwrap(), url], b"");
    let expected = format!("{url}:1: error: a rule before any user-agent line applies to nobody\n");
    assert_eq!(stdout(&output), expected);
}
