//! Parent proxies: real ones, and faulty ones.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::programs::{Squid, danted, microsocks, tinyproxy};
use crate::harness::ports::free_address;
use crate::harness::tls::Authority;
use crate::harness::tools;
use crate::harness::wayleave::{Settings, command};
use crate::harness::{Gate, Origin, Reply, Request, Response, Wayleave, eventually, runtime};

/// A rule by which no robots.txt is needed.
pub const EXCEPTION: &str = "[[rule]]\naction = \"allow\"\nhosts = [\"*\"]\nowner = \"us\"\nreason = \"test\"\nexpires = 2099-01-01\n";

pub fn behind(parent: &str, settings: Settings) -> Settings {
    settings.set("upstream.proxy", &format!("{parent:?}"))
}

pub fn start(origin: &Origin, parent: &str) -> Wayleave {
    Wayleave::start_with(origin, |settings| behind(parent, settings))
}

/// Expects `parent` as the next hop in `Proxy-Status`.
#[track_caller]
pub fn expect_next_hop(answer: &Response, parent: SocketAddr) {
    let field = answer.header("proxy-status").unwrap_or_default();
    assert!(field.contains(&format!("next-hop=\"{parent}\"")), "{field}");
}

/// A host with the origin's own ports: parents do not use the overrides of tests.
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
    origin.site(name).disallows("/private").page("/ws", Reply::websocket());
    origin
}

/// Sends requests by HTTP, HTTPS and HTTP/2, opens WebSockets, and expects that disallowed requests are not forwarded.
#[track_caller]
fn expect_every_kind(proxy: &Wayleave, host: &Host<'_>) {
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
        seen.iter().all(|request| request.header("proxy-authorization").is_none()),
        "the parent's credentials were forwarded"
    );
    let versions = ["HTTP/1.1", "HTTP/2"].map(|version| {
        let of_version = seen.iter().filter(|request| request.version == version);
        of_version.count()
    });
    // Two of robots.txt, two pages each by HTTP and HTTPS, a POST, and two WebSockets.
    assert_eq!(versions, [9, 2], "{:?}", host.origin.seen());
}

#[test]
fn squid_receives_plain_http_and_tunnels() {
    for has_password in [false, true] {
        let origin = site("shop.test");
        let squid = Squid { has_password, ..Squid::default() }.start();
        let credentials = if has_password { "user:secret@" } else { "" };
        let proxy = start(&origin, &format!("http://{credentials}{}", squid.address));
        expect_every_kind(&proxy, &Host { origin: &origin, name: "shop.test" });
        assert_eq!(proxy.metric("wayleave_upstream_proxy", &[]), 1.0);
        assert!(!proxy.log().contains("secret"), "{}", proxy.log());
        let page = proxy.admin_get("/v1/configuration").text();
        assert!(!page.contains("secret"), "{page}");
        drop(proxy);
        // It logs tunnels when they end.
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
    let squid = Squid { has_password: true, tls: true, ..Squid::default() }.start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        let port = squid.address.port();
        let settings = settings.resolve(&format!("proxy.test:{port}"), squid.address);
        behind(&format!("https://user:secret@proxy.test:{port}"), settings)
    });
    expect_every_kind(&proxy, &Host { origin: &origin, name: "shop.test" });
    drop(proxy);
    eventually("squid has logged the tunnels", || {
        squid.read("access.log").contains("CONNECT shop.test:")
    });
}

#[test]
fn tinyproxy_and_socks() {
    for has_password in [false, true] {
        let credentials = if has_password { "user:secret@" } else { "" };
        let parents = [
            ("http", tinyproxy(has_password)),
            ("socks5", microsocks(has_password)),
            ("socks5", danted(has_password)),
        ];
        for (scheme, parent) in parents {
            let origin = site("127.0.0.1");
            origin.site("*").disallows("/private").page("/ws", Reply::websocket());
            let url = format!("{scheme}://{credentials}{}", parent.address);
            let proxy = start(&origin, &url);
            expect_every_kind(&proxy, &Host { origin: &origin, name: "127.0.0.1" });
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
fn settings_changed_while_a_tunnel_connects_apply() {
    let origin = Origin::start();
    let gate = Gate::closed();
    let opened = gate.clone();
    let parent = Scripted::start(move |_| {
        runtime().block_on(opened.passed());
        b"HTTP/1.1 200 OK\r\n\r\n".to_vec()
    });
    let proxy = Wayleave::start_with(&origin, |settings| {
        let settings = settings.set("https.mode", "\"tunnel\"").table(EXCEPTION);
        behind(&format!("http://{}", parent.address), settings)
    });
    let mut wire = proxy.connect();
    wire.send_connect("shop.test:443", "");
    eventually("the proxy connects", || {
        parent.request_lines() == ["CONNECT shop.test:443 HTTP/1.1"]
    });
    let rule = "[[rule]]\naction = \"refuse\"\nhosts = [\"shop.test\"]\n";
    proxy.reload(&proxy.settings.clone().without_tables().table(rule));
    gate.open();
    let refused = wire.response();
    refused.expect_refusal(403, Some("Refused by policy"), "http_request_denied");
    assert_eq!(parent.request_lines().len(), 1);
}

#[test]
fn hosts_of_the_bypass_are_reached_directly() {
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
    // The harness checked the port, which is logged without a host.
    let logged = squid.read("access.log");
    assert!(!logged.contains("GET") && !logged.contains("CONNECT"), "{logged}");
}

#[test]
fn internal_names_and_addresses_never_reach_the_parent() {
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
    assert_eq!(parent.request_lines(), [""; 0]);
    assert!(proxy.log().contains("upstream.proxy resolves names"), "{}", proxy.log());
}

#[test]
fn socks_receives_names_not_addresses() {
    let origin = Origin::start();
    let received = Arc::new(Mutex::new(Vec::new()));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let shared = Arc::clone(&received);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut greeting = [0; 3];
            stream.read_exact(&mut greeting).expect("a greeting");
            stream.write_all(&[5, 0]).expect("a reply without credentials");
            let mut head = [0; 5];
            stream.read_exact(&mut head).expect("a request");
            let mut name = vec![0; usize::from(head[4]) + 2];
            stream.read_exact(&mut name).expect("a name and a port");
            shared.lock().expect("no holder panics").push((head[3], name));
            // Host unreachable.
            stream.write_all(&[5, 4, 0, 1, 0, 0, 0, 0, 0, 0]).expect("a reply");
        }
    });
    let proxy = start(&origin, &format!("socks5://{address}"));
    proxy.get("http://shop.test/a").expect_unreachable("http://shop.test/robots.txt");
    let name = [&b"shop.test"[..], &[0, 80]].concat();
    assert_eq!(received.lock().expect("no holder panics")[0], (3, name));
}

/// A parent that responds to each head by a script. It sends nothing for an empty response, and closes after one that ends with NUL.
pub struct Scripted {
    pub address: SocketAddr,
    request_lines: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    pub fn start(respond: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let request_lines = Arc::new(Mutex::new(Vec::new()));
        let (lines, respond) = (Arc::clone(&request_lines), Arc::new(respond));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.expect("a connection");
                let (lines, respond) = (Arc::clone(&lines), Arc::clone(&respond));
                std::thread::spawn(move || serve(&stream, &lines, &*respond));
            }
        });
        Self { address, request_lines }
    }

    /// Returns the request lines received so far.
    pub fn request_lines(&self) -> Vec<String> {
        self.request_lines.lock().expect("no holder panics").clone()
    }
}

fn serve(stream: &TcpStream, lines: &Mutex<Vec<String>>, respond: &dyn Fn(&str) -> Vec<u8>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let line = head.lines().next().unwrap_or_default().to_owned();
        lines.lock().expect("no holder panics").push(line);
        let bytes = respond(&head);
        if bytes.is_empty() {
            continue;
        }
        let mut to = stream;
        let _maybe_closed = to.write_all(&bytes);
        if bytes.ends_with(b"\0") {
            let _maybe_closed = stream.shutdown(std::net::Shutdown::Both);
            return;
        }
    }
}

const NO_ROBOTS: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

#[test]
fn responses_that_may_be_the_parents_own_allow_nothing() {
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
        assert_eq!(parent.request_lines(), ["GET http://shop.test/robots.txt HTTP/1.1"], "{head}");
    }
    // These come from the origin: there is no such file.
    for head in ["404 Not Found", "410 Gone"] {
        let answer = format!("HTTP/1.1 {head}\r\nContent-Length: 0\r\n\r\n");
        let parent = Scripted::start(move |_| answer.clone().into_bytes());
        let proxy = start(&origin, &format!("http://{}", parent.address));
        proxy.get("http://shop.test/a");
        assert_eq!(parent.request_lines().len(), 2, "{head}");
    }
}

#[test]
fn refusals_of_the_parent_name_it() {
    let origin = Origin::start();
    for (answer, status, error, description) in [
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
        let parent = Scripted::start(move |_| bytes.clone());
        let proxy = Wayleave::start_with(&origin, |settings| {
            let settings = behind(&format!("http://{}", parent.address), settings);
            settings.set("upstream.connect_timeout", "\"3s\"").table(EXCEPTION)
        });
        let refused = proxy.get("https://shop.test/a");
        let problem = refused.expect_refusal(status, None, error);
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(detail.contains(description), "{answer}: {detail}");
        expect_next_hop(&refused, parent.address);
        assert!(parent.request_lines().iter().all(|line| line == "CONNECT shop.test:443 HTTP/1.1"));
    }
}

#[test]
fn a_407_of_the_parent_is_not_forwarded() {
    let origin = Origin::start();
    let parent = Scripted::start(|head| {
        if head.contains("/robots.txt") {
            return NO_ROBOTS.to_vec();
        }
        b"HTTP/1.1 407 Give\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n"
            .to_vec()
    });
    let proxy = start(&origin, &format!("http://{}", parent.address));
    let refused = proxy.get("http://shop.test/a");
    refused.expect_refusal(502, None, "proxy_configuration_error");
    assert_eq!(refused.header("proxy-authenticate"), None);
}

#[test]
fn a_parents_own_answers_are_not_recorded_as_the_origins() {
    let origin = Origin::start();
    for (head, is_own) in [
        ("402 Payment Required\r\nX-BRD-ERR-CODE: client_10000", true),
        ("403 Forbidden\r\nX-BRD-Error: policy", true),
        ("402 Payment Required\r\nProxy-Status: upper; error=http_request_denied", true),
        ("403 Forbidden\r\nVia: 1.1 up\r\nProxy-Status: a, b; error=http_request_denied", true),
        ("429 Slow\r\nRetry-After: 200\r\nProxy-Status: b; error=http_request_denied", true),
        ("503 No\r\nRetry-After: 200\r\nProxy-Status: b; error=connection_limit_reached", true),
        ("403 Forbidden\r\nX-BRD-IP: 192.0.2.1", false),
        ("403 Forbidden\r\nProxy-Status: cdn; error=dns_error, upper", false),
        ("403 No\r\nProxy-Status: b; error=http_response_timeout; received-status=403", false),
        ("403 No\r\nVia: 1.1 cdn, 1.1 up\r\nProxy-Status: cdn; error=dns_error", false),
        ("402 Payment Required\r\nCrawler-Price: USD 0.01", false),
        ("403 Forbidden", false),
        ("429 Slow\r\nRetry-After: 200", false),
    ] {
        let answer = format!("HTTP/1.1 {head}\r\nContent-Length: 0\r\n\r\n").into_bytes();
        let parent = Scripted::start(move |request| match request {
            head if head.contains("/robots.txt") => {
                b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nUser-agent:*".to_vec()
            }
            head if head.contains("/refused") => answer.clone(),
            _ => b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec(),
        });
        let proxy = start(&origin, &format!("http://{}", parent.address));
        let refused = proxy.get("http://shop.test/refused");
        if is_own {
            refused.expect_refusal(502, None, proxy_error(head));
            expect_next_hop(&refused, parent.address);
        } else {
            assert_eq!(refused.status.to_string(), head[..3], "{head}");
        }
        let rests = !is_own && head.contains("Retry-After");
        let next = proxy.get("http://shop.test/next").status;
        assert_eq!(next, if rests { 429 } else { 200 }, "{head}");
        eventually("both are logged", || {
            let logged = proxy.admin_get("/v1/decisions?limit=9").json();
            logged["decisions"].as_array().is_some_and(|decisions| decisions.len() == 2)
        });
        let edge = proxy.admin_get("/v1/edge?by=host").json()["edge"].as_array().map(Vec::len);
        assert_eq!(edge, Some(usize::from(!is_own)), "{head}");
        let payment = proxy.admin_get("/v1/decisions?limit=9").text().contains("payment");
        assert_eq!(payment, !is_own && head.starts_with("402"), "{head}");
    }
}

fn proxy_error(head: &str) -> &'static str {
    if head.starts_with('5') { "connection_terminated" } else { "connection_refused" }
}

#[test]
fn a_parent_that_closes_cuts_off_or_is_named() {
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
    assert!(wire.try_response(false).is_err(), "a part looks complete");
    let post = Request::new("POST", "http://shop.test/post").body("once");
    let refused = proxy.exchange(&post);
    assert_eq!(refused.status, 502);
    let field = refused.header("proxy-status").unwrap_or_default();
    assert!(field.contains(&parent.address.to_string()), "{field}");
    let posts = parent.request_lines();
    let posts = posts.iter().filter(|line| line.starts_with("POST"));
    assert_eq!(posts.count(), 1, "unsafe requests are not repeated");
}

#[test]
fn a_parent_that_does_not_listen_is_named() {
    let origin = Origin::start();
    let parent = free_address();
    let proxy = Wayleave::start_with(&origin, |settings| {
        behind(&format!("http://{parent}"), settings).table(EXCEPTION)
    });
    for url in ["http://shop.test/a", "https://shop.test/a"] {
        let refused = proxy.get(url);
        refused.expect_refusal(502, None, "connection_refused");
        expect_next_hop(&refused, parent);
    }
}

/// Starts two proxies, each the other's parent.
fn in_a_circle(origin: &Origin, change: impl Fn(Settings) -> Settings) -> [Wayleave; 2] {
    let first = Wayleave::start_with(origin, &change);
    let second = Wayleave::start_with(origin, |settings| {
        let settings = settings.set("proxy.name", "\"upper\"");
        behind(&format!("http://{}", first.proxy), change(settings))
    });
    first.reload(&behind(&format!("http://{}", second.proxy), first.settings.clone()));
    [first, second]
}

fn loops(proxies: &[Wayleave; 2]) -> f64 {
    let looped = [("reason", "proxy_loop_detected")];
    proxies.iter().map(|proxy| proxy.metric("wayleave_requests_total", &looped)).sum()
}

#[test]
fn loops_are_detected() {
    let origin = Origin::start();
    let proxies = in_a_circle(&origin, |settings| settings.set("robots.fetch_timeout", "\"1h\""));
    // For http, the fetch of robots.txt loops; for https, neither proxy trusts the other's certificates.
    for url in ["http://shop.test/a", "https://shop.test/a"] {
        let refused = proxies[0].get(url);
        refused.expect_refusal(503, None, "destination_unavailable");
    }
    eventually("the loop of robots.txt is counted", || loops(&proxies) >= 1.0);
    assert_eq!(origin.seen(), [""; 0]);
}

#[test]
fn loops_of_blind_tunnels_are_detected_at_once() {
    let origin = Origin::start();
    let proxies = in_a_circle(&origin, |settings| settings.set("https.bypass", "[\"shop.test\"]"));
    let mut wire = proxies[0].connect();
    wire.send_connect("shop.test:443", "");
    let refused = wire.response();
    refused.expect_refusal(502, None, "proxy_loop_detected");
    let requests = |proxy: &Wayleave| proxy.metric("wayleave_requests_total", &[]);
    // Out, through the other proxy, and back: each records the loop.
    assert_eq!(proxies.each_ref().map(requests), [2.0, 1.0]);
    assert_eq!(loops(&proxies), 3.0);
    assert_eq!(origin.seen(), [""; 0]);
}

#[test]
fn config_check_reports_mistakes_and_missing_protection() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("my.toml");
    let check = |text: &str| {
        std::fs::write(&file, text).expect("writable");
        let mut check = command();
        check.args(["config", "check", "--config"]).arg(&file);
        let output = tools::run(&mut check, b"", Duration::from_secs(120));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), stderr)
    };
    let (is_good, stderr) = check("upstream.proxy = \"socks5://proxy.corp:1080\"\n");
    assert!(is_good && stderr.contains("upstream.proxy resolves names"), "{stderr}");
    let (is_good, stderr) = check("upstream.proxy = \"http://127.0.0.1:3128\"\n");
    assert!(!is_good && stderr.contains("upstream.proxy: is this proxy's own address"), "{stderr}");
    let (is_good, stderr) = check("upstream.proxy = \"http://user:secret@proxy.corp/x\"\n");
    assert!(!is_good && stderr.contains("upstream.proxy: "), "{stderr}");
    assert!(!stderr.contains("secret"), "{stderr}");
}
