//! HTTP/2 inside intercepted tunnels, to origins of either version.

use std::time::Duration;

use crate::harness::h2_frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, block, open, request, swollen,
};
use crate::harness::origin::SiteHandle;
use crate::harness::origin::reply::{Framing, Step, is_pattern, pattern};
use crate::harness::{
    DEADLINE, H2Client, Origin, Reply, Request, Response, Wayleave, Wire, eventually,
};

#[test]
fn http_2_inside_is_decided_stream_by_stream() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/private").page("/a", Reply::text("hello"));
    let proxy = Wayleave::start(&origin);
    let client = proxy.http2("shop.test:443");
    assert_eq!(client.get("/a").text(), "hello");
    let refused = client.get("/private/x?y");
    refused.expect_disallowed("https://shop.test/robots.txt", 2, "Disallow: /private");
    assert_eq!(client.get("/a").text(), "hello");
    let requests: Vec<_> = (0..40)
        .map(|number| {
            Request::get(&format!(
                "https://shop.test/{}{number}",
                if number % 2 == 0 { "ok/" } else { "private/" }
            ))
        })
        .collect();
    let statuses: Vec<_> =
        client.exchange_all(&requests).iter().map(|answer| answer.status).collect();
    assert!(statuses.chunks(2).all(|pair| pair == [200, 403]), "{statuses:?}");
    assert!(!origin.seen().iter().any(|line| line.contains("/private")), "{:?}", origin.seen());
    assert_eq!(origin.seen().iter().filter(|line| line.ends_with("/robots.txt")).count(), 1);
}

/// Sends the same POST by HTTP/1.1 and HTTP/2 to origins of HTTP/1.1, of both, and of HTTP/2. Returns a description of each
/// pair, and the response.
fn post_between_all_versions(origin: &Origin, reply: &Reply) -> Vec<(String, Response)> {
    origin.site("old.test").http1_only().page("/t", reply.clone());
    origin.site("both.test").page("/t", reply.clone());
    origin.site("new.test").http2_only().page("/t", reply.clone());
    let proxy = Wayleave::start(origin);
    let mut answers = Vec::new();
    for host in ["old.test", "both.test", "new.test"] {
        let request = Request::new("POST", &format!("https://{host}/t")).body("upload");
        let mut wire = proxy.tunnel(&format!("{host}:443"));
        wire.send(request.origin_form());
        answers.push((format!("HTTP/1.1 to {host}"), wire.response()));
        let client = proxy.http2(&format!("{host}:443"));
        answers.push((format!("HTTP/2 to {host}"), client.exchange(&request)));
    }
    answers
}

#[test]
fn every_pair_of_http_versions_carries_bodies() {
    let origin = Origin::start();
    for (pair, answer) in post_between_all_versions(&origin, &Reply::text("body")) {
        assert_eq!((answer.status, answer.text().as_str()), (200, "body"), "{pair}: {answer:?}");
    }
    let requests = origin.requests();
    let posts: Vec<_> = requests.iter().filter(|request| request.method == "POST").collect();
    assert_eq!(posts.len(), 6);
    for post in &posts {
        assert_eq!(post.body().start, b"upload");
        let via = post.header("via").unwrap_or_default();
        assert!(via.ends_with("wayleave"), "{post:?}");
    }
    // In the order of sending: a request by HTTP/1.1 is forwarded by HTTP/1.1 if the origin supports it.
    let versions: Vec<_> = posts.iter().map(|post| post.version).collect();
    assert_eq!(versions, ["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/2", "HTTP/2", "HTTP/2"]);
}

#[test]
fn origins_of_http_2_only_are_obeyed_and_reached() {
    let origin = Origin::start();
    let robots = "User-agent: *\nDisallow: /private\n";
    let agreed = origin.site("agreed.test").http2_only();
    let assumed = origin.site("assumed.test").http2_without_agreement();
    for site in [agreed, assumed] {
        site.robots(robots).page("/a", Reply::text("page"));
    }
    let proxy = Wayleave::start(&origin);
    for host in ["agreed.test", "assumed.test"] {
        let url = |path: &str| format!("https://{host}{path}");
        let refused = proxy.get(&url("/private"));
        refused.expect_disallowed(&url("/robots.txt"), 2, "Disallow: /private");
        assert_eq!(proxy.get(&url("/a")).text(), "page", "{host}");
        let client = proxy.http2(&format!("{host}:443"));
        assert_eq!(client.get("/private").status, 403, "{host}");
        assert_eq!(client.get("/a").text(), "page", "{host}");
    }
    let requests = origin.requests();
    let seen = requests.iter().map(|request| (request.version, &*request.target));
    let of_each = [("HTTP/2", "/robots.txt"), ("HTTP/2", "/a"), ("HTTP/2", "/a")];
    assert_eq!(seen.collect::<Vec<_>>(), of_each.repeat(2));
}

#[test]
fn an_origin_without_alpn_is_offered_http_2_only_once() {
    let origin = Origin::start();
    let closing = Reply::text("page").framing(Framing::UntilClose);
    let site = origin.site("old.test").without_alpn();
    site.robots("User-agent: *\nDisallow:\n").page("/a", closing);
    let proxy = Wayleave::start(&origin);
    let mut opened = Vec::new();
    for _ in 0..4 {
        let before = origin.connections();
        assert_eq!(proxy.get("https://old.test/a").text(), "page");
        opened.push(origin.connections() - before);
    }
    // Two for robots.txt; the second of them also serves the first request.
    assert_eq!(opened, [2, 1, 1, 1]);
    let requests = origin.requests();
    assert!(requests.iter().all(|request| request.version == "HTTP/1.1"));
}

#[test]
fn an_empty_response_arrives_from_a_stream_without_end() {
    let origin = Origin::start();
    let empty = Reply::new(200).step(Step::Hang);
    origin.site("shop.test").http2_only().page("/empty", empty.framing(Framing::Length));
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("upstream.response_timeout", "\"3s\"")
    });
    let answer = proxy.get("https://shop.test/empty");
    assert_eq!((answer.status, &*answer.text()), (200, ""));
    let answer = proxy.http2("shop.test:443").get("/empty");
    assert_eq!((answer.status, &*answer.text()), (200, ""));
    eventually("all connections are free", || {
        proxy.metric("wayleave_upstream_connections", &[]) == 0.0
    });
}

#[test]
fn connections_of_broken_streams_obey_the_limit_of_the_pool() {
    let origin = Origin::start();
    origin.site("*").http2_only().page("/hang", Reply::raw("", Step::Hang));
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("upstream.response_timeout", "\"3s\"").set("upstream.idle_connections", "1")
    });
    let open = || proxy.metric("process_open_fds", &[]);
    let before = open();
    for number in 0..6 {
        let client = proxy.http2(&format!("h{number}.test:443"));
        assert_eq!(client.get("/hang").status, 504);
    }
    eventually("all but one are closed", || open() <= before + 2.0);
}

#[test]
fn trailers_pass_between_all_versions() {
    let origin = Origin::start();
    let reply = Reply::text("body").header("Trailer", "x-sum").trailer("x-sum", "42");
    for (pair, answer) in post_between_all_versions(&origin, &reply) {
        assert_eq!(answer.text(), "body", "{pair}");
        let sum = answer.trailers.iter().find(|(name, _)| name.eq_ignore_ascii_case("x-sum"));
        assert_eq!(sum.map(|(_, value)| value.as_str()), Some("42"), "{pair}: {answer:?}");
    }
}

#[test]
fn an_unsized_http_2_upload_keeps_the_connection_usable() {
    // pingora #935: without a length the end of the body was written twice and poisoned the next request.
    let origin = Origin::start();
    origin.site("old.test").http1_only().page("/next", Reply::text("next"));
    let proxy = Wayleave::start(&origin);
    let client = proxy.http2("old.test:443");
    for _ in 0..3 {
        assert_eq!(
            client
                .exchange(&Request::new("POST", "https://old.test/up").body("no length given"))
                .status,
            200
        );
        assert_eq!(client.get("/next").text(), "next");
    }
    let bodies: Vec<_> = origin
        .requests()
        .iter()
        .filter(|request| request.method == "POST")
        .map(|request| request.body().start)
        .collect();
    assert_eq!(bodies, vec![b"no length given".to_vec(); 3]);
}

#[test]
fn a_refused_upload_over_http_2_gets_its_refusal() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/private");
    let proxy = Wayleave::start(&origin);
    let client = proxy.http2("shop.test:443");
    let upload = vec![b'x'; 40_000];
    let answer = client.exchange(&Request::new("POST", "https://shop.test/private").body(&upload));
    answer.expect_disallowed("https://shop.test/robots.txt", 2, "Disallow: /private");
    assert_eq!(client.get("/a").status, 200);
}

#[test]
fn sixty_four_mebibytes_pass_over_http_2_in_flat_memory() {
    const LENGTH: u64 = 64 << 20;
    let origin = Origin::start();
    origin.site("shop.test").page("/down", Reply::new(200).step(Step::Pattern(LENGTH)));
    let proxy = Wayleave::start(&origin);
    let client = proxy.http2("shop.test:443");
    assert_eq!(client.get("/warm").status, 200);
    let before = proxy.memory_kib("VmHWM");
    let down = client.get("/down");
    assert_eq!(down.body.len() as u64, LENGTH);
    assert!(is_pattern(&down.body, 0), "bytes were lost or mixed up");
    let up = pattern(LENGTH);
    assert_eq!(client.exchange(&Request::new("POST", "https://shop.test/up").body(up)).status, 200);
    let arrived = origin.wait_for_target("/up").body();
    assert_eq!((arrived.length, arrived.off_pattern), (LENGTH, false));
    let grown = proxy.memory_kib("VmHWM").saturating_sub(before);
    // The windows of both connections may fill; the bodies are four times as long.
    assert!(grown < 32 * 1024, "128 MiB passed, and memory grew by {grown} KiB");
}

#[test]
fn another_authority_over_http_2_is_misdirected() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let client = proxy.http2("shop.test:443");
    client.exchange(&Request::get("https://other.test/a")).expect_refusal(
        421,
        None,
        "http_request_error",
    );
    assert_eq!(origin.connections(), 0, "{:?}", origin.seen());
    assert_eq!(client.get("/a").status, 200);
}

#[test]
fn two_names_over_http_2_are_malformed() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let client = proxy.http2("shop.test:443");
    let request = Request::get("https://shop.test/a").agent("NewsBot/1");
    client.exchange(&request.header("User-Agent", "ImageBot/1")).expect_refusal(
        400,
        None,
        "http_request_error",
    );
    assert_eq!(origin.connections(), 0, "{:?}", origin.seen());
}

#[test]
fn responses_without_a_body_end_their_stream() {
    let origin = Origin::start();
    origin
        .site("shop.test")
        .page("/none", Reply::new(204))
        .page("/same", Reply::new(304).header("ETag", "\"v1\""))
        .page("/chunked", Reply::text("x").framing(Framing::Chunked))
        .page("/big", Reply::text(vec![b'x'; 5000]));
    let proxy = Wayleave::start(&origin);
    let client = proxy.http2("shop.test:443");
    for (path, status, length) in [("/none", 204, 0), ("/same", 304, 0), ("/chunked", 200, 1)] {
        let answer = client.get(path);
        assert_eq!((answer.status, answer.body.len()), (status, length), "{path}");
    }
    let head = client.exchange(&Request::new("HEAD", "https://shop.test/big"));
    assert_eq!(
        (head.status, head.header("content-length"), head.body.len()),
        (200, Some("5000"), 0)
    );
}

/// Adds a site whose robots.txt was fetched by HTTP/1.1, without a reusable connection, before it supports only HTTP/2.
pub fn known_before_http2_only<'a>(
    proxy: &Wayleave,
    origin: &'a Origin,
    host: &str,
) -> SiteHandle<'a> {
    let site = origin.site(host).http1_only();
    let last = Reply::new(404).framing(Framing::UntilClose);
    let site = site.robots_reply(last.clone()).page("/known", last);
    assert_eq!(proxy.get(&format!("https://{host}/known")).status, 404);
    site.http2_only()
}

#[test]
fn the_length_of_an_http_2_answer_is_sent_once() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let lengths: [(&str, &[&str], u16); 6] = [
        ("one", &["2"], 200),
        ("twice", &["2", "2"], 200),
        ("list", &["2, 2"], 502),
        ("other", &["2", "3"], 502),
        ("zero", &["02", "2"], 200),
        ("none", &["x"], 502),
    ];
    for (name, lengths, status) in lengths {
        let host = format!("{name}.test");
        let mut fields = vec![(":status", "200")];
        fields.extend(lengths.iter().map(|length| ("content-length", *length)));
        known_before_http2_only(&proxy, &origin, &host)
            .frames(&[(HEADERS, END_HEADERS, block(&fields)), (DATA, END_STREAM, b"ok".to_vec())]);
        let mut wire = proxy.tunnel(&format!("{host}:443"));
        wire.send(Request::get(&format!("https://{host}/a")).origin_form());
        let answer = wire.response();
        assert_eq!(answer.status, status, "{name}: {answer:?}");
        if status == 200 {
            let fields = answer
                .headers
                .iter()
                .filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
            let sent: Vec<_> = fields.map(|(_, value)| &**value).collect();
            assert_eq!(sent, ["2"], "{name}");
        }
    }
}

#[test]
fn empty_frames_do_not_end_a_response_by_http_2() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    known_before_http2_only(&proxy, &origin, "new.test").frames(&[
        (HEADERS, END_HEADERS, vec![0x88]),
        (DATA, 0, b"first,".to_vec()),
        (DATA, 0, Vec::new()),
        (DATA, 0, b"second".to_vec()),
        (DATA, END_STREAM, Vec::new()),
    ]);
    let mut wire = proxy.tunnel("new.test:443");
    for _ in 0..2 {
        wire.send(Request::get("https://new.test/a").origin_form());
        assert_eq!(wire.response().text(), "first,second");
    }
}

#[test]
fn an_empty_frame_ends_a_response_without_content() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("upstream.response_timeout", "\"5s\"")
    });
    for (name, method, status, field) in [
        ("none", "GET", "204", ("x", "y")),
        ("same", "GET", "304", ("etag", "\"a\"")),
        ("zero", "GET", "200", ("content-length", "0")),
        ("head", "HEAD", "200", ("content-length", "5")),
    ] {
        let host = format!("{name}.test");
        known_before_http2_only(&proxy, &origin, &host).frames(&[
            (HEADERS, END_HEADERS, block(&[(":status", status), field])),
            (DATA, 0, Vec::new()),
            (DATA, END_STREAM, Vec::new()),
        ]);
        let mut wire = proxy.tunnel(&format!("{host}:443"));
        for _ in 0..2 {
            wire.send(Request::new(method, &format!("https://{host}/a")).origin_form());
            let answer = wire.response_to_head();
            assert_eq!(answer.status.to_string(), status, "{name}");
        }
    }
}

/// Sends `count` requests on one connection, and reads no response.
fn send_unread(proxy: &Wayleave, authority: &str, path: &str, count: u32) -> Wire {
    let mut wire = open(proxy, &format!("{authority}:443"));
    for number in 0..count {
        wire.send(request(2 * number + 1, authority, path));
    }
    wire
}

#[test]
fn unread_streams_do_not_stall_others_to_the_same_origin() {
    let origin = Origin::start();
    let long = Reply::new(200).step(Step::Pattern(16 << 20));
    origin.site("shop.test").http2_only().page("/long", long);
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.set("proxy.idle_timeout", "\"1h\""));
    let other = proxy.http2("shop.test:443");
    assert_eq!(other.get("/a").status, 200, "the connection is open");
    let _unread = send_unread(&proxy, "shop.test", "/long", 20);
    origin.wait_for("all have arrived", |arrived| {
        let long = arrived.requests.iter().filter(|request| request.target == "/long");
        long.count() == 20
    });
    let (sender, statuses) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // More than what could still be in buffers.
        for page in 0..100 {
            let answer = other.get(&format!("/{page}"));
            sender.send(answer.status).expect("the test waits");
        }
    });
    for page in 0..100 {
        let status = statuses.recv_timeout(DEADLINE);
        assert_eq!(status, Ok(200), "{page}");
    }
    let requests = origin.requests();
    let pages = requests.iter().filter(|request| request.target != "/robots.txt");
    let mut connections: Vec<_> = pages.map(|request| request.connection).collect();
    connections.dedup();
    assert_eq!(connections.len(), 1, "it is shared");
}

#[test]
fn unread_interim_responses_take_bounded_memory() {
    const STREAMS: u32 = 50;
    let origin = Origin::start();
    let mut frames = vec![(HEADERS, END_HEADERS, swollen(&block(&[(":status", "103")]), 12)); 99];
    frames.push((HEADERS, END_HEADERS | END_STREAM, vec![0x88]));
    let proxy = Wayleave::start(&origin);
    known_before_http2_only(&proxy, &origin, "hints.test").frames(&frames);
    let before = proxy.memory_kib("VmHWM");
    let _unread = send_unread(&proxy, "hints.test", "/a", STREAMS);
    let forwarded = [("outcome", "forwarded")];
    eventually("all exchanges have ended", || {
        proxy.metric("wayleave_requests_total", &forwarded) == f64::from(STREAMS + 1)
    });
    let grown = proxy.memory_kib("VmHWM").saturating_sub(before);
    // 99 of 52 KB on each of 50 streams are 257 MB.
    assert!(grown < 64 * 1024, "{grown} KiB");
    let dropped = proxy.metric("wayleave_interim_responses_dropped_total", &[]);
    assert!(dropped >= f64::from(98 * STREAMS), "{dropped}");
}

/// Sends a hundred requests on each of so many connections, and reads nothing.
fn send_hundreds(proxy: &Wayleave, connections: usize, host: &str, path: &str) -> Vec<Wire> {
    let sent_on_one = |_| {
        let mut wire = open(proxy, &format!("{host}:443"));
        for number in 0..100 {
            wire.send(request(2 * number + 1, host, path));
        }
        wire
    };
    (0..connections).map(sent_on_one).collect()
}

#[test]
fn a_client_that_reads_nothing_gets_no_further_requests_through() {
    let origin = Origin::start();
    origin
        .site("shop.test")
        .page("/long", Reply::new(200).body(pattern(200_000)))
        .page("/short", Reply::text("short"));
    let proxy = Wayleave::start(&origin);
    // The first response on each connection fills the connection's window, so that all of them wait for it.
    let reads_nothing = send_hundreds(&proxy, 5, "shop.test", "/long");
    eventually("the origin is asked", || origin.count_gets("https://shop.test/long") == 500);
    // The last ones may be on their way for a moment, so requests are sent until one has to wait.
    let mut waiting = open(&proxy, "shop.test:443");
    waiting.tcp.set_read_timeout(Some(Duration::from_millis(500))).expect("not zero");
    let mut is_answered = |number: u32| {
        waiting.send(request(2 * number + 1, "shop.test", "/short"));
        waiting.outcome(2 * number + 1).is_some()
    };
    assert!(!(0..500).all(&mut is_answered), "all of them were sent");
    let answered = origin.count_gets("https://shop.test/short");
    let mut other = Wire::connect_from([127, 0, 0, 2], proxy.proxy);
    assert_eq!(other.connect_tunnel("shop.test:443").status, 200);
    let other = H2Client::inside(other, "shop.test:443", &proxy.ca_pem());
    assert_eq!(other.get("/short").text(), "short");
    assert_eq!(origin.count_gets("https://shop.test/short"), answered + 1);
    drop(reads_nothing);
    eventually("the request that waited is sent", || {
        origin.count_gets("https://shop.test/short") == answered + 2
    });
}

#[test]
fn a_client_whose_requests_wait_for_their_pace_is_served_elsewhere() {
    let origin = Origin::start();
    origin.site("slow.test").page("/", Reply::text("slow"));
    origin.site("shop.test").page("/", Reply::text("shop"));
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .set("politeness.crawl_delay", "\"wait\"")
            .set("politeness.min_delay", "\"10s\"")
            .set("politeness.max_wait", "\"1d\"")
            .set("proxy.idle_timeout", "\"1d\"")
    });
    let waiting = send_hundreds(&proxy, 11, "slow.test", "/");
    assert_eq!(proxy.http2("shop.test:443").get("/").text(), "shop");
    drop(waiting);
}
