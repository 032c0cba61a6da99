//! Tests of the harness itself: its records of requests and bodies, on which the other tests rely.

use crate::harness::tls::Authority;
use crate::harness::tools::project;
use crate::harness::{Certificate, Origin, Reply, Request, Wire};

#[test]
fn an_origin_records_exact_requests_and_counts_bodies() {
    let origin = Origin::start();
    origin.site("shop.test").page("/a", Reply::text("hello"));
    let mut wire = Wire::connect(origin.http);
    let post = Request::new("POST", "http://shop.test/a").header("X-Odd", "1").body("abc");
    wire.send(post.origin_form());
    let answer = wire.response();
    assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
    wire.send("GET /%7e/./b?c#d HTTP/1.1\r\nHost: shop.test\r\n\r\n");
    assert_eq!(wire.response().status, 200);
    assert_eq!(origin.seen(), ["POST http://shop.test/a", "GET http://shop.test/%7e/./b?c#d"]);
    let first = &origin.requests()[0];
    assert_eq!(first.header("x-odd"), Some("1"));
    assert_eq!((first.body().length, first.body().start.as_slice()), (3, &b"abc"[..]));
    assert_eq!(origin.connections(), 1);
}

#[test]
fn an_origin_serves_tls_by_name_with_good_and_bad_certificates() {
    let origin = Origin::start();
    origin.site("expired.test").certificate(Certificate::Expired);
    origin.site("alert.test").certificate(Certificate::Alert);
    let ca = Authority::trusted().pem.as_bytes();
    let mut good = Wire::connect(origin.https)
        .start_tls("good.test", ca, &["http/1.1"])
        .expect("trusted")
        .wire;
    good.send("GET / HTTP/1.1\r\nHost: good.test\r\n\r\n");
    assert_eq!(good.response().status, 200);
    assert_eq!(origin.requests()[0].sni.as_deref(), Some("good.test"));
    for (host, words) in [("expired.test", "Expired"), ("alert.test", "HandshakeFailure")] {
        let error =
            Wire::connect(origin.https).start_tls(host, ca, &[]).map(|_| ()).expect_err(host);
        assert!(
            error.to_string().contains(words) || format!("{error:?}").contains(words),
            "{host}: {error:?}"
        );
    }
}

/// Debian installs one squid or the other. The bench does not run with the one for GnuTLS, which lacks a helper.
#[test]
fn the_tests_and_the_bench_install_the_same_squid() {
    let needs = |file: &str| {
        let text = std::fs::read_to_string(project().join(file)).expect(file);
        let lines = text.lines().filter(|line| line.starts_with("need squid"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let expected = ["need squid-openssl test -x /usr/lib/squid/security_file_certgen"];
    assert_eq!(needs(".ci/install-debian"), expected);
    assert_eq!(needs("benches/proxy/install"), expected);
}
