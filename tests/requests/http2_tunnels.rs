//! Blind tunnels that break instead of ending: what the origin learns, and when (RFC 9113 section 8.5).

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::harness::client::{Wire, reset_when_dropped};
use crate::harness::h2_frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, block, frame, open_proxied,
};
use crate::harness::{Origin, eventually};
use crate::requests::tls_listener::{Guarded, start};

const CANCEL: [u8; 4] = [0, 0, 0, 8];
const CONNECT_ERROR: [u8; 4] = [0, 0, 0, 10];
/// Longer than a test: what ends a tunnel is not its silence.
const LIMIT: Duration = Duration::from_secs(30);

struct Site {
    _origin: Origin,
    guarded: Guarded,
    listener: TcpListener,
}

impl Site {
    fn start() -> Self {
        Self::start_patient("1h")
    }

    fn start_patient(idle_timeout: &str) -> Self {
        let origin = Origin::start();
        let guarded = start(&origin, |settings| {
            settings
                .set("https.bypass", "[\"127.0.0.1\"]")
                .set("proxy.idle_timeout", &format!("{idle_timeout:?}"))
        });
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        Self { _origin: origin, guarded, listener }
    }

    fn authority(&self) -> String {
        let address = self.listener.local_addr().expect("it is bound");
        address.to_string()
    }

    /// The origin's end of the tunnel.
    fn accept(&self) -> TcpStream {
        let (stream, _) = self.listener.accept().expect("the proxy dials");
        stream.set_read_timeout(Some(LIMIT)).expect("it can be set");
        stream
    }

    /// A tunnel as stream 1, and its other end.
    fn open(&self) -> (Wire, TcpStream) {
        let mut wire = open_proxied(self.guarded.tls);
        let connect = block(&[(":method", "CONNECT"), (":authority", &self.authority())]);
        wire.send(frame(HEADERS, END_HEADERS, 1, &connect));
        assert!(wire.stream_is_200(1));
        (wire, self.accept())
    }

    /// Opens a tunnel whose client has sent data and ended its side.
    fn half_closed(&self) -> (Wire, TcpStream) {
        let (mut wire, mut origin) = self.open();
        wire.send(frame(DATA, END_STREAM, 1, b"hello"));
        let mut heard = Vec::new();
        origin.read_to_end(&mut heard).expect("an orderly end");
        assert_eq!(heard, b"hello");
        (wire, origin)
    }
}

/// Behind the end of what the client sent, a reset shows as an error that nobody has to read for.
#[track_caller]
fn expect_break(origin: &TcpStream) {
    eventually("the origin sees a reset", || {
        origin.take_error().expect("it can be asked for").is_some()
    });
}

#[test]
fn a_reset_of_a_tunnel_is_one_to_the_origin() {
    let site = Site::start();
    let (mut wire, mut origin) = site.open();
    wire.send(frame(DATA, 0, 1, b"hello"));
    let mut heard = [0; 5];
    origin.read_exact(&mut heard).expect("what was sent");
    wire.send(frame(RST_STREAM, 0, 1, &CANCEL));
    let ended = origin.read(&mut heard).expect_err("not an orderly end");
    assert_eq!(ended.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_reset_behind_the_end_of_a_tunnels_client_ends_it() {
    let site = Site::start();
    let (mut wire, origin) = site.half_closed();
    wire.send(frame(RST_STREAM, 0, 1, &CANCEL));
    expect_break(&origin);
    // Only that stream.
    let connect = block(&[(":method", "CONNECT"), (":authority", &site.authority())]);
    wire.send(frame(HEADERS, END_HEADERS, 3, &connect));
    assert!(wire.stream_is_200(3));
}

#[test]
fn a_client_lost_behind_the_end_of_its_tunnel_ends_it() {
    let site = Site::start();
    let (wire, origin) = site.half_closed();
    drop(wire);
    expect_break(&origin);
}

#[test]
fn an_origin_goes_on_behind_the_end_of_a_tunnels_client() {
    let site = Site::start();
    let (mut wire, mut origin) = site.half_closed();
    for word in ["later", "still"] {
        origin.write_all(word.as_bytes()).expect("the tunnel is open");
        assert_eq!(wire.data(1), word.as_bytes());
    }
    assert!(origin.take_error().expect("it can be asked for").is_none());
    drop(origin);
    assert_eq!(wire.data(1), b"", "an orderly end");
}

#[test]
fn a_broken_connection_is_distinguished_from_an_ended_one() {
    let site = Site::start();
    let (mut wire, origin) = site.open();
    reset_when_dropped(&origin);
    drop(origin);
    let reset = wire.outcome(1).expect("the connection stays");
    assert_eq!((reset.kind, reset.payload), (RST_STREAM, CONNECT_ERROR.into()));
}

#[test]
fn a_reset_by_a_client_of_http1_is_one_to_the_origin() {
    let site = Site::start();
    let mut wire = site.guarded.proxy.connect();
    reset_when_dropped(&wire.tcp);
    assert_eq!(wire.connect_tunnel(&site.authority()).status, 200);
    let mut origin = site.accept();
    drop(wire);
    let ended = origin.read(&mut [0]).expect_err("not an orderly end");
    assert_eq!(ended.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_silent_tunnel_ends_in_order() {
    let site = Site::start_patient("1s");
    let (_wire, mut origin) = site.open();
    let ended = origin.read(&mut [0]).expect("nothing broke");
    assert_eq!(ended, 0);
}
