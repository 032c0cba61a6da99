//! Gateways that send more than anybody can answer: others are answered all the same, and nothing of it stays.

use std::net::SocketAddr;

use super::grpc_client::{Caller, Question, message};
use super::{Gated, ROBOTS};
use crate::harness::client::{Wire, raw};
use crate::harness::h2_frames::{
    CANCEL, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, RST_STREAM, SETTINGS,
    begin, block, frame, swollen,
};
use crate::harness::origin::reply::Step;
use crate::harness::{Gate, Origin, Reply, eventually};

/// The frames of a flood.
const MANY: u32 = 20_000;
/// The memory that a flood may leave.
const SPARE_KIB: u64 = 60 * 1024;

fn call_fields() -> Vec<(&'static str, &'static str)> {
    vec![
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "wayleave.test"),
        (":path", "/envoy.service.auth.v3.Authorization/Check"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ]
}

/// Sends frames for as long as the other side takes them.
fn flood(grpc: SocketAddr, mut next: impl FnMut(u32) -> Vec<u8>) {
    let mut wire = begin(Wire::connect(grpc));
    // Nothing is read: what it answers has to wait, too.
    wire.tcp
        .set_write_timeout(Some(std::time::Duration::from_secs(2)))
        .expect("the time is not zero");
    for number in 0..MANY {
        if wire.try_send(next(number)).is_err() {
            return;
        }
    }
}

#[test]
fn a_flood_by_grpc_keeps_nobody_waiting_and_leaves_nothing() {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    let gate = Gate::closed();
    let slow = Reply::new(200).step(Step::Wait(gate.clone())).body(ROBOTS);
    origin.site("slow.test").robots_reply(slow);
    let (gated, grpc) = Gated::start_both(&origin, |settings| settings);
    let other = Caller::connect_from(2, grpc);
    assert_eq!(other.ask(&Question::PLAIN).status, 200);
    let before = gated.proxy.memory_kib("VmRSS");
    let head = block(&call_fields());
    let question = message(&Question { host: "slow.test", ..Question::PLAIN });
    let stream = |number: u32| 2 * number + 1;
    let head_of = |number| frame(HEADERS, END_HEADERS, stream(number), &head);
    let reset = |number| frame(RST_STREAM, 0, stream(number), &CANCEL);
    flood(grpc, |number| [head_of(number), reset(number)].concat());
    // Questions that wait for robots.txt, and are given up.
    flood(grpc, |number| {
        let body = frame(DATA, END_STREAM, stream(number), &question);
        [head_of(number), body, reset(number)].concat()
    });
    flood(grpc, |number| match number {
        0 => head_of(0),
        _ => frame(DATA, 0, 1, &[]),
    });
    flood(grpc, |_| frame(PING, 0, 0, &[7; 8]));
    flood(grpc, |_| frame(SETTINGS, 0, 0, &[]));
    flood(grpc, |number| match number {
        0 => frame(HEADERS, 0, 1, &head),
        _ => frame(CONTINUATION, 0, 1, &block(&[("x-a", "b")])),
    });
    flood(grpc, |number| frame(HEADERS, END_HEADERS, stream(number), &swollen(&head, 10_000)));
    assert_eq!(other.ask(&Question::PLAIN).status, 200);
    assert_eq!(Caller::connect_from(3, grpc).ask(&Question::PLAIN).status, 200);
    eventually("no question is in progress", || {
        gated.proxy.metric("wayleave_gateway_questions", &[]) == 0.0
    });
    eventually("their memory is free", || gated.proxy.memory_kib("VmRSS") < before + SPARE_KIB);
    assert_eq!(gated.proxy.metric("wayleave_panics_total", &[]), 0.0);
    gate.open();
}

#[test]
fn questions_that_never_end_are_a_share_of_those_in_progress() {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    let (_gated, grpc) =
        Gated::start_both(&origin, |settings| settings.set("proxy.max_connections", "16"));
    let mut wire = begin(Wire::connect_from([127, 0, 0, 1], grpc));
    for stream in [1, 3, 5, 7] {
        wire.send(frame(HEADERS, END_HEADERS, stream, &block(&call_fields())));
    }
    let caller = Caller::connect_from(1, grpc);
    eventually("the gateway has no room", || caller.ask(&Question::PLAIN).status == 429);
    assert_eq!(Caller::connect_from(2, grpc).ask(&Question::PLAIN).status, 200);
    drop(wire);
    eventually("it has room again", || caller.ask(&Question::PLAIN).status == 200);
}

#[test]
fn heads_that_are_too_large_are_refused() {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    let (gated, grpc) = Gated::start_both(&origin, |settings| settings);
    let value = "v".repeat(400_000);
    let answer = raw(
        gated.gateway,
        format!(
            "GET /check?method=GET&url=http%3A%2F%2Fshop.test%2Fa HTTP/1.1\r\nHost: a\r\nX-A: {value}\r\n\r\n"
        ),
    );
    assert!(answer.is_none_or(|answer| answer.status == 431));
    let caller = Caller::connect_from(1, grpc);
    // Within the limit of one field by HTTP, and beyond that of a question.
    for (length, code) in [(30_000, 0), (300_000, 3)] {
        let value = "v".repeat(length);
        let answer = caller.ask(&Question { fields: &[("X-A", &value)], ..Question::PLAIN });
        assert_eq!(answer.code, code, "{length}: {answer:?}");
    }
    assert_eq!(caller.ask(&Question::PLAIN).status, 200);
}
