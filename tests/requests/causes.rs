//! Descriptions of failures, of requests and of robots.txt: in refusals, in the log and in the API.

use std::net::SocketAddr;

use serde_json::Value;

use crate::harness::dns::{Answer, NameServer};
use crate::harness::origin::reply::Step;
use crate::harness::tls::own_authority;
use crate::harness::{Certificate, Origin, Reply, Wayleave, eventually};
use crate::requests::faults::closing_robots;
use crate::robots::fetch::robots_command;

/// Words that belong to programs, not in messages for people.
const FOREIGN: &[&str] = &[
    "os error",
    "Os {",
    "Custom",
    "Error",
    "error trying",
    "InvalidCertificate",
    "UnknownIssuer",
    "::",
    "Some(",
    "{",
    "NXDOMAIN",
    "alert:",
    "rcode",
];

#[track_caller]
fn expect_words(text: &str, words: &str) {
    assert!(text.contains(words), "{words:?} in {text:?}");
    for foreign in FOREIGN {
        assert!(!text.contains(foreign), "{foreign:?} in {text:?}");
    }
}

fn detail(problem: &Value) -> &str {
    problem["detail"].as_str().expect("a refusal has a detail")
}

/// Sends a request for `url`, whose origin fails. Expects `words` in the response, the decision and the log.
#[track_caller]
fn expect_described(proxy: &Wayleave, url: &str, words: &str) {
    let answer = proxy.get(url);
    let problem = answer.json();
    expect_words(detail(&problem), words);
    expect_words(&answer.proxy_status().details, words);
    let id = problem["decision_id"].as_str().expect("an ID");
    eventually("the event is logged", || proxy.log().contains(id));
    let path = format!("/v1/decisions/{id}");
    eventually("the decision is recorded", || proxy.admin_get(&path).status == 200);
    let decision = proxy.admin_get(&path).json();
    expect_words(decision["details"].as_str().expect("details"), words);
    let log = proxy.log();
    let event = log.lines().find(|line| line.contains(id)).expect("it is logged");
    assert!(event.contains(words), "{words:?} in {event}");
}

/// Expects the description for a robots.txt, also in the API and on the command line.
#[track_caller]
fn expect_robots_described(proxy: &Wayleave, origin: &str, words: &str) {
    expect_described(proxy, &format!("{origin}/a"), words);
    let encoded: String = url::form_urlencoded::byte_serialize(origin.as_bytes()).collect();
    let known = proxy.admin_get(&format!("/v1/robots/{encoded}")).json();
    expect_words(known["cause"].as_str().expect("a cause"), words);
    let (_, printed) = robots_command(proxy, &["show", origin]);
    let failure = printed.lines().find(|line| line.starts_with("failure "));
    expect_words(failure.expect("it failed"), words);
    let (_, listed) = robots_command(proxy, &["list", origin]);
    assert!(listed.contains(words), "{words:?} in {listed}");
}

const TLS: &[(Certificate, &str)] = &[
    (Certificate::Expired, "certificate expired on 2020-01-01"),
    (Certificate::NotYetValid, "certificate is not valid before 3000-01-01"),
    (Certificate::OtherName, "certificate is for other.invalid, not for othername.test"),
    (Certificate::SelfSigned, "certificate is not issued by a trusted authority"),
    (Certificate::UnknownAuthority, "certificate is not issued by a trusted authority"),
    (Certificate::Alert, "the origin ended TLS: handshake failure"),
    (Certificate::PlainText, "the origin does not use TLS on this port"),
];

fn host_of(certificate: Certificate) -> String {
    format!("{certificate:?}.test").to_ascii_lowercase()
}

#[test]
fn bad_certificates_are_described() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    for (certificate, words) in TLS {
        let host = host_of(*certificate);
        origin.site(&host).robots_reply(closing_robots());
        assert_eq!(proxy.get(&format!("https://{host}/private")).status, 403);
        origin.site(&host).certificate(*certificate);
        expect_described(&proxy, &format!("https://{host}/a"), words);
    }
}

#[test]
fn bad_certificates_of_robots_txt_are_described() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    for (certificate, words) in TLS {
        let host = host_of(*certificate);
        origin.site(&host).certificate(*certificate);
        expect_robots_described(&proxy, &format!("https://{host}"), words);
    }
}

#[test]
fn a_refused_connection_names_the_address() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    origin.site("shop.test").robots_reply(closing_robots());
    assert_eq!(proxy.get("http://shop.test/private").status, 403);
    origin.stop_listening();
    let words = format!("connection refused by {}", origin.http);
    expect_described(&proxy, "http://shop.test/a", &words);
    expect_robots_described(&proxy, "http://other.test", &words);
}

#[test]
fn an_address_without_a_route_is_described() {
    let origin = Origin::start();
    // The system refuses connections to the broadcast address at once.
    let nowhere = SocketAddr::from(([255, 255, 255, 255], 80));
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .resolve("nowhere.test", nowhere)
            .set("upstream.allow_private", r#"["127.0.0.1/32", "255.255.255.255/32"]"#)
    });
    let answer = proxy.get("http://nowhere.test/a");
    let problem = answer.json();
    expect_words(detail(&problem), "255.255.255.255:80");
}

#[test]
fn dns_failures_are_described() {
    let origin = Origin::start();
    let names = NameServer::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.resolver(&names).set("upstream.connect_timeout", "\"2s\"")
    });
    let port = origin.http.port();
    let cases = [
        ("gone.example", Answer::NameError, "no such host"),
        ("broken.example", Answer::ServerFailure, "the DNS servers answered SERVFAIL"),
        ("empty.example", Answer::Addresses(Vec::new()), "the host has no addresses"),
        ("silent.example", Answer::Silence, "the DNS servers did not answer in time"),
    ];
    for (host, answer, words) in cases {
        names.set(host, Answer::Addresses(vec![[127, 0, 0, 1].into()]));
        origin.site(host).robots_reply(closing_robots());
        let private = format!("http://{host}:{port}/private");
        assert_eq!(proxy.get(&private).status, 403);
        names.set(host, answer.clone());
        expect_described(&proxy, &format!("http://{host}:{port}/a"), words);
        let other = format!("robots-{host}");
        names.set(&other, answer);
        expect_robots_described(&proxy, &format!("http://{other}:{port}"), words);
    }
}

#[test]
fn the_status_of_robots_txt_is_described() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    for status in [500, 503, 429, 999] {
        let host = format!("s{status}.test");
        origin.site(&host).robots_reply(Reply::new(status));
        expect_robots_described(&proxy, &format!("http://{host}"), &format!("HTTP {status}"));
    }
    origin.site("moved.test").robots_reply(Reply::redirect(301, "http://s500.test/robots.txt"));
    let part = Reply::new(206).header("Content-Range", "bytes 0-13/33");
    origin.site("s206.test").robots_reply(part.body("User-agent: *\n"));
    let words = "HTTP 206: a part of the file, although all of it was requested";
    expect_robots_described(&proxy, "http://s206.test", words);
    let words = "HTTP 500 (redirected to http://s500.test/robots.txt)";
    expect_robots_described(&proxy, "http://moved.test", words);
}

#[test]
fn broken_connections_are_described() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let cases = [
        (
            "closes",
            Reply::nothing(Step::Close),
            "the origin closed the connection before it answered",
        ),
        (
            "resets",
            Reply::nothing(Step::Reset),
            "the origin closed the connection before it answered",
        ),
        (
            "half",
            Reply::raw("HTTP/1.1 200 OK\r\nContent-Le", Step::Close),
            "the response's head: the origin closed the connection in the middle",
        ),
        (
            "other",
            Reply::raw("SSH-2.0-OpenSSH_9.2\r\n\r\n", Step::Close),
            "the response: malformed head: invalid HTTP version",
        ),
    ];
    for (host, reply, words) in cases {
        let page = format!("{host}-page.test");
        origin.site(&page).page("/a", reply.clone());
        expect_described(&proxy, &format!("http://{page}/a"), words);
        let robots = format!("{host}-robots.test");
        origin.site(&robots).robots_reply(reply);
        expect_robots_described(&proxy, &format!("http://{robots}"), words);
    }
}

#[test]
fn broken_http_2_is_described() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let site = origin.site("two.test").http2_only();
    site.page("/reset", Reply::nothing(Step::Reset));
    let words = "the origin reset the HTTP/2 stream";
    expect_described(&proxy, "https://two.test/reset", words);
}

#[test]
fn an_origin_is_reached_by_its_own_listed_certificate() {
    let origin = Origin::start();
    origin.site("own.test").certificate(Certificate::OwnAuthority).page("/a", Reply::text("ok"));
    // Another name, which the certificate does not state.
    origin.site("other.test").certificate(Certificate::OwnAuthority);
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let file = dir.path().join("own.pem");
    std::fs::write(&file, &own_authority().0).expect("it can be written");
    let proxy = Wayleave::start(&origin);
    let refused = proxy.get("https://own.test/a");
    assert_ne!(refused.status, 200, "it is not listed: {refused:?}");
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("upstream.extra_roots", &format!("[{file:?}]"))
    });
    let answer = proxy.get("https://own.test/a");
    assert_eq!((answer.status, answer.text().as_str()), (200, "ok"), "robots.txt and page");
    assert_ne!(proxy.get("https://other.test/a").status, 200, "for its names only");
}
