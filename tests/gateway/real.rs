//! Caddy, Envoy and Traefik, set up by the recipes of docs/gateways.md.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use super::{Gated, ROBOTS};
use crate::clients::code_blocks::block;
use crate::harness::Origin;
use crate::harness::client::raw;
use crate::harness::tools::{clean, gateway_program, program};
use crate::requests::upstream::programs::Program;

const DOCUMENT: &str = "docs/gateways.md";
/// Targets that some server writes in another way. Only `/private` and below are disallowed.
const TARGETS: [&str; 16] = [
    "/a?b=%2f",
    "/a%2fb",
    "/a//b",
    "//a",
    "/a/./b",
    "/a/../b",
    "/a/%2e%2e/b",
    "/%61",
    "/a?",
    "/a;b",
    "/a%20b",
    "/a+b",
    "/a%",
    "/private?/../a",
    "/a/..%2fprivate",
    "/%70rivate",
];

/// Sends a request as a client of the gateway does. Returns its status.
fn get(gateway: SocketAddr, target: &str, fields: &str) -> u16 {
    let head =
        format!("GET {target} HTTP/1.1\r\nHost: shop.test\r\n{fields}Connection: close\r\n\r\n");
    raw(gateway, head).expect("an answer").status
}

fn pages(origin: &Origin) -> Vec<String> {
    let mut seen = origin.seen();
    seen.retain(|line| !line.ends_with("/robots.txt"));
    seen
}

/// Expects that a gateway sends what is allowed, as it asked about it, and that everything else ends with it.
fn expect_obedience(gated: Gated, origin: &Origin, gateway: &Program) {
    let send = |target: &str, fields: &str| get(gateway.address, target, fields);
    assert_eq!(send("/a", ""), 200, "{}", gateway.read("out"));
    assert_eq!(send("/private", ""), 403, "{}", gateway.read("out"));
    // It replaces what its client says of this kind, and passes the rest on, to us as to the origin.
    let forged = "X-Forwarded-Uri: /a\r\nX-Forwarded-Method: HEAD\r\nX-Forwarded-Host: b.test\r\nX-Forwarded-Proto: https\r\n";
    assert_ne!(send("/private", forged), 200);
    assert_ne!(send("/a", "X-Original-URL: /private\r\n"), 200);
    for target in TARGETS {
        let before = pages(origin).len();
        let status = send(target, "");
        let sent = pages(origin).split_off(before);
        if status == 200 {
            let asked = gated.proxy.admin_get("/v1/decisions?via=gateway&limit=1").json();
            let asked = asked["decisions"][0]["url"].as_str().expect("a URL");
            let [sent] = &sent[..] else { panic!("{target}: {sent:?}") };
            // Escapes may be in another case, which makes no other request (RFC 3986 section 6.2.2.1).
            assert!(
                sent.eq_ignore_ascii_case(&format!("GET {asked}")),
                "{target}: {asked}, {sent}"
            );
        } else {
            assert!(sent.is_empty(), "{target}: {status} {sent:?}");
        }
        let is_disallowed = target.to_lowercase().contains("private");
        assert!(!is_disallowed || status != 200, "{target}");
    }
    let before = pages(origin).len();
    assert!(before > TARGETS.len() / 2, "{before}");
    drop(gated.proxy.kill());
    let status = send("/a", "");
    assert!(status >= 400, "{status}");
    assert_eq!(pages(origin).len(), before);
}

fn caddy(gated: &Gated, origin: &Origin) -> Program {
    let site = block(DOCUMENT, "caddyfile", "forward_auth");
    Program::start(|address, dir| {
        let site = site.replacen("http://:8080", &format!("http://:{}", address.port()), 1);
        let site = site.replace("127.0.0.1:3141", &gated.gateway.to_string());
        let site = site.replace("{host}:80", &origin.http.to_string());
        let file = dir.join("Caddyfile");
        let text = format!("{{\n\tadmin off\n\tauto_https off\n}}\n{site}");
        fs::write(&file, text).expect("it can be written");
        let mut command = clean(program("caddy"));
        command.args(["run", "--adapter", "caddyfile", "--config"]).arg(file);
        // It keeps files in the home folder.
        command.env("HOME", dir).env("XDG_DATA_HOME", dir).env("XDG_CONFIG_HOME", dir);
        command
    })
}

#[test]
fn caddy_sends_what_is_allowed_and_fails_closed() {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    let gated = Gated::start(&origin);
    let caddy = caddy(&gated, &origin);
    expect_obedience(gated, &origin, &caddy);
}

fn traefik(gated: &Gated, origin: &Origin) -> Program {
    let middleware = block(DOCUMENT, "yaml", "forwardAuth");
    let middleware = middleware.replace("127.0.0.1:3141", &gated.gateway.to_string());
    Program::start(|address, dir| {
        let file = dir.join("sites.yml");
        let text = format!(
            "{middleware}  routers:\n    all:\n      rule: PathPrefix(`/`)\n      service: origin\n      middlewares: [wayleave]\n  \
             services:\n    origin:\n      loadBalancer:\n        servers:\n        - url: http://{}\n",
            origin.http
        );
        fs::write(&file, text).expect("it can be written");
        let mut command = clean(gateway_program("traefik"));
        command.arg(format!("--entryPoints.web.address={address}"));
        command.arg(format!("--providers.file.filename={}", file.display()));
        command.args(["--global.checkNewVersion=false", "--global.sendAnonymousUsage=false"]);
        command
    })
}

#[test]
fn traefik_sends_what_is_allowed_and_fails_closed() {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    let gated = Gated::start(&origin);
    let traefik = traefik(&gated, &origin);
    // It listens before it has read the file.
    crate::harness::eventually("it has its middleware", || get(traefik.address, "/a", "") == 200);
    expect_obedience(gated, &origin, &traefik);
}

fn cluster(name: &str, address: SocketAddr) -> String {
    format!(
        "- name: {name}\n  load_assignment:\n    cluster_name: {name}\n    endpoints: [{{ lb_endpoints: [{{ endpoint: \
         {{ address: {{ socket_address: {{ address: {}, port_value: {} }} }} }} }}] }}]\n",
        address.ip(),
        address.port()
    )
}

/// Starts Envoy with filters, and the clusters for them.
fn envoy(filters: &str, clusters: &str, origin: &Origin) -> Program {
    let filters = indented(filters.trim_start_matches("http_filters:\n"), 10);
    let clusters = indented(&(cluster("origin", origin.http) + clusters), 2);
    Program::start(|address, dir| envoy_command(address, dir, &filters, &clusters))
}

fn indented(text: &str, spaces: usize) -> String {
    text.lines().map(|line| format!("{:spaces$}{line}\n", "")).collect()
}

fn envoy_command(
    address: SocketAddr,
    dir: &Path,
    filters: &str,
    clusters: &str,
) -> std::process::Command {
    const MANAGER: &str =
        "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let text = format!(
        "static_resources:\n  listeners:\n  - address: {{ socket_address: {{ address: {}, port_value: {} }} }}\n    filter_chains:\n    \
         - filters:\n      - name: envoy.filters.network.http_connection_manager\n        typed_config:\n          \
         \"@type\": type.googleapis.com/{MANAGER}\n          stat_prefix: forward\n          use_remote_address: true\n          \
         route_config:\n            virtual_hosts:\n            - name: all\n              domains: [\"*\"]\n              \
         routes: [{{ match: {{ prefix: \"/\" }}, route: {{ cluster: origin }} }}]\n          http_filters:\n{filters}          \
         - name: envoy.filters.http.router\n            typed_config:\n              \
         \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router\n  clusters:\n{clusters}",
        address.ip(),
        address.port()
    );
    let file = dir.join("envoy.yaml");
    fs::write(&file, text).expect("it can be written");
    let mut command = clean(gateway_program("envoy"));
    // Several run at a time, so they share no memory for restarts.
    command.args(["--disable-hot-restart", "--concurrency", "1", "--config-path"]).arg(file);
    command
}

#[test]
fn envoy_sends_what_is_allowed_by_grpc_and_fails_closed() {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    let (gated, grpc) = Gated::start_both(&origin, |settings| settings);
    let recipe = block(DOCUMENT, "yaml", "explicit_http_config");
    let (filters, clusters) = recipe.split_once("clusters:\n").expect("it has both");
    let port = format!("port_value: {}", grpc.port());
    let envoy = envoy(filters, &clusters.replace("port_value: 3140", &port), &origin);
    expect_obedience(gated, &origin, &envoy);
}

#[test]
fn envoy_sends_what_is_allowed_by_http_and_fails_closed() {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    let gated = Gated::start(&origin);
    let filters = block(DOCUMENT, "yaml", "http_service");
    let clusters = cluster("wayleave", gated.gateway);
    let envoy = envoy(&filters, &clusters, &origin);
    expect_obedience(gated, &origin, &envoy);
}
