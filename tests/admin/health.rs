//! Health, metrics, and one log event per decision.

use std::collections::HashSet;
use std::time::Duration;

use crate::harness::origin::reply::Step;
use crate::harness::wayleave::Settings;
use crate::harness::{Gate, Origin, Reply, Request, Wayleave, Wire, eventually};

fn small_crawl(settings: impl FnOnce(Settings) -> Settings) -> (Origin, Wayleave) {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/private");
    origin.site("down.test").robots_reply(Reply::new(503));
    let proxy = Wayleave::start_with(&origin, settings);
    for path in ["/a", "/b", "/private"] {
        proxy.get(&format!("http://shop.test{path}"));
    }
    proxy.get("http://down.test/a");
    (origin, proxy)
}

#[test]
fn health_is_reported() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.admin_get("/livez").status, 200);
    assert_eq!(proxy.admin_get("/readyz").status, 200);
    assert_eq!(proxy.admin_get("/nothing-here").status, 404);
}

#[test]
fn readiness_ends_when_stopping_begins() {
    let origin = Origin::start();
    let gate = Gate::closed();
    origin
        .site("shop.test")
        .page("/slow", Reply::new(200).body("a").step(Step::Wait(gate.clone())).body("b"));
    let mut proxy = Wayleave::start(&origin);
    let mut wire = proxy.connect();
    wire.send_get("http://shop.test/slow");
    wire.response_head();
    proxy.signal("TERM");
    eventually("/readyz answers 503", || proxy.admin_get("/readyz").status == 503);
    gate.open();
    assert_eq!(wire.bytes(2), b"ab");
    assert_eq!(proxy.wait().code(), Some(0));
}

#[test]
fn metrics_count_requests_fetches_and_entries() {
    let (_origin, proxy) = small_crawl(|settings| settings);
    eventually("every exchange is counted", || proxy.metric("wayleave_requests_total", &[]) == 4.0);
    let requests = |outcome| proxy.metric("wayleave_requests_total", &[("outcome", outcome)]);
    assert_eq!((requests("forwarded"), requests("refused"), requests("failed")), (2.0, 2.0, 0.0));
    assert_eq!(proxy.metric("wayleave_requests_total", &[("crawler", "asserted")]), 4.0);
    let fetches = |result| proxy.metric("wayleave_robots_fetches_total", &[("result", result)]);
    assert_eq!((fetches("successful"), fetches("unreachable")), (1.0, 1.0));
    let lookups = |result| proxy.metric("wayleave_robots_lookups_total", &[("result", result)]);
    assert_eq!((lookups("miss"), lookups("hit"), lookups("joined")), (2.0, 2.0, 0.0));
    let entries = |state| proxy.metric("wayleave_robots_entries", &[("state", state)]);
    assert_eq!((entries("fresh"), entries("unreachable")), (1.0, 1.0));
    assert_eq!(proxy.metric("wayleave_request_duration_seconds_count", &[]), 4.0);
    assert_eq!(proxy.metric("wayleave_decision_duration_seconds_count", &[]), 4.0);
    assert_eq!(proxy.metric("wayleave_robots_fetch_duration_seconds_count", &[]), 2.0);
    assert_eq!(proxy.metric("wayleave_build_info", &[("version", env!("CARGO_PKG_VERSION"))]), 1.0);
    assert!(proxy.metric("process_open_fds", &[]) > 0.0);
}

#[test]
fn metrics_have_the_exposition_format_and_bounded_labels() {
    let (_origin, proxy) = small_crawl(|settings| settings);
    let answer = proxy.admin_get("/metrics");
    assert!(
        answer
            .header("content-type")
            .is_some_and(|kind| kind.starts_with("text/plain; version=0.0.4")),
        "{answer:?}"
    );
    let text = answer.text();
    let mut typed = HashSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            typed.insert(rest.split(' ').next().expect("a name follows").to_owned());
        } else if !line.starts_with('#') {
            let (series, value) =
                line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}"));
            assert!(value.parse::<f64>().is_ok(), "{line}");
            let name = series.split('{').next().expect("a name");
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| {
                name.strip_suffix(suffix).filter(|family| typed.contains(*family))
            });
            assert!(typed.contains(family.unwrap_or(name)), "a sample before its TYPE: {line}");
            assert!(name.starts_with("wayleave_") || name.starts_with("process_"), "{line}");
        }
    }
    assert!(
        !text.contains("shop.test") && !text.contains("ExampleBot"),
        "a host or an agent is a label:\n{text}"
    );
}

#[test]
fn client_connections_are_gauged() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let open = || proxy.metric("wayleave_client_connections", &[]);
    let before = open();
    let wires: Vec<_> = (0..5).map(|_| proxy.connect()).collect();
    eventually("five more connections are open", || open() == before + 5.0);
    drop(wires);
    eventually("they are gone", || open() == before);
}

#[test]
fn a_decision_is_one_json_event() {
    let (_origin, proxy) = small_crawl(|settings| settings.set("log.format", "\"json\""));
    let refused = proxy.get("http://shop.test/private/again");
    let id = refused.json()["decision_id"].as_str().expect("a string").to_owned();
    eventually("the event is written", || proxy.log().contains(&id));
    let log = proxy.log();
    let events: Vec<serde_json::Value> = log
        .lines()
        .filter(|line| line.contains(&id))
        .map(|line| serde_json::from_str(line).expect("a line of the log is JSON"))
        .collect();
    assert_eq!(events.len(), 1, "{log}");
    let text = events[0].to_string();
    for word in ["http://shop.test/private/again", "refused", "403", "ExampleBot"] {
        assert!(
            text.to_ascii_lowercase().contains(&word.to_ascii_lowercase()),
            "{word} is missing: {text}"
        );
    }
}

#[test]
fn a_decision_is_one_line_of_text() {
    let (_origin, proxy) = small_crawl(|settings| settings);
    let lines = |word: &str| proxy.log().lines().filter(|line| line.contains(word)).count();
    eventually("the events are written", || lines("http://down.test/a") >= 1);
    assert_eq!(
        (
            lines("http://shop.test/a"),
            lines("http://shop.test/b"),
            lines("http://shop.test/private")
        ),
        (1, 1, 1),
        "{}",
        proxy.log()
    );
}

#[test]
fn no_log_event_can_be_forged() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    proxy.get_as("Evil/1 \u{1b}[31mred\u{7f} forged=\"yes\"", "http://shop.test/a");
    proxy.get("http://shop.test/%0Aforged");
    eventually("both are logged", || proxy.log().contains("%0Aforged"));
    assert!(!proxy.log().contains('\u{1b}'), "an escape sequence reached the log");
}

/// The time limit of a probe: less than the 30 s after which a silent connection is closed.
const PROBE: Duration = Duration::from_secs(20);

#[test]
fn health_and_metrics_answer_however_many_connections_are_idle() {
    // This process holds the clients' ends.
    rlimit::increase_nofile_limit(4096).expect("the limit can be raised");
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let mut operator = Wire::connect(proxy.admin);
    operator.send(format!("GET /v1/decisions/stream HTTP/1.1\r\nHost: {}\r\n\r\n", proxy.admin));
    assert_eq!(operator.response_head().status, 200);
    let idle: Vec<_> = (0..1100)
        .map(|number| {
            let mut wire = Wire::connect(proxy.admin);
            if number % 3 == 0 {
                // Evicted connections are closed already.
                let _ = wire.try_send("GET /livez HTTP/1.1\r\nHo");
            }
            wire
        })
        .collect();
    for path in ["/livez", "/metrics"] {
        let mut probe = Wire::connect(proxy.admin);
        probe.tcp.set_read_timeout(Some(PROBE)).expect("not zero");
        probe.send(Request::get(&format!("http://{}{path}", proxy.admin)).origin_form());
        let answer = probe.try_response(false);
        let answer =
            answer.expect("it comes before idle connections time out").expect("a response");
        assert_eq!(answer.status, 200, "{path}");
    }
    proxy.get("http://shop.test/seen-by-the-operator");
    let mut seen = Vec::new();
    while !seen.windows(20).any(|part| part == b"seen-by-the-operator") {
        seen.extend(operator.bytes(1));
    }
    drop(idle);
}
