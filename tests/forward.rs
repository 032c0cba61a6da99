//! Plain HTTP: what reaches the origin, what comes back, and what happens to the connection in between.

use crate::harness::origin::reply::{Framing, Step};
use crate::harness::{Ask, Gate, Origin, Reply, Wayleave};

#[test]
fn an_allowed_request_arrives_in_origin_form() {
    let origin = Origin::start();
    origin
        .site("shop.test")
        .robots("User-agent: *\nDisallow: /private\n")
        .page("/a?b=c", Reply::text("hello"));
    let proxy = Wayleave::start(&origin);
    let answer = proxy.get("http://shop.test/a?b=c");
    assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
    assert_eq!(
        origin.seen(),
        [
            "GET http://shop.test/robots.txt",
            "GET http://shop.test/a?b=c"
        ]
    );
    assert_eq!(
        origin.only_request().header("user-agent"),
        Some("ExampleBot/1.0")
    );
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
            origin
                .requests()
                .last()
                .map(|request| request.target.clone())
                .as_deref(),
            Some(path)
        );
    }
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
        wire.send(Ask::get("http://shop.test/").bytes(target));
        assert_eq!(wire.response().status, 200, "{target}");
        assert_eq!(
            origin
                .requests()
                .last()
                .map(|request| request.target.clone())
                .as_deref(),
            Some(arrives),
            "{target}"
        );
    }
}

#[test]
fn the_absolute_form_decides_and_host_is_replaced() {
    let origin = Origin::start();
    origin
        .site("other.test")
        .robots("User-agent: *\nDisallow: /\n");
    let proxy = Wayleave::start(&origin);
    let answer = proxy.exchange(&Ask::get("http://shop.test/a").header("Host", "other.test"));
    assert_eq!(answer.status, 200);
    assert_eq!(
        origin.seen(),
        ["GET http://shop.test/robots.txt", "GET http://shop.test/a"]
    );
    let hosts = origin
        .only_request()
        .headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("host"))
        .count();
    assert_eq!(hosts, 1);
}

#[test]
fn another_port_is_another_origin_and_stays_in_host() {
    let origin = Origin::start();
    origin
        .site("shop.test")
        .robots("User-agent: *\nDisallow: /private\n");
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.resolve("shop.test:8080", origin.http)
    });
    assert_eq!(proxy.get("http://shop.test:8080/a").status, 200);
    assert_eq!(
        origin.seen(),
        [
            "GET http://shop.test:8080/robots.txt",
            "GET http://shop.test:8080/a"
        ]
    );
}

#[test]
fn an_address_in_place_of_a_name_is_an_origin_too() {
    let origin = Origin::start();
    origin
        .site("127.0.0.1")
        .robots("User-agent: *\nDisallow: /private\n");
    let proxy = Wayleave::start(&origin);
    let base = format!("http://{}", origin.http);
    assert_eq!(proxy.get(&format!("{base}/a")).status, 200);
    proxy.get(&format!("{base}/private")).expect_disallowed(
        &format!("{base}/robots.txt"),
        2,
        "Disallow: /private",
    );
    assert_eq!(
        origin.seen(),
        [format!("GET {base}/robots.txt"), format!("GET {base}/a")]
    );
}

#[test]
fn fields_of_this_hop_go_and_via_comes() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let ask = Ask::get("http://shop.test/a")
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
    assert_eq!(proxy.exchange(&ask).status, 200);
    let arrived = origin.only_request();
    for name in [
        "x-gone",
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
        "proxy-anything",
        "te",
    ] {
        assert_eq!(arrived.header(name), None, "{name} must not be forwarded");
    }
    assert_eq!(arrived.header("x-kept"), Some("yes"));
    assert_eq!(arrived.header("cookie"), Some("a=b"));
    let connection = arrived
        .header("connection")
        .unwrap_or_default()
        .to_ascii_lowercase();
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
fn fields_of_the_origins_hop_go_and_via_comes() {
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
    for name in [
        "x-gone",
        "keep-alive",
        "proxy-authenticate",
        "proxy-connection",
    ] {
        assert_eq!(answer.header(name), None, "{name} must not be forwarded");
    }
    assert_eq!(answer.header("x-kept"), Some("yes"));
    assert_eq!(
        answer
            .headers
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"))
            .count(),
        2
    );
    assert_eq!(answer.header("via"), Some("1.1 wayleave"));
}

#[test]
fn answers_without_a_body_keep_the_connection_in_step() {
    let origin = Origin::start();
    origin
        .site("shop.test")
        .page("/none", Reply::new(204))
        .page("/same", Reply::new(304).header("ETag", "\"v1\""))
        .page("/empty", Reply::new(200))
        .page("/big", Reply::text(vec![b'x'; 5000]))
        .page("/end", Reply::text("end"));
    let proxy = Wayleave::start(&origin);
    let mut wire = proxy.connect();
    for (path, status) in [("/none", 204), ("/same", 304), ("/empty", 200)] {
        wire.send(Ask::get("http://shop.test/").bytes(&format!("http://shop.test{path}")));
        let answer = wire.response();
        assert_eq!((answer.status, answer.body.len()), (status, 0), "{path}");
    }
    wire.send(Ask::new("HEAD", "http://shop.test/big").bytes("http://shop.test/big"));
    let head = wire.response_to_head();
    assert_eq!(
        (head.status, head.header("content-length")),
        (200, Some("5000"))
    );
    wire.send(Ask::get("http://shop.test/end").bytes("http://shop.test/end"));
    assert_eq!(wire.response().text(), "end");
}

#[test]
fn both_connections_are_kept_alive_and_used_again() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let mut wire = proxy.connect();
    for path in ["/1", "/2", "/3"] {
        wire.send(Ask::get("http://shop.test/").bytes(&format!("http://shop.test{path}")));
        assert_eq!(wire.response().status, 200);
    }
    let connections: Vec<_> = origin
        .requests()
        .iter()
        .filter(|request| request.target != "/robots.txt")
        .map(|request| request.connection)
        .collect();
    assert_eq!(connections.len(), 3);
    assert!(
        connections.iter().all(|number| *number == connections[0]),
        "{connections:?}"
    );
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
        wire.send(Ask::get(&url).bytes(&url));
        assert_eq!(wire.response().text(), host);
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let origin = Origin::start();
    origin
        .site("shop.test")
        .robots("User-agent: *\nDisallow: /no\n")
        .page("/1", Reply::text("one"))
        .page("/3", Reply::text("three"));
    let proxy = Wayleave::start(&origin);
    let mut wire = proxy.connect();
    let ask = |path: &str| Ask::get("http://shop.test/").bytes(&format!("http://shop.test{path}"));
    wire.send([ask("/1"), ask("/no"), ask("/3")].concat());
    assert_eq!(wire.response().text(), "one");
    assert_eq!(wire.response().status, 403);
    assert_eq!(wire.response().text(), "three");
    assert_eq!(
        origin.seen(),
        [
            "GET http://shop.test/robots.txt",
            "GET http://shop.test/1",
            "GET http://shop.test/3"
        ]
    );
}

#[test]
fn a_refusal_keeps_the_connection_and_its_body_is_not_a_request() {
    let origin = Origin::start();
    origin
        .site("shop.test")
        .robots("User-agent: *\nDisallow: /no\n")
        .page("/yes", Reply::text("yes"));
    let proxy = Wayleave::start(&origin);
    let mut wire = proxy.connect();
    let hidden = Ask::get("http://shop.test/hidden").bytes("http://shop.test/hidden");
    wire.send(
        Ask::new("POST", "http://shop.test/no")
            .body(hidden)
            .bytes("http://shop.test/no"),
    );
    assert_eq!(wire.response().status, 403);
    wire.send(Ask::get("http://shop.test/yes").bytes("http://shop.test/yes"));
    assert_eq!(wire.response().text(), "yes");
    assert_eq!(
        origin.seen(),
        [
            "GET http://shop.test/robots.txt",
            "GET http://shop.test/yes"
        ]
    );
}

#[test]
fn an_http_1_0_client_gets_what_it_can_read() {
    let origin = Origin::start();
    origin.site("shop.test").page(
        "/a",
        Reply::text("chunked at the origin").framing(Framing::Chunked),
    );
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
fn bodies_and_trailers_pass_both_ways() {
    let origin = Origin::start();
    origin
        .site("shop.test")
        .page("/up", Reply::text("down").framing(Framing::Chunked))
        .page(
            "/trailers",
            Reply::text("body")
                .header("Trailer", "X-Sum")
                .trailer("X-Sum", "42"),
        );
    let proxy = Wayleave::start(&origin);
    assert_eq!(
        proxy
            .exchange(&Ask::new("PUT", "http://shop.test/up").body("some bytes"))
            .text(),
        "down"
    );
    let chunked = "5\r\nhello\r\n6\r\n world\r\n0\r\nX-Check: 7\r\n\r\n";
    let ask = Ask::new("POST", "http://shop.test/up")
        .header("Transfer-Encoding", "chunked")
        .header("Trailer", "X-Check")
        .body(chunked);
    assert_eq!(proxy.exchange(&ask).text(), "down");
    let bodies: Vec<_> = origin.requests()[1..]
        .iter()
        .map(|request| request.body())
        .collect();
    assert_eq!(bodies[0].start, b"some bytes");
    assert_eq!(bodies[1].start, b"hello world");
    assert_eq!(bodies[1].trailers, [("X-Check".to_owned(), "7".to_owned())]);
    let answer = proxy.get("http://shop.test/trailers");
    assert_eq!(answer.text(), "body");
    let trailers: Vec<_> = answer
        .trailers
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), value.as_str()))
        .collect();
    assert_eq!(trailers, [("x-sum".to_owned(), "42")]);
}

#[test]
fn a_body_that_waits_for_100_continue_arrives() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let mut wire = proxy.connect();
    wire.send("POST http://shop.test/up HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: ExampleBot\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    let interim = wire.response_head();
    assert_eq!(interim.status, 100);
    wire.send("hello");
    assert_eq!(wire.response().status, 200);
    assert_eq!(origin.only_request().body().start, b"hello");
}

#[test]
fn encoded_bodies_are_not_touched() {
    let origin = Origin::start();
    let bytes: Vec<u8> = (0..=255).collect();
    origin.site("shop.test").page(
        "/z",
        Reply::new(200)
            .header("Content-Encoding", "gzip")
            .header("ETag", "\"v\"")
            .body(&bytes),
    );
    let proxy = Wayleave::start(&origin);
    let answer = proxy.exchange(&Ask::get("http://shop.test/z").header("Accept-Encoding", "gzip"));
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
    assert_eq!(answer.body, bytes);
}

#[test]
fn a_body_until_close_ends_where_the_origin_closed() {
    let origin = Origin::start();
    origin.site("shop.test").page(
        "/a",
        Reply::text("all there is").framing(Framing::UntilClose),
    );
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("http://shop.test/a").text(), "all there is");
}

#[test]
fn a_download_streams_while_the_origin_still_sends() {
    let origin = Origin::start();
    let gate = Gate::closed();
    let slow = Reply::new(200)
        .body("first half,")
        .step(Step::Wait(gate.clone()))
        .body("second half");
    origin.site("shop.test").page("/slow", slow);
    let proxy = Wayleave::start(&origin);
    let mut wire = proxy.connect();
    wire.send(Ask::get("http://shop.test/slow").bytes("http://shop.test/slow"));
    assert_eq!(wire.response_head().header("content-length"), Some("22"));
    assert_eq!(wire.bytes(11), b"first half,");
    gate.open();
    assert_eq!(wire.bytes(11), b"second half");
}

#[test]
fn an_upload_streams_while_the_client_still_sends() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let mut wire = proxy.connect();
    wire.send(
        Ask::new("POST", "http://shop.test/up")
            .header("Content-Length", "22")
            .bytes("http://shop.test/up"),
    );
    wire.send("first half,");
    let arriving = origin.wait_for_target("/up");
    origin.wait_for("the first half", |_| arriving.body().length == 11);
    wire.send("second half");
    assert_eq!(wire.response().status, 200);
    assert_eq!(arriving.body().start, b"first half,second half");
}

#[test]
fn sixty_four_mebibytes_pass_in_flat_memory() {
    const LENGTH: u64 = 64 << 20;
    let origin = Origin::start();
    origin
        .site("shop.test")
        .page("/down", Reply::new(200).step(Step::Pattern(LENGTH)));
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("http://shop.test/warm").status, 200);
    let before = proxy.memory_kib("VmHWM");
    let mut wire = proxy.connect();
    wire.send(Ask::get("http://shop.test/down").bytes("http://shop.test/down"));
    let mut head = wire.response_head();
    let body = wire
        .counted_body(&mut head)
        .expect("the whole body arrives");
    assert_eq!((body.length, body.off_pattern), (LENGTH, false));
    wire.send(
        Ask::new("POST", "http://shop.test/up")
            .header("Content-Length", &LENGTH.to_string())
            .bytes("http://shop.test/up"),
    );
    let mut sent = 0;
    while sent < LENGTH {
        let piece: Vec<u8> = (sent..sent + 65_536)
            .map(crate::harness::origin::reply::pattern_byte)
            .collect();
        wire.send(&piece);
        sent += 65_536;
    }
    assert_eq!(wire.response().status, 200);
    let arrived = origin.wait_for_target("/up").body();
    assert_eq!((arrived.length, arrived.off_pattern), (LENGTH, false));
    let grown = proxy.memory_kib("VmHWM").saturating_sub(before);
    assert!(
        grown < 16 * 1024,
        "128 MiB passed, and memory grew by {grown} KiB"
    );
}

#[test]
fn an_https_url_in_absolute_form_is_fetched_over_tls() {
    let origin = Origin::start();
    origin
        .site("shop.test")
        .robots("User-agent: *\nDisallow: /private\n")
        .page("/a", Reply::text("secret"));
    let proxy = Wayleave::start(&origin);
    let mut wire = proxy.connect();
    wire.send(Ask::get("https://shop.test/a").bytes("https://shop.test/a"));
    assert_eq!(wire.response().text(), "secret");
    wire.send(Ask::get("https://shop.test/private").bytes("https://shop.test/private"));
    wire.response()
        .expect_disallowed("https://shop.test/robots.txt", 2, "Disallow: /private");
    assert_eq!(
        origin.seen(),
        [
            "GET https://shop.test/robots.txt",
            "GET https://shop.test/a"
        ]
    );
}

#[test]
fn a_websocket_upgrade_becomes_a_pipe() {
    let origin = Origin::start();
    let reply = Reply::new(101)
        .header("Upgrade", "websocket")
        .header("Connection", "Upgrade")
        .header("Sec-WebSocket-Accept", "x")
        .step(Step::Echo);
    origin
        .site("shop.test")
        .robots("User-agent: *\nDisallow: /private\n")
        .page("/ws", reply.clone())
        .page("/private/ws", reply);
    let proxy = Wayleave::start(&origin);
    let ask = |path: &str| {
        let url = format!("http://shop.test{path}");
        Ask::get(&url)
            .header("Connection", "Upgrade")
            .header("Upgrade", "websocket")
            .header("Sec-WebSocket-Key", "x")
            .bytes(&url)
    };
    let mut wire = proxy.connect();
    wire.send(ask("/ws"));
    let head = wire.response_head();
    assert_eq!(
        (head.status, head.header("upgrade")),
        (101, Some("websocket"))
    );
    wire.send("ping");
    assert_eq!(wire.bytes(4), b"ping");
    wire.send("pong");
    assert_eq!(wire.bytes(4), b"pong");
    let mut refused = proxy.connect();
    refused.send(ask("/private/ws"));
    refused
        .response()
        .expect_disallowed("http://shop.test/robots.txt", 2, "Disallow: /private");
}

#[test]
fn options_for_a_whole_server_arrives_as_an_asterisk() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let mut wire = proxy.connect();
    wire.send(Ask::new("OPTIONS", "http://shop.test").bytes("http://shop.test"));
    assert_eq!(wire.response().status, 200);
    assert_eq!(origin.only_request().target, "*");
}
