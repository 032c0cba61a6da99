//! Content over plain HTTP: complete, in chunks, endless, or absent.

use crate::harness::origin::reply::{Framing, Step, pattern_pieces};
use crate::harness::{Gate, Origin, Reply, Request, Wayleave, eventually};

#[test]
fn responses_without_a_body_keep_the_connection_usable() {
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
        wire.send_get(&format!("http://shop.test{path}"));
        let answer = wire.response();
        assert_eq!((answer.status, answer.body.len()), (status, 0), "{path}");
    }
    wire.send(Request::new("HEAD", "http://shop.test/big").absolute_form());
    let head = wire.response_to_head();
    assert_eq!((head.status, head.header("content-length")), (200, Some("5000")));
    wire.send_get("http://shop.test/end");
    assert_eq!(wire.response().text(), "end");
}

#[test]
fn bodies_pass_both_ways() {
    let origin = Origin::start();
    origin.site("shop.test").page("/up", Reply::text("down").framing(Framing::Chunked));
    let proxy = Wayleave::start(&origin);
    let sized = Request::new("PUT", "http://shop.test/up").body("hello world");
    let chunks = "5\r\nhello\r\n6;extension=1\r\n world\r\n0\r\n\r\n";
    let chunked = Request::new("POST", "http://shop.test/up")
        .header("Transfer-Encoding", "chunked")
        .body(chunks);
    for request in [sized, chunked] {
        assert_eq!(proxy.exchange(&request).text(), "down");
    }
    let requests = origin.requests();
    assert_eq!(requests.len(), 3);
    for request in &requests[1..] {
        assert_eq!(request.body().start, b"hello world", "{}", request.method);
    }
}

#[test]
fn trailers_pass_both_ways() {
    let origin = Origin::start();
    let reply = Reply::text("body").header("Trailer", "X-Sum").trailer("X-Sum", "42");
    origin.site("shop.test").page("/trailers", reply);
    let proxy = Wayleave::start(&origin);
    let request = Request::new("POST", "http://shop.test/trailers")
        .header("Transfer-Encoding", "chunked")
        .header("Trailer", "X-Check")
        .body("5\r\nhello\r\n0\r\nX-Check: 7\r\n\r\n");
    let answer = proxy.exchange(&request);
    assert_eq!(answer.text(), "body");
    let arrived = origin.only_request().body();
    assert_eq!(arrived.trailers, [("X-Check".to_owned(), "7".to_owned())]);
    let trailer =
        answer.trailers.first().map(|(name, value)| (name.to_ascii_lowercase(), value.as_str()));
    assert_eq!(trailer, Some(("x-sum".to_owned(), "42")));
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
fn encoded_bodies_are_not_changed() {
    let origin = Origin::start();
    let bytes: Vec<u8> = (0..=255).collect();
    origin.site("shop.test").page(
        "/z",
        Reply::new(200).header("Content-Encoding", "gzip").header("ETag", "\"v\"").body(&bytes),
    );
    let proxy = Wayleave::start(&origin);
    let answer =
        proxy.exchange(&Request::get("http://shop.test/z").header("Accept-Encoding", "gzip"));
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
    assert_eq!(answer.body, bytes);
}

#[test]
fn ranges_are_left_to_the_origin() {
    let origin = Origin::start();
    let part = Reply::new(206).header("Content-Range", "bytes 2-4/9").body("cde");
    origin.site("shop.test").page("/part", part);
    let proxy = Wayleave::start(&origin);
    let request = Request::get("http://shop.test/part")
        .header("Range", "bytes=2-4")
        .header("If-Range", "\"v1\"");
    let answer = proxy.exchange(&request);
    assert_eq!((answer.status, answer.text().as_str()), (206, "cde"));
    assert_eq!(answer.header("content-range"), Some("bytes 2-4/9"));
    let request = origin.only_request();
    assert_eq!(request.header("range"), Some("bytes=2-4"));
    assert_eq!(request.header("if-range"), Some("\"v1\""));
}

#[test]
fn a_body_until_close_ends_where_the_origin_closed() {
    let origin = Origin::start();
    origin.site("shop.test").page("/a", Reply::text("all there is").framing(Framing::UntilClose));
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("http://shop.test/a").text(), "all there is");
}

#[test]
fn a_download_streams_while_the_origin_still_sends() {
    let origin = Origin::start();
    let gate = Gate::closed();
    origin.site("shop.test").page("/slow", Reply::in_halves(&gate));
    let proxy = Wayleave::start(&origin);
    let mut wire = proxy.connect();
    wire.send_get("http://shop.test/slow");
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
        Request::new("POST", "http://shop.test/up").header("Content-Length", "22").absolute_form(),
    );
    wire.send("first half,");
    let arriving = origin.wait_for_target("/up");
    origin.wait_for("the first half", |_| arriving.body().length == 11);
    wire.send("second half");
    assert_eq!(wire.response().status, 200);
    assert_eq!(arriving.body().start, b"first half,second half");
}

#[test]
fn a_client_that_closes_frees_the_connection_to_the_origin() {
    let origin = Origin::start();
    origin.site("shop.test").page("/endless", Reply::new(200).step(Step::Pattern(1 << 40)));
    let proxy = Wayleave::start(&origin);
    let open = || proxy.metric("wayleave_upstream_connections", &[]);
    for scheme in ["http", "https"] {
        let request = Request::get(&format!("{scheme}://shop.test/endless"));
        let (mut wire, bytes) = match scheme {
            "https" => (proxy.tunnel("shop.test:443"), request.origin_form()),
            _ => (proxy.connect(), request.absolute_form()),
        };
        wire.send(bytes);
        wire.response_head();
        eventually("a connection is in use", || open() == 1.0);
        drop(wire);
        eventually("the origin's connection is free", || open() == 0.0);
    }
    eventually("both are counted", || {
        proxy.metric("wayleave_requests_total", &[("outcome", "failed")]) == 2.0
    });
    assert_eq!(proxy.get("http://shop.test/a").status, 200);
}

#[test]
fn sixty_four_mebibytes_pass_in_flat_memory() {
    const LENGTH: u64 = 64 << 20;
    let origin = Origin::start();
    origin.site("shop.test").page("/down", Reply::new(200).step(Step::Pattern(LENGTH)));
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("http://shop.test/warm").status, 200);
    let before = proxy.memory_kib("VmHWM");
    let mut wire = proxy.connect();
    wire.send_get("http://shop.test/down");
    let mut head = wire.response_head();
    let body = wire.counted_body(&mut head).expect("the whole body arrives");
    assert_eq!((body.length, body.off_pattern), (LENGTH, false));
    wire.send(
        Request::new("POST", "http://shop.test/up")
            .header("Content-Length", &LENGTH.to_string())
            .absolute_form(),
    );
    for piece in pattern_pieces(LENGTH) {
        wire.send(piece);
    }
    assert_eq!(wire.response().status, 200);
    let arrived = origin.wait_for_target("/up").body();
    assert_eq!((arrived.length, arrived.off_pattern), (LENGTH, false));
    let grown = proxy.memory_kib("VmHWM").saturating_sub(before);
    assert!(grown < 16 * 1024, "128 MiB passed, and memory grew by {grown} KiB");
}

#[test]
fn a_websocket_upgrade_becomes_a_pipe() {
    let origin = Origin::start();
    origin
        .site("shop.test")
        .disallows("/private")
        .page("/ws", Reply::websocket())
        .page("/private/ws", Reply::websocket());
    let proxy = Wayleave::start(&origin);
    let request = |path: &str| {
        let url = format!("http://shop.test{path}");
        Request::get(&url).websocket().absolute_form()
    };
    let mut wire = proxy.connect();
    wire.send(request("/ws"));
    let head = wire.response_head();
    assert_eq!((head.status, head.header("upgrade")), (101, Some("websocket")));
    wire.send("ping");
    assert_eq!(wire.bytes(4), b"ping");
    wire.send("pong");
    assert_eq!(wire.bytes(4), b"pong");
    let mut refused = proxy.connect();
    refused.send(request("/private/ws"));
    refused.response().expect_disallowed("http://shop.test/robots.txt", 2, "Disallow: /private");
}

#[test]
fn a_client_that_does_not_read_slows_the_origin_down() {
    const LENGTH: u64 = 64 << 20;
    let origin = Origin::start();
    let page = |length| Reply::new(200).step(Step::Pattern(length));
    origin.site("shop.test").page("/endless", page(1 << 40)).page("/long", page(LENGTH));
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("http://shop.test/warm").status, 200);
    let before = proxy.memory_kib("VmHWM");
    let mut idle = proxy.connect();
    idle.send_get("http://shop.test/endless");
    idle.response_head();
    let mut idle_inside = proxy.tunnel("shop.test:443");
    idle_inside.send(Request::get("https://shop.test/endless").origin_form());
    idle_inside.response_head();
    // Meanwhile as much as this could have been buffered for the others.
    let mut wire = proxy.connect();
    wire.send_get("http://shop.test/long");
    let mut head = wire.response_head();
    let body = wire.counted_body(&mut head).expect("the whole body arrives");
    assert_eq!((body.length, body.off_pattern), (LENGTH, false));
    let grown = proxy.memory_kib("VmHWM").saturating_sub(before);
    assert!(grown < 32 * 1024, "unread responses took {grown} KiB");
}

#[test]
fn content_is_sent_once_even_if_the_connection_fails() {
    let origin = Origin::start();
    for host in ["one.test", "two.test"] {
        let site = origin.site(host);
        site.page("/close", Reply::nothing(Step::Close))
            .page("/reset", Reply::nothing(Step::Reset));
    }
    let proxy = Wayleave::start(&origin);
    for site in ["http://one.test", "https://two.test"] {
        for page in ["close", "reset"] {
            // A reused connection may have been closed unnoticed.
            assert_eq!(proxy.get(&format!("{site}/")).status, 200);
            let url = format!("{site}/{page}");
            let posted = proxy.exchange(&Request::new("POST", &url).body("content"));
            assert_eq!(posted.status, 502, "{url}");
        }
    }
    let requests = origin.requests();
    let posts = requests.iter().filter(|request| request.method == "POST");
    let posts: Vec<_> = posts.map(|post| format!("{}{}", post.host(), post.target)).collect();
    let once = ["one.test/close", "one.test/reset", "two.test/close", "two.test/reset"];
    assert_eq!(posts, once);
}
