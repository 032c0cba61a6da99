//! HTTPS: CONNECT, interception, and the protocols that a tunnel may carry.

use crate::harness::dns::{Answer, NameServer};
use crate::harness::tls::Authority;
use crate::harness::{Origin, Reply, Request, Wayleave, Wire, eventually};

#[test]
fn an_intercepted_request_is_decided_by_its_path() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/private").page("/a", Reply::text("hello"));
    let proxy = Wayleave::start(&origin);
    let mut wire = proxy.tunnel("shop.test:443");
    wire.send(Request::get("https://shop.test/a").origin_form());
    assert_eq!(wire.response().text(), "hello");
    wire.send(Request::get("https://shop.test/private").origin_form());
    wire.response().expect_disallowed("https://shop.test/robots.txt", 2, "Disallow: /private");
    wire.send(Request::get("https://shop.test/a").origin_form());
    assert_eq!(wire.response().text(), "hello");
    assert_eq!(
        origin.seen(),
        ["GET https://shop.test/robots.txt", "GET https://shop.test/a", "GET https://shop.test/a"]
    );
    assert!(origin.requests().iter().all(|request| request.sni.as_deref() == Some("shop.test")));
}

#[test]
fn the_response_to_connect_has_no_body_and_no_framing() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let head = proxy.connect().connect_tunnel("shop.test:443");
    assert_eq!(head.status, 200);
    assert_eq!(
        (head.header("content-length"), head.header("transfer-encoding")),
        (None, None),
        "RFC 9110 section 9.3.6"
    );
}

#[test]
fn leaves_are_signed_by_the_ca_and_kept() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let leaf = |authority: &str, name: &str| {
        let mut wire = proxy.connect();
        assert_eq!(wire.connect_tunnel(authority).status, 200);
        let secured = wire
            .start_tls(name, &proxy.ca_pem(), &["http/1.1"])
            .expect("trusted, and valid for the name");
        secured.chain[0].clone()
    };
    let first = leaf("shop.test:443", "shop.test");
    assert_eq!(leaf("shop.test:443", "shop.test"), first, "the leaf is minted once");
    assert_eq!(leaf("SHOP.test:443", "shop.test"), first, "hosts have no case");
    assert_ne!(leaf("other.test:443", "other.test"), first);
    assert_eq!(proxy.metric("wayleave_leaf_certificates_total", &[("result", "minted")]), 2.0);
    assert_eq!(proxy.metric("wayleave_leaf_certificates_total", &[("result", "hit")]), 2.0);
}

#[test]
fn a_client_that_does_not_trust_the_ca_is_counted() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let mut wire = proxy.connect();
    assert_eq!(wire.connect_tunnel("shop.test:443").status, 200);
    let other_roots = Authority::trusted().pem.as_bytes();
    assert!(wire.start_tls("shop.test", other_roots, &[]).is_err());
    eventually("it is counted", || {
        proxy.metric("wayleave_leaf_certificates_total", &[("result", "untrusted")]) == 1.0
    });
    assert_eq!(origin.connections(), 0);
    // Whoever connects a crawler is told which client it is.
    let status = proxy.admin_get("/v1/status").json();
    let client = &status["untrusting_client"];
    assert_eq!(
        (&client["client"], &client["origin"]),
        (&"127.0.0.1".into(), &"https://shop.test".into())
    );
    assert!(client["at"].is_string(), "{status}");
    assert_eq!(client["has_alerted"], true);

    // Some send no alert: they close the connection once it is secured.
    let mut wire = proxy.connect();
    assert_eq!(wire.connect_tunnel("news.test:443").status, 200);
    drop(wire.start_tls("news.test", &proxy.ca_pem(), &[]).expect("trusted"));
    eventually("a silent client is known", || {
        let status = proxy.admin_get("/v1/status").json();
        let client = &status["untrusting_client"];
        client["origin"] == "https://news.test" && client["has_alerted"] == false
    });
}

#[test]
fn an_address_gets_its_own_leaf() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let answer = proxy.get(&format!("https://{}/a", origin.https));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(origin.seen()[1], format!("GET https://{}/a", origin.https));
}

#[test]
fn a_client_without_alpn_uses_http_1_1() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let mut wire = proxy.connect();
    assert_eq!(wire.connect_tunnel("shop.test:443").status, 200);
    let secured = wire.start_tls("shop.test", &proxy.ca_pem(), &[]).expect("trusted");
    assert_eq!(secured.protocol, None);
    let mut wire = secured.wire;
    wire.send(Request::get("https://shop.test/a").origin_form());
    assert_eq!(wire.response().status, 200);
}

#[test]
fn another_name_inside_the_tunnel_is_misdirected() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let requests = [
        Request::get("https://shop.test/a").header("Host", "other.test").origin_form(),
        Request::get("https://shop.test/a").bytes("https://other.test/a"),
        Request::get("https://shop.test/a").bytes("http://shop.test/a"),
        Request::get("https://shop.test/a").header("Host", "shop.test:8443").origin_form(),
    ];
    for request in requests {
        let mut wire = proxy.tunnel("shop.test:443");
        wire.send(&request);
        wire.response().expect_refusal(421, None, "http_request_error");
    }
    let mut client = proxy.connect();
    assert_eq!(client.connect_tunnel("shop.test:443").status, 200);
    // The host of the CONNECT decides, not the name in the handshake: a leaf for that name would hide the mistake.
    if let Ok(secured) = client.start_tls("other.test", &proxy.ca_pem(), &["http/1.1"]) {
        let mut wire = secured.wire;
        wire.send(Request::get("https://other.test/a").origin_form());
        wire.response().expect_refusal(421, None, "http_request_error");
    }
    assert_eq!(origin.connections(), 0, "{:?}", origin.seen());
}

#[test]
fn another_port_than_443_is_intercepted_too() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/private");
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.resolve("shop.test:8443", origin.https));
    assert_eq!(proxy.get("https://shop.test:8443/a").status, 200);
    proxy.get("https://shop.test:8443/private").expect_disallowed(
        "https://shop.test:8443/robots.txt",
        2,
        "Disallow: /private",
    );
    assert_eq!(
        origin.seen(),
        ["GET https://shop.test:8443/robots.txt", "GET https://shop.test:8443/a"]
    );
}

#[test]
fn plain_http_inside_a_tunnel_is_decided_as_well() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/private").page("/a", Reply::text("hello"));
    let proxy = Wayleave::start(&origin);
    let mut wire = proxy.connect();
    assert_eq!(wire.connect_tunnel("shop.test:80").status, 200);
    wire.send(Request::get("http://shop.test/a").origin_form());
    assert_eq!(wire.response().text(), "hello");
    wire.send(Request::get("http://shop.test/private").origin_form());
    wire.response().expect_disallowed("http://shop.test/robots.txt", 2, "Disallow: /private");
    assert_eq!(origin.seen(), ["GET http://shop.test/robots.txt", "GET http://shop.test/a"]);
}

#[test]
fn bytes_that_are_neither_tls_nor_http_are_not_forwarded() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    for bytes in [
        &b"SSH-2.0-OpenSSH_9.2\r\n\r\n"[..],
        b"\x00\x01\x02\x03\r\n\r\n",
        b"\x16\x03\x01\x00\x05hello",
    ] {
        let mut wire = proxy.connect();
        assert_eq!(wire.connect_tunnel("shop.test:443").status, 200);
        // The proxy may close while the bytes are still being written.
        let _maybe_closed = wire.try_send(bytes);
        let _maybe_closed = wire.tcp.shutdown(std::net::Shutdown::Write);
        if let Ok(Some(answer)) = wire.try_response(false) {
            assert_eq!(answer.status, 400, "{answer:?}");
        }
    }
    assert_eq!(origin.connections(), 0, "{:?}", origin.seen());
}

#[test]
fn tunnels_share_the_origins_connection() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    for _ in 0..4 {
        assert_eq!(proxy.get("https://shop.test/a").status, 200);
        eventually("the origin's connection is free", || {
            proxy.metric("wayleave_upstream_connections", &[]) == 0.0
        });
    }
    let mut connections: Vec<_> = origin
        .requests()
        .iter()
        .filter(|request| request.target == "/a")
        .map(|request| request.connection)
        .collect();
    connections.dedup();
    assert_eq!(connections.len(), 1, "{connections:?}");
}

#[test]
fn a_websocket_upgrade_inside_tls_becomes_a_pipe() {
    let origin = Origin::start();
    origin.site("shop.test").page("/ws", Reply::websocket());
    let proxy = Wayleave::start(&origin);
    let mut wire = proxy.tunnel("shop.test:443");
    wire.send(Request::get("https://shop.test/ws").websocket().origin_form());
    assert_eq!(wire.response_head().status, 101);
    wire.send("ping");
    assert_eq!(wire.bytes(4), b"ping");
    let pings: Vec<_> = origin
        .requests()
        .iter()
        .filter(|request| request.target == "/ws")
        .map(|request| request.version)
        .collect();
    assert_eq!(pings, ["HTTP/1.1"], "an upgrade needs HTTP/1.1 up to the origin");
}

#[test]
fn a_client_with_many_slow_names_delays_no_other() {
    let origin = Origin::start();
    let names = NameServer::start();
    let count = 200;
    for number in 0..count {
        names.set(&format!("slow{number}.example"), Answer::Silence);
    }
    let loopback = vec![[127, 0, 0, 1].into()];
    names.set("quick.example", Answer::Addresses(loopback));
    let proxy = Wayleave::start_with(&origin, |settings| settings.resolver(&names));
    let greedy: Vec<_> = (0..count)
        .map(|number| {
            let mut wire = proxy.connect();
            wire.send_connect(&format!("slow{number}.example:443"), "");
            wire
        })
        .collect();
    eventually("all are connected", || {
        proxy.metric("wayleave_client_connections", &[]) >= f64::from(count)
    });
    let mut other = Wire::connect_from([127, 0, 0, 2], proxy.proxy);
    assert_eq!(other.connect_tunnel("quick.example:443").status, 200);
    let queried = names.queried();
    let slow = queried.iter().filter(|name| name.starts_with("slow"));
    assert!((1..100).contains(&slow.count()), "{}", queried.len());
    drop(greedy);
}
