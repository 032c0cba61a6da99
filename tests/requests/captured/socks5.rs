//! SOCKS5: the handshake, and what it may lead to.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

use super::{SUCCEEDED, destination, expect_disallowed, get, refused, start};
use crate::harness::passwords::{HASH, crawler};
use crate::harness::tls::Authority;
use crate::harness::tools::status_and_output;
use crate::harness::wayleave::command;
use crate::harness::{Origin, Wire, eventually};

#[test]
fn http_is_judged_whether_a_name_or_an_address_was_dialled() {
    let origin = Origin::start();
    let socks = start(&origin, |settings| settings);
    for host in ["shop.test", "127.0.0.1"] {
        let mut wire = socks.open(host, 80);
        assert_eq!(get(&mut wire, "http://shop.test/open").status, 200, "{host}");
        expect_disallowed(&get(&mut wire, "http://shop.test/private"));
        assert_eq!(get(&mut wire, "http://shop.test/again").status, 200, "{host}");
    }
    socks.expect_captured("http", 2);
    assert!(!origin.seen().iter().any(|line| line.contains("/private")), "{:?}", origin.seen());
}

#[test]
fn tls_is_intercepted_whether_a_name_or_an_address_was_dialled() {
    let origin = Origin::start();
    let socks = start(&origin, |settings| settings);
    for host in ["shop.test", "127.0.0.1"] {
        let mut wire = socks.open_tls(host, 443, "shop.test");
        assert_eq!(get(&mut wire, "https://shop.test/open").status, 200, "{host}");
        expect_disallowed(&get(&mut wire, "https://shop.test/private"));
    }
    socks.expect_captured("tls", 2);
    assert!(!origin.seen().iter().any(|line| line.contains("/private")), "{:?}", origin.seen());
}

#[test]
fn bytes_may_arrive_one_by_one_or_all_at_once() {
    let origin = Origin::start();
    let socks = start(&origin, |settings| settings);
    let request = b"GET /open HTTP/1.1\r\nHost: shop.test\r\n\r\n";
    let all = [&[5, 1, 0, 5, 1, 0], &destination("shop.test", 80)[..], request].concat();
    let mut at_once = Wire::connect(socks.socks);
    at_once.send(&all);
    let mut one_by_one = Wire::connect(socks.socks);
    for byte in &all {
        one_by_one.send([*byte]);
    }
    for wire in [&mut at_once, &mut one_by_one] {
        assert_eq!(wire.bytes(12), [&[5, 0][..], &SUCCEEDED].concat());
        assert_eq!(wire.response().status, 200);
    }
}

/// Authenticates, and returns the connection and the status.
fn authenticate(socks: SocketAddr, username: &str, password: &str) -> (Wire, u8) {
    let mut wire = Wire::connect(socks);
    wire.send([5, 2, 0, 2]);
    assert_eq!(wire.bytes(2), [5, 2]);
    let length = |text: &str| u8::try_from(text.len()).expect("short");
    let user = [&[1, length(username)], username.as_bytes()].concat();
    wire.send([&user[..], &[length(password)], password.as_bytes()].concat());
    let answer = wire.bytes(2);
    assert_eq!(answer[0], 1);
    (wire, answer[1])
}

#[test]
fn user_and_password_are_the_crawlers() {
    let origin = Origin::start();
    let socks = start(&origin, |settings| {
        settings.set("proxy.require_crawler", "true").with(crawler("news", "news", HASH))
    });
    let robots = "User-agent: NewsBot\nDisallow: /news\n\nUser-agent: *\nDisallow: /\n";
    origin.site("news.test").robots(robots);
    for scheme in ["http", "https"] {
        let (mut wire, status) = authenticate(socks.socks, "news", "secret");
        assert_eq!(status, 0);
        let port = if scheme == "http" { 80 } else { 443 };
        wire.send([&[5, 1, 0][..], &destination("news.test", port)].concat());
        assert_eq!(wire.bytes(10), SUCCEEDED);
        if scheme == "https" {
            let tls = wire.start_tls("news.test", &socks.proxy.ca_pem(), &["http/1.1"]);
            wire = tls.expect("the leaf is trusted").wire;
        }
        assert_eq!(get(&mut wire, &format!("{scheme}://news.test/a")).status, 200);
        expect_disallowed(&get(&mut wire, &format!("{scheme}://news.test/news")));
    }
    for (username, password) in [("news", "wrong"), ("", ""), ("news:secret", "")] {
        let before = refused(&socks.proxy, "wrong-password");
        let (mut wire, status) = authenticate(socks.socks, username, password);
        assert_eq!(status, 1, "{username}");
        wire.expect_close();
        assert_eq!(refused(&socks.proxy, "wrong-password"), before + 1.0);
    }
    let (mut wire, code) = socks.request(1, "news.test", 80);
    assert_eq!(code, 2, "nobody is known without a password");
    wire.expect_close();
    assert_eq!(refused(&socks.proxy, "unidentified"), 1.0);
    socks.expect_captured("refused", 4);
}

#[test]
fn a_password_that_is_changed_ends_what_it_opened() {
    let origin = Origin::start();
    let socks = start(&origin, |settings| settings.with(crawler("news", "news", HASH)));
    let (mut wire, _) = authenticate(socks.socks, "news", "secret");
    wire.send([&[5, 1, 0][..], &destination("shop.test", 80)].concat());
    assert_eq!(wire.bytes(10), SUCCEEDED);
    assert_eq!(get(&mut wire, "http://shop.test/a").status, 200);
    let other = crawler("news", "news", &HASH.replace("c2FsdHNhbHQ", "c2FsdHNhbHU"));
    socks.proxy.reload(&socks.proxy.settings.clone().without_tables().with(other));
    assert_eq!(get(&mut wire, "http://shop.test/b").status, 407);
    wire.expect_close();
}

#[test]
fn only_connect_to_known_kinds_of_addresses_is_served() {
    let origin = Origin::start();
    let socks = start(&origin, |settings| settings);
    for command in [0, 2, 3, 0xff] {
        let (mut wire, code) = socks.request(command, "shop.test", 80);
        assert_eq!(code, 7, "command {command}");
        wire.expect_close();
    }
    let refused: [(&[u8], u8); 7] = [
        (&[5, 1, 0, 2, 0, 0], 8),
        (&[5, 1, 0, 0xff], 8),
        (&[5, 1, 0, 1, 127, 0, 0, 1, 0, 0], 1),
        (&[5, 1, 0, 3, 0, 0, 80], 1),
        (b"\x05\x01\0\x03\x0cshop.test:80\0\x50", 1),
        (b"\x05\x01\0\x03\x0ba@shop.test\0\x50", 1),
        (b"\x05\x01\0\x03\x0bshop\r\n.test\0\x50", 1),
    ];
    for (bytes, code) in refused {
        let mut wire = Wire::connect(socks.socks);
        wire.send([5, 1, 0]);
        assert_eq!(wire.bytes(2), [5, 0]);
        wire.send(bytes);
        assert_eq!(wire.bytes(10), [&[5, code], &SUCCEEDED[2..]].concat(), "{bytes:?}");
        wire.expect_close();
    }
    let mut wire = Wire::connect(socks.socks);
    wire.send([5, 2, 1, 0x80]);
    assert_eq!(wire.bytes(2), [5, 0xff], "no method is known");
    wire.expect_close();
    socks.expect_captured("refused", 12);
    assert_eq!(origin.connections(), 0);
}

#[test]
fn destinations_that_are_never_reached_are_refused_by_the_reply() {
    let origin = Origin::start();
    let socks = start(&origin, |settings| {
        settings
            .set("https.bypass", "[\"gone.test\", \"down.test\"]")
            .resolve("down.test", ([127, 0, 0, 1], 1).into())
            .resolve("metadata.test", ([169, 254, 169, 254], 80).into())
    });
    let own = socks.socks.port();
    for (host, port, code) in [
        ("10.0.0.1", 443, 2),
        ("169.254.169.254", 80, 2),
        ("::1", 80, 2),
        ("::ffff:10.0.0.1", 80, 2),
        ("metadata.test", 80, 2),
        ("127.0.0.1", own, 2),
        ("down.test", 443, 5),
    ] {
        let (mut wire, reply) = socks.request(1, host, port);
        assert_eq!(reply, code, "{host}:{port}");
        wire.expect_close();
    }
    assert_eq!(refused(&socks.proxy, "destination_ip_prohibited"), 6.0);
    let failed = [("outcome", "failed"), ("reason", "connection_refused")];
    assert_eq!(socks.proxy.metric("wayleave_requests_total", &failed), 1.0);
    // Inside, the client is told more than a reply code can say.
    let mut wire = socks.open("gone.example", 80);
    let problem = get(&mut wire, "http://gone.example/").json();
    assert_eq!(problem["reason"], "dns_error", "{problem}");
}

#[test]
fn other_protocols_are_told_what_the_listener_speaks() {
    let origin = Origin::start();
    let socks = start(&origin, |settings| settings);
    let requests: [&[u8]; 4] = [
        b"GET http://shop.test/ HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02",
        b"\x04\x01\0\x50",
        b"\0\0",
    ];
    for bytes in requests {
        let mut wire = Wire::connect(socks.socks);
        wire.send(bytes);
        let problem = wire.response().expect_refusal(400, None, "http_request_error");
        assert!(problem["detail"].to_string().contains("socks5h://"), "{problem}");
        wire.expect_close();
    }
    // After the greeting, too.
    let mut wire = Wire::connect(socks.socks);
    wire.send([5, 1, 0, 4, 1, 0, 1]);
    assert_eq!(wire.bytes(2), [5, 0]);
    assert_eq!(wire.response().status, 400);
    socks.expect_captured("malformed", 5);
    assert_eq!(origin.connections(), 0);
}

#[test]
fn slow_and_silent_clients_hold_a_connection_for_a_limited_time() {
    let origin = Origin::start();
    let socks = start(&origin, |settings| {
        settings.set("proxy.header_timeout", "\"3s\"").set("proxy.max_connections", "8")
    });
    let beginnings: [&[u8]; 4] = [b"", &[5], &[5, 1, 0, 5, 1], &[5, 1, 0, 5, 1, 0, 3, 9, b's']];
    let mut slow: Vec<Wire> = beginnings
        .iter()
        .map(|bytes| {
            let mut wire = Wire::connect(socks.socks);
            wire.send(bytes);
            wire
        })
        .collect();
    let mut opened = ["", "G", "\x16", "\x16\x03\x01\x02\0"].map(|bytes| {
        let mut wire = socks.open("shop.test", 80);
        wire.send(bytes);
        wire
    });
    let answer = opened[1].response();
    assert_eq!(answer.expect_refusal(408, None, "http_request_error")["reason"], "head-timeout");
    for (wire, bytes) in slow.iter_mut().zip(beginnings) {
        if bytes.len() > 2 {
            assert_eq!(wire.bytes(2), [5, 0]);
        }
        wire.expect_close();
    }
    for wire in &mut opened {
        wire.expect_close();
    }
    socks.expect_captured("timeout", 8);
    assert_eq!(get(&mut socks.open("shop.test", 80), "http://shop.test/a").status, 200);
}

#[test]
fn clients_that_leave_are_counted() {
    let origin = Origin::start();
    let socks = start(&origin, |settings| settings);
    drop(Wire::connect(socks.socks));
    drop(socks.open("shop.test", 80));
    let mut wire = socks.open("shop.test", 80);
    wire.send(b"\x16\x03");
    drop(wire);
    socks.expect_captured("closed", 3);
}

/// Starts a server that speaks first and then sends back four bytes.
fn start_echo() -> SocketAddr {
    let echo = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = echo.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for mut stream in echo.incoming().flatten() {
            // A server that speaks first.
            stream.write_all(b"220 ready\r\n").expect("the client reads");
            let mut bytes = [0; 4];
            stream.read_exact(&mut bytes).expect("the client writes");
            stream.write_all(&bytes).expect("the client reads");
        }
    });
    address
}

#[test]
fn hosts_of_the_bypass_may_be_sent_anything() {
    let echo = start_echo();
    let origin = Origin::start();
    for host in ["mail.test", "127.0.0.1"] {
        let socks = start(&origin, |settings| {
            settings.set("https.bypass", &format!("[{host:?}]")).resolve("mail.test", echo)
        });
        let mut wire = socks.open(host, echo.port());
        assert_eq!(wire.bytes(11), b"220 ready\r\n", "{host}");
        wire.send(b"EHLO");
        assert_eq!(wire.bytes(4), b"EHLO", "{host}");
        socks.expect_captured("bypass", 1);
        let tunnelled = [("outcome", "tunnelled"), ("reason", "bypass")];
        assert_eq!(socks.proxy.metric("wayleave_requests_total", &tunnelled), 1.0);
    }
}

#[test]
fn the_bypass_applies_to_server_names() {
    let origin = Origin::start();
    origin.site("bank.test").disallows("/");
    let socks = start(&origin, |settings| settings.set("https.bypass", "[\"bank.test\"]"));
    let roots = Authority::trusted().pem.as_bytes();
    let tls = socks.open("127.0.0.1", 443).start_tls("bank.test", roots, &["http/1.1"]);
    let mut wire = tls.expect("the origin's own certificate").wire;
    assert_eq!(get(&mut wire, "https://bank.test/secret").status, 200);
    let tunnelled = [("outcome", "tunnelled"), ("reason", "bypass")];
    assert_eq!(socks.proxy.metric("wayleave_requests_total", &tunnelled), 1.0);
}

#[test]
fn the_modes_of_https_apply() {
    let origin = Origin::start();
    origin.site("open.test").robots("User-agent: *\nDisallow:\n");
    let socks = start(&origin, |settings| settings.set("https.mode", "\"tunnel\""));
    let roots = Authority::trusted().pem.as_bytes();
    let tls = socks.open("open.test", 443).start_tls("open.test", roots, &["http/1.1"]);
    let mut wire = tls.expect("the origin's own certificate").wire;
    assert_eq!(get(&mut wire, "https://open.test/a").status, 200);
    assert!(socks.open("shop.test", 443).start_tls("shop.test", roots, &[]).is_err());
    socks.expect_refused("rule", 1);
    // Plain HTTP is judged by request, although the host disallows some paths.
    let mut wire = socks.open("shop.test", 80);
    assert_eq!(get(&mut wire, "http://shop.test/open").status, 200);
    expect_disallowed(&get(&mut wire, "http://shop.test/private"));
    let settings = socks.proxy.settings.clone().set("https.mode", "\"refuse\"");
    socks.proxy.reload(&settings);
    assert!(socks.open("open.test", 443).start_tls("open.test", roots, &[]).is_err());
    socks.expect_refused("https-refused", 1);
    assert_eq!(get(&mut socks.open("shop.test", 80), "http://shop.test/b").status, 200);
}

#[test]
fn a_load_balancer_names_the_client_before_the_handshake() {
    let origin = Origin::start();
    let socks = start(&origin, |settings| settings.set("proxy.proxy_protocol", "[\"127.0.0.1\"]"));
    let mut wire = Wire::connect(socks.socks);
    wire.send(b"PROXY TCP4 203.0.113.7 127.0.0.1 40000 1080\r\n\x05\x01\0");
    assert_eq!(wire.bytes(2), [5, 0]);
    wire.send([&[5, 1, 0][..], &destination("shop.test", 80)].concat());
    assert_eq!(wire.bytes(10), SUCCEEDED);
    assert_eq!(get(&mut wire, "http://shop.test/balanced").status, 200);
    eventually("the decision has both addresses", || {
        let answer = socks.proxy.admin_get("/v1/decisions?limit=10").json();
        let list = answer["decisions"].as_array().expect("a list").iter();
        let mut found = list.filter(|it| it["url"] == "http://shop.test/balanced");
        found.any(|it| it["client"] == "203.0.113.7" && it["peer"] == "127.0.0.1")
    });
}

#[test]
fn connections_of_a_client_are_limited() {
    let origin = Origin::start();
    let socks = start(&origin, |settings| settings.set("proxy.max_connections_per_client", "1"));
    let _first = socks.open("shop.test", 80);
    let mut second = Wire::connect(socks.socks);
    assert_eq!(second.response().status, 503);
    second.expect_close();
}

#[test]
fn operators_see_the_listener_and_http_clients_do_not() {
    let origin = Origin::start();
    let socks = start(&origin, |settings| settings);
    let status = socks.proxy.admin_get("/v1/status").json();
    let listeners = [format!("http://{}", socks.proxy.proxy), format!("socks5://{}", socks.socks)];
    assert_eq!(status["listeners"], serde_json::json!(listeners));
    let only = "[\"socks5://127.0.0.1:1080\", \"redirect://127.0.0.1:3131\"]";
    let file = socks.proxy.dir.path().join("only.toml");
    std::fs::write(&file, format!("proxy.listen = {only}\n")).expect("writable");
    let with_file = |arguments: &[&str]| {
        status_and_output(command().args(arguments).arg("--config").arg(&file))
    };
    let (status, printed) = with_file(&["config", "show"]);
    assert_eq!(status, Some(0), "{printed}");
    assert!(printed.contains(&format!("listen = {only}")), "{printed}");
    let (status, printed) = with_file(&["env"]);
    assert_eq!(status, Some(2), "{printed}");
    assert!(printed.contains("no HTTP proxy in proxy.listen"), "{printed}");
}
