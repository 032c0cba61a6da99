//! Gateways that stop in the middle of what they say, and that close one side of a connection.

use bytes::Bytes;

use super::grpc_client::{Caller, Question, message};
use super::{Gated, ROBOTS, check};
use crate::harness::client::Wire;
use crate::harness::origin::reply::Step;
use crate::harness::wayleave::Settings;
use crate::harness::{Gate, Origin, Reply, eventually, runtime};

fn impatient(settings: Settings) -> Settings {
    settings.set("proxy.header_timeout", "\"200ms\"")
}

#[test]
fn what_never_ends_is_not_waited_for() {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    let (gated, grpc) = Gated::start_both(&origin, impatient);
    let mut wire = Wire::connect(gated.gateway);
    wire.send("POST /sent HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{\"id\":");
    let answer = wire.response();
    assert_eq!(answer.status, 400, "{}", answer.text());
    let caller = Caller::connect_from(1, grpc);
    let whole = message(&Question::PLAIN);
    for part in [Bytes::new(), whole.slice(..3), whole.slice(..20), whole.clone()] {
        let answer = caller.begin_without_end(part).expect("an answer");
        assert_eq!(answer.code, 3, "{answer:?}");
    }
    assert_eq!(caller.ask(&Question::PLAIN).status, 200);
}

#[test]
fn a_connection_that_closes_one_side_is_not_waited_for() {
    let origin = Origin::start();
    let gate = Gate::closed();
    let robots = Reply::new(200).step(Step::Wait(gate.clone())).body(ROBOTS);
    origin.site("shop.test").robots_reply(robots);
    let gated = Gated::start(&origin);
    let mut wire = Wire::connect(gated.gateway);
    let target = check("GET", "http://shop.test/a");
    wire.send(format!("GET {target} HTTP/1.1\r\nHost: {}\r\n\r\n", gated.gateway));
    eventually("robots.txt is fetched", || !origin.seen().is_empty());
    wire.end_sending();
    wire.expect_close();
    eventually("it is recorded", || {
        let list = gated.proxy.admin_get("/v1/decisions?via=gateway").json();
        list["decisions"][0]["reason"] == "client-closed"
    });
    gate.open();
}

#[test]
fn questions_in_progress_are_answered_before_the_process_ends() {
    let origin = Origin::start();
    let gate = Gate::closed();
    let robots = Reply::new(200).step(Step::Wait(gate.clone())).body(ROBOTS);
    origin.site("shop.test").robots_reply(robots);
    let (gated, grpc) = Gated::start_both(&origin, |settings| settings);
    let mut wire = Wire::connect(gated.gateway);
    let target = check("GET", "http://shop.test/a");
    wire.send(format!("GET {target} HTTP/1.1\r\nHost: {}\r\n\r\n", gated.gateway));
    let mut idle = Wire::connect(gated.gateway);
    let call = Caller::connect_from(1, grpc).begin(&Question::PLAIN);
    eventually("both are in progress", || {
        gated.proxy.metric("wayleave_gateway_questions", &[]) == 2.0
    });
    gated.proxy.signal("TERM");
    idle.expect_close();
    gate.open();
    assert_eq!(wire.response().status, 200);
    wire.expect_close();
    let answer = runtime().block_on(call).expect("the task ends").expect("the call ends well");
    assert_eq!(answer.status, 200);
}
