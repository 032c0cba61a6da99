//! HTTP/2 with the proxy itself, on `https://` listeners: requests for any origin and tunnels as streams of one connection.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::clients::crawl::trust_in_nss;
use crate::harness::crawler::crawler;
use crate::harness::h2_frames::{
    CANCEL, CONTINUATION, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, block, connect, frame, get,
    open_proxied, request, swollen,
};
use crate::harness::origin::reply::{Framing, Step};
use crate::harness::passwords::{self, HASH};
use crate::harness::tls::{Authority, Holder, client_pair};
use crate::harness::tools::{
    clean, headless_chromium, node_modules, output_of, program, project, python,
};
use crate::harness::{Gate, Origin, Reply, eventually};
use crate::requests::tls_listener::{TlsProxy, start};

const LIMIT: Duration = Duration::from_secs(360);
/// Longer than all windows.
const LONG: usize = 3_000_000;

/// Writes the proxy's CA and the origins' to one file.
fn roots(tls_proxy: &TlsProxy) -> PathBuf {
    let all = [Authority::trusted().pem.as_bytes(), &tls_proxy.proxy.ca_pem()].concat();
    let file = tls_proxy.dir().join("all-roots.pem");
    std::fs::write(&file, all).expect("writable");
    file
}

fn url(tls_proxy: &TlsProxy) -> String {
    format!("https://localhost:{}", tls_proxy.tls.port())
}

/// Returns Node's result for each task.
fn node(tls_proxy: &TlsProxy, pair: [&str; 2], tasks: &[&str]) -> Vec<String> {
    let mut node = clean(program("node"));
    node.arg(project().join("tests/clients/http2_proxy.cjs"));
    node.env("NODE_PATH", node_modules());
    node.arg(url(tls_proxy)).arg(roots(tls_proxy)).args(pair).args(tasks);
    lines(&mut node)
}

fn lines(command: &mut Command) -> Vec<String> {
    output_of(command, b"", LIMIT).lines().map(str::to_owned).collect()
}

fn libcurl(tls_proxy: &TlsProxy, credentials: &str, urls: &[&str]) -> Vec<String> {
    let mut python = clean(python());
    python.arg(project().join("tests/clients/http2_proxy.py"));
    python.arg(url(tls_proxy)).arg(tls_proxy.dir().join("origins.pem"));
    python.arg(tls_proxy.proxy.ca_file()).arg(credentials).args(urls);
    lines(&mut python)
}

/// Tasks for Node, and their expected results.
const TASKS: [(&str, &str); 10] = [
    ("GET http://shop.test/long", "200 3000000"),
    ("GET http://shop.test/private", "403 rule"),
    ("GET https://other.test/long", "200 3000000"),
    ("POST http://other.test/up", "200 2"),
    ("GET http://other.test/sum", "200 2 42"),
    ("h1 https://shop.test/long", "200 3000000"),
    ("h1 https://shop.test/private", "403 rule"),
    ("h2 https://other.test/long", "200 3000000"),
    ("h2 https://shop.test/private", "403 rule"),
    ("h2 https://shop.test/sum", "200 2 42"),
];

#[test]
fn node_sends_requests_and_tunnels_on_one_connection() {
    let origin = Origin::start();
    let tls_proxy = start(&origin, |settings| settings);
    let long = Reply::new(200).body(vec![b'x'; LONG]);
    let summed = Reply::new(200).framing(Framing::Chunked).body("ab").trailer("x-sum", "42");
    for host in ["shop.test", "other.test"] {
        origin
            .site(host)
            .page("/long", long.clone())
            .page("/sum", summed.clone())
            .page("/up", Reply::text("ok"));
    }
    let results = node(&tls_proxy, ["", ""], &TASKS.map(|(task, _)| task));
    assert_eq!(results, TASKS.map(|(_, expected)| expected));
    assert_eq!(tls_proxy.handshakes("completed"), 1.0, "one connection for all");
    let requests = origin.requests();
    let post = requests.iter().find(|request| request.method == "POST").expect("it arrived");
    assert_eq!(post.body().length, 1_000_000);
    for request in requests.iter().filter(|request| request.target != "/robots.txt") {
        assert_ne!(request.target, "/private");
        let via = request.header("via").unwrap_or_default();
        assert!(
            via == "2.0 wayleave" || request.target == "/long" && via == "1.1 wayleave",
            "{via}"
        );
    }
}

#[test]
fn libcurl_tunnels_with_a_password_and_without() {
    let origin = Origin::start();
    let tls_proxy = start(&origin, |settings| {
        settings.set("proxy.require_crawler", "true").with(passwords::crawler("news", "news", HASH))
    });
    for host in ["shop.test", "other.test"] {
        origin.site(host).page("/a", Reply::text("ok"));
    }
    let urls = ["https://shop.test/a", "https://shop.test/private", "https://other.test/a"];
    let results = libcurl(&tls_proxy, "news:secret", &urls);
    assert_eq!(results, ["h2 200 2", "h2 403 rule", "h2 200 2"]);
    let refused = libcurl(&tls_proxy, "news:wrong", &urls[..1]);
    assert!(refused.last().is_some_and(|line| line == "h2 refused 407"), "{refused:?}");
    let refused = libcurl(&tls_proxy, "", &urls[..1]);
    assert!(refused.last().is_some_and(|line| line == "h2 refused 407"), "{refused:?}");
    let pages = origin.seen().iter().filter(|line| line.ends_with("/a")).count();
    assert_eq!(pages, 2);
}

#[test]
fn a_certificate_identifies_all_streams() {
    let authority = Authority::new("clients");
    let origin = Origin::start();
    let tls_proxy = start(&origin, |settings| {
        std::fs::write(settings.dir.join("clients-ca.crt"), &authority.pem).expect("writable");
        let news = crawler("news", "news").matched_by("certificate", "CN=news");
        settings.set("proxy.client_ca", "\"clients-ca.crt\"").with(news)
    });
    origin
        .site("shop.test")
        .robots("User-agent: news\nDisallow: /news\n\nUser-agent: *\nDisallow: /others\n")
        .page("/news", Reply::text("ok"))
        .page("/others", Reply::text("ok"));
    let holder = Holder { common_name: Some("news"), uri: None, dns: None, not_after: None };
    let (certificate, key) = client_pair(&authority, &holder);
    let [certificate, key] =
        [("client.crt", certificate), ("client.key", key)].map(|(name, text)| {
            let file = tls_proxy.dir().join(name);
            std::fs::write(&file, text).expect("writable");
            file.display().to_string()
        });
    let tasks = [
        "GET http://shop.test/news",
        "h2 https://shop.test/news",
        "GET http://shop.test/others",
        "h1 https://shop.test/others",
    ];
    let with = node(&tls_proxy, [&certificate, &key], &tasks);
    assert_eq!(with, ["403 rule", "403 rule", "200 2", "200 2"]);
    let without = node(&tls_proxy, ["", ""], &tasks);
    assert_eq!(without, ["200 2", "200 2", "403 rule", "403 rule"]);
}

#[test]
fn chromium_reaches_many_origins_by_one_connection() {
    let origin = Origin::start();
    let tls_proxy = start(&origin, |settings| settings);
    let hosts = ["a.test", "b.test", "c.test", "d.test", "e.test", "f.test"];
    let scripts = hosts.map(|host| format!("<script src=\"https://{host}/s.js\"></script>"));
    for host in hosts {
        let script = format!("document.body.append({host:?} + ' loaded;')");
        origin
            .site(host)
            .page("/s.js", Reply::new(200).header("Content-Type", "text/javascript").body(script));
    }
    let page = format!("<!doctype html><body>{}", scripts.concat());
    origin
        .site("shop.test")
        .page("/page", Reply::new(200).header("Content-Type", "text/html").body(page));
    trust_in_nss(&tls_proxy.proxy);
    let database = format!("sql:{}", tls_proxy.dir().join(".pki/nssdb").display());
    let mut certutil = clean(program("certutil"));
    certutil.args(["-d", &database, "-A", "-t", "C,,", "-n", "origins", "-i"]);
    output_of(certutil.arg(tls_proxy.dir().join("origins.pem")), b"", LIMIT);
    let mut browser = headless_chromium();
    browser.arg(format!("--user-data-dir={}", tls_proxy.dir().join("profile").display()));
    browser.arg(format!("--proxy-server={}", url(&tls_proxy)));
    browser.arg("https://shop.test/page").env("HOME", tls_proxy.dir());
    let document = output_of(&mut browser, b"", LIMIT);
    for host in hosts {
        assert!(document.contains(&format!("{host} loaded;")), "{host}: {document}");
    }
    // By HTTP/1.1 each origin would need its own connection.
    let connections = tls_proxy.handshakes("completed");
    assert!(connections < hosts.len() as f64, "{connections}");
}

#[test]
fn h2load_is_served_by_few_connections() {
    let origin = Origin::start();
    let tls_proxy = start(&origin, |settings| settings);
    let mut load = clean(program("h2load"));
    load.args(["-n", "2000", "-c", "4", "-m", "50"]);
    load.arg(format!("--connect-to=localhost:{}", tls_proxy.tls.port()));
    load.args(["-H", "user-agent: ExampleBot/1.0", "https://shop.test/a"]);
    let printed = output_of(&mut load, b"", LIMIT);
    assert!(printed.contains("2000 succeeded, 0 failed"), "{printed}");
    assert!(printed.contains("2000 2xx"), "{printed}");
    assert_eq!(tls_proxy.handshakes("completed"), 4.0);
}

#[test]
fn heads_and_resets_without_bound_cost_little() {
    let origin = Origin::start();
    let tls_proxy = start(&origin, |settings| settings);
    let gate = Gate::closed();
    let slow = Reply::new(200).step(Step::Wait(gate.clone())).body("late");
    origin.site("shop.test").http1_only().page("/slow", slow);
    let proxy = &tls_proxy.proxy;
    assert_eq!(proxy.get("https://shop.test/a").status, 200);
    let before = proxy.memory_kib("VmRSS");
    // One byte stands for 4,000.
    let mut wire = open_proxied(tls_proxy.tls);
    let bomb = [block(&get("shop.test", "/bomb")), swollen(&[], 4100)].concat();
    wire.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, &bomb));
    assert!(!wire.stream_is_200(1));
    // A head that never ends.
    let mut wire = open_proxied(tls_proxy.tls);
    wire.send(frame(HEADERS, END_STREAM, 1, &block(&get("shop.test", "/bomb"))));
    let piece = frame(CONTINUATION, 0, 1, &block(&[("x", &"v".repeat(16_000))]));
    assert!((0..10_000).any(|_| wire.try_send(&piece).is_err()));
    // Requests and tunnels that are begun and reset.
    let begin: [fn(u32) -> Vec<u8>; 2] =
        [|stream| request(stream, "shop.test", "/slow"), |stream| connect(stream, "shop.test:443")];
    for begin in begin {
        let mut wire = open_proxied(tls_proxy.tls);
        for number in 0..20_000_u32 {
            let stream = 2 * number + 1;
            let mut frames = begin(stream);
            frames.extend(frame(RST_STREAM, 0, stream, &CANCEL));
            if wire.try_send(frames).is_err() {
                break;
            }
        }
    }
    eventually("all connections are closed", || {
        proxy.metric("wayleave_upstream_connections", &[]) == 0.0
    });
    let grown = proxy.memory_kib("VmRSS").saturating_sub(before);
    assert!(grown < 64 * 1024, "memory grew by {grown} KiB");
    assert!(!origin.seen().iter().any(|line| line.ends_with("/bomb")));
    eventually("others are served", || proxy.get("http://shop.test/a").status == 200);
    gate.open();
}

#[test]
fn a_silent_tunnel_ends_and_its_connection_continues() {
    let origin = Origin::start();
    let tls_proxy = start(&origin, |settings| settings.set("proxy.header_timeout", "\"3s\""));
    let mut wire = open_proxied(tls_proxy.tls);
    wire.send(connect(1, "shop.test:443"));
    assert!(wire.stream_is_200(1));
    // Nothing is sent inside.
    let ended = wire.outcome(1).expect("the connection is open");
    assert_eq!(ended.kind, RST_STREAM, "{ended:?}");
    wire.send(request(3, "shop.test", "/a"));
    assert!(wire.stream_is_200(3));
}
