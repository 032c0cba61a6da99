//! Chains of proxies: another wayleave, and parent proxies that end or stall at the wrong moment.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

use super::parent::{EXCEPTION, Scripted, behind, expect_next_hop, site, start};
use super::programs::{Program, Squid, danted, microsocks, tinyproxy};
use crate::harness::passwords::{self, HASH};
use crate::harness::{Gate, Origin, Reply, Request, Wayleave};

#[test]
fn another_wayleave_with_a_password_and_without() {
    for has_password in [false, true] {
        through_another(has_password);
    }
}

fn through_another(has_password: bool) {
    let origin = site("shop.test");
    let parent = Wayleave::start_with(&origin, |settings| {
        let settings = settings.set("proxy.name", "\"upper\"");
        if has_password {
            let settings = settings.set("proxy.require_crawler", "true");
            settings.with(passwords::crawler("lower", "user", HASH))
        } else {
            settings
        }
    });
    let credentials = if has_password { "user:secret@" } else { "" };
    let proxy = Wayleave::start_with(&origin, |settings| {
        let roots = format!("[{:?}]", parent.ca_file());
        let settings = settings.set("upstream.extra_roots", &roots);
        behind(&format!("http://{credentials}{}", parent.proxy), settings)
    });
    for url in ["http://shop.test/a", "https://shop.test/a"] {
        assert_eq!(proxy.get(url).status, 200, "{url}");
    }
    assert_eq!(proxy.http2("shop.test:443").get("/b").status, 200);
    let url = "http://shop.test/ws";
    let mut wire = proxy.connect();
    wire.send(Request::get(url).websocket().absolute_form());
    assert_eq!(wire.response_head().status, 101);
    let requests = origin.requests();
    let pages = requests.iter().filter(|request| request.target != "/robots.txt");
    for page in pages {
        let via = page.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("via"));
        let via: String = via.map(|(_, value)| &**value).collect();
        assert!(via.contains("wayleave") && via.contains("upper"), "{via}");
    }
    // Refusals by robots.txt are those of the first proxy.
    let refused = proxy.get("http://shop.test/private");
    assert_eq!(refused.proxy_status().proxy, "wayleave");
}

#[test]
fn a_parent_that_ends_within_a_response_cuts_it_off() {
    let kinds: [(&str, Program); 4] = [
        ("http", Squid::default().start()),
        ("http", tinyproxy(false)),
        ("socks5", microsocks(false)),
        ("socks5", danted(false)),
    ];
    for (scheme, parent) in kinds {
        let address = parent.address;
        let origin = Origin::start();
        let gate = Gate::closed();
        let halves = Reply::in_halves(&gate);
        origin.site("*").robots("").page("/halves", halves);
        let proxy = start(&origin, &format!("{scheme}://{address}"));
        let plain = format!("http://127.0.0.1:{}/halves", origin.http.port());
        let authority = format!("127.0.0.1:{}", origin.https.port());
        let mut wires = [proxy.connect(), proxy.tunnel(&authority)];
        wires[0].send_get(&plain);
        wires[1].send(Request::get(&format!("https://{authority}/halves")).origin_form());
        for wire in &mut wires {
            assert_eq!(wire.response_head().status, 200);
            assert_eq!(wire.bytes(11), b"first half,");
        }
        drop(parent);
        for wire in &mut wires {
            assert!(wire.fill(11).is_err(), "{scheme}: a part looks complete");
        }
        gate.open();
        for url in [plain, format!("https://{authority}/halves")] {
            let refused = proxy.get(&url);
            refused.expect_refusal(502, None, "connection_refused");
            expect_next_hop(&refused, address);
        }
    }
}

#[test]
fn a_parent_that_accepts_a_request_and_is_silent_times_out() {
    let origin = Origin::start();
    let parent = Scripted::start(|_| Vec::new());
    let proxy = Wayleave::start_with(&origin, |settings| {
        let settings = settings.set("upstream.response_timeout", "\"3s\"");
        behind(&format!("http://{}", parent.address), settings).table(EXCEPTION)
    });
    let refused = proxy.get("http://shop.test/a");
    assert_eq!(refused.status, 504, "{refused:?}");
    expect_next_hop(&refused, parent.address);
    assert!(parent.request_lines().iter().any(|line| line == "GET http://shop.test/a HTTP/1.1"));
}

/// Starts a SOCKS5 server that sends one reply after each read, and then nothing. An empty reply closes.
fn socks(replies: &'static [&'static [u8]]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            std::thread::spawn(move || {
                let mut buffer = [0; 1024];
                for reply in replies {
                    if stream.read(&mut buffer).is_err() || stream.write_all(reply).is_err() {
                        return;
                    }
                    if reply.is_empty() {
                        return;
                    }
                }
                while stream.read(&mut buffer).is_ok_and(|count| count > 0) {}
            });
        }
    });
    address
}

#[test]
fn faults_of_a_socks_server_are_described() {
    let origin = Origin::start();
    let cases: [(&str, &[&[u8]], u16); 8] = [
        ("is silent", &[], 504),
        ("closes at once", &[b""], 502),
        ("is not a SOCKS server", &[b"HTTP/1.1 400 Bad Request\r\n\r\n"], 502),
        ("is of version 4", &[&[4, 0]], 502),
        ("requires an unknown method", &[&[5, 0xff]], 502),
        ("ignores the request", &[&[5, 0]], 504),
        ("prohibits the request", &[&[5, 0], &[5, 2, 0, 1, 0, 0, 0, 0, 0, 0]], 502),
        ("closes after the greeting", &[&[5, 0], b""], 502),
    ];
    for (fault, replies, status) in cases {
        let address = socks(replies);
        let proxy = Wayleave::start_with(&origin, |settings| {
            let settings = settings.set("upstream.connect_timeout", "\"3s\"");
            behind(&format!("socks5://{address}"), settings).table(EXCEPTION)
        });
        let refused = proxy.get("http://shop.test/a");
        assert_eq!(refused.status, status, "{fault}: {refused:?}");
        expect_next_hop(&refused, address);
    }
    assert_eq!(origin.seen(), [""; 0]);
}
