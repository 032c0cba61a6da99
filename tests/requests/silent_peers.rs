//! Peers that fall silent without closing their connections, as behind a router that forgot them.

use std::net::SocketAddr;

use crate::fleet::relay::Relay;
use crate::harness::h2_frames::{ACK, GOAWAY, PING, begin, frame, open, request};
use crate::harness::origin::reply::Step;
use crate::harness::{Gate, Origin, Reply, Request, Wayleave, Wire, eventually};

/// Starts an origin whose `/slow` is not answered.
fn slow_origin() -> (Origin, Gate) {
    let (origin, gate) = (Origin::start(), Gate::closed());
    origin.site("slow.test").http1_only().page("/slow", Reply::raw("", Step::Wait(gate.clone())));
    (origin, gate)
}

fn impatient(origin: &Origin) -> Wayleave {
    Wayleave::start_with(origin, |settings| settings.set("proxy.idle_timeout", "\"1s\""))
}

fn expect_no_connections(proxy: &Wayleave) {
    eventually("its place is free", || proxy.metric("wayleave_client_connections", &[]) == 0.0);
}

#[test]
fn an_http_2_client_that_answers_pings_may_wait() {
    let (origin, _gate) = slow_origin();
    let proxy = impatient(&origin);
    let mut wire = open(&proxy, "slow.test:443");
    wire.send(request(1, "slow.test", "/slow"));
    let (mut pings, mut last) = (0, None);
    while let Some(received) = wire.frame() {
        last = Some(received.kind);
        if received.kind == PING {
            pings += 1;
            // It takes three timeouts until then.
            if pings <= 3 {
                wire.send(frame(PING, ACK, 0, &received.payload));
            }
        }
    }
    assert_eq!((pings, last), (4, Some(GOAWAY)), "closed after the one without an answer");
    expect_no_connections(&proxy);
    let reason = [("reason", "client-closed")];
    eventually("the exchange has ended", || {
        proxy.metric("wayleave_requests_total", &reason) == 1.0
    });
}

#[test]
fn an_http_2_client_that_a_router_forgot_frees_its_place() {
    let (origin, _gate) = slow_origin();
    let proxy = impatient(&origin);
    let router = Relay::to(proxy.proxy.port());
    let mut wire = Wire::connect(router.address());
    assert_eq!(wire.connect_tunnel("slow.test:443").status, 200);
    let secured = wire.start_tls("slow.test", &proxy.ca_pem(), &["h2"]);
    let mut wire = begin(secured.expect("the leaf is trusted through the CA").wire);
    wire.send(request(1, "slow.test", "/slow"));
    origin.wait_for_target("/slow");
    router.forget();
    expect_no_connections(&proxy);
}

/// Returns whether the kernel probes the peer of an established connection to `remote`.
fn is_kept_alive(local: Option<SocketAddr>, remote: SocketAddr) -> bool {
    let hex = |address: SocketAddr| {
        let SocketAddr::V4(address) = address else { panic!("not IPv4") };
        format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port())
    };
    let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux has it");
    table.lines().any(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        // The sixth begins with the kind of the timer, and 02 is that of keepalive.
        fields.len() > 5
            && local.is_none_or(|local| fields[1] == hex(local))
            && fields[2] == hex(remote)
            && fields[3] == "01"
            && fields[5].starts_with("02:")
    })
}

#[test]
fn the_kernel_watches_sockets_that_may_be_silent() {
    let origin = Origin::start();
    origin.site("socket.test").page("/socket", Reply::websocket());
    let proxy = Wayleave::start(&origin);
    let mut wire = proxy.connect();
    let client = wire.tcp.local_addr().expect("it is connected");
    wire.send(Request::get("http://socket.test/socket").websocket().absolute_form());
    assert_eq!(wire.response_head().status, 101);
    eventually("the client is watched", || is_kept_alive(Some(proxy.proxy), client));
    eventually("the origin is watched", || is_kept_alive(None, origin.http));
}
