//! The dashboard, the rules and the alerts, checked by promtool and with data in a real Prometheus.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::fleet::engines::{Product, Server};
use crate::harness::crawler::crawler;
use crate::harness::ports::free_address;
use crate::harness::prometheus::Prometheus;
use crate::harness::tools::{clean, output_of, program, project, python};
use crate::harness::{DEADLINE, Origin, Reply, Wayleave, eventually};

const RULES: &str = r#"
[[rule]]
action = "refuse"
hosts = ["never.test"]
[[rule]]
action = "allow"
hosts = ["partner.test"]
owner = "data@example.com"
reason = "contract 2026-17"
expires = "2999-01-01"
"#;

fn promtool(arguments: &[&str]) -> Command {
    let mut promtool = clean(program("promtool"));
    promtool.args(arguments).current_dir(project());
    promtool
}

#[test]
fn promtool_accepts_the_rules() {
    let rules = "dashboards/wayleave-rules.yaml";
    let check = ["check", "rules", "--lint=all", "--lint-fatal", rules];
    output_of(&mut promtool(&check), b"", DEADLINE);
}

#[test]
fn alerts_fire_when_they_should() {
    let tests = "dashboards/wayleave-rules-test.yaml";
    output_of(&mut promtool(&["test", "rules", tests]), b"", DEADLINE);
}

fn dashboard() -> Value {
    let text = std::fs::read(project().join("dashboards/wayleave.json")).expect("it is there");
    serde_json::from_slice(&text).expect("it is JSON")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("no {key}: {value}"))
}

/// Returns all panels; collapsed rows contain theirs.
fn panels(dashboard: &Value) -> Vec<&Value> {
    let top = dashboard["panels"].as_array().expect("panels");
    let of = |panel: &'static str| move |row: &&Value| row["type"] == panel;
    let nested =
        top.iter().filter(of("row")).flat_map(|row| row["panels"].as_array().expect("panels"));
    top.iter().filter(|panel| panel["type"] != "row").chain(nested).collect()
}

fn rows(dashboard: &Value) -> Vec<&Value> {
    let panels = dashboard["panels"].as_array().expect("panels");
    panels.iter().filter(|panel| panel["type"] == "row").collect()
}

#[test]
fn every_panel_has_a_description_and_the_chosen_data_source() {
    let dashboard = dashboard();
    let mut ids = BTreeSet::new();
    for panel in panels(&dashboard) {
        let (title, description) = (text(panel, "title"), text(panel, "description"));
        assert!(!title.is_empty() && !description.is_empty(), "{panel}");
        assert!(ids.insert(panel["id"].as_u64()), "{title}: its id is that of another");
        for target in panel["targets"].as_array().expect("targets") {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{title}");
        }
    }
}

/// The panels of a collapsed row take no space until it is opened.
#[test]
fn no_panel_overlaps_another() {
    let dashboard = dashboard();
    let top = dashboard["panels"].as_array().expect("panels");
    let mut parts = vec![top];
    parts.extend(rows(&dashboard).into_iter().filter_map(|row| row["panels"].as_array()));
    for part in parts {
        let mut cells = BTreeSet::new();
        for panel in part {
            let grid = |key: &str| panel["gridPos"][key].as_u64().expect("a number");
            for x in grid("x")..grid("x") + grid("w") {
                for y in grid("y")..grid("y") + grid("h") {
                    let is_free = x < 24 && cells.insert((x, y));
                    assert!(is_free, "{} overlaps at {x}, {y}", text(panel, "title"));
                }
            }
        }
    }
}

#[test]
fn details_are_folded_and_crawler_panels_show_the_top_ten() {
    let dashboard = dashboard();
    for row in rows(&dashboard) {
        let title = text(row, "title");
        let is_open = ["At a glance", "Requests"].contains(&title);
        assert_eq!(row["collapsed"], !is_open, "{title}");
        let about_crawlers = |panel: &&Value| panel.to_string().contains("crawler=~");
        let inner = row["panels"].as_array().expect("panels");
        if title.ends_with("of all crawlers") {
            assert!(inner.iter().filter(about_crawlers).count() <= 1, "{title}");
        }
    }
    let by_crawler = panels(&dashboard).into_iter().filter(|panel| {
        let is_line = panel["type"] == "timeseries";
        is_line && panel["targets"].to_string().contains("sum by (crawler")
    });
    let by_crawler: Vec<_> = by_crawler.collect();
    assert!(by_crawler.len() > 3);
    for panel in by_crawler {
        let query = text(&panel["targets"][0], "expr");
        assert!(query.starts_with("topk(10, "), "too many lines: {query}");
    }
}

/// Links lead to views of the page, with filters that it has, and to headings of the runbook.
#[test]
fn panels_lead_to_the_page_and_the_runbook() {
    let dashboard = dashboard();
    let read = |file: &str| std::fs::read_to_string(project().join(file)).expect("it is there");
    let runbook = read("docs/runbook.md").to_lowercase();
    let whole = dashboard.to_string();
    let links =
        whole.split("\"url\":\"").skip(1).map(|rest| rest.split('"').next().expect("an end"));
    let views = read("proxy/src/admin/page/page.js");
    let (mut to_page, mut to_runbook) = (0, 0);
    for link in links {
        if let Some(anchor) = link.strip_prefix("${docs}/runbook.md#") {
            assert!(runbook.contains(&format!("\n## {anchor}\n")), "{link}");
            to_runbook += 1;
        } else if let Some(view) = link.strip_prefix("${page}/#/") {
            let (view, query) = view.split_once('?').unwrap_or((view, ""));
            assert!(views.contains(&format!("\n  {view}: (")), "{link}");
            for pair in query.split('&').filter(|pair| !pair.is_empty()) {
                let script = read(&format!("proxy/src/admin/page/{view}.js"));
                let name = pair.split('=').next().expect("one part");
                assert!(script.contains(&format!("\"{name}\"")), "{link}");
            }
            to_page += 1;
        }
    }
    assert!(to_page > 20 && to_runbook > 20, "{to_page} {to_runbook}");
}

/// Grafana Labs' own types read and write it; members that they do not know are lost.
#[test]
fn the_dashboard_conforms_to_grafanas_schema() {
    let mut command = clean(python());
    command
        .arg(project().join("tests/clients/dashboard.py"))
        .arg(project().join("dashboards/wayleave.json"));
    assert_eq!(output_of(&mut command, b"", DEADLINE), "");
}

#[test]
fn starts_and_reloads_are_marked() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let prometheus = Prometheus::scraping(&proxy);
    let dashboard = dashboard();
    let annotations = dashboard["annotations"]["list"].as_array().expect("annotations");
    let marks: Vec<_> = annotations.iter().filter(|mark| mark["useValueForTime"] == true).collect();
    assert_eq!(marks.len(), 2, "{annotations:?}");
    for mark in marks {
        expect_data(
            &prometheus,
            &proxy,
            text(mark, "name"),
            &with_variables_set(text(mark, "expr")),
        );
    }
}

/// Returns the query that a browser sends, with every variable set to all.
fn with_variables_set(expression: &str) -> String {
    let mut expression = expression.to_owned();
    let variables = ["$job", "$instance", "$crawler"].map(|name| (name, ".*"));
    let times = ["$__rate_interval", "$__range"].map(|name| (name, "1m"));
    for (name, value) in variables.into_iter().chain(times) {
        expression = expression.replace(name, value);
    }
    assert!(!expression.contains('$'), "an unknown variable: {expression}");
    expression
}

/// Returns the queries of the dashboard with the titles of their panels; `label_values(METRIC, LABEL)` queries the metric.
fn queries_of_dashboard() -> Vec<(String, String)> {
    let dashboard = dashboard();
    let mut queries = Vec::new();
    for panel in panels(&dashboard) {
        for target in panel["targets"].as_array().expect("targets") {
            let query = with_variables_set(text(target, "expr"));
            queries.push((text(panel, "title").to_owned(), query));
        }
    }
    let variables = dashboard["templating"]["list"].as_array().expect("variables");
    for variable in variables.iter().filter(|variable| variable["type"] == "query") {
        let query = text(&variable["query"], "query");
        let query = query.strip_prefix("label_values(").expect("values of a label");
        let (metric, label) = query.rsplit_once(", ").expect("a metric and a label");
        let label = label.trim_end_matches(')');
        let query = format!("count by ({label}) ({})", with_variables_set(metric));
        queries.push((text(variable, "name").to_owned(), query));
    }
    queries
}

/// Returns the README's examples, one a line.
fn queries_of_readme() -> Vec<(String, String)> {
    let readme = std::fs::read_to_string(project().join("README.md")).expect("it is there");
    let (_, rest) = readme.split_once("```promql\n").expect("examples");
    let (block, _) = rest.split_once("```").expect("a fence ends");
    let queries = block.lines().map(|query| ("README.md".to_owned(), query.to_owned()));
    queries.collect()
}

/// Returns the rules that Prometheus has loaded.
fn rules(prometheus: &Prometheus) -> Vec<Value> {
    let data = prometheus.api("rules");
    let groups = data["groups"].as_array().expect("groups").clone();
    let of = |group: Value| group["rules"].as_array().expect("rules").clone();
    groups.into_iter().flat_map(of).collect()
}

/// Has the comparisons of an alert's condition return 0 or 1 with `bool`; without it there is data only while it is met.
fn with_truth_values(condition: &str) -> String {
    let mut condition = condition.to_owned();
    for comparison in [" > ", " < ", " == ", " >= "] {
        condition = condition.replace(comparison, &format!("{comparison}bool "));
    }
    condition
}

/// Starts a fleet of two, so that every metric has data. The first one is scraped.
fn start(origin: &Origin, engine: &Server) -> [Wayleave; 2] {
    origin.site("*").disallows("/private");
    let slow = "User-agent: *\nDisallow:\nCrawl-delay: 0.2\n";
    origin.site("slow.test").robots(slow);
    origin.site("down.test").robots_reply(Reply::new(503));
    origin.site("partner.test").disallows("/");
    // An exception is forwarded without robots.txt, so the request itself fails.
    let exception = "[[rule]]\naction = \"allow\"\nhosts = [\"nobody.test\"]\nowner = \"a@example.com\"\nreason = \"a test\"\nexpires = \"2999-01-01\"\n";
    let news = crawler("news", "NewsBot").matched_by("user_agent", "News");
    let news = news.set("requests_per_day", 1_000_000);
    let node = || {
        Wayleave::start_with(origin, |settings| {
            settings
                .set("politeness.crawl_delay", "\"wait\"")
                .set("store.kind", "\"redis\"")
                .set("store.url", &format!("{:?}", engine.url()))
                // A busy machine is not a lost engine.
                .set("store.timeout", "\"2s\"")
                .resolve("nobody.test:80", free_address())
                .with(news.clone())
                .with(crawler("watched", "WatchedBot").observed())
                .table(RULES)
                .table(exception)
        })
    };
    [node(), node()]
}

/// Sends requests that are forwarded, refused, observed, delayed, or fail, by HTTP and HTTPS.
fn crawl(proxy: &Wayleave, round: usize) {
    for (agent, url) in [
        ("NewsBot/1", format!("http://h{round}.test/open")),
        ("NewsBot/1", format!("https://h{round}.test/private")),
        ("WatchedBot/1", format!("http://h{round}.test/private")),
        ("News/1", "http://partner.test/feed".to_owned()),
        ("Some/1", "https://shop.test/".to_owned()),
        ("Some/1", "http://never.test/".to_owned()),
        ("Some/1", "http://down.test/".to_owned()),
        ("Some/1", "http://nobody.test/".to_owned()),
        ("Some/1", "http://slow.test/".to_owned()),
        ("Some/1", "http://slow.test/".to_owned()),
    ] {
        proxy.get_as(agent, &url);
    }
}

/// Crawls until the query has a result.
#[track_caller]
fn expect_data(prometheus: &Prometheus, proxy: &Wayleave, of: &str, query: &str) {
    let mut round = 0;
    let mut has_data = || {
        let series = prometheus.query(query);
        let found = series.iter().any(|(_, value)| !value.is_nan());
        if !found {
            crawl(proxy, round);
            round += 1;
        }
        found
    };
    eventually(&format!("{of} has data: {query}"), &mut has_data);
}

#[test]
fn every_query_of_the_dashboard_and_the_rules_has_data() {
    let (origin, engine) = (Origin::start(), Server::start(Product::Redis));
    let [proxy, other] = start(&origin, &engine);
    let prometheus = Prometheus::scraping(&proxy);
    for round in 0..3 {
        crawl(&proxy, round);
        // The first node receives what this one learns.
        crawl(&other, 1_000 + round);
    }
    let queries = queries_of_dashboard();
    assert!(queries.len() > 40, "{queries:?}");
    for (title, query) in queries.into_iter().chain(queries_of_readme()) {
        expect_data(&prometheus, &proxy, &title, &query);
    }
    let rules = rules(&prometheus);
    assert!(rules.len() > 20, "{rules:?}");
    for rule in rules {
        let (name, query) = (text(&rule, "name"), text(&rule, "query"));
        expect_data(&prometheus, &proxy, name, &with_truth_values(query));
        assert_eq!(rule["health"], "ok", "{rule}");
        if rule["type"] == "recording" {
            expect_data(&prometheus, &proxy, name, name);
        }
    }
}

#[test]
fn every_alert_has_a_runbook_and_a_test() {
    let origin = Origin::start();
    let prometheus = Prometheus::scraping(&Wayleave::start(&origin));
    let read = |file: &str| std::fs::read_to_string(project().join(file)).expect("it is there");
    let runbook = read("docs/runbook.md");
    let tests = read("dashboards/wayleave-rules-test.yaml");
    let rules = rules(&prometheus);
    let alerts: Vec<_> = rules.iter().filter(|rule| rule["type"] == "alerting").collect();
    assert!(alerts.len() > 15, "{rules:?}");
    for alert in &alerts {
        let name = text(alert, "name");
        let annotations = &alert["annotations"];
        assert!(!text(annotations, "summary").is_empty(), "{name}");
        assert!(!text(annotations, "description").is_empty(), "{name}");
        // One label of Prometheus says where the documents are.
        let docs = "{{ with $externalLabels.wayleave_docs }}{{ . }}{{ else }}docs{{ end }}";
        let link = format!("{docs}/runbook.md#{}", name.to_lowercase());
        assert_eq!(text(annotations, "runbook_url"), link);
        assert!(runbook.contains(&format!("\n## {name}\n")), "{name}: no runbook");
        let severities = ["critical", "warning", "info"];
        assert!(severities.contains(&text(&alert["labels"], "severity")), "{name}");
        let fires = format!("- alertname: {name}\n");
        assert!(tests.contains(&fires), "{name}: nothing tests that it fires");
    }
    let headings = runbook.matches("\n## ").count();
    assert_eq!(headings, alerts.len(), "the runbook has an alert that does not exist");
}
