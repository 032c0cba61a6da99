//! The decisions about gateways' requests, in the log and wherever it is read.

use std::process::Command;

use serde_json::Value;

use super::{Gated, ROBOTS};
use crate::harness::wayleave::command;
use crate::harness::{Origin, decisions, eventually};

#[test]
fn decisions_about_gateways_requests_are_told_apart() {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    let gated = Gated::start(&origin);
    let proxied = [("X-Forwarded-For", "192.0.2.7")];
    assert_eq!(gated.check("GET", "http://shop.test/a", &proxied).status, 200);
    assert_eq!(gated.check("POST", "http://shop.test/private", &[]).status, 403);
    assert_eq!(gated.proxy.get("http://shop.test/a").status, 200);
    let list = |filter: &str| {
        let list = gated.proxy.admin_get(&format!("/v1/decisions{filter}")).json();
        list["decisions"].as_array().expect("a list").clone()
    };
    let asked = list("?via=gateway");
    assert_eq!(asked.len(), 2);
    eventually("the proxy's own is recorded, too", || list("").len() == 3);
    let [refused, allowed] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!((&refused["status"], &refused["method"]), (&Value::from(403), &"POST".into()));
    assert_eq!((&allowed["status"], &allowed["outcome"]), (&Value::from(200), &"forwarded".into()));
    assert_eq!((&allowed["client"], &allowed["peer"]), (&"192.0.2.7".into(), &"127.0.0.1".into()));
    assert_eq!(gated.proxy.admin_get("/v1/decisions?via=proxy").status, 400);
    assert_eq!(gated.proxy.metric("wayleave_requests_total", &[]), 3.0);
    eventually("the event names the gateway", || gated.proxy.log().contains("via=gateway"));
    let file = gated.proxy.config_with_ports();
    let mut listed = command();
    listed.args(["decisions", "--via", "gateway", "--config"]).arg(file);
    let listed = listed.output().expect("it runs").stdout;
    let listed = String::from_utf8(listed).expect("text");
    assert_eq!(listed.lines().filter(|line| line.ends_with("(asked by a gateway)")).count(), 2);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    let (dir, _) = gated.proxy.stop();
    let log = std::fs::read_to_string(dir.path().join("state/decisions.jsonl")).expect("a log");
    let lines: Vec<_> =
        decisions(&log).filter(|line| line.contains("\"via\":\"gateway\"")).collect();
    assert_eq!(lines.len(), 2, "{log}");
    let run = |arguments: &[&str]| {
        let mut command: Command = command();
        let output = command.args(arguments).current_dir(dir.path()).output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        output.stdout
    };
    let report = ["report", "--via", "gateway", "--json", "--config", "config.toml"];
    let report: Value = serde_json::from_slice(&run(&report)).expect("JSON");
    let outcomes = serde_json::json!({ "forwarded": 1, "refused": 1 });
    assert_eq!(report["outcomes"], outcomes, "{report}");
    run(&["replay", "--config", "config.toml"]);
    run(&["evidence", "export", "--config", "config.toml", "--out", "export", "--since", "1h"]);
    run(&["evidence", "verify", "export"]);
}
