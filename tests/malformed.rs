//! Raw bytes that are no request, or two: refused, closed, and nothing of them at an origin.

use crate::harness::{Origin, Reply, Wayleave};

/// Checks a request that must not be understood: 400 (or `status`), closed, and nothing at the origin.
#[track_caller]
fn expect_rejected(proxy: &Wayleave, origin: &Origin, bytes: &[u8], statuses: &[u16]) {
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
    let mut wire = proxy.connect();
    // The proxy may answer and close before it has read everything.
    let _maybe_closed = wire.try_send(bytes);
    let answer = wire
        .try_response(false)
        .unwrap_or_else(|error| panic!("{shown}: {error}"))
        .unwrap_or_else(|| panic!("{shown}: no answer"));
    assert!(
        statuses.contains(&answer.status),
        "{shown:?}: {} {}",
        answer.status,
        answer.text()
    );
    answer.expect_refusal(answer.status, None, "http_request_error");
    wire.expect_close();
    assert_eq!(
        origin
            .seen()
            .iter()
            .filter(|line| !line.ends_with("/robots.txt"))
            .count(),
        0,
        "{shown:?}: {:?}",
        origin.seen()
    );
}

#[test]
fn ambiguous_bodies_are_refused_and_the_connection_closes() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let framings = [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5\r\nContent-Length: 5",
        "Content-Length: 5, 5",
        "Content-Length: +5",
        "Content-Length: -5",
        "Content-Length: 0x5",
        "Content-Length: 5 5",
        "Content-Length: ",
        "Content-Length: 99999999999999999999",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked, gzip",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: \u{b}chunked",
        "Transfer-Encoding : chunked",
        "Content-Length : 5",
        "X: y\n Content-Length: 5",
        "X: y\r\n folded",
        "Content-Length: 5\nX: y",
        "X: a\rb",
        "X: a\0b",
        "Bad Name: x",
        ": x",
        "X",
    ];
    for framing in framings {
        let request = format!(
            "POST http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n{framing}\r\n\r\n5\r\nhello\r\n0\r\n\r\nGET http://shop.test/smuggled HTTP/1.1\r\nHost: shop.test\r\n\r\n"
        );
        expect_rejected(&proxy, &origin, request.as_bytes(), &[400, 501]);
    }
}

#[test]
fn malformed_heads_are_refused_and_the_connection_closes() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let heads: [&[u8]; 26] = [
        b"GET http://shop.test/a b HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        b"GET http://shop.test/a\tb HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        b"GET http://shop.test/a\0b HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        b"GET http://shop.test/a\x7f HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        b"GET  http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        b"GET http://shop.test/a  HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        b"GET http://shop.test/a HTTP/1.1\nHost: shop.test\n\n",
        b"GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\n\r\n",
        b"GET http://shop.test/a HTTP/1.1\r\n\r\n",
        b"GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nHost: shop.test\r\n\r\n",
        b"GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nHost: other.test\r\n\r\n",
        b"GET http://shop.test/a HTTP/1.1\r\nHost: a b\r\n\r\n",
        b"GET http://shop.test/a HTTP/2.0\r\nHost: shop.test\r\n\r\n",
        b"GET http://shop.test/a HTTP/1.2x\r\nHost: shop.test\r\n\r\n",
        b"GET http://shop.test/a\r\nHost: shop.test\r\n\r\n",
        b"GET /a HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        b"GET * HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        b"GET http:///a HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        b"GET http://shop.test:0x50/a HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        b"GET http://shop.test:99999/a HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        b"GET http://a@b@shop.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        b"GET http://shop.test\\@other.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        b"G\xc3\x84T http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        b"CONNECT shop.test HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        b"CONNECT http://shop.test:443/ HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        b"CONNECT shop.test:443/path HTTP/1.1\r\nHost: shop.test\r\n\r\n",
    ];
    for head in heads {
        expect_rejected(&proxy, &origin, head, &[400, 505]);
    }
    assert_eq!(origin.connections(), 0, "{:?}", origin.seen());
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
fn a_head_that_comes_too_slowly_is_refused() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("proxy.header_timeout", "\"1s\"")
    });
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
            assert!(
                (400..600).contains(&answer.status),
                "{chunks:?}: {answer:?}"
            );
        }
        wire.expect_close();
    }
    assert!(
        !origin.seen().iter().any(|line| line.contains("smuggled")),
        "{:?}",
        origin.seen()
    );
}

#[test]
fn a_connection_that_only_opens_is_no_request() {
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
    assert_eq!(proxy.metric("wayleave_requests_total", &[]), 1.0);
}
