//! The proxies of examples/gateways.

use std::os::unix::fs::symlink;
use std::process::Command;

use super::{Gated, ROBOTS};
use crate::harness::client::Wire;
use crate::harness::tools::{clean, mitmdump, node_modules, program, project};
use crate::harness::{Origin, Reply, Request, Response, eventually};
use crate::requests::upstream::programs::Program;

fn mitmproxy(gated: &Gated) -> Program {
    let folder = project().join("examples/gateways/mitmproxy");
    Program::start(|address, dir| {
        let mut command = clean(mitmdump());
        command.args(["--listen-host", "127.0.0.1", "--listen-port", &address.port().to_string()]);
        command.args(["--set", "rawtcp=false", "--set", "connection_strategy=lazy", "--set"]);
        command.arg(format!("confdir={}", dir.display()));
        command.arg("--scripts").arg(folder.join("wayleave_gate.py"));
        with_gate(command, gated)
    })
}

fn node(gated: &Gated) -> Program {
    let script = project().join("examples/gateways/node/proxy.mjs");
    Program::start(|address, dir| {
        // Modules are looked for beside the script.
        symlink(node_modules(), dir.join("node_modules")).expect("the folder is ours");
        std::fs::copy(script, dir.join("proxy.mjs")).expect("the folder is ours");
        let mut command = clean(program("node"));
        command.arg(dir.join("proxy.mjs")).arg(address.port().to_string());
        with_gate(command, gated)
    })
}

fn with_gate(mut command: Command, gated: &Gated) -> Command {
    command.env("WAYLEAVE_GATE", format!("http://{}", gated.gateway));
    command
}

fn send(proxy: &Program, request: &Request) -> Response {
    let mut wire = Wire::connect(proxy.address);
    wire.send(request.absolute_form());
    wire.response()
}

/// Expects that a proxy sends what is allowed, and that everything else ends with it.
fn expect_obedience(gated: Gated, origin: &Origin, proxy: &Program) {
    let site = format!("http://{}", origin.http);
    let get = |path: &str| send(proxy, &Request::get(&format!("{site}{path}")));
    let allowed = get("/a?b=%2f");
    assert_eq!(allowed.status, 200, "{}", proxy.read("out"));
    for path in ["/private", "/%70rivate", "/a/../private", "//private", "/private?x=/a"] {
        let refused = get(path);
        assert_eq!(refused.status, 403, "{path}: {refused:?}");
        assert_eq!(refused.json()["reason"], "rule", "{path}");
        assert!(refused.header("proxy-status").is_some(), "{path}");
    }
    let other = Request::get(&format!("{site}/a")).header("X-HTTP-Method-Override", "POST");
    assert_eq!(send(proxy, &other).status, 400, "a field that asks for another method");
    let mut wire = Wire::connect(proxy.address);
    wire.send(format!("GET {site}/a HTTP/1.1\r\nHost: evil.test\r\n\r\n"));
    assert_eq!(wire.response().status, 400, "the origin would see another host");
    drop(gated.proxy.kill());
    assert_eq!(get("/a").status, 503);
    let seen = origin.seen();
    let pages: Vec<_> = seen.iter().filter(|line| !line.ends_with("/robots.txt")).collect();
    assert_eq!(pages, [&format!("GET {site}/a?b=%2f")]);
}

#[test]
fn mitmproxy_sends_what_is_allowed_and_fails_closed() {
    let origin = Origin::start();
    origin.site("127.0.0.1").robots(ROBOTS);
    let gated = Gated::start(&origin);
    let proxy = mitmproxy(&gated);
    expect_obedience(gated, &origin, &proxy);
}

#[test]
fn a_proxy_in_node_sends_what_is_allowed_and_fails_closed() {
    let origin = Origin::start();
    origin.site("127.0.0.1").robots(ROBOTS);
    origin.site("shop.test").robots(ROBOTS);
    let gated = Gated::start(&origin);
    let proxy = node(&gated);
    // A tunnel hides what is disallowed.
    let mut wire = Wire::connect(proxy.address);
    wire.send_connect("shop.test:443", "");
    assert_eq!(wire.response().status, 403);
    expect_obedience(gated, &origin, &proxy);
}

#[test]
fn mitmproxy_tells_what_came_back() {
    let origin = Origin::start();
    let busy = Reply::new(503).header("Retry-After", "60");
    origin.site("127.0.0.1").robots(ROBOTS).page("/busy", busy);
    let gated = Gated::start(&origin);
    let proxy = mitmproxy(&gated);
    let get = |path: &str| send(&proxy, &Request::get(&format!("http://{}{path}", origin.http)));
    assert_eq!(get("/busy").status, 503);
    eventually("the page rests", || {
        let refused = get("/busy");
        refused.status == 429 && refused.json()["reason"] == "origin-rests"
    });
}
