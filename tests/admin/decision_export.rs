//! Decisions as log records, which a collector receives by OTLP over HTTP. The collector is a scripted origin, for its faults.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, SeverityNumber};
use prost::Message;

use super::attributes::{text, value};
use crate::harness::crawler::crawler;
use crate::harness::ports::free_address;
use crate::harness::program::Program;
use crate::harness::tools::python;
use crate::harness::{Gate, Origin, Reply, Request, Wayleave, eventually};

/// The most decisions that wait.
const QUEUED: usize = 16 * 1024;

fn collector(reply: Reply) -> Origin {
    let collector = Origin::start();
    collector.site("127.0.0.1").page("/v1/logs", reply);
    collector
}

fn start(origin: &Origin, endpoint: &str) -> Wayleave {
    origin.site("shop.test").disallows("/private");
    Wayleave::start_with(origin, |settings| {
        settings
            .set("log.otlp_endpoint", &format!("{endpoint:?}"))
            .set("log.events", "false")
            .with(crawler("news", "NewsBot").set("owner", "news@example.com"))
    })
}

fn received(collector: &Origin) -> Vec<LogRecord> {
    let mut records = Vec::new();
    for request in collector.requests() {
        assert_eq!(request.target, "/v1/logs");
        let sent = ExportLogsServiceRequest::decode(&*request.body().start).expect("protobuf");
        for resource in sent.resource_logs {
            let attributes = resource.resource.expect("a resource").attributes;
            assert_eq!(text(&attributes, "service.name"), "wayleave");
            records.extend(resource.scope_logs.into_iter().flat_map(|scope| scope.log_records));
        }
    }
    records
}

/// Sends so many requests that are refused, on one connection.
fn crawl(proxy: &Wayleave, requests: usize) {
    let mut wire = proxy.connect();
    for n in 0..requests {
        let url = format!("http://shop.test/private/{n}");
        wire.send(Request::get(&url).agent("NewsBot/1").absolute_form());
        assert_eq!(wire.response().status, 403);
    }
}

fn counted(proxy: &Wayleave) -> [usize; 3] {
    ["sent", "failed", "dropped"].map(|result| {
        let count = proxy.metric("wayleave_exported_decisions_total", &[("result", result)]);
        format!("{count}").parse().expect("a whole number")
    })
}

#[test]
fn each_decision_is_a_log_record_with_standard_attributes() {
    let (origin, collector) = (Origin::start(), collector(Reply::new(200)));
    let proxy = start(&origin, &format!("http://{}", collector.http));
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let request = Request::get("https://shop.test/a?b=c&sig=secret").agent("NewsBot/1");
    let parent = format!("00-{trace}-b7ad6b7169203331-01");
    assert_eq!(proxy.exchange(&request.header("traceparent", &parent)).status, 200);
    let refused = proxy.get_as("NewsBot/1", "http://shop.test/private/1");
    let id = refused.json()["decision_id"].as_str().expect("an id").to_owned();
    drop(proxy.stop());
    let records = received(&collector);
    assert_eq!(records.len(), 2, "{records:#?}");
    let [forwarded, refused] = &records[..] else { unreachable!() };
    for (record, severity, body) in [
        (forwarded, SeverityNumber::Info, "forwarded no-matching-rule"),
        (refused, SeverityNumber::Warn, "refused rule"),
    ] {
        assert_eq!(record.severity_number, severity as i32);
        assert_eq!(record.event_name, "wayleave.decision");
        let text = Value::StringValue(body.to_owned());
        assert_eq!(record.body.clone().and_then(|body| body.value), Some(text));
        assert!(record.observed_time_unix_nano >= record.time_unix_nano);
        assert_eq!(text_of(record, "wayleave.owner"), "news@example.com");
        assert_eq!(text_of(record, "user_agent.original"), "NewsBot/1");
        assert_eq!(text_of(record, "client.address"), "127.0.0.1");
        assert_eq!(text_of(record, "http.request.method"), "GET");
        assert_eq!(text_of(record, "server.address"), "shop.test");
        assert_eq!(text_of(record, "wayleave.crawler"), "news");
        assert_eq!(text_of(record, "wayleave.robots.sha256").len(), 64);
    }
    let trace = data_encoding::HEXLOWER.decode(trace.as_bytes()).expect("digits");
    assert_eq!(forwarded.trace_id, trace);
    assert_eq!(text_of(forwarded, "url.query"), "b=c&sig=REDACTED");
    let status = value(&refused.attributes, "http.response.status_code");
    assert_eq!(status, Some(Value::IntValue(403)));
    assert_eq!(text_of(refused, "wayleave.decision.id"), id);
    assert_eq!(text_of(refused, "wayleave.robots.rule"), "Disallow: /private");
}

#[track_caller]
fn text_of(record: &LogRecord, key: &str) -> String {
    text(&record.attributes, key)
}

/// Another implementation of the messages reads the records.
#[test]
fn a_collector_in_python_reads_every_record() {
    let (origin, collector) = (Origin::start(), Program::start(&python(), "otlp_collector.py"));
    let proxy = start(&origin, &format!("http://{}", collector.address()));
    crawl(&proxy, 2000);
    eventually("all are sent", || counted(&proxy) == [2000, 0, 0]);
    eventually("all are printed", || collector.executed().len() >= 2000);
    let records = collector.executed();
    assert_eq!(records.len(), 2000, "{:?}", records.last());
    for (n, record) in records.iter().enumerate() {
        let record: serde_json::Value = serde_json::from_str(record).expect(record);
        let attributes = record["attributes"].as_array().expect("attributes");
        let attribute = |key| attributes.iter().find(|attribute| attribute["key"] == key);
        let path = attribute("url.path").expect("a path");
        assert_eq!(path["value"]["stringValue"], format!("/private/{n}"));
        assert_eq!(record["eventName"], "wayleave.decision");
        assert_eq!(record["body"]["stringValue"], "refused rule");
        assert_eq!(record["severityNumber"], "SEVERITY_NUMBER_WARN");
    }
}

/// Every decision is counted once, whatever the collector does.
#[test]
fn decisions_lost_to_a_failing_collector_are_counted() {
    let refusing = collector(Reply::new(503));
    for endpoint in [format!("http://{}", free_address()), format!("http://{}", refusing.http)] {
        let origin = Origin::start();
        let proxy = start(&origin, &endpoint);
        crawl(&proxy, 2500);
        eventually("all are counted", || counted(&proxy) == [0, 2500, 0]);
        eventually("it is logged", || {
            proxy.log().contains("decisions cannot be sent to log.otlp_endpoint")
        });
        assert_eq!(proxy.log().matches("decisions cannot be sent").count(), 1, "once");
        proxy.stop();
    }
}

/// A collector that takes its time holds at most the queue; all beyond it is dropped at once, and no request waits.
#[test]
fn a_slow_collector_delays_no_request_and_losses_are_exact() {
    let gate = Gate::closed();
    let slow = collector(Reply::in_halves(&gate));
    let origin = Origin::start();
    let proxy = start(&origin, &format!("http://{}", slow.http));
    let all = QUEUED + 3000;
    // They are answered while the collector answers nothing.
    crawl(&proxy, all);
    eventually("some are lost", || counted(&proxy)[1..].iter().sum::<usize>() > 0);
    gate.open();
    eventually("each is counted", || counted(&proxy).iter().sum::<usize>() == all);
    let [sent, failed, dropped] = counted(&proxy);
    assert!(sent > 0, "{sent} {failed} {dropped}");
    drop(proxy.stop());
    assert!(slow.requests().len() >= sent.div_ceil(1024), "what counts as sent has arrived");
}

#[test]
fn a_collector_that_hangs_does_not_delay_the_stop() {
    let origin = Origin::start();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let proxy = start(&origin, &format!("http://{}", silent.local_addr().expect("it is bound")));
    crawl(&proxy, 3);
    proxy.stop();
}
