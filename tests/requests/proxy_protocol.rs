//! Behind a load balancer: the PROXY protocol gives the client's address where it is configured, and is refused elsewhere.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::tools::clean;
use crate::harness::{Origin, Request, Response, Wayleave, Wire, eventually, ports};

const LINE: &[u8] = b"PROXY TCP4 203.0.113.7 127.0.0.1 40000 3128\r\n";
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
const CRAWLER: &str = r#"
[[crawler]]
name = "news"
tokens = ["NewsBot"]
match = { addresses = ["203.0.113.7", "2001:db8::7", "127.0.0.7"] }
"#;

/// A PROXY header of version 2: command, family and protocol, what follows the length.
fn binary(command: u8, kind: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).expect("short").to_be_bytes();
    [SIGNATURE, &[command, kind], &length, rest].concat()
}

fn tcp4(last: u8) -> Vec<u8> {
    binary(0x21, 0x11, &[203, 0, 113, last, 127, 0, 0, 1, 156, 64, 12, 56])
}

/// Peers at 127.0.0.1 and 127.0.0.2 speak the PROXY protocol; the news crawler may not fetch /news.
fn start(origin: &Origin, more: &[(&str, &str)]) -> Wayleave {
    let robots = "User-agent: NewsBot\nDisallow: /news\n\nUser-agent: *\nDisallow: /others\n";
    origin.site("shop.test").robots(robots);
    Wayleave::start_with(origin, |settings| {
        let settings = settings
            .set("proxy.listen", "[\"0.0.0.0:0\"]")
            .set("proxy.proxy_protocol", "[\"127.0.0.1\", \"127.0.0.2/31\"]")
            .table(CRAWLER);
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

fn ask(wire: &mut Wire, path: &str) -> Response {
    wire.send(request(path));
    wire.response()
}

/// The request after a PROXY header.
fn behind(proxy: &Wayleave, header: &[u8], path: &str) -> Response {
    let mut wire = Wire::connect(address(proxy));
    wire.send([header, &request(path)].concat());
    wire.response()
}

/// A path that the news crawler may fetch and others may not, and that nobody asked for before.
fn fresh() -> String {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    format!("/others?{}", ASKED.fetch_add(1, Ordering::Relaxed))
}

/// The crawler, the client and the load balancer of the decision about `path`.
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
    let recorded = recorded.expect("it was waited for");
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
fn the_client_is_whom_the_header_names() {
    let origin = Origin::start();
    let proxy = start(&origin, &[]);
    for header in [LINE.to_vec(), tcp4(7)] {
        let path = fresh();
        assert_eq!(behind(&proxy, &header, &path).status, 200);
        expect_recorded(&proxy, &path, ["news", "203.0.113.7", "127.0.0.1"]);
        expect_refused(&behind(&proxy, &header, "/news"), 403, "rule");
    }
    let path = fresh();
    expect_refused(&behind(&proxy, &tcp4(8), &path), 403, "rule");
    expect_recorded(&proxy, &path, ["asserted", "203.0.113.8", "127.0.0.1"]);
    let (tcp6, path) = (b"PROXY TCP6 2001:db8::7 ::1 40000 3128\r\n", fresh());
    assert_eq!(behind(&proxy, tcp6, &path).status, 200);
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
        let path = fresh();
        expect_refused(&behind(&proxy, &header, &path), 403, "rule");
        expect_recorded(&proxy, &path, ["asserted", "127.0.0.1", ""]);
    }
}

#[test]
fn each_byte_may_come_by_itself() {
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
        // The header stands before the first request only.
        let path = fresh();
        assert_eq!(ask(&mut wire, &path).status, 200);
        expect_recorded(&proxy, &path, ["news", "203.0.113.7", "127.0.0.1"]);
    }
}

#[test]
fn a_tunnel_behind_a_header_is_that_clients() {
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
fn what_is_not_a_header_is_answered_counted_and_closed() {
    let origin = Origin::start();
    let proxy = start(&origin, &[("proxy.header_timeout", "\"300ms\"")]);
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
    // A health check that only connects is nothing to speak of.
    let mut check = Wire::connect(self::address(&proxy));
    check.end_sending();
    check.expect_close();
    assert_eq!(refused(&proxy), refused_before + 3.0);
    assert_eq!(origin.seen(), [""; 0], "nothing of it arrived");
}

#[test]
fn from_others_a_header_is_bytes_of_a_bad_request() {
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
    let path = fresh();
    expect_refused(&ask(&mut wire, &path), 403, "rule");
    expect_recorded(&proxy, &path, ["asserted", "127.0.0.9", ""]);
}

#[test]
fn the_bound_for_one_client_is_for_whom_the_header_names() {
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
    eventually("the place is free again", || open(1).1 == 200);
}

#[test]
fn slow_headers_take_places_for_their_time_only() {
    let origin = Origin::start();
    let limits = [("proxy.max_connections", "2"), ("proxy.header_timeout", "\"500ms\"")];
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
fn a_reload_changes_who_is_asked() {
    let origin = Origin::start();
    let proxy = start(&origin, &[]);
    assert_eq!(behind(&proxy, LINE, "/others").status, 200);
    let settings = proxy.settings.clone().set("proxy.proxy_protocol", "[]");
    std::fs::write(proxy.dir.path().join("config.toml"), settings.to_toml()).expect("writable");
    eventually("nobody is asked", || behind(&proxy, b"", "/a").status == 200);
    expect_refused(&behind(&proxy, LINE, "/others"), 400, "malformed-request");
}

/// haproxy in front, killed when dropped.
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

/// haproxy with one port a way of telling, which it adds to its `server` line.
fn haproxy(to: SocketAddr, ways: &[(SocketAddr, &str)]) -> LoadBalancer {
    let mut text = "global\nmaxconn 64\ndefaults\nmode tcp\ntimeout connect 10s\n\
                    timeout client 60s\ntimeout server 60s\n"
        .to_owned();
    for (index, (port, way)) in ways.iter().enumerate() {
        text += &format!(
            "listen l{index}\nbind {port}\nserver wayleave {to} source 127.0.0.2 check inter 100ms {way}\n"
        );
    }
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("haproxy.cfg");
    std::fs::write(&config, text).expect("writable");
    let mut command = clean("/usr/sbin/haproxy");
    command.arg("-db").arg("-f").arg(&config);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let process = command.spawn().expect("haproxy: `make test` installs it");
    for (port, _) in ways {
        eventually("haproxy listens", || TcpStream::connect(port).is_ok());
    }
    LoadBalancer { process, _dir: dir }
}

#[test]
fn haproxy_passes_the_clients_address() {
    let origin = Origin::start();
    let proxy = start(&origin, &[]);
    let [line, binary, with_fields] =
        [(); 3].map(|()| SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free())));
    let ways = [
        (line, "send-proxy"),
        (binary, "send-proxy-v2"),
        (with_fields, "send-proxy-v2 proxy-v2-options crc32c,unique-id"),
    ];
    let _haproxy = haproxy(address(&proxy), &ways);
    for (front, way) in ways {
        let mut news = Wire::connect_from([127, 0, 0, 7], front);
        let path = fresh();
        assert_eq!(ask(&mut news, &path).status, 200, "{way}");
        expect_recorded(&proxy, &path, ["news", "127.0.0.7", "127.0.0.2"]);
        expect_refused(&ask(&mut news, "/news"), 403, "rule");
        let mut other = Wire::connect_from([127, 0, 0, 8], front);
        let path = fresh();
        expect_refused(&ask(&mut other, &path), 403, "rule");
        expect_recorded(&proxy, &path, ["asserted", "127.0.0.8", "127.0.0.2"]);
    }
    assert_eq!(refused(&proxy), 0.0, "its health checks are not refused");
}
