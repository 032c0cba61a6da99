//! `wayleave rehearse`: what a new robots.txt would shut out, by an access log.

use std::io::Write;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use crate::harness::tools;
use crate::harness::wayleave::command;

const LIMIT: Duration = Duration::from_secs(120);

const OLD: &str = "User-agent: *\nDisallow: /cart\n";

const NEW: &str = "\
User-agent: *
Disallow: /cart
Disallow: /assets/
Disallow: /nowhere

User-agent: GPT-Bot
Disallow: /

User-agent: Googlebot
Allow: /search/help
Disallow: /search
Crawl-delay: 10
";

const GOOGLEBOT: &str = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
const BINGBOT: &str = "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)";
const GPTBOT: &str = "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)";
const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0";

fn combined(target: &str, bytes: u64, referer: &str, user_agent: &str) -> String {
    format!(
        "192.0.2.7 - - [28/Nov/2026:08:00:00 +0000] \"GET {target} HTTP/1.1\" 200 {bytes} \"{referer}\" \"{user_agent}\"\n"
    )
}

/// Returns a log of four crawlers' visits and of a person who reads a page.
fn log() -> String {
    [
        combined("/search?q=a", 100, "-", GOOGLEBOT),
        combined("/search/help", 10, "-", GOOGLEBOT),
        combined("/cart", 7, "-", GOOGLEBOT),
        combined("/assets/site.css", 1000, "-", BINGBOT),
        combined("/cart", 5, "-", BINGBOT),
        combined("/", 1, "-", GPTBOT),
        combined("/news", 1, "-", FIREFOX),
        combined("/assets/site.css", 1000, "https://shop.test/news", FIREFOX),
        combined("/cart", 1, "-", "ShopSpider/1.0 (+https://spider.test/)"),
    ]
    .concat()
}

fn write(dir: &Path, name: &str, content: impl AsRef<[u8]>) {
    std::fs::write(dir.join(name), content).expect("writable");
}

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    write(dir.path(), "robots.txt", NEW);
    write(dir.path(), "old.txt", OLD);
    write(dir.path(), "access.log", log());
    dir
}

fn rehearse(dir: &Path, arguments: &[&str], input: &[u8]) -> Output {
    tools::run(command().arg("rehearse").args(arguments).current_dir(dir), input, LIMIT)
}

/// Returns standard output of a rehearsal that ends with `status`.
#[track_caller]
fn said(dir: &Path, arguments: &[&str], input: &[u8], status: i32) -> String {
    let output = rehearse(dir, arguments, input);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[track_caller]
fn json(dir: &Path, arguments: &[&str], input: &[u8], status: i32) -> Value {
    let text = said(dir, &[arguments, &["--json"]].concat(), input, status);
    serde_json::from_str(&text).expect("JSON")
}

/// Returns the row of a crawler.
fn row<'a>(report: &'a Value, crawler: &str) -> &'a Value {
    let rows = report["crawlers"].as_array().expect("rows");
    rows.iter().find(|row| row["crawler"] == crawler).expect("the crawler is in the log")
}

fn traffic(value: &Value) -> [u64; 2] {
    ["requests", "bytes"].map(|member| value[member].as_u64().expect("a number"))
}

#[test]
fn a_log_says_who_is_shut_out_of_what() {
    let dir = folder();
    let report = json(dir.path(), &["--robots", "robots.txt", "--log", "access.log"], b"", 1);
    assert_eq!(traffic(&report), [9, 2125]);
    assert_eq!(traffic(&report["people"]), [2, 1001]);
    assert_eq!(traffic(&report["shut_out"]), [4, 1106]);
    let google = row(&report, "Googlebot");
    assert_eq!((&google["owner"], &google["dialect"]), (&"Google".into(), &"google".into()));
    assert_eq!(traffic(google), [3, 117]);
    assert_eq!(traffic(&google["shut_out"]), [1, 100]);
    assert_eq!(traffic(&row(&report, "bingbot")["shut_out"]), [2, 1005]);
    // The group with the misspelt name is not its own.
    assert_eq!(traffic(&row(&report, "GPTBot")["shut_out"]), [0, 0]);
    let unlisted = row(&report, "ShopSpider");
    assert_eq!((&unlisted["owner"], traffic(&unlisted["shut_out"])), (&Value::Null, [1, 1]));

    let lines = report["lines"].as_array().expect("rows");
    let lines: Vec<_> = lines
        .iter()
        .map(|row| (row["crawler"].as_str().unwrap(), row["line"].as_u64().unwrap(), traffic(row)))
        .collect();
    let expected = [
        ("bingbot", 3, [1, 1000]),
        ("Googlebot", 11, [1, 100]),
        ("bingbot", 2, [1, 5]),
        ("ShopSpider", 2, [1, 1]),
    ];
    assert_eq!(lines, expected);
    let first = &report["lines"][0];
    assert_eq!(first["rule"], "Disallow: /assets/");
    assert_eq!((&first["group"], &first["example"]), (&"*".into(), &"/assets/site.css".into()));
    let groups = report["groups"].as_array().expect("rows");
    let groups: Vec<_> =
        groups.iter().map(|row| (row["group"].as_str().unwrap(), traffic(row))).collect();
    assert_eq!(groups, [("*", [3, 1006]), ("Googlebot", [1, 100])]);
}

#[test]
fn lines_that_do_nothing_are_named() {
    let dir = folder();
    let text = said(dir.path(), &["--robots", "robots.txt", "--log", "access.log"], b"", 1);
    for expected in [
        "did you mean \"GPTBot\"?",
        "Googlebot ignores Crawl-delay",
        "takes it out of the group of \"*\"",
        "Disallow: /nowhere",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn changes_against_the_old_file_are_counted_both_ways() {
    let dir = folder();
    let arguments = ["--robots", "robots.txt", "--before", "old.txt", "--log", "access.log"];
    let report = json(dir.path(), &arguments, b"", 1);
    assert_eq!(traffic(&report["newly_shut_out"]), [2, 1100]);
    assert_eq!(traffic(&report["newly_let_in"]), [1, 7]);
    let google = row(&report, "Googlebot");
    assert_eq!(traffic(&google["shut_out_before"]), [1, 7]);
    assert_eq!(traffic(&google["newly_let_in"]), [1, 7]);
    let let_in = report["let_in"].as_array().expect("rows");
    assert_eq!(let_in.len(), 1);
    // The line of the old file that no longer shuts it out.
    assert_eq!((&let_in[0]["line"], &let_in[0]["crawler"]), (&2.into(), &"Googlebot".into()));
}

#[test]
fn pages_that_stay_allowed_lose_their_style_sheets() {
    let dir = folder();
    let report = json(dir.path(), &["--robots", "robots.txt", "--log", "access.log"], b"", 1);
    let lost = report["lost_files"].as_array().expect("rows");
    assert_eq!(lost.len(), 1, "{lost:?}");
    let lost = &lost[0];
    assert_eq!((&lost["path"], &lost["kind"]), (&"/assets/site.css".into(), &"style".into()));
    assert_eq!((&lost["page"], &lost["line"]), (&"/news".into(), &3.into()));
    let crawlers: Vec<_> = lost["crawlers"].as_array().unwrap().iter().collect();
    assert_eq!(crawlers, ["GPTBot", "ShopSpider", "bingbot"]);
}

#[test]
fn other_dialects_are_named_where_they_decide_otherwise() {
    let dir = folder();
    let robots = "User-agent: *\nDisallow: /\nAllow: /news\n";
    write(dir.path(), "first.txt", robots);
    let line = combined("/news", 3, "-", GPTBOT);
    let report = json(dir.path(), &["--robots", "first.txt"], line.as_bytes(), 0);
    let otherwise = row(&report, "GPTBot")["otherwise"].as_array().expect("rows").clone();
    let found: Vec<_> = otherwise.iter().map(|row| (&row["dialect"], traffic(row))).collect();
    assert_eq!(found, [(&"koster1996".into(), [1, 3]), (&"selfhtml".into(), [1, 3])]);
}

#[test]
fn the_exit_status_is_that_of_a_gate() {
    let dir = folder();
    let log = ["--log", "access.log"];
    let of = |arguments: &[&str], status| {
        said(dir.path(), &[arguments, &log].concat(), b"", status);
    };
    of(&["--robots", "robots.txt"], 1);
    of(&["--robots", "robots.txt", "--before", "robots.txt"], 0);
    of(&["--robots", "old.txt", "--before", "robots.txt"], 1);
    write(dir.path(), "open.txt", "User-agent: *\nDisallow:\n");
    of(&["--robots", "open.txt"], 0);
    of(&["--robots", "open.txt", "--before", "old.txt"], 1);
    for (arguments, why) in [
        (&["--robots", "missing.txt", "--log", "access.log"][..], "missing.txt"),
        (&["--robots", "old.txt", "--before", "missing.txt", "--log", "access.log"], "missing.txt"),
        (&["--robots", "old.txt", "--log", "missing.log"], "missing.log"),
        (&["--robots", "old.txt", "--log", "old.txt"], "old.txt:1: "),
        (&["--robots", "-", "--log", "-"], "standard input"),
        (&["--robots", "old.txt", "--log", "access.log", "--json", "--markdown"], "--markdown"),
        (&["--log", "access.log"], "--robots"),
        (&["--robots", "old.txt"], "no line"),
    ] {
        let output = rehearse(dir.path(), arguments, b"");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        let stderr = String::from_utf8(output.stderr).expect("text");
        assert!(output.stdout.is_empty() && stderr.contains(why), "{arguments:?}: {stderr}");
    }
}

#[test]
fn rotated_and_packed_logs_add_up_in_any_order() {
    let dir = folder();
    let log = log();
    let (first, second) =
        log.split_at(log.find("192.0.2.7 - - [28/Nov/2026:08:00:00 +0000] \"GET /assets").unwrap());
    write(dir.path(), "access.log.1", first);
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(second.as_bytes()).expect("in memory");
    write(dir.path(), "access.log.2.gz", packed.finish().expect("in memory"));
    let whole =
        said(dir.path(), &["--robots", "robots.txt", "--log", "access.log", "--json"], b"", 1);
    let parts =
        ["--robots", "robots.txt", "--json", "--log", "access.log.2.gz", "--log", "access.log.1"];
    assert_eq!(said(dir.path(), &parts, b"", 1), whole);
    for arguments in [
        &["--robots", "robots.txt", "--json"][..],
        &["--robots", "robots.txt", "--json", "--log", "-"],
    ] {
        assert_eq!(said(dir.path(), arguments, log.as_bytes(), 1), whole);
    }
    let packed = std::fs::read(dir.path().join("access.log.2.gz")).expect("it was written");
    write(dir.path(), "cut.gz", &packed[..packed.len() - 9]);
    let output = rehearse(dir.path(), &["--robots", "robots.txt", "--log", "cut.gz"], b"");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("cut.gz"), "{stderr}");
}

#[test]
fn json_logs_of_several_servers_are_read() {
    let dir = folder();
    let lines = [
        // nginx
        format!(
            r#"{{"time":"x","request":"GET /cart HTTP/1.1","status":"200","body_bytes_sent":"5","http_referer":"-","http_user_agent":"{BINGBOT}"}}"#
        ),
        format!(r#"{{"request_uri":"/cart","bytes_sent":5,"http_user_agent":"{BINGBOT}"}}"#),
        // Caddy
        format!(
            r#"{{"level":"info","request":{{"method":"GET","host":"shop.test","uri":"/cart","headers":{{"User-Agent":["{BINGBOT}"]}}}},"size":5,"status":200}}"#
        ),
        // Traefik
        format!(
            r#"{{"RequestPath":"/cart","DownstreamContentSize":5,"request_User-Agent":"{BINGBOT}"}}"#
        ),
        // Cloudflare
        format!(
            r#"{{"ClientRequestURI":"/cart","EdgeResponseBytes":5,"ClientRequestUserAgent":"{BINGBOT}"}}"#
        ),
        // Google Cloud
        format!(
            r#"{{"httpRequest":{{"requestUrl":"https://shop.test/cart","responseSize":"5","userAgent":"{BINGBOT}"}}}}"#
        ),
        // CloudFront
        format!(
            r#"{{"cs-uri-stem":"/cart","cs-uri-query":"-","sc-bytes":"5","cs(User-Agent)":"{}"}}"#,
            BINGBOT.replace(' ', "%20")
        ),
        // The Elastic Common Schema
        format!(
            r#"{{"url":{{"path":"/cart"}},"http":{{"response":{{"body":{{"bytes":5}}}}}},"user_agent":{{"original":"{BINGBOT}"}}}}"#
        ),
    ];
    for line in &lines {
        for format in [&["--format", "json"][..], &[]] {
            let arguments = [&["--robots", "robots.txt"], format].concat();
            let report = json(dir.path(), &arguments, line.as_bytes(), 1);
            assert_eq!(traffic(&row(&report, "bingbot")["shut_out"]), [1, 5], "{line}");
        }
    }
    let mixed = lines.join("\n") + "\nnot JSON\n";
    let report =
        json(dir.path(), &["--robots", "robots.txt", "--format", "json"], mixed.as_bytes(), 1);
    assert_eq!(traffic(&report), [8, 40]);
    assert_eq!((&report["bad_lines"], &report["first_bad_line"]["line"]), (&1.into(), &9.into()));
}

#[test]
fn garbage_is_counted_and_obeyed_by_no_terminal() {
    let dir = folder();
    let mut log = log().into_bytes();
    log.extend_from_slice(b"\x00\xff garbage\n");
    log.extend_from_slice(combined("/cart/\\x1b[2J|`<b>", 1, "-", "Evil\\x1b[31mBot/1").as_bytes());
    for form in [&[][..], &["--markdown"], &["--json"]] {
        let arguments = [&["--robots", "robots.txt", "--before", "old.txt"], form].concat();
        let text = said(dir.path(), &arguments, &log, 1);
        assert!(!text.contains('\u{1b}'), "{text}");
        if form != ["--json"] {
            assert!(text.contains("-:10: "), "the first bad line: {text}");
        }
        if form == ["--markdown"] {
            assert!(!text.contains("<b>") && !text.contains("|`"), "{text}");
        }
    }
}

#[test]
fn ten_false_claims_in_a_robots_txt_are_named() {
    let dir = folder();
    let line = combined("/", 1, "-", BINGBOT);
    for (robots, claim) in [
        ("User-agent: Google\nDisallow: /\n", "1: error: no crawler is called \"Google\""),
        ("User-agent: GPT-Bot\nDisallow: /\n", "did you mean \"GPTBot\"?"),
        ("User-agent: Googlebot/2.1\nDisallow: /x\n", "\"Googlebot/2.1\" is not a product token"),
        (
            "User-agent: Googlebot\nCrawl-delay: 10\nDisallow: /x\n",
            "2: warning: Googlebot ignores Crawl-delay",
        ),
        (
            "User-agent: *\nNoindex: /x\nDisallow: /y\n",
            "2: warning: hardly any crawler obeys \"Noindex\"",
        ),
        ("User-agent: *\nDisallow: *.pdf\n", "2: warning: \"*.pdf\" does not start with \"/\""),
        (
            "User-agent: *\nDisallow: pdf\n",
            "2: error: \"pdf\" does not start with \"/\", so it never matches",
        ),
        (
            "User-agent: bingbot\nDisallow: /a\n\nUser-agent: *\nDisallow: /b\n\nUser-agent: BingBot\nDisallow: /c\n",
            "7: warning: \"BingBot\" is named again, first in line 1",
        ),
        ("User-agent: *\nAllow: /a\nDisallow: /a*\n", "2: note: \"/a\" has no effect"),
        ("User-agent: *\nAllow: /a\n", "2: note: nothing is disallowed"),
        ("\u{feff}\0", "1: error: this is binary"),
        (
            "User-agent: *\nDisallow: https://shop.test/x\n",
            "2: error: \"https://shop.test/x\" is a whole URL",
        ),
        ("User-agent: Googlebot, Bingbot\nDisallow: /x\n", "1: error: one line names one crawler"),
        ("User-agent: Google*\nDisallow: /x\n", "1: error: a name cannot contain \"*\""),
        (
            "User-agent: anthropic-ai\nDisallow: /x\n",
            "1: warning: Anthropic uses the name \"anthropic-ai\" no more",
        ),
        (
            "User-agent: ChatGPT-User\nDisallow: /x\n",
            "1: warning: \"ChatGPT-User\" may ignore robots.txt",
        ),
        (
            "User-agent: *\nDisallow: /x\n\nUser-agent: GPTBot\nDisallow: /y\n",
            "takes it out of the group of \"*\"",
        ),
    ] {
        write(dir.path(), "claims.txt", robots);
        let text = said(dir.path(), &["--robots", "claims.txt"], line.as_bytes(), 0);
        assert!(text.contains(claim), "{robots:?}: {claim}: {text}");
    }
    let utf16: Vec<u8> =
        "\u{feff}User-agent: *\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    write(dir.path(), "claims.txt", utf16);
    let text = said(dir.path(), &["--robots", "claims.txt"], line.as_bytes(), 0);
    assert!(text.contains("the file is UTF-16"), "{text}");
}
