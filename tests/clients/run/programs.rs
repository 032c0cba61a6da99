//! Programs without a proxy setting anywhere: each reaches an allowed page, and is refused a disallowed one.

use std::process::Command;

use super::Stage;
use crate::clients::env::build_go;
use crate::harness::Reply;
use crate::harness::tools::{headless_chromium, node_modules, output_of, project, python};

/// Checks a program that gets the URL as its last argument.
#[track_caller]
fn check(name: &str, words: &[&str]) {
    check_with(name, words, |_| {});
}

#[track_caller]
fn check_with(name: &str, words: &[&str], change: impl Fn(&mut Command)) {
    let stage = Stage::new();
    stage.check_client(name, &mut |url| {
        let words: Vec<&str> = words.iter().copied().chain([url]).collect();
        let mut run = stage.command(&words);
        change(&mut run);
        run
    });
}

#[track_caller]
fn check_python(name: &str, script: &str) {
    let python = python().display().to_string();
    check(name, &[&python, "-c", script]);
}

#[test]
fn curl_needs_no_setting() {
    check("curl", &["curl", "-q", "-sS", "-i"]);
}

#[test]
fn curl_needs_none_for_http2_either() {
    check("curl --http2", &["curl", "-q", "-sS", "-i", "--http2"]);
}

#[test]
fn curl_needs_none_for_ipv6_either() {
    check("curl -6", &["curl", "-q", "-6", "-sS", "-i"]);
}

#[test]
fn wget_needs_no_setting() {
    check("wget", &["wget", "--no-config", "-nv", "--tries=1", "-O", "-"]);
}

#[test]
fn urllib_needs_no_setting() {
    let script = "import sys, urllib.request, urllib.error\n\
        try: print(urllib.request.urlopen(sys.argv[1]).read().decode())\n\
        except urllib.error.HTTPError as error: print(error.code)";
    check_python("urllib", script);
}

#[test]
fn requests_needs_no_setting() {
    let script = "import requests, sys; answer = requests.get(sys.argv[1]); print(answer.status_code, answer.text)";
    check_python("requests", script);
}

#[test]
fn httpx_needs_no_setting() {
    let script = "import httpx, sys; answer = httpx.get(sys.argv[1]); print(answer.status_code, answer.text)";
    check_python("httpx", script);
}

#[test]
fn aiohttp_needs_no_setting() {
    let script = "import aiohttp, asyncio, sys\n\
        async def main():\n\
        \x20   async with aiohttp.ClientSession() as session, session.get(sys.argv[1]) as answer:\n\
        \x20       print(answer.status, await answer.text())\n\
        asyncio.run(main())";
    check_python("aiohttp", script);
}

#[test]
fn scrapy_needs_no_setting() {
    let python = python().display().to_string();
    let settings = [
        "ROBOTSTXT_OBEY=False",
        "HTTPERROR_ALLOW_ALL=True",
        "DOWNLOAD_VERIFY_CERTIFICATES=True",
        "DOWNLOAD_DELAY=0",
    ];
    let mut words = vec![&*python, "-m", "scrapy", "fetch"];
    for setting in &settings {
        words.extend(["-s", setting]);
    }
    check("scrapy", &words);
}

#[test]
fn the_fetch_of_node_needs_no_setting() {
    let script = "fetch(process.argv[1]).then(async (answer) => console.log(answer.status, await answer.text()))";
    check("node", &["node", "-e", script]);
}

#[test]
fn the_http_modules_of_node_need_no_setting() {
    let script = "const url = process.argv[1]; require(url.split(':')[0]).get(url, (answer) => \
        { console.log(answer.statusCode); answer.pipe(process.stdout) })";
    check("node http", &["node", "-e", script]);
}

#[test]
fn undici_needs_no_setting() {
    let script = "require('undici').request(process.argv[1]).then(async (answer) => \
        console.log(answer.statusCode, await answer.body.text()))";
    check_with("undici", &["node", "-e", script], |run| {
        run.env("NODE_PATH", node_modules());
    });
}

#[test]
fn crawlee_needs_no_setting() {
    let script = project().join("tests/clients/crawlee.cjs").display().to_string();
    check_with("Crawlee", &["node", &script], |run| {
        run.env("NODE_PATH", node_modules());
    });
}

#[test]
fn go_needs_no_setting() {
    let binary = build_go(&project().join("tests/clients/fetch.go")).display().to_string();
    check("go", &[&binary]);
}

#[test]
fn java_needs_no_setting() {
    let source = project().join("tests/clients/Fetch.java").display().to_string();
    check("java", &["java", &source]);
}

#[test]
fn git_needs_no_setting() {
    let stage = Stage::new();
    let refs = "0123456789012345678901234567890123456789\trefs/heads/main\n";
    stage
        .origin
        .site("shop.test")
        .page("/open.git/info/refs?service=git-upload-pack", Reply::text(refs))
        .page("/open.git/HEAD", Reply::text("ref: refs/heads/main\n"));
    for scheme in ["http", "https"] {
        let list =
            |path: &str| stage.shell(&format!("git ls-remote {scheme}://shop.test{path} 2>&1")).0;
        let open = list("/open.git");
        assert!(open.contains("refs/heads/main"), "{scheme}: {open}");
        let private = list("/private.git");
        assert!(private.contains("403"), "{scheme}: {private}");
    }
    let seen = stage.origin.seen();
    assert!(!seen.iter().any(|line| line.contains("/private")), "{seen:?}");
}

#[test]
fn chromium_needs_no_setting() {
    let stage = Stage::new();
    let profile = stage.dir.path().join("profile");
    let page = r#"<!doctype html><title>page</title><img src="/private/a.png"><script src="/open/b.js"></script>
        <script>fetch("/private/f").then((answer) => document.title = `status ${answer.status}`)</script>"#;
    stage.origin.site("shop.test").page("/", Reply::html(page));
    for scheme in ["http", "https"] {
        let browser = headless_chromium();
        let program = browser.get_program().display().to_string();
        let arguments: Vec<String> =
            browser.get_args().map(|argument| argument.display().to_string()).collect();
        let data = format!("--user-data-dir={}", profile.display());
        let url = format!("{scheme}://shop.test/");
        let mut words = vec![&*program];
        words.extend(arguments.iter().map(String::as_str));
        words.extend([&*data, &*url]);
        let dom = output_of(&mut stage.command(&words), b"", super::LIMIT);
        assert!(dom.contains("<title>status 403</title>"), "{scheme}: {dom}");
        let seen = stage.origin.seen();
        let script = format!("GET {scheme}://shop.test/open/b.js");
        assert!(seen.contains(&script), "{scheme}: {seen:?}");
        assert!(!seen.iter().any(|line| line.contains("/private")), "{seen:?}");
    }
}
