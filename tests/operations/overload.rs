//! Too many clients, and clients that are too slow: bounded memory, and normal service afterwards.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::harness::h2_frames::{
    ACK, CANCEL, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, RST_STREAM,
    SETTINGS, WINDOW_UPDATE, before_preface, block, frame, get, open, open_proxied_on, request,
};
use crate::harness::origin::reply::Step;
use crate::harness::{Gate, Origin, Reply, Request, Wayleave, Wire, eventually};
use crate::requests::tls_listener;

fn plain(wire: &mut Wire) -> u16 {
    wire.send_get("http://shop.test/a");
    wire.response().status
}

/// Expects service for another client.
#[track_caller]
fn expect_service(proxy: &Wayleave) {
    eventually("others are served", || proxy.get("http://shop.test/a").status == 200);
}

/// Returns how often each thread that serves clients has waited for something to do.
fn waits_of_threads(proxy: &Wayleave) -> Vec<u64> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", proxy.pid())).expect("Linux has it");
    // They are listed in the order in which they started.
    let statuses = threads.filter_map(|thread| {
        // A thread may end meanwhile, but not one that serves clients.
        std::fs::read_to_string(thread.expect("an entry").path().join("status")).ok()
    });
    statuses
        .filter(|status| status.starts_with("Name:\tcrawlers\n"))
        .map(|status| {
            let waits =
                status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            waits.expect("Linux counts them").trim().parse().expect("a number")
        })
        .collect()
}

#[test]
fn every_thread_serves_connections() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    expect_service(&proxy);
    let before = waits_of_threads(&proxy);
    let threads = std::thread::available_parallelism().expect("Linux tells").get();
    assert_eq!(before.len(), threads);
    let mut wires: Vec<_> = (0..2 * threads).map(|_| Wire::connect(proxy.proxy)).collect();
    let served = || {
        let waits = waits_of_threads(&proxy);
        before.iter().zip(waits).all(|(before, after)| after - before > 30)
    };
    // A thread that finds the next request there does not wait, so a busy machine needs more rounds.
    for _ in 0..100 {
        for wire in &mut wires {
            assert_eq!(plain(wire), 200);
        }
        if served() {
            return;
        }
    }
    panic!("threads have waited {before:?} times, and then {:?} times", waits_of_threads(&proxy));
}

#[test]
fn large_heads_of_two_clients_are_all_served_however_many_one_of_them_sends() {
    const CONNECTIONS: usize = 60;
    /// On each HTTP/2 connection.
    const STREAMS: u32 = 8;
    const ROUNDS: u32 = 3;
    let origin = Origin::start();
    let tls_proxy = tls_listener::start(&origin, |settings| settings);
    let path = format!("/{}", "a".repeat(13_000));
    // So short that all answers fit into the window of a connection.
    origin.site("shop.test").page(&path, Reply::text("short"));
    let old_request = Request::get(&format!("http://shop.test{path}")).absolute_form();
    let from = |client: u8, to: SocketAddr| Wire::connect_from([127, 0, 0, client], to);
    let old = |client| from(client, tls_proxy.proxy.proxy);
    let new = |client| open_proxied_on(from(client, tls_proxy.tls));
    // The other client's is the last, which is answered first.
    let mut old_wires: Vec<_> = (0..CONNECTIONS).map(|_| old(1)).chain([old(2)]).collect();
    let mut new_wires: Vec<_> = (0..CONNECTIONS).map(|_| new(1)).chain([new(2)]).collect();
    for round in 0..ROUNDS {
        let streams = (0..STREAMS).map(|number| 2 * (round * STREAMS + number) + 1);
        let new_requests: Vec<_> =
            streams.flat_map(|stream| request(stream, "shop.test", &path)).collect();
        for (old, new) in old_wires.iter_mut().zip(&mut new_wires) {
            old.send(&old_request);
            new.send(&new_requests);
        }
        // A connection that ends while it waits takes nobody's turn along.
        let mut leaving = old(1);
        leaving.send(&old_request);
        drop(leaving);
        for (old, new) in old_wires.iter_mut().zip(&mut new_wires).rev() {
            assert_eq!(old.response().status, 200);
            let mut answered = 0;
            while answered < STREAMS {
                let frame = new.frame().expect("all are answered, in any order");
                assert!(frame.kind != HEADERS || frame.is_200(), "{frame:?}");
                answered += u32::from(frame.kind == HEADERS);
            }
        }
    }
}

#[test]
fn one_client_cannot_use_all_connections() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("proxy.listen", "[\"0.0.0.0:0\"]").set("proxy.max_connections_per_client", "2")
    });
    let address = |last: u8| SocketAddr::from(([127, 0, 0, last], proxy.proxy.port()));
    let (mut first, mut second) = (Wire::connect(address(1)), Wire::connect(address(1)));
    assert_eq!([plain(&mut first), plain(&mut second)], [200, 200]);
    let mut third = Wire::connect(address(1));
    let answer = third.response();
    answer.expect_refusal(503, None, "connection_limit_reached");
    assert!(answer.header("retry-after").is_some(), "{answer:?}");
    third.expect_close();
    // Another client, by its own address.
    let mut other = Wire::connect_from([127, 0, 0, 9], address(1));
    assert_eq!(plain(&mut other), 200);
    drop(first);
    eventually("the connection is free again", || {
        let mut again = Wire::connect(address(1));
        plain_or_refused(&mut again) == 200
    });
}

/// Does the same on a connection that may be refused and closed before the request.
fn plain_or_refused(wire: &mut Wire) -> u16 {
    let _maybe_closed = wire.try_send(Request::get("http://shop.test/a").absolute_form());
    let answer = wire.try_response(false);
    answer.ok().flatten().map_or(0, |answer| answer.status)
}

/// Returns how many files this process, and so the proxy, may open in addition to those of other tests.
fn spare_descriptors() -> usize {
    let (soft, _) = rlimit::Resource::NOFILE.get().expect("Linux has it");
    usize::try_from(soft / 2).unwrap_or(usize::MAX)
}

#[test]
fn the_descriptor_limit_is_raised_to_its_maximum() {
    let origin = Origin::start();
    let proxy = Wayleave::start_after(&origin, "ulimit -S -n 128");
    let pid = proxy.pid().try_into().expect("Linux has no larger ones");
    let limits = rlimit::ProcLimits::read_process(pid).expect("Linux has it");
    let files = limits.max_open_files.expect("a limit");
    assert_eq!(files.soft_limit, files.hard_limit);
}

#[test]
fn ten_thousand_idle_connections_do_not_prevent_service() {
    let idle_connections = spare_descriptors().min(10_000);
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("proxy.max_connections", "20000").set("proxy.idle_timeout", "\"10m\"")
    });
    expect_service(&proxy);
    let before = proxy.memory_kib("VmRSS");
    let idle: Vec<_> = (0..idle_connections)
        .map(|_| TcpStream::connect(proxy.proxy).expect("a connection"))
        .collect();
    let gauge = || proxy.metric("wayleave_client_connections", &[]);
    eventually("all of them are served", || gauge() >= idle_connections as f64);
    expect_service(&proxy);
    let grown = proxy.memory_kib("VmRSS").saturating_sub(before);
    let most = 4096 + 6 * idle_connections as u64;
    assert!(grown < most, "{grown} KiB for {idle_connections} connections");
    drop(idle);
    eventually("they are gone", || gauge() < 10.0);
}

#[test]
fn a_flood_of_connections_beyond_the_limit_does_no_harm() {
    let origin = Origin::start();
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.set("proxy.max_connections", "4"));
    let mut served: Vec<_> = (0..4).map(|_| proxy.connect()).collect();
    for wire in &mut served {
        assert_eq!(plain(wire), 200);
    }
    // None of these reads its response.
    let flood: Vec<_> = (0..2000).map(|_| TcpStream::connect(proxy.proxy)).collect();
    for wire in &mut served {
        assert_eq!(plain(wire), 200, "earlier connections are served");
    }
    drop((flood, served));
    eventually("others are served again", || plain_or_refused(&mut proxy.connect()) == 200);
}

/// Sends its head slower than any real client, but is never idle.
fn drips_its_head(proxy: &Wayleave) {
    let mut wire = proxy.connect();
    for byte in b"GET http://shop.test/a HTTP/1.1\r\nX: ".iter().cycle() {
        if wire.try_send([*byte]).is_err() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn stalls_in_its_body(proxy: &Wayleave) {
    let mut wire = proxy.connect();
    wire.send(
        "POST http://shop.test/up HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 9\r\n\r\nhello",
    );
    assert!(matches!(wire.response().status, 408 | 504));
    wire.expect_close();
}

fn is_silent_inside_a_tunnel(proxy: &Wayleave) {
    let mut wire = proxy.connect();
    assert_eq!(wire.connect_tunnel("shop.test:443").status, 200);
    wire.expect_close();
}

fn stops_in_its_handshake(proxy: &Wayleave) {
    let mut wire = proxy.connect();
    assert_eq!(wire.connect_tunnel("shop.test:443").status, 200);
    wire.send(b"\x16\x03\x01\x02\x00\x01");
    wire.expect_close();
}

fn sends_no_preface(proxy: &Wayleave) {
    let mut wire = before_preface(proxy, "shop.test:443");
    assert!(wire.frame().is_none_or(|frame| frame.kind == SETTINGS));
    while wire.frame().is_some() {}
}

fn sends_no_stream(proxy: &Wayleave) {
    let mut wire = open(proxy, "shop.test:443");
    while wire.frame().is_some() {}
}

fn stops_in_its_fields(proxy: &Wayleave) {
    let mut wire = open(proxy, "shop.test:443");
    wire.send(frame(HEADERS, END_STREAM, 1, &block(&get("shop.test", "/a"))));
    while wire.frame().is_some() {}
}

#[test]
fn slow_clients_are_disconnected() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .set("proxy.header_timeout", "\"3s\"")
            .set("proxy.idle_timeout", "\"3s\"")
            .set("upstream.response_timeout", "\"3s\"")
    });
    // Together, because each waits for a timeout.
    std::thread::scope(|scope| {
        let proxy = &proxy;
        for client in [
            drips_its_head,
            stalls_in_its_body,
            is_silent_inside_a_tunnel,
            stops_in_its_handshake,
            sends_no_preface,
            sends_no_stream,
            stops_in_its_fields,
        ] {
            scope.spawn(move || client(proxy));
        }
    });
    expect_service(&proxy);
}

#[test]
fn a_stalled_body_over_http_2_is_ended() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("proxy.idle_timeout", "\"1s\"").set("upstream.response_timeout", "\"1s\"")
    });
    let mut wire = open(&proxy, "shop.test:443");
    let mut fields = get("shop.test", "/up");
    fields[0].1 = "POST";
    wire.send(frame(HEADERS, END_HEADERS, 1, &block(&fields)));
    wire.send(frame(DATA, 0, 1, b"hello"));
    let outcome = wire.outcome(1).expect("a response");
    assert!(!outcome.is_200(), "{outcome:?}");
    expect_service(&proxy);
}

/// Starts an origin whose `/slow` waits for the gate, and a proxy before it.
fn slow(gate: &Gate) -> (Origin, Wayleave) {
    let origin = Origin::start();
    let reply = Reply::new(200).step(Step::Wait(gate.clone())).body("late");
    origin.site("shop.test").http1_only().page("/slow", reply);
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("https://shop.test/a").status, 200);
    (origin, proxy)
}

#[test]
fn a_reset_stream_ends_its_exchange_with_the_origin() {
    let gate = Gate::closed();
    let (origin, proxy) = slow(&gate);
    let mut wire = open(&proxy, "shop.test:443");
    wire.send(request(1, "shop.test", "/slow"));
    origin.wait_for_target("/slow");
    wire.send(frame(RST_STREAM, 0, 1, &CANCEL));
    eventually("the exchange ends", || {
        proxy.metric("wayleave_requests_total", &[("reason", "client-closed")]) == 1.0
    });
    wire.send(request(3, "shop.test", "/a"));
    assert!(wire.stream_is_200(3));
    gate.open();
}

#[test]
fn rapid_resets_of_streams_hold_no_resources() {
    let gate = Gate::closed();
    let (origin, proxy) = slow(&gate);
    let before = proxy.memory_kib("VmRSS");
    let mut wire = open(&proxy, "shop.test:443");
    for number in 0..20_000_u32 {
        let stream = 2 * number + 1;
        let mut both = request(stream, "shop.test", "/slow");
        both.extend(frame(RST_STREAM, 0, stream, &CANCEL));
        if wire.try_send(both).is_err() {
            break;
        }
    }
    let open_now = || proxy.metric("wayleave_upstream_connections", &[]);
    eventually("all connections are closed", || open_now() == 0.0);
    let opened = origin.connections();
    assert!(opened < 1000, "{opened} connections for one client");
    let grown = proxy.memory_kib("VmRSS").saturating_sub(before);
    assert!(grown < 64 * 1024, "memory grew by {grown} KiB");
    expect_service(&proxy);
    gate.open();
}

#[test]
fn no_more_streams_are_open_than_announced() {
    let gate = Gate::closed();
    let (origin, proxy) = slow(&gate);
    let mut wire = open(&proxy, "shop.test:443");
    for number in 0..150 {
        wire.send(request(2 * number + 1, "shop.test", "/slow"));
    }
    // A head may arrive as soon as the origin has sent it; only the body waits for the gate.
    let (mut refused, mut answered) = (0, 0);
    while refused < 50 {
        let frame = wire.frame().expect("the connection is open");
        refused += u32::from(frame.kind == RST_STREAM);
        answered += u32::from(frame.is_200());
    }
    origin.wait_for("the others arrive", |arrived| {
        arrived.requests.iter().filter(|request| request.target == "/slow").count() == 100
    });
    gate.open();
    while answered < 100 {
        answered += u32::from(wire.frame().expect("the connection is open").is_200());
    }
}

#[test]
fn a_head_without_bound_over_http_2_is_refused() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let before = proxy.memory_kib("VmRSS");
    // One field after another, each in its own frame, without an end.
    let mut wire = open(&proxy, "shop.test:443");
    wire.send(frame(HEADERS, END_STREAM, 1, &block(&get("shop.test", "/a"))));
    let value = "v".repeat(16_000);
    for _ in 0..10_000 {
        let piece = frame(CONTINUATION, 0, 1, &block(&[("x", &value)]));
        if wire.try_send(piece).is_err() {
            break;
        }
    }
    while wire.frame().is_some() {}
    // Small frames, and empty ones.
    for piece in [block(&[("x", "y")]), Vec::new()] {
        let mut wire = open(&proxy, "shop.test:443");
        wire.send(frame(HEADERS, END_STREAM, 1, &block(&get("shop.test", "/a"))));
        let sent =
            (0..200_000).take_while(|_| wire.try_send(frame(CONTINUATION, 0, 1, &piece)).is_ok());
        assert!(sent.count() < 200_000, "the flood is read to its end");
    }
    let grown = proxy.memory_kib("VmRSS").saturating_sub(before);
    assert!(grown < 32 * 1024, "memory grew by {grown} KiB");
    assert_eq!(origin.connections(), 0);
    expect_service(&proxy);
}

#[test]
fn a_whole_head_that_is_too_large_over_http_2_is_refused() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let mut wire = open(&proxy, "shop.test:443");
    let value = "v".repeat(12_000);
    let mut fields = get("shop.test", "/a");
    fields.extend([("x", &*value)]);
    wire.send(frame(HEADERS, END_STREAM, 1, &block(&fields)));
    for number in 0..7 {
        let flags = if number == 6 { END_HEADERS } else { 0 };
        let _maybe_closed = wire.try_send(frame(CONTINUATION, flags, 1, &block(&[("x", &value)])));
    }
    let outcome = wire.outcome(1);
    assert!(!outcome.is_some_and(|frame| frame.is_200()));
    assert_eq!(origin.connections(), 0);
}

#[test]
fn floods_of_small_frames_cost_no_memory() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    expect_service(&proxy);
    let before = proxy.memory_kib("VmRSS");
    let floods: [(&str, Vec<u8>); 5] = [
        ("pings", frame(PING, 0, 0, &[0; 8])),
        ("settings", frame(SETTINGS, 0, 0, &[])),
        ("settings with a window", frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0])),
        ("window updates", frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        ("acknowledged pings", frame(PING, ACK, 0, &[0; 8])),
    ];
    for (name, one) in floods {
        let mut wire = open(&proxy, "shop.test:443");
        wire.tcp
            .set_write_timeout(Some(Duration::from_millis(500)))
            .expect("the timeout is not zero");
        let many = one.repeat(100);
        // Nothing is read, so a peer that replies to each frame has to stop.
        for _ in 0..2000 {
            if wire.try_send(&many).is_err() {
                break;
            }
        }
        let grown = proxy.memory_kib("VmRSS").saturating_sub(before);
        assert!(grown < 32 * 1024, "{name}: memory grew by {grown} KiB");
        expect_service(&proxy);
    }
}

#[test]
fn floods_of_frames_without_progress_end_their_connection() {
    let origin = Origin::start();
    origin.site("shop.test");
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.set("proxy.idle_timeout", "\"1h\""));
    let floods = [
        ("window updates", frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        ("acknowledged pings", frame(PING, ACK, 0, &[0; 8])),
        ("frames of an unknown type", frame(0xfa, 0, 0, &[0; 3])),
    ];
    for (name, one) in floods {
        let mut wire = open(&proxy, "shop.test:443");
        for number in 0..3_u32 {
            wire.send(one.repeat(3000));
            wire.send(request(2 * number + 1, "shop.test", "/a"));
            assert!(wire.stream_is_200(2 * number + 1), "{name}: some are harmless");
        }
        // The connection may end before all of it is sent.
        let _ = wire.try_send(one.repeat(20_000));
        while wire.frame().is_some() {}
        expect_service(&proxy);
    }
}

#[test]
fn responses_without_a_window_are_given_up() {
    let origin = Origin::start();
    let big = Reply::new(200).step(Step::Pattern(8 << 20));
    origin.site("shop.test").page("/big", big);
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.set("proxy.idle_timeout", "\"1s\""));
    expect_service(&proxy);
    let before = proxy.memory_kib("VmRSS");
    let mut wire = open(&proxy, "shop.test:443");
    wire.send(frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]));
    for number in 0..50 {
        wire.send(request(2 * number + 1, "shop.test", "/big"));
    }
    eventually("all are given up", || {
        proxy.metric("wayleave_requests_total", &[("reason", "client-closed")]) == 50.0
    });
    // About 1 MiB each, for windows of connections to the origin and buffers; the responses have 400 MiB.
    let grown = proxy.memory_kib("VmRSS").saturating_sub(before);
    assert!(grown < 128 * 1024, "memory grew by {grown} KiB");
}

#[test]
fn a_connection_error_of_http_2_ends_that_connection_only() {
    let origin = Origin::start();
    // Handshakes are not what this test is about: they may be slow on a busy machine.
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.set("proxy.header_timeout", "\"60s\""));
    let bystander = proxy.http2("shop.test:443");
    let broken = [
        ("data on no stream", frame(DATA, END_STREAM, 0, b"x")),
        ("a stream of the server's", request(2, "shop.test", "/a")),
        ("a continuation of nothing", frame(CONTINUATION, END_HEADERS, 1, &[])),
        ("a ping of seven octets", frame(PING, 0, 0, &[0; 7])),
        ("settings on a stream", frame(SETTINGS, 0, 1, &[])),
        ("a window that overflows", frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff])),
        ("an increment of nothing", frame(WINDOW_UPDATE, 0, 0, &[0; 4])),
        (
            "an index beyond the table",
            frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0xff, 0xff, 0x7f]),
        ),
        (
            "a frame past the largest",
            [&[0xff, 0xff, 0xff, DATA, 0, 0, 0, 0, 1][..], &[0; 64]].concat(),
        ),
    ];
    for (name, bytes) in broken {
        let mut wire = open(&proxy, "shop.test:443");
        let _maybe_closed = wire.try_send(bytes);
        let mut is_explained = false;
        while let Some(frame) = wire.frame() {
            is_explained |= frame.kind == GOAWAY;
        }
        assert!(is_explained, "{name}: no GOAWAY");
        assert_eq!(bystander.get("/a").status, 200, "{name}");
    }
    let seen = origin.seen();
    let by_bystander = seen.iter().filter(|line| line.ends_with("/a")).count();
    assert_eq!(by_bystander, 9, "{seen:?}");
}
