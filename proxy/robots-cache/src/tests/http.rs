use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wayleave_lifecycle::{
    CacheValidators, ChosenBy, FetchEnding, FetchErrorKind, FetchOutcome, FetchRequest, FetchResult,
};
use wayleave_robots_txt::{AccessResult, Origin, Target};
use wayleave_upstream::egress::{self, DnsOverride, Egress};
use wayleave_upstream::{self as upstream, Destination, Upstream, VersionPreference};

use super::super::document_sender::DocumentSender;
use super::super::*;
use super::server::{Answer, Server, response};

const TEN_SECONDS: Duration = Duration::from_secs(10);

pub(super) const RULES: &[u8] = b"User-agent: *\nDisallow: /private\n";

fn ok(body: &[u8]) -> Answer {
    response("200 OK", "Content-Type: text/plain\r\n", body)
}

fn redirect(status: u16, location: &str) -> Answer {
    response(&format!("{status} Elsewhere"), &format!("Location: {location}\r\n"), b"")
}

/// Returns a configuration that trusts no certificate, for servers without TLS.
pub(super) fn distrust() -> rustls::ClientConfig {
    trust(rustls::RootCertStore::empty())
}

pub(super) fn trust(roots: rustls::RootCertStore) -> rustls::ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// Returns a fetcher for which every name under `test` is `server`, and only loopback's first address is allowed.
pub(super) fn fetcher(
    server: &Server,
    tls: &rustls::ClientConfig,
    options: FetchConfig,
) -> HttpFetcher {
    fetcher_at(server.address, tls, options)
}

pub(super) fn fetcher_at(
    server: SocketAddr,
    tls: &rustls::ClientConfig,
    options: FetchConfig,
) -> HttpFetcher {
    let upstream = upstream(&addresses(server), tls, TEN_SECONDS);
    HttpFetcher::new(Arc::new(upstream), options, Clock::start())
}

/// Returns a fetcher for which every name under `test` is `server`, and whose DNS server is a closed port.
fn addresses(server: SocketAddr) -> egress::EgressSettings {
    egress::EgressSettings {
        allow_private: vec!["127.0.0.1/32".parse().unwrap()],
        dns_servers: vec!["127.0.0.1:9".parse().unwrap()],
        dns_overrides: vec![
            DnsOverride::parse("*.test", &server.to_string()).unwrap(),
            DnsOverride::parse("metadata.test", "169.254.169.254").unwrap(),
        ],
        ..egress::EgressSettings::default()
    }
}

fn upstream(
    addresses: &egress::EgressSettings,
    tls: &rustls::ClientConfig,
    connect_timeout: Duration,
) -> Upstream {
    let egress = Egress::new(addresses.clone()).unwrap();
    let options = upstream::UpstreamSettings {
        connect_timeout,
        response_timeout: TEN_SECONDS,
        idle_connections: 10,
        pseudonym: "wayleave".to_owned(),
    };
    let metrics = Arc::new(Metrics::new().unwrap());
    Upstream::new(options, egress, tls, metrics)
}

/// Answers every DNS query with SERVFAIL.
async fn failing_dns() -> SocketAddr {
    let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut message = [0; 512];
        while let Ok((length, client)) = socket.recv_from(&mut message).await {
            message[2] |= 0x80;
            message[3] = 2;
            socket.send_to(&message[..length], client).await.unwrap();
        }
    });
    address
}

async fn fetch_by(server: &Server, options: FetchConfig) -> FetchOutcome {
    let request = FetchRequest {
        identity: FetchIdentity::proxy(),
        resource: Origin::parse("http://shop.test:8000").unwrap().into(),
        validators: None,
    };
    fetcher(server, &distrust(), options).fetch(request, None).await.outcome
}

async fn fetch(server: &Server) -> FetchOutcome {
    fetch_by(server, FetchConfig::default()).await
}

pub(super) fn hasty() -> FetchConfig {
    FetchConfig { timeout: Duration::from_millis(200), ..FetchConfig::default() }
}

pub(super) fn kind(outcome: &FetchOutcome) -> Option<FetchErrorKind> {
    outcome.error().map(|error| error.kind)
}

pub(super) fn body(outcome: &FetchOutcome) -> &[u8] {
    &outcome.body().expect("successful").bytes
}

#[tokio::test]
async fn fetch_outcomes_match_the_responses() {
    let lines = "Content-Type: text/plain\r\nETag: \"v1\"\r\nCache-Control: max-age=60\r\n";
    let server = Server::start(move |_| response("200 OK", lines, RULES)).await;
    let outcome = fetch(&server).await;
    assert_eq!(outcome.result(), FetchResult::Successful);
    assert_eq!(outcome.uri, "http://shop.test:8000/robots.txt");
    assert_eq!(body(&outcome), RULES);
    let fields = outcome.fields().unwrap();
    assert_eq!(fields.etag.as_deref(), Some("\"v1\""));
    assert_eq!(fields.cache_control.as_deref(), Some("max-age=60"));
    let asked = server.asked();
    assert_eq!(asked.len(), 1);
    let head = asked[0].to_ascii_lowercase();
    assert!(head.starts_with("get /robots.txt http/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nhost: shop.test:8000\r\n"), "{head}");
    assert!(head.contains("\r\nuser-agent: wayleave/"), "{head}");
}

#[tokio::test]
async fn validators_revalidate_a_copy() {
    let server = Server::start(|head| match head.to_ascii_lowercase() {
        head if head.contains("if-none-match: \"v1\"\r\n") => response("304 Not Modified", "", b""),
        _ => ok(RULES),
    })
    .await;
    let fetcher = fetcher(&server, &distrust(), FetchConfig::default());
    let validators = |uri: &str| {
        Some(CacheValidators {
            uri: uri.to_owned(),
            etag: Some("\"v1\"".into()),
            last_modified: Some("Sat, 21 Nov 2026 08:00:00 GMT".into()),
        })
    };
    let origin = Origin::parse("http://shop.test").unwrap();
    let request = FetchRequest {
        identity: FetchIdentity::proxy(),
        resource: origin.clone().into(),
        validators: validators("http://shop.test/robots.txt"),
    };
    let confirmed = fetcher.fetch(request, None).await.outcome;
    assert!(matches!(confirmed.ending, FetchEnding::NotModified(_)));
    assert!(server.asked()[0].contains("if-modified-since: Sat, 21 Nov 2026 08:00:00 GMT"));
    let request = FetchRequest {
        identity: FetchIdentity::proxy(),
        resource: origin.into(),
        validators: validators("http://other.test/robots.txt"),
    };
    let outcome = fetcher.fetch(request, None).await.outcome;
    assert_eq!(body(&outcome), RULES, "another URI's validators are not sent");
}

#[tokio::test]
async fn an_unconditional_304_is_a_failure() {
    let server = Server::start(|_| response("304 Not Modified", "", b"")).await;
    assert_eq!(fetch(&server).await.result(), FetchResult::Unreachable);
}

#[tokio::test]
async fn partial_content_is_not_the_file() {
    let lines = "Content-Range: bytes 0-16/33\r\n";
    let server = Server::start(move |_| response("206 Partial Content", lines, &RULES[..17])).await;
    let outcome = fetch(&server).await;
    assert_eq!(outcome.result(), FetchResult::Unreachable);
    assert_eq!(outcome.body(), None);
}

#[tokio::test]
async fn five_redirects_are_followed_across_hosts() {
    let server = Server::start(|head| {
        let path = head.split(' ').nth(1).unwrap();
        match path {
            "/robots.txt" => redirect(301, "http://a.test/1#top"),
            "/1" => redirect(302, "//user:secret@b.test/2"),
            "/2" => redirect(303, "3?x=1"),
            "/3?x=1" => redirect(307, "http://c.test:81/4"),
            "/4" => redirect(308, "/5"),
            "/5" => ok(RULES),
            _ => response("404 Not Found", "", b""),
        }
    })
    .await;
    let outcome = fetch(&server).await;
    assert_eq!(body(&outcome), RULES);
    assert_eq!(outcome.uri, "http://c.test:81/5");
    let hops: Vec<_> = outcome.redirects.iter().map(|hop| (hop.uri.as_str(), hop.status)).collect();
    let expected = [
        ("http://shop.test:8000/robots.txt", 301),
        ("http://a.test/1", 302),
        ("http://b.test/2", 303),
        ("http://b.test/3?x=1", 307),
        ("http://c.test:81/4", 308),
    ];
    assert_eq!(hops, expected);
    assert!(!server.asked().concat().contains("secret"));
    assert!(!server.asked().concat().to_ascii_lowercase().contains("authorization"));
}

#[tokio::test]
async fn a_sixth_redirect_is_not_followed() {
    let server = Server::start(|_| redirect(301, "/robots.txt")).await;
    let outcome = fetch(&server).await;
    assert_eq!(outcome.ending, FetchEnding::RedirectLost(301));
    assert_eq!(outcome.redirects.len(), 5);
    assert_eq!(server.asked().len(), 6);
}

#[tokio::test]
async fn redirects_are_checked_like_requests() {
    for target in [
        "http://metadata.test/latest/meta-data",
        "http://169.254.169.254/",
        "http://127.0.0.2/",
        "http://0x7f.2/",
        "http://[::1]/",
        "http://[::ffff:169.254.169.254]/",
        "https://metadata.test/",
    ] {
        let server = Server::start(move |_| redirect(302, target)).await;
        let outcome = fetch(&server).await;
        let prohibited = Some(FetchErrorKind::RedirectProhibited);
        assert_eq!(kind(&outcome), prohibited, "{target}");
        assert_eq!(server.asked().len(), 1);
    }
}

#[tokio::test]
async fn invalid_redirects_are_failures() {
    for location in [
        "",
        "ftp://a.test/robots.txt",
        "file:///etc/passwd",
        "http://",
        "http://a b.test/",
        "javascript:1",
    ] {
        let server = Server::start(move |_| match location {
            "" => response("301 Moved", "", b""),
            location => redirect(301, location),
        })
        .await;
        let outcome = fetch(&server).await;
        assert_eq!(kind(&outcome), Some(FetchErrorKind::BadRedirect), "{location}");
    }
    let two = "Location: /a\r\nLocation: /b\r\n";
    let server = Server::start(move |_| response("301 Moved", two, b"")).await;
    assert_eq!(kind(&fetch(&server).await), Some(FetchErrorKind::BadRedirect));
    let server = Server::start(|_| response("300 Choose", "Location: /a\r\n", b"")).await;
    assert_eq!(fetch(&server).await.result(), FetchResult::Unreachable);
}

#[tokio::test]
async fn internal_origins_are_prohibited() {
    let server = Server::start(|_| ok(RULES)).await;
    let request = FetchRequest {
        identity: FetchIdentity::proxy(),
        resource: Origin::parse("http://127.0.0.2").unwrap().into(),
        validators: None,
    };
    let fetcher = fetcher(&server, &distrust(), FetchConfig::default());
    let outcome = fetcher.fetch(request, None).await.outcome;
    assert_eq!(kind(&outcome), Some(FetchErrorKind::Prohibited));
}

#[tokio::test]
async fn long_bodies_are_cut_however_they_are_framed() {
    const LIMIT: usize = 500 * 1024;
    let line = b"Disallow: /abcdefghijklmnopqrstuvwxyz\n".repeat(100);
    let whole = line.repeat(LIMIT / line.len() + 1);
    let exact = whole[..LIMIT].to_vec();
    let one_more = whole[..=LIMIT].to_vec();
    let chunk = [format!("{:x}\r\n", line.len()).as_bytes(), &line, b"\r\n"].concat();
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let unending = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
    let cases: [(Answer, bool); 4] = [
        (ok(&exact), false),
        (ok(&one_more), true),
        (Answer::Endless(chunked, chunk), true),
        (Answer::Endless(unending, line), true),
    ];
    for (answer, is_cut) in cases {
        let answer = Mutex::new(Some(answer));
        let server = Server::start(move |_| answer.lock().unwrap().take().unwrap()).await;
        let outcome = fetch(&server).await;
        let body = outcome.body().expect("successful");
        assert_eq!((body.bytes.len(), body.is_cut), (LIMIT, is_cut));
        assert_eq!(&*body.bytes, exact);
    }
}

/// Every coding, under each of its names.
const CODED: [(&str, &[Coded]); 8] = [
    ("gzip", &[Coded::Gzip]),
    ("X-GZIP", &[Coded::Gzip]),
    ("br", &[Coded::Brotli]),
    ("zstd", &[Coded::Zstd]),
    ("deflate", &[Coded::Zlib]),
    ("deflate", &[Coded::RawDeflate]),
    ("gzip, identity, br", &[Coded::Gzip, Coded::Brotli]),
    ("deflate, zstd", &[Coded::RawDeflate, Coded::Zstd]),
];

async fn coded(codings: &[Coded], bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for coding in codings {
        bytes = coding.encode(&bytes).await;
    }
    bytes
}

/// Returns the result of a body with this `Content-Encoding`.
async fn fetch_coded(name: &str, body: &[u8]) -> FetchOutcome {
    let answer = (format!("Content-Encoding: {name}\r\n"), body.to_vec());
    let server = Server::start(move |_| response("200 OK", &answer.0, &answer.1)).await;
    fetch(&server).await
}

#[tokio::test]
async fn bodies_are_decoded_and_decompression_bombs_cut() {
    for (name, codings) in CODED {
        let rules = coded(codings, RULES).await;
        assert_eq!(body(&fetch_coded(name, &rules).await), RULES, "{name}");

        let bomb = coded(codings, &vec![b'\n'; 64 << 20]).await;
        assert!(bomb.len() < 100_000, "{name}: {}", bomb.len());
        let outcome = fetch_coded(name, &bomb).await;
        let body = outcome.body().expect("successful");
        assert_eq!((body.bytes.len(), body.is_cut), (500 * 1024, true), "{name}");
    }
}

#[tokio::test]
async fn labels_that_are_not_true_leave_plain_rules_readable() {
    for label in [
        "utf-8",
        "none",
        "text/plain",
        "binary",
        "7bit",
        "aws-chunked",
        "compress",
        "\u{e9}",
        "gzip",
        "zstd",
        "gzip, gzip",
        "gzip, utf-8",
    ] {
        assert_eq!(body(&fetch_coded(label, RULES).await), RULES, "{label}");
        let long = RULES.repeat(20_000);
        let outcome = fetch_coded(label, &long).await;
        let body = outcome.body().expect("successful");
        assert_eq!((&*body.bytes, body.is_cut), (&long[..500 * 1024], true), "{label}");
    }
    let gzip = Coded::Gzip.encode(RULES).await;
    for label in ["gzip, utf-8", "aws-chunked,gzip", "gzip, gzip"] {
        assert_eq!(body(&fetch_coded(label, &gzip).await), RULES, "{label}");
    }
}

/// Otherwise cutting the connection would cut the rules.
#[tokio::test]
async fn truncated_codings_are_failures() {
    for (name, codings) in CODED {
        let rules = coded(codings, &RULES.repeat(50)).await;
        for length in [0, 1, rules.len() / 2, rules.len() - 1] {
            let outcome = fetch_coded(name, &rules[..length]).await;
            let kind = kind(&outcome);
            assert_eq!(kind, Some(FetchErrorKind::Body), "{name}, {length} bytes");
        }
        let more = fetch_coded(name, &[&rules[..], b"more"].concat()).await;
        assert_eq!(kind(&more), Some(FetchErrorKind::Body), "{name} and more");
    }
    // The outer coding is complete, its content is not.
    let rules = Coded::Zlib.encode(RULES).await;
    let cut = Coded::Zstd.encode(&rules[..rules.len() - 1]).await;
    let outcome = fetch_coded("deflate, zstd", &cut).await;
    assert_eq!(kind(&outcome), Some(FetchErrorKind::Body), "{outcome:?}");
}

/// One of two codings could grow to gigabytes that decode to nothing.
#[tokio::test]
async fn chained_codings_are_limited_between_stages_too() {
    let nothing = Coded::Gzip.encode(b"").await;
    let few = nothing.repeat(1_000);
    let many = nothing.repeat(1 << 20);
    for (inner, is_read) in [(few, true), (many, false)] {
        let outer = Coded::Zstd.encode(&inner).await;
        assert!(outer.len() < 100_000, "{}", outer.len());
        let outcome = fetch_coded("gzip, zstd", &outer).await;
        let kind = kind(&outcome);
        assert_eq!(kind.is_none(), is_read, "{outcome:?}");
        assert!(is_read || kind == Some(FetchErrorKind::Body), "{outcome:?}");
    }
}

#[tokio::test]
async fn short_limits_work() {
    let plain = RULES.repeat(100);
    let gzip = Coded::Gzip.encode(&plain).await;
    for (lines, bytes) in [("", plain.clone()), ("Content-Encoding: gzip\r\n", gzip)] {
        let server = Server::start(move |_| response("200 OK", lines, &bytes)).await;
        let options = FetchConfig { max_size_bytes: 100, ..FetchConfig::default() };
        let request = FetchRequest {
            identity: FetchIdentity::proxy(),
            resource: Origin::parse("http://shop.test").unwrap().into(),
            validators: None,
        };
        let fetcher = fetcher(&server, &distrust(), options);
        let outcome = fetcher.fetch(request, None).await.outcome;
        let body = outcome.body().expect("successful");
        assert_eq!((&*body.bytes, body.is_cut), (&plain[..100], true));
    }
}

#[tokio::test]
async fn every_member_of_a_gzip_file_is_read() {
    let mut parts = Vec::new();
    for line in RULES.split_inclusive(|&byte| byte == b'\n') {
        parts.extend(Coded::Gzip.encode(line).await);
    }
    parts.extend(Coded::Gzip.encode(b"").await);
    let lines = "Content-Encoding: gzip\r\n";
    let server = Server::start(move |_| response("200 OK", lines, &parts)).await;
    assert_eq!(body(&fetch(&server).await), RULES);
}

#[tokio::test]
async fn a_public_origin_never_redirects_to_an_internal_address() {
    let server = Server::start(|_| ok(RULES)).await;
    let fetcher = fetcher(&server, &distrust(), FetchConfig::default());
    let target = Target::parse("http://shop.test/robots.txt").unwrap();
    let identity = FetchIdentity::default();
    let deadline = tokio::time::Instant::now() + TEN_SECONDS;
    let sender = DocumentSender { identity: &identity, signer: None, via: None, deadline };
    let ask = |chosen| fetcher.request(&target, None, (sender, None), chosen);
    let refused = ask(ChosenBy::Public).await.err().unwrap();
    assert_eq!(refused.kind, FetchErrorKind::RedirectProhibited);
    assert!(server.asked().is_empty());
    for chosen in [ChosenBy::Crawler, ChosenBy::Internal] {
        let asked = ask(chosen).await;
        assert!(asked.is_ok_and(|exchange| !exchange.is_public), "{chosen:?}");
    }
}

#[test]
fn a_redirect_chain_remains_public_once_it_was() {
    use ChosenBy::{Crawler, Internal, Public};
    let chain = |hops: &[bool]| hops.iter().fold(Crawler, |chosen, hop| chosen.for_next_host(*hop));
    assert_eq!(chain(&[false]), Internal);
    assert_eq!(chain(&[false, false]), Internal);
    assert_eq!(chain(&[true]), Public);
    assert_eq!(chain(&[false, true]), Public);
    assert_eq!(chain(&[true, false]), Public);
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Coded {
    Gzip,
    Brotli,
    Zstd,
    Zlib,
    RawDeflate,
}

impl Coded {
    pub(super) async fn encode(self, bytes: &[u8]) -> Vec<u8> {
        use async_compression::tokio::write::{BrotliEncoder, GzipEncoder};
        use flate2::write::{DeflateEncoder, ZlibEncoder};
        use std::io::Write;
        use tokio::io::AsyncWriteExt;
        let level = flate2::Compression::default();
        match self {
            Self::Gzip => {
                let mut encoder = GzipEncoder::new(Vec::new());
                encoder.write_all(bytes).await.unwrap();
                encoder.shutdown().await.unwrap();
                encoder.into_inner()
            }
            Self::Brotli => {
                let fastest = async_compression::Level::Fastest;
                let mut encoder = BrotliEncoder::with_quality(Vec::new(), fastest);
                encoder.write_all(bytes).await.unwrap();
                encoder.shutdown().await.unwrap();
                encoder.into_inner()
            }
            Self::Zstd => zstd::bulk::compress(bytes, 3).unwrap(),
            Self::Zlib => {
                let mut encoder = ZlibEncoder::new(Vec::new(), level);
                Write::write_all(&mut encoder, bytes).unwrap();
                encoder.finish().unwrap()
            }
            Self::RawDeflate => {
                let mut encoder = DeflateEncoder::new(Vec::new(), level);
                Write::write_all(&mut encoder, bytes).unwrap();
                encoder.finish().unwrap()
            }
        }
    }
}

#[tokio::test]
async fn truncated_and_invalid_bodies_are_failures() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nUser-agent: *\n".to_vec();
    let broken_chunk = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc".to_vec();
    let cut_chunk = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20\r\nabc".to_vec();
    let mut cut_gzip = Coded::Gzip.encode(RULES).await;
    cut_gzip.truncate(cut_gzip.len() / 2);
    let whole = Coded::Gzip.encode(RULES).await;
    // Long, and damaged in its last byte.
    let mut damaged = Coded::Gzip.encode(&RULES.repeat(5000)).await;
    *damaged.last_mut().unwrap() ^= 1;
    let whole_brotli = Coded::Brotli.encode(RULES).await;
    let coded = |coding: &str| format!("Content-Encoding: {coding}\r\n");
    let cases = [
        response("200 OK", &coded("gzip"), &[&whole, RULES].concat()),
        response("200 OK", &coded("gzip"), &[&whole[..], b"\0"].concat()),
        response("200 OK", &coded("gzip"), &[&whole[..], &cut_gzip].concat()),
        response("200 OK", &coded("br"), &[&whole_brotli, RULES].concat()),
        Answer::Whole(head.clone()),
        Answer::Reset(head),
        Answer::Whole(broken_chunk),
        Answer::Whole(cut_chunk),
        response("200 OK", &coded("gzip"), &cut_gzip),
        response("200 OK", &coded("gzip"), &damaged),
        response("200 OK", &coded("gzip"), b""),
        // These two have no fixed beginning, so the content may be coded and damaged.
        response("200 OK", &coded("br"), RULES),
        response("200 OK", &coded("deflate"), RULES),
        response("200 OK", &coded("gzip, br"), RULES),
        // Neither what the label says, nor text.
        response("200 OK", &coded("compress"), b"\x1f\x9d\x90User-agent: *\n"),
        response("200 OK", &coded("utf-8"), &whole),
        response("200 OK", &coded("utf-8"), &whole_brotli),
        response("200 OK", &coded("zstd"), &whole),
        response("200 OK", &coded("gzip"), &whole_brotli),
        response("200 OK", &coded("gzip, gzip, gzip"), &whole),
    ];
    for (number, answer) in cases.into_iter().enumerate() {
        let answer = Mutex::new(Some(answer));
        let server = Server::start(move |_| answer.lock().unwrap().take().unwrap()).await;
        let outcome = fetch(&server).await;
        assert_eq!(kind(&outcome), Some(FetchErrorKind::Body), "{number}: {outcome:?}");
    }
}

#[tokio::test]
async fn responses_that_are_not_http_are_failures() {
    let long_field = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(300_000));
    let many_fields = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(2_000));
    let early = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".to_vec();
    let cases = [
        Answer::Whole(Vec::new()),
        Answer::Whole(b"\x00\x01\x02 hello\r\n\r\n".to_vec()),
        Answer::Whole(b"220 smtp.example ESMTP\r\n".to_vec()),
        Answer::Whole(long_field.into_bytes()),
        Answer::Whole(many_fields.into_bytes()),
        Answer::Whole(
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef".to_vec(),
        ),
        Answer::Endless(Vec::new(), b"x".repeat(4096)),
        Answer::Endless(Vec::new(), early),
        Answer::Reset(b"HTTP/1.1 200".to_vec()),
    ];
    for (number, answer) in cases.into_iter().enumerate() {
        let answer = Mutex::new(Some(answer));
        let server = Server::start(move |_| answer.lock().unwrap().take().unwrap()).await;
        let outcome = fetch(&server).await;
        assert_eq!(kind(&outcome), Some(FetchErrorKind::Http), "{number}: {outcome:?}");
    }
}

#[tokio::test]
async fn slow_servers_time_out() {
    let body = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nUser-agent: *\n".to_vec();
    let cases = [
        Answer::Stall(Vec::new()),
        Answer::Stall(b"HTTP/1.1 200 OK\r\nContent-".to_vec()),
        Answer::Stall(body),
    ];
    for (number, answer) in cases.into_iter().enumerate() {
        let answer = Mutex::new(Some(answer));
        let server = Server::start(move |_| answer.lock().unwrap().take().unwrap()).await;
        let outcome = fetch_by(&server, hasty()).await;
        assert_eq!(kind(&outcome), Some(FetchErrorKind::Timeout), "{number}: {outcome:?}");
    }
}

#[tokio::test]
async fn the_timeout_covers_all_redirects() {
    let server = Server::start(|head| match head.contains(" /last ") {
        true => Answer::Stall(Vec::new()),
        false => redirect(301, "/last"),
    })
    .await;
    let outcome = fetch_by(&server, hasty()).await;
    assert_eq!(kind(&outcome), Some(FetchErrorKind::Timeout));
    assert_eq!(outcome.redirects.len(), 1, "the way so far is told");
    assert_eq!(outcome.uri, "http://shop.test:8000/last");
}

#[tokio::test(start_paused = true)]
async fn connecting_has_its_own_timeout() {
    // Accepts connections and sends nothing.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addresses = addresses(silent.local_addr().unwrap());
    let upstream = upstream(&addresses, &distrust(), Duration::from_secs(2));
    let options = FetchConfig::default();
    let fetcher = HttpFetcher::new(Arc::new(upstream), options, Clock::start());
    let origin = Origin::parse("https://shop.test").unwrap();
    let validators = None;
    let started = tokio::time::Instant::now();
    let outcome = fetcher
        .fetch(
            FetchRequest { identity: FetchIdentity::proxy(), resource: origin.into(), validators },
            None,
        )
        .await
        .outcome;
    assert_eq!(kind(&outcome), Some(FetchErrorKind::ConnectTimeout));
    let took = started.elapsed();
    assert!((2..3).contains(&took.as_secs()), "{took:?}");
}

#[tokio::test]
async fn connection_and_dns_failures_are_distinguished() {
    let closed = Server::start(|_| ok(RULES)).await.address;
    let server = Server::start(move |head| match head.contains("refused") {
        true => redirect(302, &format!("http://{closed}/")),
        false => redirect(302, "http://elsewhere.example/"),
    })
    .await;
    let addresses = egress::EgressSettings {
        dns_servers: vec![failing_dns().await],
        ..addresses(server.address)
    };
    let upstream = upstream(&addresses, &distrust(), TEN_SECONDS);
    let fetcher = HttpFetcher::new(Arc::new(upstream), FetchConfig::default(), Clock::start());
    let fetch = |host: &str| {
        fetcher.fetch(
            FetchRequest {
                identity: FetchIdentity::proxy(),
                resource: Origin::parse(&format!("http://{host}.test")).unwrap().into(),
                validators: None,
            },
            None,
        )
    };
    let refused = fetch("refused").await.outcome;
    assert_eq!(kind(&refused), Some(FetchErrorKind::Connect), "{refused:?}");
    let unknown = fetch("unknown").await.outcome;
    assert_eq!(kind(&unknown), Some(FetchErrorKind::Dns), "{unknown:?}");
}

/// Returns how a fetch from `origin` fails with these ways to it, within a timeout.
async fn failure_at(
    origin: &str,
    addresses: &egress::EgressSettings,
    timeout: Duration,
) -> Option<FetchErrorKind> {
    let upstream = Arc::new(upstream(addresses, &distrust(), TEN_SECONDS));
    let options = FetchConfig { timeout, ..FetchConfig::default() };
    let request = FetchRequest {
        identity: FetchIdentity::proxy(),
        resource: Origin::parse(origin).unwrap().into(),
        validators: None,
    };
    let fetched = HttpFetcher::new(upstream, options, Clock::start()).fetch(request, None).await;
    kind(&fetched.outcome)
}

#[tokio::test]
async fn silent_dns_servers_are_not_the_origins_fault() {
    let silent = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let hosts = "http://elsewhere.example";
    for (server, timeout, expected) in [
        (silent.local_addr().unwrap(), Duration::from_millis(100), FetchErrorKind::DnsTimeout),
        (failing_dns().await, TEN_SECONDS, FetchErrorKind::Dns),
    ] {
        let settings = egress::EgressSettings {
            dns_servers: vec![server],
            ..egress::EgressSettings::default()
        };
        assert_eq!(failure_at(hosts, &settings, timeout).await, Some(expected), "{server}");
    }
}

#[tokio::test]
async fn failures_of_the_parent_proxy_are_not_the_origins() {
    use FetchErrorKind::{Proxy, ProxyUnavailable};
    let closed = Server::start(|_| ok(b"")).await.address;
    let silent = Server::start(|_| Answer::Stall(Vec::new())).await;
    let cut = Server::start(|_| Answer::Whole(Vec::new())).await;
    let stranger = Server::start(|_| response("407 Who are you?", "", b"")).await;
    let honest = Server::start(|_| response("502 No such host", "", b"")).await;
    for (name, parent, expected) in [
        ("closed", closed, ProxyUnavailable),
        ("silent", silent.address, ProxyUnavailable),
        ("cut", cut.address, ProxyUnavailable),
        ("stranger", stranger.address, ProxyUnavailable),
        ("honest", honest.address, Proxy),
    ] {
        let settings = egress::EgressSettings {
            allow_private: vec!["127.0.0.1/32".parse().unwrap()],
            parent: Some(Arc::new(format!("http://{parent}").parse().unwrap())),
            ..egress::EgressSettings::default()
        };
        let timeout = Duration::from_millis(500);
        let found = failure_at("https://shop.example", &settings, timeout).await;
        assert_eq!(found, Some(expected), "{name}");
        if matches!(name, "closed" | "silent") {
            let found = failure_at("http://shop.example", &settings, timeout).await;
            assert_eq!(found, Some(expected), "{name}, without a tunnel");
        }
    }
}

pub(super) fn identity(name: &str) -> (rustls::ServerConfig, rustls::RootCertStore) {
    let key = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let certificate = key.cert.der().clone();
    let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], private)
        .unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    (config, roots)
}

#[tokio::test]
async fn https_origins_need_a_valid_certificate() {
    let (config, roots) = identity("shop.test");
    let server = Server::start_tls(Arc::new(config), |_| ok(RULES)).await;
    let fetch = |host: &str, tls: &rustls::ClientConfig| {
        let fetcher = fetcher(&server, tls, FetchConfig::default());
        let origin = Origin::parse(&format!("https://{host}")).unwrap();
        async move {
            let validators = None;
            fetcher
                .fetch(
                    FetchRequest {
                        identity: FetchIdentity::proxy(),
                        resource: origin.into(),
                        validators,
                    },
                    None,
                )
                .await
                .outcome
        }
    };
    let trusted = fetch("shop.test", &trust(roots.clone())).await;
    assert_eq!(body(&trusted), RULES);
    let other_name = fetch("other.test", &trust(roots)).await;
    assert_eq!(kind(&other_name), Some(FetchErrorKind::Tls), "{other_name:?}");
    let unknown_issuer = fetch("shop.test", &distrust()).await;
    assert_eq!(kind(&unknown_issuer), Some(FetchErrorKind::Tls), "{unknown_issuer:?}");
}

#[tokio::test]
async fn https_to_a_server_without_tls_fails() {
    let server = Server::start(|_| ok(RULES)).await;
    let fetcher = fetcher(&server, &distrust(), hasty());
    let origin = Origin::parse("https://shop.test").unwrap();
    let validators = None;
    let outcome = fetcher
        .fetch(
            FetchRequest { identity: FetchIdentity::proxy(), resource: origin.into(), validators },
            None,
        )
        .await
        .outcome;
    assert!(
        matches!(kind(&outcome), Some(FetchErrorKind::Tls | FetchErrorKind::Timeout)),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn http2_is_used_where_http1_is_not_offered() {
    let (mut config, roots) = identity("shop.test");
    config.alpn_protocols = vec![b"h2".to_vec()];
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(async move {
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let (refused, _) = listener.accept().await.unwrap();
        assert!(acceptor.accept(refused).await.is_err(), "HTTP/1.1 comes first");
        let (stream, _) = listener.accept().await.unwrap();
        let stream = acceptor.accept(stream).await.unwrap();
        let mut session = h2::server::handshake(stream).await.unwrap();
        let (request, mut respond) = session.accept().await.unwrap().unwrap();
        assert_eq!(request.uri().to_string(), "https://shop.test/robots.txt");
        let mut body = respond.send_response(http::Response::new(()), false);
        let rules = bytes::Bytes::from_static(RULES);
        body.as_mut().unwrap().send_data(rules, true).unwrap();
        // The client leaves when it has read enough.
        assert!(session.accept().await.is_none_or(|next| next.is_err()));
    });
    let fetcher = fetcher_at(address, &trust(roots), FetchConfig::default());
    let origin = Origin::parse("https://shop.test").unwrap();
    let validators = None;
    let outcome = fetcher
        .fetch(
            FetchRequest { identity: FetchIdentity::proxy(), resource: origin.into(), validators },
            None,
        )
        .await
        .outcome;
    assert_eq!(body(&outcome), RULES, "{outcome:?}");
    served.await.unwrap();
}

/// Returns whether a connection is kept for the next request after such a response.
async fn is_handed_over(answer: &'static [u8]) -> bool {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_exact(&mut [0; 64]).await.unwrap();
        stream.write_all(answer).await.unwrap();
        stream
    });
    let upstream = upstream(&addresses(address), &distrust(), TEN_SECONDS);
    let upstream = Arc::new(upstream);
    let options = FetchConfig::default();
    let fetcher = HttpFetcher::new(Arc::clone(&upstream), options, Clock::start());
    let origin = Origin::parse("http://shop.test").unwrap();
    let validators = None;
    let request = FetchRequest {
        identity: FetchIdentity::proxy(),
        resource: origin.clone().into(),
        validators,
    };
    let outcome = fetcher.fetch(request, None).await.outcome;
    assert!(outcome.error().is_none(), "{outcome:?}");
    let _open = served.await.unwrap();
    let destination = Destination { origin: &origin, source: None, client: None, network: None };
    upstream.reuse(destination, VersionPreference::OnlyHttp1).is_some()
}

#[tokio::test]
async fn a_connection_is_reused_after_a_complete_response() {
    assert!(is_handed_over(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n#abc").await);
    assert!(is_handed_over(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n").await);
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n#abc\r\n0\r\n\r\n";
    assert!(is_handed_over(chunked).await);
}

#[tokio::test]
async fn a_connection_with_leftovers_or_closing_is_not_reused() {
    for answer in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\n#abc"[..],
        b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\n#abc",
        b"HTTP/1.1 404 No\r\nContent-Length: 4\r\n\r\ngone",
        b"HTTP/1.1 204 No\r\nContent-Length: 4\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n#abcHTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4 \r\n#abc\r\n0\r\n\r\n",
    ] {
        let shown = String::from_utf8_lossy(answer);
        assert!(!is_handed_over(answer).await, "{shown}");
    }
}

#[tokio::test]
async fn two_thousand_first_requests_cost_one_fetch() {
    let server = Server::start(|_| ok(RULES)).await;
    let fetcher = fetcher(&server, &distrust(), FetchConfig::default());
    let metrics = Arc::new(Metrics::new().unwrap());
    let clock = Clock::start();
    let store = RobotsStore::in_memory(clock, metrics.clone());
    let (robots, task) =
        RobotsCache::start(fetcher, store, &RobotsCacheConfig::default(), clock, metrics);
    let origin = Origin::parse("http://shop.test").unwrap();
    let mut requests = tokio::task::JoinSet::new();
    for _ in 0..2000 {
        let robots = robots.clone();
        let origin = origin.clone();
        requests.spawn(async move { robots.find(&origin).await.unwrap() });
    }
    for known in requests.join_all().await {
        assert!(matches!(known.access(), AccessResult::Successful(_)));
    }
    assert_eq!(server.asked().len(), 1);
    drop(robots);
    task.await.unwrap();
}
