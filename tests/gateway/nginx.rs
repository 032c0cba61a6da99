//! nginx as a forward proxy for one site, which asks by `auth_request`.

use std::fs;

use super::{Gated, ROBOTS};
use crate::harness::Origin;
use crate::harness::client::raw;
use crate::harness::tools::{clean, sbin};
use crate::requests::upstream::programs::Program;

/// The recipe of docs/gateways.md, for one origin.
fn nginx(gated: &Gated, origin: &Origin) -> Program {
    Program::start(|address, dir| {
        let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let places: String = kinds.map(|kind| format!("{kind}_temp_path {kind};\n")).concat();
        let text = format!(
            "daemon off; master_process off; pid pid; events {{}}\nhttp {{ access_log off;\n{places}\
             server {{ listen {address}; merge_slashes off;\n\
             location / {{ auth_request /wayleave; proxy_pass http://{};\n\
             proxy_set_header Host $http_host; }}\n\
             location = /wayleave {{ internal; proxy_pass http://{}/forwarded;\n\
             proxy_pass_request_body off; proxy_set_header Content-Length \"\";\n\
             proxy_set_header X-Forwarded-Method $request_method;\n\
             proxy_set_header X-Forwarded-Proto $scheme;\n\
             proxy_set_header X-Forwarded-Host $http_host;\n\
             proxy_set_header X-Forwarded-Uri $request_uri;\n\
             proxy_set_header X-Forwarded-For $remote_addr; }} }} }}\n",
            origin.http, gated.gateway
        );
        let config = dir.join("nginx.conf");
        fs::write(&config, text).expect("it can be written");
        let mut command = clean(sbin("nginx"));
        command.arg("-e").arg(dir.join("log")).arg("-p").arg(dir).arg("-c").arg(config);
        command
    })
}

#[test]
fn nginx_sends_what_is_allowed_and_fails_closed() {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    let gated = Gated::start(&origin);
    let nginx = nginx(&gated, &origin);
    let get = |target: &str, fields: &str| {
        let head = format!(
            "GET {target} HTTP/1.1\r\nHost: shop.test\r\n{fields}Connection: close\r\n\r\n"
        );
        raw(nginx.address, head).expect("an answer").status
    };
    assert_eq!(get("/a?b=%2f", ""), 200);
    assert_eq!(get("/private", ""), 403);
    assert_eq!(get("/a/%2e%2e/private", ""), 403);
    // nginx replaces what its client says of this kind, and passes the rest on, to us as to the origin.
    assert_eq!(get("/private", "X-Forwarded-Uri: /a\r\nX-Forwarded-Method: HEAD\r\n"), 403);
    assert_ne!(get("/a", "X-Original-URL: /private\r\n"), 200);
    let seen = origin.seen();
    let pages: Vec<_> = seen.iter().filter(|line| !line.ends_with("/robots.txt")).collect();
    assert_eq!(pages, ["GET http://shop.test/a?b=%2f"]);
    drop(gated.proxy.kill());
    assert_eq!(get("/a", ""), 500);
    assert_eq!(origin.seen().len(), seen.len());
}
