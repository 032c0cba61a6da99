//! Access to the admin listener: loopback, the token, and requests from other sites.

use std::time::Duration;

use crate::harness::tools;
use crate::harness::wayleave::command;
use crate::harness::{Origin, Response, Wayleave, Wire, eventually};

const TOKEN: &str = "2f0c1d6a0d6b43a8b0c54e3d1f0a9b87";
/// The output of `printf %s TOKEN | sha256sum`.
const TOKEN_SHA256: &str = "\"66a86ca606fc451721d2f1011b92cf7524622a06a55739d1e0f0064437f0600d\"";

fn send(proxy: &Wayleave, method: &str, path: &str, fields: &[(&str, &str)]) -> Response {
    let mut wire = Wire::connect(proxy.admin);
    let fields: String =
        fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    wire.send(format!(
        "{method} {path} HTTP/1.1\r\n{fields}Content-Length: 0\r\nConnection: close\r\n\r\n"
    ));
    wire.response()
}

#[test]
fn a_listener_for_other_machines_needs_a_token() {
    let dir = tempfile::tempdir().expect("a directory");
    let check = |arguments: &[&str], text: &str| {
        std::fs::write(dir.path().join("my.toml"), text).expect("writable");
        let mut command = command();
        command.args(arguments).args(["--config", "my.toml"]);
        tools::run(command.current_dir(dir.path()), b"", Duration::from_secs(120))
    };
    let open = "[admin]\nlisten = \"0.0.0.0:3129\"\n";
    for arguments in [&["config", "check"][..], &["serve"]] {
        let output = check(arguments, open);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.starts_with("my.toml:2: admin.listen: "), "{stderr}");
        assert!(stderr.contains("admin.token_sha256"), "{stderr}");
    }
    let closed = format!("{open}token_sha256 = {TOKEN_SHA256}\n");
    let output = check(&["config", "check"], &closed);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn all_but_public_paths_need_the_token() {
    let origin = Origin::start();
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.set("admin.token_sha256", TOKEN_SHA256));
    let host = ("Host", "wayleave.example");
    for path in ["/metrics", "/v1/decisions", "/v1/decisions/stream", "/v1/robots"] {
        let refused = send(&proxy, "GET", path, &[host]);
        assert_eq!(refused.status, 401, "{path}");
        assert!(refused.header("www-authenticate").is_some(), "{path}");
    }
    let wrong = ("Authorization", "Bearer 2f0c1d6a0d6b43a8b0c54e3d1f0a9b88");
    assert_eq!(send(&proxy, "GET", "/metrics", &[host, wrong]).status, 401);
    assert_eq!(send(&proxy, "POST", "/v1/reload", &[host]).status, 401);
    for path in ["/livez", "/readyz", "/ca.pem", "/proxy.pac"] {
        assert_eq!(send(&proxy, "GET", path, &[host]).status, 200, "{path}");
    }
    let token = format!("Bearer {TOKEN}");
    let token = ("Authorization", token.as_str());
    assert_eq!(send(&proxy, "GET", "/metrics", &[host, token]).status, 200);
}

#[test]
fn commands_send_the_token_of_the_environment() {
    let origin = Origin::start();
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.set("admin.token_sha256", TOKEN_SHA256));
    proxy.get("http://shop.test/");
    let file = proxy.config_with_ports();
    let list = |token: Option<&str>| {
        let mut command = command();
        command.args(["robots", "list", "--config"]).arg(&file);
        match token {
            Some(token) => command.env("WAYLEAVE_ADMIN_TOKEN", token),
            None => command.env_remove("WAYLEAVE_ADMIN_TOKEN"),
        };
        let output = tools::run(&mut command, b"", Duration::from_secs(120));
        (output.status.code(), tools::both_streams(&output))
    };
    let (status, printed) = list(Some(TOKEN));
    assert!(status == Some(0) && printed.contains("http://shop.test"), "{printed}");
    let mut replay = command();
    replay.args(["replay", "--config"]).arg(&file).env("WAYLEAVE_ADMIN_TOKEN", "guess");
    let output = tools::run(&mut replay, b"", Duration::from_secs(120));
    let printed = tools::both_streams(&output);
    assert_eq!(output.status.code(), Some(2), "not: nothing can be decided: {printed}");
    assert!(printed.contains("WAYLEAVE_ADMIN_TOKEN"), "{printed}");
    for wrong in [None, Some("guess")] {
        let (status, printed) = list(wrong);
        assert!(status == Some(2) && printed.contains("WAYLEAVE_ADMIN_TOKEN"), "{printed}");
        let names_wrong_token = printed.contains("does not contain the token");
        assert_eq!(names_wrong_token, wrong.is_some(), "{printed}");
    }
    let host = ("Host", "wayleave.test");
    let missing = send(&proxy, "GET", "/metrics", &[host]);
    assert_eq!(missing.header("www-authenticate"), Some("Bearer realm=\"wayleave\""));
    let guess = ("Authorization", "Bearer guess");
    let wrong = send(&proxy, "GET", "/metrics", &[host, guess]);
    let challenge = "Bearer realm=\"wayleave\", error=\"invalid_token\"";
    assert_eq!((wrong.status, wrong.header("www-authenticate")), (401, Some(challenge)));
    assert_ne!(wrong.text(), missing.text());
}

#[test]
fn other_sites_and_other_host_names_are_refused() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let own = proxy.admin.to_string();
    let own = ("Host", own.as_str());
    let statuses = [
        (vec![own], 200),
        (vec![("Host", "localhost")], 200),
        (vec![("Host", "rebound.test")], 421),
        (vec![own, ("Sec-Fetch-Site", "cross-site")], 403),
        (vec![own, ("Sec-Fetch-Site", "same-site")], 403),
        (vec![own, ("Sec-Fetch-Site", "same-origin")], 200),
        (vec![own, ("Origin", "http://other.test")], 403),
        (vec![own, ("Origin", "null")], 403),
    ];
    for (fields, expected) in statuses {
        for (method, path) in
            [("GET", "/v1/decisions"), ("DELETE", "/v1/robots/http%3A%2F%2Fa.test")]
        {
            let status = send(&proxy, method, path, &fields).status;
            // A request that passes the guard gets 404, because nothing is known about the origin.
            let expected = if method == "DELETE" && expected == 200 { 404 } else { expected };
            assert_eq!(status, expected, "{method} {path} {fields:?}");
        }
    }
}

#[test]
fn every_response_has_a_strict_content_security_policy() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    for path in ["/metrics", "/v1/decisions", "/ca.pem", "/nothing-here"] {
        let answer = proxy.admin_get(path);
        let policy = answer.header("content-security-policy").unwrap_or_default();
        assert!(policy.contains("default-src 'none'"), "{path}: {policy}");
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
    }
}

#[test]
fn a_stream_ends_with_the_rights_of_its_token() {
    let origin = Origin::start();
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.set("admin.token_sha256", TOKEN_SHA256));
    let mut wire = Wire::connect(proxy.admin);
    wire.send(format!(
        "GET /v1/decisions/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    ));
    assert_eq!(wire.response_head().status, 200);
    let mut text = String::new();
    proxy.get("http://shop.test/before");
    while !text.contains("/before") {
        text += &String::from_utf8_lossy(&wire.bytes(1));
    }
    let other = format!("{:?}", "0".repeat(64));
    proxy.write_config(&proxy.settings.clone().set("admin.token_sha256", &other).to_toml());
    let token = format!("Bearer {TOKEN}");
    let fields = [("Host", "localhost"), ("Authorization", token.as_str())];
    eventually("the token is no longer valid", || {
        send(&proxy, "GET", "/metrics", &fields).status == 401
    });
    proxy.get("http://shop.test/after");
    let mut rest = Vec::new();
    while !rest.ends_with(b"0\r\n\r\n") {
        rest.extend(wire.bytes(1));
    }
    assert!(!String::from_utf8_lossy(&rest).contains("/after"));
}
