//! Gateways of two kinds that ask the nodes of a fleet: one pace for all, and what a gateway tells one node counts for all.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::engines::{Product, Server};
use super::proxies::joined;
use crate::gateway::Gated;
use crate::gateway::grpc_client::{Caller, Question};
use crate::harness::{Origin, eventually};

const ABOUT: Question<'static> = Question {
    method: "GET",
    scheme: "http",
    host: "shop.test",
    path: "/a",
    fields: &[("User-Agent", "ExampleBot/1.0")],
    client: "127.0.0.1",
};

fn nodes(origin: &Origin, server: &Server) -> [(Gated, SocketAddr); 3] {
    [(); 3].map(|()| {
        Gated::start_both(origin, |settings| {
            joined(settings, server).set("politeness.crawl_delay", "\"wait\"")
        })
    })
}

#[test]
fn gateways_of_all_nodes_keep_one_pace() {
    const DELAY: Duration = Duration::from_millis(200);
    let origin = Origin::start();
    origin.site("shop.test").robots("User-agent: *\nCrawl-delay: 0.2\n");
    let server = Server::start(Product::Redis);
    let nodes = nodes(&origin, &server);
    let verdicts = Mutex::new(Vec::new());
    let started = Instant::now();
    std::thread::scope(|scope| {
        for (gated, grpc) in &nodes {
            for _ in 0..2 {
                scope.spawn(|| {
                    let allowed = gated.check(
                        "GET",
                        "http://shop.test/a",
                        &[("User-Agent", "ExampleBot/1.0")],
                    );
                    verdicts
                        .lock()
                        .expect("no panic")
                        .push((allowed.status.into(), Instant::now()));
                });
                scope.spawn(|| {
                    let allowed = Caller::connect_from(1, *grpc).ask(&ABOUT);
                    verdicts.lock().expect("no panic").push((allowed.status, Instant::now()));
                });
            }
        }
    });
    let mut verdicts = verdicts.into_inner().expect("no panic");
    verdicts.sort_by_key(|(_, at)| *at);
    assert_eq!(verdicts.len(), 12);
    // Each is given after the slots of all before it, however late a busy machine reads the answers.
    for (before, (status, at)) in (0..).zip(verdicts) {
        assert_eq!(status, 200);
        let took = at - started;
        assert!(took >= before * DELAY, "verdict {before} after {took:?}");
    }
}

#[test]
fn a_rest_that_a_gateway_tells_one_node_of_counts_for_all() {
    let origin = Origin::start();
    let server = Server::start(Product::Redis);
    let nodes = nodes(&origin, &server);
    let [(first, _), (second, _), _] = &nodes;
    let allowed = first.check("GET", "http://shop.test/a", &[]);
    let id = allowed.header("wayleave-decision").expect("an id");
    let notice = format!(r#"{{"id": "{id}", "status": 429, "retry_after": 3000}}"#);
    let elsewhere = second.tell("/answered", &notice, &[]);
    assert_eq!(elsewhere.status, 404);
    let detail = elsewhere.json()["detail"].to_string();
    assert!(detail.contains("tell the node that answered"), "{detail}");
    assert_eq!(first.tell("/answered", &notice, &[]).status, 204);
    for (gated, grpc) in &nodes {
        eventually("both kinds of gateways are refused", || {
            let refused = gated.check("GET", "http://shop.test/b", &[]);
            let by_grpc = Caller::connect_from(1, *grpc).ask(&ABOUT);
            let rests = |problem: serde_json::Value| problem["reason"] == "origin-rests";
            refused.status == 429
                && rests(refused.json())
                && by_grpc.status == 429
                && rests(by_grpc.json())
        });
    }
}
