//! What was decided: the summary and the report, the log, the crawler.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::json;

use super::Stage;
use crate::harness::Wayleave;
use crate::harness::tools::{self, both_streams};
use crate::harness::wayleave::{Settings, command};

#[test]
fn summary_and_report_count_what_was_decided() {
    let stage = Stage::new();
    let fetch = "for url in http://shop.test/open https://shop.test/open http://shop.test/private \
                 https://other.test/private http://missing.example/; do curl -q -s -o /dev/null $url; done";
    let (_, stderr) = stage.shell(fetch);
    let mut report = stage.report();
    assert!(report["waited_seconds"].take().is_f64());
    let expected = json!({
        "requests": 5, "forwarded": 2, "observed": 0, "refused": 2, "failed": 1, "tunnelled": 0,
        "by_reason": { "rule": 2, "dns_error": 1 },
        "by_host": { "shop.test": 3, "other.test": 1, "missing.example": 1 },
        "waited_seconds": null,
    });
    assert_eq!(report, expected);
    let mut lines = stderr.lines();
    let first = lines.next().unwrap_or_default();
    assert!(
        first.starts_with("wayleave: 5 requests: 2 forwarded, 2 refused, 1 failed; "),
        "{stderr}"
    );
    assert_eq!(lines.next(), Some("  reasons: rule 2, dns_error 1"), "{stderr}");
    assert_eq!(lines.next(), Some("  hosts: shop.test 3, missing.example 1, other.test 1"));
    assert_eq!(lines.next(), None, "{stderr}");
}

#[test]
fn a_command_meets_the_robots_txt_that_is_only_planned() {
    let stage = Stage::new();
    let planned = "User-agent: *\nDisallow: /open\n";
    std::fs::write(stage.dir.path().join("planned.txt"), planned).expect("writable");
    let options =
        ["--robots", "http://shop.test=planned.txt", "--robots", "https://other.test=planned.txt"];
    let fetch = "for url in http://shop.test https://other.test http://other.test; do \
                 curl -q -s -D - -o - $url/robots.txt; \
                 for page in open private; do curl -q -s -o /dev/null -w '%{http_code} ' $url/$page; done; done";
    let mut run = stage.command_with(&options, &["sh", "-c", fetch]);
    let output = tools::run(&mut run, b"", super::LIMIT);
    let printed = both_streams(&output);
    let fields = printed.to_lowercase();
    assert_eq!(fields.matches("wayleave-robots-txt: pinned").count(), 2, "{printed}");
    assert_eq!(printed.matches(planned).count(), 2, "{printed}");
    assert_eq!(printed.matches("403 200 ").count(), 2, "{printed}");
    assert_eq!(printed.matches("200 403 ").count(), 1, "{printed}");
    assert_eq!(stage.origin.robots_fetches("shop.test"), 0);
}

#[test]
fn observed_refusals_are_counted_as_observed() {
    let stage = Stage::with(|settings| settings.set("proxy.mode", "\"observe\""));
    stage.shell("curl -q -s -o /dev/null http://shop.test/private");
    let report = stage.report();
    assert_eq!((&report["observed"], &report["refused"]), (&json!(1), &json!(0)), "{report}");
    assert_eq!(report["by_reason"], json!({ "rule": 1 }));
}

#[test]
fn waits_for_slots_are_counted() {
    let stage = Stage::with(|settings| settings.set("politeness.crawl_delay", "\"wait\""));
    stage.origin.site("shop.test").robots("User-agent: *\nCrawl-delay: 1\n");
    stage.shell("curl -q -s -o /dev/null http://shop.test/open -o /dev/null http://shop.test/a");
    let report = stage.report();
    assert_eq!(report["forwarded"], 2, "{report}");
    assert!(report["waited_seconds"].as_f64().is_some_and(|waited| waited > 0.3), "{report}");
}

#[test]
fn the_proxys_log_is_in_the_state_directory() {
    let stage = Stage::new();
    let (_, stderr) = stage.shell("curl -q -s -o /dev/null http://shop.test/private");
    assert_eq!(stderr.lines().count(), 3, "{stderr}");
    let log = std::fs::read_to_string(stage.dir.path().join("state/run.log")).expect("written");
    assert!(log.contains("http://shop.test/private"), "{log}");
}

#[test]
fn a_crawler_can_be_named_for_all_requests() {
    let stage =
        Stage::with(|settings| settings.crawler("first", "FirstBot").crawler("news", "NewsBot"));
    let robots = "User-agent: NewsBot\nDisallow: /news\n\nUser-agent: *\nDisallow: /others\n";
    stage.origin.site("shop.test").robots(robots);
    let fetch = |options: &[&str]| {
        let script = "for path in /news /others; do curl -q -s -o /dev/null -w '%{http_code} ' \
                      -A Other/1 http://shop.test$path; done";
        let mut run = stage.command_with(options, &["sh", "-c", script]);
        tools::output_of(&mut run, b"", super::LIMIT)
    };
    assert_eq!(fetch(&[]), "200 403 ");
    assert_eq!(fetch(&["--crawler", "news"]), "403 200 ");
    let log = std::fs::read_to_string(stage.dir.path().join("state/decisions.jsonl"));
    assert!(log.expect("written").contains("\"crawler\":\"news\""));
}

/// The proxy of a run has no listener of its own that the default address could be.
#[test]
fn the_running_proxy_may_have_the_default_address() {
    let stage = Stage::new();
    let ca = stage.dir.path().join("origins.pem");
    let mut run = command();
    run.args(["run", "--proxy", "http://127.0.0.1:3128", "--ca"]).arg(ca).args(["echo", "ran"]);
    run.current_dir(stage.dir.path()).env("HOME", stage.dir.path());
    let output = tools::run(&mut run, b"", super::LIMIT);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ran\n", "{output:?}");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

/// Returns `wayleave run` with this configuration of a proxy that runs.
fn run_beside(running: &Wayleave, config: &Path, arguments: &[&str]) -> Output {
    let mut run = command();
    run.arg("run").arg("--config").arg(config).args(arguments);
    run.current_dir(running.dir.path()).env("HOME", running.dir.path());
    tools::run(&mut run, b"", super::LIMIT)
}

#[test]
fn a_proxy_that_runs_with_the_configuration_is_used() {
    let stage = Stage::new();
    let running = Wayleave::start(&stage.origin);
    let config = running.config_with_ports();
    let curl = ["curl", "-q", "-sS", "-w", "%{http_code}"];
    for (url, expected) in [("https://shop.test/open", "200"), ("http://shop.test/private", "403")]
    {
        let output = run_beside(&running, &config, &[&curl[..], &[url]].concat());
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.ends_with(expected), "{output:?}");
        let used = format!("http://{}, which runs with this configuration", running.proxy);
        assert!(String::from_utf8_lossy(&output.stderr).contains(&used), "{output:?}");
    }
    // Its pace is everybody's, because it makes all requests.
    for outcome in ["forwarded", "refused"] {
        let labels = [("outcome", outcome)];
        assert_eq!(running.metric("wayleave_requests_total", &labels), 1.0, "{outcome}");
    }
}

/// Serves what everybody can have of a proxy, the certificate of its CA, at every path, and counts connections to a second address.
fn impostor(certificate: Vec<u8>) -> (SocketAddr, SocketAddr, Arc<AtomicUsize>) {
    let [admin, proxy] =
        [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port is free"));
    let address = |listener: &TcpListener| listener.local_addr().expect("it is bound");
    let (addresses, used) = ((address(&admin), address(&proxy)), Arc::new(AtomicUsize::new(0)));
    thread::spawn(move || {
        for stream in admin.incoming() {
            let mut stream = stream.expect("a connection");
            let _ = stream.read(&mut [0; 4096]);
            let length = certificate.len();
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
            let _ = stream.write_all(&[head.as_bytes(), &certificate].concat());
        }
    });
    let counted = Arc::clone(&used);
    thread::spawn(move || {
        for _ in proxy.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    (addresses.0, addresses.1, used)
}

#[test]
fn whoever_has_the_certificate_is_not_yet_the_proxy() {
    let stage = Stage::new();
    // Makes the CA.
    stage.run(&["true"]);
    let ca_file = stage.dir.path().join("state/ca/ca.crt");
    let pem = std::fs::read(&ca_file).expect("it is made");
    let (admin, proxy, used) = impostor(pem);
    let settings = Settings::for_origin(stage.dir.path(), &stage.origin)
        .set("admin.listen", &format!("\"{admin}\""))
        .set("proxy.listen", &format!("[\"{proxy}\"]"));
    std::fs::write(stage.dir.path().join("config.toml"), settings.to_toml()).expect("writable");
    let (printed, stderr) = stage.shell("curl -q -sS https://shop.test/open");
    assert_eq!(printed, super::OPEN, "{stderr}");
    assert!(!stderr.contains("which runs with this configuration"), "{stderr}");
    assert_eq!(used.load(Ordering::SeqCst), 0);
}

#[test]
fn a_proxy_that_runs_and_cannot_be_used_is_explained() {
    let stage = Stage::new();
    let crawling = |settings: Settings| settings.crawler("news", "NewsBot");
    let running = Wayleave::start_with(&stage.origin, crawling);
    let explained = |config: &Path, arguments: &[&str], expected: &str| {
        let output = run_beside(&running, config, &[arguments, &["touch", "was-run"]].concat());
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(printed.contains(expected), "{printed}");
        assert!(!printed.contains("state.dir"), "{printed}");
        assert!(!output.status.success() && !running.dir.path().join("was-run").exists());
    };
    // A password says who a crawler is there, not an option.
    let named = format!("--proxy http://news:PASSWORD@{} -- ", running.proxy);
    explained(&running.config_with_ports(), &["--crawler", "news"], &named);
    // The ports of this file are those that the system chose.
    let file = running.dir.path().join("config.toml");
    explained(&file, &[], "wayleave run --proxy http://ADDRESS:PORT -- ");
}

#[test]
fn a_running_proxy_can_decide_instead() {
    let stage = Stage::new();
    let running = Wayleave::start(&stage.origin);
    let proxy = format!("http://{}", running.proxy);
    stage.check_client("--proxy", &mut |url| {
        let mut run = command();
        run.args(["run", "--proxy", &proxy, "--ca"]).arg(running.ca_file());
        run.arg("--report").arg(stage.report_file()).args(["curl", "-q", "-sS", "-i", url]);
        run.current_dir(stage.dir.path()).env("HOME", stage.dir.path());
        run
    });
    let report = stage.report();
    assert_eq!((&report["requests"], &report["tunnelled"]), (&json!(1), &json!(1)), "{report}");
    // The running proxy refused requests, of which nothing is known here.
    for unknown in ["forwarded", "observed", "refused", "waited_seconds"] {
        assert!(report.get(unknown).is_none(), "{unknown}: {report}");
    }
    assert_eq!(running.metric("wayleave_requests_total", &[("outcome", "refused")]), 2.0);

    // The address of one name, with the server name of another: whatever is allowed there, nothing disallowed is had.
    let fetch = "address=$(getent ahostsv4 shop.test | head -n 1 | cut -d' ' -f1)
        echo \"at $address\"
        for path in private open; do
            curl -qskw '%{http_code}\\n' --resolve other.test:443:$address https://other.test/$path
        done";
    let mut run = command();
    run.args(["run", "--proxy", &proxy, "--ca"]).arg(running.ca_file()).args(["sh", "-c", fetch]);
    run.current_dir(stage.dir.path()).env("HOME", stage.dir.path());
    let printed = both_streams(&tools::run(&mut run, b"", super::LIMIT));
    assert!(printed.contains("at 198.18."), "{printed}");
    assert!(
        printed.contains("wayleave: 2 connections, whose requests the running proxy"),
        "{printed}"
    );
    assert!(!printed.contains("a secret") && !printed.contains("\n200"), "{printed}");
    let seen = stage.origin.seen();
    assert!(!seen.iter().any(|line| line.contains("other.test")), "{seen:?}");
}
