//! The output of `wayleave env` with each client, and the requests that a browser adds by itself.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::clients::crawl::trust_in_nss;
use crate::harness::tools::{
    both_streams, clean, headless_chromium, node_modules, output_of, program, project, python, run,
};
use crate::harness::wayleave::BINARY;
use crate::harness::{Origin, Reply, Wayleave};

const LIMIT: Duration = Duration::from_secs(540);

/// Runs a shell line after `eval "$(wayleave env ...)"`. Returns both streams, one after the other.
fn after_env(proxy: &Wayleave, client: &str, line: &str, path: &Path) -> String {
    let option = if client.is_empty() { String::new() } else { format!("--client {client}") };
    let script = format!(
        "eval \"$('{BINARY}' env {option} --config '{}')\"\n{line}\n",
        proxy.config_with_ports().display()
    );
    let mut shell = clean("/bin/sh");
    shell
        .args(["-c", &script])
        .current_dir(proxy.dir.path())
        .env("HOME", proxy.dir.path())
        .env("PYTHON", python())
        .env("NODE_PATH", node_modules())
        .env("SCRATCH", path);
    both_streams(&run(&mut shell, b"", LIMIT))
}

/// Runs `line`, which fetches `$URL`, by HTTP and HTTPS, for an allowed and a disallowed page.
#[track_caller]
fn check_client(client: &str, line: &str) {
    let origin = Origin::start();
    origin
        .site("shop.test")
        .disallows("/private")
        .page("/open", Reply::text("a page of the origin"));
    let proxy = Wayleave::start(&origin);
    let scratch = tempfile::tempdir().expect("a directory");
    for scheme in ["http", "https"] {
        let open = after_env(
            &proxy,
            client,
            &line.replace("$URL", &format!("{scheme}://shop.test/open")),
            scratch.path(),
        );
        assert!(open.contains("a page of the origin"), "{client}, {scheme}: {open}");
        let private = after_env(
            &proxy,
            client,
            &line.replace("$URL", &format!("{scheme}://shop.test/private")),
            scratch.path(),
        );
        assert!(private.contains("403"), "{client}, {scheme}: {private}");
    }
    let expected = ["http", "https"].map(|scheme| {
        [format!("GET {scheme}://shop.test/robots.txt"), format!("GET {scheme}://shop.test/open")]
    });
    assert_eq!(origin.seen(), expected.concat(), "{client}");
}

#[test]
fn curl_works_after_env() {
    check_client("curl", "curl -q -sS -i $URL");
    check_client("", "curl -q -sS -i $URL");
}

/// The program itself is no client of the proxy: it trusts the system's roots, and reaches origins and the admin listener directly.
#[test]
fn wayleave_itself_works_after_env() {
    let origin = Origin::start();
    let robots = "User-agent: *\nDisallow: /private\n";
    origin.site("shop.test").robots(robots).page("/open", Reply::text("a page of the origin"));
    let proxy = Wayleave::start(&origin);
    let scratch = tempfile::tempdir().expect("a directory");
    // The origin's authority is one of the system's, and no root of the configuration.
    let text = std::fs::read_to_string(proxy.config_with_ports()).expect("just written");
    let keys = text.lines().filter(|line| !line.starts_with("upstream.extra_roots"));
    let keys: Vec<_> = keys.filter(|line| !line.starts_with("state.dir")).collect();
    std::fs::write(scratch.path().join("config.toml"), keys.join("\n")).expect("writable");
    let system = |commands: &str| {
        let roots = proxy.dir.path().join("origins.pem");
        let bind = format!("mount --bind '{}' /etc/ssl/certs/ca-certificates.crt", roots.display());
        let line =
            format!("cd \"$SCRATCH\"; unshare --mount sh -c '{bind}; {commands}' '{BINARY}'");
        after_env(&proxy, "", &line, scratch.path())
    };
    let url = "https://shop.test/open";
    let checked = system(&format!("\"$0\" check --user-agent ExampleBot/1.0 {url}"));
    assert!(checked.starts_with(&format!("forward {url}")), "{checked}");
    assert!(!checked.contains("WARN"), "{checked}");
    let fetched = system(&format!("\"$0\" run -- curl -q -sS {url}"));
    assert!(fetched.contains("a page of the origin"), "{fetched}");
    let health =
        after_env(&proxy, "", &format!("'{BINARY}' health --config ports.toml"), scratch.path());
    assert_eq!(health, "ready\n");
    // Roots that somebody chose are the only ones.
    let chosen = format!("SSL_CERT_FILE=/dev/null \"$0\" check --user-agent ExampleBot/1.0 {url}");
    let refused = system(&chosen);
    assert!(refused.starts_with(&format!("refuse {url}")), "{refused}");
    let outcomes = ["forwarded", "refused", "failed"];
    let counted = outcomes.map(|it| proxy.metric("wayleave_requests_total", &[("outcome", it)]));
    assert_eq!(counted[1..], [0.0, 0.0]);
}

#[test]
fn curl_prints_line_and_rule() {
    let origin = Origin::start();
    let robots = "User-agent: *\nDisallow: /private\n";
    origin.site("site.test").robots(robots);
    let proxy = Wayleave::start(&origin);
    let mut curl = clean(program("curl"));
    curl.args(["-q", "-sS", "-i", "-x"]).arg(format!("http://{}", proxy.proxy));
    curl.arg("--cacert").arg(proxy.ca_file()).arg("https://site.test/private");
    let printed = output_of(&mut curl, b"", LIMIT);
    for words in
        ["403", "application/problem+json", "\"line\":2", "\"rule\":\"Disallow: /private\""]
    {
        assert!(printed.contains(words), "{words} is missing: {printed}");
    }
    assert_eq!(origin.seen(), ["GET https://site.test/robots.txt"]);
}

#[test]
fn wget_works_after_env() {
    check_client("wget", "wget --no-config -nv --tries=1 -O - $URL");
}

#[test]
fn python_works_after_env() {
    let program = "import requests, sys; answer = requests.get(sys.argv[1]); print(answer.status_code, answer.text)";
    check_client("python", &format!("\"$PYTHON\" -c '{program}' $URL"));
    check_client("", &format!("\"$PYTHON\" -c '{program}' $URL"));
    let urllib =
        "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())";
    check_client("python", &format!("\"$PYTHON\" -c '{urllib}' $URL"));
}

/// If Scrapy is to verify certificates, it trusts the CA, and nothing without it.
#[test]
fn scrapy_works_after_env() {
    let settings =
        "-s ROBOTSTXT_OBEY=False -s HTTPERROR_ALLOW_ALL=True -s DOWNLOAD_VERIFY_CERTIFICATES=True";
    let scrapy = format!("\"$PYTHON\" -m scrapy fetch {settings} $URL");
    check_client("scrapy", &scrapy);
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let scratch = tempfile::tempdir().expect("a directory");
    let printed =
        after_env(&proxy, "scrapy", &scrapy.replace("$URL", "http://shop.test/"), scratch.path());
    assert!(!printed.contains("deprecated"), "{printed}");
    let untrusting =
        format!("unset SSL_CERT_FILE; {}", scrapy.replace("$URL", "https://shop.test/"));
    let output = after_env(&proxy, "scrapy", &untrusting, scratch.path());
    assert!(output.contains("certificate verify failed"), "{output}");
    let fetched = "GET https://shop.test/".to_owned();
    assert!(!origin.seen().contains(&fetched), "{:?}", origin.seen());
}

#[test]
fn node_works_after_env() {
    let program = "const { EnvHttpProxyAgent, setGlobalDispatcher } = require(\"undici\"); setGlobalDispatcher(new EnvHttpProxyAgent()); fetch(process.argv[1]).then(async (answer) => console.log(answer.status, await answer.text()))";
    check_client("node", &format!("node -e '{program}' $URL"));
}

#[test]
fn go_works_after_env() {
    let binary = build_go(&project().join("tests/clients/fetch.go"));
    check_client("go", &format!("'{}' $URL", binary.display()));
    check_client("", &format!("'{}' $URL", binary.display()));
}

/// Builds a Go program below target/, where the cache of its standard library serves later runs.
pub fn build_go(source: &Path) -> PathBuf {
    let target = project().join("target/go");
    std::fs::create_dir_all(&target).expect("target/ is writable");
    let directory = tempfile::tempdir_in(&target).expect("target/ is writable").keep();
    let binary = directory.join("program");
    let mut build = clean(program("go"));
    build
        .args(["build", "-o"])
        .arg(&binary)
        .arg(source)
        .env("GOCACHE", target.join("cache"))
        .env("GOPATH", target.join("path"));
    build.env("GOTOOLCHAIN", "local").env("GOFLAGS", "-mod=mod").env("CGO_ENABLED", "0");
    output_of(&mut build, b"", LIMIT);
    binary
}

#[test]
fn java_works_after_env() {
    let source = project().join("tests/clients/Fetch.java");
    check_client("java", &format!("java '{}' $URL", source.display()));
}

const PAGE: &str = r#"<!doctype html><title>page</title>
    <img src="/private/a.png"><script src="/open/b.js"></script><link rel="stylesheet" href="/private/c.css">
    <iframe src="https://other.test/private/d"></iframe><iframe src="https://other.test/open/e"></iframe>
    <script>
        fetch("/private/f").finally(() => fetch("/open/g")).finally(() => document.title = "done")
    </script>"#;

#[test]
fn each_subresource_of_a_browser_is_judged() {
    let origin = Origin::start();
    let robots = "User-agent: *\nDisallow: /private\n";
    origin.site("shop.test").robots(robots).page("/", Reply::html(PAGE));
    origin.site("other.test").robots(robots);
    let proxy = Wayleave::start(&origin);
    trust_in_nss(&proxy);
    let dom = dump_dom(&proxy, "https://shop.test/");
    assert!(dom.contains("<title>done</title>"), "{dom}");
    let seen = origin.seen();
    for path in ["shop.test/open/b.js", "shop.test/open/g", "other.test/open/e"] {
        assert!(seen.contains(&format!("GET https://{path}")), "{path} is missing: {seen:?}");
    }
    assert!(!seen.iter().any(|line| line.contains("/private")), "{seen:?}");
    let robots = seen.iter().filter(|line| line.ends_with("/robots.txt"));
    assert_eq!(robots.count(), 2, "{seen:?}");
}

/// Returns the document of `url` after Chromium has run its scripts.
fn dump_dom(proxy: &Wayleave, url: &str) -> String {
    let profile = proxy.dir.path().join("profile");
    let mut browser = headless_chromium();
    browser.arg(format!("--user-data-dir={}", profile.display()));
    browser.arg(format!("--proxy-server=http://{}", proxy.proxy));
    output_of(browser.arg(url).env("HOME", proxy.dir.path()), b"", LIMIT)
}
