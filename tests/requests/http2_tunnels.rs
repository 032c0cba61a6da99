//! Blind tunnels that break instead of ending, as the origin sees them (RFC 9113 section 8.5).

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::harness::client::{Wire, reset_when_dropped};
use crate::harness::h2_frames::{
    CANCEL, DATA, END_STREAM, RST_STREAM, connect, frame, open_proxied,
};
use crate::harness::{DEADLINE, Origin, eventually};
use crate::requests::tls_listener::{TlsProxy, start};

const CONNECT_ERROR: [u8; 4] = [0, 0, 0, 10];

struct Site {
    _origin: Origin,
    tls_proxy: TlsProxy,
    listener: TcpListener,
}

impl Site {
    fn start() -> Self {
        // No tunnel of the tests may end because of silence.
        Self::start_with("1h")
    }

    fn start_with(idle_timeout: &str) -> Self {
        let origin = Origin::start();
        let tls_proxy = start(&origin, |settings| {
            settings
                .set("https.bypass", "[\"127.0.0.1\"]")
                .set("proxy.idle_timeout", &format!("{idle_timeout:?}"))
        });
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        Self { _origin: origin, tls_proxy, listener }
    }

    fn authority(&self) -> String {
        let address = self.listener.local_addr().expect("it is bound");
        address.to_string()
    }

    /// Accepts the origin's end of the tunnel.
    fn accept(&self) -> TcpStream {
        let (stream, _) = self.listener.accept().expect("the proxy dials");
        stream.set_read_timeout(Some(DEADLINE)).expect("it can be set");
        stream
    }

    /// Opens a tunnel as stream 1. Returns both ends.
    fn open(&self) -> (Wire, TcpStream) {
        let mut wire = open_proxied(self.tls_proxy.tls);
        wire.send(connect(1, &self.authority()));
        assert!(wire.stream_is_200(1));
        (wire, self.accept())
    }

    /// Opens a tunnel whose client has sent data and ended its side.
    fn half_closed(&self) -> (Wire, TcpStream) {
        let (mut wire, mut origin) = self.open();
        wire.send(frame(DATA, END_STREAM, 1, b"hello"));
        let mut received = Vec::new();
        origin.read_to_end(&mut received).expect("an orderly end");
        assert_eq!(received, b"hello");
        (wire, origin)
    }
}

/// Expects a reset. After the end of what the client sent, the error shows without a read.
#[track_caller]
fn expect_break(origin: &TcpStream) {
    eventually("the origin sees a reset", || {
        origin.take_error().expect("it can be read").is_some()
    });
}

#[test]
fn a_reset_of_a_tunnel_reaches_the_origin() {
    let site = Site::start();
    let (mut wire, mut origin) = site.open();
    wire.send(frame(DATA, 0, 1, b"hello"));
    let mut received = [0; 5];
    origin.read_exact(&mut received).expect("what was sent");
    wire.send(frame(RST_STREAM, 0, 1, &CANCEL));
    let ended = origin.read(&mut received).expect_err("not an orderly end");
    assert_eq!(ended.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_reset_after_the_client_ended_its_side_ends_the_tunnel() {
    let site = Site::start();
    let (mut wire, origin) = site.half_closed();
    wire.send(frame(RST_STREAM, 0, 1, &CANCEL));
    expect_break(&origin);
    // Only that stream.
    wire.send(connect(3, &site.authority()));
    assert!(wire.stream_is_200(3));
}

#[test]
fn a_client_lost_after_it_ended_its_side_ends_the_tunnel() {
    let site = Site::start();
    let (wire, origin) = site.half_closed();
    drop(wire);
    expect_break(&origin);
}

#[test]
fn an_origin_may_send_after_the_client_ended_its_side() {
    let site = Site::start();
    let (mut wire, mut origin) = site.half_closed();
    for text in ["later", "still"] {
        origin.write_all(text.as_bytes()).expect("the tunnel is open");
        assert_eq!(wire.data(1), text.as_bytes());
    }
    assert!(origin.take_error().expect("it can be read").is_none());
    drop(origin);
    assert_eq!(wire.data(1), b"", "an orderly end");
}

#[test]
fn a_broken_connection_is_distinguished_from_an_ended_one() {
    let site = Site::start();
    let (mut wire, origin) = site.open();
    reset_when_dropped(&origin);
    drop(origin);
    let reset = wire.outcome(1).expect("the connection is open");
    assert_eq!((reset.kind, reset.payload), (RST_STREAM, CONNECT_ERROR.into()));
}

#[test]
fn a_reset_by_a_client_of_http1_reaches_the_origin() {
    let site = Site::start();
    let mut wire = site.tls_proxy.proxy.connect();
    reset_when_dropped(&wire.tcp);
    assert_eq!(wire.connect_tunnel(&site.authority()).status, 200);
    let mut origin = site.accept();
    drop(wire);
    let ended = origin.read(&mut [0]).expect_err("not an orderly end");
    assert_eq!(ended.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_silent_tunnel_ends_in_order() {
    let site = Site::start_with("3s");
    let (_wire, mut origin) = site.open();
    let ended = origin.read(&mut [0]).expect("nothing broke");
    assert_eq!(ended, 0);
}
