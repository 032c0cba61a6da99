//! Shutdown: exchanges in progress are finished, new ones are not accepted, and state is kept.

use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use crate::harness::origin::reply::Step;
use crate::harness::{Gate, Origin, Reply, Request, Wayleave, Wire, decisions, eventually};

fn slow_origin(gate: &Gate) -> Origin {
    let origin = Origin::start();
    origin.site("shop.test").page("/slow", Reply::in_halves(gate));
    origin
}

#[test]
fn sigterm_finishes_exchanges_in_progress() {
    let gate = Gate::closed();
    let origin = slow_origin(&gate);
    let mut proxy = Wayleave::start(&origin);
    let mut plain = proxy.connect();
    plain.send_get("http://shop.test/slow");
    plain.response_head();
    let mut encrypted = proxy.tunnel("shop.test:443");
    encrypted.send(Request::get("https://shop.test/slow").origin_form());
    encrypted.response_head();
    let mut idle = proxy.connect();
    idle.send_get("http://shop.test/a");
    assert_eq!(idle.response().status, 200);

    proxy.signal("TERM");
    eventually("new connections are refused", || TcpStream::connect(proxy.proxy).is_err());
    idle.expect_close();
    assert!(proxy.is_running(), "it ended while downloads ran");
    gate.open();
    assert_eq!(plain.bytes(22), b"first half,second half");
    assert_eq!(encrypted.bytes(22), b"first half,second half");
    assert_eq!(proxy.wait().code(), Some(0));
}

#[test]
fn sigterm_finishes_streams_of_http_2() {
    let gate = Gate::closed();
    let origin = slow_origin(&gate);
    let mut proxy = Wayleave::start(&origin);
    let client = proxy.http2("shop.test:443");
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| client.get("/slow"));
        origin.wait_for_target("/slow");
        proxy.signal("TERM");
        eventually("new connections are refused", || TcpStream::connect(proxy.proxy).is_err());
        gate.open();
        let answer = slow.join().expect("the exchange ends well");
        assert_eq!(answer.text(), "first half,second half");
    });
    assert_eq!(proxy.wait().code(), Some(0));
}

#[test]
fn a_request_in_progress_is_served_after_the_stop_begins() {
    let origin = Origin::start();
    let gate = Gate::closed();
    let slow = Reply::new(200).step(Step::Wait(gate.clone())).body("late");
    origin.site("shop.test").page("/slow", slow);
    let mut proxy = Wayleave::start(&origin);
    let mut slow = proxy.connect();
    slow.send_get("http://shop.test/slow");
    origin.wait_for_target("/slow");
    let mut fresh: Vec<_> = (0..20).map(|_| proxy.connect()).collect();
    eventually("they are accepted", || proxy.metric("wayleave_client_connections", &[]) >= 21.0);
    // The requests are sent before their clients can notice the stop.
    proxy.signal("TERM");
    for wire in &mut fresh {
        wire.send_get("http://shop.test/a");
    }
    for wire in &mut fresh {
        assert_eq!(wire.response().status, 200);
    }
    gate.open();
    assert_eq!(slow.response().text(), "late");
    assert_eq!(proxy.wait().code(), Some(0));
}

#[test]
fn sigint_ends_an_idle_proxy_at_once() {
    let origin = Origin::start();
    let mut proxy =
        Wayleave::start_with(&origin, |settings| settings.set("proxy.shutdown_grace", "\"1h\""));
    assert_eq!(proxy.get("http://shop.test/a").status, 200);
    proxy.signal("INT");
    assert_eq!(proxy.wait().code(), Some(0));
}

#[test]
fn the_grace_is_bounded() {
    let gate = Gate::closed();
    let origin = slow_origin(&gate);
    let mut proxy =
        Wayleave::start_with(&origin, |settings| settings.set("proxy.shutdown_grace", "\"1s\""));
    let mut wire = proxy.connect();
    wire.send_get("http://shop.test/slow");
    let mut head = wire.response_head();
    proxy.signal("TERM");
    assert_eq!(proxy.wait().code(), Some(0));
    assert!(wire.counted_body(&mut head).is_err(), "the cut response is detectable");
    let log = std::fs::read_to_string(proxy.dir.path().join("state/decisions.jsonl"));
    let log = log.expect("it is there");
    let line = decisions(&log).find(|line| line.contains("http://shop.test/slow")).expect("a line");
    // The client got the origin's status, not that of the shutdown.
    assert!(line.contains("\"reason\":\"shutdown\"") && line.contains("\"status\":200"), "{line}");
}

#[test]
fn waiting_requests_are_decided_before_the_end() {
    let origin = Origin::start();
    let gate = Gate::closed();
    let robots =
        Reply::new(200).step(Step::Wait(gate.clone())).body("User-agent: *\nDisallow: /private\n");
    origin.site("shop.test").robots_reply(robots);
    let mut proxy = Wayleave::start(&origin);
    let mut wire = proxy.connect();
    wire.send_get("http://shop.test/private");
    origin.wait_for_target("/robots.txt");
    proxy.signal("TERM");
    eventually("new connections are refused", || TcpStream::connect(proxy.proxy).is_err());
    gate.open();
    assert_eq!(wire.response().status, 403);
    assert_eq!(proxy.wait().code(), Some(0));
}

#[test]
fn the_ca_outlives_the_process_and_its_key_is_private() {
    let origin = Origin::start();
    let first = Wayleave::start(&origin);
    let pem = first.ca_pem();
    let key = first.ca_file().with_file_name("ca.key");
    let mode =
        std::fs::metadata(&key).expect("the key is beside the certificate").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let (dir, settings) = first.stop();
    let second = Wayleave::start_in(dir, settings);
    assert_eq!(second.ca_pem(), pem);
    assert_eq!(second.get("https://shop.test/a").status, 200);
}

#[test]
fn only_client_connections_are_counted_at_shutdown() {
    let origin = Origin::start();
    let mut idle = Wayleave::start(&origin);
    idle.signal("TERM");
    assert_eq!(idle.wait().code(), Some(0));
    assert!(idle.log().contains("stopping under_way=0 "), "{}", idle.log());
    let gate = Gate::closed();
    let origin = slow_origin(&gate);
    let mut busy = Wayleave::start(&origin);
    let mut wire = busy.connect();
    wire.send_get("http://shop.test/slow");
    wire.response_head();
    busy.signal("TERM");
    eventually("it stops", || busy.log().contains("stopping under_way=1 "));
    gate.open();
    assert_eq!(busy.wait().code(), Some(0));
}

/// Expects a log line for each exchange that was cut off, and the event of the stop as the last line.
#[track_caller]
fn expect_cut(proxy: &Wayleave, paths: &[&str]) {
    let log = proxy.dir.path().join("state/decisions.jsonl");
    let log = std::fs::read_to_string(log).expect("it is there");
    for path in paths {
        let mut lines = decisions(&log).filter(|line| line.contains(path));
        let line = lines.next().unwrap_or_else(|| panic!("{path}: {log}"));
        assert!(line.contains("\"outcome\":\"failed\""), "{line}");
        assert!(line.contains("\"reason\":\"shutdown\""), "{line}");
        assert_eq!(lines.next(), None);
    }
    let last = log.lines().last().expect("there are lines");
    assert!(last.starts_with("{\"event\":\"stop\""), "{last}");
}

/// Begins exchanges in every state: partly delivered, without a response, held back for robots.txt, and inside a tunnel.
fn begin_all(proxy: &Wayleave, origin: &Origin) -> Vec<Wire> {
    let get = |url: &str| {
        let mut wire = proxy.connect();
        wire.send_get(url);
        wire
    };
    let mut partly = get("http://shop.test/slow?partly");
    partly.response_head();
    let unanswered = get("http://shop.test/silent");
    origin.wait_for_target("/silent");
    let held_back = get("http://hangs.test/held-back");
    origin.wait_for("robots.txt is requested", |arrived| {
        let mut requests = arrived.requests.iter();
        requests.any(|request| request.host() == "hangs.test")
    });
    let mut encrypted = proxy.tunnel("shop.test:443");
    encrypted.send(Request::get("https://shop.test/slow?secret").origin_form());
    encrypted.response_head();
    vec![partly, unanswered, held_back, encrypted]
}

#[test]
fn exchanges_cut_at_shutdown_are_logged() {
    let gate = Gate::closed();
    for signals in [&["TERM"][..], &["TERM", "TERM"]] {
        let origin = Origin::start();
        let site = origin.site("shop.test");
        site.page("/slow?partly", Reply::in_halves(&gate))
            .page("/slow?secret", Reply::in_halves(&gate))
            .page("/silent", Reply::nothing(Step::Hang));
        let silent = origin.site("hangs.test");
        silent.robots_reply(Reply::nothing(Step::Hang));
        let mut proxy = Wayleave::start_with(&origin, |settings| {
            let grace = ["\"100ms\"", "\"1h\""][signals.len() - 1];
            settings.set("proxy.shutdown_grace", grace)
        });
        let wires = begin_all(&proxy, &origin);
        for signal in signals {
            proxy.signal(signal);
            eventually("it stops", || proxy.log().contains("stopping under_way="));
        }
        assert_eq!(proxy.wait().code(), Some(0));
        drop(wires);
        let paths = ["/slow?partly", "/silent", "/held-back", "/slow?secret"];
        expect_cut(&proxy, &paths);
    }
}
