//! The questions that a gateway, and a client behind it, may have in progress.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};

use super::grpc_client::{Caller, Question};
use super::{Gated, ROBOTS, check};
use crate::harness::client::Wire;
use crate::harness::origin::reply::Step;
use crate::harness::{Gate, Origin, Reply, Response, eventually};

/// The most connections of a listener.
const MAX_CONNECTIONS: usize = 4096;

/// Sends a question from this address, on a connection of its own.
fn begin(gateway: SocketAddr, from: u8, url: &str, client: &str) -> Wire {
    let mut wire = Wire::connect_from([127, 0, 0, from], gateway);
    let target = check("GET", url);
    wire.send(format!(
        "GET {target} HTTP/1.1\r\nHost: {gateway}\r\nX-Forwarded-For: {client}\r\n\r\n"
    ));
    wire
}

fn ask(gateway: SocketAddr, from: u8, client: &str) -> Response {
    begin(gateway, from, "http://shop.test/a", client).response()
}

fn start(origin: &Origin, gate: &Gate, per_client: &str) -> Gated {
    origin.site("shop.test").robots(ROBOTS);
    origin
        .site("slow.test")
        .robots_reply(Reply::new(200).step(Step::Wait(gate.clone())).body(ROBOTS));
    Gated::start_with(origin, |settings| {
        settings
            .set("proxy.max_connections", "16")
            .set("proxy.max_connections_per_client", per_client)
    })
}

fn in_progress(gated: &Gated) -> f64 {
    gated.proxy.metric("wayleave_gateway_questions", &[])
}

#[test]
fn neither_a_client_nor_a_gateway_takes_the_shares_of_others() {
    let origin = Origin::start();
    let gate = Gate::closed();
    let gated = start(&origin, &gate, "0");
    let slow = |from: u8, client: &str| begin(gated.gateway, from, "http://slow.test/a", client);
    let mut waiting: Vec<_> = (0..4).map(|_| slow(1, "192.0.2.1")).collect();
    eventually("they are in progress", || in_progress(&gated) == 4.0);
    let refused = ask(gated.gateway, 1, "192.0.2.1");
    assert_eq!(refused.status, 429, "{refused:?}");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.json()["type"], "urn:wayleave:problem:gateway");
    // Another client of the gateway, and then another gateway, with all of the first one's share in use.
    assert_eq!(ask(gated.gateway, 1, "192.0.2.2").status, 200);
    for client in 2..6 {
        waiting.push(slow(1, &format!("192.0.2.{client}")));
    }
    eventually("they are in progress", || in_progress(&gated) == 8.0);
    assert_eq!(ask(gated.gateway, 1, "192.0.2.9").status, 429);
    assert_eq!(ask(gated.gateway, 2, "192.0.2.1").status, 200);
    gate.open();
    for wire in &mut waiting {
        assert_eq!(wire.response().status, 200);
    }
    eventually("all shares are free", || in_progress(&gated) == 0.0);
    assert_eq!(ask(gated.gateway, 1, "192.0.2.1").status, 200);
    assert_eq!(gated.proxy.metric("wayleave_gateway_answers_total", &[("answer", "excess")]), 2.0);
}

#[test]
fn a_client_behind_a_gateway_has_the_limit_of_clients() {
    let origin = Origin::start();
    let gate = Gate::closed();
    let gated = start(&origin, &gate, "1");
    let mut waiting = begin(gated.gateway, 1, "http://slow.test/a", "2001:db8::1");
    eventually("it is in progress", || in_progress(&gated) == 1.0);
    assert_eq!(ask(gated.gateway, 1, "2001:db8::2").status, 429, "the same network");
    assert_eq!(ask(gated.gateway, 1, "2001:db8:0:1::1").status, 200);
    gate.open();
    assert_eq!(waiting.response().status, 200);
}

#[test]
fn a_gateway_that_leaves_gives_its_shares_back() {
    let origin = Origin::start();
    let gate = Gate::closed();
    let gated = start(&origin, &gate, "0");
    let waiting: Vec<_> =
        (0..4).map(|_| begin(gated.gateway, 1, "http://slow.test/a", "192.0.2.1")).collect();
    eventually("they are in progress", || in_progress(&gated) == 4.0);
    drop(waiting);
    eventually("its shares are free", || ask(gated.gateway, 1, "192.0.2.1").status == 200);
    gate.open();
}

#[test]
fn a_gateway_that_keeps_its_connections_open_leaves_some_for_others() {
    let origin = Origin::start();
    let gate = Gate::closed();
    let gated = start(&origin, &gate, "0");
    // Heads that never end.
    let begin = |_| {
        let mut tcp = TcpStream::connect(gated.gateway).expect("it listens");
        // It may be closed already.
        let _ = tcp.write_all(b"GET /check?method=GET&url=http://shop.test/a HTTP/1.1\r\n");
        tcp
    };
    let kept: Vec<_> = (0..MAX_CONNECTIONS).map(begin).collect();
    assert_eq!(ask(gated.gateway, 2, "192.0.2.1").status, 200);
    drop(kept);
    eventually("its connections are free", || {
        let mut wire = Wire::connect(gated.gateway);
        let target = check("GET", "http://shop.test/a");
        let sent = wire.try_send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        sent.is_ok() && wire.try_response(false).is_ok_and(|answer| answer.is_some())
    });
}

#[test]
fn a_question_beyond_its_share_is_denied_by_grpc() {
    let origin = Origin::start();
    let gate = Gate::closed();
    let site = Reply::new(200).step(Step::Wait(gate.clone())).body(ROBOTS);
    origin.site("slow.test").robots_reply(site);
    origin.site("shop.test").robots(ROBOTS);
    let (gated, grpc) =
        Gated::start_both(&origin, |settings| settings.set("proxy.max_connections", "16"));
    let slow = Question {
        method: "GET",
        scheme: "http",
        host: "slow.test",
        path: "/a",
        fields: &[],
        client: "192.0.2.1",
    };
    let caller = Caller::connect_from(1, grpc);
    let begun: Vec<_> = (0..4).map(|_| caller.begin(&slow)).collect();
    eventually("they are in progress", || in_progress(&gated) == 4.0);
    // A denial, and no error of gRPC: after one, Envoy may be set up to let requests leave.
    let denied = caller.ask(&slow);
    assert_eq!((denied.code, denied.status), (0, 429), "{denied:?}");
    assert_eq!(denied.field("retry-after"), Some("1"));
    assert_eq!(denied.json()["type"], "urn:wayleave:problem:gateway");
    // Other clients, until the whole gateway's share is in use.
    let others: Vec<_> = (2..6).map(|last| format!("192.0.2.{last}")).collect();
    let others: Vec<_> =
        others.iter().map(|client| caller.begin(&Question { client, ..slow.clone() })).collect();
    eventually("they are in progress", || in_progress(&gated) == 8.0);
    let denied = caller.ask(&Question { client: "192.0.2.9", ..slow.clone() });
    assert_eq!((denied.code, denied.status), (0, 429), "{denied:?}");
    let other = Caller::connect_from(2, grpc);
    assert_eq!(other.ask(&Question { host: "shop.test", ..slow.clone() }).status, 200);
    // Calls that are cancelled give their shares back.
    for call in others {
        call.abort();
    }
    eventually("the gateway has room again", || {
        caller.ask(&Question { host: "shop.test", client: "192.0.2.9", ..slow.clone() }).status
            == 200
    });
    gate.open();
    for call in begun {
        let answer = crate::harness::runtime().block_on(call).expect("the task ends");
        assert_eq!(answer.expect("the call ends well").status, 200);
    }
}
