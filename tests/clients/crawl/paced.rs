//! Scrapy plans by the pace that it is told, with the scheduler in `examples/scrapy`.

use serde_json::Value;

use super::{LIMIT, command_for};
use crate::harness::tools::{output_of, project, python};
use crate::harness::{Origin, Wayleave};

const SLOW: u64 = 30;
const FAST: u64 = 200;

/// Crawls a slow and a fast origin, and returns what the spider says.
fn crawl(settings: &[&str]) -> Value {
    let origin = Origin::start();
    origin.site("slow.test").robots("User-agent: *\nCrawl-delay: 10\n");
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("politeness.crawl_delay", "\"wait\"").set("politeness.max_wait", "\"10m\"")
    });
    let mut command = command_for(&proxy, python());
    command
        .arg(project().join("tests/clients/paced_scrapy.py"))
        .args([SLOW.to_string(), FAST.to_string()])
        .args(settings)
        .env("PYTHONPATH", project().join("examples/scrapy"));
    let output = output_of(&mut command, b"", LIMIT);
    let crawled: Value = serde_json::from_str(output.trim()).expect("a line of JSON");
    assert_eq!(crawled["fast.test"], FAST, "{crawled}");
    assert_eq!(crawled["failed"], Value::Array(Vec::new()), "{crawled}");
    crawled
}

#[test]
fn a_scheduler_that_plans_holds_one_request_at_a_slow_origin() {
    let paced = crawl(&["SCHEDULER=paced_scheduler.PacedScheduler"]);
    assert_eq!(paced["held"], 1, "{paced}");
    let unpaced = crawl(&[]);
    assert!(unpaced["held"].as_u64().is_some_and(|held| held > 3), "{unpaced}");
}
