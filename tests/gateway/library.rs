//! The crate `wayleave-gate`: its layer, and its hooks for pingora, give the proxy's own answer.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full};
use pingora_core::protocols::http::server::Session;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Runtime;
use tower::{Layer, ServiceExt, service_fn};
use wayleave_gate::pingora::GateContext;
use wayleave_gate::{Client, Gate, GateLayer};

use super::equal::{Asked, Verdict, compare, with_rule};
use super::{Gated, ROBOTS};
use crate::harness::Origin;
use crate::harness::crawler::crawler;
use crate::harness::wayleave::Settings;

/// A gate in this process, with its own state.
struct OwnGate {
    runtime: Runtime,
    gate: Gate,
    dir: tempfile::TempDir,
}

impl OwnGate {
    fn start(origin: &Origin, change: impl FnOnce(Settings) -> Settings) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let config = dir.path().join("config.toml");
        let settings = change(Settings::for_origin(dir.path(), origin));
        std::fs::write(&config, settings.to_toml()).expect("it is ours");
        let runtime = Runtime::new().expect("threads");
        let gate = runtime.block_on(Gate::from_config(config)).expect("nothing is wrong with it");
        Self { runtime, gate, dir }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("state/decisions.jsonl")).expect("a log")
    }
}

fn client() -> Client {
    Client::at(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

fn request(asked: &Asked) -> Option<http::Request<Empty<Bytes>>> {
    let mut request = http::Request::builder().method(asked.method).uri(asked.url());
    request = request.header("Host", asked.host());
    for (name, value) in &asked.fields {
        request = request.header(*name, *value);
    }
    request.body(Empty::new()).ok()
}

fn reason(body: &[u8]) -> Value {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    body["reason"].clone()
}

#[test]
fn every_verdict_of_the_layer_is_the_proxys() {
    let origin = Origin::start();
    let gated = Gated::start_with(&origin, with_rule);
    let own = OwnGate::start(&origin, with_rule);
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    let inner = service_fn(move |_: http::Request<Empty<Bytes>>| {
        counter.fetch_add(1, Ordering::SeqCst);
        async { Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from("hello")))) }
    });
    let service = GateLayer::new(own.gate.clone(), &client()).layer(inner);
    let ask = |asked: &Asked| -> Option<Verdict> {
        let request = request(asked)?;
        let before = sent.load(Ordering::SeqCst);
        let (head, body) = own.runtime.block_on(async {
            let response = service.clone().oneshot(request).await.expect("it does not fail");
            let (head, body) = response.into_parts();
            (head, body.collect().await.expect("it is whole").to_bytes())
        });
        let is_sent = sent.load(Ordering::SeqCst) > before;
        let proxy_status = head.headers.get("proxy-status").map(|value| value.to_str().unwrap());
        assert_eq!(is_sent, proxy_status.is_none(), "{asked:?}");
        if is_sent {
            assert_eq!(body, "hello");
            return Some((200, Value::Null, None));
        }
        let reason = if asked.method == "HEAD" { Value::Null } else { reason(&body) };
        Some((head.status.as_u16(), reason, proxy_status.map(str::to_owned)))
    };
    compare(&gated, &origin, |asked| request(asked).is_some(), ask);
}

/// Returns the session of a request that pingora reads, and the client's end of its connection; `None` if pingora refuses it.
async fn session(asked: &Asked) -> Option<(Session, tokio::io::DuplexStream)> {
    let (mut ours, theirs) = tokio::io::duplex(64 * 1024);
    ours.write_all(asked.head().as_bytes()).await.expect("there is room");
    let mut session = Session::new_http1(Box::new(theirs));
    match session.read_request().await {
        Ok(true) => Some((session, ours)),
        _ => None,
    }
}

#[test]
fn every_verdict_of_the_hooks_is_the_proxys() {
    let origin = Origin::start();
    let gated = Gated::start_with(&origin, with_rule);
    let own = OwnGate::start(&origin, with_rule);
    let ask = |asked: &Asked| -> Option<Verdict> {
        own.runtime.block_on(async {
            let (mut session, mut ours) = session(asked).await?;
            let mut context = GateContext::default();
            let client = client();
            let filtering = context.request_filter(&own.gate, &client, &mut session);
            if !filtering.await.expect("the client is there") {
                return Some((200, Value::Null, None));
            }
            drop(session);
            let mut answer = String::new();
            ours.read_to_string(&mut answer).await.expect("text");
            let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
            let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
            let proxy_status = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("proxy-status").then(|| value.to_owned())
            });
            let reason = if asked.method == "HEAD" { Value::Null } else { reason(body.as_bytes()) };
            Some((status.expect("a status"), reason, proxy_status))
        })
    };
    let is_read = |asked: &Asked| own.runtime.block_on(session(asked)).is_some();
    compare(&gated, &origin, is_read, ask);
}

#[test]
fn the_layer_keeps_the_pace_that_responses_ask_for() {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    let own = OwnGate::start(&origin, |settings| settings.crawler("news", "NewsBot"));
    let inner = service_fn(|_: http::Request<Empty<Bytes>>| async {
        let response = http::Response::builder().status(429).header("Retry-After", "60");
        response.body(Full::new(Bytes::new()))
    });
    let news = own.gate.crawler("news").expect("it is configured");
    let service = GateLayer::new(own.gate.clone(), &news).layer(inner);
    let get = || {
        let request = http::Request::get("http://shop.test/").body(Empty::new()).unwrap();
        own.runtime.block_on(service.clone().oneshot(request)).unwrap()
    };
    let first = get();
    assert_eq!(
        (first.status().as_u16(), first.headers().contains_key("proxy-status")),
        (429, false)
    );
    let second = get();
    assert!(second.headers().contains_key("proxy-status"), "{second:?}");
    let waits: u64 = second.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((50..=60).contains(&waits), "{second:?}");
    assert!(own.gate.crawler("nobody").is_err());
    own.runtime.block_on(own.gate.close());
    let log = own.log();
    assert!(log.contains("\"crawler\":\"news\"") && log.contains("\"via\":\"gateway\""), "{log}");
    let metrics = own.gate.metrics();
    assert!(metrics.contains("wayleave_"), "{metrics}");
}

/// Returns what a client behind the layer gets for a file, of which the origin says this.
fn load(
    own: &OwnGate,
    layer: &GateLayer,
    (path, dest): (&str, &str),
    origins: http::response::Builder,
    content: &'static str,
) -> http::Response<Bytes> {
    let response = origins.body(Full::new(Bytes::from(content))).expect("a response");
    let inner = service_fn(move |_: http::Request<Empty<Bytes>>| {
        let response = response.clone();
        async { Ok::<_, Infallible>(response) }
    });
    let request = http::Request::get(format!("http://shop.test{path}"))
        .header("User-Agent", "PageBot/1.0")
        .header("Sec-Fetch-Dest", dest)
        .header("Referer", "http://shop.test/page");
    let request = request.body(Empty::new()).expect("a request");
    own.runtime.block_on(async {
        let response = layer.layer(inner).oneshot(request).await.expect("it does not fail");
        let (head, body) = response.into_parts();
        http::Response::from_parts(head, body.collect().await.expect("whole").to_bytes())
    })
}

#[test]
fn the_layer_sees_what_a_page_loads() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/static");
    let own = OwnGate::start(&origin, |settings| {
        settings.with(crawler("pages", "PageBot").set("subresources", "page"))
    });
    let layer = GateLayer::new(own.gate.clone(), &client());
    let of_type =
        |content_type: &str| http::Response::builder().header("Content-Type", content_type);
    let script = ("/static/a.js", "script");
    let early = load(&own, &layer, script, of_type("text/javascript"), "a()");
    assert_eq!(early.status(), 403, "no page was allowed yet");
    let page = of_type("text/html").header("Wayleave-Decision", "forged").header("Wayleave-X", "y");
    let page = load(&own, &layer, ("/page", "document"), page, "<p>page");
    assert_eq!((page.status().as_u16(), &page.body()[..]), (200, &b"<p>page"[..]));
    assert!(page.headers()["wayleave-decision"] != "forged", "{page:?}");
    assert!(!page.headers().contains_key("wayleave-x"), "{page:?}");
    let passed = load(&own, &layer, script, of_type("text/javascript"), "a()");
    assert_eq!((passed.status().as_u16(), &passed.body()[..]), (200, &b"a()"[..]));
    let html = load(&own, &layer, script, of_type("text/javascript"), "<!doctype html><p>secret");
    assert!(html.status() == 403 && !html.body().windows(6).any(|part| part == b"secret"));
    let moved = of_type("text/html").status(302).header("Location", "/static/b.js");
    let moved = load(&own, &layer, script, moved, "secret");
    assert_eq!((moved.status().as_u16(), moved.body().len()), (302, 0));
    assert!(!moved.headers().contains_key("content-type"), "{moved:?}");
}

#[test]
fn a_gate_says_what_is_wrong_with_its_configuration() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("config.toml");
    std::fs::write(&config, "[proxi]\n\n[robots]\ndialect = \"rfc\"\n").expect("it is ours");
    let runtime = Runtime::new().expect("threads");
    let error = runtime.block_on(Gate::from_config(&config)).expect_err("two mistakes");
    let text = error.to_string();
    assert!(
        text.contains("proxi") && text.contains("dialect") && text.lines().count() == 2,
        "{text}"
    );
    std::fs::write(&config, "").expect("it is ours");
    let first = runtime.block_on(Gate::from_config(&config)).expect("the defaults");
    let error = runtime.block_on(Gate::from_config(&config)).expect_err("the state is in use");
    assert!(error.to_string().contains("wayleave-state"), "{error}");
    drop(first);
}
