//! The metrics: all present from the start, as documented, and of bounded number however long a crawl runs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::harness::tools::{clean, program, project, run};
use crate::harness::wayleave::Settings;
use crate::harness::{Origin, Reply, Request, Wayleave, eventually};

const CRAWLERS: &str = r#"
[[crawler]]
name = "news"
tokens = ["NewsBot"]
match = { user_agent = "NewsBot" }
[[crawler]]
name = "watched"
tokens = ["WatchedBot"]
mode = "observe"
match = { user_agent = "WatchedBot" }
"#;

fn start(origin: &Origin) -> Wayleave {
    origin.site("*").robots("User-agent: *\nDisallow: /private\n");
    Wayleave::start_with(origin, |settings: Settings| settings.table(CRAWLERS))
}

/// Every series, without its value.
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
fn news(all: &BTreeSet<String>, known: &BTreeSet<String>) -> Vec<String> {
    all.difference(known).cloned().collect()
}

/// One page that may be fetched and one that may not from each of the hosts, under names of their own, by eight clients.
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
                    for (path, ours) in [("open", 200), ("private", 403)] {
                        let url = format!("http://h{host}.test/{path}?{host}");
                        wire.send(Request::get(&url).agent(&agent).absolute_form());
                        let is_watched = host % 3 == 1;
                        let status = wire.response().status;
                        assert_eq!(status, if is_watched { 200 } else { ours }, "{url}");
                    }
                }
            });
        }
    });
}

#[test]
fn ten_thousand_hosts_have_as_many_series_as_ten_or_none() {
    const HOSTS: usize = 10_000;
    let origin = Origin::start();
    let proxy = start(&origin);
    let at_start = series(&proxy);
    crawl(&proxy, 0..10);
    eventually("ten hosts are counted", || requests(&proxy) == 20.0);
    assert_eq!(news(&series(&proxy), &at_start), Vec::<String>::new());
    crawl(&proxy, 10..HOSTS);
    let all = 2.0 * 10_000.0;
    eventually("all hosts are counted", || requests(&proxy) == all);
    let entries = proxy.metric("wayleave_robots_entries", &[("state", "fresh")]);
    assert_eq!(entries, 10_000.0, "every host has its robots.txt");
    assert_eq!(series(&proxy), at_start);
}

/// Faults on the way to the origin, malformed requests and the like have their series from the start as well.
#[test]
fn faults_add_no_series() {
    let origin = Origin::start();
    origin.site("down.test").robots_reply(Reply::new(503));
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = nobody.local_addr().expect("it is bound");
    drop(nobody);
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .table(CRAWLERS)
            .resolve("nobody.test:80", address)
            .resolve("inside.test:80", "127.0.0.2:80".parse().expect("valid"))
    });
    let at_start = series(&proxy);
    let hosts = ["down", "nobody", "inside", "nowhere.example", "untrusted"];
    for agent in ["NewsBot/1", "WatchedBot/1", "Googlebot/2.1", "Some/1"] {
        for host in hosts {
            proxy.exchange(&Request::get(&format!("http://{host}.test/")).agent(agent));
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
    assert_eq!(news(&series(&proxy), &at_start), Vec::<String>::new());
}

/// The README of the metrics says how many series a crawler costs.
#[test]
fn a_crawler_has_as_many_series_as_is_documented() {
    let origin = Origin::start();
    let all = series(&start(&origin));
    let of = |crawler: &str| {
        let label = format!("crawler=\"{crawler}\"");
        all.iter().filter(|series| series.contains(&label)).count()
    };
    assert_eq!(of("news"), of("watched"));
    let text = std::fs::read_to_string(project().join("docs/metrics.md")).expect("it is there");
    let fixed = all.len() - of("news") - of("watched");
    let said = format!(
        "{} series for each `[[crawler]]`, about {} for the rest",
        of("news"),
        fixed / 10 * 10
    );
    assert!(text.contains(&said), "not said: {said}");
}

#[test]
fn promtool_has_nothing_to_say() {
    let origin = Origin::start();
    let proxy = start(&origin);
    crawl(&proxy, 0..10);
    let text = proxy.admin_get("/metrics").text();
    let mut promtool = clean(program("promtool"));
    let limit = Duration::from_secs(60);
    let output = run(promtool.args(["check", "metrics"]), text.as_bytes(), limit);
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && said.is_empty(), "{said}");
}

/// Label names and, where there is a known set of them, their values.
type Labels = BTreeMap<String, BTreeSet<String>>;

/// The metrics of the first table of docs/metrics.md.
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

/// The metrics of `/metrics` with all values of their labels.
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
fn the_documented_metrics_are_those_that_are_served() {
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

/// Each outcome's reasons, as the second table of docs/metrics.md has them.
#[test]
fn the_documented_reasons_are_those_that_are_served() {
    let text = std::fs::read_to_string(project().join("docs/metrics.md")).expect("it is there");
    let outcomes = ["forwarded", "tunnelled", "observed", "refused", "failed"];
    let mut documented = BTreeSet::new();
    let (_, text) = text.split_once("| reason |").expect("a table of reasons");
    for row in text.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = row.trim_matches('|').split('|').map(str::trim);
        let reasons = cells.next().expect("a reason").split(", ");
        let cell = cells.next().expect("outcomes");
        for reason in reasons.map(|reason| reason.trim_matches('`')) {
            let of_it = outcomes.iter().filter(|outcome| cell.contains(**outcome));
            documented.extend(of_it.map(|outcome| (reason.to_owned(), (*outcome).to_owned())));
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
