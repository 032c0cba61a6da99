//! Real clients of SOCKS5: curl, Python, Chromium.

use std::time::Duration;

use super::{SocksProxy, start};
use crate::clients::crawl::trust_in_nss;
use crate::harness::passwords::{HASH, crawler};
use crate::harness::tools::{
    clean, headless_chromium, output_of, program, project, python, status_and_output,
};
use crate::harness::{Origin, Reply};

const LIMIT: Duration = Duration::from_secs(120);

/// Runs curl, and returns its exit status and what it prints: bodies, statuses and errors.
fn curl(socks: &SocksProxy, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = clean(program("curl"));
    command.args(["-q", "-sS", "-w", " %{http_code}\n", "--cacert"]).arg(socks.proxy.ca_file());
    status_and_output(command.args(arguments))
}

#[test]
fn curl_fetches_what_it_may() {
    let origin = Origin::start();
    let socks = start(&origin, |settings| settings.with(crawler("news", "news", HASH)));
    let robots = "User-agent: NewsBot\nDisallow: /news\n\nUser-agent: *\nDisallow: /\n";
    origin.site("news.test").robots(robots);
    let address = socks.socks.to_string();
    let with_user = format!("socks5h://news:secret@{address}");
    let [plain, secured] = ["shop.test:80:127.0.0.1", "shop.test:443:127.0.0.1"];
    let by_name = ["--socks5-hostname", &*address];
    let by_address = ["--socks5", &*address, "--resolve", plain, "--resolve", secured];
    for scheme in ["http", "https"] {
        let [open, private] = ["open", "private"].map(|it| format!("{scheme}://shop.test/{it}"));
        for options in [&by_name[..], &by_address] {
            let (_, printed) = curl(&socks, &[options, &[&open, &private]].concat());
            assert!(printed.contains(" 200\n") && printed.contains(" 403\n"), "{printed}");
        }
        let [own, news] = ["own", "news"].map(|it| format!("{scheme}://news.test/{it}"));
        let (_, printed) = curl(&socks, &["--proxy", &with_user, &own, &news]);
        assert!(printed.contains(" 200\n") && printed.contains(" 403\n"), "{printed}");
    }
    let wrong = format!("socks5h://news:wrong@{address}");
    let (status, printed) = curl(&socks, &["--proxy", &wrong, "http://news.test/own"]);
    assert_eq!(status, Some(97), "CURLE_PROXY: {printed}");
    assert!(
        !origin.seen().iter().any(|it| it.contains("private") || it.contains("news.test/news"))
    );
}

#[test]
fn curl_may_know_beforehand_that_http_2_is_spoken() {
    let origin = Origin::start();
    let socks = start(&origin, |settings| settings);
    let address = socks.socks.to_string();
    let options = ["--http2-prior-knowledge", "--socks5-hostname", &address];
    let urls = ["http://shop.test/open", "http://shop.test/private", "http://closed.test/"];
    // One call each: curl 7.88 fails when it uses such a connection again.
    let printed = urls.map(|url| curl(&socks, &[&options[..], &[url]].concat()).1);
    assert!(printed[0].contains(" 200\n"), "{printed:?}");
    assert!(printed[1..].iter().all(|it| it.contains(" 403\n")), "{printed:?}");
    let seen = origin.seen();
    assert!(!seen.iter().any(|it| it.contains("private") || it.ends_with("closed.test/")));
    socks.expect_captured("http", 3);
}

#[test]
fn python_fetches_what_it_may() {
    let origin = Origin::start();
    let socks = start(&origin, |settings| settings.with(crawler("news", "news", HASH)));
    let fetch = |dialled: &str, credentials: &str| {
        let mut command = clean(python());
        command.arg(project().join("tests/clients/socks5.py"));
        command.arg(socks.socks.port().to_string()).arg(socks.proxy.ca_file());
        command.args([dialled, credentials]);
        let paths = ["http://shop.test/open", "http://shop.test/private"];
        command.args(paths).args(paths.map(|url| url.replace("http:", "https:")));
        output_of(&mut command, b"", LIMIT)
    };
    for (dialled, credentials) in [("name", ""), ("address", ""), ("name", "news:secret")] {
        assert_eq!(fetch(dialled, credentials), "200\n403\n200\n403\n", "{dialled} {credentials}");
    }
    assert_eq!(fetch("name", "news:wrong"), "denied\n".repeat(4));
    assert!(!origin.seen().iter().any(|line| line.contains("/private")));
}

#[test]
fn chromium_shows_what_it_may() {
    let origin = Origin::start();
    let socks = start(&origin, |settings| settings);
    origin
        .site("shop.test")
        .page(
            "/page",
            Reply::html(
                "<!doctype html><body><script src=/open.js></script><img src=/private/x.png>",
            ),
        )
        .page(
            "/open.js",
            Reply::new(200)
                .header("Content-Type", "text/javascript")
                .body("document.body.append('it ran')"),
        );
    trust_in_nss(&socks.proxy);
    for scheme in ["http", "https"] {
        let mut browser = headless_chromium();
        let profile = socks.proxy.dir.path().join(format!("profile-{scheme}"));
        browser.arg(format!("--user-data-dir={}", profile.display()));
        browser.arg(format!("--proxy-server=socks5://{}", socks.socks));
        browser.arg("--disable-features=HttpsUpgrades,HttpsFirstBalancedModeAutoEnable");
        browser.arg(format!("{scheme}://shop.test/page")).env("HOME", socks.proxy.dir.path());
        let document = output_of(&mut browser, b"", LIMIT);
        assert!(document.contains("it ran"), "{scheme}: {document}");
        assert!(origin.seen().contains(&format!("GET {scheme}://shop.test/page")));
    }
    assert!(!origin.seen().iter().any(|line| line.contains("/private")), "{:?}", origin.seen());
}
