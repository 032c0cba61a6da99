//! Origins and clients with IPv6 addresses and international names.

use std::net::{SocketAddr, TcpListener};

use crate::harness::crawler::crawler;
use crate::harness::dns::{Answer, NameServer};
use crate::harness::{Origin, Request, Wayleave, Wire, eventually};

fn over_ipv6(origin: &Origin) -> Wayleave {
    Wayleave::start_with(origin, |settings| {
        settings
            .set("proxy.listen", "[\"[::1]:0\"]")
            .set("upstream.allow_private", "[\"127.0.0.1/32\", \"::1/128\"]")
    })
}

#[test]
fn a_client_over_ipv6_reaches_an_origin_over_ipv6() {
    let origin = Origin::start_at("::1");
    origin.site("[::1]").disallows("/private");
    let proxy = over_ipv6(&origin);
    assert!(proxy.proxy.is_ipv6());
    let port = origin.http.port();
    let answer = proxy.get(&format!("http://[::1]:{port}/a"));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(origin.only_request().authority, format!("[::1]:{port}"));
    let robots = format!("http://[::1]:{port}/robots.txt");
    // Every spelling of the address is the same origin.
    for host in ["[::1]", "[0:0:0:0:0:0:0:1]", "[::0001]", "[::0.0.0.1]"] {
        let answer = proxy.get(&format!("http://{host}:{port}/private"));
        answer.expect_disallowed(&robots, 2, "Disallow: /private");
    }
    let fetched = origin.seen();
    let fetched = fetched.iter().filter(|line| line.ends_with("/robots.txt"));
    assert_eq!(fetched.count(), 1);
}

#[test]
fn an_ipv6_address_is_intercepted_with_its_own_leaf() {
    let origin = Origin::start_at("::1");
    origin.site("[::1]").disallows("/private");
    let proxy = over_ipv6(&origin);
    let authority = format!("[::1]:{}", origin.https.port());
    let mut wire = proxy.connect();
    assert_eq!(wire.connect_tunnel(&authority).status, 200);
    let secured =
        wire.start_tls("::1", &proxy.ca_pem(), &["http/1.1"]).expect("the leaf is for the address");
    let mut wire = secured.wire;
    wire.send(Request::get(&format!("https://{authority}/a")).origin_form());
    assert_eq!(wire.response().status, 200);
    wire.send(Request::get(&format!("https://{authority}/private")).origin_form());
    let robots = format!("https://{authority}/robots.txt");
    wire.response().expect_disallowed(&robots, 2, "Disallow: /private");
}

#[test]
fn a_client_over_ipv6_is_matched_by_its_network() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        let six = crawler("six", "six").matched_by("addresses", ["::1/128"]);
        settings.set("proxy.listen", "[\"[::1]:0\"]").with(six)
    });
    assert_eq!(proxy.get("http://shop.test/a").status, 200);
    expect_counted(&proxy, "six");
}

#[test]
fn a_dual_stack_listener_identifies_ipv4_clients() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        let four = crawler("four", "four").matched_by("addresses", ["127.0.0.1/32"]);
        settings.set("proxy.listen", "[\"[::]:0\"]").with(four)
    });
    let mut wire = Wire::connect(SocketAddr::from(([127, 0, 0, 1], proxy.proxy.port())));
    wire.send_get("http://shop.test/a");
    assert_eq!(wire.response().status, 200);
    expect_counted(&proxy, "four");
}

#[track_caller]
fn expect_counted(proxy: &Wayleave, crawler: &str) {
    eventually("it is counted", || {
        proxy.metric("wayleave_requests_total", &[("crawler", crawler)]) == 1.0
    });
}

/// Listens at a port of `[::1]` with a full queue: further connections get no answer.
fn unresponsive(port: u16) -> (TcpListener, Vec<std::net::TcpStream>) {
    let socket = crate::harness::runtime().block_on(async {
        let socket = tokio::net::TcpSocket::new_v6().expect("a socket");
        socket
            .bind(SocketAddr::new("::1".parse().expect("an address"), port))
            .expect("the port is free");
        socket.listen(1).expect("it can listen").into_std().expect("it is registered")
    });
    let address = socket.local_addr().expect("a bound socket has an address");
    // These fill the queue.
    let mut waiting = Vec::new();
    let short = std::time::Duration::from_millis(200);
    while let Ok(stream) = std::net::TcpStream::connect_timeout(&address, short) {
        waiting.push(stream);
    }
    (socket, waiting)
}

#[test]
fn an_unresponsive_address_delays_only_shortly() {
    let origin = Origin::start();
    let names = NameServer::start();
    let both = ["::1", "127.0.0.1"].map(|text| text.parse().expect("an address"));
    names.set("both.example", Answer::Addresses(both.to_vec()));
    names.set("dead.example", Answer::Addresses(both.to_vec()));
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .resolver(&names)
            .set("upstream.allow_private", "[\"127.0.0.1/32\", \"::1/128\"]")
            .set("upstream.connect_timeout", "\"20s\"")
    });
    // Nothing listens at the first address: it refuses.
    let port = origin.http.port();
    assert_eq!(proxy.get(&format!("http://dead.example:{port}/a")).status, 200);
    // The first address does not answer.
    let _listener = unresponsive(port);
    let answer = proxy.get(&format!("http://both.example:{port}/a"));
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[test]
fn an_internationalised_name_is_one_origin_in_every_spelling() {
    let origin = Origin::start();
    origin.site("xn--bcher-kva.test").disallows("/private");
    let proxy = Wayleave::start(&origin);
    let robots = "http://xn--bcher-kva.test/robots.txt";
    for host in
        ["xn--bcher-kva.test", "XN--BCHER-KVA.test", "b%C3%BCcher.test", "B%c3%9cCHER.test."]
    {
        let answer = proxy.get(&format!("http://{host}/private"));
        answer.expect_disallowed(robots, 2, "Disallow: /private");
    }
    assert_eq!(proxy.get("http://b%C3%BCcher.test/a").status, 200);
    assert_eq!(
        origin.seen(),
        ["GET http://xn--bcher-kva.test/robots.txt", "GET http://xn--bcher-kva.test/a"]
    );
    let encrypted = proxy.get("https://xn--bcher-kva.test/private");
    encrypted.expect_disallowed("https://xn--bcher-kva.test/robots.txt", 2, "Disallow: /private");
}

#[test]
fn a_trailing_dot_and_the_default_port_change_nothing() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/private");
    let proxy = Wayleave::start(&origin);
    for authority in ["shop.test", "shop.test.", "shop.test:80", "shop.test.:80", "shop.test:"] {
        let answer = proxy.get(&format!("http://{authority}/private"));
        answer.expect_disallowed("http://shop.test/robots.txt", 2, "Disallow: /private");
        assert_eq!(proxy.get(&format!("http://{authority}/a")).status, 200, "{authority}");
    }
    for request in origin.requests() {
        assert_eq!(request.authority, "shop.test", "{request:?}");
    }
    // A tunnel to a name with a trailing dot, and a handshake without it, as clients do.
    let mut wire = proxy.connect();
    assert_eq!(wire.connect_tunnel("shop.test.:443").status, 200);
    let secured = wire.start_tls("shop.test", &proxy.ca_pem(), &["http/1.1"]);
    let mut wire = secured.expect("the leaf is for the name").wire;
    wire.send(Request::get("https://shop.test./a").origin_form());
    assert_eq!(wire.response().status, 200);
}
