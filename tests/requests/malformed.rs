//! Malformed requests, which are refused and never reach an origin. See also the tables in security/.

use crate::harness::{Origin, Reply, Wayleave, eventually};

/// Expects a refusal with one of `statuses`, a closed connection, and nothing at the origin.
#[track_caller]
fn expect_rejected(proxy: &Wayleave, origin: &Origin, bytes: &[u8], statuses: &[u16]) {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
    let mut wire = proxy.connect();
    // The proxy may respond and close before it has read everything.
    let _maybe_closed = wire.try_send(bytes);
    let answer = wire
        .try_response(false)
        .unwrap_or_else(|error| panic!("{text}: {error}"))
        .unwrap_or_else(|| panic!("{text}: no response"));
    assert!(statuses.contains(&answer.status), "{text:?}: {} {}", answer.status, answer.text());
    answer.expect_refusal(answer.status, None, "http_request_error");
    wire.expect_close();
    assert_eq!(
        origin.seen().iter().filter(|line| !line.ends_with("/robots.txt")).count(),
        0,
        "{text:?}: {:?}",
        origin.seen()
    );
}

#[test]
fn a_head_without_end_is_refused() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let mut long = b"GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nX: ".to_vec();
    long.extend(vec![b'x'; 1 << 20]);
    expect_rejected(&proxy, &origin, &long, &[400, 431]);
    let mut many = b"GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n".to_vec();
    for number in 0..20_000 {
        many.extend(format!("X-{number}: y\r\n").as_bytes());
    }
    expect_rejected(&proxy, &origin, &many, &[400, 431]);
}

#[test]
fn a_head_that_arrives_too_slowly_is_refused() {
    let origin = Origin::start();
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.set("proxy.header_timeout", "\"3s\""));
    let mut wire = proxy.connect();
    wire.send("GET http://shop.test/a HTTP/1.1\r\nHost: sh");
    let answer = wire.try_response(false).expect("an orderly end");
    if let Some(answer) = answer {
        answer.expect_refusal(408, None, "http_request_error");
    }
    wire.expect_close();
    assert_eq!(origin.connections(), 0);
}

#[test]
fn a_broken_chunk_ends_the_connection_and_hides_no_request() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    for chunks in [
        "zz\r\nhello\r\n0\r\n\r\n",
        "5\r\nhelloXX\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "ffffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        "5\nhello\n0\n\n",
    ] {
        let mut wire = proxy.connect();
        let head = "POST http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\n";
        let next = "GET http://shop.test/smuggled HTTP/1.1\r\nHost: shop.test\r\n\r\n";
        let _maybe_closed = wire.try_send(format!("{head}{chunks}{next}"));
        if let Ok(Some(answer)) = wire.try_response(false) {
            assert!((400..600).contains(&answer.status), "{chunks:?}: {answer:?}");
        }
        wire.expect_close();
    }
    assert!(!origin.seen().iter().any(|line| line.contains("smuggled")), "{:?}", origin.seen());
}

#[test]
fn a_connection_without_bytes_is_not_a_request() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let mut wire = proxy.connect();
    wire.end_sending();
    wire.expect_close();
    let mut blank = proxy.connect();
    // RFC 9112 section 2.2: an empty line before the request line is to be ignored.
    blank.send("\r\nGET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\n");
    assert_eq!(blank.response().status, 200);
    origin.site("shop.test").page("/x", Reply::text("x"));
    eventually("the one request is counted", || {
        proxy.metric("wayleave_requests_total", &[]) == 1.0
    });
}
