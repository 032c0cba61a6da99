//! Chains of proxies: another wayleave, and parent proxies that end or stall at the wrong moment.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

use super::parent::{Scripted, behind, site, start};
use super::programs::{Program, Squid, danted, microsocks, tinyproxy};
use crate::harness::{Gate, Origin, Reply, Request, Wayleave};

/// robots.txt need not be known.
const EXCEPTION: &str = "[[rule]]\naction = \"allow\"\nhosts = [\"*\"]\nowner = \"us\"\nreason = \"test\"\nexpires = 2099-01-01\n";

/// The hash of "secret", cheap to verify.
const HASH: &str =
    "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$vk+JgWgZGbXHtEqPQPhzXbD+QxxkJR5Fq2AXLhDyYaY";

#[test]
fn another_wayleave_with_a_password_and_without() {
    for asks in [false, true] {
        through_another(asks);
    }
}

fn through_another(asks: bool) {
    let origin = site("shop.test");
    let parent = Wayleave::start_with(&origin, |settings| {
        let settings = settings.set("proxy.name", "\"upper\"");
        match asks {
            false => settings,
            true => settings.set("proxy.require_crawler", "true").table(&format!(
                "[[crawler]]\nname = \"lower\"\ntokens = [\"ExampleBot\"]\nmatch = {{ username = \"user\" }}\npassword_hash = {HASH:?}\n"
            )),
        }
    });
    let credentials = if asks { "user:secret@" } else { "" };
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
    let pages = requests.iter().filter(|it| it.target != "/robots.txt");
    for page in pages {
        let via = page.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("via"));
        let via: String = via.map(|(_, value)| &**value).collect();
        assert!(via.contains("wayleave") && via.contains("upper"), "{via}");
    }
    // Its refusals are its own, and reach the client as they are.
    let refused = proxy.get("http://shop.test/private");
    assert_eq!(refused.proxy_status().proxy, "wayleave");
}

#[test]
fn a_parent_that_ends_within_an_answer_cuts_it_off_and_is_named() {
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
            assert!(wire.fill(11).is_err(), "{scheme}: half an answer is none");
        }
        gate.open();
        for url in [plain, format!("https://{authority}/halves")] {
            let refused = proxy.get(&url);
            refused.expect_refusal(502, None, "connection_refused");
            let said = refused.header("proxy-status").unwrap_or_default();
            assert!(said.contains(&format!("next-hop=\"{address}\"")), "{said}");
        }
    }
}

#[test]
fn a_parent_that_takes_a_request_and_says_nothing_is_given_up() {
    let origin = Origin::start();
    let parent = Scripted::start(|_| Vec::new());
    let proxy = Wayleave::start_with(&origin, |settings| {
        let settings = settings.set("upstream.response_timeout", "\"1s\"");
        behind(&format!("http://{}", parent.address), settings).table(EXCEPTION)
    });
    let refused = proxy.get("http://shop.test/a");
    assert_eq!(refused.status, 504, "{refused:?}");
    let said = refused.header("proxy-status").unwrap_or_default();
    assert!(said.contains(&format!("next-hop=\"{}\"", parent.address)), "{said}");
    assert!(parent.heard().iter().any(|line| line == "GET http://shop.test/a HTTP/1.1"));
}

/// A SOCKS5 server that answers what it reads with these bytes, part by part, and then is silent.
fn socks(answers: &'static [&'static [u8]]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            std::thread::spawn(move || {
                let mut heard = [0; 1024];
                for answer in answers {
                    if stream.read(&mut heard).is_err() || stream.write_all(answer).is_err() {
                        return;
                    }
                    if answer.is_empty() {
                        return;
                    }
                }
                while stream.read(&mut heard).is_ok_and(|count| count > 0) {}
            });
        }
    });
    address
}

#[test]
fn faults_of_a_socks_server_are_described() {
    let origin = Origin::start();
    let cases: [(&str, &[&[u8]], u16); 8] = [
        ("says nothing", &[], 504),
        ("leaves at once", &[b""], 502),
        ("is no SOCKS server", &[b"HTTP/1.1 400 Bad Request\r\n\r\n"], 502),
        ("is of version 4", &[&[4, 0]], 502),
        ("wants what nobody has", &[&[5, 0xff]], 502),
        ("says nothing of the request", &[&[5, 0]], 504),
        ("is not allowed to", &[&[5, 0], &[5, 2, 0, 1, 0, 0, 0, 0, 0, 0]], 502),
        ("leaves before it says", &[&[5, 0], b""], 502),
    ];
    for (what, answers, status) in cases {
        let address = socks(answers);
        let proxy = Wayleave::start_with(&origin, |settings| {
            let settings = settings.set("upstream.connect_timeout", "\"1s\"");
            behind(&format!("socks5://{address}"), settings).table(EXCEPTION)
        });
        let refused = proxy.get("http://shop.test/a");
        assert_eq!(refused.status, status, "{what}: {refused:?}");
        let said = refused.header("proxy-status").unwrap_or_default();
        assert!(said.contains(&format!("next-hop=\"{address}\"")), "{what}: {said}");
    }
    assert_eq!(origin.seen(), [""; 0]);
}
