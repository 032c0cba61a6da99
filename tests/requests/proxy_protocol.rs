//! The PROXY protocol of load balancers, which is used where it is configured, and refused elsewhere.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::crawler::crawler;
use crate::harness::ports::free_address;
use crate::harness::tools::{clean, sbin};
use crate::harness::{Origin, Request, Response, Wayleave, Wire, eventually};

const LINE: &[u8] = b"PROXY TCP4 203.0.113.7 127.0.0.1 40000 3128\r\n";
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Returns a PROXY header of version 2, with `rest` after the length.
fn binary(command: u8, kind: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).expect("short").to_be_bytes();
    [SIGNATURE, &[command, kind], &length, rest].concat()
}

fn tcp4(last: u8) -> Vec<u8> {
    binary(0x21, 0x11, &[203, 0, 113, last, 127, 0, 0, 1, 156, 64, 12, 56])
}

/// Starts a proxy that requires the PROXY protocol from 127.0.0.1 and 127.0.0.2, and a site where the news crawler may not fetch /news.
fn start(origin: &Origin, more: &[(&str, &str)]) -> Wayleave {
    let robots = "User-agent: NewsBot\nDisallow: /news\n\nUser-agent: *\nDisallow: /others\n";
    origin.site("shop.test").robots(robots);
    Wayleave::start_with(origin, |settings| {
        let addresses = ["203.0.113.7", "2001:db8::7", "127.0.0.7"];
        let settings = settings
            .set("proxy.listen", "[\"0.0.0.0:0\"]")
            .set("proxy.proxy_protocol", "[\"127.0.0.1\", \"127.0.0.2/31\"]")
            .with(crawler("news", "NewsBot").matched_by("addresses", addresses));
        more.iter().fold(settings, |settings, (key, value)| settings.set(key, value))
    })
}

fn address(proxy: &Wayleave) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, proxy.proxy.port()).into()
}

fn request(path: &str) -> Vec<u8> {
    let url = format!("http://shop.test{path}");
    Request::get(&url).absolute_form()
}

fn send_request(wire: &mut Wire, path: &str) -> Response {
    wire.send(request(path));
    wire.response()
}

/// Sends a request after a PROXY header.
fn after_header(proxy: &Wayleave, header: &[u8], path: &str) -> Response {
    let mut wire = Wire::connect(address(proxy));
    wire.send([header, &request(path)].concat());
    wire.response()
}

/// Returns a new path that the news crawler may fetch and others may not.
fn new_path() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    format!("/others?{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Expects this crawler, client and load balancer in the decision about `path`.
#[track_caller]
fn expect_recorded(proxy: &Wayleave, path: &str, expected: [&str; 3]) {
    let mut recorded = None;
    eventually("it is recorded", || {
        let answer = proxy.admin_get("/v1/decisions?limit=50").json();
        let decisions = answer["decisions"].as_array().expect("a list").iter();
        let url = format!("http://shop.test{path}");
        recorded = decisions
            .filter(|decision| decision["url"] == url)
            .map(|decision| ["crawler", "client", "peer"].map(|member| decision[member].clone()))
            .next();
        recorded.is_some()
    });
    let recorded = recorded.expect("the wait ended");
    let recorded = recorded.each_ref().map(|value| value.as_str().unwrap_or(""));
    assert_eq!(recorded, expected);
}

#[track_caller]
fn expect_refused(answer: &Response, status: u16, reason: &str) {
    let error = if status == 403 { "http_request_denied" } else { "http_request_error" };
    let problem = answer.expect_refusal(status, None, error);
    assert_eq!(problem["reason"], reason, "{problem}");
}

fn refused(proxy: &Wayleave) -> f64 {
    let labels = [("outcome", "refused"), ("reason", "proxy-protocol")];
    proxy.metric("wayleave_requests_total", &labels)
}

#[test]
fn the_header_gives_the_clients_address() {
    let origin = Origin::start();
    let proxy = start(&origin, &[]);
    for header in [LINE.to_vec(), tcp4(7)] {
        let path = new_path();
        assert_eq!(after_header(&proxy, &header, &path).status, 200);
        expect_recorded(&proxy, &path, ["news", "203.0.113.7", "127.0.0.1"]);
        expect_refused(&after_header(&proxy, &header, "/news"), 403, "rule");
    }
    let path = new_path();
    expect_refused(&after_header(&proxy, &tcp4(8), &path), 403, "rule");
    expect_recorded(&proxy, &path, ["asserted", "203.0.113.8", "127.0.0.1"]);
    let (tcp6, path) = (b"PROXY TCP6 2001:db8::7 ::1 40000 3128\r\n", new_path());
    assert_eq!(after_header(&proxy, tcp6, &path).status, 200);
    expect_recorded(&proxy, &path, ["news", "2001:db8::7", "127.0.0.1"]);
}

#[test]
fn a_header_without_an_address_keeps_the_balancers_address() {
    let origin = Origin::start();
    let proxy = start(&origin, &[]);
    for header in [
        b"PROXY UNKNOWN\r\n".to_vec(),
        b"PROXY UNKNOWN 203.0.113.7 127.0.0.1 1 2\r\n".to_vec(),
        binary(0x20, 0, b""),
        binary(0x20, 0x11, &[203, 0, 113, 7, 127, 0, 0, 1, 0, 1, 0, 2]),
        binary(0x21, 0x31, &[b'/'; 216]),
    ] {
        let path = new_path();
        expect_refused(&after_header(&proxy, &header, &path), 403, "rule");
        expect_recorded(&proxy, &path, ["asserted", "127.0.0.1", ""]);
    }
}

#[test]
fn a_header_may_arrive_byte_by_byte() {
    let origin = Origin::start();
    let proxy = start(&origin, &[]);
    let tlvs = b"\x04\x00\x03\x00\x00\x00\x02\x00\x09shop.test";
    let address = [203, 0, 113, 7, 127, 0, 0, 1, 156, 64, 12, 56];
    let with_tlvs = binary(0x21, 0x11, &[&address[..], tlvs].concat());
    for header in [LINE, &with_tlvs] {
        let mut wire = Wire::connect(self::address(&proxy));
        for byte in [header, &request("/others")].concat() {
            wire.send([byte]);
        }
        assert_eq!(wire.response().status, 200);
        // The header is only sent before the first request.
        let path = new_path();
        assert_eq!(send_request(&mut wire, &path).status, 200);
        expect_recorded(&proxy, &path, ["news", "203.0.113.7", "127.0.0.1"]);
    }
}

#[test]
fn a_tunnel_after_a_header_is_attributed_to_its_client() {
    let origin = Origin::start();
    let proxy = start(&origin, &[]);
    let mut wire = Wire::connect(address(&proxy));
    wire.send(LINE);
    assert_eq!(wire.connect_tunnel("shop.test:443").status, 200);
    let secured = wire.start_tls("shop.test", &proxy.ca_pem(), &["http/1.1"]);
    let mut inside = secured.expect("the leaf is trusted").wire;
    inside.send(Request::get("https://shop.test/news").origin_form());
    expect_refused(&inside.response(), 403, "rule");
}

#[test]
fn anything_but_a_header_is_refused_counted_and_closed() {
    let origin = Origin::start();
    let proxy = start(&origin, &[("proxy.header_timeout", "\"3s\"")]);
    let address = [203, 0, 113, 7, 127, 0, 0, 1, 156, 64, 12, 56];
    let whole = request("/a");
    let swallowing = binary(0x21, 0x11, &[&address[..], &whole[..]].concat());
    let mut short = tcp4(7);
    short[15] = 11;
    let mut long = [&tcp4(7)[..], &whole].concat();
    long[15] = 16;
    let oversized = binary(0x21, 0x11, &[&address[..], &[0; 60_000]].concat());
    let beginnings: [&[u8]; 10] = [
        &whole,
        b"PROXY TCP4 203.0.113.7\r\n",
        b"PROXY TCP4 203.0.113.7 127.0.0.1 40000 3128\n",
        &[b"PROXY UNKNOWN ", &[b'x'; 100][..]].concat(),
        &binary(0x31, 0x11, &address),
        &binary(0x21, 0x12, &address),
        &short,
        &long,
        &swallowing,
        &oversized[..4096],
    ];
    for (index, bytes) in beginnings.iter().enumerate() {
        let mut wire = Wire::connect(self::address(&proxy));
        wire.send(bytes);
        let answer = wire.response();
        expect_refused(&answer, 400, "proxy-protocol");
        wire.expect_close();
        assert_eq!(refused(&proxy), (index + 1) as f64, "{answer:?}");
    }
    let refused_before = refused(&proxy);
    // Half a header, nothing, and half a header that ends.
    for bytes in [&LINE[..20], b"", &tcp4(7)[..20]] {
        let mut wire = Wire::connect(self::address(&proxy));
        wire.send(bytes);
        if bytes.len() == 20 && bytes[0] != b'P' {
            wire.end_sending();
        }
        expect_refused(&wire.response(), 400, "proxy-protocol");
        wire.expect_close();
    }
    assert_eq!(refused(&proxy), refused_before + 3.0);
    // A health check that only connects is not counted.
    let mut check = Wire::connect(self::address(&proxy));
    check.end_sending();
    check.expect_close();
    assert_eq!(refused(&proxy), refused_before + 3.0);
    assert_eq!(origin.seen(), [""; 0], "nothing arrived");
}

#[test]
fn from_other_peers_a_header_is_a_malformed_request() {
    let origin = Origin::start();
    let proxy = start(&origin, &[]);
    for header in [LINE.to_vec(), tcp4(7)] {
        let mut wire = Wire::connect_from([127, 0, 0, 9], address(&proxy));
        wire.send([&header[..], &request("/others")].concat());
        let answer = wire.response();
        expect_refused(&answer, 400, "malformed-request");
        wire.expect_close();
    }
    let mut wire = Wire::connect_from([127, 0, 0, 9], address(&proxy));
    let path = new_path();
    expect_refused(&send_request(&mut wire, &path), 403, "rule");
    expect_recorded(&proxy, &path, ["asserted", "127.0.0.9", ""]);
}

#[test]
fn the_limit_per_client_applies_to_the_address_of_the_header() {
    let origin = Origin::start();
    let proxy = start(&origin, &[("proxy.max_connections_per_client", "1")]);
    let open = |last: u8| {
        let mut wire = Wire::connect(address(&proxy));
        wire.send([&tcp4(last)[..], &request("/a")].concat());
        let status = wire.response().status;
        (wire, status)
    };
    let (first, status) = open(1);
    assert_eq!(status, 200);
    let (_second, status) = open(1);
    assert_eq!(status, 503);
    let (_other, status) = open(2);
    assert_eq!(status, 200);
    drop(first);
    eventually("the connection is free again", || open(1).1 == 200);
}

#[test]
fn slow_headers_occupy_connections_for_a_limited_time() {
    let origin = Origin::start();
    let limits = [("proxy.max_connections", "2"), ("proxy.header_timeout", "\"3s\"")];
    let proxy = start(&origin, &limits);
    let mut slow = [(); 2].map(|()| Wire::connect(address(&proxy)));
    for wire in &mut slow {
        wire.send(&LINE[..10]);
    }
    for wire in &mut slow {
        expect_refused(&wire.response(), 400, "proxy-protocol");
    }
    eventually("others are served", || {
        let mut wire = Wire::connect(address(&proxy));
        let _maybe_closed = wire.try_send([LINE, &request("/a")].concat());
        let answer = wire.try_response(false).ok().flatten();
        answer.is_some_and(|answer| answer.status == 200)
    });
}

#[test]
fn a_reload_changes_who_sends_headers() {
    let origin = Origin::start();
    let proxy = start(&origin, &[]);
    assert_eq!(after_header(&proxy, LINE, "/others").status, 200);
    let settings = proxy.settings.clone().set("proxy.proxy_protocol", "[]");
    proxy.reload(&settings);
    assert_eq!(after_header(&proxy, b"", "/a").status, 200);
    expect_refused(&after_header(&proxy, LINE, "/others"), 400, "malformed-request");
}

/// haproxy, killed when dropped.
struct LoadBalancer {
    process: Child,
    _dir: tempfile::TempDir,
}

impl Drop for LoadBalancer {
    fn drop(&mut self) {
        let _gone_already = self.process.kill();
        let _status = self.process.wait();
    }
}

/// Starts haproxy with a port for each set of options of its `server` line.
fn haproxy(to: SocketAddr, ports: &[(SocketAddr, &str)]) -> LoadBalancer {
    let mut text = "global\nmaxconn 64\ndefaults\nmode tcp\ntimeout connect 10s\n\
                    timeout client 60s\ntimeout server 60s\n"
        .to_owned();
    for (index, (port, options)) in ports.iter().enumerate() {
        text += &format!(
            "listen l{index}\nbind {port}\nserver wayleave {to} source 127.0.0.2 check inter 100ms {options}\n"
        );
    }
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("haproxy.cfg");
    std::fs::write(&config, text).expect("writable");
    let mut command = clean(sbin("haproxy"));
    command.arg("-db").arg("-f").arg(&config);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let process = command.spawn().expect("haproxy: `make test` installs it");
    for (port, _) in ports {
        eventually("haproxy listens", || TcpStream::connect(port).is_ok());
    }
    LoadBalancer { process, _dir: dir }
}

#[test]
fn haproxy_passes_the_clients_address() {
    let origin = Origin::start();
    let proxy = start(&origin, &[]);
    let ports = ["send-proxy", "send-proxy-v2", "send-proxy-v2 proxy-v2-options crc32c,unique-id"]
        .map(|options| (free_address(), options));
    let _haproxy = haproxy(address(&proxy), &ports);
    for (front, options) in ports {
        let mut news = Wire::connect_from([127, 0, 0, 7], front);
        let path = new_path();
        assert_eq!(send_request(&mut news, &path).status, 200, "{options}");
        expect_recorded(&proxy, &path, ["news", "127.0.0.7", "127.0.0.2"]);
        expect_refused(&send_request(&mut news, "/news"), 403, "rule");
        let mut other = Wire::connect_from([127, 0, 0, 8], front);
        let path = new_path();
        expect_refused(&send_request(&mut other, &path), 403, "rule");
        expect_recorded(&proxy, &path, ["asserted", "127.0.0.8", "127.0.0.2"]);
    }
    assert_eq!(refused(&proxy), 0.0, "its health checks are not refused");
}
