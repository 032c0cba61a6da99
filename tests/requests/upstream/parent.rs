//! Parent proxies: real ones, and ones that misbehave.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::programs::{Squid, danted, microsocks, tinyproxy};
use crate::harness::tls::Authority;
use crate::harness::tools;
use crate::harness::wayleave::{Settings, command};
use crate::harness::{Origin, Reply, Request, Wayleave, eventually};

pub fn behind(parent: &str, settings: Settings) -> Settings {
    settings.set("upstream.proxy", &format!("{parent:?}"))
}

pub fn start(origin: &Origin, parent: &str) -> Wayleave {
    Wayleave::start_with(origin, |settings| behind(parent, settings))
}

/// URLs with the origin's own ports, which parents that know nothing of ours dial.
struct Host<'a> {
    origin: &'a Origin,
    name: &'a str,
}

impl Host<'_> {
    fn http(&self, path: &str) -> String {
        format!("http://{}:{}{path}", self.name, self.origin.http.port())
    }

    fn https(&self) -> String {
        format!("{}:{}", self.name, self.origin.https.port())
    }
}

pub fn site(name: &str) -> Origin {
    let origin = Origin::start();
    origin.site(name).robots("User-agent: *\nDisallow: /private\n").page("/ws", Reply::websocket());
    origin
}

/// Plain HTTP, HTTPS by HTTP/1.1 and HTTP/2, WebSocket; and what is disallowed stays here.
#[track_caller]
fn every_kind(proxy: &Wayleave, host: &Host<'_>) {
    for path in ["/a", "/b"] {
        assert_eq!(proxy.get(&host.http(path)).status, 200);
        let url = format!("https://{}{path}", host.https());
        assert_eq!(proxy.get(&url).status, 200);
        let http2 = proxy.http2(&host.https()).get(path);
        assert_eq!(http2.status, 200);
    }
    assert_eq!(proxy.get(&host.http("/private")).status, 403);
    let post = Request::new("POST", &host.http("/post")).body("content");
    assert_eq!(proxy.exchange(&post).status, 200);
    let url = host.http("/ws");
    let mut wire = proxy.connect();
    wire.send(Request::get(&url).websocket().absolute_form());
    assert_eq!(wire.response_head().status, 101);
    let mut secured = proxy.tunnel(&host.https());
    let url = format!("https://{}/ws", host.https());
    secured.send(Request::get(&url).websocket().origin_form());
    assert_eq!(secured.response_head().status, 101);
    for wire in [&mut wire, &mut secured] {
        wire.send(b"echo");
        assert_eq!(wire.bytes(4), b"echo");
    }
    let seen = host.origin.requests();
    assert!(seen.iter().all(|request| request.target != "/private"));
    assert!(
        seen.iter().all(|it| it.header("proxy-authorization").is_none()),
        "no origin sees what is for the parent"
    );
    let versions = ["HTTP/1.1", "HTTP/2"].map(|version| {
        let of_version = seen.iter().filter(|request| request.version == version);
        of_version.count()
    });
    // Two robots.txt, two pages each by HTTP and HTTPS, a POST, two WebSockets.
    assert_eq!(versions, [9, 2], "{:?}", host.origin.seen());
}

#[test]
fn squid_takes_plain_http_as_it_is_and_all_else_through_tunnels() {
    for asks in [false, true] {
        let origin = site("shop.test");
        let squid = Squid { asks, ..Squid::default() }.start();
        let credentials = if asks { "user:secret@" } else { "" };
        let proxy = start(&origin, &format!("http://{credentials}{}", squid.address));
        let name = "shop.test";
        every_kind(&proxy, &Host { origin: &origin, name });
        assert_eq!(proxy.metric("wayleave_upstream_proxy", &[]), 1.0);
        assert!(!proxy.log().contains("secret"), "{}", proxy.log());
        let page = proxy.admin_get("/v1/configuration").text();
        assert!(!page.contains("secret"), "{page}");
        drop(proxy);
        // It logs a tunnel when that ends.
        eventually("squid has logged all of them", || {
            let logged = squid.read("access.log");
            let count = |what: &str| logged.lines().filter(|line| line.contains(what)).count();
            count("GET http://shop.test:") == 3
                && count("POST http://shop.test:") == 1
                && count("CONNECT shop.test:") >= 3
        });
    }
}

#[test]
fn squid_behind_tls() {
    let origin = site("shop.test");
    let squid = Squid { asks: true, tls: true, ..Squid::default() }.start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        let port = squid.address.port();
        let settings = settings.resolve(&format!("proxy.test:{port}"), squid.address);
        behind(&format!("https://user:secret@proxy.test:{port}"), settings)
    });
    let name = "shop.test";
    every_kind(&proxy, &Host { origin: &origin, name });
    drop(proxy);
    eventually("squid has logged the tunnels", || {
        squid.read("access.log").contains("CONNECT shop.test:")
    });
}

#[test]
fn tinyproxy_and_socks() {
    for asks in [false, true] {
        let credentials = if asks { "user:secret@" } else { "" };
        let parents =
            [("http", tinyproxy(asks)), ("socks5", microsocks(asks)), ("socks5", danted(asks))];
        for (scheme, parent) in parents {
            let origin = site("127.0.0.1");
            origin
                .site("*")
                .robots("User-agent: *\nDisallow: /private\n")
                .page("/ws", Reply::websocket());
            let url = format!("{scheme}://{credentials}{}", parent.address);
            let proxy = start(&origin, &url);
            let name = "127.0.0.1";
            every_kind(&proxy, &Host { origin: &origin, name });
        }
    }
}

#[test]
fn uninspected_tunnels_go_through_the_parent() {
    let origin = Origin::start();
    let squid = Squid::default().start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        let settings = settings.set("https.mode", "\"tunnel\"");
        behind(&format!("http://{}", squid.address), settings)
    });
    let authority = format!("shop.test:{}", origin.https.port());
    let mut wire = proxy.connect();
    assert_eq!(wire.connect_tunnel(&authority).status, 200);
    let root = Authority::trusted().pem.as_bytes();
    let mut inside =
        wire.start_tls("shop.test", root, &["http/1.1"]).expect("TLS with the origin").wire;
    inside.send(Request::get("https://shop.test/a").origin_form());
    assert_eq!(inside.response().status, 200);
    eventually("squid has logged robots.txt's tunnel", || {
        squid.read("access.log").contains("CONNECT shop.test:")
    });
}

#[test]
fn exempt_hosts_go_directly() {
    let origin = Origin::start();
    let squid = Squid::default().start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        let settings = settings.set("upstream.proxy_bypass", r#"["*.test", "127.0.0.0/8"]"#);
        behind(&format!("http://{}", squid.address), settings)
    });
    assert_eq!(proxy.get("http://shop.test/a").status, 200);
    assert_eq!(proxy.get("https://shop.test/a").status, 200);
    let literal = format!("http://127.0.0.1:{}/a", origin.http.port());
    assert_eq!(proxy.get(&literal).status, 200);
    drop(proxy);
    // The log line about the harness's own check of the port names no host.
    let logged = squid.read("access.log");
    assert!(!logged.contains("GET") && !logged.contains("CONNECT"), "{logged}");
}

#[test]
fn what_is_internal_by_spelling_never_reaches_the_parent() {
    let origin = Origin::start();
    let parent = Scripted::start(|_| Vec::new());
    let proxy = start(&origin, &format!("http://{}", parent.address));
    for host in [
        "localhost",
        "printer",
        "db.corp",
        "a.internal",
        "10.0.0.1",
        "[::1]",
        "169.254.169.254",
        "[fd00::1]",
    ] {
        let refused = proxy.get(&format!("http://{host}/a"));
        refused.expect_refusal(502, None, "destination_ip_prohibited");
        let refused = proxy.connect().connect_tunnel(&format!("{host}:443"));
        refused.expect_refusal(502, None, "destination_ip_prohibited");
    }
    assert_eq!(parent.heard(), [""; 0]);
    assert!(proxy.log().contains("upstream.proxy looks names up"), "{}", proxy.log());
}

#[test]
fn socks_receives_names_not_addresses() {
    let origin = Origin::start();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let told = Arc::clone(&heard);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut greeting = [0; 3];
            stream.read_exact(&mut greeting).expect("a greeting");
            stream.write_all(&[5, 0]).expect("no credentials are asked for");
            let mut head = [0; 5];
            stream.read_exact(&mut head).expect("a request");
            let mut name = vec![0; usize::from(head[4]) + 2];
            stream.read_exact(&mut name).expect("a name and a port");
            told.lock().expect("nobody panics").push((head[3], name));
            // Host unreachable.
            stream.write_all(&[5, 4, 0, 1, 0, 0, 0, 0, 0, 0]).expect("an answer");
        }
    });
    let proxy = start(&origin, &format!("socks5://{address}"));
    proxy.get("http://shop.test/a").expect_unreachable("http://shop.test/robots.txt");
    let name = [&b"shop.test"[..], &[0, 80]].concat();
    assert_eq!(heard.lock().expect("nobody panics")[0], (3, name));
}

/// A parent that answers each head that it reads as a script says; empty: it says nothing.
pub struct Scripted {
    pub address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    pub fn start(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (told, answer) = (Arc::clone(&heads), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.expect("a connection");
                let (told, answer) = (Arc::clone(&told), Arc::clone(&answer));
                std::thread::spawn(move || serve(&stream, &told, &*answer));
            }
        });
        Self { address, heads }
    }

    pub fn heard(&self) -> Vec<String> {
        self.heads.lock().expect("nobody panics").clone()
    }
}

fn serve(stream: &TcpStream, told: &Mutex<Vec<String>>, answer: &dyn Fn(&str) -> Vec<u8>) {
    let mut lines = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if lines.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let line = head.lines().next().unwrap_or_default().to_owned();
        told.lock().expect("nobody panics").push(line);
        let bytes = answer(&head);
        if bytes.is_empty() {
            continue;
        }
        let mut to = stream;
        let _it_may_be_gone = to.write_all(&bytes);
        if bytes.ends_with(b"\0") {
            let _it_may_be_gone = stream.shutdown(std::net::Shutdown::Both);
            return;
        }
    }
}

const NO_ROBOTS: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

#[test]
fn an_answer_that_may_be_the_parents_own_allows_nothing() {
    let origin = Origin::start();
    let heads = [
        "407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"x\"",
        "403 Forbidden",
        "400 Bad Request",
        "401 Unauthorized",
        "404 Not Found\r\nX-Squid-Error: ERR_DNS_FAIL 0",
        "404 Not Found\r\nProxy-Status: upper; error=dns_error",
        "302 Found\r\nLocation: http://block.test/\r\nX-Squid-Error: 403 Access Denied",
        "502 Bad Gateway",
        "503 Service Unavailable",
    ];
    for head in heads {
        let answer = format!("HTTP/1.1 {head}\r\nContent-Length: 0\r\n\r\n");
        let parent = Scripted::start(move |_| answer.clone().into_bytes());
        let proxy = start(&origin, &format!("http://{}", parent.address));
        let refused = proxy.get("http://shop.test/a");
        refused.expect_unreachable("http://shop.test/robots.txt");
        assert_eq!(parent.heard(), ["GET http://shop.test/robots.txt HTTP/1.1"], "{head}");
    }
    // These are the origin's: there is no such file.
    for head in ["404 Not Found", "410 Gone"] {
        let answer = format!("HTTP/1.1 {head}\r\nContent-Length: 0\r\n\r\n");
        let parent = Scripted::start(move |_| answer.clone().into_bytes());
        let proxy = start(&origin, &format!("http://{}", parent.address));
        proxy.get("http://shop.test/a");
        assert_eq!(parent.heard().len(), 2, "{head}");
    }
}

#[test]
fn refusals_of_the_parent_name_it() {
    let origin = Origin::start();
    for (answer, status, error, words) in [
        ("407 Proxy Authentication Required", 502, "proxy_configuration_error", "407"),
        ("403 Forbidden", 502, "connection_refused", "403 Forbidden"),
        ("502 Bad Gateway", 502, "connection_terminated", "502"),
        ("504 Gateway Timeout", 504, "connection_timeout", "504"),
        ("\u{1}", 502, "http_protocol_error", "not HTTP/1"),
        ("\0", 502, "connection_terminated", "unexpected end"),
        ("", 504, "connection_timeout", "within upstream.connect_timeout"),
    ] {
        let bytes = match answer.len() {
            0 => Vec::new(),
            1 => answer.as_bytes().to_vec(),
            _ => format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n").into_bytes(),
        };
        let bytes = if answer == "\u{1}" { b"what?\r\n\r\n".to_vec() } else { bytes };
        // robots.txt comes with the exception of a rule.
        let parent = Scripted::start(move |_| bytes.clone());
        let proxy = Wayleave::start_with(&origin, |settings| {
            let settings = behind(&format!("http://{}", parent.address), settings);
            settings.set("upstream.connect_timeout", "\"1s\"").table(
                "[[rule]]\naction = \"allow\"\nhosts = [\"*\"]\nowner = \"us\"\nreason = \"test\"\nexpires = 2099-01-01\n",
            )
        });
        let refused = proxy.get("https://shop.test/a");
        let problem = refused.expect_refusal(status, None, error);
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(detail.contains(words), "{answer}: {detail}");
        let said = refused.header("proxy-status").unwrap_or_default();
        let hop = format!("next-hop=\"{}\"", parent.address);
        assert!(said.contains(&hop), "{said}");
        assert!(parent.heard().iter().all(|line| line == "CONNECT shop.test:443 HTTP/1.1"));
    }
}

#[test]
fn a_407_on_plain_http_is_no_answer_for_the_client() {
    let origin = Origin::start();
    let parent = Scripted::start(|head| {
        match head.contains("/robots.txt") {
        true => NO_ROBOTS.to_vec(),
        false => b"HTTP/1.1 407 Give\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n".to_vec(),
    }
    });
    let proxy = start(&origin, &format!("http://{}", parent.address));
    let refused = proxy.get("http://shop.test/a");
    refused.expect_refusal(502, None, "proxy_configuration_error");
    assert_eq!(refused.header("proxy-authenticate"), None);
}

#[test]
fn a_parent_that_dies_cuts_off_or_is_named_before_the_head() {
    let origin = Origin::start();
    let parent = Scripted::start(|head| match head {
        head if head.contains("/robots.txt") => NO_ROBOTS.to_vec(),
        head if head.contains("/half") => {
            b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf\0".to_vec()
        }
        _ => b"\0".to_vec(),
    });
    let proxy = start(&origin, &format!("http://{}", parent.address));
    let mut wire = proxy.connect();
    wire.send_get("http://shop.test/half");
    assert!(wire.try_response(false).is_err(), "half an answer is none");
    let post = Request::new("POST", "http://shop.test/post").body("once");
    let refused = proxy.exchange(&post);
    assert_eq!(refused.status, 502);
    let said = refused.header("proxy-status").unwrap_or_default();
    assert!(said.contains(&parent.address.to_string()), "{said}");
    let posts = parent.heard();
    let posts = posts.iter().filter(|line| line.starts_with("POST"));
    assert_eq!(posts.count(), 1, "what is not safe is not sent again");
}

#[test]
fn a_parent_that_is_not_there_is_named() {
    let origin = Origin::start();
    let nobody = SocketAddr::from(([127, 0, 0, 1], crate::harness::ports::free()));
    let proxy = Wayleave::start_with(&origin, |settings| {
        behind(&format!("http://{nobody}"), settings).table(
            "[[rule]]\naction = \"allow\"\nhosts = [\"*\"]\nowner = \"us\"\nreason = \"test\"\nexpires = 2099-01-01\n",
        )
    });
    for url in ["http://shop.test/a", "https://shop.test/a"] {
        let refused = proxy.get(url);
        refused.expect_refusal(502, None, "connection_refused");
        let said = refused.header("proxy-status").unwrap_or_default();
        assert!(said.contains(&format!("next-hop=\"{nobody}\"")), "{said}");
    }
}

/// Two proxies, each the other's parent.
fn in_a_circle(origin: &Origin, change: impl Fn(Settings) -> Settings) -> [Wayleave; 2] {
    let port = crate::harness::ports::free();
    let first = Wayleave::start_with(origin, |settings| {
        let listen = format!("[\"127.0.0.1:{port}\"]");
        change(settings.set("proxy.listen", &listen))
    });
    let second = Wayleave::start_with(origin, |settings| {
        let settings = settings.set("proxy.name", "\"upper\"");
        behind(&format!("http://127.0.0.1:{port}"), change(settings))
    });
    let file = first.dir.path().join("config.toml");
    let settings = behind(&format!("http://{}", second.proxy), first.settings.clone());
    std::fs::write(file, settings.to_toml()).expect("writable");
    assert_eq!(first.admin_request("POST", "/v1/reload").status, 200);
    [first, second]
}

fn loops(proxies: &[Wayleave; 2]) -> f64 {
    let looped = [("reason", "proxy_loop_detected")];
    let counts = proxies.iter();
    counts.map(|it| it.metric("wayleave_requests_total", &looped)).sum()
}

#[test]
fn loops_are_noticed() {
    let origin = Origin::start();
    let proxies = in_a_circle(&origin, |settings| settings.set("robots.fetch_timeout", "\"1h\""));
    // robots.txt goes round first, and shows by whom it was asked for; or neither takes the other's certificates.
    for url in ["http://shop.test/a", "https://shop.test/a"] {
        let refused = proxies[0].get(url);
        refused.expect_refusal(503, None, "destination_unavailable");
    }
    eventually("the request for robots.txt has come round", || loops(&proxies) >= 1.0);
    assert_eq!(origin.seen(), [""; 0]);
}

#[test]
fn loops_of_tunnels_that_nobody_looks_into_are_noticed_at_once() {
    let origin = Origin::start();
    let proxies = in_a_circle(&origin, |settings| settings.set("https.bypass", "[\"shop.test\"]"));
    let mut wire = proxies[0].connect();
    wire.send("CONNECT shop.test:443 HTTP/1.1\r\nHost: shop.test:443\r\n\r\n");
    let refused = wire.response();
    refused.expect_refusal(502, None, "proxy_loop_detected");
    let requests = |proxy: &Wayleave| proxy.metric("wayleave_requests_total", &[]);
    // Out, through the other, and back: each says that it was the loop.
    assert_eq!(proxies.each_ref().map(requests), [2.0, 1.0]);
    assert_eq!(loops(&proxies), 3.0);
    assert_eq!(origin.seen(), [""; 0]);
}

#[test]
fn config_check_says_what_is_lost_and_what_is_wrong() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("my.toml");
    let check = |text: &str| {
        std::fs::write(&file, text).expect("writable");
        let mut check = command();
        check.args(["config", "check", "--config"]).arg(&file);
        let output = tools::run(&mut check, b"", Duration::from_secs(120));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), said)
    };
    let (is_good, said) = check("upstream.proxy = \"socks5://proxy.corp:1080\"\n");
    assert!(is_good && said.contains("looks names up"), "{said}");
    let (is_good, said) = check("upstream.proxy = \"http://127.0.0.1:3128\"\n");
    assert!(!is_good && said.contains("upstream.proxy: is this proxy itself"), "{said}");
    let (is_good, said) = check("upstream.proxy = \"http://user:secret@proxy.corp/x\"\n");
    assert!(!is_good && said.contains("upstream.proxy: "), "{said}");
    assert!(!said.contains("secret"), "{said}");
}
