//! Plain HTTP: the request that reaches the origin, the response that reaches the client, and the connections.

use crate::harness::origin::reply::Framing;
use crate::harness::{Origin, Reply, Request, Wayleave};

#[test]
fn an_allowed_request_arrives_in_origin_form() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/private").page("/a?b=c", Reply::text("hello"));
    let proxy = Wayleave::start(&origin);
    let answer = proxy.get("http://shop.test/a?b=c");
    assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
    assert_eq!(origin.seen(), ["GET http://shop.test/robots.txt", "GET http://shop.test/a?b=c"]);
    assert_eq!(origin.only_request().header("user-agent"), Some("ExampleBot/1.0"));
}

#[test]
fn the_target_is_forwarded_as_received() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    for path in [
        "/%7Euser/%2f%C3%A4?q=%20&r=%2F",
        "/a;b=c/d,e",
        "/x?y=http://z/?&&",
        "/a//b",
        "/d/./e/../f",
        "/p?",
        "/'()!*$@:~",
    ] {
        let answer = proxy.get(&format!("http://shop.test{path}"));
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(
            origin.requests().last().map(|request| request.target.clone()).as_deref(),
            Some(path)
        );
    }
}

#[test]
fn raw_bytes_of_a_target_are_judged_and_sent_escaped() {
    let origin = Origin::start();
    origin.site("shop.test").robots("User-agent: *\nDisallow: /caf\u{e9}/no\n");
    let proxy = Wayleave::start(&origin);
    for (target, arrives) in [
        ("http://shop.test/caf\u{e9}?q=\u{20ac}", Some("/caf%C3%A9?q=%E2%82%AC")),
        ("http://shop.test/caf\u{e9}/no", None),
    ] {
        let mut wire = proxy.connect();
        wire.send(Request::get("http://shop.test/").bytes(target));
        assert_eq!(wire.response().status, if arrives.is_some() { 200 } else { 403 }, "{target}");
        let seen = origin.requests();
        let page = seen.iter().find(|request| request.target != "/robots.txt");
        assert_eq!(page.map(|request| &*request.target), Some("/caf%C3%A9?q=%E2%82%AC"));
    }
    let mut wire = proxy.tunnel("shop.test:443");
    wire.send(Request::get("https://shop.test/").bytes("/caf\u{e9}"));
    assert_eq!(wire.response().status, 200);
    let last = origin.requests().last().map(|request| request.target.clone());
    assert_eq!(last.as_deref(), Some("/caf%C3%A9"));
}

#[test]
fn a_target_without_path_becomes_the_root() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    for (target, arrives) in [
        ("http://shop.test", "/"),
        ("http://shop.test?q=1", "/?q=1"),
        ("http://shop.test/#top", "/"),
    ] {
        let mut wire = proxy.connect();
        wire.send(Request::get("http://shop.test/").bytes(target));
        assert_eq!(wire.response().status, 200, "{target}");
        assert_eq!(
            origin.requests().last().map(|request| request.target.clone()).as_deref(),
            Some(arrives),
            "{target}"
        );
    }
}

#[test]
fn the_absolute_form_decides_and_host_is_replaced() {
    let origin = Origin::start();
    origin.site("other.test").disallows("/");
    let proxy = Wayleave::start(&origin);
    let answer = proxy.exchange(&Request::get("http://shop.test/a").header("Host", "other.test"));
    assert_eq!(answer.status, 200);
    assert_eq!(origin.seen(), ["GET http://shop.test/robots.txt", "GET http://shop.test/a"]);
    let hosts = origin
        .only_request()
        .headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("host"))
        .count();
    assert_eq!(hosts, 1);
}

#[test]
fn another_port_is_another_origin_and_is_kept_in_host() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/private");
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.resolve("shop.test:8080", origin.http));
    assert_eq!(proxy.get("http://shop.test:8080/a").status, 200);
    assert_eq!(
        origin.seen(),
        ["GET http://shop.test:8080/robots.txt", "GET http://shop.test:8080/a"]
    );
}

#[test]
fn an_address_in_place_of_a_name_is_an_origin_too() {
    let origin = Origin::start();
    origin.site("127.0.0.1").disallows("/private");
    let proxy = Wayleave::start(&origin);
    let base = format!("http://{}", origin.http);
    assert_eq!(proxy.get(&format!("{base}/a")).status, 200);
    proxy.get(&format!("{base}/private")).expect_disallowed(
        &format!("{base}/robots.txt"),
        2,
        "Disallow: /private",
    );
    assert_eq!(origin.seen(), [format!("GET {base}/robots.txt"), format!("GET {base}/a")]);
}

#[test]
fn hop_by_hop_fields_of_clients_are_removed_and_via_added() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let request = Request::get("http://shop.test/a")
        .header("Connection", "X-Gone, keep-alive")
        .header("X-Gone", "1")
        .header("Keep-Alive", "timeout=5")
        .header("Proxy-Connection", "keep-alive")
        .header("Proxy-Authorization", "Basic c2VjcmV0OnNlY3JldA==")
        .header("Proxy-Anything", "1")
        .header("TE", "gzip")
        .header("Via", "1.1 edge")
        .header("X-Kept", "yes")
        .header("Cookie", "a=b");
    assert_eq!(proxy.exchange(&request).status, 200);
    let arrived = origin.only_request();
    for name in
        ["x-gone", "keep-alive", "proxy-connection", "proxy-authorization", "proxy-anything", "te"]
    {
        assert_eq!(arrived.header(name), None, "{name} must not be forwarded");
    }
    assert_eq!(arrived.header("x-kept"), Some("yes"));
    assert_eq!(arrived.header("cookie"), Some("a=b"));
    let connection = arrived.header("connection").unwrap_or_default().to_ascii_lowercase();
    assert!(!connection.contains("x-gone"), "{connection}");
    let via: Vec<_> = arrived
        .headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("via"))
        .map(|(_, value)| value.as_str())
        .collect();
    assert_eq!(via.join(", "), "1.1 edge, 1.1 wayleave");
}

#[test]
fn hop_by_hop_fields_of_origins_are_removed_and_via_added() {
    let origin = Origin::start();
    let reply = Reply::text("ok")
        .header("Connection", "X-Gone")
        .header("X-Gone", "1")
        .header("Keep-Alive", "timeout=5")
        .header("Proxy-Authenticate", "Basic realm=\"not yours\"")
        .header("Proxy-Connection", "keep-alive")
        .header("Set-Cookie", "a=1")
        .header("Set-Cookie", "b=2")
        .header("X-Kept", "yes");
    origin.site("shop.test").page("/a", reply);
    let proxy = Wayleave::start(&origin);
    let answer = proxy.get("http://shop.test/a");
    assert_eq!(answer.status, 200);
    for name in ["x-gone", "keep-alive", "proxy-authenticate", "proxy-connection"] {
        assert_eq!(answer.header(name), None, "{name} must not be forwarded");
    }
    assert_eq!(answer.header("x-kept"), Some("yes"));
    assert_eq!(
        answer.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie")).count(),
        2
    );
    assert_eq!(answer.header("via"), Some("1.1 wayleave"));
}

#[test]
fn both_connections_are_reused() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let mut wire = proxy.connect();
    for path in ["/1", "/2", "/3"] {
        wire.send_get(&format!("http://shop.test{path}"));
        assert_eq!(wire.response().status, 200);
    }
    let connections: Vec<_> = origin
        .requests()
        .iter()
        .filter(|request| request.target != "/robots.txt")
        .map(|request| request.connection)
        .collect();
    assert_eq!(connections.len(), 3);
    assert!(connections.iter().all(|number| *number == connections[0]), "{connections:?}");
}

#[test]
fn an_idle_connection_is_closed() {
    let origin = Origin::start();
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.set("proxy.idle_timeout", "\"3s\""));
    let mut plain = proxy.connect();
    plain.send_get("http://shop.test/a");
    let mut encrypted = proxy.tunnel("shop.test:443");
    encrypted.send(Request::get("https://shop.test/a").origin_form());
    for wire in [&mut plain, &mut encrypted] {
        assert_eq!(wire.response().status, 200);
        wire.expect_close();
    }
}

#[test]
fn one_connection_serves_many_origins() {
    let origin = Origin::start();
    for host in ["a.test", "b.test", "c.test"] {
        origin.site(host).page("/", Reply::text(host));
    }
    let proxy = Wayleave::start(&origin);
    let mut wire = proxy.connect();
    for host in ["a.test", "b.test", "c.test", "a.test"] {
        let url = format!("http://{host}/");
        wire.send_get(&url);
        assert_eq!(wire.response().text(), host);
    }
}

#[test]
fn an_authenticated_connection_serves_no_other_client() {
    let origin = Origin::start();
    let challenge = Reply::new(401).header("WWW-Authenticate", "NTLM TlRMTVNTUAACAAAA");
    origin.site("shop.test").page("/challenge", challenge);
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("http://shop.test/a").status, 200);
    let connection = |target: &str| origin.wait_for_target(target).connection;
    // RFC 4559 section 6: NTLM and Negotiate hold for the connection, so it must not be shared.
    assert_eq!(proxy.get("http://shop.test/challenge").status, 401);
    assert_eq!(proxy.get("http://shop.test/b").status, 200);
    assert_ne!(connection("/b"), connection("/challenge"));
    for scheme in ["NTLM", "negotiate"] {
        let (mine, other) = (format!("/{scheme}"), format!("/{scheme}/other"));
        let request = Request::get(&format!("http://shop.test{mine}"));
        let request = request.header("Authorization", &format!("{scheme} TlRMTVNTUAADAAAA"));
        assert_eq!(proxy.exchange(&request).status, 200);
        assert_eq!(proxy.get(&format!("http://shop.test{other}")).status, 200);
        assert_ne!(connection(&other), connection(&mine), "{scheme}");
    }
}

#[test]
fn pipelined_requests_are_served_in_order() {
    let origin = Origin::start();
    origin
        .site("shop.test")
        .disallows("/no")
        .page("/1", Reply::text("one"))
        .page("/3", Reply::text("three"));
    let proxy = Wayleave::start(&origin);
    let mut wire = proxy.connect();
    let get = |path: &str| Request::get(&format!("http://shop.test{path}")).absolute_form();
    wire.send([get("/1"), get("/no"), get("/3")].concat());
    assert_eq!(wire.response().text(), "one");
    assert_eq!(wire.response().status, 403);
    assert_eq!(wire.response().text(), "three");
    assert_eq!(
        origin.seen(),
        ["GET http://shop.test/robots.txt", "GET http://shop.test/1", "GET http://shop.test/3"]
    );
}

#[test]
fn a_refusal_keeps_the_connection_and_its_body_is_not_a_request() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/no").page("/yes", Reply::text("yes"));
    let proxy = Wayleave::start(&origin);
    let mut wire = proxy.connect();
    let hidden = Request::get("http://shop.test/hidden").absolute_form();
    wire.send(Request::new("POST", "http://shop.test/no").body(hidden).absolute_form());
    assert_eq!(wire.response().status, 403);
    wire.send_get("http://shop.test/yes");
    assert_eq!(wire.response().text(), "yes");
    assert_eq!(origin.seen(), ["GET http://shop.test/robots.txt", "GET http://shop.test/yes"]);
}

#[test]
fn an_http_1_0_client_gets_no_chunks() {
    let origin = Origin::start();
    origin
        .site("shop.test")
        .page("/a", Reply::text("chunked at the origin").framing(Framing::Chunked));
    let proxy = Wayleave::start(&origin);
    let mut wire = proxy.connect();
    wire.send("GET http://shop.test/a HTTP/1.0\r\nUser-Agent: ExampleBot\r\n\r\n");
    let answer = wire.response();
    assert_eq!(answer.header("transfer-encoding"), None, "{answer:?}");
    assert_eq!(answer.text(), "chunked at the origin");
    wire.expect_close();
    assert_eq!(origin.only_request().header("host"), Some("shop.test"));
}

#[test]
fn an_https_url_in_absolute_form_is_fetched_over_tls() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/private").page("/a", Reply::text("secret"));
    let proxy = Wayleave::start(&origin);
    let mut wire = proxy.connect();
    wire.send_get("https://shop.test/a");
    assert_eq!(wire.response().text(), "secret");
    wire.send_get("https://shop.test/private");
    wire.response().expect_disallowed("https://shop.test/robots.txt", 2, "Disallow: /private");
    assert_eq!(origin.seen(), ["GET https://shop.test/robots.txt", "GET https://shop.test/a"]);
}

#[test]
fn options_for_a_whole_server_arrives_as_an_asterisk() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let mut wire = proxy.connect();
    wire.send(Request::new("OPTIONS", "http://shop.test").absolute_form());
    assert_eq!(wire.response().status, 200);
    assert_eq!(origin.only_request().target, "*");
}
