//! The metrics: all present from the start, as documented, and of a bounded number in any crawl.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::harness::crawler::crawler;
use crate::harness::ports::free_address;
use crate::harness::tools::{both_streams, clean, program, project, run};
use crate::harness::wayleave::Settings;
use crate::harness::{Origin, Reply, Request, Wayleave, eventually};

/// Adds one crawler that is enforced and one that is observed, with every daily budget, none of which is ever spent.
fn crawlers(settings: Settings) -> Settings {
    let watched = crawler("watched", "WatchedBot")
        .observed()
        .set("requests_per_day", 1_000_000)
        .set("bytes_per_day", "1TiB")
        .set("new_origins_per_day", 1_000_000);
    settings.crawler("news", "NewsBot").with(watched)
}

fn start(origin: &Origin) -> Wayleave {
    origin.site("*").disallows("/private");
    Wayleave::start_with(origin, crawlers)
}

/// Returns every series, without its value.
fn series(proxy: &Wayleave) -> BTreeSet<String> {
    let text = proxy.admin_get("/metrics").text();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let names = samples.map(|line| line.rsplit_once(' ').expect("a sample has a value").0);
    names.map(str::to_owned).collect()
}

fn requests(proxy: &Wayleave) -> f64 {
    proxy.metric("wayleave_requests_total", &[])
}

/// Returns the entries of `all` that are not in `known`.
fn added(all: &BTreeSet<String>, known: &BTreeSet<String>) -> Vec<String> {
    all.difference(known).cloned().collect()
}

/// Requests an allowed and a disallowed page from each of the hosts, with eight clients and many names of crawlers.
fn crawl(proxy: &Wayleave, hosts: std::ops::Range<usize>) {
    const CLIENTS: usize = 8;
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let hosts = hosts.clone().skip(client).step_by(CLIENTS);
            scope.spawn(move || {
                let mut wire = proxy.connect();
                for host in hosts {
                    let agent = match host % 3 {
                        0 => "NewsBot/1".to_owned(),
                        1 => "WatchedBot/1".to_owned(),
                        _ => format!("Bot{host}/1.{host}"),
                    };
                    for (path, enforced) in [("open", 200), ("private", 403)] {
                        let url = format!("http://h{host}.test/{path}?{host}");
                        wire.send(Request::get(&url).agent(&agent).absolute_form());
                        let is_watched = host % 3 == 1;
                        let status = wire.response().status;
                        assert_eq!(status, if is_watched { 200 } else { enforced }, "{url}");
                    }
                }
            });
        }
    });
}

#[test]
fn ten_thousand_hosts_add_no_series() {
    const HOSTS: usize = 10_000;
    let origin = Origin::start();
    let proxy = start(&origin);
    let at_start = series(&proxy);
    crawl(&proxy, 0..10);
    eventually("ten hosts are counted", || requests(&proxy) == 20.0);
    assert_eq!(added(&series(&proxy), &at_start), Vec::<String>::new());
    crawl(&proxy, 10..HOSTS);
    let all = 2.0 * 10_000.0;
    eventually("all hosts are counted", || requests(&proxy) == all);
    let entries = proxy.metric("wayleave_robots_entries", &[("state", "fresh")]);
    assert_eq!(entries, 10_000.0, "every host has its robots.txt");
    assert_eq!(series(&proxy), at_start);
}

/// The series of faults and malformed requests exist from the start as well.
#[test]
fn faults_add_no_series() {
    let origin = Origin::start();
    origin.site("down.test").robots_reply(Reply::new(503));
    let proxy = Wayleave::start_with(&origin, |settings| {
        crawlers(settings)
            .resolve("nobody.test:80", free_address())
            .resolve("inside.test:80", "127.0.0.2:80".parse().expect("valid"))
    });
    let at_start = series(&proxy);
    let hosts = ["down", "nobody", "inside", "nowhere.example", "untrusted"];
    for agent in ["NewsBot/1", "WatchedBot/1", "Googlebot/2.1", "Some/1"] {
        for host in hosts {
            proxy.get_as(agent, &format!("http://{host}.test/"));
        }
        let unknown = "gopher://shop.test/";
        let mut wire = proxy.connect();
        wire.send(Request::get(unknown).agent(agent).absolute_form());
        wire.response();
    }
    for malformed in ["GET / HTTP/9.9\r\n\r\n", "GET http://a.test/\r\n\r\n"] {
        let mut wire = proxy.connect();
        wire.send(malformed);
        wire.response();
    }
    eventually("all are counted", || requests(&proxy) == 26.0);
    assert_eq!(added(&series(&proxy), &at_start), Vec::<String>::new());
}

/// docs/metrics.md states the number of series for each crawler.
#[test]
fn a_crawler_has_the_documented_number_of_series() {
    let origin = Origin::start();
    let mut all = series(&start(&origin));
    all.retain(|series| !series.starts_with("wayleave_budget_"));
    let of = |crawler: &str| {
        let label = format!("crawler=\"{crawler}\"");
        all.iter().filter(|series| series.contains(&label)).count()
    };
    assert_eq!(of("news"), of("watched"));
    let text = std::fs::read_to_string(project().join("docs/metrics.md")).expect("it is there");
    let fixed = all.len() - of("news") - of("watched");
    let expected = format!(
        "{} series for each `[[crawler]]`, about {} for the rest",
        of("news"),
        fixed / 10 * 10
    );
    assert!(text.contains(&expected), "not documented: {expected}");
}

#[test]
fn promtool_has_no_complaints() {
    let origin = Origin::start();
    let proxy = start(&origin);
    crawl(&proxy, 0..10);
    let text = proxy.admin_get("/metrics").text();
    let mut promtool = clean(program("promtool"));
    let limit = Duration::from_secs(60);
    let output = run(promtool.args(["check", "metrics"]), text.as_bytes(), limit);
    let printed = both_streams(&output);
    assert!(output.status.success() && printed.is_empty(), "{printed}");
}

/// Label names, with their values where these are a closed set.
type Labels = BTreeMap<String, BTreeSet<String>>;

/// Returns the metrics in the first table of docs/metrics.md.
fn documented(text: &str) -> BTreeMap<String, Labels> {
    let code = |text: &str| text.trim().trim_matches('`').to_owned();
    let rows = text.lines().filter(|line| line.starts_with("| `wayleave_"));
    let metric = |row: &str| {
        let mut cells = row.trim_matches('|').split('|');
        let name = code(cells.next().expect("a name"));
        let mut labels = Labels::new();
        let mut label = String::new();
        let mut depth = 0;
        for (index, part) in cells.next().expect("labels").split('`').enumerate() {
            if index % 2 == 0 {
                depth += part.matches('(').count();
                depth -= part.matches(')').count();
            } else if depth == 0 {
                part.clone_into(&mut label);
                labels.insert(label.clone(), BTreeSet::new());
            } else {
                let values = labels.get_mut(&label).expect("a value follows its label");
                values.insert(part.to_owned());
            }
        }
        (name, labels)
    };
    rows.map(metric).collect()
}

/// Returns the metrics of `/metrics` with all values of their labels.
fn served(series: &BTreeSet<String>) -> BTreeMap<String, Labels> {
    let mut served = BTreeMap::<String, Labels>::new();
    for series in series {
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let is_histogram = |name: &str| name.ends_with("_seconds");
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix).filter(|name| is_histogram(name)));
        let known = served.entry(family.unwrap_or(name).to_owned()).or_default();
        for label in labels.trim_end_matches('}').split("\",") {
            if let Some((label, value)) = label.split_once("=\"") {
                let values = known.entry(label.to_owned()).or_default();
                values.insert(value.trim_end_matches('"').to_owned());
            }
        }
    }
    served.values_mut().for_each(|labels| {
        labels.remove("le");
    });
    served.retain(|name, _| name.starts_with("wayleave_"));
    served
}

#[test]
fn served_metrics_are_the_documented_ones() {
    let text = std::fs::read_to_string(project().join("docs/metrics.md")).expect("it is there");
    let documented = documented(&text);
    let origin = Origin::start();
    let served = served(&series(&start(&origin)));
    let names = |metrics: &BTreeMap<String, Labels>| metrics.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&documented), names(&served));
    for (name, labels) in &documented {
        let of_served = &served[name];
        assert!(labels.keys().eq(of_served.keys()), "{name}: {of_served:?}");
        for (label, values) in labels.iter().filter(|(_, values)| !values.is_empty()) {
            assert_eq!(values, &of_served[label], "{name}: values of {label}");
        }
    }
}

/// The second table of docs/metrics.md has the reasons of each outcome.
#[test]
fn served_reasons_are_the_documented_ones() {
    let text = std::fs::read_to_string(project().join("docs/metrics.md")).expect("it is there");
    let outcomes = ["forwarded", "tunnelled", "observed", "refused", "failed"];
    let mut documented = BTreeSet::new();
    let (_, text) = text.split_once("| reason |").expect("a table of reasons");
    for row in text.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = row.trim_matches('|').split('|').map(str::trim);
        let reasons = cells.next().expect("a reason").split(", ");
        let cell = cells.next().expect("outcomes");
        for reason in reasons.map(|reason| reason.trim_matches('`')) {
            let outcomes = outcomes.iter().filter(|outcome| cell.contains(**outcome));
            documented.extend(outcomes.map(|outcome| (reason.to_owned(), (*outcome).to_owned())));
        }
    }
    let origin = Origin::start();
    let all = series(&start(&origin));
    let label = |series: &str, name: &str| {
        let (_, rest) = series.split_once(&format!("{name}=\"")).expect("labelled");
        rest.split('"').next().expect("a value").to_owned()
    };
    let served: BTreeSet<_> = all
        .iter()
        .filter(|series| series.starts_with("wayleave_requests_total{"))
        .map(|series| (label(series, "reason"), label(series, "outcome")))
        .collect();
    assert_eq!(documented, served);
}
