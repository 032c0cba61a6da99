//! Traces: the spans that a collector receives by OTLP over HTTP. The collector is a scripted origin.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use prost::Message;

use super::attributes::{text, value};
use crate::harness::ports::free_address;
use crate::harness::tls::Authority;
use crate::harness::wayleave::Settings;
use crate::harness::{Certificate, Origin, Reply, Request, Wayleave, eventually};

/// The trace of a client and its span.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

fn collector() -> Origin {
    let collector = Origin::start();
    collector.site("127.0.0.1").page("/v1/traces", Reply::new(200));
    collector
}

fn start(origin: &Origin, endpoint: &str, ratio: &str) -> Wayleave {
    origin.site("shop.test").disallows("/private");
    // Long enough for the second request of a slow machine to come in time.
    origin.site("slow.test").robots("User-agent: *\nDisallow:\nCrawl-delay: 2\n");
    Wayleave::start_with(origin, |settings: Settings| {
        settings
            .set("traces.otlp_endpoint", &format!("{endpoint:?}"))
            .set("traces.sample_ratio", ratio)
            .set("politeness.crawl_delay", "\"wait\"")
            .crawler("news", "NewsBot")
    })
}

fn request_status(proxy: &Wayleave, url: &str, traceparent: Option<&str>) -> u16 {
    let mut request = Request::get(url).agent("NewsBot/1");
    if let Some(value) = traceparent {
        request = request.header("traceparent", value);
    }
    proxy.exchange(&request).status
}

/// Stops the proxy, which sends its last spans, and returns all that arrived.
fn spans(proxy: Wayleave, collector: &Origin) -> Vec<Span> {
    drop(proxy.stop());
    let mut spans = Vec::new();
    for request in collector.requests() {
        assert_eq!(request.target, "/v1/traces");
        assert_eq!(request.header("content-type"), Some("application/x-protobuf"));
        let sent = ExportTraceServiceRequest::decode(&*request.body().start).expect("protobuf");
        for resource in sent.resource_spans {
            let attributes = resource.resource.expect("a resource").attributes;
            assert_eq!(text(&attributes, "service.name"), "wayleave");
            let version = text(&attributes, "service.version");
            assert_eq!(version, env!("CARGO_PKG_VERSION"));
            spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    }
    spans
}

#[track_caller]
fn number(span: &Span, key: &str) -> i64 {
    match value(&span.attributes, key) {
        Some(Value::IntValue(number)) => number,
        other => panic!("{key} is {other:?} in {span:#?}"),
    }
}

/// Finds the only span of a kind with this value of an attribute.
#[track_caller]
fn find<'a>(spans: &'a [Span], kind: SpanKind, key: &str, expected: &str) -> &'a Span {
    let expected = Some(Value::StringValue(expected.to_owned()));
    let mut found =
        spans.iter().filter(|span| span.kind() == kind && value(&span.attributes, key) == expected);
    let span = found.next();
    assert!(found.next().is_none(), "more than one has {key} = {expected:?}");
    span.unwrap_or_else(|| panic!("no {kind:?} has {key} = {expected:?}: {spans:#?}"))
}

fn children<'a>(spans: &'a [Span], parent: &Span) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.parent_span_id == parent.span_id).collect()
}

fn status(span: &Span) -> StatusCode {
    span.status.as_ref().map_or(StatusCode::Unset, Status::code)
}

#[test]
fn a_forwarded_request_is_a_trace_with_standard_attributes() {
    let (origin, collector) = (Origin::start(), collector());
    let proxy = start(&origin, &format!("http://{}", collector.http), "1.0");
    let parent = format!("00-{TRACE}-{PARENT}-01");
    assert_eq!(request_status(&proxy, "http://shop.test/a", None), 200);
    assert_eq!(request_status(&proxy, "https://shop.test/b?c=d", Some(&parent)), 200);
    let forwarded = origin.wait_for_target("/b?c=d");
    assert_eq!(forwarded.header("traceparent"), Some(&*parent), "forwarded as received");
    let spans = spans(proxy, &collector);

    let span = find(&spans, SpanKind::Server, "url.path", "/b");
    assert_eq!(span.name, "GET");
    assert_eq!(span.trace_id, hex(TRACE));
    assert_eq!(span.parent_span_id, hex(PARENT));
    for (key, expected) in [
        ("http.request.method", "GET"),
        ("url.scheme", "https"),
        ("url.query", "c=d"),
        ("server.address", "shop.test"),
        ("client.address", "127.0.0.1"),
        ("wayleave.crawler", "news"),
        ("wayleave.outcome", "forwarded"),
        ("wayleave.reason", "no-matching-rule"),
    ] {
        assert_eq!(text(&span.attributes, key), expected, "{key}");
    }
    assert_eq!(number(span, "server.port"), 443);
    assert_eq!(number(span, "http.response.status_code"), 200);
    assert_eq!(text(&span.attributes, "wayleave.decision.id").len(), 32);
    assert_eq!(status(span), StatusCode::Unset);

    let steps = children(&spans, span);
    let upstream = steps.iter().find(|span| span.kind() == SpanKind::Client);
    let upstream = upstream.expect("a span of the upstream request");
    assert_eq!(text(&upstream.attributes, "url.full"), "https://shop.test/b?c=d");
    assert_eq!(number(upstream, "http.response.status_code"), 200);
    assert!(steps.iter().any(|span| span.name == "consult"), "{steps:#?}");
    for step in steps {
        assert_eq!(step.trace_id, span.trace_id);
        assert!(step.start_time_unix_nano >= span.start_time_unix_nano);
        assert!(step.end_time_unix_nano <= span.end_time_unix_nano);
    }

    let fetch = find(&spans, SpanKind::Client, "url.full", "https://shop.test/robots.txt");
    assert_eq!(text(&fetch.attributes, "wayleave.robots.result"), "successful");
    assert_eq!(number(fetch, "http.response.status_code"), 200);
}

#[test]
fn refusals_and_failures_say_why() {
    let (origin, collector) = (Origin::start(), collector());
    origin.site("down.test").robots_reply(Reply::new(503));
    let exception = "[[rule]]\naction = \"allow\"\nhosts = [\"nobody.test\"]\nowner = \"a@example.com\"\nreason = \"a test\"\nexpires = \"2999-01-01\"\n";
    let proxy = Wayleave::start_with(&origin, |settings| {
        origin.site("shop.test").disallows("/private");
        let endpoint = format!("\"http://{}\"", collector.http);
        settings
            .set("traces.otlp_endpoint", &endpoint)
            .resolve("nobody.test:80", free_address())
            .table(exception)
    });
    assert_eq!(request_status(&proxy, "http://shop.test/private", None), 403);
    assert_eq!(request_status(&proxy, "http://shop.test/robots.txt", None), 200);
    assert_eq!(request_status(&proxy, "http://down.test/", None), 503);
    assert_eq!(request_status(&proxy, "http://nobody.test/", None), 502);
    let spans = spans(proxy, &collector);

    let refused = find(&spans, SpanKind::Server, "wayleave.reason", "rule");
    assert_eq!(text(&refused.attributes, "wayleave.robots.rule"), "Disallow: /private");
    assert_eq!(number(refused, "wayleave.robots.line"), 2);
    assert_eq!(number(refused, "http.response.status_code"), 403);
    assert_eq!(status(refused), StatusCode::Unset, "the client's error, not ours");
    let kinds: Vec<_> = children(&spans, refused).iter().map(|span| span.kind()).collect();
    assert!(!kinds.contains(&SpanKind::Client), "no upstream request: {kinds:?}");

    let copied = find(&spans, SpanKind::Server, "wayleave.reason", "robots-txt-itself");
    let kinds: Vec<_> = children(&spans, copied).iter().map(|span| span.kind()).collect();
    assert!(!kinds.contains(&SpanKind::Client), "answered from the copy: {kinds:?}");

    let unreachable = find(&spans, SpanKind::Server, "wayleave.reason", "unreachable");
    assert_eq!(status(unreachable), StatusCode::Error);
    let fetch = find(&spans, SpanKind::Client, "server.address", "down.test");
    assert_eq!(text(&fetch.attributes, "error.type"), "503");

    let failed = find(&spans, SpanKind::Server, "server.address", "nobody.test");
    assert_eq!(text(&failed.attributes, "error.type"), "connection_refused");
    assert_eq!(status(failed), StatusCode::Error);
    let upstream = find(&spans, SpanKind::Client, "server.address", "nobody.test");
    assert_eq!(upstream.parent_span_id, failed.span_id);
    assert_eq!(text(&upstream.attributes, "error.type"), "connection_refused");
}

#[test]
fn the_wait_for_a_slot_is_a_span() {
    let (origin, collector) = (Origin::start(), collector());
    let proxy = start(&origin, &format!("http://{}", collector.http), "1.0");
    for path in ["a", "b"] {
        assert_eq!(request_status(&proxy, &format!("http://slow.test/{path}"), None), 200);
    }
    let spans = spans(proxy, &collector);
    let second = find(&spans, SpanKind::Server, "url.path", "/b");
    let steps = children(&spans, second);
    let wait = steps.iter().find(|span| span.name == "wait");
    let wait = wait.expect("the second request waited");
    let upstream = find(&spans, SpanKind::Client, "url.full", "http://slow.test/b");
    assert!(wait.end_time_unix_nano <= upstream.start_time_unix_nano);
}

/// A client's flag decides whether its trace is sampled; the ratio is for traces that begin in the proxy.
#[test]
fn the_client_decides_about_its_own_traces() {
    let (origin, collector) = (Origin::start(), collector());
    let endpoint = format!("http://{}/", collector.http);
    let proxy = start(&origin, &endpoint, "0.0");
    let not_sampled = format!("00-{TRACE}-{PARENT}-00");
    let sampled = format!("00-{TRACE}-{PARENT}-01");
    assert_eq!(request_status(&proxy, "http://shop.test/a", None), 200);
    assert_eq!(request_status(&proxy, "http://shop.test/b", Some(&not_sampled)), 200);
    assert_eq!(request_status(&proxy, "http://shop.test/c", Some(&sampled)), 200);
    let spans = spans(proxy, &collector);
    let of_clients = spans.iter().filter(|span| span.kind() == SpanKind::Server);
    let paths: Vec<_> = of_clients.map(|span| text(&span.attributes, "url.path")).collect();
    assert_eq!(paths, ["/c"]);
}

#[test]
fn fetches_are_traced_after_a_reload_too() {
    let (origin, collector) = (Origin::start(), collector());
    let proxy = start(&origin, &format!("http://{}", collector.http), "1.0");
    let settings =
        proxy.settings.clone().set("robots.user_agent", "\"other/1 (+https://other.test)\"");
    proxy.write_config(&settings.to_toml());
    proxy.signal("HUP");
    eventually("the file is reloaded", || proxy.log().contains("the configuration was reloaded"));
    assert_eq!(request_status(&proxy, "http://shop.test/a", None), 200);
    let fetch = origin.wait_for_target("/robots.txt");
    let agent = fetch.header("user-agent").unwrap_or_default();
    assert!(agent.ends_with("; +https://other.test)"), "{agent}");
    let spans = spans(proxy, &collector);
    let uri = "http://shop.test/robots.txt";
    find(&spans, SpanKind::Client, "url.full", uri);
}

#[test]
fn a_collector_with_tls_is_trusted_like_an_origin() {
    let (origin, collector) = (Origin::start(), Origin::start());
    collector.site("collector.test").page("/v1/traces", Reply::new(200));
    let endpoint = format!("https://localhost:{}", collector.https.port());
    let proxy = start(&origin, &endpoint, "1.0");
    assert_eq!(request_status(&proxy, "http://shop.test/a", None), 200);
    find(&spans(proxy, &collector), SpanKind::Server, "url.path", "/a");
}

#[test]
fn requests_do_not_depend_on_the_collector() {
    let origin = Origin::start();
    let proxy = start(&origin, &format!("http://{}", free_address()), "1.0");
    for path in ["a", "b", "c"] {
        assert_eq!(request_status(&proxy, &format!("http://shop.test/{path}"), None), 200);
    }
    let failed = [("result", "failed")];
    eventually("the spans are counted as lost", || {
        proxy.metric("wayleave_spans_total", &failed) >= 3.0
    });
    eventually("it is logged", || proxy.log().contains("traces cannot be sent"));
    proxy.stop();
}

#[test]
fn a_collector_is_verified_by_the_roots_of_the_last_reload() {
    let (origin, collector) = (Origin::start(), Origin::start());
    let site = collector.site("localhost").certificate(Certificate::UnknownAuthority);
    site.page("/v1/traces", Reply::new(200));
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let bundle = dir.path().join("roots.pem");
    std::fs::write(&bundle, Authority::new("another root").pem).expect("it can be written");
    let endpoint = format!("\"https://localhost:{}\"", collector.https.port());
    let proxy = Wayleave::start_with_after(
        &origin,
        |settings| settings.set("traces.otlp_endpoint", &endpoint),
        &format!("unset SSL_CERT_DIR; export SSL_CERT_FILE={}", bundle.display()),
    );
    std::fs::write(&bundle, &Authority::unknown().pem).expect("it can be written");
    assert_eq!(proxy.admin_request("POST", "/v1/reload").status, 200);
    assert_eq!(request_status(&proxy, "http://shop.test/a", None), 200);
    // The last spans are sent by then.
    drop(proxy.stop());
    assert!(!collector.requests().is_empty(), "nothing arrived");
}

#[test]
fn a_collector_that_hangs_does_not_delay_the_stop() {
    let origin = Origin::start();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let endpoint = format!("http://{}", silent.local_addr().expect("it is bound"));
    let proxy = start(&origin, &endpoint, "1.0");
    assert_eq!(request_status(&proxy, "http://shop.test/a", None), 200);
    proxy.stop();
}

fn hex(text: &str) -> Vec<u8> {
    data_encoding::HEXLOWER.decode(text.as_bytes()).expect("hexadecimal digits")
}
