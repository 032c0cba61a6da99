//! HTTP/2 with the proxy itself, on `https://` listeners: requests for any origin and tunnels as streams of one connection.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::clients::crawl::trust_in_nss;
use crate::harness::h2_frames::{
    CONTINUATION, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, block, frame, get, open_proxied,
    request, swollen,
};
use crate::harness::origin::reply::{Framing, Step};
use crate::harness::tls::{Authority, Holder, client_pair};
use crate::harness::tools::{
    clean, headless_chromium, node_modules, output_of, program, project, python,
};
use crate::harness::{Gate, Origin, Reply, eventually};
use crate::requests::tls_listener::{Guarded, start};

const LIMIT: Duration = Duration::from_secs(360);
/// Longer than all windows.
const LONG: usize = 3_000_000;

/// The proxy's CA beside the origins', in one file.
fn roots(guarded: &Guarded) -> PathBuf {
    let all = [Authority::trusted().pem.as_bytes(), &guarded.proxy.ca_pem()].concat();
    let file = guarded.dir().join("all-roots.pem");
    std::fs::write(&file, all).expect("writable");
    file
}

fn url(guarded: &Guarded) -> String {
    format!("https://localhost:{}", guarded.tls.port())
}

/// Node's result for each request.
fn node(guarded: &Guarded, pair: [&str; 2], wishes: &[&str]) -> Vec<String> {
    let mut node = clean(program("node"));
    node.arg(project().join("tests/clients/http2_proxy.cjs"));
    node.env("NODE_PATH", node_modules());
    node.arg(url(guarded)).arg(roots(guarded)).args(pair).args(wishes);
    lines(&mut node)
}

fn lines(command: &mut Command) -> Vec<String> {
    let said = output_of(command, b"", LIMIT);
    said.lines().map(str::to_owned).collect()
}

fn libcurl(guarded: &Guarded, credentials: &str, urls: &[&str]) -> Vec<String> {
    let mut python = clean(python());
    python.arg(project().join("tests/clients/http2_proxy.py"));
    python.arg(url(guarded)).arg(guarded.dir().join("origins.pem"));
    python.arg(guarded.proxy.ca_file()).arg(credentials).args(urls);
    lines(&mut python)
}

/// A request and its expected answer.
const WISHES: [(&str, &str); 10] = [
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
fn node_asks_and_tunnels_side_by_side_on_one_connection() {
    let origin = Origin::start();
    let guarded = start(&origin, |settings| settings);
    let long = Reply::new(200).body(vec![b'x'; LONG]);
    let summed = Reply::new(200).framing(Framing::Chunked).body("ab").trailer("x-sum", "42");
    for host in ["shop.test", "other.test"] {
        origin
            .site(host)
            .page("/long", long.clone())
            .page("/sum", summed.clone())
            .page("/up", Reply::text("ok"));
    }
    let wishes = WISHES.map(|(wish, _)| wish);
    let said = node(&guarded, ["", ""], &wishes);
    let expected = WISHES.map(|(_, expected)| expected);
    assert_eq!(said, expected);
    assert_eq!(guarded.handshakes("completed"), 1.0, "one connection for all");
    let requests = origin.requests();
    let posted = requests.iter().find(|it| it.method == "POST").expect("it arrived");
    assert_eq!(posted.body().length, 1_000_000);
    for request in requests.iter().filter(|it| it.target != "/robots.txt") {
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
    const HASH: &str =
        "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$vk+JgWgZGbXHtEqPQPhzXbD+QxxkJR5Fq2AXLhDyYaY";
    let origin = Origin::start();
    let guarded = start(&origin, |settings| {
        settings.set("proxy.require_crawler", "true").table(&format!(
            "[[crawler]]\nname = \"news\"\ntokens = [\"NewsBot\"]\nmatch = {{ username = \"news\" }}\npassword_hash = {HASH:?}\n"
        ))
    });
    for host in ["shop.test", "other.test"] {
        origin.site(host).page("/a", Reply::text("ok"));
    }
    let urls = ["https://shop.test/a", "https://shop.test/private", "https://other.test/a"];
    let said = libcurl(&guarded, "news:secret", &urls);
    assert_eq!(said, ["h2 200 2", "h2 403 rule", "h2 200 2"]);
    let refused = libcurl(&guarded, "news:wrong", &urls[..1]);
    assert!(refused.last().is_some_and(|line| line == "h2 refused 407"), "{refused:?}");
    let refused = libcurl(&guarded, "", &urls[..1]);
    assert!(refused.last().is_some_and(|line| line == "h2 refused 407"), "{refused:?}");
    let pages = origin.seen().iter().filter(|line| line.ends_with("/a")).count();
    assert_eq!(pages, 2);
}

#[test]
fn a_certificate_identifies_all_streams() {
    let authority = Authority::new("clients");
    let origin = Origin::start();
    let guarded = start(&origin, |settings| {
        let toml = settings.to_toml();
        let dir = toml.lines().find_map(|line| line.strip_prefix("state.dir = \""));
        let dir = PathBuf::from(dir.expect("it is set").trim_end_matches('"'));
        std::fs::write(dir.with_file_name("clients-ca.crt"), &authority.pem).expect("writable");
        settings.set("proxy.client_ca", "\"clients-ca.crt\"").table(
            "[[crawler]]\nname = \"news\"\ntokens = [\"news\"]\nmatch = { certificate = \"CN=news\" }\n",
        )
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
            let file = guarded.dir().join(name);
            std::fs::write(&file, text).expect("writable");
            file.display().to_string()
        });
    let wishes = [
        "GET http://shop.test/news",
        "h2 https://shop.test/news",
        "GET http://shop.test/others",
        "h1 https://shop.test/others",
    ];
    let shown = node(&guarded, [&certificate, &key], &wishes);
    assert_eq!(shown, ["403 rule", "403 rule", "200 2", "200 2"]);
    let without = node(&guarded, ["", ""], &wishes);
    assert_eq!(without, ["200 2", "200 2", "403 rule", "403 rule"]);
}

#[test]
fn chromium_reaches_many_origins_by_one_connection() {
    let origin = Origin::start();
    let guarded = start(&origin, |settings| settings);
    let hosts = ["a.test", "b.test", "c.test", "d.test", "e.test", "f.test"];
    let scripts = hosts.map(|host| format!("<script src=\"https://{host}/s.js\"></script>"));
    for host in hosts {
        let script = format!("document.body.append({host:?} + ' came;')");
        origin
            .site(host)
            .page("/s.js", Reply::new(200).header("Content-Type", "text/javascript").body(script));
    }
    let page = format!("<!doctype html><body>{}", scripts.concat());
    origin
        .site("shop.test")
        .page("/page", Reply::new(200).header("Content-Type", "text/html").body(page));
    trust_in_nss(&guarded.proxy);
    let database = format!("sql:{}", guarded.dir().join(".pki/nssdb").display());
    let mut certutil = clean(program("certutil"));
    certutil.args(["-d", &database, "-A", "-t", "C,,", "-n", "origins", "-i"]);
    output_of(certutil.arg(guarded.dir().join("origins.pem")), b"", LIMIT);
    let mut browser = headless_chromium();
    browser.arg(format!("--user-data-dir={}", guarded.dir().join("profile").display()));
    browser.arg(format!("--proxy-server={}", url(&guarded)));
    browser.arg("https://shop.test/page").env("HOME", guarded.dir());
    let shown = output_of(&mut browser, b"", LIMIT);
    for host in hosts {
        assert!(shown.contains(&format!("{host} came;")), "{host}: {shown}");
    }
    // By HTTP/1.1 each origin would need a connection of its own.
    let connections = guarded.handshakes("completed");
    assert!(connections < hosts.len() as f64, "{connections}");
}

#[test]
fn h2load_is_served_by_few_connections() {
    let origin = Origin::start();
    let guarded = start(&origin, |settings| settings);
    let mut load = clean(program("h2load"));
    load.args(["-n", "2000", "-c", "4", "-m", "50"]);
    load.arg(format!("--connect-to=localhost:{}", guarded.tls.port()));
    load.args(["-H", "user-agent: ExampleBot/1.0", "https://shop.test/a"]);
    let said = output_of(&mut load, b"", LIMIT);
    assert!(said.contains("2000 succeeded, 0 failed"), "{said}");
    assert!(said.contains("2000 2xx"), "{said}");
    assert_eq!(guarded.handshakes("completed"), 4.0);
}

#[test]
fn heads_and_resets_without_bound_cost_little() {
    let origin = Origin::start();
    let guarded = start(&origin, |settings| settings);
    let gate = Gate::closed();
    let slow = Reply::new(200).step(Step::Wait(gate.clone())).body("late");
    origin.site("shop.test").http1_only().page("/slow", slow);
    let proxy = &guarded.proxy;
    assert_eq!(proxy.get("https://shop.test/a").status, 200);
    let before = proxy.memory_kib("VmRSS");
    // One byte says 4,000 again.
    let mut wire = open_proxied(guarded.tls);
    let bomb = [block(&get("shop.test", "/bomb")), swollen(&[], 4100)].concat();
    wire.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, &bomb));
    assert!(!wire.stream_is_200(1));
    // A head that never ends.
    let mut wire = open_proxied(guarded.tls);
    wire.send(frame(HEADERS, END_STREAM, 1, &block(&get("shop.test", "/bomb"))));
    let piece = frame(CONTINUATION, 0, 1, &block(&[("x", &"v".repeat(16_000))]));
    assert!((0..10_000).any(|_| wire.try_send(&piece).is_err()));
    // Requests and tunnels that are begun and reset.
    let connect = [(":method", "CONNECT"), (":authority", "shop.test:443")];
    for begun in [
        (END_HEADERS | END_STREAM, block(&get("shop.test", "/slow"))),
        (END_HEADERS, block(&connect)),
    ] {
        let mut wire = open_proxied(guarded.tls);
        for number in 0..20_000_u32 {
            let stream = 2 * number + 1;
            let mut both = frame(HEADERS, begun.0, stream, &begun.1);
            both.extend(frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]));
            if wire.try_send(both).is_err() {
                break;
            }
        }
    }
    eventually("nothing of it stays open", || {
        proxy.metric("wayleave_upstream_connections", &[]) == 0.0
    });
    let grown = proxy.memory_kib("VmRSS").saturating_sub(before);
    assert!(grown < 64 * 1024, "memory grew by {grown} KiB");
    assert!(!origin.seen().iter().any(|line| line.ends_with("/bomb")));
    eventually("others are served", || proxy.get("http://shop.test/a").status == 200);
    gate.open();
}

#[test]
fn a_silent_tunnel_ends_and_others_on_its_connection_go_on() {
    let origin = Origin::start();
    let guarded = start(&origin, |settings| settings.set("proxy.header_timeout", "\"1s\""));
    let mut wire = open_proxied(guarded.tls);
    let connect = block(&[(":method", "CONNECT"), (":authority", "shop.test:443")]);
    wire.send(frame(HEADERS, END_HEADERS, 1, &connect));
    assert!(wire.stream_is_200(1));
    // Nobody speaks inside.
    let ended = wire.outcome(1).expect("the connection goes on");
    assert_eq!(ended.kind, RST_STREAM, "{ended:?}");
    wire.send(request(3, "shop.test", "/a"));
    assert!(wire.stream_is_200(3));
}
