//! `max_response_bytes`: a crawler that gets no response longer than it wants.

use serde_json::Value;

use crate::harness::origin::reply::Framing;
use crate::harness::{Origin, Reply, Request, Response, Wayleave};

const TABLES: &str = r#"
[[crawler]]
name = "small"
tokens = ["SmallBot"]
match = { user_agent = "SmallBot" }
max_response_bytes = "1 KiB"
[[crawler]]
name = "watched"
tokens = ["WatchedBot"]
match = { user_agent = "WatchedBot" }
max_response_bytes = "1 KiB"
mode = "observe"
[[crawler]]
name = "any"
tokens = ["AnyBot"]
match = { user_agent = "AnyBot" }
"#;

/// Starts an origin with a page of 1,024 bytes and longer ones, of which one does not say its length.
fn site() -> Origin {
    let origin = Origin::start();
    let page = |bytes: usize| Reply::new(200).body("x".repeat(bytes));
    origin
        .site("shop.test")
        .robots("User-agent: *\nDisallow:\n")
        .page("/fits", page(1024))
        .page("/long", page(1025))
        .page("/chunked", page(200_000).framing(Framing::Chunked))
        .page("/known", Reply::new(304).header("Content-Length", "5000"));
    origin
}

/// Returns the last decision about a path.
fn last(proxy: &Wayleave, path: &str) -> Value {
    proxy.newest_decision(&format!("http://shop.test{path}"))
}

fn get(proxy: &Wayleave, agent: &str, path: &str) -> Response {
    proxy.get_as(agent, &format!("http://shop.test{path}"))
}

#[test]
fn a_response_that_is_too_long_is_not_for_its_crawler() {
    let origin = site();
    let proxy = Wayleave::start_with(&origin, |settings| settings.table(TABLES));
    assert_eq!(get(&proxy, "SmallBot/1", "/fits").status, 200);
    assert_eq!(get(&proxy, "AnyBot/1", "/long").body.len(), 1025);
    let refused = get(&proxy, "SmallBot/1", "/long");
    assert_eq!(refused.status, 502);
    let problem = refused.json();
    assert_eq!(problem["reason"], "response-too-large", "{problem}");
    assert!(problem["detail"].as_str().is_some_and(|text| text.contains("1025")), "{problem}");
    let decision = last(&proxy, "/long");
    assert_eq!((&decision["outcome"], &decision["status"]), (&"refused".into(), &502.into()));
    assert_eq!(decision["reached_origin"], true);
    let refused = [("crawler", "small"), ("outcome", "refused"), ("reason", "response-too-large")];
    assert_eq!(proxy.metric("wayleave_requests_total", &refused), 1.0);
}

#[test]
fn a_response_that_grows_too_long_is_cut() {
    let origin = site();
    let proxy = Wayleave::start_with(&origin, |settings| settings.table(TABLES));
    let request = Request::get("http://shop.test/chunked").agent("SmallBot/1");
    let mut client = proxy.connect();
    client.send(request.bytes(&request.url));
    let cut = client.try_response(false);
    assert!(cut.is_err(), "the client must see that it is not whole: {cut:?}");
    let decision = last(&proxy, "/chunked");
    let expected: [Value; 3] = ["failed".into(), "response-too-large".into(), 200.into()];
    assert_eq!(
        [&decision["outcome"], &decision["reason"], &decision["status"]],
        expected.each_ref()
    );
    assert!(decision["body_bytes"].as_u64().is_some_and(|bytes| bytes <= 1024), "{decision}");
}

#[test]
fn a_length_without_content_is_no_response_size() {
    let origin = site();
    let proxy = Wayleave::start_with(&origin, |settings| settings.table(TABLES));
    let head = Request::new("HEAD", "http://shop.test/long").agent("SmallBot/1");
    assert_eq!(proxy.exchange(&head).status, 200);
    assert_eq!(get(&proxy, "SmallBot/1", "/known").status, 304);
}

#[test]
fn a_response_that_is_too_long_is_only_observed() {
    let origin = site();
    let proxy = Wayleave::start_with(&origin, |settings| settings.table(TABLES));
    for (path, bytes) in [("/long", 1025), ("/chunked", 200_000)] {
        assert_eq!(get(&proxy, "WatchedBot/1", path).body.len(), bytes);
        let decision = last(&proxy, path);
        assert_eq!(decision["outcome"], "observed", "{decision}");
        assert_eq!(decision["reason"], "response-too-large");
        assert_eq!(decision["would_be"], 502);
    }
}
